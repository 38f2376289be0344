package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pawl"
	"pawl/internal/machine"
	"pawl/store"
)

// hand is one run in the hand of a worker: all that the engine knows of it while it holds the lease. Only the goroutine
// that drives it touches it, but for the fields behind mu.
type hand struct {
	e       *Engine
	w       *worker
	run     store.Run
	lease   store.Lease
	place   store.Slot // among the runs of its workflow; Limit empty: those are not limited
	p       *program
	rec     *machine.Record
	head    Head
	state   any    // the live value
	raw     []byte // the committed one
	spare   []byte // room for the next one
	sheet   sheet
	choices []machine.Choice // room for them
	read    atomic.Int64
	held    atomic.Int64 // nanoseconds since the worker began: when a claim or a renewal that gave us the lease was asked for

	commits atomic.Int64 // made so far
	before  int64        // made when the worker looked at the run
	looked  time.Time    // when it did; with before it is the keeping goroutine's

	calls, events atomic.Int64   // numbers of the last rows that were seen
	fresh         bool           // nothing of this visit can have been recorded before
	away          []store.Letter // to waiters who were turned away: they go with the commit that has read their letters
	opened        bool           // all is known that was to be read
	exits         int            // how often the graph's own code has ended the goroutine that drove the run
	driver        atomic.Int64   // number of the goroutine that drives: raised by one that takes over

	mu         sync.Mutex
	cause      error  // why the hand must let go: ErrFenced, ErrCancelled or ErrDrained
	visit      *visit // the execution under way
	runtimeCap int64  // milliseconds; below zero: none
}

func newHand(w *worker, r store.Run, asked time.Time) *hand {
	h := &hand{e: w.e, w: w, run: r, lease: store.Lease{Run: r.ID, Epoch: r.Epoch}, rec: new(machine.Record), runtimeCap: -1}
	h.renewed(asked)
	for _, c := range r.Counters {
		if c.Meter == pawl.MeterRuntime {
			h.runtimeCap = c.Cap
		}
	}
	return h
}

// interrupt makes the execution under way end for a cause. The first one counts, but a lost lease outdoes the others.
func (h *hand) interrupt(cause error) {
	h.mu.Lock()
	if h.cause == nil || cause == pawl.ErrFenced {
		h.cause = cause
	}
	v := h.visit
	h.mu.Unlock()
	if v != nil {
		v.close(cause)
	}
}

func (h *hand) interrupted() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// renewed notes a lease that was asked for at a moment.
func (h *hand) renewed(asked time.Time) { raise(&h.held, int64(asked.Sub(h.w.began))) }

// holds makes sure that the run is ours before something is done. Where the process or the store stood still its lease may have
// run out, and another worker may have done it since: such a lease is renewed first. repeat says for how long
// that is tried while the store is away.
func (h *hand) holds(ctx context.Context, repeat func(context.Context, func() error) error) error {
	if time.Since(h.w.began)-time.Duration(h.held.Load()) < h.e.c.Lease {
		return nil
	}
	var held []store.Held
	err := repeat(ctx, func() (err error) { held, err = h.renew(ctx); return err })
	switch {
	case err != nil:
		return err
	case len(held) == 0 || held[0].Lost:
		h.interrupt(pawl.ErrFenced)
		return pawl.ErrFenced
	}
	h.heed(ctx, held[0])
	return nil
}

func (h *hand) renew(ctx context.Context) ([]store.Held, error) {
	asked := time.Now()
	held, err := h.e.store.Renew(ctx, h.w.id, []store.Lease{h.lease}, h.e.c.Lease)
	if err == nil && len(held) == 1 && !held[0].Lost {
		h.renewed(asked)
	}
	return held, err
}

// heed does what is known of the lease while the run is in hand.
func (h *hand) heed(ctx context.Context, r store.Held) {
	switch {
	case r.Lost:
		h.interrupt(pawl.ErrFenced)
	case r.Inbox > h.read.Load():
		h.peek(ctx)
	}
}

// peek looks whether a letter says cancel. It does not take the letters: the driving goroutine does.
func (h *hand) peek(ctx context.Context) {
	letters, upto, err := h.e.letters(ctx, h.run.ID, h.read.Load())
	if err != nil {
		h.e.c.Trace.fault("read letters", err)
		return
	}
	h.read.Store(upto)
	for _, l := range letters {
		if l.Cancel != nil {
			h.interrupt(pawl.ErrCancelled)
		}
	}
}

func (e *Engine) letters(ctx context.Context, run string, after int64) (letters []machine.Letter, upto int64, err error) {
	rows, err := e.store.Read(ctx, everything, run, store.Query{Stream: store.Inbox, After: after})
	if err != nil {
		return nil, after, err
	}
	upto = after
	for _, row := range rows {
		var l machine.Letter
		if err := unmarshal(row, &l); err != nil {
			return nil, after, err
		}
		letters, upto = append(letters, l), row.Seq
	}
	return letters, upto, nil
}

