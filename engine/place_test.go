package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// crowd counts how many are in it at once.
type crowd struct{ now, most, all atomic.Int32 }

func (c *crowd) enter() (leave func()) {
	n := c.now.Add(1)
	for old := c.most.Load(); n > old && !c.most.CompareAndSwap(old, n); old = c.most.Load() {
	}
	c.all.Add(1)
	return func() { c.now.Add(-1) }
}

// Over all workers only so many runs of a workflow are in hand, the others of a store go on beside them, and a place is held
// for as long as a node takes.
func TestConcurrencyOfAWorkflow(t *testing.T) {
	var in crowd
	g := one(func(_ context.Context, w work) (work, error) {
		defer in.enter()()
		time.Sleep(40 * time.Second) // longer than a place is remembered
		return w, nil
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		c := engine.Config{Concurrency: map[string]int{"one": 2, "elsewhere": 1}}
		for range 3 {
			defer r.worker(r.engine(r.store, c))()
		}
		synctest.Wait()
		began := time.Now()
		var ids []string
		for i := range 6 {
			ids = append(ids, r.start("one", i).ID)
		}
		for _, id := range ids {
			r.ends(id, pawl.StatusSucceeded)
		}
		if in.most.Load() != 2 || in.all.Load() != 6 {
			t.Errorf("%d at once, %d in all", in.most.Load(), in.all.Load())
		}
		if d := time.Since(began); d > 130*time.Second {
			t.Errorf("places stood empty: it took %s", d)
		}
	}, build(t, g))
}

// The places of a worker that died come back when they are forgotten, and not before.
func TestPlacesOfADeadWorkerComeBack(t *testing.T) {
	g := one(func(_ context.Context, w work) (work, error) { return w, nil }, pawl.Options{})
	virtual(t, func(r *rig) {
		ctx := t.Context()
		for _, dead := range []string{"dead/1", "dead/2"} {
			if d, err := r.store.Take(ctx, store.Slot{Limit: "workflow/one", Holder: dead, Max: 2, Hold: 10 * time.Second}); d != 0 || err != nil {
				t.Fatal(d, err)
			}
		}
		b := &busy{Store: r.store}
		defer r.worker(r.engine(b, engine.Config{Concurrency: map[string]int{"one": 2}}))()
		id := r.start("one", 1).ID
		time.Sleep(9 * time.Second)
		if run := r.get(id); run.Status != pawl.StatusQueued {
			t.Errorf("%s before its time", run.Status)
		}
		if n := b.n.Load(); n != 0 {
			t.Errorf("%d claims and commits meanwhile", n)
		}
		time.Sleep(2 * time.Second)
		r.ends(id, pawl.StatusSucceeded)
	}, build(t, g))
}

// A place is not taken again by the renewal that was under way when its run ended.
func TestAPlaceThatWasGivenBackIsFree(t *testing.T) {
	g := one(func(_ context.Context, w work) (work, error) {
		time.Sleep(time.Duration(w.N) * time.Millisecond)
		return w, nil
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		var takes atomic.Int64
		h := &hooked{Store: r.store}
		h.take = func(do func() error) error {
			if takes.Add(1) == 2 { // the first renewal reaches the store late
				time.Sleep(time.Second)
			}
			return do()
		}
		defer r.worker(r.engine(h, engine.Config{Concurrency: map[string]int{"one": 1}}))()
		r.ends(r.start("one", 3500).ID, pawl.StatusSucceeded)
		time.Sleep(time.Second)
		if takes.Load() < 2 {
			t.Fatal("nothing was renewed")
		}
		began := time.Now()
		r.ends(r.start("one", 0).ID, pawl.StatusSucceeded)
		if d := time.Since(began); d > time.Second {
			t.Errorf("the next run waited %s for the place", d)
		}
	}, build(t, g))
}

