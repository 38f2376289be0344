package engine

import (
	"context"
	"testing"

	"pawl"
	"pawl/store"
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

// stopping is a store that tells the worker to stop while the worker tidies it up.
type stopping struct {
	store.Store
	stop context.CancelFunc
}

func (s *stopping) Expire(ctx context.Context, _ int) (int, error) {
	s.stop()
	return 0, context.Cause(ctx)
}

// TestStopIsNoTrouble: who is told to stop amid its upkeep has no fault to tell.
func TestStopIsNoTrouble(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	e, err := New(&stopping{memory.New(), stop}, nil, Config{Trace: Trace{Fault: func(op string, err error) { t.Error(op, err) }}})
	if err == nil {
		err = e.Work(ctx)
	}
	if err != nil || ctx.Err() == nil {
		t.Error(err)
	}
}
