package fetch_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pawl"
	"pawl/ports/fetch"
)

// TestFault: only what may pass by itself is tried again, and no sooner than the source wants.
func TestFault(t *testing.T) {
	t.Parallel()
	again := map[string]bool{fetch.CodeRateLimited: true, pawl.CodeTimeout: true, pawl.CodeUnavailable: true}
	for _, code := range []string{
		pawl.CodeNotFound, pawl.CodeForbidden, pawl.CodeInvalid, pawl.CodeTimeout, pawl.CodeUnavailable, fetch.CodeBlocked, fetch.CodeRedirects,
		fetch.CodeRateLimited, fetch.CodeTooLarge, fetch.CodePixels, fetch.CodeTooSmall, fetch.CodePage, fetch.CodeType, fetch.CodeEmpty, fetch.CodeCorrupt,
	} {
		err := fetch.Failure{URL: "https://a.example/x", Code: code, Text: "why", After: -1}.Fault()
		after, ok := pawl.Retryable(err)
		if ok != again[code] || after != 0 || fetch.Code(err) != code || err.Error() != "https://a.example/…: why" {
			t.Errorf("%s: retried %v after %s, %q: %v", code, ok, after, fetch.Code(err), err)
		}
	}
	err := fetch.Failure{URL: "https://a.example/x", Code: fetch.CodeRateLimited, Status: 429, Text: "slow down", After: time.Minute}.Fault()
	if after, ok := pawl.Retryable(err); !ok || after != time.Minute || err.Error() != "https://a.example/…: 429: slow down" {
		t.Errorf("retried %v after %s: %v", ok, after, err)
	}
	if code := fetch.Code(t.Context().Err()); code != "" {
		t.Errorf("no error has the code %q", code)
	}
}

func TestStatusCode(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		400: pawl.CodeInvalid, 401: pawl.CodeForbidden, 403: pawl.CodeForbidden, 404: pawl.CodeNotFound, 406: pawl.CodeInvalid, 408: pawl.CodeTimeout,
		410: pawl.CodeNotFound, 425: pawl.CodeUnavailable, 429: fetch.CodeRateLimited, 451: pawl.CodeForbidden, 500: pawl.CodeUnavailable,
		503: pawl.CodeUnavailable, 504: pawl.CodeTimeout, 304: pawl.CodeInvalid,
	} {
		if got := fetch.StatusCode(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

// TestShown: of an address nobody learns more than where it leads to, however it is malformed (R-000-78).
func TestShown(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://user:secret@a.example/p.jpg?token=secret#secret": "https://a.example/…",
		"https://a.example/reset/secret/p.jpg;token=secret":       "https://a.example/…",
		"https://a.example:8443/":                                 "https://a.example:8443/",
		"https://a.example?token=secret":                          "https://a.example",
		"https:user:secret@a.example/p.jpg":                       "https:…",
		"https:///user:secret@a.example/p.jpg":                    "https:…",
		"https:/user:secret@a.example/p.jpg":                      "https:…",
		"user:secret@a.example":                                   "user:…",
		"album:p000001":                                           "album:p000001",
		"album://user:secret@a.example/p000001":                   "album://a.example/…",
		"data:image/png;base64,iVBORw0KGgoAAA":                    "data:…",
		"//user:secret@a.example/p.jpg":                           "an address that is none",
		"http://a.example/\nHost:":                                "an address that is none",
		"/only/a/path":                                            "an address that is none",
		"":                                                        "an address that is none",
	} {
		if got := fetch.Shown(raw); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
	for _, long := range []string{"https://" + strings.Repeat("ü", 5000) + "/x", "album:" + strings.Repeat("x", 5000), strings.Repeat("x", 5000) + ":y"} {
		if got := fetch.Shown(long); utf8.RuneCountInString(got) > 203 {
			t.Errorf("%d runes", utf8.RuneCountInString(got))
		}
	}
}
