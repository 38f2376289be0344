package pawl_test

import (
	"context"
	"fmt"
	"testing"

	"pawl"
)

const benchNodes = 10

type benchState struct {
	N    int
	Text string
}

func benchStep(_ context.Context, s benchState) (benchState, error) { s.N++; return s, nil }

// line is a graph of n trivial nodes, one after the other.
func line(n int) *pawl.Graph[int, benchState, int] {
	g := pawl.New[int, benchState, int]("line", pawl.Options{Version: "1"})
	nodes := make([]pawl.Node[benchState], n)
	for i := range nodes {
		nodes[i] = g.Node(fmt.Sprintf("n%d", i), benchStep)
	}
	g.Start(nodes[0], func(n int) (benchState, error) { return benchState{N: n}, nil })
	for i, to := range nodes[1:] {
		g.From(nodes[i]).When("never", func(s benchState) bool { return s.N < 0 }, to).Otherwise(to)
	}
	g.From(nodes[n-1]).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s benchState, _ pawl.Ending) (int, error) { return s.N, nil })
	return g
}

// BenchmarkExecute is what the language costs where nothing is recorded. The bar is 500 ns a node.
func BenchmarkExecute(b *testing.B) {
	g := line(benchNodes)
	ctx := b.Context() // cancellable, as any real one
	b.ReportAllocs()
	for b.Loop() {
		if n, err := pawl.Execute(ctx, g, 0); n != benchNodes || err != nil {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchNodes, "ns/node")
}

// BenchmarkPlain is the same work as plain Go, for comparison.
func BenchmarkPlain(b *testing.B) {
	steps := make([]func(context.Context, benchState) (benchState, error), benchNodes)
	for i := range steps {
		steps[i] = benchStep
	}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		var s benchState
		for _, step := range steps {
			var err error
			if s, err = step(ctx, s); err != nil {
				b.Fatal(err)
			}
		}
		if s.N != benchNodes {
			b.Fatal(s.N)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchNodes, "ns/node")
}

// BenchmarkExecuteCall adds one recorded call to every node: its result goes through JSON.
func BenchmarkExecuteCall(b *testing.B) {
	g := pawl.New[int, benchState, int]("calls", pawl.Options{Version: "1", Budget: pawl.Budget{"llm": 1 << 40}})
	work := g.Node("work", func(ctx context.Context, s benchState) (benchState, error) {
		n, err := pawl.Do(ctx, "call", func(context.Context) (int, error) { return s.N + 1, nil },
			pawl.CallOptions{Charge: pawl.Budget{"llm": 1}})
		s.N = n
		return s, err
	})
	g.Start(work, func(n int) (benchState, error) { return benchState{N: n}, nil })
	g.From(work).When("again", func(s benchState) bool { return s.N < benchNodes }, work).AtMost(benchNodes).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s benchState, _ pawl.Ending) (int, error) { return s.N, nil })
	b.ReportAllocs()
	for b.Loop() {
		if n, err := pawl.Execute(b.Context(), g, 0); n != benchNodes || err != nil {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchNodes, "ns/node")
}
