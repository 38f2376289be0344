package pawltest

import (
	"context"
	"errors"
	"sync"

	"pawl/internal/host"
	"pawl/store"
)

// faults hands out the scripted failures of calls.
type faults struct {
	mu   sync.Mutex
	left map[string][]error
	used map[string]int
}

// next is the fault of the next physical try of a call.
func (f *faults) next(key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.used[key]
	if n >= len(f.left[key]) {
		return nil
	}
	if f.used == nil {
		f.used = map[string]int{}
	}
	f.used[key]++
	return f.left[key][n]
}

// around puts the faults between node code and the engine of one worker.
func (f *faults) around(m *mortal, outer func(host.Host) host.Host) func(host.Host) host.Host {
	if len(f.left) == 0 {
		return outer
	}
	return func(h host.Host) host.Host {
		if outer != nil {
			h = outer(h)
		}
		return &faulty{Host: h, f: f, m: m}
	}
}

// faulty is a host whose calls fail as it was scripted.
type faulty struct {
	host.Host
	f *faults
	m *mortal
}

func (h *faulty) Call(ctx context.Context, c host.Call, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	return h.Host.Call(ctx, c, func(ctx context.Context) ([]byte, error) {
		fault := h.f.next(c.Key)
		var p *panics
		switch {
		case fault == nil:
			return fn(ctx)
		case errors.Is(fault, ErrCrash):
			return nil, h.crash()
		case errors.Is(fault, ErrLost):
			_, _ = fn(ctx) // it was made, and nobody will know
			return nil, h.crash()
		case errors.As(fault, &p):
			panic(p.text)
		}
		return nil, fault
	})
}

// crash drops the worker and hangs as it does.
func (h *faulty) crash() error {
	h.m.die()
	if err := h.m.alive(); err != nil {
		return err
	}
	return store.ErrUnavailable
}
