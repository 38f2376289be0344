package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
)

// TestCase17ResumeAfterTheGraphChanged: same version and another graph is never gone on with in silence.
func TestCase17ResumeAfterTheGraphChanged(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		base := func() (*graph, pawl.Node[work], pawl.Node[work]) {
			g := blank("asking", pawl.Options{Version: "1", Budget: pawl.Budget{"llm": 5}})
			count := g.Node("count", func(_ context.Context, w work) (work, error) { w.N += 10; return w, nil })
			g.Start(count, begin)
			ask := g.Node("ask", func(ctx context.Context, w work) (work, error) {
				n, err := pawl.Ask[int](ctx, "n", pawl.Question{Text: "How many?"})
				w.N += n
				return w, err
			})
			g.From(count).Otherwise(ask)
			return g, count, ask
		}
		each := func(g *graph, collect bool) pawl.Node[work] {
			return pawl.Each(g, "leaf", leaf(), pawl.Fan[work, int, work]{Collect: collect,
				Items: func(w work) ([]int, error) { return []int{w.N}, nil },
				Join:  func(w work, _ []pawl.Result[work]) (work, error) { return w, nil }})
		}
		finish := func(g *graph, ask, next pawl.Node[work]) *graph {
			g.From(ask).Otherwise(next)
			g.From(next).Otherwise(g.Succeed("END"))
			return g
		}
		plain := func() *graph { g, _, ask := base(); return finish(g, ask, each(g, false)) }
		for name, changed := range map[string]func() *graph{
			"renamed": func() *graph {
				g := poll("1", "renamed", 1)
				return g
			},
			"inserted": func() *graph {
				g, _, ask := base()
				mid := g.Node("inserted", func(_ context.Context, w work) (work, error) { return w, nil })
				g.From(ask).Otherwise(mid)
				last := each(g, false)
				g.From(mid).Otherwise(last)
				g.From(last).Otherwise(g.Succeed("END"))
				return g
			},
			"another kind": func() *graph {
				g, _, ask := base()
				return finish(g, ask, pawl.Sub(g, "leaf", leaf(), func(w work) (int, error) { return w.N, nil }, func(w, _ work) (work, error) { return w, nil }))
			},
		} {
			open.virtual(t, func(r *rig) {
				run, q := r.waiting()
				run = r.answered(run, q, build(t, changed()))
				r.held(run, "changed without a new version")
				if run = r.later(run); run.Status != pawl.StatusSucceeded || output(t, run).N != 14 {
					t.Errorf("%s: with its own graph: %+v", name, run)
				}
			}, build(t, plain()))
		}
	})
}

func TestCase17ResumeAfterTheStateChanged(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		open.virtual(t, func(r *rig) {
			run, q := r.waiting()
			type other struct{ N string }
			g := pawl.New[int, other, other]("asking", pawl.Options{Version: "1", Budget: pawl.Budget{"llm": 5}})
			count := g.Node("count", func(_ context.Context, s other) (other, error) { return s, nil })
			ask := g.Node("ask", func(_ context.Context, s other) (other, error) { return s, nil })
			g.Start(count, func(int) (other, error) { return other{}, nil })
			g.From(count).Otherwise(ask)
			g.From(ask).Otherwise(g.Succeed("END"))
			g.Finish(func(s other, _ pawl.Ending) (other, error) { return s, nil })
			r.held(r.answered(run, q, build(t, g)), "changed without a new version")
			if run = r.later(run); run.Status != pawl.StatusSucceeded || output(t, run).N != 14 {
				t.Errorf("with its own graph: %+v", run)
			}
		}, build(t, poll("1", "ask", 1)))
	})
}

// TestCase19NothingOutsideTheCheckpoint: counters and tries survive a crash at node 3 of 4.
func TestCase19NothingOutsideTheCheckpoint(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		fresh := open(t)
		g := blank("case19", pawl.Options{Budget: pawl.Budget{"llm": 9}})
		var nodes []pawl.Node[work]
		var tries []int
		for i := range 4 {
			nodes = append(nodes, g.Node(fmt.Sprint("n", i+1), func(ctx context.Context, w work) (work, error) {
				n, err := do(ctx, "tool", &tally{}, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}})
				if i == 2 {
					tries = append(tries, pawl.Info(ctx).Try)
					if err == nil && pawl.Info(ctx).Try < 3 {
						return w, errTransient()
					}
				}
				w.N += n
				return w.line(fmt.Sprint("n", i+1)), err
			}, pawl.NodeOptions{Retry: pawl.Retry{Max: 2, First: time.Minute}}))
		}
		g.Start(nodes[0], begin)
		for i := range 3 {
			g.From(nodes[i]).Otherwise(nodes[i+1])
		}
		g.From(nodes[3]).When("once more", func(work) bool { return true }, nodes[0]).AtMost(1).Otherwise(g.Succeed("END"))
		r := pawltest.EveryCrash(t, g, 0, pawltest.Script{Open: fresh})
		ended(t, r, pawl.StatusSucceeded, "END")
		if len(r.Output.Log) != 8 || r.Meter("llm") != 8 || fmt.Sprint(tries[:6]) != "[1 2 3 1 2 3]" {
			t.Errorf("log %v, llm %d, tries %v", r.Output.Log, r.Meter("llm"), tries[:6])
		}
	})
}

// TestCase19AFinishedRunIsNotRunAgain: to work it is no error, and its result stays.
func TestCase19AFinishedRunIsNotRunAgain(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		n := &tally{}
		g := one(func(_ context.Context, w work) (work, error) { n.add("x"); return w, nil }, pawl.Options{})
		open.virtual(t, func(r *rig) {
			run := r.start("one", 5)
			for range 3 {
				if err := r.engine(r.store, engine.Config{}).WorkRun(r.ctx, run.ID); err != nil {
					t.Fatal(err)
				}
				if end := r.get(run.ID); end.Status != pawl.StatusSucceeded || output(t, end).N != 5 || n.of("x") != 1 {
					t.Errorf("run %+v, %d executions", end, n.of("x"))
				}
			}
		}, build(t, g))
	})
}
