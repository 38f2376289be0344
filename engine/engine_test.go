package engine_test

import (
	"context"
	"strings"
	"testing"

	"pawl"
	"pawl/engine"
	"pawl/store"
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
