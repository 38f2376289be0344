// Package googlecse is the image search of Google's Custom Search JSON API, for those who still have it: it is closed to new
// customers, and ends for all on 2027-01-01 (https://developers.google.com/custom-search/v1/overview).
//
// It may never be what is used where nothing is configured, retry, ask with a second key where the first has no more, or share a type
// with the server of its tests.
//
// Start reading at New; refusal.go reads what is refused.
package googlecse

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

// Config is a search engine of an account. Key and Engine are needed.
type Config struct {
	URL    string // empty: Google's
	Key    string
	Engine string // its id, cx

	First, Silence time.Duration // until the first byte of a response, and between its bytes; 0: 30 s
	HTTP           *http.Client
	Now            func() time.Time // nil: this machine's clock
}

const (
	name    = "googlecse"
	ownURL  = "https://www.googleapis.com"
	path    = "/customsearch/v1"
	timeout = 30 * time.Second
)

type searcher struct {
	rest    *rest.Client
	account *Config // not in the searcher itself: who prints it prints no key
}

// New is a searcher. Nothing is asked for yet.
func New(c Config) imagesearch.Searcher {
	return &searcher{account: &c, rest: &rest.Client{
		URL: cmp.Or(c.URL, ownURL), Secrets: []string{c.Key}, HTTP: c.HTTP, First: cmp.Or(c.First, timeout),
		Silence: cmp.Or(c.Silence, timeout), Now: c.Now,
	}}
}

func (s *searcher) Name() string { return name }

// answer is https://developers.google.com/custom-search/v1/reference/rest/v1/Search, as far as it is read. Where nothing is found,
// there are no items at all.
type answer struct {
	Kind  string            `json:"kind"`
	Items []json.RawMessage `json:"items"`
}

type item struct {
	Title string `json:"title"`
	Link  string `json:"link"`
	Image struct {
		Context   string `json:"contextLink"`
		Thumbnail string `json:"thumbnailLink"`
	} `json:"image"`
}

func (s *searcher) Search(ctx context.Context, q imagesearch.Query) ([]imagesearch.Result, error) {
	if err := q.Check(name); err != nil {
		return nil, err
	}
	if s.account.Key == "" || s.account.Engine == "" {
		return nil, imagesearch.Unset(name, "it needs a key and the id of a search engine")
	}
	raw, err := s.rest.Get(ctx, path, url.Values{
		"key": {s.account.Key}, "cx": {s.account.Engine}, "q": {q.Text}, "searchType": {"image"}, "num": {strconv.Itoa(q.Count)},
		"safe": {"active"},
	})
	if err != nil {
		return nil, imagesearch.FaultOf(name, err, explain)
	}
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, imagesearch.Strange(name, err.Error())
	}
	if a.Kind != "customsearch#search" {
		return nil, imagesearch.Strange(name, "it is no customsearch#search")
	}
	return imagesearch.Results(name, a.Items, q.Count, func(i item) imagesearch.Result {
		return imagesearch.Result{
			ImageURL: i.Link, ThumbnailURL: i.Image.Thumbnail, ContextURL: i.Image.Context, Title: imagesearch.Plain(i.Title),
		}
	})
}
