package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"pawl"
)

// Kind of a random node.
type kind string

const (
	kindPlain    kind = "plain"
	kindCalls    kind = "calls"
	kindMap      kind = "map"
	kindEmit     kind = "emit"
	kindAsk      kind = "ask"
	kindSilent   kind = "silent" // a question that nobody answers
	kindSleep    kind = "sleep"
	kindFlaky    kind = "flaky"  // fails in its first tries
	kindBroken   kind = "broken" // fails in every try
	kindCosts    kind = "costs"
	kindSub      kind = "sub"
	kindEach     kind = "each"
	kindLater    kind = "background"
	kindStubborn kind = "stubborn" // a call whose own retries are needed
	kindLarge    kind = "large"    // a result that goes to a blob
)

var (
	leafKinds = []kind{kindPlain, kindCalls, kindCalls, kindMap, kindEmit, kindAsk, kindSleep, kindFlaky, kindBroken, kindStubborn}
	rootKinds = []kind{kindSub, kindEach, kindEach, kindLater, kindCosts, kindCosts, kindSilent, kindLarge} // and the leaves
)

// nodePlan is a random node: what it does and where it leads.
type nodePlan struct {
	kind  kind
	n     int           // how many of what it does
	takes time.Duration // what one of them takes
	jump  int           // a node behind it, by a condition; 0: none
	back  int           // a node before it or itself, by a bounded condition; below zero: none
	bound int           // of that edge
	claim int           // a node behind it that takes its errors; 0: none
	limit int           // of an each or a map
	child *GraphPlan
	haste int // what its times are divided by; 0: by nothing
}

// lasts is how long a time of the plan is.
func (n nodePlan) lasts(d time.Duration) time.Duration { return d / time.Duration(max(n.haste, 1)) }

// hurried has all times of a plan divided, for trials in real time.
func (g *GraphPlan) hurried(by int) *GraphPlan {
	for i := range g.nodes {
		n := &g.nodes[i]
		n.haste = by
		if n.takes = n.lasts(n.takes); n.child != nil {
			n.child.hurried(by)
		}
	}
	return g
}

// GraphPlan is a random graph before it is built. The same seed gives the same plan.
type GraphPlan struct {
	name  string
	nodes []nodePlan
	tight bool // its budget may run out by how often calls are made again
	fuel  int64
}

// RandomGraph plans a graph of at most size nodes, children not counted.
func RandomGraph(seed uint64, size int) *GraphPlan {
	rng := rand.New(rand.NewPCG(seed, 0))
	return randomGraph(rng, "g", min(1+rng.IntN(size), 1+rng.IntN(size), 1+rng.IntN(size)), 0)
}

func randomGraph(rng *rand.Rand, name string, size, depth int) *GraphPlan {
	kinds := leafKinds
	switch {
	case depth == 0:
		kinds = slices.Concat(rootKinds, leafKinds)
	case depth == 1 && rng.IntN(8) == 0:
		kinds = append([]kind{kindSub}, leafKinds...)
	}
	g := &GraphPlan{name: name, fuel: int64(rng.IntN(5)), tight: depth == 0 && rng.IntN(12) == 0}
	for i := range size {
		n := nodePlan{
			kind: kinds[rng.IntN(len(kinds))], n: 1 + rng.IntN(3), back: -1, limit: rng.IntN(3),
			takes: []time.Duration{0, 0, 300 * time.Millisecond, 2 * time.Second, 4 * time.Second, 25 * time.Second}[rng.IntN(6)],
		}
		if i+2 < size && rng.IntN(3) == 0 {
			n.jump = i + 2 + rng.IntN(size-i-2)
		}
		if rng.IntN(5) == 0 {
			n.back, n.bound = rng.IntN(i+1), 1+rng.IntN(2)
		}
		if i+1 < size && rng.IntN(6) > 0 {
			n.claim = i + 1 + rng.IntN(size-i-1)
		}
		switch n.kind {
		case kindSub, kindEach, kindLater:
			n.child = randomGraph(rng, fmt.Sprintf("%s-%d", name, i), 1+rng.IntN(3), depth+1)
		case kindCosts:
			n.claim = max(n.claim, min(i+1, size-1))
		default:
		}
		g.nodes = append(g.nodes, n)
	}
	return g
}

// String names the kinds of the nodes.
func (g *GraphPlan) String() string {
	var b strings.Builder
	for i, n := range g.nodes {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(string(n.kind))
		if n.child != nil {
			fmt.Fprintf(&b, "(%s)", n.child)
		}
	}
	return b.String()
}

// Job is the input of every random graph, State its state, Done its output.
type (
	Job struct {
		Path string `json:"path"`
		Sum  uint32 `json:"sum"`
	}
	State struct {
		Path string   `json:"path"`
		Sum  uint32   `json:"sum"`
		Log  []string `json:"log"`
	}
	Done struct {
		Sum uint32   `json:"sum"`
		Log []string `json:"log"`
	}
	graph = pawl.Graph[Job, State, Done]
)

// mix is the state after something more has gone into it.
func (s State) mix(words ...any) State {
	s.Sum = sum(s.Sum, words)
	s.Log = append(s.Log[:len(s.Log):len(s.Log)], fmt.Sprintf("%x", s.Sum))
	if len(s.Log) > 8 {
		s.Log = s.Log[1:]
	}
	return s
}

// Workflows builds a plan and what it starts in the background. The first one is the plan itself.
func (g *GraphPlan) Workflows(w *World) ([]*pawl.Workflow, error) {
	var later []*graph
	top := g.build(w, &later)
	var out []*pawl.Workflow
	for _, b := range append([]*graph{top}, later...) {
		wf, err := b.Build()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g, err)
		}
		out = append(out, wf)
	}
	return out, nil
}

func (g *GraphPlan) build(w *World, later *[]*graph) *graph {
	o := pawl.Options{Version: "1", Budget: pawl.Budget{"llm": 1_000_000, "fuel": g.fuel}, Cost: pawl.Dollars(1000)}
	if g.tight {
		o.Budget["llm"] = 4
	}
	out := pawl.New[Job, State, Done](g.name, o)
	var nodes []pawl.Node[State]
	for i := range g.nodes {
		nodes = append(nodes, g.node(out, w, i, later))
	}
	done, lost := out.Succeed("DONE"), out.Fail("LOST")
	out.Start(nodes[0], func(j Job) (State, error) { return State{Path: j.Path, Sum: j.Sum}, nil })
	for i, n := range g.nodes {
		e := out.From(nodes[i])
		bit := func(k int) func(State) bool { return func(s State) bool { return s.Sum>>(k%32)&1 == 1 } }
		if n.jump > 0 {
			e.When("jump", bit(i), nodes[n.jump])
		}
		if n.back >= 0 {
			e.When("back", bit(i+7), nodes[n.back]).AtMost(n.bound)
		}
		claim := func(s State, err error) (State, bool) { return s.mix(pawl.Coded(err).Code), true }
		switch {
		case n.claim > i:
			e.OnError("claimed", claim, nodes[n.claim])
		case n.kind == kindCosts:
			e.OnError("spent", claim, lost)
		}
		if i+1 < len(nodes) {
			e.Otherwise(nodes[i+1])
			continue
		}
		e.When("lost", func(s State) bool { return s.Sum%7 == 0 }, lost)
		e.Otherwise(done)
	}
	out.Finish(func(s State, _ pawl.Ending) (Done, error) { return Done{s.Sum, s.Log}, nil })
	out.Closing(func(s State, e pawl.Ending) []pawl.Event { return []pawl.Event{{Type: "closed", Data: e.Terminal}} })
	return out
}
