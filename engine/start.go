package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"pawl"
	"pawl/internal/codec"
	"pawl/internal/delta"
	"pawl/internal/machine"
	"pawl/store"
)

// birth is a run that is about to exist.
type birth struct {
	p                *program
	id, tenant, user string
	parent, root     string
	key              string
	priority         int
	head             Head
	waiters          []machine.Waiter
}

// first makes the first state of a run from its input.
func (p *program) first(input []byte) (raw []byte, err error) {
	var s any
	if err := guard("Start", func() (err error) { s, err = p.Begin(input); return err }); err != nil {
		return nil, err
	}
	return p.encode(nil, s, "start")
}

// decode reads a stored state. Types may have methods of their own that do it, and those may panic.
func (p *program) decode(raw []byte) (s any, err error) {
	err = guard("the state's type", func() (err error) { s, err = p.Decode(raw); return err })
	return s, err
}

// encode is the stored form of a state, in the room if it is large enough.
func (p *program) encode(room []byte, s any, node string) (raw []byte, err error) {
	err = guard("the state's type", func() (err error) { raw, err = p.Encode(room, s); return err })
	if errors.Is(err, errPanic) {
		return nil, err
	}
	if err != nil {
		return nil, pawl.Permanent(&pawl.Error{Code: pawl.CodeInvalid, Node: node, Text: fmt.Sprintf("node %q: state %v", node, err)})
	}
	if len(raw) > MaxState {
		return nil, exhausted("node %q: the state has %d bytes, at most %d are allowed", node, len(raw), MaxState)
	}
	return raw, nil
}

// caps are the counters of a new attempt: the graph's ceilings, lowered by the run's own.
func (p *program) caps(own pawl.Budget) []store.Counter {
	all := maps.Clone(p.Shape.Budget)
	if all == nil {
		all = map[string]int64{}
	}
	for m, n := range own {
		if old, ok := all[m]; !ok || n < old {
			all[m] = n
		}
	}
	out := []store.Counter{}
	for m, n := range all {
		out = append(out, store.Counter{Meter: m, Cap: n})
	}
	return out
}

// newRun makes a run that begins at its start.
func (b birth) newRun(now time.Time) (store.NewRun, error) {
	raw, err := b.p.first(b.head.Input)
	if err != nil {
		return store.NewRun{}, err
	}
	mv, err := b.p.m.Start(now)
	if err != nil {
		return store.NewRun{}, err
	}
	return b.row(mv, raw)
}

// row makes what is stored of a new run.
func (b birth) row(mv machine.Move, raw []byte) (store.NewRun, error) {
	rec := mv.Next
	rec.Waiters = b.waiters
	rec.Full, rec.Last, rec.Size, rec.Hash = rec.Steps, rec.Steps, int32(len(raw)), checksum(raw)
	rows := []store.Row{{Stream: store.Step, Data: frame(nil, &stepHead{
		Entry: mv.Log[0], Attempt: rec.Attempt, Version: b.p.Shape.Version, Last: rec.Full, Full: rec.Full, Hash: rec.Hash,
	}, delta.Full(raw))}}
	rows = append(rows, eventRows(mv.Events)...)
	rows = append(rows, store.Row{Stream: store.Audit, Data: encode(audit{By: b.user, Did: string(mv.What)})})
	if len(b.head.Input) > inline {
		b.head.Large = hash(b.head.Input)
		rows = append(rows, store.Row{Stream: store.Blob, Key: b.head.Large, Data: b.head.Input})
		b.head.Input = nil
	}
	row, err := rec.Encode()
	if err != nil {
		return store.NewRun{}, err
	}
	return store.NewRun{
		ID: b.id, Tenant: b.tenant, User: b.user, Workflow: b.p.Shape.Name, Version: b.p.Shape.Version, Key: b.key,
		Parent: b.parent, Root: b.root, Status: string(rec.Status), Node: rec.Node, Priority: b.priority,
		Head: encode(b.head), Row: row, Caps: b.p.caps(b.head.Budget), Add: rows,
	}, nil
}

