package faults

import (
	"context"
	"errors"
	"sync"
	"time"

	"pawl/store"
)

// Act is what becomes of one call of a store.
type Act int

// The acts.
const (
	Pass       Act = iota
	DieBefore      // the process dies and the call does not reach the store
	DieInside      // the process dies with its transaction made and rolled back
	DieAfter       // the process dies with its transaction committed, and nobody is told
	Refuse         // ErrUnavailable: nothing was written
	LoseBefore     // ErrUnknown: nothing was written
	LoseAfter      // ErrUnknown: it was written
	Stall          // the process stands still for two leases, and then makes the call
)

// Plan decides what becomes of the calls of one process.
type Plan interface {
	// Write is asked before a call that makes these operations durable.
	Write(kinds []Operation) Act
	// Read is asked before a call that only reads: Pass or Refuse.
	Read() Act
	// Hit says that the process has died at a point of its plan.
	Hit(Point)
}

// Store is a store as one process sees it, which dies at points of its plan: nothing that it asks afterwards is answered.
//
// Before: the call never reaches the store. Inside: the whole transaction is carried out and rolled back instead of committed.
// Where the store's driver can be told to (Cut), its COMMIT fails; else the call is given one more part that every store must
// refuse after all others were carried out, so that it rolls back by its own contract. A claim, a renewal and an expiry have no
// parts: without Cut the call is not made, which leaves the same bytes. After: the call has returned nil, and the caller hangs.
type Store struct {
	Real  store.Store
	Plan  Plan
	Seen  *Witness             // what all processes of a trial have seen together
	Lease time.Duration        // how long the trial's leases are
	Cut   func(on bool)        // makes the COMMITs of the real store fail while it is on; nil: it has no such thing
	Slow  func() time.Duration // what a call takes on its way; nil: nothing
	Told  bool                 // notices are those of the trial, not the real store's

	once    sync.Once
	setup   sync.Once
	dead    chan struct{}
	gone    chan struct{}
	stopped sync.Once

	mu    sync.Mutex
	until time.Time // it stands still until then
}

var _ store.Store = (*Store)(nil)

func (s *Store) prepare() {
	s.setup.Do(func() { s.dead, s.gone = make(chan struct{}), make(chan struct{}) })
}

// Dead is closed when the process dies.
func (s *Store) Dead() <-chan struct{} { s.prepare(); return s.dead }

// Die ends the process from outside.
func (s *Store) Die() {
	s.prepare()
	s.once.Do(func() { close(s.dead) })
}

// Bury lets go of whoever still hangs in a call of the dead.
func (s *Store) Bury() {
	s.Die()
	s.stopped.Do(func() { close(s.gone) })
}

// alive hangs where the process is dead, and for as long as it stands still.
func (s *Store) alive() error {
	s.prepare()
	s.mu.Lock()
	rest := time.Until(s.until)
	s.mu.Unlock()
	if s.Slow != nil {
		rest = max(rest, s.Slow())
	}
	if rest > 0 {
		t := time.NewTimer(rest)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.dead:
		}
	}
	select {
	case <-s.dead:
		<-s.gone
		return store.ErrUnavailable
	default:
		return nil
	}
}

