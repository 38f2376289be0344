// Package notice passes the word inside one process that runs have changed.
//
// It never says what changed, keeps nothing for a reader who is not there, and starts no goroutine.
//
// Start reading at Hub.Tell, then Hub.Watch.
package notice

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// A reader that is this far behind is told that any run may have changed.
const most = 1024

// Hub knows the readers. The zero Hub is ready.
type Hub struct {
	mu      sync.Mutex
	readers map[*reader]struct{}
	count   atomic.Int32 // lets Tell pass by without a lock where nobody reads
	err     error        // why the hub was closed
}

type reader struct {
	wake  chan struct{}
	ids   []string
	known map[string]struct{}
	any   bool
}

// Watched tells whether anybody reads.
func (h *Hub) Watched() bool { return h.count.Load() > 0 }

// Tell notes changed runs for every reader; an empty id means any run.
func (h *Hub) Tell(ids ...string) {
	if !h.Watched() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers {
		for _, id := range ids {
			r.add(id)
		}
		r.rouse()
	}
}

func (r *reader) add(id string) {
	if _, ok := r.known[id]; ok || r.any {
		return
	}
	if id == "" || len(r.ids) >= most {
		r.any, r.ids = true, nil
		clear(r.known)
		return
	}
	r.known[id] = struct{}{}
	r.ids = append(r.ids, id)
}

func (r *reader) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Close ends every Watch with err.
func (h *Hub) Close(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
	for r := range h.readers {
		r.rouse()
	}
}

// Watch reads from now on, also before the first step of the loop, until ctx ends or the loop is left. While it waits it
// calls poll every so often, if there is one: that is how changes of other processes are noticed.
func (h *Hub) Watch(ctx context.Context, every time.Duration, poll func(context.Context) error) iter.Seq2[string, error] {
	r := &reader{wake: make(chan struct{}, 1), known: map[string]struct{}{}}
	h.mu.Lock()
	if h.readers == nil {
		h.readers = map[*reader]struct{}{}
	}
	h.readers[r] = struct{}{}
	h.count.Store(int32(len(h.readers)))
	h.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { h.leave(r) }) // for one who never comes to the loop
	return func(yield func(string, error) bool) {
		defer h.leave(r)
		defer stop()
		var tick <-chan time.Time
		if poll != nil {
			t := time.NewTicker(every)
			defer t.Stop()
			tick = t.C
		}
		for {
			ids, err := h.take(r)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield("", err)
				return
			}
			for _, id := range ids {
				if !yield(id, nil) || ctx.Err() != nil {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-r.wake:
			case <-tick:
				_ = poll(ctx) // a fault shows at the next call of the store; the reader goes on
			}
		}
	}
}

// take empties what the reader has been told.
func (h *Hub) take(r *reader) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := r.ids
	if r.any {
		ids = []string{""}
	}
	r.any, r.ids = false, nil
	clear(r.known)
	return ids, h.err
}

func (h *Hub) leave(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.readers, r)
	h.count.Store(int32(len(h.readers)))
}
