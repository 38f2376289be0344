package cloudflare_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/ports/kv"
	"pawl/ports/kv/cloudflare"
	"pawl/ports/kv/kvtest"
)

// playing is a store whose service answers everything so.
func playing(scene http.HandlerFunc) func(*testing.T) kv.Store {
	return func(t *testing.T) kv.Store {
		s := serve(t)
		s.scene = scene
		return s.store()
	}
}

func refusing(status, code int, message string) func(*testing.T) kv.Store {
	return playing(func(w http.ResponseWriter, _ *http.Request) { refuse(w, status, code, message) })
}

func page(status int) func(*testing.T) kv.Store {
	return playing(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<!doctype html>\n<title>cloudflare</title> Ray ID of "+token)
	})
}

func TestLaw(t *testing.T) {
	var last *theirs
	kvtest.Run(t, kvtest.Bench{
		Open: func(t *testing.T) kv.Store {
			last = serve(t)
			return last.store()
		},
		Pass:   func(_ *testing.T, d time.Duration) { last.pass(d) },
		Secret: token,
		Fail: map[string]func(*testing.T) kv.Store{
			pawl.CodeInvalid:                 refusing(400, 10001, "a bad request"),
			pawl.CodeForbidden:               refusing(403, 10000, "Authentication error"),
			pawl.CodeForbidden + " token":    refusing(400, 6003, "Invalid request headers with "+token),
			pawl.CodeForbidden + " 401":      refusing(401, 1, "no"),
			pawl.CodeNotFound + " namespace": refusing(404, 10013, "namespace not found"),
			pawl.CodeNotFound + " account":   refusing(404, 7003, "Could not route to /client/v4/accounts"),
			pawl.CodeNotFound + " page":      page(404),
			kv.CodeRateLimited:               refusing(429, 971, "Please wait and consider throttling your request speed"),
			kv.CodeRateLimited + " page":     page(429),
			kv.CodeQuota:                     refusing(429, 10048, "your account has reached the free usage limit for this operation for today"),
			pawl.CodeUnavailable + " 500":    refusing(500, 10002, "internal\r\nerror"),
			pawl.CodeUnavailable + " page":   page(502),
			pawl.CodeUnavailable + " moved":  page(302),
			pawl.CodeTimeout + " 524":        page(524),
			pawl.CodeUnavailable + " cut": playing(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				_, _ = io.WriteString(w, `{"success":true`)
				panic(http.ErrAbortHandler)
			}),
			pawl.CodeTimeout + " silent": func(t *testing.T) kv.Store {
				s := serve(t)
				s.scene = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
				return cloudflare.New(cloudflare.Config{URL: s.URL, Token: token, First: 20 * time.Millisecond})
			},
			pawl.CodeExhausted + " flood": playing(func(w http.ResponseWriter, _ *http.Request) {
				for block := make([]byte, 1<<20); ; {
					if _, err := w.Write(block); err != nil {
						return
					}
				}
			}),
			pawl.CodeUnavailable + " nobody": func(t *testing.T) kv.Store {
				s := serve(t)
				s.Close()
				return s.store()
			},
		},
	})
}

// TestNotDescribed: an answer that claims success and is none is an error, and never a value or an empty list. What stands at a key
// may be anything, so a page in its place cannot be told from it.
func TestNotDescribed(t *testing.T) {
	for _, body := range []string{
		`{"success":true,"result":[{"name":""}]}`, "", "null", "[]", "<html>Sign in</html>", `{}`, `{"success":"true"}`, `{"success":false}`, `{"success":false,"errors":[{"code":"x"}]}`, `{"success":null,"errors":7}`,
		`{"success":true,"result":{"name":"k"}}`, `{"success":true,"result":[{"name":7}]}`, `{"success":true,"result":[{"name":"other"}]}`, `{"success":true,"result":[{}]}`,
		`{"success":true,"result":[],"result_info":{"cursor":{}}}`,
	} {
		s := serve(t)
		s.scene = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
		if keys, err := s.store().Keys(t.Context(), "k"); err == nil || kv.Code(err) == "" || keys != nil {
			t.Errorf("%s: %q, %v", body, keys, err)
		}
		if strings.HasPrefix(body, `{"success":true`) {
			continue
		}
		for op, err := range map[string]error{"put": s.store().Put(t.Context(), "k", nil, time.Hour), "delete": s.store().Delete(t.Context(), "k")} {
			if err == nil || kv.Code(err) == "" {
				t.Errorf("%s: %s: %v", body, op, err)
			}
		}
	}
}

// TestOneWriteASecond: the limit of one key is an error that may be tried again, with the service's own word for when, and one request
// is made for one call.
func TestOneWriteASecond(t *testing.T) {
	s := serve(t)
	s.limited = true
	store := s.store()
	if err := store.Put(t.Context(), "k", []byte("1"), time.Hour); err != nil {
		t.Fatal(err)
	}
	for op, err := range map[string]error{"put": store.Put(t.Context(), "k", []byte("2"), time.Hour), "delete": store.Delete(t.Context(), "k")} {
		if _, again := pawl.Retryable(err); kv.Code(err) != kv.CodeRateLimited || !again {
			t.Errorf("%s: %v, tried again: %v", op, err, again)
		}
	}
	if s.asked != 3 {
		t.Errorf("asked %d times", s.asked)
	}
	if err := store.Put(t.Context(), "other", nil, time.Hour); err != nil {
		t.Error(err)
	}
	s.pass(time.Second)
	if err := store.Put(t.Context(), "k", []byte("2"), time.Hour); err != nil {
		t.Error(err)
	}
	s.scene = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		refuse(w, 429, 971, "Please wait")
	}
	if after, again := pawl.Retryable(store.Put(t.Context(), "k", nil, time.Hour)); !again || after != 7*time.Second {
		t.Errorf("after %s, %v", after, again)
	}
}

// TestEventuallyConsistent: for a minute the store says what was there before, and no call fails because of it.
func TestEventuallyConsistent(t *testing.T) {
	s := serve(t)
	s.late = time.Minute
	store := s.store()
	check := func(when, want string) {
		t.Helper()
		got, ok, err := store.Get(t.Context(), "k")
		keys, listErr := store.Keys(t.Context(), "")
		if err != nil || listErr != nil || string(got) != want || ok != (want != "") || fmt.Sprint(keys) == "[k]" != ok {
			t.Errorf("%s: %q, %v, %v; %q, %v; want %q", when, got, ok, err, keys, listErr, want)
		}
	}
	for _, step := range []struct{ put, before, after string }{{"one", "", "one"}, {"two", "one", "two"}, {"", "two", ""}} {
		err := store.Delete(t.Context(), "k")
		if step.put != "" {
			err = store.Put(t.Context(), "k", []byte(step.put), time.Hour)
		}
		if err != nil {
			t.Fatal(err)
		}
		check("at once", step.before)
		s.pass(59 * time.Second)
		check("after 59 s", step.before)
		s.pass(time.Second)
		check("after a minute", step.after)
		s.pass(time.Second)
	}
}

// TestEndlessList: a list whose cursor never ends does.
func TestEndlessList(t *testing.T) {
	s := serve(t)
	s.scene = func(w http.ResponseWriter, _ *http.Request) {
		says(w, 200, doc{"result": []doc{}, "success": true, "errors": []doc{}, "result_info": doc{"cursor": "again"}})
	}
	if keys, err := s.store().Keys(t.Context(), ""); kv.Code(err) != pawl.CodeExhausted || keys != nil {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}
