package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
	"pawl/store"
)

// vague is a store that now and then does not know what became of a write: one in done is made all the same, one in lost
// is not.
type vague struct {
	store.Store
	done, lost int64
	n          atomic.Int64
}

func (v *vague) write(f func() error) error {
	switch n := v.n.Add(1); {
	case n%v.lost == 0:
		return store.ErrUnknown
	case n%v.done == 0:
		if err := f(); err != nil {
			return err
		}
		return store.ErrUnknown
	}
	return f()
}

func (v *vague) Apply(ctx context.Context, cs ...store.Change) error {
	return v.write(func() error { return v.Store.Apply(ctx, cs...) })
}

// TestUnknownOutcomesOfCommitsAreResolved: nothing is done twice, nothing is lost, and nobody waits for a lease.
func TestUnknownOutcomesOfCommitsAreResolved(t *testing.T) {
	n := &tally{}
	g := blank("rounds", pawl.Options{})
	a := g.Node("round", func(ctx context.Context, w work) (work, error) {
		n.add("round")
		w.N++
		return w.line(fmt.Sprint(w.N)), nil
	})
	g.Start(a, begin)
	g.From(a).When("again", func(w work) bool { return w.N < 50 }, a).AtMost(100).Otherwise(g.Succeed("END"))
	g.Closing(func(work, pawl.Ending) []pawl.Event { return []pawl.Event{{Type: "closed"}} })
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(&vague{Store: r.store, done: 3, lost: 5}, engine.Config{}))()
		began := time.Now()
		run := r.ends(r.start("rounds", 0).ID, pawl.StatusSucceeded)
		if w := output(t, run); w.N != 50 || len(w.Log) != 50 || n.of("round") != 50 || r.steps(run.ID, "round") != 50 {
			t.Errorf("output %+v, %d executions, %d steps", w, n.of("round"), r.steps(run.ID, "round"))
		}
		if ev := r.events(run.ID); ev["closed"] != 1 || ev["pawl.ended"] != 1 || ev["pawl.step"] != 50 {
			t.Errorf("events %v", ev)
		}
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("took %s", took)
		}
	}, build(t, g))
}

// vagueRecords is vague in what a visit records.
type vagueRecords struct{ vague }

func (v *vagueRecords) Apply(ctx context.Context, cs ...store.Change) error {
	return v.Store.Apply(ctx, cs...)
}

func (v *vagueRecords) Append(ctx context.Context, l store.Lease, b store.Batch) (r store.Receipt, err error) {
	err = v.write(func() (err error) { r, err = v.Store.Append(ctx, l, b); return err })
	return r, err
}

// TestUnknownOutcomesOfRecordsLoseNothing: the visit may run again, and reads what was recorded after all.
func TestUnknownOutcomesOfRecordsLoseNothing(t *testing.T) {
	made := &tally{}
	g := one(func(ctx context.Context, w work) (work, error) {
		for i := range 4 {
			if _, err := do(ctx, fmt.Sprint(i), made, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}}); err != nil {
				return w, err
			}
			if err := pawl.Emit(ctx, "tick", i); err != nil {
				return w, err
			}
		}
		return w.line("done"), nil
	}, pawl.Options{Budget: pawl.Budget{"llm": 100}})
	virtual(t, func(r *rig) {
		v := &vagueRecords{}
		v.Store, v.done, v.lost = r.store, 5, 11
		defer r.worker(r.engine(v, short()))()
		run := r.ends(r.start("one", 0).ID, pawl.StatusSucceeded)
		used := run.Meters[0].Used
		for i := range 4 {
			if n := made.of(fmt.Sprint(i)); n < 1 || int64(n) > used {
				t.Errorf("call %d was made %d times, %d charged", i, n, used)
			}
		}
		if ev := r.events(run.ID); ev["tick"] != 4 || r.steps(run.ID, "node") != 1 {
			t.Errorf("events %v", ev)
		}
	}, build(t, g))
}

// TestACallThatWasLeftBehindDoesNotChangeTheJournal: it ignored the end of its context, and the next try made it again.
func TestACallThatWasLeftBehindDoesNotChangeTheJournal(t *testing.T) {
	seen, slow := &tally{}, &tally{} // what is left behind runs beside the rest
	g := one(func(ctx context.Context, w work) (work, error) {
		try := pawl.Info(ctx).Try
		n, err := pawl.Do(ctx, "k", func(context.Context) (int, error) {
			if try == 1 {
				time.Sleep(300 * time.Second) // ends in the middle of the next try
			}
			return try, nil
		})
		if err != nil {
			return w, err
		}
		seen.add(fmt.Sprintf("try %d saw %d", try, n))
		_, err = pawl.Do(ctx, "slow", func(context.Context) (int, error) { time.Sleep(150 * time.Second); return slow.add("slow"), nil })
		w.N = n
		return w, err
	}, pawl.Options{Timeout: 200 * time.Second, Retry: pawl.Retry{Max: 1, First: 100 * time.Millisecond}}) // waited for in hand: the lease stays
	r := pawltest.Run(t, g, 0, pawltest.Script{Fail: map[string][]error{"slow": {pawltest.ErrLost}}})
	ended(t, r, pawl.StatusSucceeded, "END")
	if len(seen.n) != 1 || seen.of("try 2 saw 2") != 2 || r.Output.N != 2 {
		t.Errorf("the executions saw %v", seen.n)
	}
	n := 0
	for _, m := range r.Calls {
		if m.Key == "k" && m.Err == nil {
			n++
		}
	}
	if n != 1 {
		t.Errorf("recorded %d times: %+v", n, r.Calls)
	}
}

