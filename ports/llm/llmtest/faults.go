package llmtest

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/ports/llm"
)

// passing are the codes that another attempt could do away with.
var passing = []string{llm.CodeRateLimited, pawl.CodeTimeout, pawl.CodeUnavailable}

// failed checks the error of a call: its code, whether it is tried again, and that it says who failed and tells no secret.
func failed(t *testing.T, err error, code string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %s", code)
		return
	}
	if got := llm.Code(err); got != code {
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
	if text := err.Error(); !strings.Contains(text, "/some/model:1") || strings.ContainsAny(text, "\n\r") || len(text) > 3000 {
		t.Errorf("the error does not say who failed in one short line: %s", text)
	}
}

func refusals(t *testing.T, p *Provider) {
	for code, refusal := range p.wire.Refusals {
		code, _, _ := strings.Cut(code, " ")
		t.Run(fmt.Sprintf("%s %d", code, refusal.Status), func(t *testing.T) {
			refusal.Body = strings.ReplaceAll(refusal.Body, "$KEY", Key)
			p.Play(Scene{Refusal: &refusal})
			both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
				_, err := ask(t.Context(), p.Model(Setup{}), hello())
				failed(t, err, code)
			})
		})
	}
	for _, code := range []string{
		pawl.CodeInvalid, pawl.CodeForbidden, llm.CodeRateLimited, llm.CodeQuota, llm.CodeRetired, llm.CodeTooLong, pawl.CodeUnavailable,
	} {
		if _, ok := p.wire.Refusals[code]; !ok {
			t.Errorf("the vendor has no words for %s", code)
		}
	}
}

func statuses(t *testing.T, p *Provider) {
	for status, code := range map[int]string{
		302: pawl.CodeUnavailable, 400: pawl.CodeInvalid, 401: pawl.CodeForbidden, 402: llm.CodeQuota, 403: pawl.CodeForbidden,
		404: llm.CodeRetired, 408: pawl.CodeTimeout, 409: pawl.CodeUnavailable, 410: llm.CodeRetired, 413: llm.CodeTooLong,
		422: pawl.CodeInvalid, 429: llm.CodeRateLimited, 500: pawl.CodeUnavailable, 502: pawl.CodeUnavailable,
		503: pawl.CodeUnavailable, 504: pawl.CodeTimeout, 529: pawl.CodeUnavailable,
	} {
		for _, body := range []string{"", "<html>\n<h1>no " + Key + "</h1>", "[", `{"error":null}`, `{"error":"` + Key + `"}`, `{"error":{"message":7,"code":{}}}`} {
			p.Play(Scene{Refusal: &Refusal{Status: status, Body: body, Header: http.Header{"Location": {"/v2"}}}})
			both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
				_, err := ask(t.Context(), p.Model(Setup{}), hello())
				failed(t, err, code)
				if err != nil && !strings.Contains(err.Error(), strconv.Itoa(status)) {
					t.Errorf("the status %d is not told: %v", status, err)
				}
			})
			if len(p.Heard()) != 2 {
				t.Errorf("%d: asked %d times", status, len(p.Heard()))
			}
		}
	}
}

func oneAttempt(t *testing.T, p *Provider) {
	for _, status := range []int{408, 409, 429, 500, 503, 529} {
		p.Play(Scene{Refusal: &Refusal{Status: status, Header: http.Header{"Retry-After": {"0"}, "X-Should-Retry": {"true"}}}})
		if _, err := p.Model(Setup{}).Generate(t.Context(), hello()); err == nil || len(p.Heard()) != 1 {
			t.Errorf("%d: asked %d times, %v", status, len(p.Heard()), err)
		}
	}
}

// retryAfter asks with headers of our own, and with those of the shared data where they are there.
func retryAfter(t *testing.T, p *Provider) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	check := func(t *testing.T, header string, local time.Time, date string, want time.Duration) {
		t.Helper()
		h := http.Header{"Retry-After": {header}}
		if date != "" {
			h.Set("Date", date)
		}
		p.Play(Scene{Refusal: &Refusal{Status: 429, Header: h}})
		_, err := p.Model(Setup{Now: func() time.Time { return local }}).Generate(t.Context(), hello())
		failed(t, err, llm.CodeRateLimited)
		if got, _ := pawl.Retryable(err); got != max(want, 0) {
			t.Errorf("%q: after %s, want %s", header, got, want)
		}
	}
	in90 := begin.Add(90 * time.Second).Format(http.TimeFormat)
	check(t, "7", begin, "", 7*time.Second)
	check(t, in90, begin, "", 90*time.Second)
	check(t, in90, begin.Add(time.Hour), begin.Format(http.TimeFormat), 90*time.Second)
	check(t, in90, begin, "not a date", 90*time.Second)
	check(t, "99999999999", begin, "", 24*time.Hour)
	check(t, "99999999999999999999999", begin, "", 0)
	check(t, "1.5", begin, "", 0)
	check(t, "", begin, "", 0)

	t.Run("shared", func(t *testing.T) {
		f, err := os.Open(filepath.Join("..", "..", "..", "..", "shared", "data", "adversarial", "retry_after.csv"))
		if err != nil {
			t.Skip("shared data not found: ", err)
		}
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		if err != nil || len(rows) < 7 {
			t.Fatal(len(rows), err)
		}
		for _, row := range rows[1:] {
			now, told, _ := strings.Cut(row[1], " (Date header says ")
			local, err := time.Parse(time.RFC3339, now)
			if err != nil {
				t.Fatal(err)
			}
			date := ""
			if clock, err := time.Parse("15:04:05)", told); err == nil {
				date = local.Truncate(24 * time.Hour).Add(clock.Sub(clock.Truncate(24 * time.Hour))).Format(http.TimeFormat)
			} else if told != "" {
				t.Fatal(row, err)
			}
			want := time.Duration(-1)
			if s, err := strconv.Atoi(strings.TrimSuffix(row[2], " + jitter")); err == nil {
				want = time.Duration(s) * time.Second
			} else if row[2] != "default backoff" {
				t.Fatal(row)
			}
			check(t, row[0], local, date, want)
		}
	})
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

