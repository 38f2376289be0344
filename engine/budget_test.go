package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
	"pawl/store"
)

func TestChargeCountsEveryPhysicalTry(t *testing.T) {
	n := 0
	g := one(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "call", func(ctx context.Context) (int, error) {
			if err := pawl.Charge(ctx, "inner", 10); err != nil {
				return 0, err
			}
			if n++; n == 2 {
				return 0, errTransient()
			}
			return 1, nil
		}, pawl.CallOptions{Charge: pawl.Budget{"outer": 1}, Retry: pawl.Retry{Max: 3, First: time.Minute}})
		return w, err
	}, pawl.Options{Budget: pawl.Budget{"outer": 100, "inner": 100}})
	// The first try is lost in a crash, the second fails, the third is good.
	r := pawltest.Run(t, g, 1, pawltest.Script{Fail: map[string][]error{"call": {pawltest.ErrLost}}})
	ended(t, r, pawl.StatusSucceeded, "END")
	if n != 3 || r.Meter("outer") != 3 || r.Meter("inner") != 30 {
		t.Errorf("%d tries, outer %d, inner %d", n, r.Meter("outer"), r.Meter("inner"))
	}
}

func TestAReservationIsMadeBeforeTheCall(t *testing.T) {
	made := &tally{}
	var left []int64
	g := one(func(ctx context.Context, w work) (work, error) {
		for i := range 3 {
			_, err := pawl.Do(ctx, fmt.Sprint("call", i), func(ctx context.Context) (int, error) {
				n, err := pawl.Remaining(ctx, "llm")
				left = append(left, n)
				return made.add("call"), err
			}, pawl.CallOptions{Charge: pawl.Budget{"llm": 2}})
			if err != nil {
				return w, err
			}
		}
		return w, nil
	}, pawl.Options{Budget: pawl.Budget{"llm": 5}, Retry: pawl.Retry{Max: 3}})
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	failed(t, r, pawl.CodeExhausted, "llm", "4 of 5")
	if made.of("call") != 2 || fmt.Sprint(left) != "[3 1]" || r.Meter("llm") != 4 {
		t.Errorf("made %d, left %v, used %d", made.of("call"), left, r.Meter("llm"))
	}
	var b *pawl.BudgetError
	if !errors.As(r.Run.Err, &b) || *b != (pawl.BudgetError{Meter: "llm", Used: 4, Cap: 5}) {
		t.Errorf("error %#v", r.Run.Err.Err)
	}
}

func TestChargeIsForCallsOnly(t *testing.T) {
	g := one(func(ctx context.Context, w work) (work, error) {
		if err := pawl.Charge(ctx, "llm", 1); !errors.Is(err, pawl.ErrNotInCall) {
			t.Errorf("charge: %v", err)
		}
		_, err := pawl.Hold(ctx, pawl.Dollars(1))
		return w, err
	}, pawl.Options{Retry: pawl.Retry{Max: 3}})
	failed(t, pawltest.Run(t, g, 1, pawltest.Script{}), pawl.CodeInvalid)
}

func TestMapNeverPassesTheCapAndChargesInItemOrder(t *testing.T) {
	for _, limit := range []int{1, 8, 50} {
		made := &tally{}
		g := one(func(ctx context.Context, w work) (work, error) {
			items := make([]int, 50)
			for i := range items {
				items[i] = i
			}
			_, err := pawl.Map(ctx, "m", items, limit, func(ctx context.Context, i int) (int, error) {
				time.Sleep(time.Duration(50-i) * time.Second)
				return made.add(fmt.Sprint(i)), nil
			}, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}})
			return w, err
		}, pawl.Options{Budget: pawl.Budget{"llm": 20}})
		r := pawltest.Run(t, g, 1, pawltest.Script{})
		failed(t, r, pawl.CodeExhausted, "llm", "item 20")
		if r.Meter("llm") != 20 || len(made.n) != 20 {
			t.Errorf("limit %d: used %d, made %v", limit, r.Meter("llm"), made.n)
		}
		for i := range 20 {
			if made.of(fmt.Sprint(i)) != 1 {
				t.Errorf("limit %d: item %d was made %d times", limit, i, made.of(fmt.Sprint(i)))
			}
		}
	}
}