// TestAnUnknownRecordOfOneCallIsNoErrorOfAnother: the visit is given back, and what was cut short is made again.
func TestAnUnknownRecordOfOneCallIsNoErrorOfAnother(t *testing.T) {
	made := &tally{}
	g := one(func(ctx context.Context, w work) (work, error) {
		return both(w, func() error { return second(obedient(ctx, "quick", time.Second, made)) },
			func() error { return second(obedient(ctx, "slow", time.Minute, made)) })
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(&hooked{Store: r.store, append: first(store.ErrUnknown)}, engine.Config{}))()
		if r.ends(r.start("one", 1).ID, pawl.StatusSucceeded); made.of("quick") != 2 || made.of("slow") != 2 {
			t.Errorf("made %v", made.n)
		}
	}, build(t, g))
}

// TestAGiveBackOfUnknownOutcomeIsResolved: its row says the same as the one before it, and yet the run must not stay held by a
// worker that is gone.
func TestAGiveBackOfUnknownOutcomeIsResolved(t *testing.T) {
	g := two(func(_ context.Context, w work) (work, error) { time.Sleep(3 * time.Second); return w, nil },
		func(_ context.Context, w work) (work, error) { return w, nil }, pawl.Options{})
	for name, made := range map[string]bool{"it was made": true, "it was not made": false} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				var lost atomic.Bool
				stop := r.worker(r.engine(&hooked{Store: r.store, apply: func(cs []store.Change, do func() error) error {
					if c := cs[0]; c.Row == nil || !c.Release || c.End || !lost.CompareAndSwap(false, true) {
						return do()
					}
					if made {
						_ = do()
					}
					return store.ErrUnknown
				}}, engine.Config{}))
				run := r.start("two", 1)
				time.Sleep(time.Second)
				stop() // drains: the first node's commit comes, then the run is given back
				if at, err := r.store.Get(r.ctx, store.Scope{All: true}, run.ID); err != nil || !lost.Load() || !at.Until.IsZero() {
					t.Errorf("lost %v, held until %s, %v", lost.Load(), at.Until, err)
				}
				defer r.worker(r.engine(r.store, engine.Config{}))()
				if r.ends(run.ID, pawl.StatusSucceeded); r.events(run.ID)["pawl.interrupted"] != 1 {
					t.Errorf("events %v", r.events(run.ID))
				}
			}, build(t, g))
		})
	}
}

// TestACallThatWasLeftBehindStaysOneOfItsOwnVisit: its idempotency key and what is told of it must not be the next visit's.
func TestACallThatWasLeftBehindStaysOneOfItsOwnVisit(t *testing.T) {
	var keys sync.Map
	g := blank("late", pawl.Options{})
	pay := func(node string, long time.Duration) body {
		return func(ctx context.Context, w work) (work, error) {
			return w, second(pawl.Do(ctx, "pay", func(ctx context.Context) (int, error) {
				time.Sleep(long) // ignores its context
				keys.Store(node, pawl.IdempotencyKey(ctx))
				return 1, nil
			}))
		}
	}
	a := g.Node("a", pay("a", time.Minute), pawl.NodeOptions{Timeout: 10 * time.Second})
	b := g.Node("b", pay("b", 2*time.Minute))
	g.Start(a, begin)
	g.From(a).OnError("late", pawl.IsAny, b).Otherwise(g.Succeed("A"))
	g.From(b).Otherwise(g.Succeed("END"))
	virtual(t, func(r *rig) {
		told := &tally{}
		defer r.worker(r.engine(r.store, engine.Config{Trace: engine.Trace{Call: func(c engine.Called) { told.add(fmt.Sprint(c.Node, c.Visit)) }}}))()
		r.ends(r.start("late", 1).ID, pawl.StatusSucceeded)
		time.Sleep(10 * time.Minute)
		x, _ := keys.Load("a")
		y, _ := keys.Load("b")
		if x == y || told.of("a1") != 1 || told.of("b2") != 1 {
			t.Errorf("keys %v and %v, told %v", x, y, told.n)
		}
	}, build(t, g))
}
