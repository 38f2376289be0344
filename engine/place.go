package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pawl"
	"pawl/store"
)

// claim leases up to free due runs, in the order that the store has for all of them. A run of a workflow whose runs in hand are
// limited needs a place, which is taken before: so no run is claimed only to be given back. While there is such a place only
// one run is claimed at a time, as the next may be of the same workflow.
func (w *worker) claim(ctx context.Context, free int) (rs []placed, next time.Duration, err error) {
	next = -1
	sooner := func(d time.Duration) {
		if d >= 0 && (next < 0 || d < next) {
			next = d
		}
	}
	places := map[string]store.Slot{} // by workflow
	defer func() {
		for _, p := range places {
			w.e.vacate(p)
		}
	}()
	var asked []limited // of which there may be more to claim
	if free > 0 {
		asked = w.e.limited
	}
	for {
		c := w.wants(w.e.free, max(free-len(rs), 0))
		var open []limited
		for _, l := range asked {
			d, err := w.place(ctx, l, places)
			if err != nil {
				return rs, next, err
			}
			if _, ok := places[l.name]; !ok {
				sooner(d)
				continue
			}
			open = append(open, l)
			c.Kinds = append(slices.Clip(c.Kinds), l.kinds...)
		}
		if asked = open; len(open) > 0 {
			c.Max = 1
		}
		got, d, err := w.e.store.Claim(ctx, c)
		if err != nil {
			return rs, next, err
		}
		for _, r := range got {
			rs = append(rs, placed{r, places[r.Workflow]})
			delete(places, r.Workflow)
		}
		if len(open) == 0 || len(got) == 0 || len(rs) == free {
			sooner(d)
			return rs, next, nil
		}
	}
}

func (w *worker) wants(kinds []string, most int) store.Claim {
	return store.Claim{Worker: w.id, Kinds: kinds, Serves: w.e.kinds, Root: w.root, Max: most, Hold: w.e.c.Lease}
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

// place sees to it that there is a place for a workflow of which a run is due; else it says how long to wait before asking again. It
// looks before it takes one: an idle worker writes nothing.
func (w *worker) place(ctx context.Context, l limited, places map[string]store.Slot) (time.Duration, error) {
	if _, ok := places[l.name]; ok {
		return 0, nil
	}
	_, next, err := w.e.store.Claim(ctx, w.wants(l.kinds, 0))
	if err != nil || next != 0 {
		return next, err
	}
	w.mu.Lock()
	w.taken++
	p := store.Slot{Limit: "workflow/" + l.name, Holder: fmt.Sprintf("%s/%d", w.id, w.taken), Max: l.max, Hold: w.e.c.Lease}
	w.mu.Unlock()
	wait, err := w.e.store.Take(ctx, p)
	if err != nil || wait > 0 {
		return wait, err
	}
	places[l.name] = p
	return 0, nil
}

// vacate gives a place back. Where the store does not take it, the place is forgotten after a lease.
func (e *Engine) vacate(p store.Slot) {
	if p.Limit == "" {
		return
	}
	e.c.Trace.fault("give a place in "+p.Limit, e.store.Give(context.Background(), p.Limit, p.Holder))
}

// keepPlaces renews the places of the runs in hand, as their leases are renewed. Where one was forgotten, since the process or the
// store stood still, and another run has it by now, the run is given back.
func (w *worker) keepPlaces(ctx context.Context) {
	var hands []*hand
	w.mu.Lock()
	for _, h := range w.hands {
		if h.place.Limit != "" {
			hands = append(hands, h)
		}
	}
	w.mu.Unlock()
	for _, h := range hands {
		wait, err := w.e.store.Take(ctx, h.place)
		w.mu.Lock()
		gone := w.hands[h.run.ID] != h
		w.mu.Unlock()
		switch {
		case gone: // it may have given its place back before this took it again
			w.e.vacate(h.place)
		case err == nil && wait > 0:
			h.interrupt(pawl.ErrDrained)
		case err != nil && ctx.Err() == nil:
			w.e.c.Trace.fault("keep a place in "+h.place.Limit, err)
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
