package telemetry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"pawl"
	"pawl/engine"
	"pawl/store"
	"pawl/store/memory"
	"pawl/telemetry"
)

// laps goes n times around one node.
func laps() *pawl.Graph[state, state, state] {
	g := pawl.New[state, state, state]("laps", pawl.Options{Version: "1"})
	a := g.Node("lap", func(ctx context.Context, s state) (state, error) {
		s.N--
		for i := range 3 { // more rows than a step
			if err := pawl.Note(ctx, fmt.Sprint("waiting", i), s.N); err != nil {
				return s, err
			}
		}
		return pawl.Do(ctx, "count", func(context.Context) (state, error) { return s, nil })
	})
	g.Start(a, func(s state) (state, error) { return s, nil })
	g.From(a).When("again", func(s state) bool { return s.N > 0 }, a).AtMost(9000).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s state, _ pawl.Ending) (state, error) { return s, nil })
	return g
}

func (r *receiver) set(f func([]*tracepb.Span) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// TestDown: a receiver that is down, overloaded, slow or has another key costs a run nothing, and gets everything later.
func TestDown(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	defer close(hang)
	for name, answer := range map[string]func([]*tracepb.Span) int{
		"down":       func([]*tracepb.Span) int { panic(http.ErrAbortHandler) },
		"overloaded": func([]*tracepb.Span) int { return 503 },
		"throttled":  func([]*tracepb.Span) int { return 429 },
		"forbidden":  func([]*tracepb.Span) int { return 401 },
		"slow":       func([]*tracepb.Span) int { time.Sleep(500 * time.Millisecond); return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc := newScene(t, nil, newReceiver(t), telemetry.Config{}, built(t, laps()))
			var asked atomic.Int64
			sc.to.set(func(s []*tracepb.Span) int { asked.Add(1); return answer(s) })
			began := time.Now()
			run := sc.start("laps", `{"n":20}`, pawl.StartOptions{})
			if r := sc.work(run); r.Status != pawl.StatusSucceeded {
				t.Fatalf("%+v", r)
			}
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("the run took %s", d)
			}
			sc.soon("an export", func() bool { return asked.Load() > 0 })
			if name != "slow" {
				sc.soon("a word about it", func() bool { return len(sc.faults) > 0 })
			}
			sc.to.set(nil)
			sc.await(run)
			if c := sc.traces.Count(); c.Dropped != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestStuck: a receiver that never answers does not hold the end of the program for long.
func TestStuck(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	sc := newScene(t, nil, newReceiver(t), telemetry.Config{}, built(t, laps()))
	defer close(hang)
	asked := make(chan struct{}, 100)
	sc.to.set(func([]*tracepb.Span) int { asked <- struct{}{}; <-hang; return 0 })
	run := sc.start("laps", `{"n":3}`, pawl.StartOptions{})
	sc.work(run)
	<-asked
	began := time.Now()
	sc.stop()
	if d := time.Since(began); d > 6*time.Second {
		t.Errorf("the end took %s", d)
	}
}

// TestRefused: a receiver that refuses a whole request for one span in it loses that one only, and it is said.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge} {
		sc := newScene(t, nil, newReceiver(t), telemetry.Config{}, built(t, laps()))
		sc.to.set(func(spans []*tracepb.Span) int {
			for _, sp := range spans {
				if at := plain(sp.Attributes); sp.Name == "lap" && at["pawl.visit"] == int64(7) {
					return status
				}
			}
			return 0
		})
		run := sc.start("laps", `{"n":20}`, pawl.StartOptions{})
		sc.work(run)
		steps, calls, attempts := want(t, sc.engine, run)
		sc.soon("the others", func() bool { return len(sc.to.of(run)) == steps+calls+attempts-1 })
		sc.soon("the count", func() bool { return sc.traces.Count().Dropped == 1 })
		sc.stop()
		for id, n := range sc.to.of(run) {
			if n != 1 {
				t.Errorf("%d: span %s came %d times", status, id, n)
			}
		}
		if len(sc.faults) != 1 || !strings.Contains((<-sc.faults).Error(), "refuses a span") {
			t.Errorf("%d: it was not said once", status)
		}
	}
}

// TestFullQueue: runs that find no room in the queue are counted; their steps stay in the log.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	sc := newScene(t, nil, newReceiver(t), telemetry.Config{Queue: 2, Delay: 300 * time.Millisecond, Grace: time.Millisecond}, built(t, laps()))
	var runs []string
	for range 5 {
		runs = append(runs, sc.start("laps", `{"n":2}`, pawl.StartOptions{}))
	}
	for _, run := range runs {
		sc.work(run)
	}
	sc.soon("late ones", func() bool { return sc.traces.Count().Late > 0 })
	sc.stop()
	time.Sleep(300 * time.Millisecond) // the grace of a scene
	// Another process looks for what was left.
	next := newScene(t, sc.store, sc.to, telemetry.Config{}, built(t, laps()))
	next.soon("all", func() bool {
		for _, run := range runs {
			steps, calls, attempts := want(t, sc.engine, run)
			if len(sc.to.of(run)) != steps+calls+attempts {
				return false
			}
		}
		return true
	})
	for _, run := range runs {
		next.await(run)
	}
}

