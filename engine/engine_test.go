package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
	"pawl/store/memory"
)

type counter struct {
	N   int    `json:"n"`
	Pad string `json:"pad"`
}

// ring goes n times around one node, with a state of about 1 KB.
func ring() *pawl.Graph[int, counter, int] {
	type limit = int
	g := pawl.New[limit, counter, int]("ring", pawl.Options{Version: "1"})
	a := g.Node("a", func(_ context.Context, s counter) (counter, error) { s.N--; return s, nil })
	end := g.Succeed("DONE")
	g.Start(a, func(n int) (counter, error) { return counter{N: n, Pad: strings.Repeat("x", 1000)}, nil })
	g.From(a).When("again", func(s counter) bool { return s.N > 0 }, a).AtMost(9_999).Otherwise(end)
	g.Finish(func(s counter, _ pawl.Ending) (int, error) { return s.N, nil })
	return g
}

func build[I, S, O any](t testing.TB, g *pawl.Graph[I, S, O]) *pawl.Workflow {
	t.Helper()
	w, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func newEngine(t testing.TB, s store.Store, ws ...*pawl.Workflow) *engine.Engine {
	t.Helper()
	e, err := engine.New(s, ws, engine.Config{Trace: engine.Trace{Fault: func(op string, err error) { t.Log(op, err) }}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// BenchmarkNode is the overhead of a node through the engine on the memory store, with a 1 KB state. Each run has a store of
// its own: what earlier ones have left is not part of a node.
func BenchmarkNode(b *testing.B) {
	const nodes = 1000
	w := build(b, ring())
	var spent time.Duration
	b.ReportAllocs()
	for b.Loop() {
		e := newEngine(b, memory.New(), w)
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
