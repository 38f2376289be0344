package engine

import (
	"context"
	"iter"
	"time"

	"pawl"
	"pawl/store"
)

// events yields a run's events from the store, in order and without a gap, then what comes, until the run has ended.
// Deltas of this process come in between.
func (e *Engine) events(ctx context.Context, s store.Scope, run string, after int64, yield func(pawl.Logged, error) bool) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	live, stop := e.hub.subscribe(run)
	defer stop()
	notices := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		watch(inner, e.store.Watch(inner), run, notices)
	}()
	defer func() { cancel(); <-done }()
	for {
		// Read in this order: an end that is seen here is later than every event that is read next.
		r, err := e.store.Get(ctx, s, run)
		if err != nil {
			yield(pawl.Logged{}, coded("events", run, err))
			return
		}
		n := 0
		for {
			rows, err := e.store.Read(ctx, s, run, store.Query{Stream: store.Event, After: after, Limit: 500})
			if err != nil {
				yield(pawl.Logged{}, coded("events", run, err))
				return
			}
			for _, row := range rows {
				var ev event
				if err := unmarshal(row, &ev); err != nil {
					yield(pawl.Logged{}, coded("events", run, err))
					return
				}
				if !yield(pawl.Logged{Seq: row.Seq, Type: ev.Type, Run: run, At: row.At, Data: ev.Data}, nil) {
					return
				}
				after = row.Seq
			}
			if n += len(rows); len(rows) < 500 {
				break
			}
		}
		if r.Ended {
			return
		}
		t := time.NewTimer(e.c.Poll)
		select {
		case <-notices:
		case <-t.C:
		case l := <-live:
			if !yield(l, nil) {
				t.Stop()
				return
			}
		case <-ctx.Done():
			t.Stop()
			yield(pawl.Logged{}, coded("events", run, context.Cause(ctx)))
			return
		}
		t.Stop()
	}
}

// watch signals when a run may have changed. A watch that fails is made up for by polling.
func watch(ctx context.Context, ids iter.Seq2[string, error], run string, notices chan struct{}) {
	for id, err := range ids {
		if err != nil || ctx.Err() != nil {
			return
		}
		if id == run || id == "" {
			signal(notices)
		}
	}
}
