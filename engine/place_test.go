package engine_test

import (
	"context"
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
