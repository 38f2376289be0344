package engine

import (
	"context"
	"iter"
	"time"

	"pawl"
	"pawl/internal/machine"
	"pawl/store"
)

// events yields a run's events from the store, in order and without a gap, then what comes, until the run has ended.
// Deltas of this process come in between. It is false when the reader has enough, or was told of an error.
func (e *Engine) events(ctx context.Context, s store.Scope, run string, after int64, yield func(pawl.Logged, error) bool) bool {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	live, stop := e.hub.subscribe(run)
	defer stop()
	notices := make(chan struct{}, 1)
	done := make(chan struct{})
	ids := e.store.Watch(inner) // from here on: before anything is read
	go func() {
		defer close(done)
		watch(inner, ids, run, notices)
	}()
	defer func() { cancel(); <-done }()
	look := true
	for {
		ended := false
		if look { // before the events are read: an end that is seen here is later than every one of them
			r, err := e.store.Get(ctx, s, run)
			if err != nil {
				yield(pawl.Logged{}, coded("events", run, err))
				return false
			}
			ended = r.Ended
		}
		var end, ok bool
		before := after
		after, end, ok = e.lasting(ctx, s, run, before, live, yield)
		switch {
		case !ok || ended:
			return ok
		case end || !look && after == before: // the last event may have been read, or what changed has none
			look = true
			continue
		}
		if look, ok = e.live(ctx, run, live, notices, yield); !ok {
			return false
		}
	}
}

// lasting yields the events that are stored, behind the deltas that have come by then, and says whether one of them tells of an
// end. It is not ok when the reader has enough, or was told of an error.
func (e *Engine) lasting(ctx context.Context, s store.Scope, run string, after int64, deltas <-chan pawl.Logged, yield func(pawl.Logged, error) bool) (_ int64, end, ok bool) {
	const page = 500
	for {
		rows, err := e.store.Read(ctx, s, run, store.Query{Stream: store.Event, After: after, Limit: page})
		if !pending(deltas, yield) {
			return after, false, false
		}
		for i := 0; i < len(rows) && err == nil; i++ {
			var ev event
			if ev, err = eventOf(rows[i]); err != nil {
				break
			}
			if !yield(pawl.Logged{Seq: rows[i].Seq, Type: ev.Type, Run: run, At: rows[i].At, Data: ev.Data}, nil) {
				return after, false, false
			}
			after, end = rows[i].Seq, ev.Type == machine.EventEnded || ev.Type == machine.EventMerged
		}
		if err != nil {
			yield(pawl.Logged{}, coded("events", run, err))
			return after, false, false
		}
		if len(rows) < page {
			return after, end, true
		}
	}
}

// live yields deltas until there may be something stored, and says whether that was only a guess. It is not ok when the reader
// has enough, or ctx is done.
func (e *Engine) live(ctx context.Context, run string, deltas <-chan pawl.Logged, notices <-chan struct{}, yield func(pawl.Logged, error) bool) (guess, ok bool) {
	t := time.NewTimer(e.c.Poll)
	defer t.Stop()
	for {
		select {
		case <-notices:
			return false, true
		case <-t.C:
			return true, true
		case l := <-deltas:
			if !yield(l, nil) {
				return false, false
			}
		case <-ctx.Done():
			yield(pawl.Logged{}, coded("events", run, context.Cause(ctx)))
			return false, false
		}
	}
}

// pending yields the deltas that have come.
func pending(deltas <-chan pawl.Logged, yield func(pawl.Logged, error) bool) bool {
	for {
		select {
		case l := <-deltas:
			if !yield(l, nil) {
				return false
			}
		default:
			return true
		}
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
