package pawl_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"pawl"
)

// box is the state of most graphs of these tests.
type box struct {
	N     int
	Text  string
	Trail []string
}

type (
	graph = pawl.Graph[int, box, box]
	place = pawl.Node[box]
)

func keep(_ context.Context, s box) (box, error) { return s, nil }
func yes(box) bool                               { return true }
func no(box) bool                                { return false }
func start(n int) (box, error)                   { return box{N: n}, nil }
func whole(s box, _ pawl.Ending) (box, error)    { return s, nil }

// blank has no nodes yet, and its Finish.
func blank(name string, o pawl.Options) *graph {
	if o.Version == "" {
		o.Version = "1"
	}
	g := pawl.New[int, box, box](name, o)
	g.Finish(whole)
	return g
}

// short is the smallest graph: one node, one terminal.
func short(name string, o pawl.Options) (g *graph, work, done place) {
	g = blank(name, o)
	work, done = g.Node("work", keep), g.Succeed("DONE")
	g.Start(work, start)
	return g, work, done
}

func mustBuild(t *testing.T, g interface {
	Build() (*pawl.Workflow, error)
}) *pawl.Workflow {
	t.Helper()
	w, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// refused checks that a graph does not build and that the message has every part.
func refused(t *testing.T, g interface {
	Build() (*pawl.Workflow, error)
}, parts ...string) {
	t.Helper()
	_, err := g.Build()
	if err == nil {
		t.Fatalf("built; want a fault with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the message lacks %q:\n%v", p, err)
		}
	}
}

// fault is one way to write a graph wrongly. write gets a graph "g" with work → DONE still to be joined by an Otherwise.
type fault struct {
	name  string
	opt   pawl.Options
	write func(g *graph, work, done place)
	parts []string
}

func (f fault) run(t *testing.T) {
	g, work, done := short("g", f.opt)
	f.write(g, work, done)
	refused(t, g, append([]string{`graph "g"`}, f.parts...)...)
}

func TestBuildRefusesNodes(t *testing.T) {
	for _, f := range []fault{
		{name: "no Otherwise", write: func(g *graph, work, done place) {
			g.From(work).When("maybe", yes, done)
		}, parts: []string{`node "work"`, "no final Otherwise"}},
		{name: "unreachable", write: func(g *graph, work, done place) {
			g.From(work).Otherwise(done)
			g.From(g.Node("island", keep)).Otherwise(done)
		}, parts: []string{`node "island"`, "unreachable"}},
		{name: "unreachable terminal", write: func(g *graph, work, done place) {
			g.From(work).Otherwise(done)
			g.Succeed("NEVER")
		}, parts: []string{`node "NEVER"`, "unreachable"}},
		{name: "no terminal", write: func(g *graph, work, done place) {
			a, b := g.Node("a", keep), g.Node("b", keep)
			g.From(work).When("in", yes, a).AtMost(1).Otherwise(done)
			g.From(a).When("out", yes, b).AtMost(1).Otherwise(b)
			g.From(b).Otherwise(a)
		}, parts: []string{`node "a"`, `node "b"`, "no terminal can be reached"}},
		{name: "two nodes of a name", write: func(g *graph, work, done place) {
			g.From(work).Otherwise(g.Node("work", keep))
		}, parts: []string{`node "work"`, "two nodes have this name"}},
		{name: "node and terminal of a name", write: func(g *graph, work, done place) {
			g.From(work).When("a", yes, g.Succeed("work")).Otherwise(done)
		}, parts: []string{`node "work"`, "two nodes have this name"}},
		{name: "Succeed and Fail of a name", write: func(g *graph, work, done place) {
			g.From(work).When("a", yes, g.Fail("DONE")).Otherwise(done)
		}, parts: []string{`node "DONE"`, "two nodes have this name"}},
		{name: "same outcome", write: func(g *graph, work, done place) {
			g.From(work).When("a", yes, g.Succeed("DONE")).Otherwise(done)
		}, parts: []string{`terminal "DONE"`, `the same outcome "DONE"`}},
		{name: "same outcome, once said and once meant", write: func(g *graph, work, done place) {
			g.From(work).When("a", yes, g.Succeed("DONE", pawl.End[box]{Outcome: "DONE"})).Otherwise(done)
		}, parts: []string{`terminal "DONE"`, `the same outcome "DONE"`}},
		{name: "same outcome, with another between", write: func(g *graph, work, done place) {
			g.From(work).When("a", yes, g.Succeed("DONE", pawl.End[box]{Outcome: "x"})).
				When("b", yes, g.Succeed("DONE")).Otherwise(done)
		}, parts: []string{`terminal "DONE"`, `the same outcome "DONE"`}},
		{name: "built-in name", write: func(g *graph, work, done place) {
			g.From(work).When("a", yes, g.Succeed("FAILED")).Otherwise(done)
		}, parts: []string{`node "FAILED"`, "built-in terminal"}},
		{name: "empty name", write: func(g *graph, work, done place) {
			n := g.Node("", keep)
			g.From(work).Otherwise(n)
			g.From(n).Otherwise(done)
		}, parts: []string{`node ""`, "is empty"}},
		{name: "no function", write: func(g *graph, work, done place) {
			n := g.Node("idle", nil)
			g.From(work).Otherwise(n)
			g.From(n).Otherwise(done)
		}, parts: []string{`node "idle"`, "no function"}},
		{name: "edges out of a terminal", write: func(g *graph, work, done place) {
			g.From(work).Otherwise(done)
			g.From(done).Otherwise(work)
		}, parts: []string{`terminal "DONE"`, "has edges"}},
		{name: "key on a terminal", write: func(g *graph, work, done place) {
			g.From(work).Otherwise(done)
			g.Key(done, func(box) string { return "k" })
		}, parts: []string{`terminal "DONE"`, "Key"}},
		{name: "two keys", write: func(g *graph, work, done place) {
			n := g.Node("more", keep)
			g.From(work).Otherwise(n)
			g.From(n).Otherwise(done)
			g.Key(work, func(box) string { return "k" })
			g.Key(n, func(box) string { return "k" })
		}, parts: []string{`node "more"`, `bound at node "work" already`}},
		{name: "key without a function", write: func(g *graph, work, done place) {
			g.From(work).Otherwise(done)
			g.Key(work, nil)
		}, parts: []string{`node "work"`, "Key has no function"}},
		{name: "node options", write: func(g *graph, work, done place) {
			n := g.Node("n", keep, pawl.NodeOptions{Retry: pawl.Retry{Max: -2}, Timeout: -1, Costs: pawl.Budget{"llm": 0}})
			g.From(work).Otherwise(n)
			g.From(n).Otherwise(done)
		}, parts: []string{`node "n": Retry{Max: -2`, `node "n": a negative timeout`, `node "n": Costs: 0 of "llm"`}},
	} {
		t.Run(f.name, f.run)
	}
}

