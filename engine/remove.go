package engine

import (
	"context"
	"errors"

	"pawl/store"
)

func (r *runs) Remove(ctx context.Context, id string) error {
	return coded("remove", id, r.remove(ctx, id))
}

// remove follows no merge, and reads no record: what is damaged can be removed too.
func (r *runs) remove(ctx context.Context, id string) error {
	run, err := r.e.store.Get(ctx, r.scope(), id)
	if err != nil {
		return err
	}
	if !run.Ended {
		return conflict("run %s has not ended (%s): cancel it first", run.ID, run.Status)
	}
	if run.Parent != "" { // a retry of the parent would look for it
		switch _, err := r.e.store.Get(ctx, everything, run.Parent); {
		case err == nil:
			return conflict("run %s is a child of run %s, and is removed with it", run.ID, run.Parent)
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
	}
	err = r.e.store.Delete(ctx, run.ID, encode(audit{By: r.c.User, Did: "remove", What: run.Kind()}))
	if errors.Is(err, store.ErrStale) {
		return conflict("run %s, or a child of it, has not ended: cancel it first", run.ID)
	}
	return err
}
