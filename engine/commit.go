package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"pawl"
	"pawl/internal/delta"
	"pawl/internal/host"
	"pawl/internal/machine"
	"pawl/store"
)

// commit is what goes into the store with a decision.
type commit struct {
	state      any
	raw        []byte // the new state, nil where it stays
	visit      *visit // the execution that led here, if one did
	key        string // idempotency key to be bound
	parks      bool   // what the visit waits for goes with it
	background bool   // the node committed: its background runs start
}

// decision is the machine's. It is asked for again when letters have come in meanwhile.
type decision func(*machine.Record) (machine.Move, error)

// commit makes a decision durable. It returns errLetGo when the run is out of hand afterwards, ErrFenced where it was before.
func (h *hand) commit(ctx context.Context, c commit, decide decision) error {
	var outage time.Time
	for refused := 0; ; {
		mv, err := decide(h.rec)
		if err != nil {
			return err
		}
		rec, cs, err := h.changes(ctx, c, mv)
		if err == nil {
			err = h.e.store.Apply(ctx, cs...)
		} else if f := new(finishError); errors.As(err, &f) {
			return h.fail(ctx, c.visit, h.tick(ctx, c.visit), h.at(f.err))
		}
		if errors.Is(err, store.ErrUnknown) {
			err = h.known(ctx, rec, err)
		}
		switch {
		case err == nil:
			return h.applied(c, mv, rec, cs)
		case errors.Is(err, store.ErrExists):
			return err
		case errors.Is(err, store.ErrStale):
			if refused++; refused > 100 {
				return fmt.Errorf("a commit of %s is refused again and again: %w", mv.What, err)
			}
			if again, err := h.stale(ctx, c, mv); !again {
				return err
			}
			if c.parks && refused > 2 { // a child that it is about has moved on: look at it again
				h.fresh = false
				return nil
			}
		case errors.Is(err, store.ErrUnavailable):
			if outage.IsZero() {
				outage = time.Now()
			}
			if time.Since(outage) > h.e.c.Outage || ctx.Err() != nil {
				return err
			}
			h.e.c.Trace.fault("commit", err)
			wait(ctx, 200*time.Millisecond, nil)
		default:
			return err
		}
	}
}