func eventRows(es []machine.Event) (rows []store.Row) {
	for _, v := range es {
		rows = append(rows, store.Row{Stream: store.Event, Data: event{Type: v.Type, Data: v.Encode()}.bytes()})
	}
	return rows
}

// restart makes the change by which the next attempt of an ended run begins. It holds only while the run stays as it was
// read.
func (e *Engine) restart(ctx context.Context, p *program, run store.Run, now time.Time, waiters []machine.Waiter, by string) (store.Change, error) {
	rec, head, err := parts(run)
	if err != nil {
		return store.Change{}, err
	}
	node, raw, err := e.origin(ctx, p, run, head)
	if err != nil {
		return store.Change{}, err
	}
	cost := rec.Before
	for _, c := range run.Counters {
		if c.Meter == pawl.MeterUSD {
			cost += c.Used
		}
	}
	mv, err := p.m.Restart(rec, node, now, run.Epoch+1, cost, waiters)
	if err != nil {
		return store.Change{}, conflict("run %s is %s", run.ID, rec.Status)
	}
	next := mv.Next
	next.Full, next.Last, next.Size, next.Hash = next.Steps, next.Steps, int32(len(raw)), checksum(raw)
	row, err := next.Encode()
	if err != nil {
		return store.Change{}, err
	}
	rows := []store.Row{{Stream: store.Step, Data: frame(nil, &stepHead{
		Entry: mv.Log[0], Attempt: next.Attempt, Version: p.Shape.Version, Last: next.Full, Full: next.Full, Hash: next.Hash,
	}, delta.Full(raw))}}
	rows = append(rows, eventRows(mv.Events)...)
	rows = append(rows, store.Row{Stream: store.Audit, Data: encode(audit{By: by, Did: "restart"})})
	return store.Change{
		Run: run.ID, Epoch: run.Epoch, Takeover: true, Status: string(next.Status), Node: next.Node, Version: p.Shape.Version,
		Row: row, Add: rows, Counters: p.caps(head.Budget), Seen: next.Inbox,
	}, nil
}

// origin is where a run begins, and with which state: that which the start function makes of its input, or which a fork was given.
func (e *Engine) origin(ctx context.Context, p *program, run store.Run, head Head) (node string, raw []byte, err error) {
	if head.ForkOf == "" {
		input, err := e.input(ctx, run.ID, head)
		if err == nil {
			raw, err = p.first(input)
		}
		return "", raw, err
	}
	first, err := e.headOf(ctx, everything, run.ID, 1)
	if err != nil {
		return "", nil, err
	}
	if first.Version != p.Shape.Version {
		return "", nil, conflict("run %s was forked with a state of version %s, and here is version %s of %s: fork its source again", run.ID, first.Version, p.Shape.Version, run.Workflow)
	}
	raw, err = e.stateAt(ctx, everything, run.ID, 1, 1, first.Hash)
	return first.After, raw, err
}

// input is what a run was started with.
func (e *Engine) input(ctx context.Context, run string, head Head) ([]byte, error) {
	if head.Large != "" {
		return e.blob(ctx, everything, run, head.Large)
	}
	return head.Input, nil
}

// parts decodes what is stored of a run.
func parts(run store.Run) (rec *machine.Record, head Head, err error) {
	if rec, err = machine.Decode(run.Row); err == nil {
		err = json.Unmarshal(run.Head, &head)
	}
	if err != nil {
		err = &pawl.Error{Code: pawl.CodeInternal, Run: run.ID, Text: fmt.Sprintf("run %s: its row cannot be read: %v", run.ID, err)}
	}
	return rec, head, err
}

