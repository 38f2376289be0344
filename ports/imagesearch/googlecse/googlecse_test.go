package googlecse_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"testing"

	"pawl"
	"pawl/ports/imagesearch"
	"pawl/ports/imagesearch/googlecse"
	"pawl/ports/imagesearch/imagesearchtest"
)

// What follows is Google's side, written from https://developers.google.com/custom-search/v1/reference/rest/v1/cse/list and
// https://developers.google.com/custom-search/v1/reference/rest/v1/Search: every parameter that is not there is a fault of the client.

func wire() imagesearchtest.Wire {
	return imagesearchtest.Wire{
		Name: "googlecse",
		Open: func(s imagesearchtest.Setup) imagesearch.Searcher {
			return googlecse.New(googlecse.Config{
				URL: s.URL, Key: imagesearchtest.Key, Engine: "017576662512468239146:omuauf_lfve", First: s.First, Silence: s.Silence, Now: s.Now,
			})
		},
		Hear: hear, Whole: whole, Refusals: refusals(),
	}
}

func hear(r *http.Request) (q imagesearch.Query, err error) {
	p, err := imagesearchtest.Params(r, "/customsearch/v1", "key", "cx", "q", "searchType", "num", "start", "safe", "imgType", "imgSize", "gl", "hl")
	if err != nil {
		return q, err
	}
	q = imagesearch.Query{Text: p.Get("q"), Count: 10}
	if p.Has("num") {
		if q.Count, err = strconv.Atoi(p.Get("num")); err != nil || q.Count < 1 || q.Count > 10 {
			return q, fmt.Errorf("num %s", p.Get("num"))
		}
	}
	switch {
	case p.Get("key") != imagesearchtest.Key || p.Get("cx") != "017576662512468239146:omuauf_lfve":
		return q, errors.New("API key not valid, or no such engine")
	case p.Get("searchType") != "image":
		return q, errors.New("pages of text would come back")
	case p.Has("start"):
		return q, errors.New("nobody looks beyond the first page")
	case p.Get("safe") != "active":
		return q, errors.New("offensive pictures may come back")
	}
	return q, nil
}

type doc = map[string]any

func optional(d doc, key, value string) {
	if value != "" {
		d[key] = value
	}
}

func whole(found []imagesearch.Result) string {
	all := doc{
		"kind": "customsearch#search", "url": doc{"type": "application/json", "template": "https://www.googleapis.com/customsearch/v1?q={searchTerms}"},
		"queries":           doc{"request": []doc{{"title": "Google Custom Search", "totalResults": "4000", "count": len(found), "startIndex": 1}}},
		"searchInformation": doc{"searchTime": 0.2, "formattedSearchTime": "0.20", "totalResults": "4000", "formattedTotalResults": "4,000"},
	}
	var items []doc
	for _, r := range found {
		image := doc{"height": 800, "width": 1200, "byteSize": 90210, "thumbnailHeight": 100, "thumbnailWidth": 150}
		optional(image, "contextLink", r.ContextURL)
		optional(image, "thumbnailLink", r.ThumbnailURL)
		item := doc{"kind": "customsearch#result", "displayLink": "example.org", "mime": "image/jpeg", "fileFormat": "image/jpeg", "image": image}
		optional(item, "link", r.ImageURL)
		optional(item, "title", html.EscapeString(r.Title))
		optional(item, "htmlTitle", "<b>"+html.EscapeString(r.Title)+"</b>")
		items = append(items, item)
	}
	if items != nil {
		all["items"] = items
	}
	out, _ := json.Marshal(all)
	return string(out)
}

