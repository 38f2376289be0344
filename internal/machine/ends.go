package machine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"pawl"
)

// Fail ends a run with an error that no edge claims.
func Fail(r *Record, t Tick, err *pawl.Error) (Move, error) {
	var m Machine
	next := m.settle(r, t)
	next.Node, next.Outcome, next.Err = pawl.TerminalFailed, pawl.TerminalFailed, err
	mv := Move{Log: append([]Entry{{
		Name: r.Node, Before: r.Node, After: pawl.TerminalFailed, Edge: "failed", Payload: raw(map[string]*pawl.Error{"error": err}),
	}}, t.Notes...)}
	return m.end(mv, next, Fails, t)
}

// Cancelled ends a run that was asked to end.
func Cancelled(r *Record, t Tick) (Move, error) {
	var m Machine
	if r.Cancel == nil {
		return Move{}, fmt.Errorf("%w: cancel without a letter", pawl.ErrTransition)
	}
	next := m.settle(r, t)
	text := "cancelled"
	if r.Cancel.Reason != "" {
		text += ": " + r.Cancel.Reason
	}
	next.Node, next.Outcome = pawl.TerminalCancelled, pawl.TerminalCancelled
	next.Err = &pawl.Error{Code: pawl.CodeCancelled, Text: text}
	mv := Move{Log: append([]Entry{{
		Name: r.Node, Before: r.Node, After: pawl.TerminalCancelled, Edge: "cancelled", Payload: raw(r.Cancel),
	}}, t.Notes...)}
	return m.end(mv, next, Cancels, t)
}

// Merge ends a run whose key another run owns. The visit that bound the key is not recorded: the owner has made it.
func Merge(r *Record, t Tick, owner string) (Move, error) {
	var m Machine
	if owner == "" {
		return Move{}, fmt.Errorf("%w: merge without an owner", pawl.ErrTransition)
	}
	next := m.settle(r, t)
	next.Merged, next.Outcome = owner, string(pawl.StatusMerged)
	mv := Move{Log: append([]Entry{{
		Name: r.Node, Before: r.Node, After: r.Node, Edge: "merged", Payload: raw(map[string]string{"into": owner}),
	}}, t.Notes...)}
	return m.end(mv, next, Merges, t)
}

// Retry begins the next try of a visit after a while. A wait above patience gives the lease back.
func (m Machine) Retry(r *Record, t Tick, cause *pawl.Error, after time.Duration) (Move, error) {
	n, _, err := m.Node(r)
	if err != nil {
		return Move{}, err
	}
	if err := goes(r, Tries); err != nil {
		return Move{}, err
	}
	if r.Try > n.Retry.Max || after < 0 {
		return Move{}, fmt.Errorf("%w: node %q has no try after number %d", pawl.ErrTransition, n.Name, r.Try)
	}
	next := m.settle(r, t)
	next.Try = r.Try + 1
	// Questions stay open and timers run on: the next try finds them again.
	next.Waits = append(only(next.Waits, ofVisit), Wait{Kind: pawl.WaitsForRetry, Due: t.Now.Add(after), Reason: cause.Code})
	for i := range next.Families {
		next.Families[i].Done, next.Families[i].Failed = -1, false // to be counted again
	}
	mv := Move{
		Log: append([]Entry{{Name: "retry", Before: r.Node, After: r.Node, Payload: raw(map[string]any{
			"error": cause, "try": next.Try, "after_ms": after.Milliseconds(),
		})}}, t.Notes...),
		Events:  []Event{{EventRetry, Retried{Node: r.Node, Try: next.Try, AfterMS: after.Milliseconds(), Err: cause}}},
		Release: after > Patience, After: after,
	}
	return m.commit(mv, next, Tries)
}

// ofVisit tells the waits of a visit from those of a try.
func ofVisit(w Wait) bool { return w.Kind == pawl.WaitsForAnswer || w.Kind == pawl.WaitsForTime }

