package commons_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"pawl"
	"pawl/ports/imagesearch"
	"pawl/ports/imagesearch/commons"
	"pawl/ports/imagesearch/imagesearchtest"
)

// What follows is MediaWiki's side, written from https://www.mediawiki.org/wiki/API:Search, https://www.mediawiki.org/wiki/API:Imageinfo,
// https://www.mediawiki.org/wiki/Manual:Maxlag_parameter and https://www.mediawiki.org/wiki/API:Errors_and_warnings: every parameter
// that is not there is a fault of the client (MediaWiki itself would only warn).

func open(s imagesearchtest.Setup) imagesearch.Searcher {
	return commons.New(commons.Config{
		URL: s.URL, Contact: "someone@example.org", Version: "1.2", First: s.First, Silence: s.Silence, Now: s.Now,
	})
}

func wire() imagesearchtest.Wire {
	return imagesearchtest.Wire{
		Name: "commons", Open: open, Hear: hear, Whole: whole, Refusals: refusals(), Keyless: true, Unmetered: true,
	}
}

func hear(r *http.Request) (q imagesearch.Query, err error) {
	p, err := imagesearchtest.Params(r, "/w/api.php", "action", "format", "formatversion", "maxlag", "generator", "gsrsearch", "gsrnamespace",
		"gsrlimit", "prop", "iiprop", "iiextmetadatafilter", "iiurlwidth")
	if err != nil {
		return q, err
	}
	for name, want := range map[string]string{
		"action": "query", "format": "json", "formatversion": "2", "generator": "search", "gsrnamespace": "6", "prop": "imageinfo", "maxlag": "5",
	} {
		if p.Get(name) != want {
			return q, fmt.Errorf("badvalue: %s=%s", name, p.Get(name))
		}
	}
	for part := range strings.SplitSeq(p.Get("iiprop"), "|") {
		if !slices.Contains([]string{"timestamp", "user", "url", "size", "mime", "extmetadata"}, part) {
			return q, fmt.Errorf("badvalue: iiprop %s", part)
		}
	}
	if !slices.Contains([]string{"20", "40", "60", "120", "250", "330", "500", "960", "1280", "1920", "3840"}, p.Get("iiurlwidth")) {
		return q, fmt.Errorf("a width that is not kept ready: %s", p.Get("iiurlwidth"))
	}
	if agent := r.Header.Get("User-Agent"); agent != "pawl/1.2 (someone@example.org)" {
		return q, fmt.Errorf("who is %q?", agent)
	}
	if utf8.RuneCountInString(p.Get("gsrsearch")) > 300 {
		return q, errors.New("cirrussearch-query-too-long")
	}
	q.Count, err = strconv.Atoi(p.Get("gsrlimit"))
	if err != nil || q.Count < 1 || q.Count > 500 {
		return q, fmt.Errorf("badinteger: gsrlimit %s", p.Get("gsrlimit"))
	}
	var photos bool
	if q.Text, photos = strings.CutPrefix(p.Get("gsrsearch"), "filetype:bitmap "); !photos {
		return q, errors.New("sounds and books may come back")
	}
	return q, nil
}

type doc = map[string]any

// whole is an answer with its pages in another order than found, as those of a generator come.
func whole(found []imagesearch.Result) string {
	if len(found) == 0 {
		return `{"batchcomplete":true}`
	}
	pages := []doc{}
	for i, r := range slices.Backward(found) {
		info := doc{"extmetadata": []any{}}
		for key, value := range map[string]string{"url": r.ImageURL, "thumburl": r.ImageURL, "descriptionurl": r.ContextURL} {
			if value != "" {
				info[key] = value
			}
		}
		if r.Title != "" {
			info["extmetadata"] = doc{"ObjectName": doc{"value": "<b>" + html.EscapeString(r.Title) + "</b>", "source": "mediawiki-metadata", "hidden": ""}}
		}
		pages = append(pages, doc{
			"pageid": 1000 + i, "ns": 6, "title": fmt.Sprintf("File:Some photo %d.jpg", i), "index": i + 1, "imagerepository": "local",
			"imageinfo": []doc{info},
		})
	}
	out, _ := json.Marshal(doc{
		"batchcomplete": true, "continue": doc{"gsroffset": len(found), "continue": "gsroffset||"}, "query": doc{"pages": pages},
	})
	return string(out)
}

// problem is an error as MediaWiki says it: with status 200.
func problem(code, info string, header http.Header) imagesearchtest.Refusal {
	body, _ := json.Marshal(doc{"error": doc{"code": code, "info": info, "docref": "See https://commons.wikimedia.org/w/api.php for API usage."}})
	return imagesearchtest.Refusal{Status: 200, Header: header, Body: string(body)}
}

