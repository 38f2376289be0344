package faults

import (
	"errors"
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
	last   time.Time                  // when one of them died, or what was broken was whole again
	flight int                        // the most steps that were under way at a fault, over all processes
	stale  int                        // writes of an epoch that was lost before they were made
	under  map[*Store]map[*asked]bool // what each process has asked and not been told

	unknown, refused int // writes whose outcome was unknown, and that were refused as stale, by the real store
}

// NewWitness makes one.
func NewWitness() *Witness {
	return &Witness{epochs: map[string]int64{}, hands: map[*Store]map[string]int64{}, points: map[Point]int{}, bells: map[chan struct{}]bool{},
		under: map[*Store]map[*asked]bool{}}
}

// claiming notes how things stand before a claim; what it gives is called with what was claimed. An epoch that somebody had before
// the claim was asked must not be given out again. Two claims under way at once may be answered in either order.
func (w *Witness) claiming() func(*Store, []store.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := maps.Clone(w.epochs)
	return func(s *Store, rs []store.Run) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.hands[s] == nil {
			w.hands[s] = map[string]int64{}
		}
		for _, r := range rs {
			if r.Epoch <= known[r.ID] {
				w.broken = append(w.broken, fmt.Sprintf("I10: run %s was given out with epoch %d after epoch %d", r.ID, r.Epoch, known[r.ID]))
			}
			w.epochs[r.ID] = max(w.epochs[r.ID], r.Epoch)
			w.hands[s][r.ID] = r.Epoch
		}
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

// asked is a call that writes, under way.
type asked struct {
	own       map[string]int64 // see owned
	overtaken map[string]int64 // those of them that somebody else had been given before the call could reach the store
}

// before notes how things stand before a call; what it gives is called with what the store has said. A holder whose epoch had been
// overtaken before it even asked must not be accepted, whatever happened meanwhile.
func (w *Witness) before(s *Store, wr write) func(error) {
	a := &asked{own: wr.owned(), overtaken: map[string]int64{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.overtakes(a) {
		w.stale++
	}
	if w.under[s] == nil {
		w.under[s] = map[*asked]bool{}
	}
	w.under[s][a] = true
	return func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.under[s], a)
		switch {
		case errors.Is(err, store.ErrUnknown):
			w.unknown++
		case errors.Is(err, store.ErrStale):
			w.refused++
		}
		if err != nil {
			return
		}
		for run, now := range a.overtaken {
			w.broken = append(w.broken, fmt.Sprintf("I10: a write to run %s with epoch %d was accepted after epoch %d was given out", run, a.own[run], now))
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

// overtakes notes which runs of a call somebody else has by now.
func (w *Witness) overtakes(a *asked) bool {
	for run, epoch := range a.own {
		if now := w.epochs[run]; now > epoch {
			a.overtaken[run] = now
		}
	}
	return len(a.overtaken) > 0
}

// paused notes which calls of a process are under way when its line is closed; what it gives is called before the line is opened
// again. Whatever was asked in between has not reached the store yet, and counts as if it were asked only now.
func (w *Witness) paused(s *Store) (opened func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	perhaps := maps.Clone(w.under[s])
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for a := range w.under[s] {
			if !perhaps[a] && w.overtakes(a) {
				w.stale++
			}
		}
		w.last = time.Now()
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

// Outcomes is how many writes the real store has called unknown, and how many stale.
func (w *Witness) Outcomes() (unknown, stale int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unknown, w.refused
}

// calmed says that what was broken is whole again.
func (w *Witness) calmed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
}

// Stale is how often a holder whose epoch had been overtaken tried to write.
func (w *Witness) Stale() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stale
}
