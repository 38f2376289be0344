package faults

import (
	"context"
	"iter"
	"time"

	"pawl/store"
)

// read makes a call that writes nothing of a run.
func (s *Store) read(call func() error) error {
	if err := s.alive(); err != nil {
		return err
	}
	if s.Plan.Read() == Refuse {
		s.Seen.fault()
		return store.ErrUnavailable
	}
	err := call()
	if dead := s.alive(); dead != nil {
		return dead
	}
	return err
}

// Get reads a run.
func (s *Store) Get(ctx context.Context, sc store.Scope, run string) (r store.Run, err error) {
	err = s.read(func() (err error) { r, err = s.Real.Get(ctx, sc, run); return err })
	return r, err
}

// List pages through runs.
func (s *Store) List(ctx context.Context, sc store.Scope, f store.Filter, p store.Page) (rs []store.Run, err error) {
	err = s.read(func() (err error) { rs, err = s.Real.List(ctx, sc, f, p); return err })
	return rs, err
}

// Read reads a stream.
func (s *Store) Read(ctx context.Context, sc store.Scope, run string, q store.Query) (rows []store.Row, err error) {
	err = s.read(func() (err error) { rows, err = s.Real.Read(ctx, sc, run, q); return err })
	return rows, err
}

// Questions pages through questions.
func (s *Store) Questions(ctx context.Context, sc store.Scope, f store.Filter, p store.Page) (qs []store.Question, err error) {
	err = s.read(func() (err error) { qs, err = s.Real.Questions(ctx, sc, f, p); return err })
	return qs, err
}

// Workers lists the live workers.
func (s *Store) Workers(ctx context.Context) (ws []store.Worker, err error) {
	err = s.read(func() (err error) { ws, err = s.Real.Workers(ctx); return err })
	return ws, err
}

// Take uses a shared limit.
func (s *Store) Take(ctx context.Context, slot store.Slot) (d time.Duration, err error) {
	err = s.read(func() (err error) { d, err = s.Real.Take(ctx, slot); return err })
	return d, err
}

// Give returns a place in a shared limit.
func (s *Store) Give(ctx context.Context, limit, holder string) error {
	return s.read(func() error { return s.Real.Give(ctx, limit, holder) })
}

// Now is the store's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.alive(); err != nil {
		return time.Time{}, err
	}
	return s.Real.Now(ctx)
}

// Watch yields each notice twice, and one about nothing before the first: a notice is only a reason to look. Where the real
// store's own notices are not to be waited for (Told), it is told of what any process of the trial has written.
func (s *Store) Watch(ctx context.Context) iter.Seq2[string, error] {
	inner := s.Real.Watch
	if s.Told {
		inner = s.Seen.watch
	}
	notices := inner(ctx)
	return func(yield func(string, error) bool) {
		if !yield("", nil) {
			return
		}
		for id, err := range notices {
			if !yield(id, err) || err == nil && !yield(id, nil) {
				return
			}
		}
	}
}

// watch yields a notice about nothing in particular whenever a process has written.
func (w *Witness) watch(ctx context.Context) iter.Seq2[string, error] {
	bell := make(chan struct{}, 1)
	w.mu.Lock()
	w.bells[bell] = true
	w.mu.Unlock()
	return func(yield func(string, error) bool) {
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.bells, bell)
		}()
		for {
			select {
			case <-bell:
				if !yield("", nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// ring tells the watchers.
func (w *Witness) ring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for b := range w.bells {
		select {
		case b <- struct{}{}:
		default:
		}
	}
}

// Check examines the store.
func (s *Store) Check(ctx context.Context) ([]store.Finding, error) { return s.Real.Check(ctx) }

// Close leaves the real store open: others have it too.
func (s *Store) Close() error { return nil }
