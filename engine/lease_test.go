package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// deaf is a store on which one worker's renewals, and claims after the first one, do not get through while cut is set.
type deaf struct {
	store.Store
	cut     atomic.Bool
	greedy  bool // it claims all the same
	claimed atomic.Bool
}

func (d *deaf) Claim(ctx context.Context, c store.Claim) ([]store.Run, time.Duration, error) {
	if d.cut.Load() && d.claimed.Load() && !d.greedy {
		return nil, -1, nil
	}
	rs, next, err := d.Store.Claim(ctx, c)
	if len(rs) > 0 {
		d.claimed.Store(true)
	}
	return rs, next, err
}

func (d *deaf) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) ([]store.Held, error) {
	if d.cut.Load() {
		return nil, store.ErrUnavailable
	}
	return d.Store.Renew(ctx, worker, ls, hold)
}

func short() engine.Config { return engine.Config{Lease: 5 * time.Second} }

// twoWorkers runs a node on a worker whose renewals are cut, until another one has taken the run over; first tells the
// two executions apart.
func twoWorkers(t *testing.T, node func(ctx context.Context, w work, first bool, heal func()) (work, error), check func(*rig, pawl.Run)) {
	var n, told atomic.Int64
	d := &deaf{}
	loser := short()
	loser.Trace.Fault = func(op string, _ error) {
		if strings.HasPrefix(op, "run ") {
			told.Add(1)
		}
	}
	g := one(func(ctx context.Context, w work) (work, error) {
		return node(ctx, w, n.Add(1) == 1, func() { d.cut.Store(false) })
	}, pawl.Options{})
	g.Closing(func(work, pawl.Ending) []pawl.Event { return []pawl.Event{{Type: "closed"}} })
	virtual(t, func(r *rig) {
		d.Store = r.store
		d.cut.Store(true)
		defer r.worker(r.engine(d, loser))()
		run := r.start("one", 1)
		r.becomes(run.ID, pawl.StatusRunning)
		defer r.worker(r.engine(r.store, short()))()
		end := r.ends(run.ID, pawl.StatusSucceeded)
		time.Sleep(time.Minute) // for whatever the first one still does
		if again := r.get(run.ID); again.Steps != end.Steps || string(again.Output) != string(end.Output) {
			t.Errorf("the run moved after its end: %+v, %+v", end, again)
		}
		if ev := r.events(run.ID); ev["closed"] != 1 || ev["pawl.ended"] != 1 || r.steps(run.ID, "node") != 1 {
			t.Errorf("events %v, %d steps of the node", ev, r.steps(run.ID, "node"))
		}
		if n.Load() != 2 {
			t.Errorf("%d executions", n.Load())
		}
		if told.Load() != 1 {
			t.Errorf("told %d times that the run is lost", told.Load())
		}
		check(r, end)
	}, build(t, g))
}

// TestAStaleWorkersCommitIsRefused: its node knows nothing, and what it returns changes nothing.
func TestAStaleWorkersCommitIsRefused(t *testing.T) {
	twoWorkers(t, func(_ context.Context, w work, first bool, _ func()) (work, error) {
		if first {
			time.Sleep(30 * time.Second)
			return work{N: 99}, nil
		}
		time.Sleep(40 * time.Second) // still in hand when the first one comes back
		return work{N: 2}, nil
	}, func(r *rig, end pawl.Run) {
		if w := output(r.T, end); w.N != 2 {
			r.Errorf("output %+v", w)
		}
	})
}

func TestAStaleWorkersCallsAndEventsAreRefused(t *testing.T) {
	var errs []error
	twoWorkers(t, func(ctx context.Context, w work, first bool, _ func()) (work, error) {
		if !first {
			time.Sleep(40 * time.Second)
			return w, nil
		}
		time.Sleep(20 * time.Second)
		errs = append(errs, pawl.Emit(ctx, "stale", 1), second(do(ctx, "stale", &tally{})))
		if context.Cause(ctx) == nil {
			r := pawl.Cap(ctx, "llm", 1)
			errs = append(errs, r)
		}
		return work{N: 99}, nil
	}, func(r *rig, end pawl.Run) {
		for _, err := range errs {
			if !errors.Is(err, pawl.ErrFenced) {
				r.Errorf("a stale record: %v", err)
			}
		}
		if ev := r.events(end.ID); ev["stale"] != 0 || len(errs) < 2 {
			r.Errorf("events %v, errors %v", ev, errs)
		}
	})
}

