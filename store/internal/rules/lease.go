// Package rules is what stores written in Go decide alike: who may write a run, when it may be claimed, what a charge does
// to a counter and how long a limit makes one wait. Pure functions on small values.
//
// It never does I/O, has no clock (the time is always handed in) and knows no table or map.
//
// Start reading at Lease: Admit decides, Settle carries out.
package rules

import (
	"math"
	"time"

	"pawl/store"
)

// Lease is the part of a run that says who may write it and when it may be claimed. Times are nanoseconds since 1970 on the
// store's clock; 0 stands for none.
type Lease struct {
	Ended               bool
	Epoch, Inbox        int64
	Worker              string
	Until, Due, Expires int64
}

// Remembered is how long a worker that is not heard of any more is known: one that was only held up comes back as what it was.
const Remembered = time.Hour

// Held tells whether a live lease holds the run.
func (l *Lease) Held(now int64) bool { return l.Until > now }

// Ready is the time from which the run may be claimed, 0: not before somebody does something.
func (l *Lease) Ready() int64 {
	if l.Ended || l.Due == 0 {
		return 0
	}
	return max(l.Due, l.Until)
}

// Claim gives the run to a worker. Due stays what it was, so that a run whose worker died keeps its place in the queue.
func (l *Lease) Claim(worker string, now int64, hold time.Duration) {
	l.Epoch++
	l.Worker, l.Until = worker, After(now, hold)
}

// Owns tells whether the epoch is the holder's. A lease that has run out still counts until somebody else claims the run;
// one that was given back does not.
func (l *Lease) Owns(epoch int64) bool { return !l.Ended && l.Until != 0 && l.Epoch == epoch }

// Letter makes the run due at once; one that has long been due keeps its place.
func (l *Lease) Letter(now int64) {
	if !l.Ended && (l.Due == 0 || l.Due > now) {
		l.Due = now
	}
}

// Admit answers ErrStale where the change may not be made to this run.
func (l *Lease) Admit(c *store.Change, now int64) error {
	switch {
	case c.Takeover:
		if l.Held(now) || l.Epoch != c.Epoch {
			return store.ErrStale
		}
	case c.Epoch == 0:
		if c.Row != nil {
			return store.ErrStale // writing the row needs a lease
		}
		return nil
	case !l.Owns(c.Epoch):
		return store.ErrStale
	}
	if c.End && l.Inbox > c.Seen {
		return store.ErrStale // a letter came that the writer has not read
	}
	return nil
}

// Settle carries out what an admitted change of a holder or a takeover does to the lease.
func (l *Lease) Settle(c *store.Change, now int64) {
	if c.Takeover {
		l.Epoch++
	}
	if !c.End && !c.Release && !c.Takeover {
		return
	}
	l.Worker, l.Until, l.Due, l.Expires, l.Ended = "", 0, 0, 0, c.End
	switch {
	case c.End:
		if c.Keep > 0 {
			l.Expires = After(now, c.Keep)
		}
	case l.Inbox > c.Seen:
		l.Due = now
	default:
		l.Due = Due(now, c.After)
	}
}

// Due is the due time of a run that is due after d; below zero it is due only after a letter.
func Due(now int64, d time.Duration) int64 {
	if d < 0 {
		return 0
	}
	return After(now, d)
}

// After adds without running over.
func After(now int64, d time.Duration) int64 {
	if sum := now + int64(d); d < 0 || sum >= now {
		return sum
	}
	return math.MaxInt64
}

// Time is a stored time as the contract has it: UTC, zero for none.
func Time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// Stamp is an instant as it is stored: now where none is given.
func Stamp(t time.Time, now int64) int64 {
	if t.IsZero() {
		return now
	}
	return t.UnixNano()
}
