package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

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

	at     map[string]position // of runs that were told of; others may have told more
	looked time.Time
	alive  map[string]bool // workers
	asked  time.Time       // when
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
	return &outbox{t: t, store: s, engine: e, at: map[string]position{}, looked: time.Now()}, err
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
	defer func() { o.t.back(later) }()
	for len(todo) > 0 {
		b := batch{at: map[string]position{}}
		var next []string
		for len(todo) > 0 && len(b.spans) < most {
			id := todo[0]
			todo = todo[1:]
			p, err := o.read(ctx, id)
			switch {
			case gone(err):
				continue
			case err != nil && passes(err):
				later = append(append(append(append(later, b.runs...), id), todo...), next...)
				return fmt.Errorf("the store: %w", err)
			case err != nil: // it would be the same again
				o.t.c.Fault("traces", fmt.Errorf("run %s is not told: %w", id, err))
				continue
			case p.more:
				next = append(next, id)
			case p.young:
				later = append(later, id)
			case p.left:
				o.t.leave(id)
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
		return fmt.Errorf("the receiver does not take them: %w", err)
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

// live are the workers that have not died. A step that is older than the grace, and so than the list, is of a worker who was there
// then.
func (o *outbox) live(ctx context.Context) (map[string]bool, error) {
	if asked := time.Now(); o.alive == nil || asked.Sub(o.asked) > o.t.c.Grace/2 {
		ws, err := o.store.Workers(ctx)
		if err != nil {
			return nil, err
		}
		o.alive, o.asked = map[string]bool{}, asked
		for _, w := range ws {
			o.alive[w.ID] = true
		}
	}
	return o.alive, nil
}

// piece is what there is to tell of one run.
type piece struct {
	spans   []*tracepb.Span
	at      position
	more    bool // behind these
	foreign bool // steps of workers of other processes:
	young   bool // of a dead one that may yet be told by whoever knew it
	left    bool // of one that lives
}

// read reads what is to be told of a run from where this process knows that it was told to, or, where there are steps of others,
// from where their marks say.
func (o *outbox) read(ctx context.Context, id string) (piece, error) {
	if at, known := o.at[id]; known {
		p, err := o.from(ctx, id, position{at.Done, maps.Clone(at.Steps)})
		if err != nil || !p.foreign {
			return p, err
		}
	}
	at, err := o.position(ctx, id)
	if err != nil {
		return piece{}, err
	}
	return o.from(ctx, id, at)
}

func (o *outbox) from(ctx context.Context, id string, at position) (piece, error) {
	p := piece{at: at}
	live, err := o.live(ctx)
	if err != nil {
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
			own, old := o.t.is(s.Worker), now.Sub(s.OccurredAt) >= o.t.c.Grace
			switch {
			case s.Begins || s.Seq <= p.at.Steps[s.Worker]:
			case own || !live[s.Worker] && old:
				p.spans = append(p.spans, tr.step(ctx, s)...)
				p.at.Steps[s.Worker] = s.Seq
				p.foreign = p.foreign || !own
			default:
				done, p.foreign = false, true
				p.young, p.left = p.young || !live[s.Worker], p.left || live[s.Worker]
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

// position says how far a run was told, by whomever. It may be changed.
func (o *outbox) position(ctx context.Context, id string) (position, error) {
	at := o.at[id] // marks may be missing
	if at.Steps = maps.Clone(at.Steps); at.Steps == nil {
		at.Steps = map[string]int64{}
	}
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