// nest is a graph that calls a child, which calls the next one, down to one that makes calls.
func nest(depth int, caps map[int]int64) *graph {
	name := fmt.Sprintf("level%d", depth)
	o := pawl.Options{}
	if c, ok := caps[depth]; ok {
		o.Budget = pawl.Budget{"llm": c}
	}
	g := blank(name, o)
	var a pawl.Node[work]
	if depth == 0 {
		a = g.Node("spend", func(ctx context.Context, w work) (work, error) {
			for i := range w.N {
				if _, err := do(ctx, fmt.Sprint(i), &tally{}, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}}); err != nil {
					return w, err
				}
			}
			return w, nil
		})
	} else {
		a = pawl.Sub(g, "down", nest(depth-1, caps), func(w work) (int, error) { return w.N, nil },
			func(w, out work) (work, error) { return w.line("done"), nil })
	}
	g.Start(a, begin)
	e := g.From(a)
	if _, capped := caps[0]; depth == 3 || capped {
		e.OnError("out of budget", pawl.IsBudget, g.Fail("SPENT"))
	}
	e.Otherwise(g.Succeed("END"))
	return g
}

func TestAChildsChargeCountsInEveryAncestor(t *testing.T) {
	r := pawltest.Run(t, nest(3, map[int]int64{3: 10}), 4, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	if r.Meter("llm") != 4 || len(r.Children) != 3 {
		t.Errorf("used %d, %d children", r.Meter("llm"), len(r.Children))
	}
	for _, c := range r.Children {
		used := int64(-1)
		for _, m := range c.Meters {
			if m.Name == "llm" {
				used = m.Used
			}
		}
		if used != 4 {
			t.Errorf("child %s used %d", c.Workflow, used)
		}
	}
	// The grandparent's cap holds for what the grandchild spends, and its error is a spent budget all the way up.
	r = pawltest.Run(t, nest(3, map[int]int64{3: 100, 2: 3}), 4, pawltest.Script{})
	ended(t, r, pawl.StatusFailed, "SPENT")
	if r.Meter("llm") != 3 {
		t.Errorf("used %d of 3", r.Meter("llm"))
	}
}

func TestASpentBudgetOfAChildIsABudgetErrorOfTheParent(t *testing.T) {
	child := blank("child", pawl.Options{Budget: pawl.Budget{"llm": 1}})
	c := child.Node("spend", func(ctx context.Context, w work) (work, error) {
		_, err := do(ctx, "x", &tally{}, pawl.CallOptions{Charge: pawl.Budget{"llm": 2}})
		return w, err
	})
	child.Start(c, begin)
	child.From(c).Otherwise(child.Succeed("END"))
	g := blank("parent", pawl.Options{})
	a := pawl.Sub(g, "sub", child, func(w work) (int, error) { return w.N, nil }, func(w, _ work) (work, error) { return w, nil }, pawl.NodeOptions{Retry: pawl.Retry{Max: 3}})
	g.Start(a, begin)
	g.From(a).OnError("out of budget", func(w work, err error) (work, bool) {
		var re *pawl.RunError
		if errors.As(err, &re) {
			w = w.line(string(re.Status) + " " + re.Terminal + " " + re.Code)
		}
		_, ok := pawl.IsBudget(w, err)
		return w, ok
	}, g.Succeed("PARTIAL")).Otherwise(g.Succeed("END"))
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "PARTIAL")
	if len(r.Output.Log) != 1 || r.Output.Log[0] != "failed FAILED exhausted" {
		t.Errorf("log %q", r.Output.Log)
	}
}

