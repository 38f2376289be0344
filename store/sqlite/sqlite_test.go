package sqlite

import (
	"os"
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
	path := filepath.Join(t.TempDir(), "empty.db")
	if err := open(t, path, o).Close(); err != nil {
		t.Fatal(err)
	}
	empty, err := os.ReadFile(path) // copied for each case: making the tables anew each time would be most of the work
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, func(t *testing.T) store.Store {
		path := filepath.Join(t.TempDir(), "a b?#%41.db")
		if err := os.WriteFile(path, empty, 0o600); err != nil {
			t.Fatal(err)
		}
		return open(t, path, o)
	}, storetest.Options{
		Parallel: true,
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
