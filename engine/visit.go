package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
	"pawl/store"
)

// visit is one execution of a node: the host of its calls. It is open until something closes it: the node returns, a
// call has to wait, the run is cancelled, the lease is lost, the time is up. The first cause counts: a visit that waits has
// come to its end, and a clock that strikes then makes no error of it. It only ends the calls that are still under way; the
// next execution, whose clock begins anew, makes them again.
type visit struct {
	h       *hand
	p       *program
	rec     *machine.Record // of this execution: code that was left behind must not see the next one's
	n       *host.Node
	began   time.Time
	took    time.Duration   // set when it is over
	base    context.Context // of the hand: what is read and recorded does not end with node code's contexts
	seen    host.Host       // what node code calls: the visit, or what stands around it
	ending  ending
	timeout *time.Timer // of the node
	cost    atomic.Int64

	mu           sync.Mutex
	over         bool // nothing is recorded any more
	running      bool // the node is; whoever sets it to false goes on
	answered     bool
	loaded       bool // journal and told are what the store has
	eventsLoaded bool
	why          error         // why it is closed
	dead         chan struct{} // made by the first call; closed when calls must end too
	killed       error         // why calls must end too: such an end is not a call's own
	fault        error         // the store did not take what was to be recorded
	leaver       *time.Timer
	keys         map[string]bool
	made         int // calls begun
	under        int // calls under way
	idle         []chan struct{}
	killers      map[int]context.CancelCauseFunc
	tried        int
	journal      map[string]*entry
	told         map[string]int // ends of children in the journal, by family
	emitted      map[string]event
	emits        map[string]int // next number by scope
	notes        []machine.Entry
	luggage      *luggage    // nil where there is none, as with most visits
	clock        *time.Timer // of the runtime budget
}

// luggage is what a visit leaves for the commit that follows it.
type luggage struct {
	waits []machine.Wait
	asks  []asking
	kin   []machine.Family
	brood brood          // what is begun of these families
	later []store.NewRun // background runs, created if the node commits
}

func (v *visit) packLocked() *luggage {
	if v.luggage == nil {
		v.luggage = new(luggage)
	}
	return v.luggage
}

var _ host.Host = (*visit)(nil)

func (h *hand) newVisit(ctx context.Context) *visit {
	v := &visit{h: h, p: h.p, rec: h.rec, base: ctx, began: time.Now(), loaded: h.fresh, eventsLoaded: h.fresh}
	v.seen = v
	if around := h.e.c.Around; around != nil {
		v.seen = around(v)
	}
	return v
}

// ends reports whether a cause ends the calls under way too, and not only the node.
func ends(cause error) bool {
	return !errors.Is(cause, pawl.ErrParked) && !errors.Is(cause, pawl.ErrClosed)
}

// close ends the visit for a cause, if nothing else has; a lost lease outdoes every other cause.
func (v *visit) close(cause error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closeLocked(cause)
}

func (v *visit) closeLocked(cause error) {
	if v.why == nil || errors.Is(cause, pawl.ErrFenced) || errors.Is(v.why, pawl.ErrParked) && errors.Is(cause, pawl.ErrCancelled) {
		v.why = cause
	}
	v.ending.end(cause)
	if ends(cause) {
		v.kill(cause)
	}
	v.awaitLocked()
}

// kill ends the calls under way, whatever the visit was closed by.
func (v *visit) kill(cause error) {
	if v.killed == nil {
		v.killed = cause
	}
	if v.dead == nil {
		v.dead = make(chan struct{})
	}
	select {
	case <-v.dead:
	default:
		close(v.dead)
	}
	for _, stop := range v.killers {
		stop(cause)
	}
}

// whenKilled calls stop, which must not block, if the calls under way have to end. forget takes that back.
func (v *visit) whenKilled(stop context.CancelCauseFunc) (forget func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.killers == nil {
		v.killers = map[int]context.CancelCauseFunc{}
	}
	v.tried++
	id := v.tried
	v.killers[id] = stop
	if v.killed != nil {
		stop(v.killed)
	}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.killers, id)
	}
}

