package engine

import (
	"context"
	"errors"
	"iter"
	"maps"
	"sync"
	"time"

	"pawl"
	"pawl/internal/machine"
	"pawl/store"
)

// worker is one Work or WorkRun under way. Its id is made up: never configured, never used twice.
type worker struct {
	e     *Engine
	id    string
	root  string // only runs under this root; empty: all
	began time.Time
	wake  chan struct{}
	mail  chan struct{}

	mu       sync.Mutex
	hands    map[string]*hand
	told     map[*hand]bool // those that somebody may have written to
	stop     bool
	claiming bool // between a claim and its hands: a notice may be about a run that is not in hand yet
	missed   bool
	taken    int // places, by which they are told apart
	wg       sync.WaitGroup
}

func (e *Engine) newWorker(root string) *worker {
	w := &worker{e: e, id: newID(), root: root, began: time.Now(), wake: make(chan struct{}, 1), mail: make(chan struct{}, 1), hands: map[string]*hand{}, told: map[*hand]bool{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.workers[w] = true
	return w
}

func (w *worker) forget() {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	delete(w.e.workers, w)
}

// kick makes the workers of this process look for runs at once.
func (e *Engine) kick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.workers {
		signal(w.wake)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Work runs what is due until ctx is done, and then drains: no visit is begun, those under way run to their commit. Abort
// ends them too. It returns nil after a drain, and an error only where it could not begin.
func (e *Engine) Work(ctx context.Context) error {
	switch _, err := e.store.Now(ctx); {
	case err != nil && ctx.Err() != nil: // told to stop before it has begun
		return nil
	case err != nil:
		return coded("work", "", err)
	}
	w := e.newWorker("")
	defer w.forget()
	return coded("work", "", w.run(ctx, nil))
}

// Abort throws away the visits under way in this process and gives their runs back. Call it after the ctx of Work is
// done, when a drain takes too long.
func (e *Engine) Abort() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.workers {
		w.mu.Lock()
		for _, h := range w.hands {
			h.interrupt(pawl.ErrDrained)
		}
		w.mu.Unlock()
	}
}

// WorkRun works one run and its children, until it has ended or all that is left waits for a person, for a version, or
// for another worker's background. Where another live worker holds the run it waits for it, and takes over if it dies.
func (e *Engine) WorkRun(ctx context.Context, run string) error {
	r, err := e.store.Get(ctx, everything, run)
	if err != nil {
		return coded("work", run, err)
	}
	w := e.newWorker(r.Root)
	defer w.forget()
	return coded("work", run, w.run(ctx, func(ctx context.Context) (bool, error) { return e.settled(ctx, r.Root) }))
}

// run is the loop of a worker. done, if given, is asked whenever nothing is in hand and nothing can be claimed.
func (w *worker) run(ctx context.Context, done func(context.Context) (bool, error)) error {
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var helpers sync.WaitGroup
	notices := w.e.store.Watch(background) // from here on: before anything is claimed
	helpers.Go(func() { w.listen(background, notices) })
	helpers.Go(func() { w.keep(background) })
	helpers.Go(func() { w.e.expires(background) })
	err := w.loop(ctx, context.WithoutCancel(ctx), done) // what is in hand ends by its own causes, not with a context
	w.mu.Lock()
	w.stop = true
	w.mu.Unlock()
	w.wg.Wait() // leases are renewed until the last run is out of hand
	cancel()
	helpers.Wait()
	w.leave(context.WithoutCancel(ctx)) // a renewal after it would say that the worker lives
	return err
}

// leave says that the worker is not alive any more. Where the store does not take that soon, it finds out by itself.
func (w *worker) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := w.e.store.Renew(ctx, w.id, nil, 0); err != nil {
		w.e.c.Trace.fault("leave", err)
	}
}

func (w *worker) loop(ctx, background context.Context, done func(context.Context) (bool, error)) error {
	var outage time.Time
	swept := time.Time{}
	for ctx.Err() == nil {
		if now := time.Now(); swept.IsZero() || now.Sub(swept) >= tidy {
			swept = now
			if err := w.e.sweep(ctx, w.root); ctx.Err() == nil { // told to stop is no fault
				w.e.c.Trace.fault("sweep", err)
			}
		}
		free := w.claims()
		if len(w.e.kinds) == 0 { // no kinds would mean every kind
			free = 0
		}
		asked := time.Now()
		rs, next, err := w.claim(ctx, free)
		if err != nil {
			if ctx.Err() != nil && len(rs) == 0 {
				return nil
			}
			w.e.c.Trace.fault("claim", err)
			if outage.IsZero() {
				outage = time.Now()
			}
			if done != nil && time.Since(outage) > w.e.c.Outage {
				return err
			}
			next = 200 * time.Millisecond
		} else {
			outage = time.Time{}
		}
		for _, r := range rs {
			w.take(background, r, asked)
		}
		w.claimed()
		if len(rs) > 0 && len(rs) == free {
			continue
		}
		if done != nil && err == nil && len(rs) == 0 && w.inHand() == 0 {
			if ok, err := done(ctx); ctx.Err() == nil && (ok || err != nil) {
				return err
			}
		}
		if free <= 0 || next < 0 || next > w.e.c.Poll { // a hand that becomes free wakes us
			next = w.e.c.Poll
		}
		wait(ctx, max(next, time.Millisecond), w.wake)
	}
	return nil
}

// wait returns when d has passed, on a signal, or with ctx.
func wait(ctx context.Context, d time.Duration, sig <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-sig:
	case <-ctx.Done():
	}
}

