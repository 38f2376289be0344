package engine

import (
	"context"
	"errors"
	"slices"

	"pawl"
	"pawl/internal/machine"
	"pawl/store"
)

// Ailing are runs that have not ended and that somebody should look at.
type Ailing struct {
	Orphaned []string // their worker is gone, its lease has run out, and nobody has taken them over yet
	Stuck    []string // nobody holds them, and nothing will ever wake them
}

// Examine looks for ailing runs among those that a caller sees.
func (e *Engine) Examine(ctx context.Context, c pawl.Caller) (Ailing, error) {
	out, err := e.examine(ctx, (&runs{e: e, c: c}).scope())
	return out, coded("examine", "", err)
}

func (e *Engine) examine(ctx context.Context, s store.Scope) (out Ailing, err error) {
	workers, err := e.store.Workers(ctx)
	if err != nil {
		return out, err
	}
	held := false
	page := store.Page{Limit: 200}
	for {
		rs, err := e.store.List(ctx, s, store.Filter{Statuses: liveStatuses, Held: &held}, page)
		if err != nil {
			return out, err
		}
		for _, r := range rs {
			alive := func(w store.Worker) bool { return w.ID == r.Worker }
			switch stuck, err := e.stuck(ctx, r); {
			case err != nil:
				return out, err
			case stuck:
				out.Stuck = append(out.Stuck, r.ID)
			case !r.Until.IsZero() && !slices.ContainsFunc(workers, alive):
				out.Orphaned = append(out.Orphaned, r.ID)
			}
		}
		if len(rs) < page.Limit {
			return out, nil
		}
		page.After = rs[len(rs)-1].ID
	}
}

// stuck tells whether nothing will ever wake a run that nobody holds: it is not due, not parked for its version, nobody can
// answer it, and none of its children goes on.
func (e *Engine) stuck(ctx context.Context, r store.Run) (bool, error) {
	if !r.Due.IsZero() || r.Outcome == machine.OutcomeHeld {
		return false, nil
	}
	open, err := e.store.Questions(ctx, everything, store.Filter{Run: r.ID, Open: true}, store.Page{Limit: 1})
	if err != nil || len(open) > 0 {
		return false, err
	}
	kids := false
	err = e.each(ctx, store.Filter{Parent: r.ID}, func(c store.Run) error {
		on, err := e.goesOn(ctx, c)
		kids = kids || on
		return err
	})
	if err != nil || kids {
		return false, err
	}
	now, err := e.store.Get(ctx, everything, r.ID) // something may have come while we looked
	return err == nil && !now.Ended && now.Due.IsZero() && now.Epoch == r.Epoch && now.Inbox == r.Inbox, gone(err)
}

// goesOn tells whether a child has not ended, or the run that it was merged into has not.
func (e *Engine) goesOn(ctx context.Context, r store.Run) (bool, error) {
	for range 10 {
		if !r.Ended {
			return true, nil
		}
		rec, _, err := parts(r)
		if err != nil || rec.Merged == "" {
			return false, nil // one that cannot be read has ended all the same
		}
		if r, err = e.store.Get(ctx, everything, rec.Merged); err != nil {
			return false, gone(err)
		}
	}
	return false, nil
}

// gone is nil where there is only no such run any more.
func gone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
