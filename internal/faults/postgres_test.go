package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pawl/internal/pgtest"
	"pawl/store"
)

// TestPostgresInABubble: hours pass at once on the store's clock too, a lease runs out by it, notices come through, and what is
// carried out while COMMITs are cut is not there.
func TestPostgresInABubble(t *testing.T) {
	address, ctx := pgtest.URL(t), context.Background()
	bubble(t, func() {
		s, cut, err := OpenPostgres(ctx, address)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		begin := time.Now()
		if err := s.Create(ctx, store.NewRun{ID: "a", Workflow: "w"}); err != nil {
			t.Error(err)
		}
		claim := func() int {
			rs, _, err := s.Claim(ctx, store.Claim{Worker: "w", Kinds: []string{store.Kind("w", "")}, Max: 1, Hold: time.Hour})
			if err != nil && !errors.Is(err, store.ErrUnavailable) {
				t.Error(err)
			}
			return len(rs)
		}
		cut(true)
		refused := s.Create(ctx, store.NewRun{ID: "b", Workflow: "w"})
		_, gone := s.Get(ctx, everything, "b")
		if n := claim(); n > 0 || !errors.Is(refused, store.ErrUnavailable) || !errors.Is(gone, store.ErrNotFound) {
			t.Errorf("while COMMITs are cut %d runs are claimed, a run is created (%v) and read (%v)", n, refused, gone)
		}
		cut(false)
		first, again := claim(), claim()
		time.Sleep(61 * time.Minute)
		if late := claim(); first != 1 || again != 0 || late != 1 {
			t.Errorf("%d, %d and, with the lease over, %d runs are claimed", first, again, late)
		}
		if now, err := s.Now(ctx); err != nil || now.Sub(begin) < 61*time.Minute || !now.Equal(time.Now().Truncate(time.Microsecond)) {
			t.Errorf("it is %v (%v), %v after the beginning", now, err, now.Sub(begin))
		}
		s.(*onPostgres).notify(t, "elsewhere")
		within, cancel := context.WithTimeout(ctx, 24*time.Hour) // it takes a moment of real time, in which hours may pass
		defer cancel()
		for run, err := range s.Watch(within) {
			if err == nil && run == "elsewhere" {
				return
			}
		}
		t.Error("no notice comes through")
	})
}

// notify does what the store of another process does.
func (o *onPostgres) notify(t *testing.T, run string) {
	if err := o.clock.Exec(fmt.Sprintf("SELECT pg_notify('%s', E'another\\n%s')", o.clock.Schema, run)); err != nil {
		t.Error(err)
	}
}