func TestHoldAndSettle(t *testing.T) {
	try := 0
	g := one(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "settled", func(ctx context.Context) (int, error) {
			settle, err := pawl.Hold(ctx, pawl.Dollars(0.5))
			if err != nil {
				return 0, err
			}
			if left, _ := pawl.Remaining(ctx, pawl.MeterUSD); left > int64(pawl.Dollars(0.5)) {
				t.Errorf("nothing is held: %d left", left)
			}
			settle(pawl.Dollars(0.1))
			settle(0) // the first one counts
			return 1, nil
		})
		if err != nil {
			return w, err
		}
		_, err = pawl.Do(ctx, "unsettled", func(ctx context.Context) (int, error) { _, err := pawl.Hold(ctx, pawl.Dollars(0.2)); return 1, err })
		if err != nil {
			return w, err
		}
		_, err = pawl.Do(ctx, "fails", func(ctx context.Context) (int, error) {
			settle, err := pawl.Hold(ctx, pawl.Dollars(0.1))
			if err != nil {
				return 0, err
			}
			if try++; try == 1 {
				settle(pawl.Dollars(0.01)) // a failure can be paid for, too
				return 0, errTransient()
			}
			settle(pawl.Dollars(5)) // never above what was held
			return 1, nil
		}, pawl.CallOptions{Retry: pawl.Retry{Max: 1}})
		if err != nil {
			return w, err
		}
		_, err = pawl.Do(ctx, "too much", func(ctx context.Context) (int, error) { _, err := pawl.Hold(ctx, pawl.Dollars(0.6)); return 1, err })
		var b *pawl.BudgetError
		if !errors.As(err, &b) || b.Meter != pawl.MeterUSD {
			t.Errorf("over the cap: %v", err)
		}
		return w, nil
	}, pawl.Options{Cost: pawl.Dollars(1)})
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	if got, want := pawl.USD(r.Meter(pawl.MeterUSD)), pawl.Dollars(0.1+0.2+0.01+0.1); got != want {
		t.Errorf("spent %s, want %s", got, want)
	}
}

func TestAHoldThatACrashInterruptedCountsInFull(t *testing.T) {
	g := one(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "call", func(ctx context.Context) (int, error) {
			settle, err := pawl.Hold(ctx, pawl.Dollars(0.5))
			if err == nil {
				settle(pawl.Dollars(0.1))
			}
			return 1, err
		})
		return w, err
	}, pawl.Options{Cost: pawl.Dollars(2)})
	r := pawltest.Run(t, g, 1, pawltest.Script{Fail: map[string][]error{"call": {pawltest.ErrLost}}})
	ended(t, r, pawl.StatusSucceeded, "END")
	if got, want := pawl.USD(r.Meter(pawl.MeterUSD)), pawl.Dollars(0.6); got != want {
		t.Errorf("spent %s, want %s", got, want)
	}
}

func TestCapOnlyLowers(t *testing.T) {
	g := two(func(ctx context.Context, w work) (work, error) {
		for _, c := range []struct{ n, left int64 }{{20, 10}, {3, 3}, {5, 3}, {-1, 0}} {
			if err := pawl.Cap(ctx, "llm", c.n); err != nil {
				return w, err
			}
			if left, err := pawl.Remaining(ctx, "llm"); left != c.left || err != nil {
				t.Errorf("after Cap %d: %d left, %v", c.n, left, err)
			}
		}
		if left, err := pawl.Remaining(ctx, "other"); left != pawl.Unlimited || err != nil {
			t.Errorf("without a cap: %d, %v", left, err)
		}
		return w, pawl.Cap(ctx, "other", 1)
	}, func(ctx context.Context, w work) (work, error) {
		if left, err := pawl.Remaining(ctx, "other"); left != 1 || err != nil {
			t.Errorf("a cap of a meter of its own: %d, %v", left, err)
		}
		_, err := do(ctx, "x", &tally{}, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}})
		return w, err
	}, pawl.Options{Budget: pawl.Budget{"llm": 10}})
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	failed(t, r, pawl.CodeExhausted, "0 of 0")
}

