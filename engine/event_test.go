package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
)

func TestAnEqualReEmitAppendsNothing(t *testing.T) {
	g := one(func(ctx context.Context, w work) (work, error) {
		for i := range 3 {
			if err := pawl.Emit(ctx, "tick", i); err != nil {
				return w, err
			}
		}
		if err := pawl.Sleep(ctx, "s", time.Hour); err != nil {
			return w, err
		}
		return w, pawl.Emit(ctx, "tick", 3)
	}, pawl.Options{Retry: pawl.Retry{Max: 1}})
	r := pawltest.EveryCrash(t, g, 1, pawltest.Script{})
	if got := strings.Join(r.Emitted("tick"), " "); got != "0 1 2 3" || len(rows(r, "diverged")) != 0 {
		t.Errorf("ticks %s, %d diverged", got, len(rows(r, "diverged")))
	}
}

func TestADifferentReEmitIsAppendedAndNoted(t *testing.T) {
	execution := 0
	g := one(func(ctx context.Context, w work) (work, error) {
		execution++
		if err := pawl.Emit(ctx, "same", "x"); err != nil {
			return w, err
		}
		if err := pawl.Emit(ctx, "other", execution); err != nil {
			return w, err
		}
		return w, pawl.Sleep(ctx, "s", time.Hour)
	}, pawl.Options{})
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	if got := strings.Join(r.Emitted("other"), " "); got != "1 2" || len(r.Emitted("same")) != 1 {
		t.Errorf("other %s, same %d times", got, len(r.Emitted("same")))
	}
	d := rows(r, "diverged")
	if len(d) != 1 || !strings.Contains(string(d[0].Payload), "other") {
		t.Errorf("noted %+v", d)
	}
}

// TestEventsOfCallsAreNumberedByThemselves: calls that run at once emit in any order, in every execution in another one.
func TestEventsOfCallsAreNumberedByThemselves(t *testing.T) {
	execution := 0
	g := one(func(ctx context.Context, w work) (work, error) {
		execution++
		turn := execution
		_, err := pawl.Map(ctx, "m", []int{0, 1, 2, 3}, 4, func(ctx context.Context, i int) (int, error) {
			d := time.Duration(i)
			if turn > 1 {
				d = time.Duration(4 - i)
			}
			time.Sleep(d * time.Second)
			if err := pawl.Emit(ctx, "item", i); err != nil {
				return 0, err
			}
			time.Sleep(10 * time.Second)
			return i, nil
		})
		return w, err
	}, pawl.Options{})
	r := pawltest.Run(t, g, 1, pawltest.Script{Crash: []int{5}}) // claim and all four events, no result
	if len(r.Emitted("item")) != 4 || len(rows(r, "diverged")) != 0 || execution != 2 {
		t.Errorf("events %v, %d diverged, %d executions", r.Emitted("item"), len(rows(r, "diverged")), execution)
	}
}

func TestOrphansAreNoted(t *testing.T) {
	execution := 0
	g := one(func(ctx context.Context, w work) (work, error) {
		execution++
		for _, k := range []string{"always", fmt.Sprint("only in ", execution)} {
			if _, err := do(ctx, k, &tally{}); err != nil {
				return w, err
			}
		}
		return w, pawl.Sleep(ctx, "s", time.Hour)
	}, pawl.Options{})
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	o := rows(r, "orphans")
	if len(o) != 1 || string(o[0].Payload) != `{"keys":["only in 1"]}` {
		t.Errorf("noted %+v", o)
	}
}

func TestAnEventIsSeenWhileTheNodeRuns(t *testing.T) {
	seen := make(chan struct{})
	g := one(func(ctx context.Context, w work) (work, error) {
		if err := pawl.Delta(ctx, "token", "not kept"); err != nil {
			return w, err
		}
		if err := pawl.Emit(ctx, "now", 1); err != nil {
			return w, err
		}
		<-seen
		return w, nil
	}, pawl.Options{})
	virtualChan(t, &seen, func(r *rig) {
		e := r.engine(r.store, engine.Config{})
		defer r.worker(e)()
		run := r.start("one", 1)
		deltas := 0
		for ev, err := range e.As(pawl.Caller{User: "ann"}).Events(r.ctx, run.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case ev.Type == "now":
				close(seen)
			case ev.Type == "token" && ev.Seq == 0:
				deltas++
			}
		}
		if n := r.events(run.ID); n["now"] != 1 || n["token"] != 0 || deltas > 1 {
			t.Errorf("events %v, %d deltas", n, deltas)
		}
	}, build(t, g))
}

// TestTheEnqueuedIDIsTheSameInEveryExecution: node code may show it, so it must not change with a crash.
func TestTheEnqueuedIDIsTheSameInEveryExecution(t *testing.T) {
	bg := leaf()
	g := one(func(ctx context.Context, w work) (work, error) {
		id, err := pawl.Enqueue(ctx, "bg", bg, 1)
		if err != nil {
			return w, err
		}
		if err := pawl.Emit(ctx, "enqueued", id); err != nil {
			return w, err
		}
		return w, pawl.Sleep(ctx, "s", time.Hour)
	}, pawl.Options{})
	r := pawltest.Run(t, g, 1, pawltest.Script{Also: []*pawl.Workflow{build(t, bg)}})
	if len(r.Emitted("enqueued")) != 1 || len(rows(r, "diverged")) != 0 {
		t.Errorf("ids %v", r.Emitted("enqueued"))
	}
}

// TestEventsOfASecondPhysicalTryAreNumberedByThemselves: an execution that makes only that one emits nothing else.
func TestEventsOfASecondPhysicalTryAreNumberedByThemselves(t *testing.T) {
	for _, crash := range []int{0, 1, 3, 4, 5, 6} { // behind 2 the first try itself is made again: what it emits is up to it
		made := &tally{}
		g := one(func(ctx context.Context, w work) (work, error) {
			return w, second(pawl.Do(ctx, "k", func(ctx context.Context) (int, error) {
				n := min(made.add("k"), 2)
				if err := pawl.Emit(ctx, "p", n); err != nil || n == 1 {
					return 0, errors.Join(err, errTransient())
				}
				return 1, nil
			}, pawl.CallOptions{Retry: pawl.Retry{Max: 1, First: 10 * time.Millisecond}}))
		}, pawl.Options{})
		r := pawltest.Run(t, g, 1, pawltest.Script{Crash: []int{crash}})
		if got := strings.Join(r.Emitted("p"), " "); got != "1 2" || len(rows(r, "diverged")) != 0 {
			t.Errorf("crash behind write %d: emitted %s, %d diverged", crash, got, len(rows(r, "diverged")))
		}
	}
}
