package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
	"pawl/internal/schema"
	"pawl/store"
)

// Config of an engine. The zero value works.
type Config struct {
	Slots   int           // runs in hand at once; default 64
	Lease   time.Duration // default 10 s
	Renew   time.Duration // default Lease/3
	Poll    time.Duration // how often to look without a notice; default 1 s
	Abandon time.Duration // how long a node that ignores the end of its context is waited for; default 1 s
	Outage  time.Duration // how long a run in hand waits for a store that is unavailable; default Lease
	Trace   Trace

	// Limits of calls by name, shared by all workers of a store. A call is under the limit that it names, and under those
	// that have the names of the meters that it charges. Every worker has to be given the same.
	Limits map[string]Limit
	// Concurrency is how many runs of a workflow are in hand at once, by its name, over all workers of a store that are given
	// the same. A run that waits is in nobody's hand.
	Concurrency map[string]int

	// Around, if given, stands between node code and the engine: pawltest makes calls fail with it.
	Around func(host.Host) host.Host
}

// Limit is shared by all workers of a store: at most Burst calls at once and one every Every afterwards (Every 0: no
// rate), and at most Max under way (0: any number).
type Limit struct {
	Every time.Duration
	Burst int
	Max   int
}

func (c Config) withDefaults() (Config, error) {
	c.Slots = cmp.Or(c.Slots, 64)
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.Renew = cmp.Or(c.Renew, c.Lease/3)
	c.Poll = cmp.Or(c.Poll, time.Second)
	c.Abandon = cmp.Or(c.Abandon, time.Second)
	c.Outage = cmp.Or(c.Outage, c.Lease)
	var faults []error
	if c.Slots < 1 {
		faults = append(faults, fmt.Errorf("slots: %d", c.Slots))
	}
	if c.Renew >= c.Lease || c.Lease < 0 || c.Renew < 0 {
		faults = append(faults, fmt.Errorf("renew (%s) must be shorter than the lease (%s)", c.Renew, c.Lease))
	}
	if c.Poll < 0 || c.Abandon < 0 || c.Outage < 0 {
		faults = append(faults, errors.New("a negative duration"))
	}
	for name, l := range c.Limits {
		if l.Every < 0 || l.Burst < 0 || l.Max < 0 || l.Every == 0 && l.Max == 0 {
			faults = append(faults, fmt.Errorf("limit %q: %+v", name, l))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return c, &pawl.Error{Code: pawl.CodeInvalid, Op: "configure", Text: "engine: " + err.Error()}
	}
	return c, nil
}

// program is one graph that this engine can run.
type program struct {
	*host.Program
	w     *pawl.Workflow
	m     machine.Machine
	input *schema.Schema
}

// Engine runs graphs on a store. It starts nothing by itself: Work and WorkRun do.
type Engine struct {
	store store.Store
	c     Config
	clock func(context.Context) (time.Time, error)
	shown atomic.Pointer[reading] // by the clock, last

	byKind  map[string]*program // name@version, also of versions that can be migrated from
	byName  map[string]*program // the version that new runs get
	ordered []*program
	kinds   []string
	limited []limited // workflows whose runs in hand are limited
	free    []string  // kinds of the others

	hub hub

	mu      sync.Mutex
	workers map[*worker]bool
	held    map[string]int64 // runs that this engine could not go on with, by the epoch at which it tried
}

// New makes an engine for built workflows. Their children are registered with them. Several versions of one name may be
// registered; new runs get the one that comes last.
func New(s store.Store, ws []*pawl.Workflow, c Config) (*Engine, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		store: s, c: c, clock: s.Now, workers: map[*worker]bool{}, held: map[string]int64{},
		byKind: map[string]*program{}, byName: map[string]*program{},
	}
	var faults []error
	for _, w := range ws {
		faults = append(faults, e.register(w, true))
	}
	for _, p := range e.ordered {
		for from := range p.Migrations {
			kind := store.Kind(p.Shape.Name, from)
			if e.byKind[kind] == nil {
				e.byKind[kind] = p
			}
		}
	}
	for k := range e.byKind {
		e.kinds = append(e.kinds, k)
	}
	slices.Sort(e.kinds)
	faults = append(faults, e.limit())
	if err := errors.Join(faults...); err != nil {
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Op: "register", Text: err.Error()}
	}
	return e, nil
}

func (e *Engine) register(w *pawl.Workflow, top bool) error {
	if w == nil {
		return errors.New("engine: an empty workflow")
	}
	for _, c := range w.Children() {
		if err := e.register(c, false); err != nil {
			return err
		}
	}
	if old := e.byKind[w.ID()]; old != nil {
		if old.Shape.Fingerprint != w.Fingerprint() {
			return fmt.Errorf("engine: two different graphs are called %s", w.ID())
		}
		if top {
			e.byName[w.Name()] = old
		}
		return nil
	}
	v, err := schema.Compile(w.Input())
	if err != nil {
		return fmt.Errorf("engine: %s: input schema: %w", w.ID(), err)
	}
	p := &program{Program: w.Program(), w: w, input: v}
	p.m = machine.Machine{Shape: &p.Shape}
	e.byKind[w.ID()] = p
	if top || e.byName[w.Name()] == nil {
		e.byName[w.Name()] = p
	}
	e.ordered = append(e.ordered, p)
	return nil
}

// find returns the program for a name, or for name@version.
func (e *Engine) find(workflow string) (*program, error) {
	if p := e.byName[workflow]; p != nil {
		return p, nil
	}
	if p := e.byKind[workflow]; p != nil && p.w.ID() == workflow {
		return p, nil
	}
	return nil, &pawl.Error{Code: pawl.CodeNotFound, Text: fmt.Sprintf("there is no workflow %q", workflow)}
}

// now is the store's clock. Where the store does not answer it is this process's: what is decided by it cannot be committed
// before the store answers again.
func (e *Engine) now(ctx context.Context) time.Time {
	if r := e.shown.Load(); r != nil {
		if d := time.Since(r.here); d >= 0 && d < fresh {
			return r.there.Add(d)
		}
	}
	t, err := e.clock(context.WithoutCancel(ctx))
	if err != nil {
		return time.Now().UTC()
	}
	e.shown.Store(&reading{there: t, here: time.Now()})
	return t
}

// reading is what the store's clock showed at a moment of this process's. It is not asked again as long as it is fresh: a step
// wants to know the time more than once, and a server is a round trip away.
type reading struct{ there, here time.Time }

const fresh = 50 * time.Millisecond
