// Package openai is the models of OpenAI and of all that speak its chat completions: Groq, Ollama, vLLM, Workers AI.
//
// It is plain HTTP (internal/rest) because the official client adds 36 MB to the program for one request, and no client lets us
// see what we promise: the Date beside Retry-After, silence between bytes, a bound on what is read, no second attempt. It may
// never retry, hold a model's name, or share a type with the server of its tests.
//
// Start reading at New; request.go writes what is asked, response.go reads what is answered, refusal.go what is refused.
package openai

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"pawl/internal/rest"
	"pawl/ports/llm"
)

// Dialect is where those who speak the format differ.
type Dialect int

// The dialects.
const (
	Own        Dialect = iota // OpenAI's: max_completion_tokens
	Compatible                // of most others: max_tokens
	WorkersAI                 // Cloudflare's: the form is the schema itself and never streamed, and 256 tokens are what one gets without a limit
)

// Config is one endpoint. Only Key is needed for OpenAI's own.
type Config struct {
	Provider string // as in the Ref of its models; empty: openai
	URL      string // to which /chat/completions is added; empty: OpenAI's
	Key      string // empty: none is sent
	Dialect  Dialect

	First, Silence time.Duration // until the first byte of a response, and between its bytes; 0: 90 s, 30 s
	HTTP           *http.Client
	Now            func() time.Time // nil: this machine's clock
}

const ownURL = "https://api.openai.com/v1"

type model struct {
	ref     llm.Ref
	dialect Dialect
	rest    *rest.Client
}

// New is a model at an endpoint. Nothing is asked for yet.
func New(c Config, name string) llm.Model {
	m := &model{
		ref: llm.Ref{Provider: cmp.Or(c.Provider, "openai"), Model: name}, dialect: c.Dialect,
		rest: &rest.Client{
			URL: cmp.Or(c.URL, ownURL), Secrets: []string{c.Key}, HTTP: c.HTTP, First: c.First, Silence: c.Silence, Now: c.Now,
		},
	}
	if c.Key != "" {
		m.rest.Header = map[string]string{"Authorization": "Bearer " + c.Key}
	}
	return m
}

const path = "/chat/completions"

func (m *model) Ref() llm.Ref { return m.ref }

func (m *model) Generate(ctx context.Context, r llm.Request) (llm.Response, error) {
	ctx, stop := rest.Within(ctx, r.Within)
	defer stop()
	raw, err := m.rest.Post(ctx, path, m.request(r, false))
	if err != nil {
		return llm.Response{}, m.fault(err)
	}
	var a answer
	if err := a.add(raw, nil); err != nil {
		return llm.Response{}, m.fault(err)
	}
	return m.response(&a)
}

func (m *model) Stream(ctx context.Context, r llm.Request, tell func(llm.Delta)) (llm.Response, error) {
	if m.dialect == WorkersAI && r.Format != nil {
		resp, err := m.Generate(ctx, r)
		if text := resp.Message.Text(); text != "" {
			tell(llm.Delta{Text: text})
		}
		return resp, err
	}
	var a answer
	ctx, stop := rest.Within(ctx, r.Within)
	defer stop()
	err := m.rest.Stream(ctx, path, m.request(r, true), func(e rest.Event) error {
		if string(e.Data) == "[DONE]" {
			return rest.ErrDone
		}
		return a.add(e.Data, tell)
	})
	if err != nil {
		return llm.Response{}, m.fault(err)
	}
	return m.response(&a)
}

func (m *model) response(a *answer) (llm.Response, error) {
	resp, err := a.response(m.ref)
	if err != nil {
		return llm.Response{}, m.fault(err)
	}
	return resp, nil
}

func (m *model) fault(err error) error {
	return llm.FaultOf(m.ref, m.rest.Fault(err), explain)
}
