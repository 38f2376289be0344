package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pawl"
)

// serve answers every request with f, and gives a client of it.
func serve(t *testing.T, f http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return &Client{URL: s.URL + "/", Secrets: []string{"canary/+key"}, Header: map[string]string{"X-Key": "canary/+key"}}
}

// wants checks an error of a client.
func wants(t *testing.T, err error, code string, status int) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *Error", err)
	}
	if e.Code != code || e.Status != status || strings.Contains(e.Text+string(e.Body), "canary") {
		t.Errorf("code %q, status %d, want %q, %d: %s\n%s", e.Code, e.Status, code, status, e.Text, e.Body)
	}
	return e
}

func TestPost(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("X-Key") != "canary/+key" || r.URL.Path != "/a" || string(body) != `{"a":"<b>"}`+"\n" && string(body) != `{"a":"<b>"}` {
			t.Errorf("%s %s %v", r.URL, body, r.Header)
		}
		fmt.Fprint(w, "\xEF\xBB\xBF {\"ok\":1}\n")
	})
	got, err := c.Post(t.Context(), "/a", map[string]string{"a": "<b>"})
	if err != nil || string(got) != `{"ok":1}` {
		t.Errorf("%s, %v", got, err)
	}
	_, err = c.Post(t.Context(), "/a", map[string]string{"a": "\xff"})
	wants(t, err, pawl.CodeInvalid, 0)
}

// TestGet: parameters are data, and only the address holds them.
func TestGet(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodGet || r.URL.Path != "/a" || r.URL.RawQuery != "k=1&q=a%26b+%C3%A9%23" || len(body) != 0 ||
			r.Header.Get("Content-Type") != "" || r.Header.Get("X-Key") != "canary/+key" || r.Header.Get("Accept") != "application/json" {
			t.Errorf("%s %s %q %v", r.Method, r.URL, body, r.Header)
		}
		fmt.Fprint(w, `{"ok":1}`)
	})
	got, err := c.Get(t.Context(), "/a", url.Values{"q": {"a&b é#"}, "k": {"1"}})
	if err != nil || string(got) != `{"ok":1}` {
		t.Errorf("%s, %v", got, err)
	}
	c.URL = "http://127.0.0.1:1"
	_, err = c.Get(t.Context(), "/canary", url.Values{"key": {"canary/+key"}})
	wants(t, err, pawl.CodeUnavailable, 0)
}

func TestForm(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.PostForm.Encode() != "a=%26&b=2" {
			t.Errorf("%s %v %v", r.Method, r.PostForm, err)
		}
		fmt.Fprint(w, `{"ok":1}`)
	})
	if got, err := c.Form(t.Context(), "/a", url.Values{"b": {"2"}, "a": {"&"}}); err != nil || string(got) != `{"ok":1}` {
		t.Errorf("%s, %v", got, err)
	}
}

// TestBytes: what is put and read as bytes, where JSON only says how it went; nothing in a path is syntax once it is escaped.
func TestBytes(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	path := "/a/" + url.PathEscape("b/../c?d#e%é")
	var kept []byte
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != path || r.Header.Get("X-Key") != "canary/+key" {
			t.Errorf("%s %s %v", r.Method, r.URL.EscapedPath(), r.Header)
		}
		switch r.Method {
		case http.MethodPut:
			kept, _ = io.ReadAll(r.Body)
			fmt.Fprintf(w, `{"query":%q,"type":%q}`, r.URL.RawQuery, r.Header.Get("Content-Type"))
		case http.MethodDelete:
			kept = nil
			fmt.Fprint(w, `{"ok":1}`)
		default:
			_, _ = w.Write(kept)
		}
	})
	got, err := c.Put(t.Context(), path, url.Values{"ttl": {"60"}}, all)
	if err != nil || string(got) != `{"query":"ttl=60","type":"application/octet-stream"}` {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := c.Bytes(t.Context(), path); err != nil || !bytes.Equal(got, all) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := c.Delete(t.Context(), path); err != nil || string(got) != `{"ok":1}` {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := c.Bytes(t.Context(), path); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
	c.Most = 100
	if _, err := c.Put(t.Context(), path, nil, all); err != nil {
		t.Error(err)
	}
	_, err = c.Bytes(t.Context(), path)
	wants(t, err, pawl.CodeExhausted, 0)
}

// TestRefuses: some say no with success, and when to come again in a header.
func TestRefuses(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		fmt.Fprint(w, `{"error":"canary/+key is too busy"}`)
	})
	c.Refuses = func(answer json.RawMessage) bool { return bytes.Contains(answer, []byte("error")) }
	_, err := c.Get(t.Context(), "/a", nil)
	if e := wants(t, err, "", 200); e.After != 5*time.Second || e.Header.Get("Retry-After") != "5" || !strings.Contains(string(e.Body), "too busy") {
		t.Errorf("%+v", e)
	}
}

// TestNoRedirect: a key goes to nobody but whom it is for.
func TestNoRedirect(t *testing.T) {
	t.Parallel()
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked, with key %q", r.URL, r.Header.Get("X-Key"))
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, status) })
		_, err := c.Post(t.Context(), "/a", struct{}{})
		wants(t, err, "", status)
	}
}

