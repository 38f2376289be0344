package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl"
	"pawl/ports/index/fts"
	"pawl/workflows/nco"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestMain lets the test binary be the program: what the tests with real processes start.
func TestMain(m *testing.M) {
	if os.Getenv("APP_TEST_PROGRAM") != "" {
		ws := testWorkflows()
		if url := os.Getenv(degreesTestURL); url != "" {
			ws = append(ws, degreesUnder(url))
		}
		Main(ws...)
	}
	os.Exit(m.Run())
}

// testWorkflows are small workflows for what nco does not do, and nco.
func testWorkflows() []Workflow {
	return []Workflow{Graph(hello()), Graph(approve()), Graph(slow()), Graph(number()), Graph(broken()), Graph(family()), NCO()}
}

type greeting struct {
	Name  string          `json:"name" jsonschema:"whom to greet"`
	Times int             `json:"times,omitempty"`
	Tags  []string        `json:"tags,omitempty"`
	Loud  bool            `json:"loud,omitempty"`
	Rate  *float64        `json:"rate,omitempty"`
	More  json.RawMessage `json:"more,omitempty"`
}

func hello() *pawl.Graph[greeting, greeting, greeting] {
	g := pawl.New[greeting, greeting, greeting]("hello", pawl.Options{Version: "1", Positional: []string{"name", "tags"}, Budget: pawl.Budget{"llm": 3}})
	greet := g.Node("greet", func(ctx context.Context, s greeting) (greeting, error) {
		_, err := pawl.Do(ctx, "say", func(ctx context.Context) (string, error) { return "hello", pawl.Charge(ctx, "llm", 1) })
		return s, err
	})
	done := g.Succeed("GREETED")
	g.Start(greet, func(in greeting) (greeting, error) {
		if in.Name == "" {
			return in, &pawl.Error{Code: pawl.CodeInvalid, Text: "name: empty"}
		}
		return in, nil
	})
	g.From(greet).Otherwise(done)
	g.Finish(func(s greeting, _ pawl.Ending) (greeting, error) { return s, nil })
	return g
}

type verdict struct {
	Approve bool   `json:"approve"`
	Comment string `json:"comment,omitempty"`
}

type approval struct {
	Said verdict `json:"said"`
}

func approve() *pawl.Graph[struct{}, approval, verdict] {
	g := pawl.New[struct{}, approval, verdict]("approve", pawl.Options{Version: "1"})
	ask := g.Node("ask", func(ctx context.Context, s approval) (approval, error) {
		v, err := pawl.Ask[verdict](ctx, "ok", pawl.Question{Text: "Go ahead?\x1b[31m", Choices: []string{"yes", "no"}, Data: map[string]int{"cost": 3}})
		s.Said = v
		return s, err
	})
	done := g.Succeed("DONE")
	g.Start(ask, func(struct{}) (approval, error) { return approval{}, nil })
	g.From(ask).OnAnswer("said", done).AtMost(1).Otherwise(done)
	g.Finish(func(s approval, _ pawl.Ending) (verdict, error) { return s.Said, nil })
	return g
}

// family has a child that asks.
func family() *pawl.Graph[struct{}, approval, verdict] {
	g := pawl.New[struct{}, approval, verdict]("family", pawl.Options{Version: "1"})
	child := pawl.Sub(g, "child", approve(), func(approval) (struct{}, error) { return struct{}{}, nil },
		func(s approval, v verdict) (approval, error) { s.Said = v; return s, nil })
	done := g.Succeed("DONE")
	g.Start(child, func(struct{}) (approval, error) { return approval{}, nil })
	g.From(child).Otherwise(done)
	g.Finish(func(s approval, _ pawl.Ending) (verdict, error) { return s.Said, nil })
	return g
}

type pace struct {
	N    int `json:"n"`
	MS   int `json:"ms"`
	Done int `json:"done,omitempty"`
}

