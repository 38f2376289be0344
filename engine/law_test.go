package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"pawl"
	"pawl/engine"
	"pawl/internal/pgtest"
	"pawl/internal/runstest"
	"pawl/store"
	"pawl/store/memory"
	"pawl/store/postgres"
	"pawl/store/sqlite"
)

// TestLawOfRuns holds the engine to the law of runs on the memory store.
func TestLawOfRuns(t *testing.T) {
	lawOn(t, func(*testing.T) store.Store { return memory.New() })
}

func lawOn(t *testing.T, open func(*testing.T) store.Store) {
	runstest.Run(t, func(t *testing.T, ws []*pawl.Workflow) (func(pawl.Caller) pawl.Runs, func(context.Context, string) error) {
		s := open(t)
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

// TestLawOfRunsOnSQLite is the same on a file; where there is a disk in memory, on that: the law asks for no power cuts.
func TestLawOfRunsOnSQLite(t *testing.T) {
	lawOn(t, func(t *testing.T) store.Store {
		dir, err := os.MkdirTemp("/dev/shm", "pawl")
		if err == nil {
			t.Cleanup(func() { os.RemoveAll(dir) })
		} else {
			dir = t.TempDir()
		}
		s, err := sqlite.Open(t.Context(), filepath.Join(dir, "runs.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// TestLawOfRunsOnPostgres is the same on a server of its own, each case in a schema of its own.
func TestLawOfRunsOnPostgres(t *testing.T) {
	address := pgtest.Start(t, false).URL()
	lawOn(t, func(t *testing.T) store.Store {
		s, err := postgres.Open(t.Context(), address, postgres.Options{Schema: pgtest.Schema(t, address)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