// TestSecrets: also where a service, or a page, says it back, in whatever form.
func TestSecrets(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]string{401: "", 200: pawl.CodeUnavailable} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `your key canary/+key, ?key=canary%%2F%%2Bkey, /canary%%2F+key or {"key":"canary\/+key"} is`+"\n\tnot %s", strings.Repeat("very ", 10_000))
		})
		_, err := c.Post(t.Context(), "/a", struct{}{})
		if e := wants(t, err, code, status); strings.ContainsAny(e.Text, "\n\t") || len(e.Text) > 2000 || !strings.Contains(e.Text, "your key ****") {
			t.Errorf("%d: %s", len(e.Text), e.Text)
		}
	}
	c := &Client{URL: "http://canary:canary@127.0.0.1:1/canary?canary=canary"}
	_, err := c.Post(t.Context(), "/a", struct{}{})
	wants(t, err, pawl.CodeUnavailable, 0)
	c.URL = "http://canary:canary@[::1"
	_, err = c.Post(t.Context(), "/a", struct{}{})
	if !errors.As(err, new(*Error)) {
		t.Error(err)
	}
}

// TestStream: the events, and what is none of them.
func TestStream(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"data: a\n\ndata:b\n\n":                                                    {":a", ":b"},
		"\xEF\xBB\xBFdata: a\r\n\r\nevent: e\r\ndata:  b\r\n\r\n":                  {":a", "e: b"},
		": ping\n\n\n\nevent: only\n\nid: 7\nretry: 1\ndata: a\ndata\ndata: b\n\n": {":a\n\nb"},
		"data: a\n\ndata: cut":                                                     {":a"},
		"data: a\n\ndata: cut\n":                                                   {":a"},
		"":                                                                         nil,
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text))} {
			var got []string
			err := events(r, func(e Event) error {
				got = append(got, e.Name+":"+string(e.Data))
				return nil
			})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s %q: %q, %v", name, text, got, err)
			}
		}
	}
	n := 0
	err := events(strings.NewReader(strings.Repeat("data: a\n\n", 9)), func(Event) error {
		if n++; n == 3 {
			return ErrDone
		}
		return nil
	})
	if err != nil || n != 3 {
		t.Error(n, err)
	}
}

// TestBounds: what is too large, too slow or cut off is none.
func TestBounds(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"a":1}`) }
	flush := func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // before that, a server does not see that its client is gone
		<-r.Context().Done()
	}
	for _, c := range []struct {
		name           string
		most           int64
		first, silence time.Duration
		handler        http.HandlerFunc
		code, says     string
	}{
		{"as large as it may be", 7, 0, 0, answer, "", ""},
		{"too large", 6, 0, 0, answer, pawl.CodeExhausted, "larger than 6 bytes"},
		{"cut", 0, 0, 0, func(w http.ResponseWriter, r *http.Request) {
			answer(w, r)
			flush(w)
			panic(http.ErrAbortHandler)
		}, pawl.CodeUnavailable, "broke"},
		{"silent between", 0, time.Hour, 20 * time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
			answer(w, r)
			flush(w)
			hang(w, r)
		}, pawl.CodeTimeout, "20ms"},
		{"silent", 0, 30 * time.Millisecond, time.Hour, hang, pawl.CodeTimeout, "30ms"},
		{"headers are not a byte of the response", 0, 30 * time.Millisecond, time.Hour, func(w http.ResponseWriter, r *http.Request) {
			flush(w)
			hang(w, r)
		}, pawl.CodeTimeout, "30ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := serve(t, c.handler)
			client.Most, client.First, client.Silence = c.most, c.first, c.silence
			_, err := client.Post(t.Context(), "/a", struct{}{})
			if c.code == "" {
				if err != nil {
					t.Error(err)
				}
			} else if e := wants(t, err, c.code, 0); !strings.Contains(e.Text, c.says) {
				t.Error(e)
			}
		})
	}
	client := serve(t, hang)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := client.Post(ctx, "/a", struct{}{})
	wants(t, err, pawl.CodeTimeout, 0)
}

// TestAfter: the rules that a vendor's law does not see.
func TestAfter(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		headers string
		want    time.Duration
	}{
		{"Retry-After: 5", 5 * time.Second},
		{"Retry-After: 60, 120", time.Minute},
		{"Retry-After-Ms: 1500|Retry-After: 2", 1500 * time.Millisecond},
		{"Retry-After-Ms: x|Retry-After: 2", 2 * time.Second},
		{"Retry-After: Thu, 01 Jan 2026 00:02:00 GMT", 2 * time.Minute},
		{"Retry-After: Thu, 01 Jan 2026 00:02:00 GMT|Date: Thu, 01 Jan 2026 00:01:30 GMT", 30 * time.Second},
		{"Retry-After: Thu, 01 Jan 2099 00:02:00 GMT", mostAfter},
		{"Retry-After: 9223372036854775807", mostAfter},
		{"Retry-After: -0", 0},
		{"Retry-After: ", -1},
		{"Retry-After: 1e3", -1},
		{"", -1},
	} {
		h := http.Header{}
		for pair := range strings.SplitSeq(c.headers, "|") {
			name, value, _ := strings.Cut(pair, ": ")
			h.Set(name, value)
		}
		if got := After(h, now); got != c.want {
			t.Errorf("%s: %s, want %s", c.headers, got, c.want)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("event: a\ndata: b\n\n: c\r\n\r\ndata")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		if err := events(strings.NewReader(text), func(e Event) error { n += len(e.Data); return nil }); err != nil || n > len(text) {
			t.Error(n, err)
		}
	})
}
