package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// Config of Traces. All but URL may be left out.
type Config struct {
	URL      string // of the receiver, with its path: http://127.0.0.1:4318/v1/traces
	Headers  map[string]pawl.Secret
	Resource map[string]string // what the spans are from; service.name is pawl if it is not here
	Content  bool              // inputs, outputs, requests and results go with the spans

	Delay time.Duration // steps gather for so long; default 1 s
	Grace time.Duration // so old is a step of a dead worker before another one tells it; default 5 s
	Queue int           // runs with news at once; default 10,000. Those above it are looked for again
	Fault func(op string, err error)
}

func (c Config) withDefaults() Config {
	c.Delay = cmp.Or(c.Delay, time.Second)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	c.Queue = cmp.Or(c.Queue, 10_000)
	if c.Fault == nil {
		c.Fault = func(string, error) {}
	}
	return c
}

// How long things take at the most.
const (
	farewell = 3 * time.Second  // what is left at the end is told in
	backoff  = 30 * time.Second // a receiver that is down is left alone
	paused   = 5 * time.Second  // others may have told the runs of a process that has not read the store for so long
	findings = 256              // runs that were found, and are looked at together
)

// Traces tells a receiver of every step. The zero value does not work: NewTraces.
type Traces struct {
	c    Config
	send sender

	mu    sync.Mutex
	news  []string // runs, in the order in which they are told of
	known map[string]bool
	taken int             // out of news, and may come back
	found map[string]bool // runs that the sweep has found
	late  time.Time       // of the first notice that found no room and was not looked for yet
	left  map[string]bool // runs that were told but for the steps of others
	ours  map[string]bool // workers of this process
	count Count
}

// Count says what became of spans.
type Count struct {
	Sent    int64 // spans that the receiver took
	Dropped int64 // spans that it refused, alone
	Late    int64 // notices that found the queue full
	Waiting int   // runs with news
}

// NewTraces makes what Trace fills and Work sends.
func NewTraces(c Config) (*Traces, error) {
	c = c.withDefaults()
	s, err := newSender(c)
	if err != nil {
		return nil, err
	}
	return &Traces{c: c, send: s, known: map[string]bool{}, found: map[string]bool{}, left: map[string]bool{}, ours: map[string]bool{}}, nil
}

// Count says what became of spans up to now.
func (t *Traces) Count() Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.count
	c.Waiting = len(t.known)
	return c
}

// Trace notes which runs have news: at a commit, and where a run is taken up that another process may have left untold.
func (t *Traces) Trace() engine.Trace {
	return engine.Trace{
		Claimed: func(run, _ string, _ int64) { t.put("", run) },
		Committed: func(c engine.Committed) {
			t.put(c.Worker, c.Run)
		},
	}
}

// put takes up news.
func (t *Traces) put(worker, run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if worker != "" {
		t.ours[worker] = true
	}
	switch {
	case t.known[run]:
	case len(t.news)+t.taken >= t.c.Queue:
		t.count.Late++
		if t.late.IsZero() {
			t.late = time.Now()
		}
	default:
		t.add(run)
	}
}

func (t *Traces) add(run string) {
	if !t.known[run] {
		t.known[run], t.news = true, append(t.news, run)
	}
}

// offer takes up a run that was found, where there is room.
func (t *Traces) offer(run string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.found) >= findings {
		return false
	}
	t.found[run] = true
	return true
}

// take is all that has news; the room of those is kept until back. What was found comes behind.
func (t *Traces) take(found bool) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	runs := t.news
	t.news, t.taken = nil, len(runs)
	if found {
		for run := range t.found {
			if !t.known[run] {
				runs = append(runs, run)
			}
		}
		clear(t.found)
	}
	clear(t.known)
	return runs
}

// back puts back those that were taken and not told whole.
func (t *Traces) back(runs []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = 0
	for _, run := range runs {
		t.add(run)
	}
}

// missed says since when notices have found no room, once: who asks looks for their runs. Zero: none has.
func (t *Traces) missed() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.late
	t.late = time.Time{}
	return at
}

// leave notes a run whose steps of others wait for whoever may tell them.
func (t *Traces) leave(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left[run] = true
}

// others are the runs that were left, once.
func (t *Traces) others() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	runs := slices.Collect(maps.Keys(t.left))
	clear(t.left)
	return runs
}

func (t *Traces) is(worker string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ours[worker]
}

// Work sends until ctx is done, and then what is left, if that can be done soon. It is wrong only where it could not begin.
func (t *Traces) Work(ctx context.Context, s store.Store) error {
	o, err := newOutbox(t, s)
	if err != nil {
		return err
	}
	// A request under way is not cut off by the end: its spans would be sent again.
	sending, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(farewell, cut) })()
	looks := newSweep(t, s)
	var looking sync.WaitGroup
	looking.Go(func() { looks.work(ctx) })
	defer looks.giveUp(sending)
	failed := 0
	for ctx.Err() == nil {
		wait(ctx, min(t.c.Delay<<min(failed, 16), max(backoff, t.c.Delay)))
		if ctx.Err() != nil {
			break
		}
		if err := o.flush(sending, true); err == nil {
			failed = 0
		} else if failed++; failed == 1 && ctx.Err() == nil {
			t.c.Fault("traces", fmt.Errorf("spans stay in the log for now: %w", err))
		}
	}
	looking.Wait()
	if err := o.flush(sending, false); err != nil && failed == 0 {
		t.c.Fault("traces", fmt.Errorf("spans stay in the log: %w", err))
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// gone tells that a run was removed, or has expired.
func gone(err error) bool {
	var e *pawl.Error
	return errors.As(err, &e) && e.Code == pawl.CodeNotFound
}

// passes tells that the store may answer later.
func passes(err error) bool {
	var e *pawl.Error
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &e) && e.Code == pawl.CodeUnavailable
}
