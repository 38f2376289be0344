package engine

import (
	"context"

	"pawl/store"
)

// used counts what a recorded call was charged, once.
func (r *replaying) used(what string, charge map[string]int64, times int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.meters == nil {
		r.meters, r.counted = map[string]*store.Counter{}, map[string]bool{}
		for _, c := range r.p.caps(r.head.Budget) {
			r.meters[c.Meter] = &store.Counter{Meter: c.Meter, Cap: c.Cap}
		}
	}
	if r.counted[what] {
		return
	}
	r.counted[what] = true
	for m, n := range charge {
		if r.meters[m] == nil {
			r.meters[m] = &store.Counter{Meter: m, Cap: -1}
		}
		r.meters[m].Used += n * times
	}
}

// charged counts what a child has used.
func (r *replaying) charged(child store.Run) {
	all := map[string]int64{}
	for _, c := range child.Counters {
		all[c.Meter] = c.Used
	}
	r.used("child "+child.ID, all, 1)
}

// Cap lowers a cap for Remaining.
func (x *echo) Cap(_ context.Context, meter string, n int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refusal(); err != nil {
		return err
	}
	x.r.used("", nil, 0)
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	c := x.r.meters[meter]
	if c == nil {
		c = &store.Counter{Meter: meter, Cap: -1}
		x.r.meters[meter] = c
	}
	if n >= 0 && (c.Cap < 0 || n < c.Cap) {
		c.Cap = n
	}
	return nil
}

// Remaining is made of what the journal tells: what calls were charged beforehand, and what children have used. What was charged
// inside of calls is not recorded one by one.
func (x *echo) Remaining(_ context.Context, meter string) (int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.r.used("", nil, 0)
	x.r.note("node %q asks how much of %s remains: what was charged inside of calls, and by whom else, is not recorded", x.n.Name, meter)
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	c := x.r.meters[meter]
	if c == nil || c.Cap < 0 {
		return -1, nil
	}
	return max(c.Cap-c.Used, 0), nil
}
