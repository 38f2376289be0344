package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pawl"
)

// under is a graph whose only node runs a child with the number of its state.
func under(name string, o pawl.Options, child *graph, n ...pawl.NodeOptions) *graph {
	g := blank(name, o)
	sub := pawl.Sub(g, "sub", child, func(s box) (int, error) { return s.N, nil }, func(s, out box) (box, error) {
		s.N, s.Text = out.N, out.Text
		return s, nil
	}, n...)
	g.Start(sub, start)
	g.From(sub).Otherwise(g.Succeed("DONE"))
	return g
}

// TestAChildsChargeCountsInEveryAncestor: the tightest cap above holds, and the one that is spent is told.
func TestAChildsChargeCountsInEveryAncestor(t *testing.T) {
	var left []int64
	child := one(capped("llm", 100), func(ctx context.Context, s box) (box, error) {
		left = append(left, remaining(t, ctx, "llm"))
		err := charged(ctx, "a", "llm", 4)
		left = append(left, remaining(t, ctx, "llm"))
		return s, err
	})
	middle := under("middle", capped("llm", 7), child)
	top := blank("top", capped("llm", 9))
	var after []int64
	look := top.Node("look", func(ctx context.Context, s box) (box, error) {
		after = append(after, remaining(t, ctx, "llm"))
		return s, nil
	})
	sub := pawl.Sub(top, "sub", middle, func(s box) (int, error) { return 0, nil }, func(s, _ box) (box, error) { return s, nil })
	top.Start(sub, start)
	top.From(sub).Otherwise(look)
	top.From(look).When("again", yes, sub).AtMost(5).Otherwise(top.Succeed("DONE"))
	_, err := pawl.Execute(t.Context(), top, 0)
	var b *pawl.BudgetError
	if !errors.As(err, &b) || *b != (pawl.BudgetError{Meter: "llm", Used: 8, Cap: 9}) {
		t.Errorf("%v", err)
	}
	if s := fmt.Sprint(left, after); s != "[7 3 5 1 1 1] [5 1]" {
		t.Error(s)
	}
}

func TestAChildsFailureIsARunError(t *testing.T) {
	dropped := blank("child", pawl.Options{})
	work := dropped.Node("work", keep)
	dropped.Start(work, start)
	dropped.From(work).Otherwise(dropped.Fail("DROPPED", pawl.End[box]{Error: func(box) error { return &pawl.Error{Code: "too_dull", Text: "dull"} }}))
	refusing := blank("child", pawl.Options{})
	n := refusing.Node("work", keep)
	refusing.Start(n, func(int) (box, error) { return box{}, errors.New("no") })
	refusing.From(n).Otherwise(refusing.Succeed("DONE"))
	for name, c := range map[string]struct {
		child *graph
		want  pawl.RunError
	}{
		"a Fail terminal": {dropped, pawl.RunError{Terminal: "DROPPED", Code: "too_dull", Text: "child: dull"}},
		"an error":        {one(pawl.Options{}, failing(errOut)), pawl.RunError{Terminal: "FAILED", Code: "internal", Text: "one: out of paper"}},
		"a spent budget": {one(capped("llm", 0), keep, pawl.NodeOptions{Costs: pawl.Budget{"llm": 1}}),
			pawl.RunError{Terminal: "FAILED", Code: "exhausted", Text: "one: budget llm is spent: 0 of 0", Budget: &pawl.BudgetError{Meter: "llm"}}},
		"a start that refuses": {refusing, pawl.RunError{Terminal: "FAILED", Code: "invalid", Text: "child: no"}},
	} {
		var got *pawl.RunError
		var money bool
		g := blank("parent", pawl.Options{})
		sub := pawl.Sub(g, "sub", c.child, func(s box) (int, error) { return s.N, nil }, func(s, _ box) (box, error) { return s, nil })
		end := g.Succeed("END")
		g.Start(sub, start)
		g.From(sub).OnError("any", func(s box, err error) (box, bool) {
			_, money = pawl.IsBudget(s, err)
			return s, errors.As(err, &got)
		}, end).Otherwise(end)
		if _, err := pawl.Execute(t.Context(), g, 0); err != nil || got == nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if money != (c.want.Budget != nil) || money && *got.Budget != *c.want.Budget {
			t.Errorf("%s: budget %v, IsBudget %v", name, got.Budget, money)
		}
		got.Budget, c.want.Budget, c.want.Status = nil, nil, pawl.StatusFailed
		if *got != c.want {
			t.Errorf("%s: %+v\nwant %+v", name, *got, c.want)
		}
	}
}

func TestTheNodesRetryIsTheChildsNextAttempt(t *testing.T) {
	tries := 0
	child := one(pawl.Options{}, func(_ context.Context, s box) (box, error) {
		if tries++; tries < 3 {
			return s, errOut
		}
		s.Text = "there"
		return s, nil
	})
	out, err := pawl.Execute(t.Context(), under("parent", pawl.Options{}, child, pawl.NodeOptions{Retry: pawl.Retry{Max: 5}}), 0)
	if err != nil || out.Text != "there" || tries != 3 {
		t.Error(out, err, tries)
	}
}

