package engine

import (
	"context"
	"testing"

	"pawl"
	"pawl/store/memory"
)

// TestARunThatIsNotHeldAnyMoreIsForgotten: a worker that lives for months must not remember every run that it once held.
func TestARunThatIsNotHeldAnyMoreIsForgotten(t *testing.T) {
	g := pawl.New[int, int, int]("one", pawl.Options{Version: "1"})
	n := g.Node("node", func(_ context.Context, n int) (int, error) { return n, nil })
	g.Start(n, func(n int) (int, error) { return n, nil })
	g.From(n).Otherwise(g.Succeed("END"))
	g.Finish(func(n int, _ pawl.Ending) (int, error) { return n, nil })
	w, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(memory.New(), []*pawl.Workflow{w}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	e.held["ended since"] = 1
	if err := e.sweep(t.Context(), ""); err != nil || len(e.held) != 0 {
		t.Errorf("%v is remembered, %v", e.held, err)
	}
}
