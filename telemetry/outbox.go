package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"pawl/engine"
	"pawl/store"
)

// outbox reads the log of runs behind what was told of them, and marks how far it came. A step is told by the process of the
// worker that made it, or, where that is dead, by whoever takes the run up or finds it.
type outbox struct {
	t      *Traces
	store  store.Store
	engine *engine.Engine // only reads
	id     string
	sweeps bool // this process does it for all on the store

	at     map[string]position // of runs that were looked at
	looked time.Time
	sweep  time.Time            // when the next one is
	seen   map[string]time.Time // runs that sweeps have found, as of when
	behind string               // the run up to which the last sweep came
}

// position is how far a run was told: every step up to Done, and of each worker's own up to the number in Steps.
type position struct {
	Done  int64            `json:"done"`
	Steps map[string]int64 `json:"steps"`
}

// mark is a position as the audit of the run has it.
type mark struct {
	Did  string   `json:"did"`
	What position `json:"what"`
}

const (
	marked    = "traced" // what marks do, and their key
	most      = 512      // spans in a request
	page      = 100      // steps in a read
	positions = 10_000   // that are remembered
)

func newOutbox(t *Traces, s store.Store) (*outbox, error) {
	e, err := engine.New(s, nil, engine.Config{})
	return &outbox{t: t, store: s, engine: e, id: uuid.NewString(), at: map[string]position{}, seen: map[string]time.Time{}, looked: time.Now()}, err
}

// batch is what goes into one request.
type batch struct {
	spans []*tracepb.Span
	runs  []string
	at    map[string]position
}

// flush tells all that is new. What could not be told stays new.
func (o *outbox) flush(ctx context.Context) error {
	if time.Since(o.looked) > paused || len(o.at) > positions {
		clear(o.at)
	}
	defer func() { o.looked = time.Now() }()
	todo, later := o.t.take(), []string(nil)
	defer func() { o.t.put("", later...) }()
	var live map[string]bool
	for len(todo) > 0 {
		b := batch{at: map[string]position{}}
		var next []string
		for len(todo) > 0 && len(b.spans) < most {
			id := todo[0]
			todo = todo[1:]
			if live == nil {
				var err error
				if live, err = o.live(ctx); err != nil {
					later = append(append(append(later, id), todo...), next...)
					return err
				}
			}
			p, err := o.read(ctx, id, live)
			switch {
			case gone(err):
				continue
			case err != nil: // it is looked at again when it moves, and by sweeps
				o.t.c.Fault("traces", err)
				continue
			case p.more:
				next = append(next, id)
			case p.young:
				later = append(later, id)
			}
			if len(p.spans) > 0 {
				b.spans, b.runs, b.at[id] = append(b.spans, p.spans...), append(b.runs, id), p.at
			}
		}
		if err := o.tell(ctx, b); err != nil {
			later = append(append(append(later, b.runs...), todo...), next...)
			return err
		}
		todo = append(todo, next...)
	}
	return nil
}