// TestASwallowedLostLeaseChangesNothing: once a renewal gets through again, the node's context ends with ErrFenced.
func TestASwallowedLostLeaseChangesNothing(t *testing.T) {
	var cause error
	twoWorkers(t, func(ctx context.Context, w work, first bool, heal func()) (work, error) {
		if !first {
			heal()
			time.Sleep(10 * time.Second)
			return work{N: 2}, nil
		}
		<-ctx.Done()
		cause = context.Cause(ctx)
		return work{N: 99}, nil
	}, func(r *rig, end pawl.Run) {
		if w := output(r.T, end); w.N != 2 || !errors.Is(cause, pawl.ErrFenced) {
			r.Errorf("output %+v, cause %v", w, cause)
		}
	})
}

// TestAWorkerThatClaimsItsOwnLapsedRun: the visit that it still has in hand is over, and the new one is renewed.
func TestAWorkerThatClaimsItsOwnLapsedRun(t *testing.T) {
	var n atomic.Int64
	d := &deaf{greedy: true}
	var cause atomic.Value
	g := one(func(ctx context.Context, w work) (work, error) {
		if n.Add(1) == 1 {
			select {
			case <-ctx.Done():
				cause.Store(context.Cause(ctx))
			case <-time.After(20 * time.Second):
			}
			return work{N: 99}, nil
		}
		d.cut.Store(false)
		time.Sleep(60 * time.Second)
		return work{N: 2}, nil
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		d.Store = r.store
		d.cut.Store(true)
		defer r.worker(r.engine(d, short()))()
		end := r.ends(r.start("one", 1).ID, pawl.StatusSucceeded)
		if w := output(t, end); w.N != 2 || n.Load() != 2 {
			t.Errorf("output %+v, %d executions", w, n.Load())
		}
		if err, _ := cause.Load().(error); !errors.Is(err, pawl.ErrFenced) {
			t.Errorf("cause %v", err)
		}
	}, build(t, g))
}

func TestADrainRunsVisitsToTheirCommitAndLeavesInterrupted(t *testing.T) {
	inside := make(chan struct{}, 1)
	g := two(func(ctx context.Context, w work) (work, error) {
		inside <- struct{}{}
		select {
		case <-time.After(20 * time.Second):
			return w.line("first"), nil
		case <-ctx.Done():
			return w, ctx.Err()
		}
	}, func(_ context.Context, w work) (work, error) { return w.line("second"), nil }, pawl.Options{})
	virtualChan(t, &inside, func(r *rig) {
		stop := r.worker(r.engine(r.store, engine.Config{}))
		run := r.start("two", 1)
		<-inside
		began := time.Now()
		stop()
		if took := time.Since(began); took < 19*time.Second {
			t.Errorf("the drain took %s: the visit was thrown away", took)
		}
		got := r.get(run.ID)
		if got.Status != pawl.StatusInterrupted || got.Node != "second" || got.Worker != "" {
			t.Fatalf("after the drain: %+v", got)
		}
		rs, err := r.rs.List(r.ctx, pawl.RunFilter{Status: pawl.StatusInterrupted}, "", 0)
		if err != nil || len(rs) != 1 {
			t.Errorf("listed %+v, %v", rs, err)
		}
		began = time.Now()
		defer r.worker(r.engine(r.store, engine.Config{}))()
		end := r.ends(run.ID, pawl.StatusSucceeded)
		if w := output(t, end); len(w.Log) != 2 || time.Since(began) > time.Second {
			t.Errorf("log %v, taken over after %s", w.Log, time.Since(began))
		}
	}, build(t, g))
}

