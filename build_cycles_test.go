package pawl_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pawl"
)

// loop is work ⇄ check, and out: the cycle that the tests bound in one way after another.
func loop(o pawl.Options, n pawl.NodeOptions, write func(g *graph, work, check, done place)) *graph {
	g := blank("loop", o)
	work, check, done := g.Node("work", keep, n), g.Node("check", keep), g.Succeed("DONE")
	g.Start(work, start)
	write(g, work, check, done)
	return g
}

func TestBuildRefusesACycleWithoutABound(t *testing.T) {
	bare := func(g *graph, work, check, done place) {
		g.From(work).Otherwise(check)
		g.From(check).When("again", no, work).Otherwise(done) // that the condition never holds is no proof
	}
	cycle := "work —otherwise→ check —again→ work"
	llm := pawl.NodeOptions{Costs: pawl.Budget{"llm": 1}}

	t.Run("bare", func(t *testing.T) {
		refused(t, loop(pawl.Options{}, pawl.NodeOptions{}, bare), `graph "loop"`, cycle)
	})
	t.Run("itself", func(t *testing.T) {
		refused(t, loop(pawl.Options{}, pawl.NodeOptions{}, func(g *graph, work, check, done place) {
			g.From(work).When("again", yes, work).Otherwise(check)
			g.From(check).Otherwise(done)
		}), "work —again→ work")
	})
	t.Run("costs of an uncapped meter", func(t *testing.T) {
		refused(t, loop(pawl.Options{Budget: pawl.Budget{"other": 1}}, llm, bare), cycle)
	})
	t.Run("costs of money without a ceiling", func(t *testing.T) {
		refused(t, loop(pawl.Options{}, pawl.NodeOptions{Costs: pawl.Budget{"usd": 1}}, bare), cycle)
	})
	t.Run("a bound beside the cycle", func(t *testing.T) {
		refused(t, loop(pawl.Options{}, pawl.NodeOptions{}, func(g *graph, work, check, done place) {
			g.From(work).When("quick", yes, check).AtMost(1).Otherwise(check) // the second way stays
			g.From(check).When("again", no, work).Otherwise(done)
		}), cycle)
	})
	t.Run("through an error edge", func(t *testing.T) {
		refused(t, loop(pawl.Options{}, pawl.NodeOptions{}, func(g *graph, work, check, done place) {
			g.From(work).OnError("mend", pawl.IsAny, check).Otherwise(done)
			g.From(check).Otherwise(work)
		}), "work —mend→ check —otherwise→ work")
	})
	t.Run("two cycles", func(t *testing.T) {
		refused(t, loop(pawl.Options{}, pawl.NodeOptions{}, func(g *graph, work, check, done place) {
			g.From(work).When("self", yes, work).Otherwise(check)
			g.From(check).When("again", no, work).Otherwise(done)
		}), "work —self→ work", cycle)
	})
	// A spent meter is an error of the node that costs it: the visit counted nothing, and the error edge leads on.
	t.Run("through the error edge of a node with costs", func(t *testing.T) {
		capped := pawl.Options{Budget: pawl.Budget{"llm": 3}}
		refused(t, loop(capped, llm, func(g *graph, work, check, done place) {
			g.From(work).OnError("mend", pawl.IsAny, check).Otherwise(done)
			g.From(check).Otherwise(work)
		}), "work —mend→ check —otherwise→ work")
		refused(t, loop(capped, llm, func(g *graph, work, check, done place) {
			g.From(work).OnError("self", pawl.IsBudget, work).Otherwise(check)
			g.From(check).Otherwise(done)
		}), "work —self→ work")
	})
}