// Patience is the longest wait that a worker sits out instead of parking.
const Patience = time.Second

// Park throws a visit away until what it waits for has come. waits are those that this execution came to; kept ones of
// earlier executions stay, but do not wake the run once their time has passed: nobody would look at them. Families that this
// execution did not come to stay too.
func (m Machine) Park(r *Record, t Tick, waits, kept []Wait, families []Family) (Move, error) {
	if len(waits) == 0 {
		return Move{}, fmt.Errorf("%w: park without anything to wait for", pawl.ErrTransition)
	}
	if err := goes(r, Parks); err != nil {
		return Move{}, err
	}
	next := m.settle(r, t)
	next.Waits, next.Families = slices.Concat(waits, kept), slices.Clone(families)
	for _, f := range r.Families {
		if _, again := next.Family(f.Key); again {
			continue
		}
		next.Families = append(next.Families, f)
		if _, waits := next.Wait(pawl.WaitsForChild, f.Key); !waits && f.Done < f.Started {
			next.Waits = append(next.Waits, Wait{Kind: pawl.WaitsForChild, Key: f.Key})
		}
	}
	mv := Move{Release: true, After: -1}
	var fresh []pawl.Waiting
	for i, w := range slices.Concat(waits, kept) {
		if w.Kind == pawl.WaitsForAnswer {
			next.Idle = true
		}
		if !w.Due.IsZero() && (i < len(waits) || w.Due.After(t.Now)) {
			d := max(w.Due.Sub(t.Now), 0)
			if mv.After < 0 || d < mv.After {
				mv.After = d
			}
		}
		if _, known := r.Wait(w.Kind, w.Key); !known {
			fresh = append(fresh, w.Waiting())
		}
	}
	if len(fresh) > 0 {
		mv.Log = []Entry{{Name: "waiting", Before: r.Node, After: r.Node, Payload: raw(map[string]any{"for": fresh})}}
		mv.Events = []Event{{EventWaiting, Parked{Node: r.Node, Waits: fresh}}}
	}
	return m.commit(mv, next, Parks)
}

// Stop gives a run back between two visits, or throws the visit under way away, because the worker stops or the store has
// failed it. It is due again after a while.
func Stop(r *Record, t Tick, after time.Duration) (Move, error) {
	var m Machine
	mv := Move{Release: true, After: after, Events: []Event{{EventStopped, Parked{Node: r.Node}}}}
	return m.commit(mv, m.settle(r, t), Stops)
}

// OutcomeHeld is the outcome by which held runs are listed.
const OutcomeHeld = "held"

// Hold parks a run that no graph here can go on with. Its runtime stands still: whoever deploys is a person, and a run
// never fails because its version is gone.
func Hold(r *Record, t Tick, reason string) (Move, error) {
	var m Machine
	next := m.settle(r, t)
	w := Wait{Kind: pawl.WaitsForVersion, Reason: reason}
	next.Outcome, next.Idle, next.Waits = OutcomeHeld, true, append(next.Waits, w)
	if old, ok := r.Wait(pawl.WaitsForVersion, ""); ok && old.Reason == reason {
		return m.commit(Move{Release: true, After: -1}, next, Holds)
	}
	return m.commit(Move{
		Log:     []Entry{{Name: "held", Before: r.Node, After: r.Node, Payload: raw(map[string]string{"reason": reason})}},
		Events:  []Event{{EventHeld, Parked{Node: r.Node, Waits: []pawl.Waiting{w.Waiting()}}}},
		Release: true, After: -1,
	}, next, Holds)
}

