package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
)

// TestAClaimFoldsTheErrorIntoTheStateBeforeTheNode: whatever the node did to what it was given.
func TestAClaimFoldsTheErrorIntoTheStateBeforeTheNode(t *testing.T) {
	type bag struct{ Set map[string]string }
	g := pawl.New[int, bag, bag]("fold", pawl.Options{Version: "1"})
	a := g.Node("node", func(_ context.Context, b bag) (bag, error) {
		b.Set["node"] = "touched what is read-only"
		return b, &pawl.Error{Code: "broken", Text: "it broke"}
	}, pawl.NodeOptions{Retry: pawl.Retry{Max: 1}})
	g.Start(a, func(int) (bag, error) { return bag{Set: map[string]string{"start": "x"}}, nil })
	var asked []string
	claim := func(name string, ok bool) func(bag, error) (bag, bool) {
		return func(b bag, err error) (bag, bool) {
			asked = append(asked, name)
			if len(b.Set) != 1 {
				t.Errorf("%s got %v", name, b.Set)
			}
			b.Set[name] = pawl.Coded(err).Code
			return b, ok
		}
	}
	end := g.Succeed("END")
	g.From(a).OnError("refuses", claim("refuses", false), end).OnError("claims", claim("claims", true), end).
		OnError("late", claim("late", true), end).Otherwise(end)
	g.Finish(func(b bag, _ pawl.Ending) (bag, error) { return b, nil })
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	if fmt.Sprint(r.Output.Set) != "map[claims:broken start:x]" || fmt.Sprint(asked) != "[refuses claims]" || len(rows(r, "retry")) != 1 {
		t.Errorf("state %v, asked %v, %d retries", r.Output.Set, asked, len(rows(r, "retry")))
	}
}

// ending is a graph that comes to the end that its input names.
func ending(name string) *graph {
	g := blank("ending", pawl.Options{Budget: pawl.Budget{"llm": 1}})
	a := g.Node("node", func(ctx context.Context, w work) (work, error) {
		if _, err := do(ctx, "call", &tally{}); err != nil {
			return w, err
		}
		switch name {
		case "failed":
			return w, errTransient()
		case "panic":
			panic("boom")
		case "budget":
			_, err := do(ctx, "dear", &tally{}, pawl.CallOptions{Charge: pawl.Budget{"llm": 2}})
			return w, err
		}
		return w, nil
	})
	g.Start(a, begin)
	g.From(a).When("drop", func(work) bool { return name == "terminal" }, g.Fail("DROPPED")).Otherwise(g.Succeed("END"))
	g.Closing(func(w work, e pawl.Ending) []pawl.Event {
		return []pawl.Event{{Type: "closed", Data: []any{e.Terminal, w.N, e.Err != nil, e.Attempt}}}
	})
	return g
}

// TestExactlyOneClosingEventAtEveryEnd also when the worker crashes behind any write.
func TestExactlyOneClosingEventAtEveryEnd(t *testing.T) {
	for name, terminal := range map[string]string{
		"good": "END", "terminal": "DROPPED", "failed": pawl.TerminalFailed, "panic": pawl.TerminalFailed, "budget": pawl.TerminalFailed,
	} {
		g := ending(name)
		r := pawltest.EveryCrash(t, g, 7, pawltest.Script{})
		want := fmt.Sprintf(`["%s",7,%v,1]`, terminal, terminal != "END")
		if got := r.Emitted("closed"); len(got) != 1 || got[0] != want {
			t.Errorf("%s: closed %v, want %s", name, got, want)
		}
		last := r.Events[len(r.Events)-2:]
		if last[0].Type != "closed" || last[1].Type != "pawl.ended" || r.Run.Terminal != terminal {
			t.Errorf("%s: terminal %s, last events %+v", name, r.Run.Terminal, last)
		}
	}
}