// tell sends a batch and marks what was sent. Between the two a process may die: then the same spans are sent again, under the
// same ids.
func (o *outbox) tell(ctx context.Context, b batch) error {
	if len(b.spans) == 0 {
		return nil
	}
	dropped, err := o.t.send.send(ctx, b.spans)
	if err != nil {
		return err
	}
	o.t.mu.Lock()
	o.t.count.Sent += int64(len(b.spans)) - dropped
	o.t.count.Dropped += dropped
	o.t.mu.Unlock()
	maps.Copy(o.at, b.at) // also where the mark is not taken: this process knows
	var cs []store.Change
	for _, id := range b.runs {
		row, err := json.Marshal(mark{marked, b.at[id]})
		if err != nil {
			return nil // a map of numbers
		}
		cs = append(cs, store.Change{Run: id, Add: []store.Row{{Stream: store.Audit, Key: marked, Data: row}}})
	}
	err = o.store.Apply(ctx, cs...)
	if errors.Is(err, store.ErrNotFound) && len(cs) > 1 { // a run was removed: the others are marked all the same
		for _, c := range cs {
			if err = o.store.Apply(ctx, c); err != nil && !errors.Is(err, store.ErrNotFound) {
				break
			}
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		o.t.c.Fault("traces", fmt.Errorf("spans were sent and not marked: after a crash they are sent again: %w", err))
	}
	return nil
}

// live are the workers that have not died.
func (o *outbox) live(ctx context.Context) (map[string]bool, error) {
	ws, err := o.store.Workers(ctx)
	live := map[string]bool{}
	for _, w := range ws {
		live[w.ID] = true
	}
	return live, err
}

// piece is what there is to tell of one run.
type piece struct {
	spans []*tracepb.Span
	at    position
	more  bool // behind these
	young bool // steps of a dead worker that may yet be told by whoever knew it
}

func (o *outbox) read(ctx context.Context, id string, live map[string]bool) (p piece, err error) {
	if p.at, err = o.position(ctx, id); err != nil {
		return p, err
	}
	now, err := o.store.Now(ctx)
	if err != nil {
		return p, err
	}
	done := true // everything up to here
	for after := p.at.Done; ; {
		r, err := o.engine.Report(ctx, id, after, page)
		if err != nil {
			return p, err
		}
		tr := o.trace(ctx, r)
		if tr == nil {
			return piece{}, nil
		}
		for _, s := range r.Steps {
			switch own := o.t.is(s.Worker); {
			case s.Begins || s.Seq <= p.at.Steps[s.Worker]:
			case own || !live[s.Worker] && now.Sub(s.OccurredAt) >= o.t.c.Grace:
				p.spans = append(p.spans, tr.step(ctx, s)...)
				p.at.Steps[s.Worker] = s.Seq
			default:
				done, p.young = false, p.young || !live[s.Worker]
			}
			if after = s.Latest; done {
				p.at.Done = after
			}
		}
		if !r.More {
			return p, nil
		}
		if len(p.spans) >= most {
			p.more = true
			return p, nil
		}
	}
}

// position says how far a run was told. It may be changed.
func (o *outbox) position(ctx context.Context, id string) (position, error) {
	at, known := o.at[id]
	if known {
		return position{at.Done, maps.Clone(at.Steps)}, nil
	}
	at.Steps = map[string]int64{}
	rows, err := o.store.Read(ctx, store.Scope{All: true}, id, store.Query{Stream: store.Audit, Key: marked})
	if errors.Is(err, store.ErrNotFound) {
		return at, nil // Report says so
	}
	for _, row := range rows {
		var m mark
		if json.Unmarshal(row.Data, &m) != nil || m.Did != marked {
			continue
		}
		at.Done = max(at.Done, m.What.Done)
		for w, n := range m.What.Steps {
			at.Steps[w] = max(at.Steps[w], n)
		}
	}
	return at, err
}

// What a sweep looks at: a run that a dead process has left right after its last commit is in nobody's hand any more.
const (
	sweepEvery = time.Minute
	sweepBack  = time.Hour
	sweepRuns  = 500 // in a page
	sweepPages = 20  // in a sweep: the newest runs, and then on from where the last sweep came to

	sweeper = "pawl.traces" // the limit of one that it is under
)

// find sweeps for runs that stand still and may not have been told whole. One process does it for all on a store; where that has
// died, another one does as soon as it is forgotten.
func (o *outbox) find(ctx context.Context) {
	if time.Until(o.sweep) > 0 {
		return
	}
	busy, err := o.store.Take(ctx, store.Slot{Limit: sweeper, Holder: o.id, Burst: 1, Max: 1, Hold: sweepEvery * 3 / 2})
	o.sweeps = err == nil && busy <= 0
	o.sweep = time.Now().Add(sweepEvery)
	if !o.sweeps {
		if err == nil {
			o.sweep = time.Now().Add(min(busy, sweepEvery))
		}
		return
	}
	now, err := o.store.Now(ctx)
	if err != nil {
		return
	}
	maps.DeleteFunc(o.seen, func(_ string, at time.Time) bool { return now.Sub(at) > sweepBack })
	after := ""
	for n := range sweepPages {
		rs, err := o.store.List(ctx, store.Scope{All: true}, store.Filter{}, store.Page{After: after, Limit: sweepRuns})
		if err != nil {
			return
		}
		o.note(rs, now)
		switch {
		case len(rs) < sweepRuns:
			o.behind = ""
			return
		case n == 0 && o.behind != "":
			after = o.behind
		default:
			after = rs[len(rs)-1].ID
			o.behind = after
		}
	}
}

// note takes up those of these runs that have moved, a while ago, and are in nobody's hand.
func (o *outbox) note(rs []store.Run, now time.Time) {
	for _, r := range rs {
		age := now.Sub(r.Updated)
		if r.Until.After(now) || age > sweepBack || age < o.t.c.Grace || o.seen[r.ID].Equal(r.Updated) {
			continue
		}
		o.seen[r.ID] = r.Updated
		o.t.put("", r.ID)
	}
}

// rest lets another process sweep.
func (o *outbox) rest(ctx context.Context) {
	if o.sweeps {
		_ = o.store.Give(ctx, sweeper, o.id) // else it is forgotten after a while
	}
}
