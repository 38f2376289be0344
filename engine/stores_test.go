package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pawl/internal/pgclock"
	"pawl/internal/pgtest"
	"pawl/store"
	"pawl/store/memory"
	"pawl/store/postgres"
	"pawl/store/sqlite"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// opener makes what opens a fresh store, or the same one again. In virtual time it is called outside the bubble, and what it gives inside.
type opener func(t *testing.T) func() store.Store

func onMemory(*testing.T) func() store.Store { return func() store.Store { return memory.New() } }

// filed is a store on a file that a test may look into.
type filed struct {
	store.Store
	path string
}

// onSQLite opens a file of its own; where there is a disk in memory, on that: no power is cut here.
func onSQLite(t *testing.T) func() store.Store {
	dir, err := os.MkdirTemp("/dev/shm", "pawl")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
	} else {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, "runs.db")
	return func() store.Store {
		s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return &filed{s, path}
	}
}

// onPostgres opens one store in a schema of its own.
func onPostgres(t *testing.T) func() store.Store {
	address := pgtest.URL(t)
	s, err := postgres.Open(context.Background(), pgtest.In(address, pgtest.Schema(t, address)), postgres.Options{Conns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return func() store.Store { return s }
}

// clocked is a store on a real Postgres whose clock shows a bubble's time.
type clocked struct {
	*postgres.Store
	clock *pgclock.Clock
}

func (s *clocked) Close() error { return errors.Join(s.Store.Close(), s.clock.Close()) }

// onClock opens stores on Postgres for virtual time, each in a schema of its own, by the name of which its few connections are known.
func onClock(t *testing.T) func() store.Store { return clockedAt(t, pgtest.URL(t)) }

func clockedAt(t *testing.T, address string) func() store.Store {
	return func() store.Store {
		t.Helper()
		clock, err := pgclock.New(address)
		if err != nil {
			t.Fatal(err)
		}
		s, err := postgres.Open(context.Background(), pgtest.In(address, clock.Schema)+"&application_name="+clock.Schema, postgres.Options{Conns: 4, Dial: clock.Dial})
		if err != nil {
			t.Fatal(err)
		}
		if err := clock.Rule(); err != nil {
			t.Fatal(err)
		}
		return &clocked{s, clock}
	}
}

// onStores checks something in virtual time on every store there is: Postgres too, whose server is a real one and no part of the
// bubble.
func onStores(t *testing.T, check func(t *testing.T, open opener)) {
	for _, kind := range []struct {
		name string
		open opener
	}{{"memory", onMemory}, {"sqlite", onSQLite}, {"postgres", onClock}} {
		t.Run(kind.name, func(t *testing.T) { check(t, kind.open) })
	}
}

// sum asks the database under the store for a number; memory has none.
func (r *rig) sum(query string) (n int) {
	r.Helper()
	var err error
	switch s := r.store.(type) {
	case *filed:
		var db *sql.DB
		if db, err = sql.Open("sqlite", s.path); err == nil {
			defer db.Close()
			err = db.QueryRow(query).Scan(&n)
		}
	case *clocked:
		n, err = s.clock.Sum(query)
	}
	if err != nil {
		r.Fatal(err)
	}
	return n
}
