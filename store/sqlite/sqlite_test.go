package sqlite

import (
	"path/filepath"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"

	"pawl/store"
	"pawl/store/storetest"
)

func open(t testing.TB, path string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func law(t *testing.T, o Options) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, filepath.Join(t.TempDir(), "a b?#%41.db"), o) }, storetest.Options{
		Reopen: func(t *testing.T, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, s.(*Store).path, o)
		},
		Second: func(t *testing.T, s store.Store) store.Store { return open(t, s.(*Store).path, o) },
	})
}

func TestLaw(t *testing.T) { law(t, Options{}) }

// The second driver is the same SQLite compiled in another way: what passes on both does not hang on one driver's manners.
func TestLawSecondDriver(t *testing.T) { law(t, Options{Driver: "sqlite3"}) }
