package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pawl/store"
)

// Filters of any length leave no more statements prepared than a connection keeps.
func TestPreparedAreBounded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	var names []string
	for i := range 2 * readers * statements {
		names = append(names, fmt.Sprint("v", i))
		rs, err := s.List(t.Context(), store.Scope{All: true}, store.Filter{NotVersions: names[:1+i/readers]}, store.Page{})
		must(t, err)
		if len(rs) != 1 {
			t.Fatal(len(rs))
		}
	}
	for range readers {
		v := <-s.views
		if n := len(v.prepared); n == 0 || n > statements {
			t.Errorf("%d statements", n)
		}
		defer func() { s.views <- v }()
	}
}

// Readers who go away in the middle, more of them than there are connections, take none with them, and Close waits for those
// who are still there.
func TestReadersLeave(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	for i := range 200 {
		must(t, s.Create(t.Context(), store.NewRun{ID: fmt.Sprint("r", i)}))
	}
	var wg sync.WaitGroup
	for i := range 50 * readers {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%40)*200*time.Microsecond)
			defer cancel()
			if rs, err := s.List(ctx, store.Scope{All: true}, store.Filter{}, store.Page{}); err == nil && len(rs) == 0 || err != nil && ctx.Err() == nil {
				t.Error(len(rs), err)
			}
		})
	}
	wg.Wait()
	for range 2 * readers {
		wg.Go(func() {
			if _, err := s.Get(t.Context(), store.Scope{All: true}, "r7"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(s.views) != readers {
		t.Errorf("%d connections are free", len(s.views))
	}
	must(t, s.Close())
	if _, err := s.Get(t.Context(), store.Scope{All: true}, "r7"); err == nil {
		t.Error("reads a closed store")
	}
}
