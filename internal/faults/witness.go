package faults

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"pawl/store"
)

// Witness is what all processes of a trial have seen together: who was given which run, at which points they died, and
// whether anything was accepted that should not have been.
type Witness struct {
	mu     sync.Mutex
	epochs map[string]int64            // the highest that was given out, by run
	hands  map[*Store]map[string]int64 // what each process holds, by run
	points map[Point]int
	broken []string
	bells  map[chan struct{}]bool
	faults int
	deaths int
	last   time.Time // of them
	flight int       // the most steps that were under way at a fault, over all processes
	stale  int       // writes of a lost epoch that were refused
}

// NewWitness makes one.
func NewWitness() *Witness {
	return &Witness{epochs: map[string]int64{}, hands: map[*Store]map[string]int64{}, points: map[Point]int{}, bells: map[chan struct{}]bool{}}
}

func (w *Witness) claimed(s *Store, rs []store.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hands[s] == nil {
		w.hands[s] = map[string]int64{}
	}
	for _, r := range rs {
		if r.Epoch <= w.epochs[r.ID] {
			w.broken = append(w.broken, fmt.Sprintf("I10: run %s was given out with epoch %d after epoch %d", r.ID, r.Epoch, w.epochs[r.ID]))
		}
		w.epochs[r.ID] = max(w.epochs[r.ID], r.Epoch)
		w.hands[s][r.ID] = r.Epoch
	}
}

// owned are the runs whose row or streams a call writes as their holder, with the epoch that it gives.
func (wr write) owned() map[string]int64 {
	out := map[string]int64{}
	if wr.batch != nil {
		out[wr.lease.Run] = wr.lease.Epoch
	}
	for _, c := range wr.apply {
		if c.Epoch > 0 && !c.Takeover {
			out[c.Run] = c.Epoch
		}
	}
	return out
}

// before notes how things stand before a call; what it gives is called when the store has accepted it. A holder whose epoch
// had been overtaken before it even asked must not be accepted, whatever happened meanwhile.
func (w *Witness) before(wr write) func(*Store) {
	own := wr.owned()
	w.mu.Lock()
	defer w.mu.Unlock()
	overtaken := map[string]int64{}
	for run, epoch := range own {
		if now := w.epochs[run]; now > epoch {
			overtaken[run] = now
			w.stale++
		}
	}
	return func(s *Store) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for run, now := range overtaken {
			w.broken = append(w.broken, fmt.Sprintf("I10: a write to run %s with epoch %d was accepted after epoch %d was given out", run, own[run], now))
		}
		for _, c := range wr.apply {
			switch {
			case c.Takeover:
				w.epochs[c.Run] = max(w.epochs[c.Run], c.Epoch+1)
			case c.Epoch > 0 && (c.End || c.Release):
				delete(w.hands[s], c.Run)
			}
		}
	}
}

// fault counts a fault, and what all workers had under way at it.
func (w *Witness) fault() {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, h := range w.hands {
		n += len(h)
	}
	w.flight = max(w.flight, n)
	w.faults++
}

// died takes what the process had under way out of its hands.
func (w *Witness) died(s *Store) {
	w.fault()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaths++
	w.last = time.Now()
	delete(w.hands, s)
}

func (w *Witness) hit(p Point) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.points[p]++
}

// violation notes what somebody else of the trial has seen.
func (w *Witness) violation(format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, fmt.Sprintf(format, a...))
}

// Broken are the violations that were seen while the trial went on.
func (w *Witness) Broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.broken)
}

// Points says how often a process died at each point.
func (w *Witness) Points() map[Point]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.points)
}

// Faults is how many faults there were, how many of them deaths, and the most steps that were under way at one of them.
func (w *Witness) Faults() (faults, deaths, flight int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults, w.deaths, w.flight
}

// calmFrom is from when on every worker is there again: one that stood still has gone on, one that died was replaced.
func (w *Witness) calmFrom(lease time.Duration) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.Add(2*lease + lease/2)
}

// Stale is how often a holder whose epoch had been overtaken tried to write.
func (w *Witness) Stale() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stale
}
