package openverse_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"unicode/utf8"

	"pawl"
	"pawl/ports/imagesearch"
	"pawl/ports/imagesearch/imagesearchtest"
	"pawl/ports/imagesearch/openverse"
)

// What follows is Openverse's side, written from https://api.openverse.org/v1/ and the code that serves it,
// https://github.com/WordPress/openverse (api/api/serializers, api/api/utils/throttle.py, api/api/constants/restricted_features.py):
// every parameter that is not there is a fault of the client.

// anonymous is what nobody in particular gets.
func anonymous() imagesearchtest.Wire {
	return imagesearchtest.Wire{
		Name: "openverse",
		Open: func(s imagesearchtest.Setup) imagesearch.Searcher {
			return openverse.New(openverse.Config{URL: s.URL, First: s.First, Silence: s.Silence, Now: s.Now})
		},
		Hear:  func(r *http.Request) (imagesearch.Query, error) { return hear(r, "", 20) },
		Whole: whole, Refusals: refusals(), Keyless: true,
	}
}

func hear(r *http.Request, authorization string, largest int) (q imagesearch.Query, err error) {
	p, err := imagesearchtest.Params(r, "/v1/images/", "q", "page_size", "page", "source", "license", "filter_dead", "mature")
	if err != nil {
		return q, err
	}
	if got := r.Header.Get("Authorization"); got != authorization {
		return q, fmt.Errorf("authorization %q", got)
	}
	q = imagesearch.Query{Text: p.Get("q"), Count: 20}
	if p.Has("page_size") {
		if q.Count, err = strconv.Atoi(p.Get("page_size")); err != nil || q.Count < 1 || q.Count > largest {
			return q, fmt.Errorf("page_size %s, of at most %d", p.Get("page_size"), largest)
		}
	}
	if utf8.RuneCountInString(q.Text) > 200 {
		return q, fmt.Errorf("only the first 200 characters would be searched")
	}
	if p.Get("mature") == "true" {
		return q, fmt.Errorf("offensive pictures may come back")
	}
	return q, nil
}

type doc = map[string]any

// nullable is a text, or null where there is none.
func nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func whole(found []imagesearch.Result) string {
	results := []doc{}
	for i, r := range found {
		results = append(results, doc{
			"id": fmt.Sprintf("4bc43a04-ef46-4544-a0c1-%012d", i), "title": nullable(r.Title), "indexed_on": "2022-08-27T17:39:48Z",
			"foreign_landing_url": nullable(r.ContextURL), "url": nullable(r.ImageURL), "thumbnail": nullable(r.ThumbnailURL),
			"creator": "Tim Sullivan", "creator_url": nil, "license": "cc0", "license_version": "1.0",
			"license_url": "https://creativecommons.org/publicdomain/zero/1.0/", "provider": "stocksnap", "source": "stocksnap",
			"category": "photograph", "filesize": 896128, "filetype": "jpg", "tags": []doc{{"accuracy": nil, "name": "tree"}},
			"attribution": "…", "fields_matched": []string{"title"}, "mature": r.Sensitive, "height": 4016, "width": nil,
		})
	}
	out, _ := json.Marshal(doc{"result_count": len(found), "page_count": 1, "page_size": 20, "page": 1, "results": results})
	return string(out)
}

func refusals() map[string]imagesearchtest.Refusal {
	throttled := func(available map[string]string) imagesearchtest.Refusal {
		h := http.Header{"Retry-After": {"48"}}
		h.Set("X-RateLimit-Limit-anon_burst", "20/min")
		h.Set("X-RateLimit-Limit-anon_sustained", "200/day")
		for scope, n := range available {
			h.Set("X-RateLimit-Available-"+scope, n)
		}
		return imagesearchtest.Refusal{Status: 429, Header: h, Body: `{"detail":"Request was throttled. Expected available in 48 seconds."}`}
	}
	return map[string]imagesearchtest.Refusal{
		pawl.CodeInvalid:            {Status: 400, Body: `{"detail":{"page_size":["Ensure this value is greater than or equal to 1. $KEY"]}}`},
		pawl.CodeForbidden:          {Status: 401, Body: `{"detail":"Ensure this value is less than or equal to 20."}`},
		imagesearch.CodeRateLimited: throttled(map[string]string{"anon_burst": "0", "anon_sustained": "112"}),
		imagesearch.CodeQuota:       throttled(map[string]string{"anon_burst": "3", "anon_sustained": "0"}),
		pawl.CodeUnavailable:        {Status: 503, Body: `{"detail":"Service temporarily unavailable"}`},

		pawl.CodeInvalid + " older":           {Status: 400, Body: `{"error":"InputError","detail":"Invalid input given for fields. 'q' -> no","fields":["q"]}`},
		imagesearch.CodeRateLimited + " bare": {Status: 429, Body: `{"detail":"Request was throttled. Expected available in 1 second."}`},
		pawl.CodeUnavailable + " html":        {Status: 502, Body: "<html><head><title>502 Bad Gateway</title></head></html>"},
	}
}

func TestLaw(t *testing.T) {
	t.Parallel()
	t.Run("anonymous", func(t *testing.T) { imagesearchtest.Run(t, anonymous()) })
	t.Run("application", func(t *testing.T) { imagesearchtest.Run(t, new(office).wire()) })
}

func FuzzAnswer(f *testing.F) { imagesearchtest.Fuzz(f, anonymous()) }

// TestSensitive: what the source flags stays flagged.
func TestSensitive(t *testing.T) {
	t.Parallel()
	found := imagesearchtest.Pictures(2)
	found[1].Sensitive = true
	s := imagesearchtest.NewSource(t, anonymous()).Play(imagesearchtest.Scene{Found: found})
	got, err := s.Searcher(imagesearchtest.Setup{}).Search(t.Context(), imagesearch.Query{Text: "a", Count: 5})
	if err != nil || len(got) != 2 || got[0].Sensitive || !got[1].Sensitive {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestAgent: whoever wants to be known is.
func TestAgent(t *testing.T) {
	t.Parallel()
	w := anonymous()
	w.Aside = func(_ http.ResponseWriter, r *http.Request) bool {
		if got := r.Header.Get("User-Agent"); got != "pawl (someone@example.org)" {
			t.Errorf("who is %q?", got)
		}
		return false
	}
	s := imagesearchtest.NewSource(t, w).Play(imagesearchtest.Scene{})
	m := openverse.New(openverse.Config{URL: s.URL, Contact: "someone@example.org"})
	if _, err := m.Search(t.Context(), imagesearch.Query{Text: "a", Count: 1}); err != nil || len(s.Heard()) != 1 {
		t.Error(err)
	}
}
