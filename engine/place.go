package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pawl/store"
)

// claim leases up to free due runs. A workflow whose runs in hand are limited comes first, one place and one run at a time:
// the place is taken before the claim, so that no run is claimed only to be given back.
func (w *worker) claim(ctx context.Context, free int) (rs []placed, next time.Duration, err error) {
	next = -1
	sooner := func(d time.Duration) {
		if d >= 0 && (next < 0 || d < next) {
			next = d
		}
	}
	for _, l := range w.e.limited {
		got, d, err := w.claimLimited(ctx, l, free-len(rs))
		rs = append(rs, got...)
		if err != nil {
			return rs, next, err
		}
		sooner(d)
	}
	plain, d, err := w.e.store.Claim(ctx, store.Claim{Worker: w.id, Kinds: w.e.free, Serves: w.e.kinds, Root: w.root, Max: max(free-len(rs), 0), Hold: w.e.c.Lease})
	if err != nil {
		return rs, next, err
	}
	sooner(d)
	for _, r := range plain {
		rs = append(rs, placed{run: r})
	}
	return rs, next, nil
}

// placed is a claimed run with the place that it holds among the runs of its workflow, if those are limited.
type placed struct {
	run   store.Run
	place store.Slot // Limit empty: none
}

// limited is a workflow of which only so many runs are in hand at once, over all workers of the store.
type limited struct {
	name  string
	kinds []string
	max   int
}

// claimLimited looks whether a run is due before it takes a place: an idle worker writes nothing.
func (w *worker) claimLimited(ctx context.Context, l limited, free int) (rs []placed, next time.Duration, err error) {
	for len(rs) < free {
		_, next, err := w.e.store.Claim(ctx, store.Claim{Worker: w.id, Kinds: l.kinds, Serves: w.e.kinds, Root: w.root, Hold: w.e.c.Lease})
		if err != nil || next != 0 {
			return rs, next, err
		}
		w.mu.Lock()
		w.taken++
		place := store.Slot{Limit: "workflow/" + l.name, Holder: fmt.Sprintf("%s/%d", w.id, w.taken), Max: l.max, Hold: w.e.c.Lease}
		w.mu.Unlock()
		d, err := w.e.store.Take(ctx, place)
		if err != nil || d > 0 {
			return rs, d, err
		}
		got, _, err := w.e.store.Claim(ctx, store.Claim{Worker: w.id, Kinds: l.kinds, Serves: w.e.kinds, Root: w.root, Max: 1, Hold: w.e.c.Lease})
		if err != nil || len(got) == 0 { // another worker was faster
			w.e.vacate(place)
			return rs, 0, err
		}
		rs = append(rs, placed{got[0], place})
	}
	return rs, 0, nil
}

// vacate gives a place back. Where the store does not take it, the place is forgotten after a lease.
func (e *Engine) vacate(p store.Slot) {
	if p.Limit == "" {
		return
	}
	e.c.Trace.fault("give a place in "+p.Limit, e.store.Give(context.Background(), p.Limit, p.Holder))
}

// keepPlaces renews the places of the runs in hand, as their leases are renewed.
func (w *worker) keepPlaces(ctx context.Context) {
	w.mu.Lock()
	var places []store.Slot
	for _, h := range w.hands {
		if h.place.Limit != "" {
			places = append(places, h.place)
		}
	}
	w.mu.Unlock()
	for _, p := range places {
		if _, err := w.e.store.Take(ctx, p); err != nil && ctx.Err() == nil {
			w.e.c.Trace.fault("keep a place in "+p.Limit, err)
		}
	}
}

// limit parts what this engine can run into kinds with a limit of runs in hand and those without.
func (e *Engine) limit() error {
	kinds := map[string][]string{}
	e.free = []string{} // nil would mean every kind
	for _, k := range e.kinds {
		name := e.byKind[k].Shape.Name
		if e.c.Concurrency[name] > 0 {
			kinds[name] = append(kinds[name], k)
		} else {
			e.free = append(e.free, k)
		}
	}
	for name, most := range e.c.Concurrency {
		if most < 1 {
			return fmt.Errorf("engine: concurrency of workflow %q: %d", name, most)
		}
		if len(kinds[name]) > 0 { // another program of this store may have the others
			e.limited = append(e.limited, limited{name, kinds[name], most})
		}
	}
	slices.SortFunc(e.limited, func(a, b limited) int { return slices.Compare(a.kinds, b.kinds) })
	return nil
}
