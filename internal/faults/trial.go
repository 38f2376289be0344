package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// Trial is one run of a workflow, played on one store by a client and some workers while things break.
type Trial struct {
	Store   store.Store // the real one; it stays open
	Cut     func(on bool)
	Told    bool  // see Store.Told
	Plant   Plant // a bug; what is under the processes is in Store already
	World   *World
	Seen    *Witness
	Flows   []*pawl.Workflow // the first one is started
	Job     Job              // with this input; without a path: the same for all trials
	Workers Plan             // of all workers together
	Client  Plan             // of the client; it begins again after each death
	Staff   int              // workers at once
	Lease   time.Duration
	Within  time.Duration        // the longest that a run may take
	Cancel  time.Duration        // cancel it then; 0: never
	Before  func(t *Trial) error // with nobody there yet
	During  func(t *Trial) error // with workers there, before the run is started
	After   func(t *Trial) error // when the run has ended, with workers and client still there

	Run string // known when it is started
	ctx context.Context
	end context.CancelFunc

	mu      sync.Mutex
	offices []*Store
	desk    pawl.Runs // of the last one
	hired   []*hired
	acks    acks
	since   map[string]time.Time // runs that nothing will move, from when on
	stop    chan struct{}
	wg      sync.WaitGroup
}

// acks are the commands that the store has acknowledged.
type acks struct {
	answers  map[string]string // by question
	tried    bool              // to cancel
	again    bool              // a start whose outcome was unknown found the run failed already, and began its next attempt
	cancel   time.Time
	attempts int // to answer differently, that were refused
}

// hired is a worker.
type hired struct {
	s      *Store
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
	if t.Job.Path == "" {
		t.Job = Job{Path: "run", Sum: 1}
	}
	t.acks.answers, t.since, t.stop = map[string]string{}, map[string]time.Time{}, make(chan struct{})
	t.ctx, t.end = context.WithTimeout(context.Background(), t.Within)
	defer t.bury()
	if t.Before != nil {
		if err := t.Before(t); err != nil {
			return err
		}
	}
	for range max(t.Staff, 1) {
		t.wg.Go(t.employ)
	}
	if t.During != nil {
		if err := t.During(t); err != nil {
			return err
		}
	}
	if err := t.start(); err != nil {
		return err
	}
	if err := t.attend(); err != nil {
		return err
	}
	if t.After != nil {
		return t.After(t)
	}
	return nil
}

func (t *Trial) config() engine.Config {
	return engine.Config{Lease: t.Lease, Poll: t.Lease / 3, Around: t.Plant.Around}
}

// Process makes a store as a new process sees it.
func (t *Trial) Process(p Plan) *Store {
	return &Store{Real: t.Store, Plan: p, Seen: t.Seen, Lease: t.Lease, Cut: t.Cut, Told: t.Told}
}

// over is what the engine of a process sees of its store.
func (t *Trial) over(s store.Store) store.Store {
	if t.Plant.Over == nil {
		return s
	}
	return t.Plant.Over(s)
}

// employ keeps one place filled: when a worker dies another one is hired a moment later.
func (t *Trial) employ() {
	for {
		h, err := t.hire()
		if err != nil {
			t.Seen.violation("a worker cannot be hired: %v", err)
			return
		}
		select {
		case <-h.s.Dead():
		case <-t.stop:
			return
		}
		if wait(t.ctx, t.Lease/5) != nil {
			return
		}
	}
}

func (t *Trial) hire() (*hired, error) {
	h := &hired{s: t.Process(t.Workers), done: make(chan struct{})}
	var err error
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
	}
	for _, o := range t.offices {
		o.Bury()
	}
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
	s := t.Process(t.Client)
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