func refusals() map[string]imagesearchtest.Refusal {
	refusal := func(status int, domain, reason, message, canonical string, details ...doc) imagesearchtest.Refusal {
		e := doc{"code": status, "message": message, "errors": []doc{{"domain": domain, "reason": reason, "message": message}}}
		optional(e, "status", canonical)
		if details != nil {
			e["details"] = details
		}
		body, _ := json.Marshal(doc{"error": e})
		return imagesearchtest.Refusal{Status: status, Body: string(body)}
	}
	info := func(reason string, metadata doc) doc {
		return doc{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com", "metadata": metadata}
	}
	perDay := "Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service 'customsearch.googleapis.com' for consumer 'project_number:1'."
	perMinute := "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute per user' of service 'customsearch.googleapis.com' for consumer 'project_number:1'."
	return map[string]imagesearchtest.Refusal{
		pawl.CodeInvalid:   refusal(400, "global", "badRequest", "Request contains an invalid argument.", "INVALID_ARGUMENT"),
		pawl.CodeForbidden: refusal(403, "global", "forbidden", "This project does not have the access to Custom Search JSON API.", "PERMISSION_DENIED"),
		imagesearch.CodeRateLimited: refusal(429, "global", "rateLimitExceeded", perMinute, "RESOURCE_EXHAUSTED",
			info("RATE_LIMIT_EXCEEDED", doc{"quota_limit": "DefaultPerMinutePerUser"})),
		imagesearch.CodeQuota: refusal(403, "usageLimits", "dailyLimitExceeded", "Daily Limit Exceeded", ""),
		pawl.CodeUnavailable:  refusal(503, "global", "backendError", "The service is currently unavailable.", "UNAVAILABLE"),

		pawl.CodeInvalid + " num":   refusal(400, "global", "invalidParameter", "Invalid value '11'. Values must be within the range: [1, 10]", "INVALID_ARGUMENT"),
		pawl.CodeInvalid + " start": refusal(400, "global", "badRequest", "Request contains an invalid argument.", "INVALID_ARGUMENT"),
		pawl.CodeForbidden + " key": refusal(400, "global", "badRequest", "API key not valid: $KEY. Please pass a valid API key.", "INVALID_ARGUMENT",
			info("API_KEY_INVALID", doc{"service": "customsearch.googleapis.com"})),
		pawl.CodeForbidden + " off": refusal(403, "usageLimits", "accessNotConfigured", "Custom Search API has not been used in project 1 before or it is disabled.", "PERMISSION_DENIED"),
		imagesearch.CodeQuota + " 429": refusal(429, "global", "rateLimitExceeded", perDay, "RESOURCE_EXHAUSTED",
			info("RATE_LIMIT_EXCEEDED", doc{"quota_limit_value": "100", "quota_limit": "DefaultPerDayPerProject"})),
		imagesearch.CodeQuota + " words":          refusal(429, "global", "rateLimitExceeded", perDay, "RESOURCE_EXHAUSTED"),
		imagesearch.CodeQuota + " limit":          refusal(429, "global", "rateLimitExceeded", "Too many.", "", info("RATE_LIMIT_EXCEEDED", doc{"quota_limit": "DefaultPerDayPerProject"})),
		imagesearch.CodeQuota + " reason":         refusal(429, "usageLimits", "dailyLimitExceeded", "Daily Limit Exceeded", ""),
		imagesearch.CodeRateLimited + " 403":      refusal(403, "usageLimits", "userRateLimitExceeded", "User Rate Limit Exceeded", ""),
		imagesearch.CodeRateLimited + " no words": {Status: 429, Header: http.Header{"Retry-After": {"20"}}, Body: `{"error":{"code":429}}`},
	}
}

func TestLaw(t *testing.T) {
	t.Parallel()
	imagesearchtest.Run(t, wire())
}

func FuzzAnswer(f *testing.F) { imagesearchtest.Fuzz(f, wire()) }

// TestCase53DailyLimit: a limit of the day ends the searches of a run, under whatever status it comes, and asks nobody a second time.
func TestCase53DailyLimit(t *testing.T) {
	t.Parallel()
	for name, refusal := range refusals() {
		s := imagesearchtest.NewSource(t, wire()).Play(imagesearchtest.Scene{Refusal: &refusal})
		_, err := s.Searcher(imagesearchtest.Setup{}).Search(t.Context(), imagesearch.Query{Text: "a", Count: 10})
		_, again := pawl.Retryable(err)
		if daily := imagesearch.Code(err) == imagesearch.CodeQuota; daily && again || len(s.Heard()) != 1 {
			t.Errorf("%s: asked %d times, again %v: %v", name, len(s.Heard()), again, err)
		}
	}
	empty := imagesearchtest.NewSource(t, wire()).Play(imagesearchtest.Scene{}) // 4000 results in all, and none here
	if got, err := empty.Searcher(imagesearchtest.Setup{}).Search(t.Context(), imagesearch.Query{Text: "a", Count: 10}); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestUnset: without a key or an engine nobody is asked.
func TestUnset(t *testing.T) {
	t.Parallel()
	s := imagesearchtest.NewSource(t, wire()).Play(imagesearchtest.Scene{})
	for _, c := range []googlecse.Config{{URL: s.URL, Key: "k"}, {URL: s.URL, Engine: "e"}} {
		_, err := googlecse.New(c).Search(t.Context(), imagesearch.Query{Text: "a", Count: 1})
		if imagesearch.Code(err) != imagesearch.CodeUnset || len(s.Heard()) != 0 {
			t.Errorf("asked %d times, %v", len(s.Heard()), err)
		}
	}
}

// TestTitle: what Google writes into titles is no part of them.
func TestTitle(t *testing.T) {
	t.Parallel()
	s := imagesearchtest.NewSource(t, wire()).Answer(`{"kind":"customsearch#search","items":[{"title":"<b>Curie</b> &amp; Einstein&#39;s <br/>walk, 5 < 6",
		"link":"https://e.org/1.jpg","image":{"contextLink":"https://e.org/1"}}]}`)
	got, err := s.Searcher(imagesearchtest.Setup{}).Search(t.Context(), imagesearch.Query{Text: "a", Count: 1})
	if err != nil || len(got) != 1 || got[0].Title != "Curie & Einstein's walk, 5 < 6" {
		t.Errorf("%+v, %v", got, err)
	}
}
