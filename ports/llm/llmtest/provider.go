package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl/ports/llm"
)

// Key is the key that a vendor's models are opened with: no error may tell it.
const Key = "sk-canary-5f0c3b1d9e"

// Setup is how a vendor's model is opened.
type Setup struct {
	URL            string // of the provider, without the vendor's path
	Name           string // of the model
	First, Silence time.Duration
	Now            func() time.Time
}

// Wire is how one vendor's provider speaks, written from the vendor's description and sharing nothing with the client.
type Wire struct {
	Provider string // as in the Ref of its models
	Open     func(s Setup) llm.Model
	// Hear reads a request in this port's words. An error is a fault of the client: the format does not have that.
	Hear func(r *http.Request, body []byte) (Heard, error)
	// Whole is the answer as one document.
	Whole func(a llm.Response) string
	// Events is the answer as events, ready to be sent, its text in Pieces.
	Events func(a llm.Response) []string
	// Refusals are the vendor's own words for what a code of this port means, or for the first word of a text. $KEY in it becomes Key.
	Refusals map[string]Refusal
	// Midway are an event that breaks off a stream, and the code of it.
	Midway     string
	MidwayCode string
	// NoThoughts: the vendor counts thoughts as any other output.
	NoThoughts bool
}

// Heard is a request as the provider has understood it.
type Heard struct {
	Model  string
	Stream bool
	llm.Request
	Body []byte
}

// Refusal is an answer that says no.
type Refusal struct {
	Status int
	Header http.Header
	Body   string
}

// Scene is what the provider does with what it is asked.
type Scene struct {
	Answer  llm.Response
	Refusal *Refusal

	Mute   bool // says nothing at all
	Stall  bool // says a piece, then nothing
	Cut    bool // breaks the connection after a piece
	Midway bool // says a piece, then the vendor's error
	Page   bool // a gateway answers, with success
	Flood  bool // never ends
}

// Pieces are a text as it is streamed.
func Pieces(text string) []string {
	var out []string
	for runes := []rune(text); len(runes) > 0; {
		n := min(len(runes), 4)
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// Provider is a provider on this machine.
type Provider struct {
	URL string

	t     testing.TB
	wire  Wire
	mu    sync.Mutex
	scene Scene
	heard []Heard
	over  chan struct{}
}

// NewProvider starts one, which ends with the test.
func NewProvider(t testing.TB, w Wire) *Provider {
	p := &Provider{t: t, wire: w, over: make(chan struct{})}
	s := httptest.NewServer(p)
	p.URL = s.URL
	t.Cleanup(func() {
		close(p.over)
		s.Close()
	})
	return p
}

// Model opens a model at the provider.
func (p *Provider) Model(s Setup) llm.Model {
	s.URL = p.URL
	if s.Name == "" {
		s.Name = "some/model:1"
	}
	return p.wire.Open(s)
}

// Play sets what happens from now on.
func (p *Provider) Play(s Scene) *Provider {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scene, p.heard = s, nil
	return p
}

// Heard is what was asked since Play.
func (p *Provider) Heard() []Heard {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	heard, err := p.wire.Hear(r, body)
	if err != nil {
		p.t.Errorf("the vendor has no such request: %v\n%s", err, body)
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	heard.Body = body
	p.mu.Lock()
	p.heard = append(p.heard, heard)
	s := p.scene
	p.mu.Unlock()
	switch {
	case s.Mute:
		p.wait(r)
	case s.Page:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><title>Sign in</title>\n<p>Hello "+r.Header.Get("Authorization")+Key)
	case s.Refusal != nil:
		s.Refusal.write(w)
	case heard.Stream:
		p.stream(w, r, s)
	default:
		p.whole(w, r, s)
	}
}

func (p *Provider) wait(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-p.over:
	}
}

func (f Refusal) write(w http.ResponseWriter) {
	w.Header()["Date"] = nil // unless it is told
	w.Header().Set("Content-Type", "application/json")
	for name, values := range f.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body)
}

func (p *Provider) whole(w http.ResponseWriter, r *http.Request, s Scene) {
	w.Header().Set("Content-Type", "application/json")
	text := p.wire.Whole(s.Answer)
	switch {
	case s.Flood:
		p.flood(w, r, text[:1])
	case s.Cut:
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = io.WriteString(w, text[:len(text)/2])
		panic(http.ErrAbortHandler)
	case s.Stall:
		_, _ = io.WriteString(w, text[:len(text)/2])
		_ = http.NewResponseController(w).Flush()
		p.wait(r)
	default:
		_, _ = io.WriteString(w, text)
	}
}

func (p *Provider) stream(w http.ResponseWriter, r *http.Request, s Scene) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, ": a comment keeps the connection\n\n")
	if s.Flood {
		p.flood(w, r, "data: ")
		return
	}
	events := p.wire.Events(s.Answer)
	for i, e := range events {
		if i == (len(events)+1)/2 && (s.Cut || s.Stall || s.Midway) {
			_ = http.NewResponseController(w).Flush()
			break
		}
		_, _ = io.WriteString(w, e)
	}
	switch {
	case s.Cut:
		panic(http.ErrAbortHandler)
	case s.Stall:
		p.wait(r)
	case s.Midway:
		_, _ = io.WriteString(w, p.wire.Midway)
	}
}

func (p *Provider) flood(w http.ResponseWriter, r *http.Request, begin string) {
	_, _ = io.WriteString(w, begin+`{"`)
	for block := bytes.Repeat([]byte("x"), 1<<16); r.Context().Err() == nil; {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// Strict reads a document of which every field is known. It is what Wire.Hear reads with.
func Strict(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("there is more behind the document")
	}
	return nil
}

// Authorized says whether a header holds the key, and that the address does not.
func Authorized(r *http.Request, header, value string) error {
	if got := r.Header.Get(header); got != value {
		return fmt.Errorf("header %s is %q", header, got)
	}
	if strings.Contains(r.URL.String(), Key) {
		return fmt.Errorf("the key stands in the address %s", r.URL)
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		return fmt.Errorf("%s with %s", r.Method, r.Header.Get("Content-Type"))
	}
	return nil
}
