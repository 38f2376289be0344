// Package runstest is the law of runs: what every pawl.Runs must do, whoever stands behind it, each case with its reason.
//
// It may never know an engine, a store or a client: it is handed a pawl.Runs for each caller and a way to have a run
// worked, and registers nothing itself. Nothing in it may wait for longer than the thing that it waits for takes.
//
// Start reading at Run; graphs.go has the workflows that are run.
package runstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pawl"
)

// Open makes a fresh place for runs, with these workflows registered, and returns its face for each caller and a way to
// have a run worked until it has ended or waits for a person. Several runs may be worked at once.
type Open func(t *testing.T, ws []*pawl.Workflow) (as func(pawl.Caller) pawl.Runs, work func(ctx context.Context, run string) error)

// Run checks the law. Each case gets a place of its own.
func Run(t *testing.T, open Open) {
	for _, part := range []struct {
		name  string
		cases []law
	}{
		{"start", startLaws()}, {"key", keyLaws()}, {"see", seeLaws()}, {"answer", answerLaws()}, {"cancel", cancelLaws()},
		{"remove", removeLaws()}, {"again", againLaws()}, {"events", eventLaws()}, {"read", readLaws()},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, c := range part.cases {
				t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
					l := newLab(t, open)
					c.check(l)
					if t.Failed() {
						t.Logf("why this is law: %s", c.why)
					}
				})
			}
		})
	}
}

// law is one case with its reason.
type law struct {
	name, why string
	check     func(*lab)
}

// lab is where one case is tried.
type lab struct {
	*testing.T
	ctx  context.Context
	as   func(pawl.Caller) pawl.Runs
	work func(context.Context, string) error
	rs   pawl.Runs // of ann, the caller of most cases
	hook *hook
}

// ann is the caller of most cases; bob is a colleague, eve a stranger.
func ann() pawl.Caller { return pawl.Caller{Tenant: "acme", User: "ann"} }
func bob() pawl.Caller { return pawl.Caller{Tenant: "acme", User: "bob"} }
func eve() pawl.Caller { return pawl.Caller{Tenant: "evil", User: "ann"} }

func newLab(t *testing.T, open Open) *lab {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	l := &lab{T: t, ctx: ctx, hook: newHook()}
	l.as, l.work = open(t, workflows(t, l.hook))
	l.rs = l.as(ann())
	return l
}

// start begins a run of the desk that must be accepted.
func (l *lab) start(input string, o ...pawl.StartOptions) pawl.Run {
	l.Helper()
	return l.begin("desk", input, o...).Run
}

func (l *lab) begin(workflow, input string, o ...pawl.StartOptions) pawl.Started {
	l.Helper()
	var opt pawl.StartOptions
	if len(o) > 0 {
		opt = o[0]
	}
	s, err := l.rs.Start(l.ctx, workflow, json.RawMessage(input), opt)
	if err != nil {
		l.Fatalf("start %s: %v", input, err)
	}
	return s
}

// worked starts a run and has it worked as far as it comes.
func (l *lab) worked(input string, o ...pawl.StartOptions) pawl.Run {
	l.Helper()
	return l.on(l.start(input, o...).ID)
}

// on has a run worked, and reads it.
func (l *lab) on(run string) pawl.Run {
	l.Helper()
	if err := l.work(l.ctx, run); err != nil {
		l.Fatalf("work %s: %v", run, err)
	}
	return l.get(run)
}

func (l *lab) get(run string) pawl.Run {
	l.Helper()
	r, err := l.rs.Get(l.ctx, run)
	if err != nil {
		l.Fatalf("get %s: %v", run, err)
	}
	return r
}

// question is the one open question of a run.
func (l *lab) question(run string) pawl.Open {
	l.Helper()
	qs, err := l.rs.Questions(l.ctx, pawl.QuestionFilter{Run: run}, "", 0)
	if err != nil || len(qs) != 1 {
		l.Fatalf("questions of %s: %v, %v", run, qs, err)
	}
	return qs[0]
}

// ended is the end of a run as its events tell it.
func (l *lab) ended(run string) (es []pawl.Logged) {
	l.Helper()
	for e, err := range l.rs.Events(l.ctx, run, 0) {
		if err != nil {
			l.Fatalf("events of %s: %v", run, err)
		}
		es = append(es, e)
	}
	return es
}

// refused checks that an error is coded, with that code, and that its text names what it must name.
func (l *lab) refused(err error, code string, names ...string) {
	l.Helper()
	if err == nil {
		l.Fatalf("accepted, want %s", code)
	}
	e, ok := err.(*pawl.Error)
	if !ok {
		l.Fatalf("%T is no *pawl.Error: %v", err, err)
	}
	if e.Code != code {
		l.Errorf("code %s, want %s: %v", e.Code, code, err)
	}
	for _, n := range names {
		if !strings.Contains(e.Error(), n) {
			l.Errorf("the error does not name %q: %v", n, e)
		}
	}
}

// is checks a status.
func (l *lab) is(r pawl.Run, want pawl.Status) {
	l.Helper()
	if r.Status != want {
		l.Fatalf("run %s is %s at %s (error %v), want %s", r.ID, r.Status, r.Node, r.Err, want)
	}
}

// all counts the runs that a caller sees.
func (l *lab) all(c pawl.Caller, f pawl.RunFilter) []pawl.Run {
	l.Helper()
	rs, err := l.as(c).List(l.ctx, f, "", 0)
	if err != nil {
		l.Fatalf("list: %v", err)
	}
	return rs
}

// parallel calls f n times at once and returns what each said.
func parallel(n int, f func(i int) error) []error {
	errs := make([]error, n)
	gate, done := make(chan struct{}), make(chan struct{})
	for i := range n {
		go func() {
			defer func() { done <- struct{}{} }()
			<-gate
			errs[i] = f(i)
		}()
	}
	close(gate)
	for range n {
		<-done
	}
	return errs
}

func coded(err error) string {
	var e *pawl.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}
