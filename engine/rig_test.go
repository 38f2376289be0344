package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
	"pawl/store"
)

// work is the state of most graphs in these tests.
type work struct {
	N    int
	Text string
	Log  []string
}

func (w work) line(s string) work {
	w.Log = append(append([]string(nil), w.Log...), s)
	return w
}

type (
	graph = pawl.Graph[int, work, work]
	body  = func(context.Context, work) (work, error)
)

// blank is a graph whose input is N and whose output is the whole state.
func blank(name string, o pawl.Options) *graph {
	if o.Version == "" {
		o.Version = "1"
	}
	g := pawl.New[int, work, work](name, o)
	g.Finish(func(w work, _ pawl.Ending) (work, error) { return w, nil })
	return g
}

func begin(n int) (work, error) { return work{N: n}, nil }

// one is a graph with one node, "node", and the terminal END.
func one(run body, o pawl.Options, n ...pawl.NodeOptions) *graph {
	g := blank("one", o)
	a := g.Node("node", run, n...)
	g.Start(a, begin)
	g.From(a).Otherwise(g.Succeed("END"))
	return g
}

// two has the nodes "first" and "second".
func two(first, second body, o pawl.Options, n ...pawl.NodeOptions) *graph {
	g := blank("two", o)
	a, b := g.Node("first", first, n...), g.Node("second", second, n...)
	g.Start(a, begin)
	g.From(a).Otherwise(b)
	g.From(b).Otherwise(g.Succeed("END"))
	return g
}

// do is a recorded call that gives a number and counts how often it is made.
func do(ctx context.Context, key string, made *tally, o ...pawl.CallOptions) (int, error) {
	return pawl.Do(ctx, key, func(context.Context) (int, error) { return made.add(key), nil }, o...)
}

// tally counts by key.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) add(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[key]++
	return c.n[key]
}

func (c *tally) of(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[key]
}

func ended[O any](t *testing.T, r *pawltest.Result[O], status pawl.Status, terminal string) {
	t.Helper()
	if r.Run.Status != status || r.Run.Terminal != terminal {
		t.Fatalf("the run is %s at %s (error %v), want %s at %s", r.Run.Status, r.Run.Terminal, r.Run.Err, status, terminal)
	}
}

// failed checks that a run FAILED with a code and a text that names things.
func failed[O any](t *testing.T, r *pawltest.Result[O], code string, names ...string) {
	t.Helper()
	ended(t, r, pawl.StatusFailed, pawl.TerminalFailed)
	named(t, r.Run.Err, code, names...)
}

func named(t *testing.T, e *pawl.Error, code string, names ...string) {
	t.Helper()
	if e == nil || e.Code != code {
		t.Fatalf("error %+v, want code %s", e, code)
	}
	for _, n := range names {
		if !strings.Contains(e.Error(), n) {
			t.Errorf("the error does not name %q: %s", n, e)
		}
	}
}

// rows counts the rows of the step log with a name.
func rows[O any](r *pawltest.Result[O], name string) (out []pawl.Step) {
	for _, s := range r.Steps {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// rig is one store with engines on it, in virtual time, for what needs more than one run or one worker.
type rig struct {
	*testing.T
	store store.Store
	ws    []*pawl.Workflow
	ctx   context.Context
	rs    pawl.Runs
}

func virtual(t *testing.T, f func(*rig), ws ...*pawl.Workflow) {
	t.Helper()
	opener(onMemory).virtual(t, f, ws...)
}

// virtual is the same on another kind of store.
func (open opener) virtual(t *testing.T, f func(*rig), ws ...*pawl.Workflow) {
	t.Helper()
	fresh := open(t)
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(24 * time.Hour) // nodes that were left behind come to their end
		s := fresh()
		defer s.Close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		r := &rig{T: t, store: s, ws: ws, ctx: ctx}
		r.rs = r.engine(r.store, engine.Config{}).As(pawl.Caller{User: "ann"})
		f(r)
	})
}

