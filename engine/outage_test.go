package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// blackout makes one Apply of a holder and says that it does not know whether it did; then it is down for a while.
type blackout struct {
	store.Store
	at    int64 // which Apply
	long  time.Duration
	n     atomic.Int64
	until atomic.Int64
}

func (b *blackout) down() bool { return time.Now().UnixNano() < b.until.Load() }

func (b *blackout) Get(ctx context.Context, s store.Scope, run string) (store.Run, error) {
	if b.down() {
		return store.Run{}, store.ErrUnavailable
	}
	return b.Store.Get(ctx, s, run)
}

func (b *blackout) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) ([]store.Held, error) {
	if b.down() {
		return nil, store.ErrUnavailable
	}
	return b.Store.Renew(ctx, worker, ls, hold)
}

func (b *blackout) Apply(ctx context.Context, cs ...store.Change) error {
	if b.down() {
		return store.ErrUnavailable
	}
	err := b.Store.Apply(ctx, cs...)
	if err == nil && cs[0].Row != nil && b.n.Add(1) == b.at {
		b.until.Store(time.Now().Add(b.long).UnixNano())
		return store.ErrUnknown
	}
	return err
}

// relay counts in three nodes; the second one is tried twice, and the third one sleeps.
func relay() *graph {
	g := blank("relay", pawl.Options{})
	a := g.Node("a", func(_ context.Context, w work) (work, error) { return w.line("a"), nil })
	b := g.Node("b", func(ctx context.Context, w work) (work, error) {
		if pawl.Info(ctx).Try == 1 {
			return w, errTransient()
		}
		w.Text = strings.Repeat("b", 100)
		return w.line("b"), nil
	}, pawl.NodeOptions{Retry: pawl.Retry{Max: 1, First: 100 * time.Millisecond}})
	c := g.Node("c", func(ctx context.Context, w work) (work, error) {
		return w.line("c"), pawl.Sleep(ctx, "s", time.Minute)
	})
	g.Start(a, begin)
	g.From(a).Otherwise(b)
	g.From(b).Otherwise(c)
	g.From(c).Otherwise(g.Succeed("END"))
	return g
}

// TestAnUnknownOutcomeBeforeAnOutageIsNotAppliedTwice whichever commit it is, and however long nobody can look.
func TestAnUnknownOutcomeBeforeAnOutageIsNotAppliedTwice(t *testing.T) {
	for at := int64(1); at <= 5; at++ {
		for _, long := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second} {
			t.Run(fmt.Sprintf("commit %d, %s", at, long), func(t *testing.T) {
				virtual(t, func(r *rig) {
					defer r.worker(r.engine(&blackout{Store: r.store, at: at, long: long}, engine.Config{}))()
					run := r.ends(r.start("relay", 1).ID, pawl.StatusSucceeded)
					if w := output(t, run); strings.Join(w.Log, "") != "abc" || len(w.Text) != 100 {
						t.Errorf("output %+v", w)
					}
					for _, name := range []string{"a", "b", "c", "retry"} {
						if n := r.steps(run.ID, name); n != 1 {
							t.Errorf("%d rows of %s", n, name)
						}
					}
					for i := range run.Steps { // every row's state is what its hash says
						if _, err := r.rs.State(r.ctx, run.ID, i+1); err != nil {
							t.Errorf("state after step %d: %v", i+1, err)
						}
					}
					if ev := r.events(run.ID); ev["pawl.ended"] != 1 || ev["pawl.step"] != 3 {
						t.Errorf("events %v", ev)
					}
				}, build(t, relay()))
			})
		}
	}
}

// blips is a store of which two of three writes and reads of a run fail, and nothing was done.
type blips struct {
	store.Store
	n atomic.Int64
}

func (b *blips) fails() bool { return b.n.Add(1)%3 != 0 }

func (b *blips) Append(ctx context.Context, l store.Lease, x store.Batch) (store.Receipt, error) {
	if b.fails() {
		return store.Receipt{}, store.ErrUnavailable
	}
	return b.Store.Append(ctx, l, x)
}

func (b *blips) Apply(ctx context.Context, cs ...store.Change) error {
	if b.fails() {
		return store.ErrUnavailable
	}
	return b.Store.Apply(ctx, cs...)
}

// TestShortOutagesWithinAVisitAreRiddenOut: the call is made once, in one execution, under one lease.
func TestShortOutagesWithinAVisitAreRiddenOut(t *testing.T) {
	made := &tally{}
	g := one(func(ctx context.Context, w work) (work, error) {
		made.add("execution")
		for i := range 10 {
			if _, err := do(ctx, fmt.Sprint(i), made, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}}); err != nil {
				return w, err
			}
			if err := pawl.Emit(ctx, "tick", i); err != nil {
				return w, err
			}
		}
		return w, nil
	}, pawl.Options{Budget: pawl.Budget{"llm": 100}})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(&blips{Store: r.store}, engine.Config{}))()
		run := r.ends(r.start("one", 1).ID, pawl.StatusSucceeded)
		for i := range 10 {
			if n := made.of(fmt.Sprint(i)); n != 1 {
				t.Errorf("call %d was made %d times", i, n)
			}
		}
		at, err := r.store.Get(r.ctx, store.Scope{All: true}, run.ID)
		if err != nil || at.Epoch != 1 || made.of("execution") != 1 || run.Meters[0].Used != 10 {
			t.Errorf("epoch %d, %d executions, meters %+v, %v", at.Epoch, made.of("execution"), run.Meters, err)
		}
		if ev := r.events(run.ID); ev["tick"] != 10 {
			t.Errorf("events %v", ev)
		}
	}, build(t, g))
}