// known resolves an unknown outcome by reading the row until the store answers: nil if it is ours, ErrUnavailable if it is as
// it was before and the commit may be repeated, the unknown outcome itself where nobody can tell. Rows are told apart by the
// number of their decision; another holder's has another epoch too.
func (h *hand) known(ctx context.Context, ours *machine.Record, unknown error) error {
	var rec *machine.Record
	err := h.patiently(ctx, func() error {
		r, err := h.e.store.Get(ctx, everything, h.run.ID)
		if err == nil {
			rec, _, err = parts(r)
		}
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w (and then: %v)", unknown, err)
	case rec.Moves == ours.Moves && rec.Epoch == ours.Epoch:
		return nil
	case rec.Moves == h.rec.Moves:
		return store.ErrUnavailable
	}
	return store.ErrStale
}

// stale looks why a commit was refused: the lease is lost, or letters came in that have to be read first.
func (h *hand) stale(ctx context.Context, c commit, mv machine.Move) (again bool, err error) {
	var held []store.Held
	err = h.patiently(ctx, func() (err error) { held, err = h.renew(ctx); return err })
	if err != nil {
		return false, err
	}
	if len(held) == 0 || held[0].Lost {
		h.interrupt(pawl.ErrFenced)
		return false, pawl.ErrFenced
	}
	if err := h.receive(ctx); err != nil {
		return false, err
	}
	if h.rec.Cancel != nil && mv.What != machine.Cancels {
		return false, h.cancelled(ctx, c.visit, h.tick(ctx, c.visit))
	}
	return true, nil
}

// applied takes the next record into the hand.
func (h *hand) applied(c commit, mv machine.Move, rec *machine.Record, cs []store.Change) error {
	visited, others := rec.Visit != h.rec.Visit, moves(cs)
	h.commits.Add(1)
	h.rec, h.away = rec, nil
	h.sheet.clear()
	if c.raw != nil {
		h.spare, h.raw, h.state = reusable(h.raw), c.raw, c.state
	}
	if visited {
		h.fresh = true
	} else if mv.What == machine.Tries {
		h.fresh = false
		s, err := h.p.decode(h.raw)
		if err != nil {
			return err
		}
		h.state = s
	}
	if others {
		h.e.kick()
	}
	if t := h.e.c.Trace.Committed; t != nil {
		t(Committed{Run: h.run.ID, Workflow: h.run.Workflow, Worker: h.w.id, Step: rec.Steps, Status: rec.Status, End: mv.End})
	}
	if mv.End && h.e.c.Trace.Ended != nil {
		h.e.c.Trace.Ended(h.run.ID, rec.Status, rec.Err)
	}
	if mv.Release {
		return errLetGo
	}
	return nil
}

// moves reports whether changes make other runs due.
func moves(cs []store.Change) bool {
	for _, c := range cs {
		if len(c.Create) > 0 || len(c.Letters) > 0 || c.Takeover {
			return true
		}
	}
	return false
}

// changes turns a decision into what the store applies: the run's own change first, then those of other runs that move
// with it.
func (h *hand) changes(ctx context.Context, c commit, mv machine.Move) (*machine.Record, []store.Change, error) {
	rec, before := mv.Next, h.rec
	h.sheet.begin()
	if !mv.State { // the node did not commit after all
		c.key, c.background, c.raw = "", false, nil
	}
	var record []byte
	if c.raw != nil {
		var full bool
		record, full = delta.Next(h.sheet.record[:0], h.raw, c.raw, int(rec.Deltas))
		h.sheet.record = record
		rec.Last, rec.Size, rec.Hash = before.Steps+1, int32(len(c.raw)), checksum(c.raw)
		if full {
			rec.Full, rec.Deltas = rec.Last, 0
		} else {
			rec.Deltas += int32(len(record))
		}
	}
	ch := store.Change{
		Run: h.run.ID, Epoch: h.lease.Epoch, Key: c.key, Seen: rec.Inbox, Release: mv.Release, After: mv.After, End: mv.End,
		Letters: slices.Clip(h.away),
	}
	ch.Add = h.stepRows(mv, rec, record, c.visit)
	if mv.What == machine.Moves {
		ch.Version = h.p.Shape.Version
	}
	events := eventRows(mv.Events)
	others := h.sheet.changes[:1] // the first place is the run's own
	if mv.End {
		ch.Keep = h.retain()
		var out []byte
		if mv.What != machine.Merges {
			made, closing, err := h.finish(ctx, c, mv, rec, &ch)
			if err != nil {
				return rec, nil, err
			}
			out = made
			last := len(events) - 1
			events = append(events[:last:last], append(closing, events[last])...)
		}
		letters, err := h.tell(ctx, rec, out, mv, &others)
		if err != nil {
			return rec, nil, err
		}
		ch.Letters = append(ch.Letters, letters...)
		rec.Waiters = nil
	}
	ch.Add = append(ch.Add, events...)
	if c.visit != nil {
		others = append(others, c.visit.brings(&ch, c)...)
	}
	if mv.End || rec.Visit != before.Visit {
		for _, w := range before.Waits {
			if w.Question != "" {
				ch.Drop = append(ch.Drop, w.Question)
			}
		}
		letters, err := h.orphans(ctx, before)
		if err != nil {
			return rec, nil, err
		}
		ch.Letters = append(ch.Letters, letters...)
	}
	var err error
	row := h.sheet.write(func(b []byte) []byte { b, err = h.sheet.pen.Append(b, rec); return b })
	if err != nil {
		return rec, nil, err
	}
	ch.Status, ch.Node, ch.Outcome, ch.Row = string(rec.Status), rec.Node, rec.Outcome, row
	others[0] = ch
	return rec, others, nil
}

func (h *hand) retain() time.Duration {
	if h.p == nil {
		return 0
	}
	return h.p.Shape.Retain
}

func (h *hand) stepRows(mv machine.Move, rec *machine.Record, record []byte, v *visit) []store.Row {
	rows := h.sheet.rows[:0]
	version := h.run.Version
	if mv.What == machine.Moves { // its state is the new version's
		version = h.p.Shape.Version
	}
	for i, e := range mv.Log {
		head := stepHead{
			Entry: e, Attempt: rec.Attempt, Visit: h.rec.Visit, Try: h.rec.Try, Worker: h.w.id, Version: version,
			Last: rec.Last, Full: rec.Full, Hash: rec.Hash,
		}
		if i == 0 {
			head.From, head.Upto = h.rec.Calls, h.calls.Load()
			if v != nil {
				head.MS, head.Cost = v.took.Milliseconds(), v.cost.Load()
			}
		} else {
			record = nil
		}
		if len(e.Payload) > inline {
			key := hash(e.Payload)
			rows = append(rows, store.Row{Stream: store.Blob, Key: key, Data: e.Payload})
			head.Payload = encode(map[string]string{"blob": h.run.ID + "/" + key})
		}
		data := h.sheet.write(func(b []byte) []byte { return frame(b, &head, record) })
		rows = append(rows, store.Row{Stream: store.Step, Data: data, Told: e.Told})
	}
	h.sheet.rows = rows
	return rows
}

// finishError is an error of the graph's last functions.
type finishError struct{ err error }

func (f *finishError) Error() string { return f.err.Error() }
func (f *finishError) Unwrap() error { return f.err }

// finish makes the output and the closing events of an ending run.
func (h *hand) finish(ctx context.Context, c commit, mv machine.Move, rec *machine.Record, ch *store.Change) (out []byte, closing []store.Row, err error) {
	if h.p == nil {
		ch.Add = append(ch.Add, store.Row{Stream: store.Audit, Data: encode(audit{Did: "closing_skipped", What: "the graph is not registered, or has ended the goroutine that asked it"})})
		return nil, nil, nil
	}
	state := c.state
	if c.raw == nil {
		if state, err = h.p.decode(h.raw); err != nil {
			return nil, nil, err
		}
	}
	end := host.Ending{
		Run: h.run.ID, Terminal: rec.Node, Outcome: rec.Outcome, Attempt: rec.Attempt, Cost: h.cost(ctx),
		Duration: rec.Ended.Sub(rec.Began), Path: func() []string { return h.path(ctx) },
	}
	if rec.Err != nil {
		end.Err = rec.Err
	}
	if mv.Named {
		if err := guard("Finish", func() (err error) { out, err = h.p.Finish(state, end); return err }); err != nil {
			return nil, nil, &finishError{err}
		}
		if len(out) > MaxState {
			return nil, nil, &finishError{exhausted("the output has %d bytes, at most %d are allowed", len(out), MaxState)}
		}
		if len(out) <= inline {
			rec.Output = out
		} else {
			rec.Large = hash(out)
			ch.Add = append(ch.Add, store.Row{Stream: store.Blob, Key: rec.Large, Data: out})
		}
	}
	closing, err = h.closing(state, end)
	if err == nil {
		return out, closing, nil
	}
	if mv.Named {
		return nil, nil, &finishError{err} // the run fails of it
	}
	ch.Add = append(ch.Add, store.Row{Stream: store.Audit, Data: encode(audit{Did: "closing_failed", What: err.Error()})})
	return out, nil, nil
}

func (h *hand) closing(state any, end host.Ending) (rows []store.Row, err error) {
	var es []host.Event
	if err := guard("Closing", func() (err error) { es, err = h.p.Closing(state, end); return err }); err != nil {
		return nil, err
	}
	for _, v := range es {
		if len(v.Data) > MaxEvent {
			return nil, exhausted("closing event %q has %d bytes, at most %d are allowed", v.Type, len(v.Data), MaxEvent)
		}
		rows = append(rows, store.Row{Stream: store.Event, Data: event{Type: v.Type, Data: v.Data}.bytes()})
	}
	return rows, nil
}

// cost is what the run has cost so far, in micro-dollars, over all attempts.
func (h *hand) cost(ctx context.Context) int64 {
	r, err := h.e.store.Get(ctx, everything, h.run.ID)
	if err != nil {
		r = h.run
	}
	return h.rec.Before + used(r, pawl.MeterUSD)
}

func used(r store.Run, meter string) int64 {
	for _, c := range r.Counters {
		if c.Meter == meter {
			return c.Used
		}
	}
	return 0
}

// path is the nodes of this attempt in the order of their visits, the one under way included.
func (h *hand) path(ctx context.Context) (names []string) {
	rows, err := h.e.store.Read(ctx, everything, h.run.ID, store.Query{Stream: store.Step})
	if err != nil {
		h.e.c.Trace.fault("path", err)
		return nil
	}
	for _, row := range rows {
		head, _, err := unframe(row)
		if err == nil && head.Attempt == h.rec.Attempt && head.Last == row.Seq && head.Name == head.Before {
			names = append(names, head.Name)
		}
	}
	return append(names, h.rec.Node)
}

func unmarshal(row store.Row, v any) error { return json.Unmarshal(row.Data, v) }
