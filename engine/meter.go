package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"pawl"
	"pawl/store"
)

// charges are those of a budget, in the run and in every ancestor, in a fixed order.
func (v *visit) charges(b pawl.Budget) (out []store.Charge) {
	meters := make([]string, 0, len(b))
	for m := range b {
		meters = append(meters, m)
	}
	slices.Sort(meters)
	for _, m := range meters {
		if b[m] == 0 {
			continue
		}
		out = append(out, store.Charge{Run: v.h.run.ID, Meter: m, N: b[m]})
		for _, a := range v.h.head.Ancestors {
			out = append(out, store.Charge{Run: a, Meter: m, N: b[m]})
		}
	}
	return out
}

// Charge counts now and durably, inside a call only.
func (v *visit) Charge(ctx context.Context, meter string, n int64) error {
	s := scopeOf(ctx)
	if s == nil {
		return pawl.ErrNotInCall
	}
	if err := s.admit(ctx, meter); err != nil {
		return err
	}
	_, err := v.record(nil, v.charges(pawl.Budget{meter: n}))
	return err
}

// admit waits for room in the shared limit of a meter, if it has one. It is the call that waits, since what it has done so far
// cannot be parked. Each charge is one use, and keeps its place until the next one of that meter, or the end of the call.
func (s *scope) admit(ctx context.Context, meter string) error {
	l, limited := s.v.h.e.c.Limits[meter]
	if !limited || under(s.call, meter) {
		return nil
	}
	s.mu.Lock()
	s.turns++
	key, before := fmt.Sprintf("%s/%d", s.call.Key, s.turns), s.places[meter]
	delete(s.places, meter)
	s.mu.Unlock()
	if before != nil {
		before()
	}
	give, err := s.v.slot(ctx, key, meter, l, func(d time.Duration) error {
		wait(ctx, d, nil)
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.left: // its code was left behind, and goes on
		give()
		return pawl.ErrNotInCall
	case s.places == nil:
		s.places = map[string]func(){}
	}
	if other := s.places[meter]; other != nil { // of a charge at the same time
		s.places[meter] = func() { other(); give() }
	} else {
		s.places[meter] = give
	}
	return nil
}

// leave gives the places of a call that has ended back.
func (s *scope) leave() {
	s.mu.Lock()
	places := s.places
	s.places, s.left = nil, true
	s.mu.Unlock()
	for _, give := range places {
		give()
	}
}

// Hold reserves; what settle gives back is recorded with the call's end, and lost with a crash: then it counts in full.
func (v *visit) Hold(ctx context.Context, meter string, n int64) (func(int64), error) {
	s := scopeOf(ctx)
	if s == nil {
		return nil, pawl.ErrNotInCall
	}
	if err := v.Charge(ctx, meter, n); err != nil {
		return nil, err
	}
	var once sync.Once
	return func(spent int64) {
		once.Do(func() {
			back := v.charges(pawl.Budget{meter: n - min(max(spent, 0), n)})
			for i := range back {
				back[i].N = -back[i].N
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.back = append(s.back, back...)
		})
	}, nil
}

// Cap lowers a cap of the run, now and durably.
func (v *visit) Cap(ctx context.Context, meter string, n int64) error {
	if err := v.open(); err != nil {
		return err
	}
	if _, err := v.append(store.Batch{Caps: []store.Counter{{Meter: meter, Cap: n}}}); err != nil {
		return err
	}
	if meter != pawl.MeterRuntime {
		return nil
	}
	return v.runtime(v.h.lower(n))
}

// lower lowers the cap of the runtime budget, unless n is below zero, and gives it: below zero there is none.
func (h *hand) lower(n int64) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n >= 0 && (h.runtimeCap < 0 || n < h.runtimeCap) {
		h.runtimeCap = n
	}
	return h.runtimeCap
}

// open is nil while the visit is.
func (v *visit) open() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.why != nil {
		return v.refusal()
	}
	return nil
}

// Remaining reads the counters of the run and of its ancestors.
func (v *visit) Remaining(ctx context.Context, meter string) (int64, error) {
	least := int64(-1)
	for _, id := range append([]string{v.h.run.ID}, v.h.head.Ancestors...) {
		r, err := v.h.e.store.Get(ctx, everything, id)
		if err != nil {
			return 0, coded("remaining", id, err)
		}
		for _, c := range r.Counters {
			if c.Meter != meter || c.Cap < 0 {
				continue
			}
			left := c.Cap - c.Used
			if meter == pawl.MeterRuntime {
				rec, _, err := parts(r)
				if err != nil {
					return 0, err
				}
				left = c.Cap - rec.Used(v.h.e.now(ctx)).Milliseconds()
			}
			if left = max(left, 0); least < 0 || left < least {
				least = left
			}
		}
	}
	return least, nil
}