// cause is why the visit was closed, but for the node's own return.
func (v *visit) cause() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if errors.Is(v.why, pawl.ErrClosed) {
		return nil
	}
	return v.why
}

func (v *visit) broken() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.fault
}

// breaks notes that the store refused a record, and closes the visit: nothing that follows could be trusted.
func (v *visit) breaks(err error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if errors.Is(err, store.ErrStale) {
		v.closeLocked(pawl.ErrFenced)
		return pawl.ErrFenced
	}
	if v.fault == nil {
		v.fault = err
	}
	err = unrecorded(v.h.run.ID, err)
	v.closeLocked(pawl.ErrClosed)
	v.kill(err)
	return err
}

// ours makes sure that the run is still in hand before something is done outside.
func (v *visit) ours(repeat func(context.Context, func() error) error) error {
	err := v.h.holds(v.base, repeat)
	if err != nil && !errors.Is(err, pawl.ErrFenced) {
		return v.breaks(err)
	}
	return err
}

// unrecorded is the error of a visit for which the store did not record or read something.
func unrecorded(run string, err error) error {
	e := *pawl.Coded(coded("record", run, err))
	e.Text = err.Error() // what is missing need not be the run itself
	return pawl.Permanent(&e)
}

// errLeft says that a node was left behind: another goroutine drives the run by now.
var errLeft = errors.New("engine: the node was left behind")

// execute runs the node in this goroutine to its end, and waits until the calls under way have been recorded.
func (v *visit) execute(state any) (next any, err error) {
	n, i, err := v.p.m.Node(v.rec)
	if err != nil {
		return nil, err
	}
	v.n = n
	if err := v.limits(); err != nil {
		return v.ended(nil, err)
	}
	if err := v.charged(); err != nil {
		return v.ended(nil, err)
	}
	if err := v.ours(v.h.surely); err != nil {
		return v.ended(nil, err)
	}
	v.mu.Lock()
	v.running = true
	v.awaitLocked()
	v.mu.Unlock()
	exited := true
	defer func() {
		if exited && v.returned(true) { // runtime.Goexit in the node: this goroutine is lost
			go v.takeOver(pawl.Permanent(&pawl.Error{Code: pawl.CodeInternal, Text: fmt.Sprintf("node %q ended its goroutine", n.Name)}))
		}
	}()
	err = guardIn("node", n.Name, func() (err error) { next, err = v.p.Run(v.context(), i, state); return err })
	exited = false
	if !v.returned(false) {
		return nil, errLeft
	}
	return v.ended(next, err)
}

// returned ends the running of the node. It is false if the node was left behind. over says that another goroutine than the
// node's goes on.
func (v *visit) returned(over bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.running {
		return false
	}
	v.running = false
	if over {
		v.h.driver.Add(1)
	}
	if v.leaver != nil {
		v.leaver.Stop()
	}
	return true
}

// awaitLocked gives a node whose context has ended a while to return.
func (v *visit) awaitLocked() {
	if v.running && v.why != nil && v.leaver == nil {
		v.leaver = time.AfterFunc(v.h.e.c.Abandon, v.leaveBehind)
	}
}

// leaveBehind goes on without a node that ignores the end of its context. It has as long as calls of it are under way, and
// then a little more; its later calls are refused.
func (v *visit) leaveBehind() {
	v.settle()
	wait(v.base, v.h.e.c.Abandon, nil)
	if v.returned(true) {
		v.takeOver(context.Cause(v.context()))
	}
}

// takeOver drives the run on from a goroutine of its own.
func (v *visit) takeOver(err error) {
	next, err := v.ended(nil, err)
	v.h.goOn(v.base, func(ctx context.Context) error { return v.h.decide(ctx, v, next, err) })
}

