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
	const nodes = 1000
	w, err := ring().Build()
	if err != nil {
		b.Fatal(err)
	}
	var spent time.Duration
	b.ReportAllocs()
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
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/nodes, "ns/node")
}