// receive takes the letters into the record.
func (h *hand) receive(ctx context.Context) error {
	var letters []machine.Letter
	var upto int64
	err := h.surely(ctx, func() (err error) { letters, upto, err = h.e.letters(ctx, h.run.ID, h.rec.Inbox); return err })
	if err != nil {
		return err
	}
	if err := h.turnAway(ctx, letters); err != nil {
		return err
	}
	h.rec = machine.Receive(h.rec, letters, upto)
	h.read.Store(max(h.read.Load(), upto))
	return nil
}

// errLetGo ends the driving of a run: it ended, it was parked, or it was given back. Where another worker has it, ErrFenced does.
var errLetGo = errors.New("engine: the run is out of hand")

// drive takes a run from visit to visit until it is out of hand.
func (h *hand) drive(ctx context.Context) { h.goOn(ctx, h.open) }

// goOn drives a run on with a first step. It ends early where another goroutine has taken the run over.
func (h *hand) goOn(ctx context.Context, step func(context.Context) error) {
	driver, exited := h.driver.Load(), true
	defer func() {
		if exited && h.driver.Load() == driver { // runtime.Goexit in the graph's own code: this goroutine is lost
			go h.goOn(ctx, h.exited)
		}
	}()
	err := step(ctx)
	for err == nil {
		err = h.step(ctx)
	}
	exited = false
	if errors.Is(err, errLeft) {
		return
	}
	defer h.w.drop(h)
	switch {
	case errors.Is(err, errLetGo), ctx.Err() != nil:
	default:
		if errors.Is(err, pawl.ErrFenced) {
			err = fmt.Errorf("what was under way here is thrown away: %w", err)
		}
		// The lease runs out and another claim tries again: nothing is lost, but somebody should know.
		h.e.c.Trace.fault(fmt.Sprintf("run %s at %s", h.run.ID, h.rec.Node), err)
	}
}

// exited ends a run whose graph has ended the goroutine that drove it, with a condition or a Finish for example. Where that was
// before the run was opened, it is held. Where it happens again, so in what is asked at an end, nothing more is asked.
func (h *hand) exited(ctx context.Context) error {
	const text = "the graph's own code has ended its goroutine"
	if !h.opened {
		return h.hold(ctx, text)
	}
	if h.exits++; h.exits > 1 || h.rec.Cancel != nil {
		h.p = nil
	}
	if h.rec.Cancel != nil {
		return h.cancelled(ctx, nil, h.tick(ctx, nil))
	}
	return h.fail(ctx, nil, h.tick(ctx, nil), h.at(&pawl.Error{Code: pawl.CodeInternal, Text: text}))
}

// open reads what is known of a claimed run.
func (h *hand) open(ctx context.Context) (err error) {
	if h.rec, h.head, err = parts(h.run); err != nil {
		return err
	}
	h.read.Store(h.rec.Inbox)
	h.saw(h.rec.Calls, h.rec.Events)
	h.fresh = h.rec.Status == pawl.StatusQueued && h.run.Epoch-h.rec.Epoch == 1
	if h.e.c.Trace.Claimed != nil {
		h.e.c.Trace.Claimed(h.run.ID, h.rec.Node, h.run.Epoch)
	}
	if h.run.Inbox > h.rec.Inbox {
		if err := h.receive(ctx); err != nil {
			return err
		}
	}
	h.p = h.e.byKind[h.run.Kind()]
	if h.rec.Cancel != nil && (h.p == nil || !h.p.fits(h.run, h.rec)) {
		h.p = nil // nothing here can make its closing events
		return h.cancelled(ctx, nil, h.tick(ctx, nil))
	}
	if h.p == nil {
		return h.hold(ctx, "version "+h.run.Version+" of "+h.run.Workflow+" is not registered here")
	}
	if !h.p.fits(h.run, h.rec) {
		return h.hold(ctx, fmt.Sprintf("the graph of %s changed without a new version (fingerprint %s, the run has %s)",
			h.run.Kind(), h.p.Shape.Fingerprint, h.rec.Fingerprint))
	}
	err = h.surely(ctx, func() (err error) {
		h.raw, err = h.e.stateAt(ctx, everything, h.run.ID, h.rec.Full, h.rec.Steps, h.rec.Hash)
		return err
	})
	if pawl.Coded(err) != nil && pawl.Coded(err).Code == pawl.CodeInternal && !errors.Is(err, store.ErrUnavailable) {
		return h.hold(ctx, "the state cannot be read: "+err.Error())
	}
	if err != nil {
		return err
	}
	if h.run.Version != h.p.Shape.Version {
		if err := h.migrate(ctx); err != nil {
			return err
		}
	}
	if h.state, err = h.p.decode(h.raw); err != nil {
		return h.hold(ctx, "the state does not fit the graph's state type: "+err.Error())
	}
	h.opened = true
	if h.rec.Cancel == nil && machine.CrashLoop(h.rec, h.run.Epoch) {
		return h.fail(ctx, nil, h.tick(ctx, nil), &pawl.Error{Code: pawl.CodeCrashLoop, Node: h.rec.Node,
			Text: fmt.Sprintf("node %q was begun %d times and came to no end", h.rec.Node, pawl.MaxClaims)})
	}
	return nil
}