func TestCostsAreChargedOnceAVisitAlsoOverACrash(t *testing.T) {
	g := blank("costs", pawl.Options{Budget: pawl.Budget{"rounds": 3}})
	a := g.Node("round", func(ctx context.Context, w work) (work, error) {
		if _, err := do(ctx, "x", &tally{}); err != nil {
			return w, err
		}
		if err := pawl.Sleep(ctx, "s", time.Hour); err != nil {
			return w, err
		}
		return w.line("round"), nil
	}, pawl.NodeOptions{Costs: pawl.Budget{"rounds": 1}, Retry: pawl.Retry{Max: 2}})
	g.Start(a, begin)
	g.From(a).OnError("spent", pawl.IsBudget, g.Succeed("SPENT")).Otherwise(a)
	r := pawltest.EveryCrash(t, g, 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "SPENT")
	if len(r.Output.Log) != 3 || r.Meter("rounds") != 3 {
		t.Errorf("log %v, used %d", r.Output.Log, r.Meter("rounds"))
	}
	// Failed tries are of the same visit.
	r = pawltest.Run(t, g, 1, pawltest.Script{Fail: map[string][]error{"x": {errTransient(), errTransient()}}})
	if r.Meter("rounds") != 3 || len(r.Output.Log) != 3 {
		t.Errorf("with retries: log %v, used %d", r.Output.Log, r.Meter("rounds"))
	}
}

func TestBackgroundRunsHaveBudgetsOfTheirOwn(t *testing.T) {
	bg := nest(0, map[int]int64{0: 5})
	g := one(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Enqueue(ctx, "bg", bg, 5, pawl.StartOptions{Budget: pawl.Budget{"llm": 4}})
		return w, err
	}, pawl.Options{Budget: pawl.Budget{"llm": 1}})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.ends(r.start("one", 1).ID, pawl.StatusSucceeded)
		rs, err := r.rs.List(r.ctx, pawl.RunFilter{Workflow: "level0"}, "", 0)
		if err != nil || len(rs) != 1 {
			t.Fatal(rs, err)
		}
		end := r.ends(rs[0].ID, pawl.StatusFailed)
		if end.Terminal != "SPENT" || end.Meters[0].Used != 4 || run.Meters[0].Used != 0 {
			t.Errorf("background %+v, parent %+v", end.Meters, run.Meters)
		}
	}, build(t, g), build(t, bg))
}

// TestRuntimeCountsMachinesAndNotPeople: a day at a person's desk is free, an hour of sleep is not.
func TestRuntimeCountsMachinesAndNotPeople(t *testing.T) {
	g := two(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Ask[int](ctx, "q", pawl.Question{})
		return w, err
	}, func(ctx context.Context, w work) (work, error) { return w, pawl.Sleep(ctx, "s", time.Hour) }, pawl.Options{Runtime: 2 * time.Hour})
	r := pawltest.Run(t, g, 1, pawltest.Script{Answers: map[string][]any{"q": {1}}, Think: 24 * time.Hour})
	ended(t, r, pawl.StatusSucceeded, "END")
	if ms := r.Meter(pawl.MeterRuntime); ms < 3_600_000 || ms > 3_700_000 {
		t.Errorf("runtime %d ms", ms)
	}
}

