package brave_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pawl"
	"pawl/ports/imagesearch"
	"pawl/ports/imagesearch/brave"
	"pawl/ports/imagesearch/imagesearchtest"
)

// What follows is Brave's side, written from https://github.com/brave/brave-search-skills (images-search), and its errors from
// https://api-dashboard.search.brave.com/api-reference/web/poi_descriptions: every parameter that is not there is a fault of the client.

func wire() imagesearchtest.Wire {
	return imagesearchtest.Wire{
		Name: "brave",
		Open: func(s imagesearchtest.Setup) imagesearch.Searcher {
			return brave.New(brave.Config{URL: s.URL, Key: imagesearchtest.Key, First: s.First, Silence: s.Silence, Now: s.Now})
		},
		Hear: hear, Whole: whole, Refusals: refusals(),
	}
}

func hear(r *http.Request) (q imagesearch.Query, err error) {
	p, err := imagesearchtest.Params(r, "/res/v1/images/search", "q", "country", "search_lang", "count", "safesearch", "spellcheck")
	if err != nil {
		return q, err
	}
	if r.Header.Get("X-Subscription-Token") != imagesearchtest.Key || strings.Contains(r.URL.String(), imagesearchtest.Key) {
		return q, errors.New("SUBSCRIPTION_TOKEN_INVALID")
	}
	q = imagesearch.Query{Text: p.Get("q"), Count: 50}
	if p.Has("count") {
		if q.Count, err = strconv.Atoi(p.Get("count")); err != nil || q.Count < 1 || q.Count > 200 {
			return q, fmt.Errorf("VALIDATION: count %s", p.Get("count"))
		}
	}
	chars := utf8.RuneCountInString(q.Text)
	switch filter, spell, country := p.Get("safesearch"), p.Get("spellcheck"), p.Get("country"); {
	case chars < 1 || chars > 400 || len(strings.Fields(q.Text)) > 50:
		return q, errors.New("VALIDATION: q has 1 to 400 characters in at most 50 words")
	case p.Has("safesearch") && filter != "off" && filter != "strict":
		return q, errors.New("VALIDATION: safesearch is off or strict")
	case p.Has("spellcheck") && spell != "true" && spell != "false":
		return q, errors.New("VALIDATION: spellcheck is a bool")
	case p.Has("country") && len(country) != 2 && country != "ALL":
		return q, errors.New("VALIDATION: country")
	}
	if p.Get("safesearch") == "off" || p.Get("spellcheck") != "false" {
		return q, errors.New("offensive pictures, or other names, may come back")
	}
	return q, nil
}

type doc = map[string]any

// optional leaves out what is empty.
func optional(d doc, key, value string) {
	if value != "" {
		d[key] = value
	}
}

func whole(found []imagesearch.Result) string {
	results := []doc{}
	for _, r := range found {
		properties := doc{"placeholder": "https://imgs.search.brave.com/p", "width": 1920, "height": nil}
		optional(properties, "url", r.ImageURL)
		result := doc{
			"type": "image_result", "title": nil, "source": "example.com", "page_fetched": "2026-09-15T10:30:00Z", "properties": properties,
			"meta_url":   doc{"scheme": "https", "netloc": "example.com", "hostname": "example.com", "favicon": "https://imgs.search.brave.com/f", "path": "/"},
			"confidence": "high",
		}
		optional(result, "title", html.EscapeString(r.Title))
		optional(result, "url", r.ContextURL)
		if r.ThumbnailURL != "" {
			result["thumbnail"] = doc{"src": r.ThumbnailURL, "width": 500, "height": 333}
		}
		results = append(results, result)
	}
	out, _ := json.Marshal(doc{
		"type": "images", "query": doc{"original": "q", "altered": nil, "spellcheck_off": true, "show_strict_warning": false},
		"results": results, "extra": doc{"might_be_offensive": false},
	})
	return string(out)
}