// Migrate carries a run over to this machine's graph, at a node.
func (m Machine) Migrate(r *Record, t Tick, node string) (Move, error) {
	i := m.Shape.Index(node, "")
	if i < 0 || m.Shape.Nodes[i].Kind.Terminal() {
		return Move{}, fmt.Errorf("%w: a migration to %q", pawl.ErrTransition, node)
	}
	next := m.settle(r, t)
	if node != r.Node {
		next.Visit, next.Try, next.Waits, next.Families = r.Visit+1, 1, nil, nil
		next.Calls, next.Events = t.Calls, t.Events
	}
	next.Node, next.Fingerprint = node, m.Shape.Fingerprint
	return m.commit(Move{
		State:  true,
		Log:    []Entry{{Name: "migrate", Before: r.Node, After: node, Payload: raw(map[string]string{"to": m.Shape.Version})}},
		Events: []Event{{EventMigrated, m.begun(next)}},
	}, next, Moves)
}

// Restart begins the next attempt of a run that failed or was cancelled, at a node; empty: at the graph's first. cost is what the
// attempts before it have cost.
func (m Machine) Restart(r *Record, node string, now time.Time, epoch, cost int64, waiters []Waiter) (Move, error) {
	next := &Record{
		Status: r.Status, Node: cmp.Or(node, m.Shape.Nodes[m.Shape.Start].Name), Fingerprint: m.Shape.Fingerprint, Attempt: r.Attempt + 1,
		Steps: r.Steps, Moves: r.Moves, Visit: r.Visit + 1, First: r.Visit + 1, Try: 1, Epoch: epoch, Inbox: r.Inbox,
		Calls: r.Calls, Events: r.Events, Began: now, Mark: now, Before: cost, Waiters: waiters,
	}
	return m.commit(Move{
		State:   true,
		Log:     []Entry{{Name: string(Restarts), Before: r.Node, After: next.Node, Payload: raw(map[string]int{"attempt": next.Attempt})}},
		Events:  []Event{{EventRestarted, m.begun(next)}},
		Release: true,
	}, next, Restarts)
}

// Receive folds letters into a record; upto is the number of the last one.
func Receive(r *Record, letters []Letter, upto int64) *Record {
	next := r.clone()
	for _, l := range letters {
		switch {
		case l.Cancel != nil && next.Cancel == nil:
			next.Cancel = l.Cancel
		case l.Answer != "": // the answer is in the journal: nobody waits for it any more
			next.Waits = only(next.Waits, func(w Wait) bool { return w.Question != l.Answer })
		case l.Waiter != nil && !slices.Contains(next.Waiters, *l.Waiter):
			next.Waiters = append(next.Waiters, *l.Waiter)
		case l.Child != nil && l.Child.Visit == r.Visit:
			next.credit(*l.Child)
			for i := range next.Families {
				if f := &next.Families[i]; f.Key == l.Child.Family {
					f.hear(l.Child.Failed)
				}
			}
		}
	}
	next.Inbox = max(next.Inbox, upto)
	return next
}

// hear counts the end of a child, unless it was counted already. Letters and journal entries come in the same order.
func (f *Family) hear(failed bool) {
	f.Heard++
	switch {
	case f.Early > 0:
		f.Early--
	case f.Done >= 0:
		f.Done++
		f.Failed = f.Failed || failed
	}
}

// Catch brings a family that an execution has counted up to what letters have said meanwhile.
func (f Family) Catch(known Family) Family {
	for f.Heard < known.Heard {
		f.hear(known.Failed)
	}
	return f
}

// CrashLoop reports whether a visit was claimed too often without coming to an end.
func CrashLoop(r *Record, epoch int64) bool { return epoch-r.Epoch > pawl.MaxClaims }

// spentRuntime reports whether the run's own runtime was spent: that of a child, which is a *RunError, gives the parent
// no grace.
func spentRuntime(e *pawl.Error) bool {
	var (
		b     *pawl.BudgetError
		child *pawl.RunError
	)
	return errors.As(e, &b) && b.Meter == pawl.MeterRuntime && !errors.As(e, &child)
}

func only(ws []Wait, keep func(Wait) bool) (out []Wait) {
	for _, w := range ws {
		if keep(w) {
			out = append(out, w)
		}
	}
	return out
}