func refusals() map[string]imagesearchtest.Refusal {
	return map[string]imagesearchtest.Refusal{
		pawl.CodeInvalid:            problem("cirrussearch-query-too-long", "Search request is longer than the maximum allowed length. (Actual: 301; allowed: 300)", nil),
		pawl.CodeForbidden:          {Status: 403, Body: "Please set a user-agent and respect our robot policy https://w.wiki/4wJS."},
		imagesearch.CodeRateLimited: problem("ratelimited", "You've exceeded your rate limit. Please wait some time and try again.", nil),
		pawl.CodeUnavailable: problem("maxlag", "Waiting for 10.64.0.1: 7.2 seconds lagged.",
			http.Header{"Retry-After": {"5"}, "X-Database-Lag": {"7"}}),

		pawl.CodeInvalid + " value":        problem("badvalue", `Unrecognized value for parameter "prop": x.`, nil),
		pawl.CodeInvalid + " action":       problem("unknown_action", `Unrecognized value for parameter "action": x.`, nil),
		pawl.CodeForbidden + " denied":     problem("readapidenied", "You need read permission to use this module.", nil),
		pawl.CodeUnavailable + " internal": problem("internal_api_error_DBQueryError", "[x] Caught exception of type DBQueryError", nil),
		imagesearch.CodeRateLimited + " 429": {Status: 429, Header: http.Header{"Retry-After": {"60"}, "Content-Type": {"text/html"}},
			Body: "<!DOCTYPE html>\n<title>Wikimedia Error</title><p>Too many requests (f061ab2)</p>"},
	}
}

func TestLaw(t *testing.T) {
	t.Parallel()
	imagesearchtest.Run(t, wire())
}

func FuzzAnswer(f *testing.F) { imagesearchtest.Fuzz(f, wire()) }

func search(t *testing.T, m imagesearch.Searcher) ([]imagesearch.Result, error) {
	return m.Search(t.Context(), imagesearch.Query{Text: "Marie Curie", Count: 5})
}

// TestContact: nobody asks without saying whom to write to.
func TestContact(t *testing.T) {
	t.Parallel()
	s := imagesearchtest.NewSource(t, wire()).Play(imagesearchtest.Scene{})
	if _, err := search(t, commons.New(commons.Config{URL: s.URL})); imagesearch.Code(err) != imagesearch.CodeUnset || len(s.Heard()) != 0 {
		t.Errorf("asked %d times, %v", len(s.Heard()), err)
	}
}

// TestSerial: however many search, one asks at a time.
func TestSerial(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int32
	w := wire()
	w.Aside = func(http.ResponseWriter, *http.Request) bool {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(5 * time.Millisecond) // while others could ask
		now.Add(-1)
		return false
	}
	s := imagesearchtest.NewSource(t, w).Play(imagesearchtest.Scene{Found: imagesearchtest.Pictures(2)})
	m := s.Searcher(imagesearchtest.Setup{})
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if got, err := search(t, m); err != nil || len(got) != 2 {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 || len(s.Heard()) != 6 {
		t.Errorf("%d asked at once, %d times", most.Load(), len(s.Heard()))
	}
}

// TestLeftAlone: after a Retry-After nobody asks until its time is over, whoever searches.
func TestLeftAlone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := imagesearchtest.NewSource(t, wire())
	m := s.Searcher(imagesearchtest.Setup{Now: func() time.Time { return now }})
	for _, refusal := range []imagesearchtest.Refusal{
		refusals()[pawl.CodeUnavailable],
		{Status: 429, Header: http.Header{"Retry-After": {"5"}}},
	} {
		s.Play(imagesearchtest.Scene{Refusal: &refusal})
		if _, err := search(t, m); err == nil {
			t.Fatal("not refused")
		} else if after, _ := pawl.Retryable(err); after != 5*time.Second {
			t.Errorf("after %s: %v", after, err)
		}
		now = now.Add(2 * time.Second)
		_, err := search(t, m)
		if after, ok := pawl.Retryable(err); !ok || after != 3*time.Second || imagesearch.Code(err) != imagesearch.CodeRateLimited {
			t.Errorf("after %s: %v", after, err)
		}
		if len(s.Heard()) != 1 {
			t.Errorf("asked %d times", len(s.Heard()))
		}
		now = now.Add(3 * time.Second)
		s.Play(imagesearchtest.Scene{Found: imagesearchtest.Pictures(1)})
		if got, err := search(t, m); err != nil || len(got) != 1 {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// TestPage: the scaled picture before the original, the page of the file, and a title where nobody gave one.
func TestPage(t *testing.T) {
	t.Parallel()
	s := imagesearchtest.NewSource(t, wire())
	s.Answer(`{"batchcomplete":true,"query":{"pages":[
		{"pageid":2,"title":"File:Solvay 1927.jpg","index":2,"imageinfo":[{"url":"https://upload.example.org/b.jpg","descriptionurl":"https://commons.example.org/b","extmetadata":{"ObjectName":{"value":7}}}]},
		{"pageid":3,"title":"File:No info.jpg","index":3},
		{"pageid":1,"title":"File:A.tif","index":1,"imageinfo":[{"url":"https://upload.example.org/a.tif","thumburl":"https://upload.example.org/1280px-a.jpg","thumbwidth":1280,
			"descriptionurl":"https://commons.example.org/a","extmetadata":{"ObjectName":{"value":"<span lang=\"en\">Curie &amp;\n <i>Einstein</i></span>"}}}]}]}}`)
	got, err := search(t, s.Searcher(imagesearchtest.Setup{}))
	want := []imagesearch.Result{
		{ImageURL: "https://upload.example.org/1280px-a.jpg", ThumbnailURL: "https://upload.example.org/1280px-a.jpg", ContextURL: "https://commons.example.org/a", Title: "Curie & Einstein"},
		{ImageURL: "https://upload.example.org/b.jpg", ContextURL: "https://commons.example.org/b", Title: "Solvay 1927"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}
