package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pawl"
)

// ran is the trail of nodes that a state has seen.
func visit(name string) func(context.Context, box) (box, error) {
	return func(_ context.Context, s box) (box, error) {
		s.N++
		s.Trail = append(s.Trail[:len(s.Trail):len(s.Trail)], name)
		return s, nil
	}
}

// one is a graph of a single node with a budget.
func one(o pawl.Options, run func(context.Context, box) (box, error), n ...pawl.NodeOptions) *graph {
	g := blank("one", o)
	work := g.Node("work", run, n...)
	g.Start(work, start)
	g.From(work).Otherwise(g.Succeed("DONE"))
	return g
}

// inside runs a function as the only node of a graph.
func inside(t *testing.T, o pawl.Options, f func(ctx context.Context)) {
	t.Helper()
	if _, err := pawl.Execute(t.Context(), one(o, func(ctx context.Context, s box) (box, error) { f(ctx); return s, nil }), 0); err != nil {
		t.Fatal(err)
	}
}

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return pawl.Coded(err).Code
}

func TestEdgesAreTriedInOrderAndLazily(t *testing.T) {
	var asked []string
	ask := func(name string, is bool) func(box) bool {
		return func(box) bool { asked = append(asked, name); return is }
	}
	g := blank("g", pawl.Options{})
	work := g.Node("work", keep)
	a, b, c := g.Succeed("A"), g.Succeed("B"), g.Succeed("C")
	g.Start(work, start)
	g.From(work).When("a", ask("a", false), a).OnAnswer("person", a).When("b", ask("b", true), b).When("c", ask("c", true), c).Otherwise(c)
	if _, err := pawl.Execute(t.Context(), g, 0); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(asked, " "); got != "a b" {
		t.Errorf("conditions evaluated: %s; b held, so c is not asked", got)
	}
}

func TestEnding(t *testing.T) {
	var end pawl.Ending
	g := pawl.New[int, box, string]("g", pawl.Options{Version: "1"})
	first, work := g.Node("first", keep), g.Node("work", keep)
	is := func(n int) func(box) bool { return func(s box) bool { return s.N == n } }
	g.Start(first, start)
	g.From(first).Otherwise(work)
	g.From(work).
		When("0", is(0), g.Succeed("SUCCEEDED", pawl.End[box]{Outcome: "hit"})).
		When("1", is(1), g.Succeed("SUCCEEDED", pawl.End[box]{Outcome: "new"})).
		When("2", is(2), g.Succeed("DONE")).
		When("3", is(3), g.Fail("DROPPED", pawl.End[box]{Error: func(box) error { return &pawl.Error{Code: "why"} }})).
		When("4", is(4), g.Fail("BROKEN", pawl.End[box]{Error: func(box) error { return &pawl.Error{Text: "no code"} }})).
		Otherwise(g.Fail("LOST"))
	g.Finish(func(_ box, e pawl.Ending) (string, error) { end = e; return "out of " + e.Terminal, nil })
	for n, want := range []struct{ terminal, outcome, code string }{
		{"SUCCEEDED", "hit", ""}, {"SUCCEEDED", "new", ""}, {"DONE", "DONE", ""}, {"DROPPED", "DROPPED", "why"}, {"BROKEN", "BROKEN", "BROKEN"}, {"LOST", "LOST", "LOST"},
	} {
		out, err := pawl.Execute(t.Context(), g, n)
		if out != "out of "+want.terminal || end.Terminal != want.terminal || end.Outcome != want.outcome || end.Attempt != 1 {
			t.Errorf("%d: %s, %+v", n, out, end)
		}
		if codeOf(err) != want.code || err != nil && (end.Err == nil || pawl.Coded(err).Node != want.terminal) {
			t.Errorf("%d: %v", n, err)
		}
		if path := end.Path(); len(path) != 2 || path[0] != "first" || path[1] != "work" {
			t.Errorf("%d: path %v", n, path)
		}
	}
}

