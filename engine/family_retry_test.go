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

// joined is fan with a join of its own.
func joined(child *graph, items []int, limit int, collect bool, join func(work, []pawl.Result[work]) (work, error), o ...pawl.NodeOptions) *graph {
	g := blank("joined", pawl.Options{})
	a := pawl.Each(g, "each", child, pawl.Fan[work, int, work]{
		Items: func(work) ([]int, error) { return items, nil }, Limit: limit, Collect: collect, Join: join,
	}, o...)
	g.Start(a, begin)
	g.From(a).Otherwise(g.Succeed("END"))
	return g
}

// all joins only what has come to a good end.
func all(w work, rs []pawl.Result[work]) (work, error) {
	for _, r := range rs {
		if r.Err != nil {
			return w, r.Err
		}
		w = w.line(fmt.Sprint(r.Output.N))
	}
	return w, nil
}

// children of a run by their input.
func (r *rig) children(parent string) []pawl.Run {
	r.Helper()
	rs, err := r.rs.List(r.ctx, pawl.RunFilter{Parent: parent}, "", 0)
	if err != nil {
		r.Fatal(err)
	}
	return rs
}

// TestAKeyThatLooksNumberedIsAKey: "c[0]" is no child of a family "c".
func TestAKeyThatLooksNumberedIsAKey(t *testing.T) {
	child := leaf()
	for _, keys := range [][]string{{"c[0]", "c[1]"}, {"c", "c[0]"}, {"c[0]", "c"}, {"c[0][1]", "[0]"}, {"c[x]", "c[-1]"}} {
		parent := one(func(ctx context.Context, w work) (work, error) {
			for i, k := range keys {
				if _, err := pawl.Call(ctx, k, child, i); err != nil {
					return w, err
				}
				w = w.line(k)
			}
			return w, nil
		}, pawl.Options{})
		t.Run(strings.Join(keys, " "), func(t *testing.T) {
			virtual(t, func(r *rig) {
				defer r.worker(r.engine(r.store, engine.Config{}))()
				run := r.ends(r.start("one", 1).ID, pawl.StatusSucceeded)
				if w := output(t, run); fmt.Sprint(w.Log) != fmt.Sprint(keys) || len(r.children(run.ID)) != len(keys) {
					t.Errorf("log %v, %d children", w.Log, len(r.children(run.ID)))
				}
			}, build(t, child), build(t, parent))
		})
	}
}

// TestEveryChildThatFailedIsRestartedByTheRetry also those whose failure the node itself had an answer to.
func TestEveryChildThatFailedIsRestartedByTheRetry(t *testing.T) {
	bad, worse := flaky(), flaky() // one graph: the input says how often it fails
	for name, c := range map[string]struct {
		b        int
		status   pawl.Status
		attempts int
	}{
		"the fallback gets well": {1, pawl.StatusSucceeded, 2},
		"nothing gets well":      {9, pawl.StatusFailed, 3},
	} {
		parent := one(func(ctx context.Context, w work) (work, error) {
			if out, err := pawl.Call(ctx, "a", bad, 9); err == nil {
				return out, nil
			}
			return pawl.Call(ctx, "b", worse, c.b)
		}, pawl.Options{}, pawl.NodeOptions{Retry: pawl.Retry{Max: 2, First: time.Second}})
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				defer r.worker(r.engine(r.store, engine.Config{}))()
				run := r.ends(r.start("one", 1).ID, c.status)
				cs := r.children(run.ID)
				if len(cs) != 2 || cs[0].Attempt != c.attempts || cs[1].Attempt != c.attempts {
					t.Errorf("children %+v", cs)
				}
				if c.status == pawl.StatusFailed {
					named(t, run.Err, pawl.CodeInternal, "attempt 3")
				}
			}, build(t, bad), build(t, parent))
		})
	}
}

// TestARetryOfACollectKeepsToItsLimit: all that failed are restarted, so many at a time.
func TestARetryOfACollectKeepsToItsLimit(t *testing.T) {
	for _, limit := range []int{1, 2} {
		var now, most atomic.Int32
		child := sleeper(func(ctx context.Context, w work) (work, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(10 * time.Second)
			if pawl.Info(ctx).Attempt == 1 {
				return w, errTransient()
			}
			return w, nil
		})
		g := joined(child, []int{1, 2, 3}, limit, true, all, pawl.NodeOptions{Retry: pawl.Retry{Max: 2, First: 5 * time.Second}})
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			virtual(t, func(r *rig) {
				defer r.worker(r.engine(r.store, engine.Config{}))()
				run := r.ends(r.start("joined", 1).ID, pawl.StatusSucceeded)
				if w := output(t, run); fmt.Sprint(w.Log) != "[1 2 3]" || int(most.Load()) != limit {
					t.Errorf("log %v, %d at once", w.Log, most.Load())
				}
				for _, c := range r.children(run.ID) {
					if c.Attempt != 2 || c.Status != pawl.StatusSucceeded {
						t.Errorf("child %+v", c)
					}
				}
			}, build(t, g))
		})
	}
}

