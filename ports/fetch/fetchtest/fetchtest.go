// Package fetchtest is the law of fetchers of pictures.
//
// It may never know one vendor, or how an outcome comes about: a vendor's tests stage it. Every case says why it is a law.
//
// Start reading at Run.
package fetchtest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"pawl"
	"pawl/ports/fetch"
)

// What a vendor's tests stage.
const (
	OK           = "ok"                    // a JPEG
	WebP         = "webp"                  //
	NotFound     = "http_404"              //
	Forbidden    = "http_403_html"         // with a page
	Page         = "html_instead_of_image" // with status 200
	Timeout      = "timeout"               //
	RedirectLoop = "redirect_loop"         //
	TooLarge     = "too_large"             //
	Corrupt      = "corrupt"               //
)

// failures are the outcomes that are none.
var failures = []struct{ outcome, code, why string }{
	{NotFound, pawl.CodeNotFound, "what is gone is not asked for again"},
	{Forbidden, pawl.CodeForbidden, "a page that says no is a no, and no picture"},
	{Page, fetch.CodePage, "a page is no picture, whatever its status"},
	{Timeout, pawl.CodeTimeout, "what was slow once may be fast again"},
	{RedirectLoop, fetch.CodeRedirects, "a loop would never end"},
	{TooLarge, fetch.CodeTooLarge, "what is too large once is so for ever"},
	{Corrupt, fetch.CodeCorrupt, "whoever looks at a picture has to be able to"},
}

// Stage makes a fetcher and an address at which it meets an outcome.
type Stage func(t *testing.T, outcome string) (fetch.Fetcher, string)

// Run holds a vendor to the law.
func Run(t *testing.T, stage Stage) {
	for _, c := range []struct {
		name, why string
		law       func(*testing.T, Stage)
	}{
		{"pictures", "what can be decoded is given with its type, and nothing is invented about it", pictures},
		{"failures", "whoever searches has to know whether to try again or to take the next", allFailures},
		{"no address", "what no fetcher knows is refused, and never tried again", noAddress},
		{"cancelled", "whoever cancels wants no other error", cancelled},
		{"concurrent", "many may fetch at once", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.law(t, stage)
			if t.Failed() {
				t.Log("it is a law because " + c.why)
			}
		})
	}
}

func pictures(t *testing.T, stage Stage) {
	for outcome, kind := range map[string]string{OK: "image/jpeg", WebP: "image/webp"} {
		f, url := stage(t, outcome)
		got, err := f.Image(t.Context(), url)
		if err != nil || got.Type != kind || got.URL == "" || got.Partial || got.Review != "" {
			t.Errorf("%s: %+v, %v", outcome, got, err)
		}
		if len(got.Bytes) > 0 && (got.Width <= 0 || got.Height <= 0) {
			t.Errorf("%s: %d bytes of %d×%d pixels", outcome, len(got.Bytes), got.Width, got.Height)
		}
	}
}

func allFailures(t *testing.T, stage Stage) {
	again := []string{pawl.CodeTimeout, pawl.CodeUnavailable, fetch.CodeRateLimited}
	for _, c := range failures {
		f, url := stage(t, c.outcome)
		got, err := f.Image(t.Context(), url)
		_, retried := pawl.Retryable(err)
		if err == nil || fetch.Code(err) != c.code || retried != slices.Contains(again, c.code) || got.Bytes != nil {
			t.Errorf("%s: %+v, %v (%s, tried again: %v): %s", c.outcome, got, err, fetch.Code(err), retried, c.why)
			continue
		}
		if !strings.HasPrefix(err.Error(), fetch.Shown(url)+": ") {
			t.Errorf("%s: the error does not say of what it speaks: %v", c.outcome, err)
		}
	}
}

func noAddress(t *testing.T, stage Stage) {
	f, _ := stage(t, OK)
	for _, url := range []string{"", "file:///etc/passwd", "gopher://127.0.0.1:6379/_INFO", "javascript:alert(1)", "nothing", "http://", ":"} {
		_, err := f.Image(t.Context(), url)
		if _, retried := pawl.Retryable(err); err == nil || fetch.Code(err) != fetch.CodeBlocked || retried {
			t.Errorf("%q: %v (%s, tried again: %v)", url, err, fetch.Code(err), retried)
		}
	}
}

func cancelled(t *testing.T, stage Stage) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, outcome := range []string{OK, Timeout} {
		f, url := stage(t, outcome)
		if _, err := f.Image(ctx, url); !errors.Is(err, context.Canceled) || fetch.Code(err) != "" {
			t.Errorf("%s: %v", outcome, err)
		}
	}
}

func concurrent(t *testing.T, stage Stage) {
	f, url := stage(t, OK)
	want, err := f.Image(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got, err := f.Image(t.Context(), url)
			if err != nil || got.Type != want.Type || !bytes.Equal(got.Bytes, want.Bytes) {
				t.Errorf("%d bytes of %s, %v", len(got.Bytes), got.Type, err)
			}
			clear(got.Bytes) // each has its own
		})
	}
	all.Wait()
}
