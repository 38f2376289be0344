package cloudflare_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pawl/ports/kv/cloudflare"
)

// What follows is Cloudflare's side, written from https://developers.cloudflare.com/api/resources/kv and
// https://developers.cloudflare.com/kv/platform/limits: what is not described there is a fault of the client.

const (
	token     = "canary-0a1b2c3d4e5f"
	account   = "0123456789abcdef0123456789abcdef"
	namespace = "fedcba9876543210fedcba9876543210"
)

type entry struct {
	value         []byte
	until, change time.Time
	gone          bool
}

// theirs is a namespace.
type theirs struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	now     time.Time
	keys    map[string][]entry // every change of a key, the last one last
	late    time.Duration      // after which a change is seen by whoever does not write
	limited bool               // one write a second to a key
	scene   http.HandlerFunc   // answers instead; nil: nobody does
	asked   int
}

func serve(t *testing.T) *theirs {
	s := &theirs{t: t, now: time.Unix(1_800_000_000, 0), keys: map[string][]entry{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *theirs) store() *cloudflare.Store {
	return cloudflare.New(cloudflare.Config{URL: s.URL + "/client/v4/", Account: account, Namespace: namespace, Token: token, First: 10 * time.Second})
}

func (s *theirs) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// seen is what a key holds for a reader.
func (s *theirs) seen(key string) (entry, bool) {
	all := s.keys[key]
	for i := len(all) - 1; i >= 0; i-- {
		if !all[i].change.After(s.now.Add(-s.late)) {
			return all[i], !all[i].gone && s.now.Before(all[i].until)
		}
	}
	return entry{}, false
}

type doc = map[string]any

func says(w http.ResponseWriter, status int, d doc) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(d)
}

// refuse answers as they do when they do not.
func refuse(w http.ResponseWriter, status, code int, message string) {
	says(w, status, doc{"result": nil, "success": false, "errors": []doc{{"code": code, "message": message}}, "messages": []doc{}})
}

// wrong is what no client may ask.
func (s *theirs) wrong(w http.ResponseWriter, format string, a ...any) {
	s.t.Errorf("it is not described so: "+format, a...)
	refuse(w, 418, 1, fmt.Sprintf(format, a...))
}

func (s *theirs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if r.Header.Get("Authorization") != "Bearer "+token || strings.Contains(r.URL.String(), token) {
		s.wrong(w, "authorization %q at %s", r.Header.Get("Authorization"), r.URL)
		return
	}
	if s.scene != nil {
		scene := s.scene
		s.mu.Unlock()
		defer s.mu.Lock()
		scene(w, r)
		return
	}
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/client/v4/accounts/"+account+"/storage/kv/namespaces/"+namespace+"/")
	if !ok {
		refuse(w, 404, 7003, "Could not route to "+r.URL.Path)
		return
	}
	if rest == "keys" && r.Method == http.MethodGet {
		s.list(w, r.URL.Query())
		return
	}
	escaped, ok := strings.CutPrefix(rest, "values/")
	key, err := url.PathUnescape(escaped)
	if !ok || err != nil || strings.Contains(escaped, "/") {
		s.wrong(w, "%s %s", r.Method, r.URL.EscapedPath())
		return
	}
	switch {
	case len(key) > 512:
		refuse(w, 414, 10030, fmt.Sprintf("UTF-8 encoded length of %d exceeds key length limit of 512.", len(key)))
		return
	case key == "" || key == "." || key == ".." || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		refuse(w, 400, 10014, "all printable, non-whitespace characters are valid")
		return
	}
	s.one(w, r, key, body)
}

func (s *theirs) one(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	e := entry{value: body, change: s.now, gone: true}
	switch r.Method {
	case http.MethodGet:
		if r.URL.RawQuery != "" || len(body) > 0 {
			s.wrong(w, "GET with %q and %d bytes", r.URL.RawQuery, len(body))
		} else if e, ok := s.seen(key); ok {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Expiration", strconv.FormatInt(e.until.Unix(), 10))
			_, _ = w.Write(e.value)
		} else {
			refuse(w, 404, 10009, "get: 'key not found'")
		}
		return
	case http.MethodPut:
		query := r.URL.Query()
		ttl, err := strconv.Atoi(query.Get("expiration_ttl"))
		if len(query) != 1 || err != nil || r.Header.Get("Content-Type") != "application/octet-stream" {
			s.wrong(w, "PUT of %s with %q", r.Header.Get("Content-Type"), r.URL.RawQuery)
			return
		}
		if ttl < 60 {
			refuse(w, 400, 10033, "put: 'Invalid expiration_ttl. Expiration TTL must be at least 60.'")
			return
		}
		if len(body) > 25<<20 {
			refuse(w, 413, 10035, "Value length exceeds limit of 26214400.")
			return
		}
		e.gone, e.until = false, s.now.Add(time.Duration(ttl)*time.Second)
	case http.MethodDelete:
		if r.URL.RawQuery != "" || len(body) > 0 {
			s.wrong(w, "DELETE with %q and %d bytes", r.URL.RawQuery, len(body))
			return
		}
	default:
		s.wrong(w, "%s", r.Method)
		return
	}
	if all := s.keys[key]; s.limited && len(all) > 0 && s.now.Sub(all[len(all)-1].change) < time.Second {
		refuse(w, 429, 10029, "Too Many Requests: one write a second to a key")
		return
	}
	s.keys[key] = append(s.keys[key], e)
	says(w, 200, doc{"result": doc{}, "success": true, "errors": []doc{}, "messages": []doc{}})
}

func (s *theirs) list(w http.ResponseWriter, query url.Values) {
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit < 10 || limit > 1000 {
		s.wrong(w, "limit=%s", query.Get("limit"))
		return
	}
	for parameter := range query {
		if !slices.Contains([]string{"limit", "prefix", "cursor"}, parameter) {
			s.wrong(w, "parameter %s", parameter)
			return
		}
	}
	var names []string
	for key := range s.keys {
		if _, ok := s.seen(key); ok && strings.HasPrefix(key, query.Get("prefix")) && "after "+key > query.Get("cursor") {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	cursor := ""
	if len(names) > limit {
		names = names[:limit]
		cursor = "after " + names[limit-1]
	}
	result := []doc{}
	for _, key := range names {
		e, _ := s.seen(key)
		result = append(result, doc{"name": key, "expiration": e.until.Unix()})
	}
	says(w, 200, doc{"result": result, "success": true, "errors": []doc{}, "messages": []doc{}, "result_info": doc{"count": len(result), "cursor": cursor}})
}
