package telemetry

import (
	"context"
	"time"

	"github.com/google/uuid"

	"pawl/store"
)

// sweep finds runs that stand still and may not have been told whole: what a dead process has left right after its last commit
// is in nobody's hand any more. One process does it for all on a store. Each one does it also for itself, where its queue was full.
type sweep struct {
	t     *Traces
	store store.Store
	id    string

	holds bool      // this process does it for all
	ask   time.Time // when the place is asked for next
	from  time.Time // what moved since then is looked at by the next round, by the store's clock
	next  time.Time // when that begins
	round *round    // that is under way
	left  []string  // runs with steps of others, who may die before they tell them
	again time.Time // when those are looked at next
	late  time.Time // since when notices of this process have found no room, local; zero: none has
}

// round goes once through what has moved.
type round struct {
	spent       time.Duration // on lists
	all         bool          // it was begun with the place, which was kept
	since, upto time.Time     // by the store's clock
	after       string
	found       []string // not in the queue yet
	last        bool     // there are no more
}

const (
	sweepEvery = time.Minute
	sweepBack  = time.Hour        // what moved before the first round
	sweepLap   = 30 * time.Second // rounds overlap: a commit is seen a while after its time
	sweepPage  = 50
	sweepPages = 20 // at a time
	sweepShare = 20 // a round that kept the store busy for so long is followed by so many times of rest

	place     = "pawl.traces" // the limit of one that the process is under that does it for all
	placeHold = 20 * time.Second
	placeKeep = 5 * time.Second // how often it is renewed
)

func newSweep(t *Traces, s store.Store) *sweep { return &sweep{t: t, store: s, id: uuid.NewString()} }

// work looks until ctx is done. It does not wait for the receiver, but for room in the queue.
func (s *sweep) work(ctx context.Context) {
	for ctx.Err() == nil {
		s.look(ctx)
		wait(ctx, s.t.c.Delay)
	}
}

// rest lets another process do it.
func (s *sweep) rest(ctx context.Context) {
	if s.holds {
		_ = s.store.Give(ctx, place, s.id) // else it is forgotten after a while
	}
}

func (s *sweep) look(ctx context.Context) {
	s.hold(ctx)
	if s.left = append(s.left, s.t.others()...); !s.holds {
		s.left = nil // whoever holds the place finds them too
	}
	if time.Until(s.again) <= 0 {
		s.again = time.Now().Add(s.t.c.Grace)
		s.left = s.offer(s.left)
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
			if s.round = nil; r.all {
				s.from, s.next = r.upto.Add(-sweepLap), time.Now().Add(max(sweepEvery, sweepShare*r.spent))
			}
			return
		}
	}
}

// hold asks for the place, or keeps it. Whoever has it anew begins with all that moved lately.
func (s *sweep) hold(ctx context.Context) {
	if time.Until(s.ask) > 0 {
		return
	}
	busy, err := s.store.Take(ctx, store.Slot{Limit: place, Holder: s.id, Burst: 1, Max: 1, Hold: placeHold})
	switch had := s.holds; {
	case err != nil:
		s.holds, s.ask = false, time.Now().Add(placeKeep)
	case busy > 0:
		s.holds, s.ask = false, time.Now().Add(min(busy, placeHold))
	default:
		s.holds, s.ask = true, time.Now().Add(placeKeep)
		if !had {
			s.from, s.next = time.Time{}, time.Time{}
			if s.round != nil {
				s.round.all = false // another one had it meanwhile
			}
		}
	}
}

// begin begins a round where one is due.
func (s *sweep) begin(ctx context.Context) bool {
	if at := s.t.missed(); !at.IsZero() && (s.late.IsZero() || at.Before(s.late)) {
		s.late = at
	}
	if s.late.IsZero() && (!s.holds || time.Until(s.next) > 0) {
		return false
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return false
	}
	r := &round{since: now, upto: now, all: s.holds}
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