// stop has the process stand still for two leases.
func (s *Store) stop() {
	s.Seen.died(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(2*s.Lease + s.Lease/4)
}

// hit is the death at a point.
func (s *Store) hit(kinds []Operation, p Position) error {
	s.Seen.died(s)
	for _, k := range kinds {
		s.Plan.Hit(Point{k, p})
		s.Seen.hit(Point{k, p})
	}
	s.Die()
	return s.alive()
}

// write makes one durable call. poisoned is the same call with a part that will be refused; nil: it has no parts.
func (s *Store) write(w write, call, poisoned func() error) error {
	if err := s.alive(); err != nil {
		return err
	}
	kinds := w.kinds()
	act := Pass
	if len(kinds) > 0 {
		act = s.Plan.Write(kinds)
	}
	switch act {
	case DieBefore:
		return s.hit(kinds, Before)
	case DieInside:
		if err := s.rollBack(call, poisoned); err == nil {
			break // there was nothing to write: no such point
		}
		return s.hit(kinds, Inside)
	case Refuse:
		s.Seen.fault()
		return store.ErrUnavailable
	case LoseBefore:
		s.Seen.fault()
		return store.ErrUnknown
	case Stall:
		s.stop()
		if err := s.alive(); err != nil {
			return err
		}
	case Pass, DieAfter, LoseAfter:
	}
	check := s.Seen.before(s, w)
	err := call()
	check(err)
	if err == nil {
		if len(w.create)+len(w.apply) > 0 || w.batch != nil {
			s.Seen.ring()
		}
	}
	switch {
	case err == nil && act == DieAfter:
		return s.hit(kinds, After)
	case err == nil && act == LoseAfter:
		s.Seen.fault()
		return store.ErrUnknown
	}
	if dead := s.alive(); dead != nil {
		return dead
	}
	return err
}

// rollBack carries a call out so that nothing of it stays. nil: nothing of it is ever written.
func (s *Store) rollBack(call, poisoned func() error) error {
	switch {
	case s.Cut != nil:
		s.Cut(true)
		defer s.Cut(false)
		return call()
	case poisoned != nil:
		return poisoned()
	}
	return errors.New("nothing to roll back")
}

// together is a cut for all processes of a trial: it is on as long as one of them wants it. Else the one that is done first would let
// the other's commit through.
func together(cut func(on bool)) func(on bool) {
	var mu sync.Mutex
	want := 0
	return func(on bool) {
		mu.Lock()
		defer mu.Unlock()
		was := want > 0
		if on {
			want++
		} else {
			want--
		}
		if now := want > 0; now != was {
			cut(now)
		}
	}
}

// Create makes runs.
func (s *Store) Create(ctx context.Context, rs ...store.NewRun) error {
	return s.write(write{create: rs}, func() error { return s.Real.Create(ctx, rs...) }, func() error {
		return s.Real.Create(ctx, append(rs[:len(rs):len(rs)], rs[0])...) // its own id is taken by then
	})
}

// Apply makes changes.
func (s *Store) Apply(ctx context.Context, cs ...store.Change) error {
	return s.write(write{apply: cs}, func() error { return s.Real.Apply(ctx, cs...) }, func() error {
		return s.Real.Apply(ctx, append(cs[:len(cs):len(cs)], store.Change{Run: "nobody's", Epoch: 1})...)
	})
}

// Append records a batch.
func (s *Store) Append(ctx context.Context, l store.Lease, b store.Batch) (r store.Receipt, err error) {
	err = s.write(write{lease: l, batch: &b}, func() (err error) { r, err = s.Real.Append(ctx, l, b); return err }, func() error {
		p := b
		p.Rows = append(b.Rows[:len(b.Rows):len(b.Rows)], store.Row{Stream: "poison"})
		_, err := s.Real.Append(ctx, l, p)
		return err
	})
	if err != nil {
		return store.Receipt{}, err
	}
	return r, nil
}

// Claim leases runs. It is a claim to the plan only where there is one to be had; one in which nothing happens is not asked.
func (s *Store) Claim(ctx context.Context, c store.Claim) (rs []store.Run, next time.Duration, err error) {
	w := write{}
	if _, calm := s.Plan.(Calm); !calm && c.Max > 0 && s.alive() == nil {
		look := c
		look.Max = 0
		if _, next, err := s.Real.Claim(ctx, look); err == nil && next == 0 {
			w.claim = &c
		}
	}
	err = s.write(w, func() (err error) {
		check := s.Seen.claiming()
		rs, next, err = s.Real.Claim(ctx, c)
		if err == nil {
			check(s, rs)
		}
		return err
	}, nil)
	if err != nil {
		return nil, 0, err
	}
	return rs, next, nil
}

// Renew extends leases.
func (s *Store) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) (held []store.Held, err error) {
	err = s.write(write{renew: ls}, func() (err error) { held, err = s.Real.Renew(ctx, worker, ls, hold); return err }, nil)
	return held, err
}

// Expire removes runs. It is an expiry to the plan only where there is something to remove.
func (s *Store) Expire(ctx context.Context, most int) (n int, err error) {
	w := write{}
	if s.alive() == nil {
		w.expire = s.expires(ctx)
	}
	err = s.write(w, func() (err error) { n, err = s.Real.Expire(ctx, most); return err }, nil)
	return n, err
}

// Delete removes a run and its descendants: to the plan as an expiry does.
func (s *Store) Delete(ctx context.Context, run string, row []byte) error {
	return s.write(write{expire: true}, func() error { return s.Real.Delete(ctx, run, row) }, nil)
}

func (s *Store) expires(ctx context.Context) bool {
	rs, err := s.Real.List(ctx, everything, store.Filter{}, store.Page{Limit: 1000})
	now, nerr := s.Real.Now(ctx)
	if err != nil || nerr != nil {
		return false
	}
	for _, r := range rs {
		if !r.Expires.IsZero() && !now.Before(r.Expires) {
			return true
		}
	}
	return false
}

var everything = store.Scope{All: true}