// TestAbortKeepsTheJournal: the visit is thrown away, what it has recorded is not.
func TestAbortKeepsTheJournal(t *testing.T) {
	inside := make(chan struct{}, 10)
	made := &tally{}
	n := 0
	g := one(func(ctx context.Context, w work) (work, error) {
		n++
		if _, err := do(ctx, "call", made); err != nil {
			return w, err
		}
		if err := pawl.Emit(ctx, "tick", 1); err != nil {
			return w, err
		}
		if n == 1 {
			inside <- struct{}{}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), pawl.ErrDrained) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return work{N: 99}, nil
		}
		return w, nil
	}, pawl.Options{Budget: pawl.Budget{"rounds": 5}}, pawl.NodeOptions{Costs: pawl.Budget{"rounds": 1}})
	virtualChan(t, &inside, func(r *rig) {
		e := r.engine(r.store, engine.Config{})
		stop := r.worker(e)
		run := r.start("one", 1)
		<-inside
		go func() { time.Sleep(time.Second); e.Abort() }()
		stop()
		got := r.get(run.ID)
		if got.Status != pawl.StatusInterrupted || got.Node != "node" {
			t.Fatalf("after the abort: %+v", got)
		}
		defer r.worker(r.engine(r.store, engine.Config{}))()
		end := r.ends(run.ID, pawl.StatusSucceeded)
		if w := output(t, end); w.N != 1 || made.of("call") != 1 || r.events(run.ID)["tick"] != 1 || end.Meters[0].Used != 1 {
			t.Errorf("output %+v, made %d times, events %v, meters %+v", w, made.of("call"), r.events(run.ID), end.Meters)
		}
	}, build(t, g))
}

// TestAnAbortedRunIsNoCrashLoop: a worker that is stopped again and again is no fault of the node.
func TestAnAbortedRunIsNoCrashLoop(t *testing.T) {
	inside := make(chan struct{}, 10)
	n := 0
	g := one(func(ctx context.Context, w work) (work, error) {
		if n++; n <= 2*pawl.MaxClaims {
			inside <- struct{}{}
			<-ctx.Done()
			return w, ctx.Err()
		}
		return w, nil
	}, pawl.Options{})
	virtualChan(t, &inside, func(r *rig) {
		run := r.start("one", 1)
		for range 2 * pawl.MaxClaims {
			e := r.engine(r.store, engine.Config{})
			stop := r.worker(e)
			<-inside
			go func() { time.Sleep(time.Second); e.Abort() }()
			stop()
		}
		defer r.worker(r.engine(r.store, engine.Config{}))()
		r.ends(run.ID, pawl.StatusSucceeded)
	}, build(t, g))
}

// TestAWorkerWithFullSlotsDoesNotSpin: it asks again when a run is out of hand, however many are due.
func TestAWorkerWithFullSlotsDoesNotSpin(t *testing.T) {
	g := one(func(_ context.Context, w work) (work, error) { time.Sleep(10 * time.Second); return w, nil }, pawl.Options{})
	virtual(t, func(r *rig) {
		var n atomic.Int64
		a, b := r.start("one", 1), r.start("one", 1)
		began := time.Now()
		defer r.worker(r.engine(&hooked{Store: r.store, claim: func() { n.Add(1) }}, engine.Config{Slots: 1}))()
		r.ends(a.ID, pawl.StatusSucceeded)
		if n.Load() > 50 {
			t.Errorf("%d claims in ten seconds", n.Load())
		}
		if r.ends(b.ID, pawl.StatusSucceeded); time.Since(began) > 21*time.Second {
			t.Errorf("took %s", time.Since(began))
		}
	}, build(t, g))
}

// frozen is the store of a process that stands still for half a minute behind one of its writes. Whatever else it does in
// that time comes a second after that write's answer.
type frozen struct {
	store.Store
	until atomic.Int64 // nanoseconds since 1970; 0: it has not stood still yet
}

func (f *frozen) stand() {
	if d := time.Until(time.Unix(0, f.until.Load())); d > 0 {
		time.Sleep(d + time.Second)
	}
}