// TestARefusedItemIsRefusedAgain in every try: it is a result like any other, and no crash.
func TestARefusedItemIsRefusedAgain(t *testing.T) {
	joins := 0
	g := joined(sleeper(sleeps), []int{1, 666, 2}, 0, true, func(w work, rs []pawl.Result[work]) (work, error) {
		joins++
		var re *pawl.RunError
		if rs[0].Err != nil || rs[2].Err != nil || !errors.As(rs[1].Err, &re) || !strings.Contains(re.Text, "refuses 666") {
			t.Errorf("results %+v", rs)
		}
		return w, errors.New("one is missing")
	}, pawl.NodeOptions{Retry: pawl.Retry{Max: 2, First: 5 * time.Second}})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.ends(r.start("joined", 1).ID, pawl.StatusFailed)
		named(t, run.Err, pawl.CodeInternal, "one is missing")
		if joins != 3 || len(r.children(run.ID)) != 2 {
			t.Errorf("%d joins, %d children", joins, len(r.children(run.ID)))
		}
	}, build(t, g))
}

// TestAnOperatorsRetryOfAChildDuringTheParentsRetryWait: the parent waits for it, or takes what it came to.
func TestAnOperatorsRetryOfAChildDuringTheParentsRetryWait(t *testing.T) {
	for name, c := range map[string]struct {
		takes    time.Duration // of the operator's attempt
		fails    int           // so many attempts
		attempts int
	}{
		"is done before the parent's next try": {0, 1, 2},
		"runs beyond it":                       {5 * time.Minute, 1, 2},
		"fails before it":                      {0, 2, 3},
		"fails beyond it":                      {5 * time.Minute, 2, 3},
	} {
		child := sleeper(func(ctx context.Context, w work) (work, error) {
			attempt := pawl.Info(ctx).Attempt
			if attempt == 2 {
				time.Sleep(c.takes)
			}
			if attempt <= c.fails {
				return w, errTransient()
			}
			return w.line(fmt.Sprint("attempt ", attempt)), nil
		})
		parent := one(func(ctx context.Context, w work) (work, error) {
			return pawl.Call(ctx, "c", child, 1)
		}, pawl.Options{}, pawl.NodeOptions{Retry: pawl.Retry{Max: 3, First: time.Minute}})
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				defer r.worker(r.engine(r.store, engine.Config{}))()
				run := r.start("one", 1)
				time.Sleep(10 * time.Second)
				cs := r.children(run.ID)
				if len(cs) != 1 || cs[0].Status != pawl.StatusFailed {
					t.Fatalf("children %+v", cs)
				}
				if _, err := r.rs.Retry(r.ctx, cs[0].ID); err != nil {
					t.Fatal(err)
				}
				end := r.untilEnd(run.ID, 2*time.Hour)
				if end.Status != pawl.StatusSucceeded {
					t.Fatalf("the parent is %s: %v", end.Status, end.Err)
				}
				got := r.get(cs[0].ID)
				if got.Attempt != c.attempts || output(t, end).Log[0] != fmt.Sprint("attempt ", c.attempts) {
					t.Errorf("child %+v, output %s", got, end.Output)
				}
			}, build(t, child), build(t, parent))
		})
	}
}

// TestASiblingThatFailsInTheRetryWaitBelongsToTheTryThatIsOver: it is restarted with the others.
func TestASiblingThatFailsInTheRetryWaitBelongsToTheTryThatIsOver(t *testing.T) {
	for _, first := range []time.Duration{5 * time.Second, time.Minute} {
		child := sleeper(func(ctx context.Context, w work) (work, error) {
			time.Sleep(time.Duration(w.N) * time.Second)
			if pawl.Info(ctx).Attempt == 1 {
				return w, errTransient()
			}
			return w, nil
		})
		g := joined(child, []int{1, 2, 3}, 0, false, all, pawl.NodeOptions{Retry: pawl.Retry{Max: 1, First: first}})
		t.Run(first.String(), func(t *testing.T) {
			virtual(t, func(r *rig) {
				defer r.worker(r.engine(r.store, engine.Config{}))()
				run := r.ends(r.start("joined", 1).ID, pawl.StatusSucceeded)
				for _, c := range r.children(run.ID) {
					if c.Attempt != 2 || c.Status != pawl.StatusSucceeded {
						t.Errorf("child %+v", c)
					}
				}
			}, build(t, g))
		})
	}
}

