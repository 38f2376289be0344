// Package openverse is the search of Openverse: pictures under Creative Commons licenses, without a key or, with higher limits, for a
// registered application.
//
// It may never retry, ask anonymously where an application is configured, keep a token anywhere but in memory, or share a type with
// the server of its tests.
//
// Start reading at New; token.go gets and renews tokens, refusal.go reads what is refused.
package openverse

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/imagesearch"
)

// Config is an application, or nobody.
type Config struct {
	URL        string // empty: Openverse's
	ID, Secret string // of the application; both empty: anonymous
	Contact    string // whom its people can write to; empty: they are told nothing

	First, Silence time.Duration // until the first byte of a response, and between its bytes; 0: 30 s
	HTTP           *http.Client
	Now            func() time.Time // nil: this machine's clock
}

const (
	name    = "openverse"
	ownURL  = "https://api.openverse.org"
	path    = "/v1/images/"
	timeout = 30 * time.Second
)

type searcher struct {
	rest *rest.Client
	app  *application // nil: anonymous
}

// New is a searcher. Nothing is asked for yet.
func New(c Config) imagesearch.Searcher {
	s := &searcher{rest: &rest.Client{
		URL: cmp.Or(c.URL, ownURL), Secrets: []string{c.Secret}, HTTP: c.HTTP, First: cmp.Or(c.First, timeout),
		Silence: cmp.Or(c.Silence, timeout), Now: c.Now, Header: map[string]string{"User-Agent": "pawl"},
	}}
	if c.Contact != "" {
		s.rest.Header["User-Agent"] = "pawl (" + c.Contact + ")"
	}
	if c.ID != "" || c.Secret != "" {
		s.app = newApplication(c, s.rest)
	}
	return s
}

func (s *searcher) Name() string { return name }

// answer is https://api.openverse.org/v1/, as far as it is read.
type answer struct {
	Results []json.RawMessage `json:"results"`
}

type item struct {
	Title     string `json:"title"`
	URL       string `json:"url"`
	Thumbnail string `json:"thumbnail"`
	Landing   string `json:"foreign_landing_url"`
	Mature    bool   `json:"mature"`
}

func (s *searcher) Search(ctx context.Context, q imagesearch.Query) ([]imagesearch.Result, error) {
	if err := q.Check(name); err != nil {
		return nil, err
	}
	if s.app != nil && (s.app.id == "" || s.app.secret == "") {
		return nil, imagesearch.Unset(name, "an application has an id and a secret")
	}
	raw, err := s.ask(ctx, url.Values{"q": {q.Text}, "page_size": {strconv.Itoa(q.Count)}})
	if err != nil {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, imagesearch.Strange(name, err.Error())
	}
	if a.Results == nil {
		return nil, imagesearch.Strange(name, "no results, not even none")
	}
	return imagesearch.Results(name, a.Results, q.Count, func(i item) imagesearch.Result {
		return imagesearch.Result{
			ImageURL: i.URL, ThumbnailURL: i.Thumbnail, ContextURL: i.Landing, Title: i.Title, Sensitive: i.Mature,
		}
	})
}

// ask makes a request, as the application where there is one.
func (s *searcher) ask(ctx context.Context, query url.Values) (json.RawMessage, error) {
	if s.app == nil {
		raw, err := s.rest.Get(ctx, path, query)
		return raw, fault(err)
	}
	t, fresh, err := s.app.token(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := s.app.as(t).Get(ctx, path, query)
	var e *rest.Error
	if errors.As(err, &e) && e.Status == http.StatusUnauthorized && !fresh {
		if err := s.app.drop(ctx, t); err != nil {
			return nil, err
		}
		return nil, imagesearch.Failure{
			Source: name, Code: pawl.CodeUnavailable, Status: e.Status, Text: "the token is no longer taken: the next search gets a new one", After: 0,
		}.Fault()
	}
	return raw, fault(err)
}