func TestRuntimeEndsANodeAndGraceIsForTheErrorEdge(t *testing.T) {
	for _, c := range []struct {
		grace    time.Duration
		terminal string
	}{{30 * time.Second, "PARTIAL"}, {time.Second, pawl.TerminalFailed}} {
		g := blank("runtime", pawl.Options{Runtime: time.Minute, Grace: c.grace})
		slow := g.Node("slow", func(ctx context.Context, w work) (work, error) {
			<-ctx.Done()
			var b *pawl.BudgetError
			if _, err := do(ctx, "late", &tally{}); !errors.As(err, &b) {
				t.Errorf("a call after the time: %v", err)
			}
			return w, nil // swallowed
		}, pawl.NodeOptions{Retry: pawl.Retry{Max: 3}})
		tidy := g.Node("tidy", func(ctx context.Context, w work) (work, error) {
			_, err := pawl.Do(ctx, "tidy", func(ctx context.Context) (int, error) {
				select {
				case <-time.After(20 * time.Second):
					return 1, nil
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				}
			})
			return w.line("tidied"), err
		})
		g.Start(slow, begin)
		g.From(slow).OnError("time", pawl.IsBudget, tidy).Otherwise(g.Succeed("END"))
		g.From(tidy).Otherwise(g.Succeed("PARTIAL"))
		r := pawltest.Run(t, g, 1, pawltest.Script{})
		if r.Run.Terminal != c.terminal {
			t.Errorf("grace %s: %s, %v", c.grace, r.Run.Terminal, r.Run.Err)
		}
		if c.terminal == pawl.TerminalFailed {
			named(t, r.Run.Err, pawl.CodeExhausted, "runtime")
		}
	}
}

func TestALimitHoldsOverAllWorkers(t *testing.T) {
	var mu sync.Mutex
	var times []time.Duration
	var began time.Time
	under, most := 0, 0
	g := one(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "call", func(context.Context) (int, error) {
			mu.Lock()
			times = append(times, time.Since(began))
			under++
			most = max(most, under)
			mu.Unlock()
			time.Sleep(5 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			under--
			return 1, nil
		}, pawl.CallOptions{Limit: "brave"})
		return w, err
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		c := engine.Config{Limits: map[string]engine.Limit{"brave": {Every: time.Second, Burst: 1, Max: 3}}}
		for range 3 {
			defer r.worker(r.engine(r.store, c))()
		}
		synctest.Wait()
		began = time.Now()
		var ids []string
		for range 9 {
			ids = append(ids, r.start("one", 1).ID)
		}
		for _, id := range ids {
			r.ends(id, pawl.StatusSucceeded)
		}
		if most != 3 || len(times) != 9 {
			t.Errorf("%d at once, %d calls", most, len(times))
		}
		for i := 1; i < len(times); i++ {
			if d := times[i] - times[i-1]; d < 999*time.Millisecond {
				t.Errorf("call %d came %s after the one before", i, d)
			}
		}
	}, build(t, g))
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	failed(t, r, pawl.CodeInvalid, "brave")
	if strings.Contains(r.Run.Err.Text, "panic") {
		t.Error(r.Run.Err)
	}
}

// TestAChargeOfAParentThatIsGoneFailsTheNode, also one that ignores the error: nobody is there to be charged, and no other
// execution would find anybody.
func TestAChargeOfAParentThatIsGoneFailsTheNode(t *testing.T) {
	execs := &tally{}
	child := sleeper(func(ctx context.Context, w work) (work, error) {
		if pawl.Info(ctx).Attempt == 1 {
			return w, errTransient()
		}
		execs.add("x")
		_, _ = do(ctx, "k", &tally{}, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}})
		return w, nil
	})
	parent := one(func(ctx context.Context, w work) (work, error) { return pawl.Call(ctx, "c", child, 1) }, pawl.Options{})
	virtual(t, func(r *rig) {
		var run pawl.Run
		gone := func(func() error) error { return fmt.Errorf("%w: charged run %s", store.ErrNotFound, run.ID) }
		h := &hooked{Store: r.store}
		stop := r.worker(r.engine(h, engine.Config{}))
		run = r.ends(r.start("one", 1).ID, pawl.StatusFailed)
		stop()
		h.append = gone // as an earlier version left it, which expired a parent without its children
		defer r.worker(r.engine(h, engine.Config{}))()
		c := r.children(run.ID)[0].ID
		if _, err := r.rs.Retry(r.ctx, c); err != nil {
			t.Fatal(err)
		}
		end := r.ends(c, pawl.StatusFailed)
		named(t, end.Err, pawl.CodeNotFound, run.ID)
		if execs.of("x") != 1 {
			t.Errorf("%d executions", execs.of("x"))
		}
	}, build(t, child), build(t, parent))
}