func TestBuildRefusesEdges(t *testing.T) {
	other, elsewhere, _ := short("other", pawl.Options{})
	_ = other
	for _, f := range []fault{
		{name: "edge after Otherwise", write: func(g *graph, work, done place) {
			g.From(work).Otherwise(done)
			g.From(work).When("late", yes, done)
		}, parts: []string{`node "work"`, `edge "late"`, "after Otherwise"}},
		{name: "Otherwise twice", write: func(g *graph, work, done place) {
			g.From(work).Otherwise(done)
			g.From(work).Otherwise(done)
		}, parts: []string{`node "work"`, "Otherwise is said twice"}},
		{name: "two edges of a name", write: func(g *graph, work, done place) {
			g.From(work).When("x", yes, done).When("x", no, done).Otherwise(done)
		}, parts: []string{`node "work"`, `two edges have the name "x"`}},
		{name: "edge and error edge of a name", write: func(g *graph, work, done place) {
			g.From(work).OnError("x", pawl.IsAny, done).When("x", no, done).Otherwise(done)
		}, parts: []string{`node "work"`, `two edges have the name "x"`}},
		{name: "edge without a name", write: func(g *graph, work, done place) {
			g.From(work).When("", yes, done).Otherwise(done)
		}, parts: []string{`node "work"`, `edge name ""`}},
		{name: "no condition", write: func(g *graph, work, done place) {
			g.From(work).When("x", nil, done).Otherwise(done)
		}, parts: []string{`node "work"`, `edge "x"`, "no condition"}},
		{name: "no claim", write: func(g *graph, work, done place) {
			g.From(work).OnError("x", nil, done).Otherwise(done)
		}, parts: []string{`node "work"`, `error edge "x"`, "no claim"}},
		{name: "edge to another graph", write: func(g *graph, work, done place) {
			g.From(work).When("x", yes, elsewhere).Otherwise(done)
		}, parts: []string{`node "work"`, `edge "x"`, `node "work" of another graph`}},
		{name: "edges from another graph", write: func(g *graph, work, done place) {
			g.From(work).Otherwise(done)
			g.From(elsewhere).Otherwise(done)
		}, parts: []string{"From", `node "work" belongs to another graph`}},
		{name: "key of another graph", write: func(g *graph, work, done place) {
			g.From(work).Otherwise(done)
			g.Key(elsewhere, func(box) string { return "" })
		}, parts: []string{"Key", `node "work" belongs to another graph`}},
		{name: "edge to nowhere", write: func(g *graph, work, done place) {
			g.From(work).When("x", yes, place{}).Otherwise(done)
		}, parts: []string{`node "work"`, `edge "x"`, "empty node handle"}},
		{name: "edges from nowhere", write: func(g *graph, work, done place) {
			g.From(work).Otherwise(done)
			g.From(place{}).Otherwise(done)
		}, parts: []string{"From", "empty node handle"}},
		{name: "bound of nothing", write: func(g *graph, work, done place) {
			g.From(work).AtMost(1).Otherwise(done)
		}, parts: []string{`node "work"`, "a bound without an edge"}},
		{name: "bound of 0", write: func(g *graph, work, done place) {
			g.From(work).When("x", yes, done).AtMost(0).Otherwise(done)
		}, parts: []string{`node "work"`, `edge "x"`, "a bound of 0"}},
		{name: "bounded twice", write: func(g *graph, work, done place) {
			g.From(work).When("x", yes, done).AtMost(2).AtMostPerTurn(1).Otherwise(done)
		}, parts: []string{`node "work"`, `edge "x"`, "bounded twice"}},
	} {
		t.Run(f.name, f.run)
	}
}