func cancelled(t *testing.T, p *Provider) {
	both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
		p.Play(Scene{Mute: true})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		soon(t, func() {
			if _, err := ask(ctx, p.Model(Setup{}), hello()); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		if _, err := ask(ctx, p.Model(Setup{}), hello()); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that was cancelled before: %v", err)
		}
	})
	both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
		p.Play(Scene{Mute: true})
		r := hello()
		r.Within = 50 * time.Millisecond
		soon(t, func() {
			_, err := ask(t.Context(), p.Model(Setup{}), r)
			failed(t, err, pawl.CodeTimeout)
		})
	})
	p.Play(Scene{Stall: true, Answer: said("One, two, three, four.")})
	ctx, cancel := context.WithCancel(t.Context())
	soon(t, func() {
		resp, err := p.Model(Setup{}).Stream(ctx, hello(), func(llm.Delta) { cancel() })
		if !errors.Is(err, context.Canceled) || resp.Finish != "" {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

func deadline(t *testing.T, p *Provider) {
	p.Play(Scene{Mute: true})
	both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		soon(t, func() {
			_, err := ask(ctx, p.Model(Setup{}), hello())
			failed(t, err, pawl.CodeTimeout)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	})
}

func silent(t *testing.T, p *Provider) {
	both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
		p.Play(Scene{Mute: true})
		soon(t, func() {
			_, err := ask(t.Context(), p.Model(Setup{First: 100 * time.Millisecond, Silence: time.Hour}), hello())
			failed(t, err, pawl.CodeTimeout)
		})
		p.Play(Scene{Stall: true, Answer: said("One, two, three, four.")})
		soon(t, func() {
			_, err := ask(t.Context(), p.Model(Setup{First: time.Hour, Silence: 100 * time.Millisecond}), hello())
			failed(t, err, pawl.CodeTimeout)
		})
	})
}

func brokenOff(t *testing.T, p *Provider) {
	p.Play(Scene{Cut: true, Answer: said("One, two, three, four.")})
	both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
		resp, err := ask(t.Context(), p.Model(Setup{}), hello())
		failed(t, err, pawl.CodeUnavailable)
		if resp.Finish != "" || resp.Message.Text() != "" {
			t.Errorf("half an answer: %+v", resp)
		}
	})
	told := ""
	_, err := p.Model(Setup{}).Stream(t.Context(), hello(), func(d llm.Delta) { told += d.Text })
	if err == nil || told == "" || !strings.HasPrefix("One, two, three, four.", told) {
		t.Errorf("%q, %v", told, err)
	}
}

func midway(t *testing.T, p *Provider) {
	p.Play(Scene{Midway: true, Answer: said("One, two, three, four.")})
	resp, err := p.Model(Setup{}).Stream(t.Context(), hello(), func(llm.Delta) {})
	failed(t, err, p.wire.MidwayCode)
	if resp.Finish != "" {
		t.Errorf("%+v", resp)
	}
}

func gateway(t *testing.T, p *Provider) {
	p.Play(Scene{Page: true})
	both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
		_, err := ask(t.Context(), p.Model(Setup{}), hello())
		failed(t, err, pawl.CodeUnavailable)
		if err != nil && !strings.Contains(err.Error(), "text/html") {
			t.Error(err)
		}
	})
	for _, body := range []string{`{}`, `[]`, `null`, `{"error":{}}`, "{", ""} {
		p.Play(Scene{Refusal: &Refusal{Status: 200, Body: body}})
		both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
			_, err := ask(t.Context(), p.Model(Setup{}), hello())
			failed(t, err, pawl.CodeUnavailable)
		})
	}
}

func flood(t *testing.T, p *Provider) {
	p.Play(Scene{Flood: true, Answer: said("x")})
	both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
		soon(t, func() {
			_, err := ask(t.Context(), p.Model(Setup{}), hello())
			failed(t, err, pawl.CodeExhausted)
		})
	})
}

func unreachable(t *testing.T, p *Provider) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	for _, url := range []string{"http://" + l.Addr().String(), "http://user:" + Key + "@" + l.Addr().String()} {
		m := p.wire.Open(Setup{URL: url, Name: "some/model:1"})
		_, err = m.Generate(t.Context(), hello())
		failed(t, err, pawl.CodeUnavailable)
	}
	_, err = p.wire.Open(Setup{URL: "http://[" + Key, Name: "some/model:1"}).Generate(t.Context(), hello())
	failed(t, err, pawl.CodeInvalid)
}
