package imagesearchtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/ports/imagesearch"
)

// passing are the codes that another attempt could do away with.
var passing = []string{imagesearch.CodeRateLimited, pawl.CodeTimeout, pawl.CodeUnavailable}

// failed checks the error of a search: its code, whether it is tried again, and that it says who failed and tells no secret.
func failed(t *testing.T, s *Source, err error, code string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %s", code)
		return
	}
	if got := imagesearch.Code(err); got != code {
		t.Errorf("code %q, want %q: %v", got, code, err)
	}
	if _, ok := pawl.Retryable(err); ok != slices.Contains(passing, code) {
		t.Errorf("tried again: %v: %v", ok, err)
	}
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
		if strings.Contains(text, Key) {
			t.Errorf("the error tells the key: %s", text)
		}
	}
	if text := err.Error(); !strings.Contains(text, s.wire.Name+": ") || strings.ContainsAny(text, "\n\r") || len(text) > 3000 {
		t.Errorf("the error does not say who failed in one short line: %s", text)
	}
}

// fails searches, and checks the error.
func fails(t *testing.T, s *Source, with Setup, code string) error {
	t.Helper()
	got, err := s.Searcher(with).Search(t.Context(), query())
	failed(t, s, err, code)
	if len(got) != 0 {
		t.Errorf("found beside an error: %v", got)
	}
	return err
}

func refusals(t *testing.T, s *Source) {
	for name, refusal := range s.wire.Refusals {
		code, _, _ := strings.Cut(name, " ")
		t.Run(fmt.Sprintf("%s %d", name, refusal.Status), func(t *testing.T) {
			s.Play(Scene{Refusal: &refusal})
			fails(t, s, Setup{}, code)
		})
	}
	for _, code := range []string{
		pawl.CodeInvalid, pawl.CodeForbidden, imagesearch.CodeRateLimited, imagesearch.CodeQuota, pawl.CodeUnavailable,
	} {
		if _, ok := s.wire.Refusals[code]; ok == (s.wire.Unmetered && code == imagesearch.CodeQuota) {
			t.Errorf("the vendor's words for %s: %v", code, ok)
		}
	}
}

func statuses(t *testing.T, s *Source) {
	for status, code := range map[int]string{
		302: pawl.CodeUnavailable, 400: pawl.CodeInvalid, 401: pawl.CodeForbidden, 402: imagesearch.CodeQuota, 403: pawl.CodeForbidden,
		404: pawl.CodeInvalid, 408: pawl.CodeTimeout, 409: pawl.CodeUnavailable, 414: pawl.CodeInvalid, 422: pawl.CodeInvalid,
		429: imagesearch.CodeRateLimited, 500: pawl.CodeUnavailable, 502: pawl.CodeUnavailable, 503: pawl.CodeUnavailable,
		504: pawl.CodeTimeout,
	} {
		for _, body := range []string{
			"", "<html>\n<h1>no $KEY</h1>", "[", `{"error":null}`, `{"error":"$KEY"}`, `{"error":{"message":7,"code":{},"errors":[7]}}`,
			`{"detail":7}`, `{"errors":[{"code":[]}]}`,
		} {
			s.Play(Scene{Refusal: &Refusal{Status: status, Body: body, Header: http.Header{"Location": {"/v2"}}}})
			if err := fails(t, s, Setup{}, code); err != nil && !strings.Contains(err.Error(), strconv.Itoa(status)) {
				t.Errorf("the status %d is not told: %v", status, err)
			}
		}
	}
}

func oneAttempt(t *testing.T, s *Source) {
	for _, status := range []int{401, 408, 409, 429, 500, 503} {
		s.Play(Scene{Refusal: &Refusal{Status: status, Header: http.Header{"Retry-After": {"0"}}}})
		if _, err := s.Searcher(Setup{}).Search(t.Context(), query()); err == nil || len(s.Heard()) != 1 {
			t.Errorf("%d: asked %d times, %v", status, len(s.Heard()), err)
		}
	}
}

func retryAfter(t *testing.T, s *Source) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"7": 7 * time.Second, begin.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second, "99999999999": 24 * time.Hour, "1.5": 0, "": 0,
	} {
		s.Play(Scene{Refusal: &Refusal{Status: 429, Header: http.Header{"Retry-After": {header}}}})
		err := fails(t, s, Setup{Now: func() time.Time { return begin }}, imagesearch.CodeRateLimited)
		if got, _ := pawl.Retryable(err); got != want {
			t.Errorf("%q: after %s, want %s", header, got, want)
		}
	}
}

// patience is how long a call that shall end soon may take on a busy machine.
const patience = 20 * time.Second

func soon(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("the call does not end")
	}
}

func cancelled(t *testing.T, s *Source) {
	s.Play(Scene{Mute: true})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	m := s.Searcher(Setup{})
	for range 2 { // the second is cancelled before it begins
		soon(t, func() {
			if _, err := m.Search(ctx, query()); !errors.Is(err, context.Canceled) || imagesearch.Code(err) != "" {
				t.Error(err)
			}
		})
	}
	s.Play(Scene{Found: Pictures(1)})
	if got, err := m.Search(t.Context(), query()); err != nil || len(got) != 1 {
		t.Errorf("after a call that was cancelled: %v, %v", got, err)
	}
}

func deadline(t *testing.T, s *Source) {
	s.Play(Scene{Mute: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	m := s.Searcher(Setup{})
	for range 2 { // the second has no time at all
		soon(t, func() {
			_, err := m.Search(ctx, query())
			failed(t, s, err, pawl.CodeTimeout)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	}
}

func silent(t *testing.T, s *Source) {
	s.Play(Scene{Mute: true})
	soon(t, func() { fails(t, s, Setup{First: 100 * time.Millisecond, Silence: time.Hour}, pawl.CodeTimeout) })
	s.Play(Scene{Stall: true, Found: Pictures(3)})
	soon(t, func() { fails(t, s, Setup{First: time.Hour, Silence: 100 * time.Millisecond}, pawl.CodeTimeout) })
}

func brokenOff(t *testing.T, s *Source) {
	s.Play(Scene{Cut: true, Found: Pictures(3)})
	fails(t, s, Setup{}, pawl.CodeUnavailable)
}

func gateway(t *testing.T, s *Source) {
	s.Play(Scene{Page: true})
	if err := fails(t, s, Setup{}, pawl.CodeUnavailable); err != nil && !strings.Contains(err.Error(), "text/html") {
		t.Error(err)
	}
	for _, body := range []string{`{}`, `[]`, `null`, `{"error":{}}`, `{"results":null}`, "{", ""} {
		s.Answer(body)
		fails(t, s, Setup{}, pawl.CodeUnavailable)
	}
}

func flood(t *testing.T, s *Source) {
	s.Play(Scene{Flood: true})
	soon(t, func() { fails(t, s, Setup{}, pawl.CodeExhausted) })
}

func unreachable(t *testing.T, s *Source) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	for address, code := range map[string]string{
		"http://" + l.Addr().String(): pawl.CodeUnavailable, "http://user:" + Key + "@" + l.Addr().String(): pawl.CodeUnavailable,
		"http://[" + Key: pawl.CodeInvalid,
	} {
		_, err = s.wire.Open(Setup{URL: address}).Search(t.Context(), query())
		failed(t, s, err, code)
	}
}