func (r *rig) engine(s store.Store, c engine.Config, ws ...*pawl.Workflow) *engine.Engine {
	r.Helper()
	if ws == nil {
		ws = r.ws
	}
	if c.Trace.Fault == nil {
		c.Trace.Fault = func(op string, err error) { r.Log(time.Now().Format("04:05.000"), op, err) }
	}
	e, err := engine.New(s, ws, c)
	if err != nil {
		r.Fatal(err)
	}
	return e
}

// worker lets an engine work until the end of the test or until stop is called, which waits for its drain.
func (r *rig) worker(e *engine.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan error, 1)
	go func() { done <- e.Work(ctx) }()
	var once sync.Once
	return func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				r.Error(err)
			}
		})
	}
}

func (r *rig) start(workflow string, n int, o ...pawl.StartOptions) pawl.Run {
	r.Helper()
	var opt pawl.StartOptions
	if len(o) > 0 {
		opt = o[0]
	}
	s, err := r.rs.Start(r.ctx, workflow, json.RawMessage(fmt.Sprint(n)), opt)
	if err != nil {
		r.Fatal(err)
	}
	return s.Run
}

func (r *rig) get(id string) pawl.Run {
	r.Helper()
	run, err := r.rs.Get(r.ctx, id)
	if err != nil {
		r.Fatal(err)
	}
	return run
}

// until lets virtual time pass until the run is as wanted.
func (r *rig) until(id string, what string, ok func(pawl.Run) bool) pawl.Run {
	r.Helper()
	end := time.Now().Add(10 * time.Minute)
	for time.Now().Before(end) {
		if run := r.get(id); ok(run) {
			return run
		}
		time.Sleep(20 * time.Millisecond)
	}
	run := r.get(id)
	r.Fatalf("the run is never %s: %s at %s, waits %+v, error %v", what, run.Status, run.Node, run.Waits, run.Err)
	return run
}

func (r *rig) ends(id string, want pawl.Status) pawl.Run {
	r.Helper()
	run := r.until(id, "over", func(run pawl.Run) bool { return run.Status.Ended() })
	if run.Status != want {
		r.Fatalf("the run is %s (error %v), want %s", run.Status, run.Err, want)
	}
	return run
}

func (r *rig) becomes(id string, want pawl.Status) pawl.Run {
	r.Helper()
	return r.until(id, string(want), func(run pawl.Run) bool { return run.Status == want })
}

// events of an ended run by type.
func (r *rig) events(id string) map[string]int {
	r.Helper()
	n := map[string]int{}
	for e, err := range r.rs.Events(r.ctx, id, 0) {
		if err != nil {
			r.Fatal(err)
		}
		n[e.Type]++
	}
	return n
}

func output(t *testing.T, run pawl.Run) (w work) {
	t.Helper()
	if err := json.Unmarshal(run.Output, &w); err != nil {
		t.Fatalf("output %q: %v", run.Output, err)
	}
	return w
}

// errTransient is an error that another try may mend.
func errTransient() error { return errors.New("503 service unavailable") }

// virtualChan is virtual for nodes that speak through a channel, which must be of the bubble.
func virtualChan[T any](t *testing.T, c *chan T, f func(*rig), ws ...*pawl.Workflow) {
	t.Helper()
	virtual(t, func(r *rig) {
		*c = make(chan T, cap(*c))
		f(r)
	}, ws...)
}

func stateOf(t *testing.T, state []byte) (w work) {
	t.Helper()
	if err := json.Unmarshal(state, &w); err != nil {
		t.Fatalf("state %q: %v", state, err)
	}
	return w
}

// untilEnd lets at most so much virtual time pass.
func (r *rig) untilEnd(id string, most time.Duration) pawl.Run {
	r.Helper()
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(time.Second) {
		if run := r.get(id); run.Status.Ended() {
			return run
		}
	}
	r.Fatalf("the run is not over after %s: %+v", most, r.get(id))
	return pawl.Run{}
}

// steps counts the rows of the step log with a name.
func (r *rig) steps(id, name string) (n int) {
	r.Helper()
	ss, err := r.rs.Steps(r.ctx, id, 0, 0)
	if err != nil {
		r.Fatal(err)
	}
	for _, s := range ss {
		if s.Name == name {
			n++
		}
	}
	return n
}
