package memory

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pawl/store"
)

// Whatever one call changes together, each run stands in the heap that its lease names and comes there after its parent: a
// heap that is none any more hides runs that are due.
func TestHeaps(t *testing.T) {
	for seed := range uint64(50) {
		rnd, s, ctx := rand.New(rand.NewPCG(seed, 1)), New(), t.Context()
		after := func() time.Duration { return time.Duration(rnd.IntN(1000)-100) * time.Hour }
		id := func() string { return fmt.Sprint("r", rnd.IntN(40)) }
		for i := range 40 {
			must(t, s.Create(ctx, store.NewRun{ID: fmt.Sprint("r", i), Workflow: "w", Version: "1", Priority: rnd.IntN(3), After: after()}))
		}
		for range 60 {
			var cs []store.Change
			for range 1 + rnd.IntN(12) {
				r := s.runs[id()]
				cs = append(cs, store.Change{
					Run: r.id, Takeover: true, Epoch: r.Epoch, Row: []byte("x"), Version: fmt.Sprint(rnd.IntN(2)), After: after(),
					End: rnd.IntN(9) == 0, Keep: time.Hour, Seen: 1000,
					Letters: []store.Letter{{Run: id(), Add: []store.Row{{Stream: store.Inbox}}}},
				})
			}
			_ = s.Apply(ctx, cs...) // refused where a run is in it twice
			_, _, err := s.Claim(ctx, store.Claim{Worker: "w", Max: rnd.IntN(2), Hold: time.Nanosecond})
			must(t, err)
			s.examine(t)
		}
	}
}

// What is of no run goes when it has long run out: a program that starts many workers in turn would never stop growing.
func TestSweepUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := New(), t.Context()
		for i := range 20 {
			name := fmt.Sprint(i)
			_, _, err := s.Claim(ctx, store.Claim{Worker: name, Kinds: []string{"w@1"}, Hold: time.Minute})
			must(t, err)
			_, err = s.Take(ctx, store.Slot{Limit: name, Holder: "h", Every: time.Minute, Max: 1, Hold: time.Minute})
			must(t, err)
		}
		for _, c := range []struct {
			later         time.Duration
			workers, rest int
		}{
			{0, 20, 20},
			{time.Hour, 20, 0}, // a worker that was only held up is still known
			{2 * time.Minute, 0, 0},
		} {
			time.Sleep(c.later)
			_, err := s.Workers(ctx)
			must(t, err)
			_, err = s.Expire(ctx, 10)
			must(t, err)
			if len(s.workers) != c.workers || len(s.limits) != c.rest {
				t.Errorf("%v later: %d workers, %d limits", c.later, len(s.workers), len(s.limits))
			}
		}
	})
}

func (s *Store) examine(t *testing.T) {
	t.Helper()
	heaps := []*heap{&s.expiry}
	for _, q := range s.queues {
		heaps = append(heaps, &q.ready, &q.later)
	}
	n := 0
	for _, h := range heaps {
		for i, r := range h.rs {
			if n++; r.in != h || r.at != i || r.placed != (placed{r.Due, r.Ready(), r.Expires}) || i > 0 && h.less(r, h.rs[(i-1)/2]) {
				t.Fatalf("%s at %d: %+v", r.id, i, r.Lease)
			}
		}
	}
	for _, r := range s.runs {
		if wanted := r.Expires != 0 || r.Ready() != 0; wanted {
			n--
		}
	}
	if n != 0 {
		t.Fatalf("%d runs too many in the heaps", n)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
