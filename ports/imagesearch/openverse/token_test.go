package openverse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl"
	"pawl/ports/imagesearch"
	"pawl/ports/imagesearch/imagesearchtest"
	"pawl/ports/imagesearch/openverse"
)

// office gives tokens as https://api.openverse.org/v1/ describes it, one after the other, and takes
// only the last.
type office struct {
	answer string // instead of a token
	status int
	mute   bool

	mu    sync.Mutex
	given int
}

// current is a token that holds the key, so that no error may tell it.
func (o *office) current() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprintf("%s-token-%d", imagesearchtest.Key, o.given)
}

func (o *office) wire() imagesearchtest.Wire {
	w := anonymous()
	w.Keyless = false
	w.Open = func(s imagesearchtest.Setup) imagesearch.Searcher {
		return openverse.New(openverse.Config{
			URL: s.URL, ID: "app", Secret: imagesearchtest.Key, First: s.First, Silence: s.Silence, Now: s.Now,
		})
	}
	w.Hear = func(r *http.Request) (imagesearch.Query, error) { return hear(r, r.Header.Get("Authorization"), 50) }
	w.Aside = o.serve
	return w
}

func (o *office) serve(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path != "/v1/auth_tokens/token/" {
		return o.stranger(w, r)
	}
	err := r.ParseForm()
	want := "client_id=app&client_secret=" + imagesearchtest.Key + "&grant_type=client_credentials"
	switch {
	case o.mute:
		<-r.Context().Done()
	case err != nil || r.Method != http.MethodPost || r.URL.RawQuery != "" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded":
		http.Error(w, `{"error":"invalid_request"}`, http.StatusBadRequest)
	case r.PostForm.Encode() != want:
		http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
	case o.status != 0:
		w.WriteHeader(o.status)
		_, _ = io.WriteString(w, o.answer)
	default:
		o.mu.Lock()
		o.given++
		o.mu.Unlock()
		fmt.Fprintf(w, `{"access_token":%q,"expires_in":43200,"token_type":"Bearer","scope":"read write"}`, o.current())
	}
	return true
}

// stranger turns away who has not the last token.
func (o *office) stranger(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Authorization") == "Bearer "+o.current() {
		return false
	}
	http.Error(w, `{"detail":"Invalid token."}`, http.StatusUnauthorized)
	return true
}

func search(t *testing.T, m imagesearch.Searcher) error {
	_, err := m.Search(t.Context(), imagesearch.Query{Text: "Marie Curie", Count: 5})
	return err
}

// TestToken: one token for many searches, a new one before its end, and another after it was taken away.
func TestToken(t *testing.T) {
	t.Parallel()
	o := new(office)
	s := imagesearchtest.NewSource(t, o.wire()).Play(imagesearchtest.Scene{Found: imagesearchtest.Pictures(1)})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := s.Searcher(imagesearchtest.Setup{Now: func() time.Time { return now }})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := search(t, m); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, c := range []struct {
		later time.Duration
		given int
	}{{0, 1}, {11*time.Hour + 58*time.Minute, 1}, {2 * time.Minute, 2}, {time.Minute, 2}} {
		now = now.Add(c.later)
		if err := search(t, m); err != nil || o.given != c.given {
			t.Errorf("%s later: %d tokens, %v", c.later, o.given, err)
		}
	}
	o.given++ // the token is taken away
	err := search(t, m)
	if _, ok := pawl.Retryable(err); !ok || imagesearch.Code(err) != pawl.CodeUnavailable || o.given != 3 {
		t.Errorf("%d tokens, %v", o.given, err)
	}
	if err := search(t, m); err != nil || o.given != 4 {
		t.Errorf("%d tokens, %v", o.given, err)
	}
}

// TestNoToken: without a token nothing is searched, least of all anonymously.
func TestNoToken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		answer string
		code   string
	}{
		{401, `{"error":"invalid_client"}`, pawl.CodeForbidden},
		{400, `{"error":"unsupported_grant_type"}`, pawl.CodeForbidden},
		{429, `{"detail":"Request was throttled."}`, imagesearch.CodeRateLimited},
		{500, "", pawl.CodeUnavailable},
		{200, "<html>" + imagesearchtest.Key, pawl.CodeUnavailable},
		{200, `{}`, pawl.CodeUnavailable},
		{200, `{"access_token":7,"token_type":"Bearer"}`, pawl.CodeUnavailable},
		{200, `{"access_token":"a","token_type":"mac"}`, pawl.CodeUnavailable},
		{200, `{"access_token":"a\nb","token_type":"Bearer"}`, pawl.CodeUnavailable},
	} {
		o := &office{status: c.status, answer: c.answer}
		s := imagesearchtest.NewSource(t, o.wire()).Play(imagesearchtest.Scene{Found: imagesearchtest.Pictures(1)})
		err := search(t, s.Searcher(imagesearchtest.Setup{}))
		if imagesearch.Code(err) != c.code || len(s.Heard()) != 0 || strings.Contains(fmt.Sprintf("%v %#v", err, err), imagesearchtest.Key) {
			t.Errorf("%s: asked %d times, %v", c.answer, len(s.Heard()), err)
		}
	}
	o := new(office)
	s := imagesearchtest.NewSource(t, o.wire())
	for code, c := range map[string]openverse.Config{
		pawl.CodeForbidden:    {URL: s.URL, ID: "app", Secret: "another"},
		imagesearch.CodeUnset: {URL: s.URL, ID: "app"},
	} {
		if err := search(t, openverse.New(c)); imagesearch.Code(err) != code || o.given != 0 {
			t.Errorf("%d tokens, %v", o.given, err)
		}
	}
}

// TestExpiry: what an end of a token may be.
func TestExpiry(t *testing.T) {
	t.Parallel()
	for expires, given := range map[string]int{"43200": 1, "30": 2, "0": 2, "-5": 2, "1e300": 1} {
		o := new(office)
		w := o.wire()
		w.Aside = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/auth_tokens/token/" {
				return o.stranger(w, r)
			}
			o.mu.Lock()
			o.given++
			o.mu.Unlock()
			fmt.Fprintf(w, `{"access_token":%q,"expires_in":%s,"token_type":"bearer"}`, o.current(), expires)
			return true
		}
		s := imagesearchtest.NewSource(t, w).Play(imagesearchtest.Scene{})
		m := s.Searcher(imagesearchtest.Setup{})
		for range 2 {
			if err := search(t, m); err != nil {
				t.Errorf("%s: %v", expires, err)
			}
		}
		if o.given != given {
			t.Errorf("%s: %d tokens", expires, o.given)
		}
	}
}

// TestTokenCancelled: who waits for a token may give up, and who waits behind may too.
func TestTokenCancelled(t *testing.T) {
	t.Parallel()
	o := &office{mute: true}
	s := imagesearchtest.NewSource(t, o.wire())
	m := s.Searcher(imagesearchtest.Setup{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := m.Search(ctx, imagesearch.Query{Text: "a", Count: 1}); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	wg.Wait()
}