// start begins a run for a caller, or finds the one that owns the key.
func (e *Engine) start(ctx context.Context, c pawl.Caller, workflow string, input json.RawMessage, o pawl.StartOptions) (pawl.Started, error) {
	var none pawl.Started
	p, err := e.find(workflow)
	if err != nil {
		return none, err
	}
	if err := checkStart(p, input, o); err != nil {
		return none, err
	}
	canon, err := canonical(input)
	if err != nil {
		return none, invalid("input: %v", err)
	}
	b := birth{p: p, id: newID(), tenant: c.Tenant, user: c.User, key: o.Key, priority: o.Priority, head: Head{
		Input: canon, Hash: hash(canon), Budget: o.Budget, Labels: o.Labels,
		Sensitivity: o.Sensitivity, Correlation: o.Correlation, Traceparent: o.Traceparent,
	}}
	b.root = b.id
	for range 20 {
		now := e.now(ctx)
		r, err := b.newRun(now)
		if err != nil {
			if pawl.Coded(err).Code == pawl.CodeInternal && !errors.Is(err, errPanic) {
				err = &pawl.Error{Code: pawl.CodeInvalid, Text: pawl.Coded(err).Error(), Err: err}
			}
			return none, err
		}
		err = e.store.Create(ctx, r)
		var taken *store.Taken
		switch {
		case errors.As(err, &taken):
			s, again, err := e.existing(ctx, c, p, taken.Owner, b.head.Hash, now)
			if !again {
				return s, err
			}
			continue
		case err != nil:
			return none, err
		}
		e.kick()
		run, err := e.get(ctx, everything, r.ID)
		return pawl.Started{Run: run}, err
	}
	return none, conflict("key %q: its owner keeps changing", o.Key)
}

func checkStart(p *program, input json.RawMessage, o pawl.StartOptions) error {
	if len(input) > MaxState {
		return &pawl.Error{Code: pawl.CodeInvalid, Text: fmt.Sprintf("the input has %d bytes, at most %d are allowed", len(input), MaxState)}
	}
	if err := p.input.Check(input); err != nil {
		return invalid("input: %v", err)
	}
	for m, n := range o.Budget {
		if n < 0 {
			return invalid("budget %s: %d is below zero", m, n)
		}
	}
	if _, err := codec.Encode(o); err != nil {
		return invalid("options: %v", err)
	}
	if len(o.Key) > 500 {
		return invalid("the key has %d bytes, at most 500 are allowed", len(o.Key))
	}
	return nil
}

// existing answers a start whose key is owned. again means that the owner changed meanwhile.
func (e *Engine) existing(ctx context.Context, c pawl.Caller, p *program, owner, input string, now time.Time) (s pawl.Started, again bool, err error) {
	run, err := e.store.Get(ctx, everything, owner)
	if errors.Is(err, store.ErrNotFound) {
		return s, true, nil
	}
	if err != nil {
		return s, false, err
	}
	rec, head, err := parts(run)
	if err != nil {
		return s, false, err
	}
	if run.User != c.User && !slices.Contains(c.Scopes, pawl.ScopeTenant) && !slices.Contains(c.Scopes, pawl.ScopeAll) {
		return s, false, conflict("key %q is taken by another user", run.Key)
	}
	if head.Hash != input {
		return s, false, &pawl.Error{Code: pawl.CodeConflict, Run: run.ID, Text: fmt.Sprintf("key %q belongs to run %s, which has another input", run.Key, run.ID)}
	}
	if merged := rec.Merged; merged != "" { // whoever asks for it is led to the owner
		run, rec, err = e.owner(ctx, merged)
		if errors.Is(err, store.ErrNotFound) {
			err = conflict("the key belongs to run %s, which was merged into run %s, and that has expired or was removed", owner, merged)
		}
		if err != nil {
			return s, false, err
		}
	}
	switch {
	case rec.Status == pawl.StatusFailed || rec.Status == pawl.StatusCancelled:
		ch, err := e.restart(ctx, p, run, now, nil, c.User)
		if err != nil {
			return s, false, err
		}
		if err := e.store.Apply(ctx, ch); errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrNotFound) {
			return s, true, nil
		} else if err != nil {
			return s, false, err
		}
		e.kick()
		s.Existing = pawl.ExistingAgain
	case rec.Status.Ended():
		s.Existing = pawl.ExistingDone
	default:
		s.Existing = pawl.ExistingRunning
	}
	s.Run, err = e.get(ctx, everything, run.ID)
	if err == nil && s.Existing == pawl.ExistingRunning {
		s.Run.ETA = e.eta(ctx, run)
	}
	return s, false, err
}