func (f *frozen) freeze(err error) error {
	const rest = 30 * time.Second
	if err == nil && f.until.CompareAndSwap(0, time.Now().Add(rest).UnixNano()) {
		time.Sleep(rest)
	}
	return err
}

func (f *frozen) Append(ctx context.Context, l store.Lease, b store.Batch) (store.Receipt, error) {
	r, err := f.Store.Append(ctx, l, b)
	return r, f.freeze(err)
}

func (f *frozen) Apply(ctx context.Context, cs ...store.Change) error {
	return f.freeze(f.Store.Apply(ctx, cs...))
}

func (f *frozen) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) ([]store.Held, error) {
	f.stand()
	return f.Store.Renew(ctx, worker, ls, hold)
}

func (f *frozen) Claim(ctx context.Context, c store.Claim) ([]store.Run, time.Duration, error) {
	f.stand()
	return f.Store.Claim(ctx, c)
}

func (f *frozen) Get(ctx context.Context, s store.Scope, run string) (store.Run, error) {
	f.stand()
	return f.Store.Get(ctx, s, run)
}

// TestAWorkerThatStoodStillDoesNothingMore: it begins neither a node nor a call once another worker has the run, though nobody
// has told it yet.
func TestAWorkerThatStoodStillDoesNothingMore(t *testing.T) {
	var bodies, calls tally
	for name, node := range map[string]body{
		"behind a retry": func(ctx context.Context, w work) (work, error) {
			if bodies.add("retry") == 1 {
				return w, pawl.RetryAfter(errors.New("again"), time.Millisecond)
			}
			time.Sleep(time.Minute)
			return w, nil
		},
		"behind a call": func(ctx context.Context, w work) (work, error) {
			_, err := do(ctx, "a", &calls)
			if err == nil {
				bodies.add("call")
				_, err = do(ctx, "b", &calls)
			}
			time.Sleep(time.Minute)
			return w, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				f := &frozen{Store: r.store}
				defer r.worker(r.engine(f, short()))()
				run := r.start("one", 1)
				time.Sleep(time.Second)
				defer r.worker(r.engine(r.store, short()))()
				r.ends(run.ID, pawl.StatusSucceeded)
				if f.until.Load() == 0 {
					t.Error("no worker stood still")
				}
			}, build(t, one(node, pawl.Options{}, pawl.NodeOptions{Retry: pawl.Retry{Max: 2}})))
		})
	}
	if n := bodies.of("retry"); n != 2 {
		t.Errorf("%d bodies behind a retry", n)
	}
	if a, b := calls.of("a"), calls.of("b"); a != 1 || b != 1 || bodies.of("call") != 2 {
		t.Errorf("%d first calls and %d second ones, in %d bodies that got so far", a, b, bodies.of("call"))
	}
}

// tardy is a store that a renewal reaches only when the worker takes its leave, or has given the renewal up.
type tardy struct {
	store.Store
	left chan struct{}
}

func (s *tardy) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) ([]store.Held, error) {
	if len(ls) > 0 {
		select {
		case <-s.left:
		case <-ctx.Done():
		}
		return s.Store.Renew(context.WithoutCancel(ctx), worker, ls, hold)
	}
	held, err := s.Store.Renew(ctx, worker, ls, hold)
	close(s.left)
	time.Sleep(time.Millisecond) // of the bubble: whoever waits for left goes on first
	return held, err
}

// A worker that has left is not taken for alive because of its last renewal.
func TestAWorkerThatLeftIsGone(t *testing.T) {
	g := one(func(_ context.Context, w work) (work, error) { time.Sleep(4 * time.Second); return w, nil }, pawl.Options{})
	virtual(t, func(r *rig) {
		stop := r.worker(r.engine(&tardy{Store: r.store, left: make(chan struct{})}, engine.Config{}))
		r.ends(r.start("one", 1).ID, pawl.StatusSucceeded)
		stop()
		if ws, err := r.store.Workers(r.ctx); err != nil || len(ws) > 0 {
			t.Errorf("alive: %+v, %v", ws, err)
		}
	}, build(t, g))
}