// claims begins a claim, and says how many runs may be taken.
func (w *worker) claims() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claiming = true
	return w.e.c.Slots - len(w.hands)
}

// claimed ends a claim. A notice that came meanwhile may have been about a letter to one of the runs.
func (w *worker) claimed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claiming = false
	if w.missed {
		w.missed = false
		w.tell("")
	}
}

func (w *worker) inHand() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.hands)
}

// take drives a claimed run in a goroutine of its own. It is counted as in hand until drop, whoever drives it by then.
func (w *worker) take(ctx context.Context, p placed, asked time.Time) {
	h := newHand(w, p.run, asked)
	h.place = p.place
	w.mu.Lock()
	if old := w.hands[h.run.ID]; old != nil { // our own lease ran out: the old hand has lost it as to any other worker
		old.interrupt(pawl.ErrFenced)
	}
	w.hands[h.run.ID] = h
	w.mu.Unlock()
	w.wg.Add(1)
	go h.drive(ctx)
}

// drop takes a run out of hand.
func (w *worker) drop(h *hand) {
	w.mu.Lock()
	if w.hands[h.run.ID] == h {
		delete(w.hands, h.run.ID)
	}
	w.mu.Unlock()
	if h.place.Limit == "" {
		signal(w.wake)
	} else {
		w.e.vacate(h.place)
		w.e.kick() // another worker of this process may take it
	}
	w.wg.Done()
}

func (w *worker) draining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stop
}

// listen turns notices of the store into looks. What was said while nobody watched is looked for. Most notices are of our own
// commits: it listens for a moment and lets them gather for a longer one, in turns, or each commit would wake this goroutine.
// A notice of another run waits no longer than they gather.
func (w *worker) listen(ctx context.Context, notices iter.Seq2[string, error]) {
	const gather, moment = 5 * time.Millisecond, time.Millisecond
	gathered := time.Now()
	for ; ctx.Err() == nil; notices = w.e.store.Watch(ctx) {
		w.mu.Lock()
		w.tell("")
		w.mu.Unlock()
		signal(w.wake)
		for id, err := range notices {
			if err != nil {
				w.e.c.Trace.fault("watch", err)
				break
			}
			w.mu.Lock()
			mine := w.hands[id] != nil
			w.missed = w.missed || !mine && w.claiming
			w.tell(id)
			w.mu.Unlock()
			switch {
			case !mine:
				signal(w.wake)
			case time.Since(gathered) > moment:
				wait(ctx, gather, nil)
				gathered = time.Now()
			}
		}
		wait(ctx, w.e.c.Poll, nil)
	}
}

// tell notes that a run in hand may have been written to; empty: any. The worker is locked.
func (w *worker) tell(id string) {
	if id == "" {
		for _, h := range w.hands {
			w.told[h] = true
		}
	} else if h := w.hands[id]; h != nil {
		w.told[h] = true
	}
	if len(w.told) > 0 {
		signal(w.mail)
	}
}

