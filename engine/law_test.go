package engine_test

import (
	"context"
	"path/filepath"
	"testing"

	"pawl"
	"pawl/internal/runstest"
	"pawl/store"
	"pawl/store/memory"
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
		return e.As, e.WorkRun
	})
}

// TestLawOfRunsOnSQLite is the same on a file.
func TestLawOfRunsOnSQLite(t *testing.T) {
	lawOn(t, func(t *testing.T) store.Store {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
