// Package brave is the image search of the Brave Search API, which has an index of its own.
//
// It may never retry, ask with a second key where the first has no more, let a name be corrected to another one, or share a type with
// the server of its tests.
//
// Start reading at New; refusal.go reads what is refused.
package brave

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"pawl/internal/rest"
	"pawl/ports/imagesearch"
)

// Config is an account. Only Key is needed.
type Config struct {
	URL string // empty: Brave's
	Key string

	First, Silence time.Duration // until the first byte of a response, and between its bytes; 0: 30 s, as Brave recommends
	HTTP           *http.Client
	Now            func() time.Time // nil: this machine's clock
}

const (
	name    = "brave"
	ownURL  = "https://api.search.brave.com"
	path    = "/res/v1/images/search"
	timeout = 30 * time.Second
)

type searcher struct {
	rest  *rest.Client
	unset bool
}

// New is a searcher. Nothing is asked for yet.
func New(c Config) imagesearch.Searcher {
	return &searcher{unset: c.Key == "", rest: &rest.Client{
		URL: cmp.Or(c.URL, ownURL), Header: map[string]string{"X-Subscription-Token": c.Key}, Secrets: []string{c.Key}, HTTP: c.HTTP,
		First: cmp.Or(c.First, timeout), Silence: cmp.Or(c.Silence, timeout), Now: c.Now,
	}}
}

func (s *searcher) Name() string { return name }

// answer is https://github.com/brave/brave-search-skills (images-search), as far as it is read. All may be missing.
type answer struct {
	Results []json.RawMessage `json:"results"`
	Extra   struct {
		Offensive bool `json:"might_be_offensive"`
	} `json:"extra"`
}

type item struct {
	Title     string `json:"title"`
	URL       string `json:"url"`
	Thumbnail struct {
		Src string `json:"src"`
	} `json:"thumbnail"`
	Properties struct {
		URL string `json:"url"`
	} `json:"properties"`
}

func (s *searcher) Search(ctx context.Context, q imagesearch.Query) ([]imagesearch.Result, error) {
	if err := q.Check(name); err != nil {
		return nil, err
	}
	if s.unset {
		return nil, imagesearch.Unset(name, "it needs a key")
	}
	raw, err := s.rest.Get(ctx, path, url.Values{
		"q": {q.Text}, "count": {strconv.Itoa(q.Count)}, "safesearch": {"strict"}, "spellcheck": {"false"}, "country": {"ALL"},
	})
	if err != nil {
		return nil, fault(err)
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
			ImageURL: i.Properties.URL, ThumbnailURL: i.Thumbnail.Src, ContextURL: i.URL, Title: imagesearch.Plain(i.Title),
			Sensitive: a.Extra.Offensive, // of the answer as a whole, although the strict filter was asked for
		}
	})
}