func TestBuildAcceptsABoundedCycle(t *testing.T) {
	bare := func(g *graph, work, check, done place) {
		g.From(work).Otherwise(check)
		g.From(check).When("again", no, work).Otherwise(done)
	}
	llm := pawl.NodeOptions{Costs: pawl.Budget{"llm": 1}}
	for name, g := range map[string]*graph{
		"AtMost": loop(pawl.Options{}, pawl.NodeOptions{}, func(g *graph, work, check, done place) {
			g.From(work).Otherwise(check)
			g.From(check).When("again", no, work).AtMost(3).Otherwise(done)
		}),
		"AtMostPerTurn": loop(pawl.Options{}, pawl.NodeOptions{}, func(g *graph, work, check, done place) {
			g.From(work).Otherwise(check)
			g.From(check).When("again", no, work).AtMostPerTurn(1).Otherwise(done)
		}),
		"OnAnswer": loop(pawl.Options{}, pawl.NodeOptions{}, func(g *graph, work, check, done place) {
			g.From(work).Otherwise(check)
			g.From(check).OnAnswer("again", work).Otherwise(done)
		}),
		"bounded error edge": loop(pawl.Options{}, pawl.NodeOptions{}, func(g *graph, work, check, done place) {
			g.From(work).OnError("mend", pawl.IsAny, check).AtMost(1).Otherwise(done)
			g.From(check).Otherwise(work)
		}),
		"Costs":          loop(pawl.Options{Budget: pawl.Budget{"llm": 3}}, llm, bare),
		"Costs of money": loop(pawl.Options{Cost: 10}, pawl.NodeOptions{Costs: pawl.Budget{"usd": 1}}, bare),
		"Costs, the error leads out": loop(pawl.Options{Budget: pawl.Budget{"llm": 3}}, llm, func(g *graph, work, check, done place) {
			bare(g, work, check, done)
			g.From(work).OnError("spent", pawl.IsBudget, done)
		}),
	} {
		t.Run(name, func(t *testing.T) { mustBuild(t, g) })
	}
}

// TestBoundedGraphsEnd: whatever Build accepts ends by its own bounds, not by the step cap, also if every condition
// always holds and every node that may fail does.
func TestBoundedGraphsEnd(t *testing.T) {
	built := 0
	for seed := range 400 {
		g, ok := random(seed)
		if !ok {
			continue
		}
		built++
		if _, err := pawl.Execute(t.Context(), g, seed); err != nil && strings.Contains(err.Error(), "steps") {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if built < 50 {
		t.Errorf("only %d of 400 graphs were built: they prove little", built)
	}
}

// random is a graph of six nodes whose edges, bounds, costs and failures come from a seed, and whether it builds.
func random(seed int) (*graph, bool) {
	r := uint64(seed)*0x9E3779B97F4A7C15 + 1
	next := func(n int) int {
		r ^= r << 13
		r ^= r >> 7
		r ^= r << 17
		return int(r % uint64(n))
	}
	g := blank("random", pawl.Options{Budget: pawl.Budget{"llm": 9}})
	var nodes []place
	for i := range 6 {
		var o pawl.NodeOptions
		if next(3) == 0 {
			o.Costs = pawl.Budget{"llm": 1}
		}
		fails := next(3) == 0
		nodes = append(nodes, g.Node(fmt.Sprint("n", i), func(_ context.Context, s box) (box, error) {
			if fails {
				return s, fmt.Errorf("always")
			}
			return s, nil
		}, o))
	}
	done := g.Succeed("DONE")
	g.Start(nodes[0], start)
	for i, n := range nodes {
		e := g.From(n)
		for j := range next(3) {
			e.When(fmt.Sprint("w", j), yes, nodes[next(6)])
			if next(3) > 0 {
				e.AtMost(1 + next(4))
			}
		}
		if next(2) == 0 {
			e.OnError("mend", pawl.IsAny, nodes[next(6)])
			if next(3) == 0 {
				e.AtMost(2)
			}
		}
		// Every node is reached, so that only cycles can be at fault.
		if to := i + 1; to < len(nodes) {
			e.Otherwise(nodes[to])
		} else {
			e.Otherwise(done)
		}
	}
	_, err := g.Build()
	return g, err == nil
}
