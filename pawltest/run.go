package pawltest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
	"pawl/store/memory"
)

// Run plays a graph to its end and returns what it left. A run that fails is a result too; a run that cannot end by this
// script fails the test, and says what it waits for.
func Run[I, S, O any](t T, g *pawl.Graph[I, S, O], input I, script Script) *Result[O] {
	t.Helper()
	r, err := bubble(t, func() (*Result[O], error) { return play(g, input, script) })
	if err != nil {
		t.Fatalf("pawltest: %v", err)
	}
	return r
}

// EveryCrash plays a graph once without a crash, and then again and again, each time dropping the worker after another
// one of its durable writes. Every play must come to the same end: status, terminal, output, state, path and the graph's
// own events. It returns the one without a crash.
func EveryCrash[I, S, O any](t T, g *pawl.Graph[I, S, O], input I, script Script) *Result[O] {
	t.Helper()
	whole := Run(t, g, input, script)
	if whole == nil {
		return nil
	}
	want := whole.end(script.Varies)
	for n := 1; n <= whole.Writes[0]; n++ {
		s := script
		s.Crash = append([]int{n}, script.Crash...)
		r, err := bubble(t, func() (*Result[O], error) { return play(g, input, s) })
		if err != nil {
			t.Fatalf("pawltest: after a crash behind write %d of %d: %v", n, whole.Writes[0], err)
			return whole
		}
		if got := r.end(script.Varies); got != want {
			t.Fatalf("pawltest: a crash behind write %d of %d leads to another end:\n%s\nwithout it:\n%s", n, whole.Writes[0], got, want)
			return whole
		}
	}
	return whole
}

// bubble calls f in virtual time where there can be one.
func bubble[O any](t T, f func() (*Result[O], error)) (r *Result[O], err error) {
	if tt, ok := t.(*testing.T); ok {
		synctest.Test(tt, func(*testing.T) {
			r, err = f()
			time.Sleep(365 * 24 * time.Hour) // a node that ignores its context and was left behind comes to its end
		})
		return r, err
	}
	return f()
}

// player is one play of a script.
type player struct {
	script   Script
	store    store.Store
	ws       []*pawl.Workflow
	office   pawl.Runs // where people ask and answer; it works nothing
	id       string
	answered map[string]int
	faults   *faults
	workers  []*worker
	stopped  chan error // what became of Script.Cancel, once; nil: there is none
}

// worker is one engine that works the run until it is dropped.
type worker struct {
	*mortal
	e      *engine.Engine
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func play[I, S, O any](g *pawl.Graph[I, S, O], input I, script Script) (*Result[O], error) {
	w, err := g.Build()
	if err != nil {
		return nil, err
	}
	in, err := json.Marshal(input)
	if err != nil {
		return nil, fmt.Errorf("the input: %w", err)
	}
	if !script.Begin.IsZero() {
		time.Sleep(time.Until(script.Begin))
	}
	if script.Open == nil {
		script.Open = func() store.Store { return memory.New() }
	}
	script.Within = cmp.Or(script.Within, 30*24*time.Hour)
	p := &player{
		script: script, store: script.Open(), ws: append([]*pawl.Workflow{w}, script.Also...), answered: map[string]int{},
		faults: &faults{left: script.Fail},
	}
	defer p.store.Close()
	desk, err := engine.New(p.store, p.ws, p.script.Engine)
	if err != nil {
		return nil, err
	}
	p.office = desk.As(script.Caller)
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), script.Within)
	defer cancel()
	s, err := p.office.Start(ctx, w.Name(), in, script.Start)
	if err != nil {
		return nil, err
	}
	p.id = s.Run.ID
	defer p.bury()
	if script.Cancel > 0 {
		p.stopped = make(chan error, 1)
		stop := time.AfterFunc(script.Cancel, func() { p.stopped <- p.office.Cancel(ctx, p.id, "scripted") })
		defer stop.Stop()
	}
	if err := p.play(ctx); err != nil {
		return nil, err
	}
	r := &Result[O]{Took: time.Since(began)}
	for _, w := range p.workers {
		r.Writes = append(r.Writes, w.count())
	}
	if err := r.read(context.WithoutCancel(ctx), p.office, p.id); err != nil || !script.Replay {
		return r, err
	}
	return r, replays(desk, r.Run, r.Children)
}

// replays demands that runs replay as they were recorded.
func replays(e *engine.Engine, run pawl.Run, children []pawl.Run) error {
	for _, r := range append([]pawl.Run{run}, children...) {
		got, err := e.Replay(context.Background(), pawl.Caller{Scopes: []string{pawl.ScopeAll}}, r.ID)
		if err != nil {
			return fmt.Errorf("replay of a run of %s: %w", r.Workflow, err)
		}
		if d := got.Diverged; d != nil {
			return fmt.Errorf("a run of %s does not replay: step %d, node %q: %s (recorded %s, replayed %s)",
				r.Workflow, d.Step, d.Node, d.Text, d.Recorded, d.Replayed)
		}
	}
	return nil
}

