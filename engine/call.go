package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
	"pawl/store"
)

// scope is one call under way: what Charge, Hold, Emit, Annotate and IdempotencyKey inside its fn belong to.
type scope struct {
	v    *visit
	call host.Call
	try  int // physical, over all executions

	mu     sync.Mutex
	back   []store.Charge // held and not spent: given back with the call's record
	attrs  map[string]any
	turns  int               // places taken in limits of meters that are charged inside the call
	places map[string]func() // by meter: gives the place back
	left   bool              // the call has ended
}

type scopeKey struct{}

func scopeOf(ctx context.Context) *scope { s, _ := ctx.Value(scopeKey{}).(*scope); return s }

// begin takes a key for this execution, and finds what the journal has under it. outside tells calls that do something
// from those that only wait: these may still register while the visit is being parked, so that all that it waits for is
// known at once.
func (v *visit) begin(ctx context.Context, key string, outside bool) (*entry, error) {
	if scopeOf(ctx) != nil {
		return nil, pawl.ErrNested
	}
	if err := v.load(); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.why != nil && (outside || !errors.Is(v.why, pawl.ErrParked)) {
		return nil, v.refusal()
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), pawl.ErrParked) {
		return nil, context.Cause(ctx) // node code has ended a context of its own
	}
	if v.keys[key] {
		return nil, fmt.Errorf("%w: %q", pawl.ErrKeyUsed, key)
	}
	if v.made++; v.made > pawl.MaxCalls {
		return nil, exhausted("node %q: more than %d calls in one visit", v.n.Name, pawl.MaxCalls)
	}
	if v.keys == nil {
		v.keys = map[string]bool{}
	}
	v.keys[key] = true
	if outside {
		v.under++
		if v.dead == nil {
			v.dead = make(chan struct{})
		}
	}
	return v.journal[key], nil
}

// refusal is the error of a call on a closed visit.
func (v *visit) refusal() error { return outward(v.why) }

// outward is a cause as node code sees it.
func outward(cause error) error {
	if t, ok := cause.(*timeUp); ok {
		return t.err
	}
	return cause
}

// lives reports whether an entry still counts: a result as long as the visit, an error as long as the try that it was made
// for. A child's attempt that began in an earlier try may end in this one: its error does not count.
func (en *entry) lives(try int) bool {
	return en != nil && en.Again == nil && (en.Err == nil || en.Try == try)
}

// Call makes one outside call to a recorded end.
func (v *visit) Call(ctx context.Context, c host.Call, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	admit := c.Admitted
	if admit == nil {
		admit = func() {}
	}
	defer admit()
	en, err := v.begin(ctx, c.Key, true)
	if err != nil {
		return nil, err
	}
	defer v.leave()
	want := entry{Visit: v.rec.Visit, Try: v.rec.Try, Kind: kindCall, Key: c.Key}
	if c.For != nil {
		want.ForHash = hash(c.For)
		if len(c.For) <= inline {
			want.For = c.For
		}
	}
	if en != nil && en.ForHash != want.ForHash {
		return nil, fmt.Errorf("%w: %q was recorded for another request", pawl.ErrKeyUsed, c.Key)
	}
	if err := v.is(en, c.Key, kindCall); err != nil {
		return nil, err
	}
	if en.lives(v.rec.Try) {
		v.trace(c.Key, 0, true, en.Attrs, en.Err)
		if en.Err != nil {
			return nil, v.final(c, en.Err)
		}
		return v.result(en)
	}
	tries := 0
	if en != nil && en.Again != nil && en.Try == v.rec.Try {
		tries = en.Physical
		if err := v.sit(ctx, c.Key, en.Again.Sub(v.h.e.now(ctx)), pawl.WaitsForRetry); err != nil {
			return nil, err
		}
	}
	return v.try(ctx, c, want, tries, fn, admit)
}

// is refuses an entry that another kind of call has left under a key.
func (v *visit) is(en *entry, key string, kinds ...string) error {
	if en == nil || slices.Contains(kinds, en.Kind) {
		return nil
	}
	return fmt.Errorf("%w: %q was recorded as %s", pawl.ErrKeyUsed, key, en.Kind)
}