// TestALargeOutputOutlivesItsChild: it is the parent's own as soon as the parent has been told.
func TestALargeOutputOutlivesItsChild(t *testing.T) {
	text := strings.Repeat("x", 100_000)
	child := blank("brief", pawl.Options{Retain: time.Minute})
	c := child.Node("c", func(ctx context.Context, w work) (work, error) {
		if w.N == 2 {
			return w, pawl.Sleep(ctx, "s", 30*time.Minute)
		}
		w.Text = text
		return w, nil
	})
	child.Start(c, begin)
	child.From(c).Otherwise(child.Succeed("END"))
	g := joined(child, []int{1, 2}, 0, false, func(w work, rs []pawl.Result[work]) (work, error) {
		w.Text = rs[0].Output.Text
		return w, nil
	})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.start("joined", 1)
		time.Sleep(10 * time.Minute)
		if _, err := r.store.Expire(r.ctx, 100); err != nil {
			t.Fatal(err)
		}
		if cs := r.children(run.ID); len(cs) != 1 {
			t.Fatalf("the first child is still there: %+v", cs)
		}
		blobs, err := r.store.Read(r.ctx, store.Scope{All: true}, run.ID, store.Query{Stream: store.Blob})
		if err != nil || len(blobs) != 1 {
			t.Errorf("%d blobs of the parent, %v", len(blobs), err)
		}
		end := r.untilEnd(run.ID, 2*time.Hour)
		if end.Status != pawl.StatusSucceeded || output(t, end).Text != text {
			t.Errorf("the parent is %s: %v, output of %d bytes", end.Status, end.Err, len(end.Output))
		}
	}, build(t, g))
}

// TestRuntimeStandsStillWhileAChildWaitsForAPerson however deep the child is.
func TestRuntimeStandsStillWhileAChildWaitsForAPerson(t *testing.T) {
	asks := blank("asks", pawl.Options{})
	a := asks.Node("ask", func(ctx context.Context, w work) (work, error) {
		n, err := pawl.Ask[int](ctx, "q", pawl.Question{})
		w.N = n
		return w, err
	})
	asks.Start(a, begin)
	asks.From(a).Otherwise(asks.Succeed("END"))
	between := blank("between", pawl.Options{})
	b := between.Node("b", func(ctx context.Context, _ work) (work, error) { return pawl.Call(ctx, "c", asks, 1) })
	between.Start(b, begin)
	between.From(b).Otherwise(between.Succeed("END"))
	for name, child := range map[string]*graph{"child": asks, "grandchild": between} {
		parent := one(func(ctx context.Context, _ work) (work, error) {
			return pawl.Call(ctx, "c", child, 1)
		}, pawl.Options{Runtime: time.Minute})
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				defer r.worker(r.engine(r.store, engine.Config{}))()
				run := r.start("one", 1)
				time.Sleep(time.Hour)
				qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{Run: run.ID}, "", 0)
				if err != nil || len(qs) != 1 {
					t.Fatal(qs, err)
				}
				if err := r.rs.Answer(r.ctx, run.ID, qs[0].ID, []byte("7")); err != nil {
					t.Fatal(err)
				}
				if end := r.ends(run.ID, pawl.StatusSucceeded); output(t, end).N != 7 {
					t.Errorf("output %s", end.Output)
				}
			}, build(t, asks), build(t, between), build(t, parent))
		})
	}
}

// brief is a child that is forgotten a minute after its end.
func brief(run body) *graph {
	g := blank("brief", pawl.Options{Retain: time.Minute})
	c := g.Node("c", run)
	g.Start(c, begin)
	g.From(c).Otherwise(g.Succeed("END"))
	return g
}

// TestARetryOfAnExpiredChildBeginsItAnew: there is nothing left to be restarted.
func TestARetryOfAnExpiredChildBeginsItAnew(t *testing.T) {
	made := &tally{}
	child := brief(func(_ context.Context, w work) (work, error) {
		if made.add("x") == 1 {
			return w, errTransient()
		}
		return w.line("worked"), nil
	})
	parent := calls(child, 1, pawl.NodeOptions{Retry: pawl.Retry{Max: 1, First: time.Hour}})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.untilEnd(r.start("one", 1).ID, 3*time.Hour)
		if run.Status != pawl.StatusSucceeded || made.of("x") != 2 || len(output(t, run).Log) != 1 {
			t.Errorf("the parent is %s: %v; %d executions", run.Status, run.Err, made.of("x"))
		}
	}, build(t, child), build(t, parent))
}
