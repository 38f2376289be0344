package telemetry

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"pawl/store"
)

// sweep finds runs that may not have been told whole: what a dead process has left right after its last commit is in nobody's hand any
// more, and one that somebody has is told by whoever has it. One process does it for all on a store. Each one does it also for
// itself, where its queue was full.
type sweep struct {
	t     *Traces
	store store.Store
	id    string

	holds bool            // this process does it for all
	held  time.Time       // when that was last confirmed
	ask   time.Time       // when the place is asked for next
	alive map[string]bool // workers
	left  map[string]bool // runs with steps of others that could not be told
	late  time.Time       // since when notices of this process have found no room, local; zero: none has
	from  time.Time       // what moved since then is looked at by the next round, by the store's clock
	next  time.Time       // when that begins
	rest  time.Time       // no round begins before
	round *round          // that is under way
}

// round goes once through what has moved.
type round struct {
	spent       time.Duration // on lists
	all         bool          // the next one may begin where this one did
	since, upto time.Time     // by the store's clock
	after       string
	found       []string // not taken up yet
	last        bool     // there are no more
}

const (
	sweepEvery = time.Minute
	sweepBack  = 24 * time.Hour   // what moved before the first round
	sweepLap   = 30 * time.Second // rounds overlap: a commit is seen a while after its time
	sweepPage  = 50
	sweepPages = 20 // at a time
	sweepShare = 20 // a round that kept the store busy for so long is followed by so many times of rest

	place     = "pawl.traces" // the limit of one that the process is under that finds for all
	placeHold = 20 * time.Second
	placeKeep = 5 * time.Second // how often it is renewed
)

func newSweep(t *Traces, s store.Store) *sweep {
	return &sweep{t: t, store: s, id: uuid.NewString(), left: map[string]bool{}}
}

// work looks until ctx is done. It does not wait for the receiver, but for room in the queue.
func (s *sweep) work(ctx context.Context) {
	for ctx.Err() == nil {
		s.look(ctx)
		wait(ctx, s.t.c.Delay)
	}
}

// giveUp lets another process do it.
func (s *sweep) giveUp(ctx context.Context) {
	if s.holds {
		_ = s.store.Give(ctx, place, s.id) // else it is forgotten after a while
	}
}

func (s *sweep) look(ctx context.Context) {
	s.hold(ctx)
	for _, run := range s.t.others() {
		if s.holds && len(s.left) < positions { // else whoever holds the place finds it too, or the next round does
			s.left[run] = true
		} else if s.holds {
			s.from = time.Time{}
			if s.round != nil {
				s.round.all = false
			}
		}
	}
	if s.round == nil && !s.begin(ctx) {
		return
	}
	for range sweepPages {
		r := s.round
		if r.found = s.offer(r.found); len(r.found) > 0 || !r.last && !s.page(ctx) {
			return
		}
		if r.last && len(r.found) == 0 {
			s.round, s.rest = nil, time.Now().Add(sweepShare*r.spent)
			if r.all {
				s.from, s.next = r.upto.Add(-sweepLap), time.Now().Add(sweepEvery)
			}
			return
		}
	}
}

// hold asks for the place, or keeps it. Whoever has it anew begins with all that moved lately; who has it notices when a worker goes.
func (s *sweep) hold(ctx context.Context) {
	now := time.Now()
	if now.Before(s.ask) {
		return
	}
	busy, err := s.store.Take(ctx, store.Slot{Limit: place, Holder: s.id, Burst: 1, Max: 1, Hold: placeHold})
	switch {
	case err != nil && now.Sub(s.held) < placeHold: // it is still this process's, as far as anybody knows
		s.ask = now.Add(time.Second)
		return
	case err != nil:
		busy = placeKeep
		fallthrough
	case busy > 0:
		s.holds, s.ask = false, now.Add(min(busy, placeHold))
		clear(s.left)
		return
	}
	if !s.holds {
		s.from, s.next = time.Time{}, time.Time{}
		if s.round != nil {
			s.round.all = false // another one had it meanwhile
		}
	}
	s.holds, s.held, s.ask = true, now, now.Add(placeKeep)
	s.watch(ctx)
}

// watch begins a round soon where a worker has gone.
func (s *sweep) watch(ctx context.Context) {
	ws, err := s.store.Workers(ctx)
	if err != nil {
		return
	}
	alive := map[string]bool{}
	for _, w := range ws {
		alive[w.ID] = true
		delete(s.alive, w.ID)
	}
	if len(s.alive) > 0 {
		s.next = time.Time{}
	}
	s.alive = alive
}

// begin begins a round where one is due. What was left is looked at again in it.
func (s *sweep) begin(ctx context.Context) bool {
	if at := s.t.missed(); !at.IsZero() && (s.late.IsZero() || at.Before(s.late)) {
		s.late = at
	}
	if time.Until(s.rest) > 0 || s.late.IsZero() && (!s.holds || time.Until(s.next) > 0) {
		return false
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return false
	}
	r := &round{since: now, upto: now, all: s.holds, found: slices.Collect(maps.Keys(s.left))}
	clear(s.left)
	if r.all {
		r.since = s.from
		if s.from.IsZero() {
			r.since = now.Add(-sweepBack)
		}
	}
	if !s.late.IsZero() {
		if at := now.Add(-time.Since(s.late) - sweepLap); at.Before(r.since) {
			r.since = at
		}
		s.late = time.Time{}
	}
	s.round = r
	return true
}

// page takes up the next page of those that have moved and are in nobody's hand.
func (s *sweep) page(ctx context.Context) bool {
	r, no, began := s.round, false, time.Now()
	runs, err := s.store.List(ctx, store.Scope{All: true}, store.Filter{Held: &no, Since: r.since}, store.Page{After: r.after, Limit: sweepPage})
	if err != nil {
		return false
	}
	r.spent += time.Since(began)
	for _, run := range runs {
		r.found, r.after = append(r.found, run.ID), run.ID
	}
	r.last = len(runs) < sweepPage
	return true
}

// offer puts runs into the queue as far as there is room, and says which are left.
func (s *sweep) offer(runs []string) []string {
	for i, run := range runs {
		if !s.t.offer(run) {
			return runs[i:]
		}
	}
	return nil
}
