// Package gemini is the models of Google's Gemini API, by generateContent.
//
// It is plain HTTP (internal/rest): the official client adds 5 MB to the program, shows no headers of a refusal, and reads parts
// into types of its own, so that what it does not know is lost on the way back. It may never retry, hold a model's name, or share a
// type with the server of its tests.
//
// Start reading at New; request.go writes what is asked, response.go reads what is answered, refusal.go what is refused.
package gemini

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"pawl/internal/rest"
	"pawl/ports/llm"
)

// Config is one account. Only Key is needed.
type Config struct {
	Provider string // as in the Ref of its models; empty: gemini
	URL      string // to which /models/… is added; empty: Google's
	Key      string

	First, Silence time.Duration // until the first byte of a response, and between its bytes; 0: 90 s, 30 s
	HTTP           *http.Client
	Now            func() time.Time // nil: this machine's clock
}

const ownURL = "https://generativelanguage.googleapis.com/v1beta"

type model struct {
	ref  llm.Ref
	path string
	rest *rest.Client
}

// New is a model of an account. Nothing is asked for yet.
func New(c Config, name string) llm.Model {
	path := "/models/" + url.PathEscape(name)
	if strings.HasPrefix(name, "models/") || strings.HasPrefix(name, "tunedModels/") {
		path = "/" + name
	}
	return &model{
		ref: llm.Ref{Provider: cmp.Or(c.Provider, "gemini"), Model: name}, path: path,
		rest: &rest.Client{
			URL: cmp.Or(c.URL, ownURL), Header: map[string]string{"x-goog-api-key": c.Key}, Secrets: []string{c.Key}, HTTP: c.HTTP,
			First: c.First, Silence: c.Silence, Now: c.Now,
		},
	}
}

func (m *model) Ref() llm.Ref { return m.ref }

func (m *model) Generate(ctx context.Context, r llm.Request) (llm.Response, error) {
	ctx, stop := rest.Within(ctx, r.Within)
	defer stop()
	raw, err := m.rest.Post(ctx, m.path+":generateContent", body(r))
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
	var a answer
	ctx, stop := rest.Within(ctx, r.Within)
	defer stop()
	err := m.rest.Stream(ctx, m.path+":streamGenerateContent?alt=sse", body(r), func(e rest.Event) error { return a.add(e.Data, tell) })
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
