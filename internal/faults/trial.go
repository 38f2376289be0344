package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// Order is a run that the client wants.
type Order struct {
	Flow   int           // of the trial's flows
	Job    Job           // its path is the order's own; empty: the same for all trials
	After  time.Duration // start it then
	Cancel time.Duration // cancel it so long after its start; 0: never

	Run       string    // known when it is started
	began     time.Time // acknowledged
	cancelled time.Time // acknowledged
	tried     bool      // to cancel
	again     bool      // a start whose outcome was unknown found the run failed already, and began its next attempt
	worn      bool      // a visit was begun too often, in the run or below it
}

// loose reports whether the run may end otherwise than on a calm day.
func (o *Order) loose() bool { return o.tried || o.again || o.worn }

// owns tells what belongs to the order by its path: runs by theirs, and effects by their label.
func (o *Order) owns(path string) bool {
	rest, ok := strings.CutPrefix(path, o.Job.Path)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == ':')
}

// loose reports whether a path belongs to an order whose run may end otherwise.
func (t *Trial) loose(path string) bool {
	return slices.ContainsFunc(t.Orders, func(o *Order) bool { return o.loose() && o.owns(path) })
}

// Trial is one or more runs of workflows, played on one store by a client and some workers while things break.
type Trial struct {
	Store   store.Store                          // the real one; it stays open
	Open    func(place int) (store.Store, error) // what a process opens for itself; the client's place is Staff. nil: all share Store
	Cut     func(on bool)
	Told    bool  // see Store.Told
	Follow  bool  // read the events of each order's run while things break
	Plant   Plant // a bug; what is under the processes is in Store already
	World   *World
	Seen    *Witness
	Flows   []*pawl.Workflow
	Orders  []*Order // none: one of the first flow
	Workers Plan     // of all workers together
	Client  Plan     // of the client; it begins again after each death
	Staff   int      // workers at once
	Lease   time.Duration
	Slack   time.Duration        // what a busy machine may be late, where time is real
	Within  time.Duration        // the longest that all may take
	Before  func(t *Trial) error // with nobody there yet
	During  func(t *Trial) error // with workers there, before a run is started
	After   func(t *Trial) error // when all runs have ended, with workers and client still there

	ctx context.Context
	end context.CancelFunc

	mu      sync.Mutex
	offices []*Store
	desk    pawl.Runs // of the last one
	hired   []*hired
	acks    acks
	since   map[string]stuck // runs that nothing will move
	seen    map[string]int64 // the last event that was followed, by run
	readers sync.WaitGroup
	stop    chan struct{}
	wg      sync.WaitGroup
}

// acks are the commands that the store has acknowledged.
type acks struct {
	answers  map[string]string // by question
	forks    []string
	retries  map[string]int // the attempt that must have begun, by run
	attempts int            // to answer differently, that were refused
}

// stuck is since when nothing will move a run, and which epoch it has had: with another one it has been in somebody's hands.
type stuck struct {
	at    time.Time
	epoch int64
}

// hired is a worker.
type hired struct {
	s      *Store
	place  int
	e      *engine.Engine
	cancel context.CancelFunc
	done   chan struct{}
}

// Play plays the trial to its end. What it gives are violations; an error says that the trial itself could not be held.
func (t *Trial) Play() (err error) {
	if t.Lease == 0 {
		t.Lease = 10 * time.Second
	}
	if t.Within == 0 {
		t.Within = 24 * time.Hour
	}
	if len(t.Orders) == 0 {
		t.Orders = []*Order{{}}
	}
	if o := t.Orders[0]; o.Job.Path == "" {
		o.Job = Job{Path: "run", Sum: 1}
	}
	t.acks.answers, t.acks.retries = map[string]string{}, map[string]int{}
	t.since, t.seen, t.stop = map[string]stuck{}, map[string]int64{}, make(chan struct{})
	if t.Cut != nil {
		t.Cut = together(t.Cut)
	}
	t.ctx, t.end = context.WithTimeout(context.Background(), t.Within)
	defer t.bury()
	if t.Before != nil {
		if err := t.Before(t); err != nil {
			return err
		}
	}
	for place := range max(t.Staff, 1) {
		t.wg.Go(func() { t.employ(place) })
	}
	if t.During != nil {
		if err := t.During(t); err != nil {
			return err
		}
	}
	if err := t.attend(); err != nil {
		return err
	}
	t.readers.Wait() // the runs have ended, and so do their events
	if t.After != nil {
		return t.After(t)
	}
	return nil
}

func (t *Trial) config() engine.Config {
	return engine.Config{Lease: t.Lease, Poll: t.Lease / 3, Around: t.Plant.Around}
}