// TestLeftBehind: what a process had committed and not told when it died is told by the next one that takes the run up, or, where
// the run has ended, by the next one that looks; nothing twice.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	s := memory.New()
	dead, err := engine.New(s, []*pawl.Workflow{built(t, laps()), built(t, brain())}, engine.Config{}) // tells nobody
	if err != nil {
		t.Fatal(err)
	}
	ctx, ids := context.Background(), []string{}
	for _, workflow := range []string{"laps", "brain"} {
		st, err := dead.As(all).Start(ctx, workflow, json.RawMessage(`{"n":150}`), pawl.StartOptions{})
		if err == nil {
			err = dead.WorkRun(ctx, st.Run.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, st.Run.ID)
	}
	time.Sleep(300 * time.Millisecond) // the grace of a scene
	sc := newScene(t, s, newReceiver(t), telemetry.Config{}, built(t, laps()), built(t, brain()))
	sc.await(ids[0])
	sc.await(ids[1])
	qs, err := sc.engine.As(all).Questions(ctx, pawl.QuestionFilter{Run: ids[1]}, "", 0)
	if err != nil || len(qs) != 1 {
		t.Fatal(qs, err)
	}
	if err := sc.engine.As(all).Answer(ctx, ids[1], qs[0].ID, json.RawMessage("true")); err != nil {
		t.Fatal(err)
	}
	sc.work(ids[1])
	sc.await(ids[1])
	sc.stop()
	again := newScene(t, s, sc.to, telemetry.Config{}, built(t, laps()), built(t, brain())) // it looks too, and finds nothing
	time.Sleep(500 * time.Millisecond)
	again.await(ids[0])
	again.await(ids[1])
}

// TestTheNextOneLooks: where the process has died that looked for all, another one looks as soon as that is forgotten, at more
// runs than fit on a page, and at each of them once.
func TestTheNextOneLooks(t *testing.T) {
	t.Parallel()
	s := memory.New()
	runs, _ := leave(t, s, 120)
	const hold = 2 * time.Second
	if busy, err := s.Take(t.Context(), store.Slot{Limit: "pawl.traces", Holder: "dead", Burst: 1, Max: 1, Hold: hold}); err != nil || busy > 0 {
		t.Fatal(busy, err)
	}
	began := time.Now()
	sc := newScene(t, s, newReceiver(t), telemetry.Config{}, built(t, laps()))
	sc.await(runs[0]) // the oldest
	if took := time.Since(began); took < hold || took > 40*time.Second {
		t.Errorf("the oldest run was told after %v, while the dead one held its place for %v", took, hold)
	}
	for _, run := range runs {
		steps, calls, attempts := want(t, sc.engine, run)
		sc.soon("all spans", func() bool { return len(sc.to.of(run)) == steps+calls+attempts })
	}
}
