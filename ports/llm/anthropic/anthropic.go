// Package anthropic is the models of Anthropic, by its Messages API.
//
// It is plain HTTP (internal/rest): the official client adds 18 MB to the program for one request. It may never retry, hold a
// model's name, or share a type with the server of its tests.
//
// Start reading at New; request.go writes what is asked, response.go reads what is answered, refusal.go what is refused.
package anthropic

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"pawl/internal/rest"
	"pawl/ports/llm"
)

// Config is one account. Only Key is needed.
type Config struct {
	Provider string // as in the Ref of its models; empty: anthropic
	URL      string // to which /messages is added; empty: Anthropic's
	Key      string

	First, Silence time.Duration // until the first byte of a response, and between its bytes; 0: 90 s, 30 s
	HTTP           *http.Client
	Now            func() time.Time // nil: this machine's clock
}

const (
	ownURL  = "https://api.anthropic.com/v1"
	version = "2023-06-01" // https://platform.claude.com/docs/en/api/versioning
	path    = "/messages"
)

type model struct {
	ref  llm.Ref
	rest *rest.Client
}

// New is a model of an account. Nothing is asked for yet.
func New(c Config, name string) llm.Model {
	return &model{
		ref: llm.Ref{Provider: cmp.Or(c.Provider, "anthropic"), Model: name},
		rest: &rest.Client{
			URL: cmp.Or(c.URL, ownURL), Header: map[string]string{"x-api-key": c.Key, "anthropic-version": version}, Secrets: []string{c.Key},
			HTTP: c.HTTP, First: c.First, Silence: c.Silence, Now: c.Now,
		},
	}
}

func (m *model) Ref() llm.Ref { return m.ref }

func (m *model) Generate(ctx context.Context, r llm.Request) (llm.Response, error) {
	ctx, stop := rest.Within(ctx, r.Within)
	defer stop()
	raw, err := m.rest.Post(ctx, path, m.request(r, false))
	if err != nil {
		return llm.Response{}, m.fault(err)
	}
	var a answer
	if err := a.whole(raw); err != nil {
		return llm.Response{}, m.fault(err)
	}
	return m.response(&a)
}

func (m *model) Stream(ctx context.Context, r llm.Request, tell func(llm.Delta)) (llm.Response, error) {
	a := answer{streamed: true}
	ctx, stop := rest.Within(ctx, r.Within)
	defer stop()
	err := m.rest.Stream(ctx, path, m.request(r, true), func(e rest.Event) error { return a.add(e.Data, tell) })
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