// process makes a store as a new process sees it.
func (t *Trial) process(place int, p Plan) (*Store, error) {
	s := &Store{Real: t.Store, Plan: p, Seen: t.Seen, Lease: t.Lease, Cut: t.Cut, Told: t.Told}
	if t.Open == nil {
		return s, nil
	}
	var err error
	s.Real, err = t.Open(place)
	return s, err
}

// over is what the engine of a process sees of its store.
func (t *Trial) over(s store.Store) store.Store {
	if t.Plant.Over == nil {
		return s
	}
	return t.Plant.Over(s)
}

// employ keeps one place filled: when a worker dies, or cannot begin, another one is hired a moment later.
func (t *Trial) employ(place int) {
	for {
		h, err := t.hire(place)
		switch {
		case err == nil:
			select {
			case <-h.s.Dead():
			case <-h.done:
			case <-t.stop:
				return
			}
		case t.ctx.Err() != nil:
			return
		case !errors.Is(err, store.ErrUnavailable):
			t.Seen.violation("a worker cannot be hired: %v", err)
			return
		}
		if wait(t.ctx, t.Lease/5) != nil {
			return
		}
	}
}

func (t *Trial) hire(place int) (*hired, error) {
	s, err := t.process(place, t.Workers)
	if err != nil {
		return nil, err
	}
	h := &hired{s: s, place: place, done: make(chan struct{})}
	if h.e, err = engine.New(t.over(h.s), t.Flows, t.config()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.ctx))
	h.cancel = cancel
	t.mu.Lock()
	t.hired = append(t.hired, h)
	t.mu.Unlock()
	go func() {
		defer close(h.done)
		if err := h.e.Work(ctx); err != nil && !errors.Is(err, store.ErrUnavailable) && pawl.Coded(err).Code != pawl.CodeUnavailable {
			t.Seen.violation("a worker ended with %v", err)
		}
	}()
	return h, nil
}

// bury ends all processes and waits for what they leave: what does not come to its end is a leak, and in virtual time an
// error of the bubble (I11).
func (t *Trial) bury() {
	if t.stop != nil {
		close(t.stop)
	}
	t.end()
	t.wg.Wait()
	t.readers.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.hired {
		h.cancel()
	}
	for _, h := range t.hired {
		select { // the living drain
		case <-h.done:
		case <-h.s.Dead():
		case <-time.After(10 * t.Lease): // one may just stand still
			t.Seen.violation("I11: a worker does not drain")
		}
	}
	for _, h := range t.hired {
		h.s.Bury()
		h.e.Abort()
	}
	for _, h := range t.hired {
		<-h.done
		t.closes(h.s)
	}
	for _, o := range t.offices {
		o.Bury()
		t.closes(o)
	}
}

// closes lets go of what a process has opened for itself.
func (t *Trial) closes(s *Store) {
	if t.Open == nil {
		return
	}
	if err := s.Real.Close(); err != nil {
		t.Seen.violation("I11: a store cannot be closed: %v", err)
	}
}

// at is the store of whoever has a place now; nil: nobody.
func (t *Trial) at(place int) (s *Store) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.hired {
		if h.place == place {
			s = h.s
		}
	}
	return s
}

// office is the client's process: a new one after each death.
func (t *Trial) office() (*Store, pawl.Runs, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.offices); n > 0 {
		o := t.offices[n-1]
		select {
		case <-o.Dead():
		default:
			return o, t.desk, nil
		}
	}
	s, err := t.process(t.Staff, t.Client)
	if err != nil {
		return nil, nil, err
	}
	t.offices = append(t.offices, s)
	e, err := engine.New(t.over(s), t.Flows, t.config())
	if err != nil {
		return nil, nil, err
	}
	t.desk = e.As(all)
	return s, t.desk, nil
}

var all = pawl.Caller{User: "ann", Scopes: []string{pawl.ScopeAll}}

// Command gives a command again and again until it is known what became of it: a client that dies comes back, and one that is
// told nothing, or that the outcome is unknown, asks again.
func (t *Trial) Command(do func(context.Context, pawl.Runs) error) error {
	for t.ctx.Err() == nil {
		s, rs, err := t.office()
		if errors.Is(err, store.ErrUnavailable) && wait(t.ctx, 200*time.Millisecond) == nil {
			continue
		}
		if err != nil {
			return err
		}
		said := make(chan error, 1)
		go func() { said <- do(t.ctx, rs) }()
		select {
		case err = <-said:
		case <-s.Dead():
			if err := wait(t.ctx, time.Second); err != nil {
				return err
			}
			continue
		}
		if err == nil || pawl.Coded(err).Code != pawl.CodeUnavailable {
			return err
		}
		if err := wait(t.ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("no end of a command within %s: %w", t.Within, t.ctx.Err())
}