func TestSpentEdgesAreSkipped(t *testing.T) {
	for name, bound := range map[string]func(*pawl.Edges[box], int) *pawl.Edges[box]{
		"AtMost": (*pawl.Edges[box]).AtMost, "AtMostPerTurn": (*pawl.Edges[box]).AtMostPerTurn, // one turn: nobody answers here
	} {
		t.Run(name, func(t *testing.T) {
			g := blank("g", pawl.Options{})
			a, b := g.Node("a", visit("a")), g.Node("b", visit("b"))
			g.Start(a, start)
			g.From(a).Otherwise(b)
			e := g.From(b)
			bound(e.When("first", yes, a), 2)
			bound(e.When("second", yes, b), 1)
			e.Otherwise(g.Succeed("DONE"))
			out, err := pawl.Execute(t.Context(), g, 0, pawl.Strict)
			if got := strings.Join(out.Trail, ""); err != nil || got != "abababb" {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

// TestSharedEdgesCountApart: nodes that share the writing of an edge do not share its bound.
func TestSharedEdgesCountApart(t *testing.T) {
	g := blank("g", pawl.Options{})
	a, b := g.Node("a", visit("a")), g.Node("b", visit("b"))
	g.Start(a, start)
	g.From(a, b).When("again", yes, a).AtMost(1)
	g.From(a).Otherwise(b)
	g.From(b).Otherwise(g.Succeed("DONE"))
	out, err := pawl.Execute(t.Context(), g, 0)
	if got := strings.Join(out.Trail, ""); err != nil || got != "aabab" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestOnAnswerIsNeverTakenWithoutAnAnswer(t *testing.T) {
	g := blank("g", pawl.Options{})
	a := g.Node("a", visit("a"))
	g.Start(a, start)
	g.From(a).OnAnswer("again", a).Otherwise(g.Succeed("DONE"))
	if out, err := pawl.Execute(t.Context(), g, 0); err != nil || out.N != 1 {
		t.Error(out, err)
	}
}

func TestLeft(t *testing.T) {
	var left []int
	g := blank("g", pawl.Options{})
	a := g.Node("a", func(ctx context.Context, s box) (box, error) {
		i := pawl.Info(ctx)
		left = append(left, i.Left("again"), i.Left("mend"), i.Left("otherwise"), i.Left("nowhere"))
		return s, nil
	})
	done := g.Succeed("DONE")
	g.Start(a, start)
	g.From(a).When("again", yes, a).AtMost(2).OnError("mend", pawl.IsAny, done).Otherwise(done)
	if _, err := pawl.Execute(t.Context(), g, 0); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(left); got != "[2 -1 -1 0 1 -1 -1 0 0 -1 -1 0]" {
		t.Error(got)
	}
}

func TestInfo(t *testing.T) {
	fails := 1
	var got []string
	g := blank("g", pawl.Options{Retry: pawl.Retry{Max: 1}})
	look := func(ctx context.Context, s box) (box, error) {
		i := pawl.Info(ctx)
		got = append(got, fmt.Sprintf("%s %d/%d/%d", i.Node, i.Attempt, i.Visit, i.Try))
		if fails--; fails == 0 {
			return s, errors.New("once")
		}
		return s, nil
	}
	a, b := g.Node("a", look), g.Node("b", look)
	g.Start(a, start)
	g.From(a).Otherwise(b)
	g.From(b).Otherwise(g.Succeed("DONE"))
	if _, err := pawl.Execute(t.Context(), g, 0); err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, ", "); s != "a 1/1/1, a 1/1/2, b 1/2/1" {
		t.Error(s)
	}
	if i := pawl.Info(t.Context()); i.Node != "" || i.Left("x") != 0 {
		t.Error("outside a run there is nothing to say", i)
	}
}

func TestStepCap(t *testing.T) {
	visits := 0
	g := blank("g", pawl.Options{})
	a := g.Node("a", func(_ context.Context, s box) (box, error) { visits++; return s, nil })
	g.Start(a, start)
	g.From(a).When("again", yes, a).AtMost(1 << 40).Otherwise(g.Succeed("DONE"))
	_, err := pawl.Execute(t.Context(), g, 0)
	if codeOf(err) != pawl.CodeStepCap || pawl.Coded(err).Node != "a" || visits != pawl.MaxSteps {
		t.Errorf("%d visits, %v", visits, err)
	}
}

func TestCancelStops(t *testing.T) {
	g := blank("g", pawl.Options{Retry: pawl.Retry{Max: 9}})
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	a := g.Node("a", func(ctx context.Context, s box) (box, error) {
		tries++
		cancel()
		if _, err := pawl.Do(ctx, "late", func(context.Context) (int, error) { t.Error("a call after the cancel"); return 0, nil }); err == nil {
			t.Error("a call after the cancel has a result")
		}
		return s, ctx.Err()
	})
	done := g.Succeed("DONE")
	g.Start(a, start)
	g.From(a).OnError("any", func(s box, _ error) (box, bool) { t.Error("an error edge was asked"); return s, true }, done).Otherwise(done)
	_, err := pawl.Execute(ctx, g, 0)
	if codeOf(err) != pawl.CodeCancelled || !errors.Is(err, context.Canceled) || pawl.Coded(err).Node != "a" || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}

	// A node that swallows it changes nothing, and a run that is stopped before it begins visits no node.
	swallow := one(pawl.Options{}, func(_ context.Context, s box) (box, error) { cancel(); return s, nil })
	ctx, cancel = context.WithCancel(t.Context())
	defer func() { cancel() }()
	if _, err := pawl.Execute(ctx, swallow, 0); codeOf(err) != pawl.CodeCancelled {
		t.Error(err)
	}
	late, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	if _, err := pawl.Execute(late, g, 0); codeOf(err) != pawl.CodeTimeout || tries != 1 {
		t.Error(err)
	}
}

func TestStartRefuses(t *testing.T) {
	g := blank("g", pawl.Options{})
	a := g.Node("a", func(_ context.Context, s box) (box, error) { t.Error("a node ran"); return s, nil })
	g.From(a).Otherwise(g.Succeed("DONE"))
	g.Start(a, func(n int) (box, error) {
		switch n {
		case 0:
			return box{}, errors.New("nothing to do")
		case 1:
			return box{}, &pawl.Error{Code: pawl.CodeForbidden}
		}
		panic("boom")
	})
	for n, code := range []string{pawl.CodeInvalid, pawl.CodeForbidden, pawl.CodeInternal} {
		if _, err := pawl.Execute(t.Context(), g, n); codeOf(err) != code {
			t.Errorf("%d: %v", n, err)
		}
	}
}