func TestBuildRefusesOptions(t *testing.T) {
	join := func(g *graph, work, done place) { g.From(work).Otherwise(done) }
	for _, f := range []fault{
		{name: "budget", opt: pawl.Options{Budget: pawl.Budget{"llm": -1, "": 3}}, write: join, parts: []string{`meter "llm" with -1`, `meter "" with 3`}},
		{name: "usd as a budget", opt: pawl.Options{Budget: pawl.Budget{"usd": 1}}, write: join, parts: []string{"usd is set by Options.Cost"}},
		{name: "durations", opt: pawl.Options{Runtime: -time.Second}, write: join, parts: []string{"negative cost or duration"}},
		{name: "retry", opt: pawl.Options{Retry: pawl.Retry{Max: 1, Factor: .5}}, write: join, parts: []string{"Options: Retry{", "Factor: 0.5"}},
		{name: "positional", opt: pawl.Options{Positional: []string{"nope"}}, write: join, parts: []string{`no field "nope"`}},
		{name: "start twice", write: func(g *graph, work, done place) { join(g, work, done); g.Start(work, start) }, parts: []string{"Start is said twice"}},
		{name: "finish twice", write: func(g *graph, work, done place) { join(g, work, done); g.Finish(whole) }, parts: []string{"Finish is said twice"}},
		{name: "closing twice", write: func(g *graph, work, done place) {
			join(g, work, done)
			g.Closing(func(box, pawl.Ending) []pawl.Event { return nil })
			g.Closing(func(box, pawl.Ending) []pawl.Event { return nil })
		}, parts: []string{"Closing is said twice"}},
		{name: "migration", write: func(g *graph, work, done place) {
			join(g, work, done)
			g.Migrate("1", func(m pawl.Migration) (pawl.Migration, error) { return m, nil })
		}, parts: []string{`Migrate from version "1"`}},
	} {
		t.Run(f.name, f.run)
	}

	t.Run("no version", func(t *testing.T) {
		g := pawl.New[int, box, box]("g", pawl.Options{})
		refused(t, g, `graph "g"`, "Options.Version is empty", "no Start", "no Finish")
	})
	t.Run("start at a terminal", func(t *testing.T) {
		g := blank("g", pawl.Options{})
		g.Start(g.Succeed("DONE"), start)
		refused(t, g, `graph "g"`, `Start is the terminal "DONE"`)
	})
	for _, name := range []string{"", "a@b", " a", "a\n", strings.Repeat("x", 101)} {
		g, work, done := short(name, pawl.Options{})
		g.From(work).Otherwise(done)
		refused(t, g, "the name must be")
	}
}

// TestBuildReportsAllFaults: a graph is mended in one go, not fault by fault.
func TestBuildReportsAllFaults(t *testing.T) {
	type broken struct{ F func() }
	g := pawl.New[int, broken, chan int]("g", pawl.Options{Budget: pawl.Budget{"llm": -1}})
	a := g.Node("a", func(_ context.Context, s broken) (broken, error) { return s, nil })
	g.From(a).When("x", nil, pawl.Node[broken]{}).AtMost(0)
	g.Node("island", nil)
	refused(t, g, "Version", `"llm" with -1`, "no Start", "no Finish", `edge "x" has no condition`, "a bound of 0", "no final Otherwise",
		"empty node handle", `node "island": no function`, "state type", ".F: a func", "output type", "a chan", `node "a": no terminal can be reached`)
}