// step makes one visit, or one try of it, to its commit.
func (h *hand) step(ctx context.Context) error {
	if h.read.Load() > h.rec.Inbox {
		if err := h.receive(ctx); err != nil {
			return err
		}
	}
	switch {
	case h.rec.Cancel != nil:
		return h.cancelled(ctx, nil, h.tick(ctx, nil))
	case errors.Is(h.interrupted(), pawl.ErrFenced):
		return pawl.ErrFenced
	case h.w.draining() || h.interrupted() != nil:
		return h.giveBack(ctx, nil, h.tick(ctx, nil), 0)
	}
	if d := h.retryIn(ctx); d > machine.Patience { // a letter came before the next try is due
		t := h.tick(ctx, nil)
		return h.commit(ctx, commit{}, func(r *machine.Record) (machine.Move, error) {
			retry, kept := split(r.Waits)
			return h.p.m.Park(r, t, retry, kept, nil)
		})
	} else if d > 0 {
		h.pause(ctx, d)
		return nil
	}
	v := h.newVisit(ctx)
	h.mu.Lock()
	h.visit = v
	cause := h.cause
	h.mu.Unlock()
	if cause != nil {
		v.close(cause)
	}
	next, err := v.execute(h.state)
	if errors.Is(err, errLeft) {
		return err
	}
	return h.decide(ctx, v, next, err)
}

// retryIn is how long the next try has still to wait. Few runs wait for one: the others need not ask a clock, which may be far away.
func (h *hand) retryIn(ctx context.Context) time.Duration {
	if len(h.rec.Waits) == 0 {
		return 0
	}
	return h.rec.RetryIn(h.e.now(ctx))
}

// decide makes the end of an execution a commit.
func (h *hand) decide(ctx context.Context, v *visit, next any, err error) error {
	h.mu.Lock()
	h.visit = nil
	h.mu.Unlock()
	return h.conclude(ctx, v, next, err)
}

// conclude decides what becomes of an execution. Whatever closed the visit outdoes what the node returned.
func (h *hand) conclude(ctx context.Context, v *visit, next any, err error) error {
	cause := v.cause()
	if cause == nil && err == nil {
		v.orphaned()
	}
	t := h.tick(ctx, v)
	switch {
	case errors.Is(cause, pawl.ErrFenced):
		return pawl.ErrFenced
	case errors.Is(cause, pawl.ErrCancelled):
		if err := h.receive(ctx); err != nil {
			return err
		}
		return h.cancelled(ctx, v, t)
	case errors.Is(cause, pawl.ErrDrained):
		return h.giveBack(ctx, v, t, 0)
	case errors.Is(cause, pawl.ErrParked):
		return h.park(ctx, v, t)
	case errors.Is(v.broken(), store.ErrUnavailable), errors.Is(v.broken(), store.ErrUnknown): // another execution makes up for it
		h.e.c.Trace.fault("record", v.broken())
		return h.giveBack(ctx, v, t, time.Second)
	case v.broken() != nil: // another execution would meet the same
		return h.failed(ctx, v, t, unrecorded(h.run.ID, v.broken()))
	case err != nil:
		return h.failed(ctx, v, t, err)
	}
	return h.advance(ctx, v, t, next)
}

// split parts the waits for the next try from those that stay beside it.
func split(ws []machine.Wait) (retry, kept []machine.Wait) {
	for _, w := range ws {
		if w.Kind == pawl.WaitsForRetry && w.Key == "" {
			retry = append(retry, w)
		} else {
			kept = append(kept, w)
		}
	}
	return retry, kept
}

// tick is what the machine is told at a decision.
func (h *hand) tick(ctx context.Context, v *visit) machine.Tick {
	t := machine.Tick{Now: h.e.now(ctx), Epoch: h.lease.Epoch, Calls: h.calls.Load(), Events: h.events.Load()}
	if v != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		t.Took, t.Notes, t.Answered = v.took, v.notes, v.answered
	}
	return t
}

func (h *hand) saw(calls, events int64) {
	raise(&h.calls, calls)
	raise(&h.events, events)
}

func raise(a *atomic.Int64, to int64) {
	for old := a.Load(); to > old && !a.CompareAndSwap(old, to); old = a.Load() {
	}
}