func refusals() map[string]imagesearchtest.Refusal {
	refusal := func(status int, code, detail, component string, header http.Header) imagesearchtest.Refusal {
		body, _ := json.Marshal(doc{"type": "ErrorResponse", "time": 1663072993, "error": doc{
			"id": "5d832250", "code": code, "detail": detail, "status": status, "meta": doc{"component": component},
		}})
		return imagesearchtest.Refusal{Status: status, Header: header, Body: string(body)}
	}
	limits := func(remaining string) http.Header {
		return http.Header{"X-Ratelimit-Limit": {"1, 15000"}, "X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {"1, 1419704"}}
	}
	return map[string]imagesearchtest.Refusal{
		pawl.CodeInvalid:            refusal(422, "VALIDATION", "Unable to validate request parameter(s)", "search", nil),
		pawl.CodeForbidden:          refusal(422, "SUBSCRIPTION_TOKEN_INVALID", "The provided subscription token $KEY is invalid.", "authentication", nil),
		imagesearch.CodeRateLimited: refusal(429, "RATE_LIMITED", "Request rate limit exceeded for plan.", "rate_limiter", limits("0, 812")),
		imagesearch.CodeQuota:       refusal(429, "QUOTA_LIMITED", "Request quota limit exceeded for plan.", "rate_limiter", nil),
		pawl.CodeUnavailable:        refusal(500, "INTERNAL", "Internal error", "search", nil),

		pawl.CodeForbidden + " plan":       refusal(400, "OPTION_NOT_IN_PLAN", "The option is not subscribed in the plan.", "authentication", nil),
		pawl.CodeForbidden + " none":       refusal(404, "SUBSCRIPTION_NOT_FOUND", "No subscription found.", "subscriptions", nil),
		imagesearch.CodeQuota + " headers": refusal(429, "RATE_LIMITED", "Request rate limit exceeded for plan.", "rate_limiter", limits("1, 0")),
		imagesearch.CodeQuota + " list":    {Status: 429, Body: `{"type":"ErrorResponse","errors":[{"id":"5d832250","code":"QUOTA_LIMITED","detail":"Request quota limit exceeded for plan.","status":429}],"time":1663072993}`},
	}
}

func TestLaw(t *testing.T) {
	t.Parallel()
	imagesearchtest.Run(t, wire())
}

func FuzzAnswer(f *testing.F) { imagesearchtest.Fuzz(f, wire()) }

// TestReset: where no Retry-After comes, the shortest window says when to ask again.
func TestReset(t *testing.T) {
	t.Parallel()
	s := imagesearchtest.NewSource(t, wire())
	for _, c := range []struct {
		after, reset string
		want         time.Duration
	}{
		{"", "1, 1419704", time.Second}, {"9", "1, 1419704", 9 * time.Second}, {"", "", 0}, {"", "-5, 3", 0}, {"", "99999999999999999999", 0},
	} {
		s.Play(imagesearchtest.Scene{Refusal: &imagesearchtest.Refusal{Status: 429, Header: http.Header{
			"Retry-After": {c.after}, "X-Ratelimit-Reset": {c.reset}, "X-Ratelimit-Remaining": {"0, 14000"},
		}}})
		_, err := s.Searcher(imagesearchtest.Setup{}).Search(t.Context(), imagesearch.Query{Text: "a", Count: 1})
		if after, ok := pawl.Retryable(err); !ok || after != c.want {
			t.Errorf("%+v: %s, %v", c, after, err)
		}
	}
}

// TestOffensive: the source's warning reaches whoever shows the pictures.
func TestOffensive(t *testing.T) {
	t.Parallel()
	s := imagesearchtest.NewSource(t, wire())
	s.Answer(strings.Replace(whole(imagesearchtest.Pictures(2)), `"might_be_offensive":false`, `"might_be_offensive":true`, 1))
	got, err := s.Searcher(imagesearchtest.Setup{}).Search(t.Context(), imagesearch.Query{Text: "a", Count: 5})
	if err != nil || len(got) != 2 || !got[0].Sensitive || !got[1].Sensitive {
		t.Errorf("%+v, %v", got, err)
	}
}
