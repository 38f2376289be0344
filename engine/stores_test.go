package engine_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

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

// onPostgres opens one store in a schema of its own, by the name of which its few connections are known.
func onPostgres(t *testing.T) func() store.Store {
	address := pgtest.URL(t)
	s, _ := openPostgres(t, address)
	return func() store.Store { return s }
}

func openPostgres(t *testing.T, address string) (s *postgres.Store, schema string) {
	t.Helper()
	schema = pgtest.Schema(t, address)
	s, err := postgres.Open(context.Background(), pgtest.In(address, schema)+"&application_name="+schema, postgres.Options{Conns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, schema
}

// onStores checks something in virtual time on every store there is: Postgres too, whose server is a real one and no part of the
// bubble.
func onStores(t *testing.T, check func(t *testing.T, open opener)) {
	for _, kind := range []struct {
		name string
		open opener
	}{{"memory", onMemory}, {"sqlite", onSQLite}, {"postgres", onShore}} {
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
	case *shore:
		s.outside(func() { n, err = s.admin.sum(query) })
	}
	if err != nil {
		r.Fatal(err)
	}
	return n
}
