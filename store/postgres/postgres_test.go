package postgres

import (
	"os"
	"testing"

	"pawl/internal/pgtest"
	"pawl/store"
	"pawl/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// empty is the address of a schema of the test's own.
func empty(t testing.TB) string {
	t.Helper()
	address := pgtest.URL(t)
	return pgtest.In(address, pgtest.Schema(t, address))
}

func open(t testing.TB, address string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), address, o)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLaw(t *testing.T) {
	at := map[store.Store]string{}
	storetest.Run(t, func(t *testing.T) store.Store {
		address := empty(t)
		s := open(t, address, Options{})
		at[s] = address
		return s
	}, storetest.Options{
		Reopen: func(t *testing.T, s store.Store) store.Store {
			must(t, s.Close())
			r := open(t, at[s], Options{})
			at[r] = at[s]
			return r
		},
		Second: func(t *testing.T, s store.Store) store.Store { return open(t, at[s], Options{}) },
	})
}
