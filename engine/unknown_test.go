package engine_test

import (
	"context"
	"fmt"
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