func slow() *pawl.Graph[pace, pace, pace] {
	g := pawl.New[pace, pace, pace]("slow", pawl.Options{Version: "1"})
	work := g.Node("work", func(ctx context.Context, s pace) (pace, error) {
		select {
		case <-time.After(time.Duration(s.MS) * time.Millisecond):
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
		s.Done++
		return s, nil
	})
	done := g.Succeed("DONE")
	g.Start(work, func(in pace) (pace, error) { return in, nil })
	g.From(work).When("again", func(s pace) bool { return s.Done < s.N }, work).AtMost(1000).Otherwise(done)
	g.Finish(func(s pace, _ pawl.Ending) (pace, error) { return s, nil })
	return g
}

func number() *pawl.Graph[int, int, int] {
	g := pawl.New[int, int, int]("number", pawl.Options{Version: "1"})
	keep := g.Node("keep", func(_ context.Context, n int) (int, error) { return n, nil })
	done := g.Succeed("DONE")
	g.Start(keep, func(n int) (int, error) { return n, nil })
	g.From(keep).Otherwise(done)
	g.Finish(func(n int, _ pawl.Ending) (int, error) { return n, nil })
	return g
}

// broken ends at a Fail terminal with an output, or, for the input "panic", with a panic.
func broken() *pawl.Graph[greeting, greeting, greeting] {
	g := pawl.New[greeting, greeting, greeting]("broken", pawl.Options{Version: "1", Positional: []string{"name"}})
	work := g.Node("work", func(_ context.Context, s greeting) (greeting, error) {
		if s.Name == "panic" {
			panic("as told")
		}
		return s, nil
	})
	bad := g.Fail("REFUSED", pawl.End[greeting]{Error: func(greeting) error { return errors.New("it cannot be done") }})
	g.Start(work, func(in greeting) (greeting, error) {
		if in.Name == "early" {
			panic("at the start")
		}
		return in, nil
	})
	g.From(work).Otherwise(bad)
	g.Finish(func(s greeting, _ pawl.Ending) (greeting, error) { return s, nil })
	return g
}

// told is the end of one command.
type told struct {
	code     int
	out, err string
}

// shell makes commands on a store of their own.
type shell struct {
	t   *testing.T
	dir string
	env []string
	ws  []Workflow
}

func newShell(t *testing.T) *shell {
	dir := quickDir(t)
	return &shell{t: t, dir: dir, ws: testWorkflows(), env: []string{
		"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "LocalAppData=" + dir, "AppData=" + dir, "USER=ann", "TERM=dumb",
	}}
}

// quickDir is in memory where that can be: a disk that others write to may take longer for one sync than a program waits.
func quickDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "pawl-app-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (s *shell) run(args ...string) told { return s.fed("", args...) }

func (s *shell) fed(in string, args ...string) told {
	s.t.Helper()
	var out, err bytes.Buffer
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	code := Shell{Args: args, In: strings.NewReader(in), Out: &out, Err: &err, Env: s.env}.Run(ctx, s.ws...)
	return told{code, out.String(), err.String()}
}

// want runs a command that has to end with a code.
func (s *shell) want(code int, args ...string) told {
	s.t.Helper()
	got := s.run(args...)
	if got.code != code {
		s.t.Fatalf("%q: exit %d, want %d\n%s%s", args, got.code, code, got.out, got.err)
	}
	return got
}

// last is the last line of --json.
func (w told) last(t *testing.T) (r result) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(w.out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil || r.Type != "result" {
		t.Fatalf("the last line is no result (%v):\n%s%s", err, w.out, w.err)
	}
	return r
}

var (
	ids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?Z)?`)
	spans = regexp.MustCompile(`\b\d+(\.\d)? (ms|s)\b`)
	quick = regexp.MustCompile(`,"ms":\d+`)
	gaps  = regexp.MustCompile(` {3,}`)
	ends  = regexp.MustCompile(`(?m) +$`)
)

// golden compares a text, without what differs from run to run, with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = ids.ReplaceAllString(got, "ID")
	got = times.ReplaceAllString(got, "TIME")
	got = spans.ReplaceAllString(got, "SPAN")
	got = quick.ReplaceAllString(got, "")
	got = ends.ReplaceAllString(gaps.ReplaceAllString(got, "  "), "")
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", file, got)
	}
}

// tty is a terminal: what is typed is read line by line, what is written can be looked at.
type tty struct {
	*io.PipeReader
	typed *io.PipeWriter

	mu      sync.Mutex
	written bytes.Buffer
	columns int
	more    chan struct{}
}

func newTTY(columns int) *tty {
	r, w := io.Pipe()
	return &tty{PipeReader: r, typed: w, columns: columns, more: make(chan struct{}, 1)}
}

func (y *tty) Size() (int, bool) { return y.columns, true }

func (y *tty) Write(b []byte) (int, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	select {
	case y.more <- struct{}{}:
	default:
	}
	return y.written.Write(b)
}

func (y *tty) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.written.String()
}

// await waits until something has been written so often.
func (y *tty) await(t *testing.T, text string, times int) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for strings.Count(y.String(), text) < times {
		select {
		case <-y.more:
		case <-deadline:
			t.Fatalf("%q did not come %d times:\n%s", text, times, y.String())
		}
	}
}

// ncoOnce is nco with an index that is built once, for many commands in one process.
func ncoOnce(t *testing.T) Workflow {
	t.Helper()
	c := nco.Embedded()
	ix, err := fts.Open(t.Context(), c.Documents())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ix.Close() })
	w, err := nco.Graph(nco.Agent{Catalog: c, Index: ix}).Build()
	if err != nil {
		t.Fatal(err)
	}
	return Workflow{Name: "nco", Open: func(context.Context, Opening) (*Opened, error) {
		return &Opened{Workflow: w, Render: renderNCO}, nil
	}}
}