func TestExactlyOneClosingEventOfACancelledRun(t *testing.T) {
	for name, run := range map[string]body{
		"running": func(ctx context.Context, w work) (work, error) {
			_, err := pawl.Do(ctx, "k", func(ctx context.Context) (int, error) {
				select {
				case <-time.After(10 * time.Minute):
					return 1, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			return w, err
		},
		"waiting": func(ctx context.Context, w work) (work, error) {
			return w, second(pawl.Ask[int](ctx, "q", pawl.Question{}))
		},
		"asleep":  func(ctx context.Context, w work) (work, error) { return w, pawl.Sleep(ctx, "s", time.Hour) },
		"retried": func(_ context.Context, w work) (work, error) { return w, pawl.RetryAfter(errTransient(), time.Hour) },
	} {
		g := one(run, pawl.Options{Retry: pawl.Retry{Max: 3}})
		g.Closing(func(w work, e pawl.Ending) []pawl.Event {
			return []pawl.Event{{Type: "closed", Data: []any{e.Terminal, w.N, e.Err.Code}}}
		})
		r := pawltest.EveryCrash(t, g, 7, pawltest.Script{Cancel: time.Minute})
		ended(t, r, pawl.StatusCancelled, pawl.TerminalCancelled)
		if got := r.Emitted("closed"); len(got) != 1 || got[0] != `["CANCELLED",7,"cancelled"]` || r.Took > time.Minute+time.Second {
			t.Errorf("%s: closed %v, took %s", name, got, r.Took)
		}
	}
}

func TestExactlyOneClosingEventOfACrashLoop(t *testing.T) {
	executions := 0
	g := one(func(ctx context.Context, w work) (work, error) {
		executions++
		_, err := do(ctx, "kills", &tally{})
		return w, err
	}, pawl.Options{})
	g.Closing(func(_ work, e pawl.Ending) []pawl.Event { return []pawl.Event{{Type: "closed", Data: e.Terminal}} })
	c := pawltest.ErrCrash
	r := pawltest.Run(t, g, 1, pawltest.Script{Fail: map[string][]error{"kills": {c, c, c, c, c, c, c, c, c}}})
	failed(t, r, pawl.CodeCrashLoop, "node")
	if executions != pawl.MaxClaims || len(r.Emitted("closed")) != 1 || len(r.Writes) != pawl.MaxClaims+1 {
		t.Errorf("%d executions, closed %v, workers %v", executions, r.Emitted("closed"), r.Writes)
	}
	// One crash less is none.
	r = pawltest.Run(t, g, 1, pawltest.Script{Fail: map[string][]error{"kills": {c, c, c, c}}})
	ended(t, r, pawl.StatusSucceeded, "END")
}

func TestPanicsAreInternalAndNotRetried(t *testing.T) {
	boom := func() { panic("boom") }
	for name, change := range map[string]func(*graph, pawl.Node[work]){
		"condition": func(g *graph, n pawl.Node[work]) {
			g.From(n).When("w", func(work) bool { boom(); return true }, g.Succeed("W"))
		},
		"claim": func(g *graph, n pawl.Node[work]) {
			g.From(n).OnError("c", func(w work, _ error) (work, bool) { boom(); return w, true }, g.Succeed("C"))
		},
		"Key": func(g *graph, n pawl.Node[work]) { g.Key(n, func(work) string { boom(); return "" }) },
		"Closing": func(g *graph, _ pawl.Node[work]) {
			g.Closing(func(work, pawl.Ending) []pawl.Event { boom(); return nil })
		},
		"node":   func(*graph, pawl.Node[work]) {},
		"call":   func(*graph, pawl.Node[work]) {},
		"Map":    func(*graph, pawl.Node[work]) {},
		"Finish": func(*graph, pawl.Node[work]) {},
	} {
		executions := 0
		g := pawl.New[int, work, work]("panics", pawl.Options{Version: "1", Retry: pawl.Retry{Max: 3}})
		a := g.Node("node", func(ctx context.Context, w work) (work, error) {
			executions++
			switch name {
			case "node":
				boom()
			case "claim":
				return w, pawl.Permanent(errors.New("to be claimed"))
			case "call":
				return w, errors.Join(second(pawl.Do(ctx, "k", func(context.Context) (int, error) { boom(); return 1, nil })))
			case "Map":
				return w, second(pawl.Map(ctx, "k", []int{1, 2}, 2, func(context.Context, int) (int, error) { boom(); return 1, nil }))
			}
			return w, nil
		})
		g.Start(a, begin)
		change(g, a)
		g.From(a).Otherwise(g.Succeed("END"))
		g.Finish(func(w work, _ pawl.Ending) (work, error) {
			if name == "Finish" {
				boom()
			}
			return w, nil
		})
		r := pawltest.Run(t, g, 1, pawltest.Script{})
		failed(t, r, pawl.CodeInternal, "panic in", "boom", "end_test.go")
		if executions != 1 {
			t.Errorf("%s: %d executions", name, executions)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestClosingThatFailsDoesNotKeepARunFromItsEnd: at FAILED there is nothing left to fail to.
func TestClosingThatFailsDoesNotKeepARunFromItsEnd(t *testing.T) {
	for name, data := range map[string]any{"too large": strings.Repeat("x", engine.MaxEvent+1), "NaN": math.NaN()} {
		g := one(func(_ context.Context, w work) (work, error) { return w, errTransient() }, pawl.Options{})
		g.Closing(func(work, pawl.Ending) []pawl.Event { return []pawl.Event{{Type: "closed", Data: data}} })
		r := pawltest.Run(t, g, 1, pawltest.Script{Within: 10 * time.Minute})
		ended(t, r, pawl.StatusFailed, pawl.TerminalFailed)
		if len(r.Writes) != 1 {
			t.Errorf("%s: workers %v", name, r.Writes)
		}
	}
}

func TestAFinishThatFailsFailsTheRun(t *testing.T) {
	g := pawl.New[int, work, work]("finish", pawl.Options{Version: "1"})
	a := g.Node("node", func(_ context.Context, w work) (work, error) { w.N++; return w, nil })
	g.Start(a, begin)
	g.From(a).Otherwise(g.Succeed("END"))
	g.Finish(func(w work, _ pawl.Ending) (work, error) { return w, &pawl.Error{Code: "no_output", Text: "no output"} })
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	failed(t, r, "no_output", "no output")
	if r.Run.Output != nil || stateOf(t, r.State).N != 1 {
		t.Errorf("output %s, state %s", r.Run.Output, r.State)
	}
}

func TestWhatEndingKnows(t *testing.T) {
	g := two(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "pay", func(ctx context.Context) (int, error) { _, err := pawl.Hold(ctx, pawl.Dollars(0.25)); return 1, err })
		return w, err
	}, func(ctx context.Context, w work) (work, error) { return w, pawl.Sleep(ctx, "s", time.Hour) }, pawl.Options{Cost: pawl.Dollars(1)})
	var got pawl.Ending
	var path []string
	g.Closing(func(_ work, e pawl.Ending) []pawl.Event { got, path = e, e.Path(); return nil })
	r := pawltest.Run(t, g, 1, pawltest.Script{Crash: []int{3}})
	if got.Run != r.Run.ID || got.Terminal != "END" || got.Outcome != "END" || got.Attempt != 1 || got.Cost != pawl.Dollars(0.25) || got.Err != nil ||
		got.Duration < time.Hour || fmt.Sprint(path) != "[first second]" {
		t.Errorf("ending %+v, path %v", got, path)
	}
}

func TestAnEdgeThatIsSpentIsSkippedAndNoted(t *testing.T) {
	g := blank("bounds", pawl.Options{})
	var left []int
	a := g.Node("node", func(ctx context.Context, w work) (work, error) {
		w.N++
		left = append(left, pawl.Info(ctx).Left("again"))
		return w, nil
	})
	g.Start(a, begin)
	g.From(a).When("again", func(work) bool { return true }, a).AtMost(2).Otherwise(g.Succeed("END"))
	r := pawltest.EveryCrash(t, g, 0, pawltest.Script{})
	if r.Output.N != 3 || fmt.Sprint(left[:3]) != "[2 1 0]" {
		t.Errorf("N %d, left %v", r.Output.N, left)
	}
	s := rows(r, "edge_spent")
	if len(s) != 1 || s[0].Edge != "again" || string(s[0].Payload) != `{"bound":2}` {
		t.Errorf("noted %+v", s)
	}
}

func TestABoundPerTurnBeginsAnewWithAnAnswer(t *testing.T) {
	g := blank("turns", pawl.Options{})
	a := g.Node("try", func(_ context.Context, w work) (work, error) { w.N++; return w, nil })
	p := g.Node("person", func(ctx context.Context, w work) (work, error) {
		s, err := pawl.Ask[string](ctx, "q", pawl.Question{})
		w.Text = s
		return w, err
	})
	g.Start(a, begin)
	g.From(a).When("again", func(work) bool { return true }, a).AtMostPerTurn(2).Otherwise(p)
	g.From(p).When("enough", func(w work) bool { return w.Text == "enough" }, g.Succeed("END")).OnAnswer("more", a).Otherwise(g.Fail("LOST"))
	r := pawltest.EveryCrash(t, g, 0, pawltest.Script{Answers: map[string][]any{"q": {"more", "more", "enough"}}})
	ended(t, r, pawl.StatusSucceeded, "END")
	if r.Output.N != 9 {
		t.Errorf("%d tries in three turns", r.Output.N)
	}
}

// TestStepCap: the commit that would be one too many leaves nothing but the failure.
func TestStepCap(t *testing.T) {
	bg := leaf()
	g := blank("endless", pawl.Options{})
	a := g.Node("node", func(ctx context.Context, w work) (work, error) {
		if w.N++; w.N == pawl.MaxSteps {
			if _, err := pawl.Enqueue(ctx, "bg", bg, 1); err != nil {
				return w, err
			}
		}
		return w, nil
	})
	g.Start(a, begin)
	g.From(a).When("again", func(work) bool { return true }, a).AtMost(20_000).Otherwise(g.Succeed("END"))
	closed := 0
	g.Closing(func(w work, _ pawl.Ending) []pawl.Event { closed = w.N; return nil })
	virtual(t, func(r *rig) {
		run := r.start("endless", 0)
		if err := r.engine(r.store, engine.Config{}).WorkRun(r.ctx, run.ID); err != nil {
			t.Fatal(err)
		}
		end := r.ends(run.ID, pawl.StatusFailed)
		named(t, end.Err, pawl.CodeStepCap, "10000")
		if end.Output != nil {
			t.Errorf("output %s", end.Output)
		}
		if rs, err := r.rs.List(r.ctx, pawl.RunFilter{Workflow: "leaf"}, "", 0); err != nil || len(rs) != 0 {
			t.Errorf("the background run of a commit that was none: %+v, %v", rs, err)
		}
		if s, err := r.rs.State(r.ctx, run.ID, 0); err != nil || stateOf(t, s).N != closed {
			t.Errorf("the closing saw N=%d, the state is %s, %v", closed, s, err)
		}
	}, build(t, g), build(t, bg))
}

// TestTheLastStepTellsWhatItCost wherever the run fails: time, money and notes are of the visit that led there.
func TestTheLastStepTellsWhatItCost(t *testing.T) {
	for _, what := range []string{"node", "Finish", "condition", "cancel"} {
		g := pawl.New[int, work, work]("costs", pawl.Options{Version: "1", Cost: pawl.Dollars(1)})
		a := g.Node("node", func(ctx context.Context, w work) (work, error) {
			if err := pawl.Note(ctx, "mine", 1); err != nil {
				return w, err
			}
			_, err := pawl.Do(ctx, "pay", func(ctx context.Context) (int, error) {
				_, err := pawl.Hold(ctx, pawl.Dollars(0.25))
				time.Sleep(5 * time.Second)
				return 1, err
			})
			if what == "node" {
				err = errTransient()
			}
			if what == "cancel" {
				<-ctx.Done()
			}
			return w, err
		})
		g.Start(a, begin)
		g.From(a).When("w", func(work) bool {
			if what == "condition" {
				panic("boom")
			}
			return false
		}, g.Succeed("W")).Otherwise(g.Succeed("END"))
		g.Finish(func(w work, _ pawl.Ending) (work, error) { return w, errTransient() })
		virtual(t, func(r *rig) {
			defer r.worker(r.engine(r.store, engine.Config{}))()
			run := r.start("costs", 1)
			time.Sleep(10 * time.Second)
			want := pawl.StatusFailed
			if what == "cancel" {
				want = pawl.StatusCancelled
				if err := r.rs.Cancel(r.ctx, run.ID, ""); err != nil {
					t.Fatal(err)
				}
			}
			r.ends(run.ID, want)
			ss, err := r.rs.Steps(r.ctx, run.ID, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range ss {
				if s.Name == "node" && (s.CostUSD != "0.25" || s.DurationMS < 5000) {
					t.Errorf("%s: the step of 5 s and 0.25 dollars says %q, %d ms", what, s.CostUSD, s.DurationMS)
				}
			}
			if n := r.steps(run.ID, "mine"); n != 1 {
				t.Errorf("%s: %d notes", what, n)
			}
		}, build(t, g))
	}
}

// TestGoexitOfTheGraphsOwnCodeEndsTheRun: the goroutine that drove the run is lost, and the run must not stay held for ever.
func TestGoexitOfTheGraphsOwnCodeEndsTheRun(t *testing.T) {
	exit := runtime.Goexit
	for name, change := range map[string]func(*graph, pawl.Node[work]){
		"condition": func(g *graph, n pawl.Node[work]) {
			g.From(n).When("w", func(work) bool { exit(); return true }, g.Succeed("W"))
		},
		"Key": func(g *graph, n pawl.Node[work]) { g.Key(n, func(work) string { exit(); return "" }) },
		"Finish": func(g *graph, _ pawl.Node[work]) {
			g.Finish(func(w work, _ pawl.Ending) (work, error) { exit(); return w, nil })
		},
		"Closing": func(g *graph, _ pawl.Node[work]) {
			g.Closing(func(work, pawl.Ending) []pawl.Event { exit(); return nil })
		},
		"claim": func(g *graph, n pawl.Node[work]) {
			g.From(n).OnError("c", func(w work, _ error) (work, bool) { exit(); return w, true }, g.Succeed("C"))
		},
		"node": func(*graph, pawl.Node[work]) {},
	} {
		executions := &tally{}
		g := pawl.New[int, work, work]("exits", pawl.Options{Version: "1"})
		a := g.Node("node", func(ctx context.Context, w work) (work, error) {
			executions.add("node")
			switch name {
			case "claim":
				return w, errTransient()
			case "node":
				exit()
			}
			return w, nil
		})
		g.Start(a, begin)
		change(g, a)
		g.From(a).Otherwise(g.Succeed("END"))
		if name != "Finish" {
			g.Finish(func(w work, _ pawl.Ending) (work, error) { return w, nil })
		}
		virtual(t, func(r *rig) {
			defer r.worker(r.engine(r.store, engine.Config{}))()
			run := r.ends(r.start("exits", 1).ID, pawl.StatusFailed)
			named(t, run.Err, pawl.CodeInternal, "goroutine")
			if executions.of("node") != 1 {
				t.Errorf("%s: %d executions", name, executions.of("node"))
			}
		}, build(t, g))
	}
}

// TestGoexitOfAMigrationHoldsTheRun as its failure does.
func TestGoexitOfAMigrationHoldsTheRun(t *testing.T) {
	virtual(t, func(r *rig) {
		run, q := r.waiting()
		run = r.answered(run, q, build(t, migrating(func(m pawl.Migration) (pawl.Migration, error) { runtime.Goexit(); return m, nil })))
		r.held(run, "goroutine")
	}, build(t, poll("1", "ask", 1)))
}