// keep renews the leases in time, and looks meanwhile whether those that were told of have letters or another holder. Most are
// told of for our own commits, so each is looked at only so often, and by a read: a renewal locks the runs, and their commits
// would wait for it.
func (w *worker) keep(ctx context.Context) {
	last := time.Now()
	for {
		wait(ctx, w.e.c.Renew-time.Since(last), w.mail)
		switch {
		case ctx.Err() != nil:
			return
		case time.Since(last) >= w.e.c.Renew:
			w.renew(ctx)
			last = time.Now()
			w.keepPlaces(ctx)
		default:
			w.look(ctx)
		}
		wait(ctx, min(w.e.c.Renew/15, w.e.c.Renew-time.Since(last)), nil)
	}
}

// look looks at those that were told of. Where a run has committed since it was looked at, that is most likely all that was told: it can
// wait for a moment.
func (w *worker) look(ctx context.Context) {
	now, due := time.Now(), []*hand{}
	w.mu.Lock()
	maps.DeleteFunc(w.told, func(h *hand, _ bool) bool { return w.hands[h.run.ID] != h })
	for h := range w.told {
		if h.commits.Load() == h.before || now.Sub(h.looked) >= w.e.c.Renew/5 {
			h.before, h.looked = h.commits.Load(), now
			due = append(due, h)
			delete(w.told, h)
		}
	}
	if len(w.told) > 0 {
		signal(w.mail)
	}
	w.mu.Unlock()
	for _, h := range due {
		switch r, err := w.e.store.Get(ctx, everything, h.run.ID); {
		case err == nil:
			h.heed(ctx, store.Held{Run: r.ID, Lost: r.Epoch != h.lease.Epoch || r.Ended || r.Until.IsZero(), Inbox: r.Inbox})
		case errors.Is(err, store.ErrNotFound):
			h.interrupt(pawl.ErrFenced)
		case ctx.Err() == nil:
			w.e.c.Trace.fault("look", err)
		}
	}
}

func (w *worker) renew(ctx context.Context) {
	var ls []store.Lease
	hands := map[string]*hand{} // those that are asked for: another may have the run in hand when the answer comes
	w.mu.Lock()
	for _, h := range w.hands {
		ls = append(ls, h.lease)
		hands[h.run.ID] = h
	}
	w.mu.Unlock()
	asked := time.Now()
	held, err := w.e.store.Renew(ctx, w.id, ls, w.e.c.Lease)
	if err != nil {
		if ctx.Err() == nil {
			w.e.c.Trace.fault("renew", err)
		}
		return
	}
	for _, r := range held {
		if h := hands[r.Run]; h != nil {
			if !r.Lost {
				h.renewed(asked)
			}
			h.heed(ctx, r)
		}
	}
}

// settled reports whether nothing under a root will move without a person or another version.
func (e *Engine) settled(ctx context.Context, root string) (bool, error) {
	now := e.now(ctx)
	page := store.Page{Limit: 200}
	for {
		rs, err := e.store.List(ctx, everything, store.Filter{Root: root, Statuses: liveStatuses}, page)
		if err != nil {
			return false, err
		}
		for _, r := range rs {
			if moves, err := e.moves(r, now); moves || err != nil {
				return false, err
			}
		}
		if len(rs) < page.Limit {
			return true, nil
		}
		page.After = rs[len(rs)-1].ID
	}
}

var liveStatuses = []string{string(pawl.StatusQueued), string(pawl.StatusRunning), string(pawl.StatusWaiting)}

// moves reports whether a run goes on without a person.
func (e *Engine) moves(r store.Run, now time.Time) (bool, error) {
	if r.Until.After(now) {
		return true, nil
	}
	if r.Due.IsZero() {
		return r.Worker != "", nil // a dead worker's: its lease has run out, the next claim gets it
	}
	if e.byKind[r.Kind()] == nil {
		return false, nil
	}
	rec, _, err := parts(r)
	if err != nil {
		return false, err
	}
	person, clock := false, false
	for _, w := range rec.Waits {
		person = person || w.Kind == pawl.WaitsForAnswer
		clock = clock || w.Kind != pawl.WaitsForAnswer && !w.Due.IsZero()
	}
	return clock || !person || !r.Due.After(now), nil
}

func letter(run string, l machine.Letter) store.Letter {
	return store.Letter{Run: run, Add: []store.Row{{Stream: store.Inbox, Data: encode(l)}}}
}