// try makes the physical tries of a call.
func (v *visit) try(ctx context.Context, c host.Call, en entry, tries int, fn func(context.Context) ([]byte, error), admit func()) ([]byte, error) {
	for {
		give, err := v.slots(ctx, c)
		if err != nil {
			return nil, err
		}
		if err := v.ours(v.h.patiently); err != nil {
			give()
			return nil, err
		}
		if len(c.Charge) > 0 {
			if _, err := v.record(nil, v.charges(c.Charge)); err != nil {
				give()
				return nil, v.spent(ctx, en, err)
			}
		}
		admit()
		tries++
		s := &scope{v: v, call: c, try: tries}
		began := time.Now()
		b, err := v.once(ctx, c, s, fn)
		s.leave()
		give()
		en.Physical, en.MS, en.seq = tries, time.Since(began).Milliseconds(), 0
		s.mu.Lock()
		en.Attrs = maps.Clone(s.attrs)
		back := s.back
		s.mu.Unlock()
		v.trace(c.Key, time.Since(began), false, en.Attrs, err)
		if err == nil {
			return v.success(ctx, en, b, back)
		}
		if stopped := v.stopped(); stopped != nil {
			// Not the call's own end: nothing is recorded, the next execution makes it again.
			if _, rerr := v.record(nil, back); rerr != nil {
				return nil, rerr
			}
			return nil, stopped
		}
		after, ok := pawl.Retryable(err)
		if !ok || tries > c.Retry.Max {
			return nil, v.failure(ctx, c, en, err, back)
		}
		after = machine.Backoff(c.Retry, tries, fmt.Sprintf("%s/%d/%s", v.h.run.ID, v.rec.Visit, c.Key), after)
		again := v.h.e.now(ctx).Add(after)
		en.Err, en.Again = pawl.Coded(err), &again
		if _, err := v.record([]store.Row{callRow(en)}, back); err != nil {
			return nil, err
		}
		en.Err, en.Again = nil, nil
		if err := v.sit(ctx, c.Key, after, pawl.WaitsForRetry); err != nil {
			return nil, err
		}
	}
}

// once makes one physical try. Its context carries the values of the caller's and ends with it, but not when the visit is only parked: what is under way runs to its end.
func (v *visit) once(ctx context.Context, c host.Call, s *scope, fn func(context.Context) ([]byte, error)) (b []byte, err error) {
	inside, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); ends(cause) {
			cancel(cause)
		}
	})()
	defer v.whenKilled(cancel)()
	if c.Timeout > 0 {
		late := &pawl.Error{Code: pawl.CodeTimeout, Text: fmt.Sprintf("call %q took longer than %s", c.Key, c.Timeout)}
		t := time.AfterFunc(c.Timeout, func() { cancel(late) })
		defer t.Stop()
		defer func() {
			if err != nil && context.Cause(inside) == error(late) {
				err = late
			}
		}()
	}
	inside = context.WithValue(inside, scopeKey{}, s)
	err = guard("call "+c.Key, func() (err error) { b, err = fn(inside); return err })
	return b, err
}

// stopped is the cause that ends calls under way, if there is one.
func (v *visit) stopped() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return outward(v.killed)
}

func (v *visit) success(ctx context.Context, en entry, b []byte, back []store.Charge) ([]byte, error) {
	if len(b) > MaxResult {
		err := exhausted("node %q: the result of call %q has %d bytes, at most %d are allowed", v.n.Name, en.Key, len(b), MaxResult)
		return nil, v.failure(ctx, host.Call{Key: en.Key}, en, err, back)
	}
	en.Result = b
	rows := aside(v.h.run.ID, &en)
	_, err := v.record(append(rows, callRow(en)), back)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// failure records the final error of a call, and gives it back in its recorded form.
func (v *visit) failure(ctx context.Context, c host.Call, en entry, err error, back []store.Charge) error {
	en.Err = at(err, v.rec.Node)
	if _, err := v.record([]store.Row{callRow(en)}, back); err != nil {
		return err
	}
	return v.final(c, recorded(en.Err))
}

// final marks the error of a call that had retries of its own.
func (v *visit) final(c host.Call, err *pawl.Error) error {
	if c.Retry.Max > 0 {
		return pawl.Tried(err)
	}
	return err
}

// spent records that a charge was refused.
func (v *visit) spent(ctx context.Context, en entry, err error) error {
	var b *pawl.BudgetError
	if !errors.As(err, &b) {
		return err
	}
	return v.failure(ctx, host.Call{Key: en.Key}, en, err, nil)
}

// recorded is an error as it comes out of the journal.
func recorded(e *pawl.Error) *pawl.Error {
	out := new(pawl.Error)
	if unmarshal(store.Row{Data: encode(e)}, out) != nil {
		return e
	}
	return out
}

// sit waits for a machine: in hand where that is short, else by parking the visit. Where the visit is parked meanwhile, this is
// one more thing that it waits for.
func (v *visit) sit(ctx context.Context, key string, d time.Duration, kind string) error {
	if d <= 0 {
		return nil
	}
	if d > machine.Patience {
		v.park(machine.Wait{Kind: kind, Key: key, Due: v.h.e.now(ctx).Add(d)})
		return pawl.ErrParked
	}
	due := v.h.e.now(ctx).Add(d)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-v.context().Done():
	case <-ctx.Done():
	}
	if v.context().Err() == nil {
		return context.Cause(ctx) // node code has ended a context of its own
	}
	v.park(machine.Wait{Kind: kind, Key: key, Due: due})
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.refusal()
}