// A worker that stood still so long that another run has the place by now gives its own run back.
func TestARunWithoutItsPlaceIsGivenBack(t *testing.T) {
	var in crowd
	g := one(func(ctx context.Context, w work) (work, error) {
		defer in.enter()()
		select {
		case <-ctx.Done():
			return w, ctx.Err()
		case <-time.After(time.Minute):
			return w, nil
		}
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		c := engine.Config{Concurrency: map[string]int{"one": 1}}
		var still atomic.Bool
		wait := func(do func() error) error {
			for still.Load() {
				time.Sleep(100 * time.Millisecond)
			}
			return do()
		}
		defer r.worker(r.engine(&hooked{Store: r.store, take: wait, renew: wait}, c))()
		a := r.start("one", 1).ID
		r.becomes(a, pawl.StatusRunning)
		still.Store(true)
		b := r.start("one", 2, pawl.StartOptions{Priority: 1}).ID // it comes before the other one, whose lease runs out
		defer r.worker(r.engine(r.store, c))()
		r.becomes(b, pawl.StatusRunning)
		still.Store(false)
		time.Sleep(5 * time.Second)
		if n := in.now.Load(); n != 1 {
			t.Errorf("%d at once", n)
		}
		for _, id := range []string{a, b} {
			r.ends(id, pawl.StatusSucceeded)
		}
		if n := in.all.Load(); n != 3 {
			t.Errorf("%d executions, want one of each and one that was given back", n)
		}
	}, build(t, g))
}

// Runs of a workflow with a limit come in the same order as all others, and keep nobody from work.
func TestALimitedWorkflowKeepsTheOrder(t *testing.T) {
	var order []string
	named := func(name string) *pawl.Workflow {
		g := blank(name, pawl.Options{})
		n := g.Node("node", func(_ context.Context, w work) (work, error) {
			order = append(order, name)
			time.Sleep(time.Second)
			return w, nil
		})
		g.Start(n, begin)
		g.From(n).Otherwise(g.Succeed("END"))
		return build(t, g)
	}
	virtual(t, func(r *rig) {
		var last string
		for range 3 {
			for _, name := range []string{"free", "limited", "other"} {
				last = r.start(name, 1).ID
				time.Sleep(time.Millisecond)
			}
		}
		r.start("free", 1, pawl.StartOptions{Priority: 9})
		defer r.worker(r.engine(r.store, engine.Config{Slots: 1, Concurrency: map[string]int{"limited": 1, "other": 5}}))()
		r.ends(last, pawl.StatusSucceeded)
		if got, want := fmt.Sprint(order), "[free free limited other free limited other free limited other]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}, named("free"), named("limited"), named("other"))
}

// A limit that has a meter's name holds for each call that charges it, beside the one that the call names.
func TestLimitOfAMeter(t *testing.T) {
	var in crowd
	g := one(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "x", func(context.Context) (int, error) {
			defer in.enter()()
			time.Sleep(time.Second)
			return 1, nil
		}, pawl.CallOptions{Charge: pawl.Budget{"search": 1}, Limit: "api"})
		return w, err
	}, pawl.Options{})
	for _, c := range []engine.Config{
		{Limits: map[string]engine.Limit{"api": {Max: 9}, "search": {Max: 2}, "other": {Max: 1}}},
		{Limits: map[string]engine.Limit{"api": {Max: 2}, "search": {Max: 9}}},
		{Limits: map[string]engine.Limit{"api": {Max: 9}, "search": {Every: 500 * time.Millisecond}}},
	} {
		in = crowd{}
		virtual(t, func(r *rig) {
			for range 2 {
				defer r.worker(r.engine(r.store, c))()
			}
			var ids []string
			for i := range 8 {
				ids = append(ids, r.start("one", i).ID)
			}
			for _, id := range ids {
				r.ends(id, pawl.StatusSucceeded)
			}
			if m := in.most.Load(); m < 2 || m > 3 || in.all.Load() != 8 { // calls of a second, two a second: three touch
				t.Errorf("%d at once, %d in all", m, in.all.Load())
			}
		}, build(t, g))
	}
}

// A limit that lets nothing through is refused.
func TestConcurrencyOfNothing(t *testing.T) {
	virtual(t, func(r *rig) {
		if _, err := engine.New(r.store, nil, engine.Config{Concurrency: map[string]int{"one": 0}}); pawl.Coded(err).Code != pawl.CodeInvalid {
			t.Error(err)
		}
	})
}