// play goes from worker to worker and from question to question until the run has ended.
func (p *player) play(ctx context.Context) error {
	for {
		next, err := p.work(ctx)
		if err != nil {
			return err
		}
		r, err := p.office.Get(ctx, p.id)
		if err != nil {
			return err
		}
		if r.Status.Ended() {
			return nil
		}
		select {
		case <-p.workers[len(p.workers)-1].dead:
			continue // the next worker takes over
		default:
		}
		on, err := p.attend(ctx, next)
		if err != nil {
			return err
		}
		if !on || ctx.Err() != nil {
			return p.stuck(context.WithoutCancel(ctx))
		}
	}
}

// attend answers what the script answers, or lets time pass: to the next deadline, or until next, when the run goes on
// (below zero: it does not). false: there is nothing to wait for.
func (p *player) attend(ctx context.Context, next time.Duration) (bool, error) {
	qs, err := p.office.Questions(ctx, pawl.QuestionFilter{Run: p.id}, "", 1000)
	if err != nil {
		return false, err
	}
	any := false
	var due time.Time
	if next >= 0 {
		due = time.Now().Add(next)
	}
	for i := len(qs) - 1; i >= 0; i-- { // the oldest first
		given, err := p.answer(ctx, qs[i])
		if err != nil {
			return false, err
		}
		any = any || given
		if d := qs[i].Due; d != nil && d.After(time.Now()) && (due.IsZero() || d.Before(due)) {
			due = *d
		}
	}
	if any || due.IsZero() && p.stopped == nil {
		return any, nil
	}
	var passed <-chan time.Time
	if !due.IsZero() {
		t := time.NewTimer(time.Until(due))
		defer t.Stop()
		passed = t.C
	}
	select {
	case <-passed:
	case err := <-p.stopped:
		p.stopped = nil
		return err == nil, err
	case <-ctx.Done():
	}
	return true, nil
}

// work lets a worker do what there is to do. It returns when the run has ended or waits for a person, when the worker is
// dropped, and when nothing happens for a while: next is how long then.
func (p *player) work(ctx context.Context) (next time.Duration, err error) {
	var w *worker
	if n := len(p.workers); n > 0 {
		w = p.workers[n-1]
	}
	if w == nil || w.dropped() {
		if w, err = p.hire(); err != nil {
			return -1, err
		}
	}
	select {
	case <-w.idle: // said of an earlier wait
	default:
	}
	inner, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	done := make(chan error, 1)
	w.wg.Go(func() { done <- w.e.WorkRun(inner, p.id) })
	select {
	case err := <-done:
		cancel()
		return -1, err
	case <-w.dead:
		return -1, nil
	case next = <-w.idle: // no need to count the seconds of a long wait
		cancel()
		select {
		case <-done: // with an error where it was cut off in the middle of looking
			return next, nil
		case <-w.dead:
			return -1, nil
		}
	case <-ctx.Done():
		return -1, p.stuck(context.WithoutCancel(ctx))
	}
}

// dropped reports whether a worker was dropped.
func (w *worker) dropped() bool {
	select {
	case <-w.dead:
		return true
	default:
		return false
	}
}

func (p *player) hire() (*worker, error) {
	last := 0
	if n := len(p.workers); n < len(p.script.Crash) {
		last = p.script.Crash[n]
	}
	w := &worker{mortal: newMortal(p.store, last, cmp.Or(p.script.Engine.Lease, 10*time.Second))}
	c := p.script.Engine
	c.Around = p.faults.around(w.mortal, c.Around)
	var err error
	if w.e, err = engine.New(w.mortal, p.ws, c); err != nil {
		return nil, err
	}
	p.workers = append(p.workers, w)
	return w, nil
}

// bury lets go of what the workers still hold.
func (p *player) bury() {
	for _, w := range p.workers {
		w.die()
		close(w.gone)
		if w.cancel != nil {
			w.cancel()
		}
		w.e.Abort()
		w.wg.Wait()
	}
}

// stuck says what a run waits for that does not come.
func (p *player) stuck(ctx context.Context) error {
	r, err := p.office.Get(ctx, p.id)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("the run is stuck: %s at node %q after %d steps", r.Status, r.Node, r.Steps)
	if ctx.Err() == nil && r.Status == pawl.StatusRunning {
		text += fmt.Sprintf(", not over within %s", p.script.Within)
	}
	for _, w := range r.Waits {
		text += "\n\tit waits for: " + w.Kind
		if w.Key != "" {
			text += fmt.Sprintf(" %q", w.Key)
		}
		if w.Reason != "" {
			text += ", " + w.Reason
		}
		if w.Due != nil {
			text += fmt.Sprintf(" (due in %s)", time.Until(*w.Due))
		}
	}
	qs, err := p.office.Questions(ctx, pawl.QuestionFilter{Run: p.id}, "", 1000)
	if err != nil {
		return err
	}
	for _, q := range qs {
		text += fmt.Sprintf("\n\tnobody answers question %q of workflow %s: %s (the script has %d answers, %d were given)",
			q.Key, q.Workflow, q.Text, len(p.script.Answers[q.Key]), p.answered[q.Key])
	}
	return errors.New(text)
}