// park registers what the visit waits for, and closes it.
func (v *visit) park(w machine.Wait) {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := v.packLocked()
	l.waits = append(l.waits, w)
	v.closeLocked(pawl.ErrParked)
}

// slots takes the shared limits of a call: the one that it names, and those of the meters that it charges. They are taken in
// the order of their names, so that calls that want the same ones never wait for each other. give returns them.
func (v *visit) slots(ctx context.Context, c host.Call) (give func(), err error) {
	limits := v.h.e.c.Limits
	if _, ok := limits[c.Limit]; !ok && c.Limit != "" {
		return nil, unlimited(c)
	}
	var names []string
	for name := range limits {
		if under(c, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var taken []func()
	give = func() {
		for _, g := range slices.Backward(taken) {
			g()
		}
	}
	for _, name := range names {
		g, err := v.slot(ctx, c.Key, name, limits[name], func(d time.Duration) error { return v.sit(ctx, c.Key, d, pawl.WaitsForRetry) })
		if err != nil {
			give()
			return nil, err
		}
		taken = append(taken, g)
	}
	return give, nil
}

// under tells whether a call is under a limit from its beginning.
func under(c host.Call, limit string) bool { return limit == c.Limit || c.Charge[limit] > 0 }

// slot takes one shared limit, and sits until there is room in it.
func (v *visit) slot(ctx context.Context, key, name string, l Limit, sit func(time.Duration) error) (give func(), err error) {
	// A call that was left behind holds its place beside the one that is made again.
	holder := fmt.Sprintf("%s/%d/%d/%d/%s", v.h.run.ID, v.h.lease.Epoch, v.rec.Visit, v.rec.Try, key)
	slot := store.Slot{Limit: name, Holder: holder, Every: l.Every, Burst: max(l.Burst, 1), Max: l.Max, Hold: v.h.e.c.Lease}
	for {
		var d time.Duration
		err := v.h.patiently(v.base, func() (err error) { d, err = v.h.e.store.Take(v.base, slot); return err })
		if err != nil {
			return nil, v.breaks(err)
		}
		if d <= 0 {
			stop := v.h.e.occupy(slot)
			return func() {
				stop()
				if err := v.h.e.store.Give(context.WithoutCancel(ctx), name, holder); err != nil {
					v.h.e.c.Trace.fault("give", err)
				}
			}, nil
		}
		if err := sit(d); err != nil {
			return nil, err
		}
	}
}

// unlimited is the error of a call under a limit that is not configured.
func unlimited(c host.Call) error {
	return pawl.Permanent(invalid("call %q: no limit %q is configured", c.Key, c.Limit))
}

// occupy keeps a place in a limit while the call is under way, however long that is.
func (e *Engine) occupy(s store.Slot) (stop func()) {
	if s.Max == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait(ctx, s.Hold/3, nil); ctx.Err() == nil; wait(ctx, s.Hold/3, nil) {
			if _, err := e.store.Take(ctx, s); err != nil && ctx.Err() == nil {
				e.c.Trace.fault("keep a place in limit "+s.Limit, err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (v *visit) trace(key string, took time.Duration, read bool, attrs map[string]any, err error) {
	if t := v.h.e.c.Trace.Call; t != nil {
		if e, ok := err.(*pawl.Error); ok && e == nil {
			err = nil
		}
		t(Called{Run: v.h.run.ID, Workflow: v.h.run.Workflow, Node: v.n.Name, Key: key, Visit: v.rec.Visit, Took: took, Recorded: read, Attrs: attrs, Err: err})
	}
}

// IdempotencyKey is derived from run, visit and key: the same for every physical try.
func (v *visit) IdempotencyKey(ctx context.Context) string {
	s := scopeOf(ctx)
	if s == nil {
		return ""
	}
	return derived(v.h.run.ID, fmt.Sprintf("call/%d/%s", v.rec.Visit, s.call.Key))
}

// sameEvent reports whether a re-run emits what was emitted before.
func sameEvent(a, b event) bool { return a.Type == b.Type && bytes.Equal(a.Data, b.Data) }
