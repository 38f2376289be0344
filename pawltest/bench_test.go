package pawltest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store/memory"
)

type lap struct {
	N   int    `json:"n"`
	Pad string `json:"pad"`
}

// ring goes n times around one node, with a state of 1 KB.
func ring() *pawl.Graph[int, lap, int] {
	g := pawl.New[int, lap, int]("ring", pawl.Options{Version: "1"})
	a := g.Node("a", func(_ context.Context, s lap) (lap, error) { s.N--; return s, nil })
	end := g.Succeed("DONE")
	g.Start(a, func(n int) (lap, error) { return lap{N: n, Pad: strings.Repeat("x", 1000)}, nil })
	g.From(a).When("again", func(s lap) bool { return s.N > 0 }, a).AtMost(9_999).Otherwise(end)
	g.Finish(func(s lap, _ pawl.Ending) (int, error) { return s.N, nil })
	return g
}

// BenchmarkNode is the overhead of a node through the engine on the memory store, with a 1 KB state: it stands here, where
// no database is linked, whose tables the garbage collector would look through. Each run has a store of its own: what
// earlier ones have left is not part of a node.
func BenchmarkNode(b *testing.B) {
	b.ReportAllocs()
	b.ReportMetric(float64(nodeTime(b).Nanoseconds()), "ns/node")
}

const nodes = 1000

// nodeTime is the mean time of a node.
func nodeTime(b *testing.B) time.Duration {
	w, err := ring().Build()
	if err != nil {
		b.Fatal(err)
	}
	var spent time.Duration
	for b.Loop() {
		e, err := engine.New(memory.New(), []*pawl.Workflow{w}, engine.Config{})
		if err != nil {
			b.Fatal(err)
		}
		st, err := e.As(pawl.Caller{}).Start(b.Context(), "ring", json.RawMessage("1000"), pawl.StartOptions{})
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := e.WorkRun(b.Context(), st.Run.ID); err != nil {
			b.Fatal(err)
		}
		spent += time.Since(began)
	}
	return spent / time.Duration(b.N) / nodes
}

// TestLongNodeCost holds what a node costs: how often it asks for memory, which is the same on every machine, and how long it
// takes beside the encoding of its state, with a generous bound.
func TestLongNodeCost(t *testing.T) {
	best := time.Hour
	var allocs int64
	for range 3 {
		r := testing.Benchmark(func(b *testing.B) { best = min(best, nodeTime(b)) })
		allocs = r.AllocsPerOp() / nodes
	}
	s := lap{Pad: strings.Repeat("x", 1000)}
	plain := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := json.Marshal(&s); err != nil {
				b.Fatal(err)
			}
		}
	}).NsPerOp()
	t.Logf("a node takes %v and %d allocations; its state takes encoding/json %d ns", best, allocs, plain)
	if allocs > 12 || best.Nanoseconds() > 20*plain {
		t.Error("that is too much")
	}
}
