package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"pawl"
	"pawl/internal/machine"
	"pawl/store"
)

// sweep parks due runs whose version no worker has, though this engine knows their workflow, and wakes parked ones that it does
// have.
func (e *Engine) sweep(ctx context.Context, root string) error {
	workers, err := e.store.Workers(ctx)
	if err != nil {
		return err
	}
	alive := map[string]bool{}
	for _, w := range workers {
		for _, kind := range w.Kinds {
			alive[kind] = true
		}
	}
	var faults []error
	still := map[string]bool{}
	for name, versions := range e.versions() {
		gone := store.Filter{Workflow: name, Root: root, Statuses: liveStatuses, NotVersions: versions}
		faults = append(faults, e.each(ctx, gone, func(r store.Run) error {
			if r.Due.IsZero() || alive[r.Kind()] {
				return nil
			}
			return e.holdRun(ctx, r)
		}))
		held := store.Filter{Workflow: name, Root: root, Statuses: liveStatuses, Outcome: machine.OutcomeHeld}
		faults = append(faults, e.each(ctx, held, func(r store.Run) error {
			still[r.ID] = true
			rec, _, err := parts(r)
			if p := e.byKind[r.Kind()]; err != nil || p == nil || !p.fits(r, rec) || !r.Due.IsZero() || e.wasHeldHere(r) {
				return err
			}
			err = e.store.Apply(ctx, store.Change{Run: r.ID, Letters: []store.Letter{letter(r.ID, machine.Letter{Wake: "version"})}})
			e.kick()
			return err
		}))
	}
	if err := errors.Join(faults...); err != nil || root != "" {
		return err
	}
	e.forget(still)
	return nil
}

// forget keeps in mind only those runs that are still held. One that was held since the list was read is tried once more.
func (e *Engine) forget(still map[string]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.held, func(run string, _ int64) bool { return !still[run] })
}

// heldHere remembers that this engine could not go on with a run, so that it is not woken for it again and again.
func (e *Engine) heldHere(r store.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held[r.ID] = r.Epoch
}

func (e *Engine) wasHeldHere(r store.Run) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	epoch, ok := e.held[r.ID]
	return ok && epoch == r.Epoch
}

// tidy is how often a worker looks for what its store has to be rid of.
const tidy = time.Minute

// expires removes what has outlived its retention, beside all that a worker does: where that is much, no run waits for it.
func (e *Engine) expires(ctx context.Context) {
	for ; ctx.Err() == nil; wait(ctx, tidy, nil) {
		if err := e.expire(ctx); ctx.Err() == nil {
			e.c.Trace.fault("expire", err)
		}
	}
}

// expire removes a bounded number of runs.
func (e *Engine) expire(ctx context.Context) error {
	for range 10 {
		n, err := e.store.Expire(ctx, 100)
		if err != nil || n < 100 {
			return err
		}
	}
	return nil
}

// each calls f for every run that a filter lets through.
func (e *Engine) each(ctx context.Context, f store.Filter, do func(store.Run) error) error {
	var faults []error
	page := store.Page{Limit: 200}
	for {
		rs, err := e.store.List(ctx, everything, f, page)
		if err != nil {
			return err
		}
		for _, r := range rs {
			faults = append(faults, do(r))
		}
		if len(rs) < page.Limit {
			return errors.Join(faults...)
		}
		page.After = rs[len(rs)-1].ID
	}
}

// versions are those that this engine can go on with, by workflow.
func (e *Engine) versions() map[string][]string {
	out := map[string][]string{}
	for _, k := range e.kinds {
		name, version, _ := strings.Cut(k, "@")
		out[name] = append(out[name], version)
	}
	return out
}

// fits reports whether a program can go on with a run as it stands.
func (p *program) fits(r store.Run, rec *machine.Record) bool {
	return r.Version != p.Shape.Version || rec.Fingerprint == p.Shape.Fingerprint
}

// holdRun claims a run whose version is gone, and parks it with that reason.
func (e *Engine) holdRun(ctx context.Context, r store.Run) error {
	w := e.newWorker(r.Root)
	defer w.forget()
	defer w.leave(context.WithoutCancel(ctx)) // it must not pass for one that has the version
	rs, _, err := e.store.Claim(ctx, store.Claim{Worker: w.id, Kinds: []string{r.Kind()}, Run: r.ID, Max: 1, Hold: e.c.Lease})
	if err != nil || len(rs) == 0 {
		return err
	}
	h := newHand(w, rs[0], w.began)
	if h.rec, h.head, err = parts(rs[0]); err != nil {
		return err
	}
	if err := h.receive(ctx); err != nil {
		return err
	}
	if h.rec.Cancel != nil {
		return letGo(h.cancelled(ctx, nil, h.tick(ctx, nil)))
	}
	return letGo(h.hold(ctx, fmt.Sprintf("version %s of %s is not registered here (registered: %s)", r.Version, r.Workflow, strings.Join(e.versions()[r.Workflow], ", "))))
}

// letGo is nil where the run is out of hand, as it should be.
func letGo(err error) error {
	if errors.Is(err, errLetGo) || errors.Is(err, pawl.ErrFenced) {
		return nil
	}
	return err
}
