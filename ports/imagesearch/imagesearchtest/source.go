// Package imagesearchtest is the law of searchers: what each vendor's client does with what a source of pictures says, over real HTTP;
// and a searcher that finds what a test wants.
//
// It may never be linked into a program or know one vendor: a vendor's tests bring a Wire, the other side of its client, written
// from the vendor's description. Every case says why it is a law.
//
// Start reading at Run for the law (Source is the server that speaks as a Wire does; RunLocal is the law of those that ask no
// service), and at Script for the searcher.
package imagesearchtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl/ports/imagesearch"
)

// Key is the key that a vendor's searchers are opened with: no error may tell it.
const Key = "sk-canary-5f0c3b1d9e"

// Setup is how a vendor's searcher is opened.
type Setup struct {
	URL            string // of the source, without the vendor's path
	First, Silence time.Duration
	Now            func() time.Time
}

// Wire is how one vendor's source speaks, written from the vendor's description and sharing nothing with the client.
type Wire struct {
	Name string // of its searchers
	Open func(s Setup) imagesearch.Searcher
	// Hear reads a search. An error is a fault of the client: the source does not have that, or would refuse it.
	Hear func(r *http.Request) (imagesearch.Query, error)
	// Aside answers what is no search, such as a request for a token; false: it is one. nil: there is nothing else.
	Aside func(w http.ResponseWriter, r *http.Request) bool
	// Whole is the answer as one document. A result may lack what no result of this port does.
	Whole func(found []imagesearch.Result) string
	// Refusals are the vendor's own words for what a code of this port means, or for the first word of a text. $KEY in it becomes Key.
	Refusals map[string]Refusal
	// Keyless: there is no key that anybody could tell.
	Keyless bool
	// Unmetered: the source counts no searches, and has no words for that none are left.
	Unmetered bool
}

// Refusal is an answer that says no.
type Refusal struct {
	Status int
	Header http.Header
	Body   string
}

// Scene is what the source does with what it is asked.
type Scene struct {
	Found   []imagesearch.Result
	Refusal *Refusal // or any other answer

	Mute  bool // says nothing at all
	Stall bool // says half, then nothing
	Cut   bool // breaks the connection after half
	Page  bool // a gateway answers, with success
	Flood bool // never ends
}

// Source is a source of pictures on this machine.
type Source struct {
	URL string

	t     testing.TB
	wire  Wire
	mu    sync.Mutex
	scene Scene
	heard []imagesearch.Query
	over  chan struct{}
}

// NewSource starts one, which ends with the test.
func NewSource(t testing.TB, w Wire) *Source {
	s := &Source{t: t, wire: w, over: make(chan struct{})}
	server := httptest.NewServer(s)
	s.URL = server.URL
	t.Cleanup(func() {
		close(s.over)
		server.Close()
	})
	return s
}

// Searcher opens a searcher at the source.
func (s *Source) Searcher(with Setup) imagesearch.Searcher {
	with.URL = s.URL
	return s.wire.Open(with)
}

// Play sets what happens from now on.
func (s *Source) Play(scene Scene) *Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scene, s.heard = scene, nil
	return s
}

// Answer has one document answered as it is.
func (s *Source) Answer(body string) *Source {
	return s.Play(Scene{Refusal: &Refusal{Status: http.StatusOK, Body: body}})
}

// Heard is what was searched since Play.
func (s *Source) Heard() []imagesearch.Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.heard)
}

func (s *Source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.wire.Aside != nil && s.wire.Aside(w, r) {
		return
	}
	q, err := s.wire.Hear(r)
	if err != nil {
		s.t.Errorf("the vendor has no such request: %v: %s", err, r.URL)
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	s.mu.Lock()
	s.heard = append(s.heard, q)
	scene := s.scene
	s.mu.Unlock()
	switch {
	case scene.Mute:
		s.wait(r)
	case scene.Page:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><title>Sign in</title>\n<p>Hello "+s.key())
	case scene.Refusal != nil:
		s.refuse(w, *scene.Refusal)
	default:
		s.whole(w, r, scene)
	}
}

func (s *Source) wait(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.over:
	}
}

func (s *Source) key() string {
	if s.wire.Keyless {
		return "nobody"
	}
	return Key
}

func (s *Source) refuse(w http.ResponseWriter, f Refusal) {
	w.Header()["Date"] = nil // unless it is told
	w.Header().Set("Content-Type", "application/json")
	for name, values := range f.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, strings.ReplaceAll(f.Body, "$KEY", s.key()))
}

func (s *Source) whole(w http.ResponseWriter, r *http.Request, scene Scene) {
	w.Header().Set("Content-Type", "application/json")
	text := s.wire.Whole(scene.Found)
	half := text[:len(text)/2]
	switch {
	case scene.Flood:
		_, _ = io.WriteString(w, `{"`)
		for block := bytes.Repeat([]byte("x"), 1<<16); r.Context().Err() == nil; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	case scene.Cut:
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = io.WriteString(w, half)
		panic(http.ErrAbortHandler)
	case scene.Stall:
		_, _ = io.WriteString(w, half)
		_ = http.NewResponseController(w).Flush()
		s.wait(r)
	default:
		_, _ = io.WriteString(w, text)
	}
}

// Params are the parameters of a request to a path, each of which is known and stands there once.
func Params(r *http.Request, path string, known ...string) (url.Values, error) {
	if r.Method != http.MethodGet || r.URL.Path != path {
		return nil, fmt.Errorf("%s %s", r.Method, r.URL.Path)
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	for name, v := range values {
		if !slices.Contains(known, name) || len(v) != 1 {
			return nil, fmt.Errorf("parameter %s, %d times", name, len(v))
		}
	}
	return values, err
}