// ended closes the visit behind its node.
func (v *visit) ended(next any, err error) (any, error) {
	v.close(pawl.ErrClosed)
	v.settle()
	v.finished()
	v.finish()
	v.took = time.Since(v.began)
	if v.h.e.c.Trace.Visit != nil {
		v.h.e.c.Trace.Visit(Visited{Run: v.h.run.ID, Workflow: v.h.run.Workflow, Node: v.n.Name, Visit: v.rec.Visit, Try: v.rec.Try, Took: v.took, Err: err})
	}
	return next, v.overrun(err)
}

// settle waits for the calls under way; for those that ignore the end of their context only a little.
func (v *visit) settle() {
	v.mu.Lock()
	if v.under == 0 {
		v.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	v.idle = append(v.idle, idle)
	dead := v.dead
	v.mu.Unlock()
	select {
	case <-idle:
		return
	case <-dead:
	}
	t := time.NewTimer(v.h.e.c.Abandon)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	}
}

// leave counts a call as over.
func (v *visit) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.under--; v.under == 0 {
		for _, c := range v.idle {
			close(c)
		}
		v.idle = nil
	}
}

// overrun gives an error of a visit that was stopped by a clock its right form.
func (v *visit) overrun(err error) error {
	v.mu.Lock()
	why := v.why
	v.mu.Unlock()
	if t, ok := why.(*timeUp); ok {
		return t.err
	}
	return err
}

// timeUp closes a visit that a clock stopped.
type timeUp struct{ err error }

func (t *timeUp) Error() string { return t.err.Error() }

func (v *visit) finish() {
	v.mu.Lock()
	if v.timeout != nil {
		v.timeout.Stop()
	}
	if v.clock != nil {
		v.clock.Stop()
	}
	v.mu.Unlock()
}

// limits starts the clocks of the visit.
func (v *visit) limits() error {
	if d := v.n.Timeout; d > 0 {
		v.timeout = time.AfterFunc(d, func() {
			v.close(&timeUp{&pawl.Error{Code: pawl.CodeStepTimeout, Node: v.n.Name, Text: fmt.Sprintf("node %q took longer than %s", v.n.Name, d)}})
		})
	}
	return v.runtime(v.h.lower(-1))
}

// runtime starts the clock of the runtime budget, or sets it anew.
func (v *visit) runtime(limit int64) error {
	if limit < 0 {
		return nil
	}
	h := v.h
	used := v.rec.Used(h.e.now(v.base))
	over := &pawl.BudgetError{Meter: pawl.MeterRuntime, Used: used.Milliseconds(), Cap: limit}
	left := time.Duration(limit)*time.Millisecond - used
	if v.rec.Grace {
		left += v.p.Shape.Grace
	}
	if left <= 0 {
		return over
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.clock != nil {
		v.clock.Stop()
	}
	v.clock = time.AfterFunc(left, func() {
		over.Used = limit
		v.close(&timeUp{over})
	})
	return nil
}

// charged takes the node's Costs, once a visit: the charge and the entry that remembers it are one record.
func (v *visit) charged() error {
	if len(v.n.Costs) == 0 {
		return nil
	}
	const key = "\x00costs" // no call can have this key
	if err := v.load(); err != nil {
		return err
	}
	v.mu.Lock()
	done := v.journal[key] != nil
	v.mu.Unlock()
	if done {
		return nil
	}
	_, err := v.record([]store.Row{callRow(entry{Visit: v.rec.Visit, Kind: kindCosts, Key: key})}, v.charges(v.n.Costs))
	return err
}

// brings adds what the visit leaves for the commit: questions and children with a park, background runs with an advance.
func (v *visit) brings(ch *store.Change, c commit) (others []store.Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := v.luggage
	switch {
	case l == nil:
	case c.parks:
		ch.Ask, ch.Create = v.asked(l.asks), l.brood.births
		ch.Letters = append(ch.Letters, l.brood.letters...)
		return l.brood.attempts()
	case c.background:
		ch.Create = l.later
	}
	return nil
}