func TestEach(t *testing.T) {
	var ran []int
	child := one(pawl.Options{}, func(_ context.Context, s box) (box, error) {
		ran = append(ran, s.N)
		if s.N%3 == 2 {
			return s, errOut
		}
		s.N *= 10
		return s, nil
	})
	var got []pawl.Result[box]
	build := func(items int, collect bool) *graph {
		g := blank("g", pawl.Options{})
		each := pawl.Each(g, "each", child, pawl.Fan[box, int, box]{
			Items: func(box) ([]int, error) {
				all := make([]int, items)
				for i := range all {
					all[i] = i
				}
				return all, nil
			},
			Collect: collect, Limit: 2,
			Join: func(s box, rs []pawl.Result[box]) (box, error) { got = rs; return s, nil },
		})
		g.Start(each, start)
		g.From(each).Otherwise(g.Succeed("DONE"))
		return g
	}
	if _, err := pawl.Execute(t.Context(), build(6, true), 0); err != nil || len(got) != 6 {
		t.Fatal(got, err)
	}
	for i, r := range got {
		var e *pawl.RunError
		if bad := i%3 == 2; bad != errors.As(r.Err, &e) || !bad && r.Output.N != 10*i {
			t.Errorf("%d: %+v", i, r)
		}
	}
	ran, got = nil, nil
	var e *pawl.RunError
	if _, err := pawl.Execute(t.Context(), build(6, false), 0); !errors.As(err, &e) || got != nil || len(ran) != 3 {
		t.Errorf("after the first failure: %v ran, joined %v, %v", ran, got, err)
	}
	if _, err := pawl.Execute(t.Context(), build(0, false), 0); err != nil || got == nil || len(got) != 0 {
		t.Errorf("no items: %v, %v", got, err)
	}
	ran = nil
	if _, err := pawl.Execute(t.Context(), build(pawl.MaxItems+1, true), 0); codeOf(err) != pawl.CodeExhausted || ran != nil {
		t.Errorf("too many items: %d ran, %v", len(ran), err)
	}
}

// nest is a graph that calls itself as a child, down to depth 0.
func nest(deepest *int) *graph {
	g := blank("nest", pawl.Options{})
	depth := 0
	n := g.Node("down", func(ctx context.Context, s box) (box, error) {
		depth++
		defer func() { depth-- }()
		*deepest = max(*deepest, depth)
		if s.N == 0 {
			return s, nil
		}
		_, err := pawl.Call(ctx, "child", g, s.N-1)
		return s, err
	})
	g.Start(n, start)
	g.From(n).Otherwise(g.Succeed("DONE"))
	return g
}

func TestDepthCap(t *testing.T) {
	deepest := 0
	if _, err := pawl.Execute(t.Context(), nest(&deepest), pawl.MaxDepth); err != nil || deepest != 1+pawl.MaxDepth {
		t.Error(deepest, err)
	}
	deepest = 0
	_, err := pawl.Execute(t.Context(), nest(&deepest), 1000)
	if codeOf(err) != pawl.CodeExhausted || deepest != 1+pawl.MaxDepth || !strings.Contains(err.Error(), "16 deep") {
		t.Error(deepest, err)
	}
}

func TestBackgroundRuns(t *testing.T) {
	var log []string
	deep, generations := 0, 0
	work := one(capped("llm", 5), func(ctx context.Context, s box) (box, error) {
		i := pawl.Info(ctx)
		log = append(log, fmt.Sprintf("background %d: %d left, label %s", s.N, remaining(t, ctx, "llm"), i.Labels["k"]))
		return s, charged(ctx, "a", "llm", 1)
	})
	g := blank("g", capped("llm", 1))
	tries := 0
	n := g.Node("a", func(ctx context.Context, s box) (box, error) {
		tries++
		id, err := pawl.Enqueue(ctx, "later", work, tries, pawl.StartOptions{Budget: pawl.Budget{"llm": 3, "new": 1}, Labels: map[string]string{"k": "v"}})
		log = append(log, id)
		if err == nil && tries == 1 {
			err = errOut // what this try enqueued never starts
		}
		return s, err
	}, pawl.NodeOptions{Retry: pawl.Retry{Max: 1}})
	last := g.Node("b", func(ctx context.Context, s box) (box, error) {
		log = append(log, fmt.Sprintf("then %d left", remaining(t, ctx, "llm")))
		return s, nil
	})
	g.Start(n, start)
	g.From(n).Otherwise(last)
	g.From(last).Otherwise(g.Succeed("DONE"))
	if _, err := pawl.Execute(t.Context(), g, 0); err != nil {
		t.Fatal(err)
	}
	want := "background-1-later|background-1-later|background 2: 3 left, label v|then 1 left"
	if got := strings.Join(log, "|"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}

	var endless *graph
	endless = one(pawl.Options{}, func(ctx context.Context, s box) (box, error) {
		generations++
		if s.N = 0; generations == 1 { // depth of children does not count generations
			_, err := pawl.Call(ctx, "child", nest(&deep), pawl.MaxDepth-1)
			if err != nil {
				t.Error(err)
			}
		}
		_, err := pawl.Enqueue(ctx, "next", endless, 1)
		return s, err
	})
	if _, err := pawl.Execute(t.Context(), endless, 0); err != nil || generations != 1+pawl.MaxGenerations {
		t.Errorf("%d generations, %v", generations, err)
	}
}

// TestOneGraphManyExecutions: nothing of a run stays in its graph (with the race detector).
func TestOneGraphManyExecutions(t *testing.T) {
	g := under("parent", capped("llm", 50), one(pawl.Options{}, func(ctx context.Context, s box) (box, error) { return s, charged(ctx, "a", "llm", 50) }))
	t.Run("all", func(t *testing.T) {
		for range 8 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for i := range 20 {
					if out, err := pawl.Execute(t.Context(), g, i, pawl.Strict); err != nil || out.N != i {
						t.Error(out, err)
					}
				}
			})
		}
	})
}
