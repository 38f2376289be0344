package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"pawl"
	"pawl/store"
)

// hooked is a store with functions of a test around some of its methods: each is given what the store would do.
type hooked struct {
	store.Store
	apply  func(cs []store.Change, do func() error) error
	append func(do func() error) error
	read   func(q store.Query, do func() error) error
	take   func(do func() error) error
	renew  func(do func() error) error
	claim  func()
}

func (h *hooked) Apply(ctx context.Context, cs ...store.Change) error {
	if h.apply == nil {
		return h.Store.Apply(ctx, cs...)
	}
	return h.apply(cs, func() error { return h.Store.Apply(ctx, cs...) })
}

func (h *hooked) Append(ctx context.Context, l store.Lease, b store.Batch) (r store.Receipt, err error) {
	do := func() (err error) { r, err = h.Store.Append(ctx, l, b); return err }
	if h.append == nil {
		err = do()
		return r, err
	}
	err = h.append(do)
	return r, err
}

func (h *hooked) Read(ctx context.Context, s store.Scope, run string, q store.Query) (rows []store.Row, err error) {
	do := func() (err error) { rows, err = h.Store.Read(ctx, s, run, q); return err }
	if h.read == nil {
		err = do()
	} else {
		err = h.read(q, do)
	}
	return rows, err
}

func (h *hooked) Take(ctx context.Context, s store.Slot) (d time.Duration, err error) {
	do := func() (err error) { d, err = h.Store.Take(ctx, s); return err }
	if h.take == nil {
		err = do()
	} else {
		err = h.take(do)
	}
	return d, err
}

func (h *hooked) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) (held []store.Held, err error) {
	do := func() (err error) { held, err = h.Store.Renew(ctx, worker, ls, hold); return err }
	if h.renew == nil || len(ls) == 0 {
		err = do()
	} else {
		err = h.renew(do)
	}
	return held, err
}

func (h *hooked) Claim(ctx context.Context, c store.Claim) ([]store.Run, time.Duration, error) {
	if h.claim != nil {
		h.claim()
	}
	return h.Store.Claim(ctx, c)
}

// first is a hook that answers the first time with an error, and does nothing then.
func first(err error) func(func() error) error {
	var n atomic.Int64
	return func(do func() error) error {
		if n.Add(1) == 1 {
			return err
		}
		return do()
	}
}

// obedient is a recorded call that takes so long and obeys its context; it gives how often it was made.
func obedient(ctx context.Context, key string, long time.Duration, made *tally, o ...pawl.CallOptions) (int, error) {
	return pawl.Do(ctx, key, func(ctx context.Context) (int, error) {
		n := made.add(key)
		select {
		case <-time.After(long):
			return n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}, o...)
}

// both runs two branches of a node at once.
func both(w work, a, b func() error) (work, error) {
	errs := make(chan error, 2)
	go func() { errs <- a() }()
	go func() { errs <- b() }()
	return w, errors.Join(<-errs, <-errs)
}
