package engine_test

import (
	"context"
	"testing"

	"pawl"
	"pawl/engine"
	"pawl/internal/runstest"
)

// TestLawOfRuns holds the engine to the law of runs on the memory store.
func TestLawOfRuns(t *testing.T) { lawOn(t, onMemory) }

// TestLawOfRunsOnSQLite is the same on a file.
func TestLawOfRunsOnSQLite(t *testing.T) { lawOn(t, onSQLite) }

// TestLawOfRunsOnPostgres is the same on a server, each case in a schema of its own.
func TestLawOfRunsOnPostgres(t *testing.T) { lawOn(t, onPostgres) }

func lawOn(t *testing.T, open opener) {
	runstest.Run(t, func(t *testing.T, ws []*pawl.Workflow) (func(pawl.Caller) pawl.Runs, func(context.Context, string) error) {
		s := open(t)()
		t.Cleanup(func() { s.Close() })
		e := newEngine(t, s, ws...)
		t.Cleanup(func() { allReplay(t, e) })
		return e.As, e.WorkRun
	})
}

// allReplay holds every run that a case has left to a law of its own: executed again, it does what was recorded.
func allReplay(t *testing.T, e *engine.Engine) {
	ctx := context.Background()
	rs, err := e.As(operator).List(ctx, pawl.RunFilter{}, "", 1000)
	if err != nil {
		t.Error(err)
	}
	for _, r := range rs {
		got, err := e.Replay(ctx, operator, r.ID)
		if err != nil || got.Diverged != nil {
			t.Errorf("a run that is %s does not replay: %v, %+v", r.Status, err, got.Diverged)
		}
	}
}