// stalling is a store whose first renewal of a lease hangs, so that the run is claimed again meanwhile.
type stalling struct {
	store.Store
	long    time.Duration
	stalled atomic.Bool
}

func (s *stalling) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) ([]store.Held, error) {
	if len(ls) > 0 && s.stalled.CompareAndSwap(false, true) {
		time.Sleep(s.long)
	}
	return s.Store.Renew(ctx, worker, ls, hold)
}

// TestARenewalOfAnOldLeaseDoesNotFenceTheNewOne: a worker that claimed its own lapsed run hears of the old epoch late.
func TestARenewalOfAnOldLeaseDoesNotFenceTheNewOne(t *testing.T) {
	var n atomic.Int64
	var fenced, cut atomic.Bool
	g := one(func(ctx context.Context, w work) (work, error) {
		second := n.Add(1) > 1
		select {
		case <-time.After(20 * time.Second):
		case <-ctx.Done():
			if second {
				cut.Store(true)
			} else {
				fenced.Store(errors.Is(context.Cause(ctx), pawl.ErrFenced))
			}
		}
		return w, nil
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(&stalling{Store: r.store, long: 12 * time.Second}, engine.Config{}))()
		run := r.ends(r.start("one", 1).ID, pawl.StatusSucceeded)
		if n.Load() != 2 || !fenced.Load() || cut.Load() || r.steps(run.ID, "node") != 1 {
			t.Errorf("%d executions, the first fenced %v, the second cut short %v", n.Load(), fenced.Load(), cut.Load())
		}
	}, build(t, g))
}

// TestAShortOutageOfALimitIsRiddenOut: the calls beside it run on.
func TestAShortOutageOfALimitIsRiddenOut(t *testing.T) {
	made := &tally{}
	g := one(func(ctx context.Context, w work) (work, error) {
		return both(w, func() error { return second(obedient(ctx, "slow", time.Minute, made)) }, func() error {
			time.Sleep(time.Second)
			return second(obedient(ctx, "quick", time.Second, made, pawl.CallOptions{Limit: "api"}))
		})
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		c := engine.Config{Limits: map[string]engine.Limit{"api": {Max: 1}}}
		defer r.worker(r.engine(&hooked{Store: r.store, take: first(store.ErrUnavailable)}, c))()
		if r.ends(r.start("one", 1).ID, pawl.StatusSucceeded); made.of("quick") != 1 || made.of("slow") != 1 {
			t.Errorf("made %v", made.n)
		}
	}, build(t, g))
}

// TestAnOutageOfReadsIsNoCrashLoop: as long as the lease is renewed the run is not begun, and that is no fault of its node.
func TestAnOutageOfReadsIsNoCrashLoop(t *testing.T) {
	execs := &tally{}
	g := one(func(_ context.Context, w work) (work, error) { execs.add("x"); return w, nil }, pawl.Options{})
	virtual(t, func(r *rig) {
		run := r.start("one", 1)
		until := time.Now().Add(10 * time.Minute)
		defer r.worker(r.engine(&hooked{Store: r.store, read: func(_ store.Query, do func() error) error {
			if time.Now().Before(until) {
				return store.ErrUnavailable
			}
			return do()
		}}, engine.Config{Trace: engine.Trace{Fault: func(string, error) {}}}))()
		end := r.untilEnd(run.ID, time.Hour)
		at, err := r.store.Get(r.ctx, store.Scope{All: true}, run.ID)
		if end.Status != pawl.StatusSucceeded || execs.of("x") != 1 || at.Epoch != 1 || err != nil {
			t.Errorf("the run is %s: %v; %d executions, epoch %d, %v", end.Status, end.Err, execs.of("x"), at.Epoch, err)
		}
	}, build(t, g))
}

// TestAnOutageWhileALetterIsReadIsRiddenOut: a commit that a letter has crossed asks for the lease and for the letter.
func TestAnOutageWhileALetterIsReadIsRiddenOut(t *testing.T) {
	var down, crossed atomic.Bool
	g := one(func(_ context.Context, w work) (work, error) { return w, nil }, pawl.Options{})
	virtual(t, func(r *rig) {
		run := r.start("one", 1)
		outage := func(do func() error) error {
			if down.Load() {
				return store.ErrUnavailable
			}
			return do()
		}
		defer r.worker(r.engine(&hooked{Store: r.store, renew: outage,
			read: func(_ store.Query, do func() error) error { return outage(do) },
			apply: func(cs []store.Change, do func() error) error {
				if cs[0].End && crossed.CompareAndSwap(false, true) {
					down.Store(true)
					time.AfterFunc(2*time.Second, func() { down.Store(false) })
					l := store.Letter{Run: run.ID, Add: []store.Row{{Stream: store.Inbox, Data: []byte(`{"wake":"now"}`)}}}
					if err := r.store.Apply(r.ctx, store.Change{Run: run.ID, Letters: []store.Letter{l}}); err != nil {
						t.Error(err)
					}
				}
				return do()
			}}, engine.Config{}))()
		r.ends(run.ID, pawl.StatusSucceeded)
		if at, err := r.store.Get(r.ctx, store.Scope{All: true}, run.ID); err != nil || at.Epoch != 1 {
			t.Errorf("epoch %d, %v", at.Epoch, err)
		}
	}, build(t, g))
}

// TestStoppedBeforeItBegins: a worker that is told to stop before it has looked at the store has drained.
func TestStoppedBeforeItBegins(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		s := open(t)()
		defer s.Close()
		e, err := engine.New(s, nil, engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Work(ctx); err != nil {
			t.Error(err)
		}
	})
}
