package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
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

	at       map[string]position // of runs that were told of; others may have told more
	unmarked map[string]position // that the store has not taken yet
	contact  time.Time           // when the store was last read
	alive    map[string]bool     // workers
	asked    time.Time           // when
	id       string
	places   map[string]bool // that are to be given back
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
	return &outbox{t: t, store: s, engine: e, at: map[string]position{}, unmarked: map[string]position{}, id: uuid.NewString(), places: map[string]bool{}}, err
}

// batch is what goes into one request.
type batch struct {
	spans  []*tracepb.Span
	pieces []piece
}

// flush tells all that is new, and what was found. What could not be told stays new.
func (o *outbox) flush(ctx context.Context, found bool) (failed error) {
	if len(o.at) > positions {
		clear(o.at)
	}
	_ = o.mark(ctx) // what could not be marked before; that was said
	todo, later := o.t.take(found), []string(nil)
	defer func() {
		o.t.back(later)
		o.release(ctx)
	}()
	for len(todo) > 0 {
		var b batch
		var next []string
		for len(todo) > 0 && len(b.spans) < most {
			id := todo[0]
			todo = todo[1:]
			p, err := o.read(ctx, id)
			switch {
			case gone(err):
				continue
			case err != nil && passes(err):
				later, failed = append(later, id), fmt.Errorf("run %s: the store: %w", id, err)
				if _, err := o.store.Now(ctx); err != nil { // it is not this run alone
					later = slices.Concat(later, todo, next, b.runs())
					return failed
				}
				continue
			case err != nil: // it would be the same again
				o.t.c.Fault("traces", fmt.Errorf("run %s is not told: %w", id, err))
				continue
			case p.more:
				next = append(next, id)
			case p.later:
				later = append(later, id)
			case p.left:
				o.t.leave(id)
			}
			if len(p.spans) > 0 {
				b.spans, b.pieces = append(b.spans, p.spans...), append(b.pieces, p)
			}
		}
		if rest, err := o.tell(ctx, b); err != nil {
			later = slices.Concat(later, rest, todo, next)
			return err
		}
		o.release(ctx)
		todo = append(todo, next...)
	}
	return failed
}

func (b batch) runs() (ids []string) {
	for _, p := range b.pieces {
		ids = append(ids, p.id)
	}
	return ids
}

// steps are the spans by the steps that they are of. One piece at least has spans.
func (b batch) steps() (all [][]*tracepb.Span) {
	for _, p := range b.pieces {
		from := 0
		for _, s := range p.steps {
			all = append(all, p.spans[from:s.spans])
			from = s.spans
		}
	}
	return all
}

// tell sends a batch and marks what was sent. Between the two a process may die: then the same spans are sent again, under the
// same ids. On an error it says which runs were not told whole.
func (o *outbox) tell(ctx context.Context, b batch) (rest []string, err error) {
	if len(b.spans) == 0 {
		return nil, nil
	}
	done, dropped, err := o.t.send.send(ctx, b.steps())
	o.t.mu.Lock()
	o.t.count.Sent += int64(done - dropped)
	o.t.count.Dropped += int64(dropped)
	o.t.mu.Unlock()
	for _, p := range b.pieces {
		if at, some := p.upTo(done); some {
			o.at[p.id], o.unmarked[p.id] = at, at
		}
		if done -= len(p.spans); done < 0 {
			rest = append(rest, p.id)
		}
	}
	if err := o.mark(ctx); err != nil {
		o.t.c.Fault("traces", fmt.Errorf("spans were sent and are not marked yet: if the process dies now they are sent again: %w", err))
	}
	if err != nil {
		err = fmt.Errorf("the receiver does not take them: %w", err)
	}
	return rest, err
}

// mark writes how far runs were told. What the store does not take now it is given again.
func (o *outbox) mark(ctx context.Context) error {
	if len(o.unmarked) == 0 {
		return nil
	}
	var cs []store.Change
	for id, at := range o.unmarked {
		if row, err := json.Marshal(mark{marked, at}); err == nil { // a map of numbers
			cs = append(cs, store.Change{Run: id, Add: []store.Row{{Stream: store.Audit, Key: marked, Data: row}}})
		}
	}
	err := o.store.Apply(ctx, cs...)
	if err == nil {
		clear(o.unmarked)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for _, c := range cs { // a run was removed: the others are marked all the same
		if err := o.store.Apply(ctx, c); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		delete(o.unmarked, c.Run)
	}
	return nil
}

// live are the workers that have not gone. A step that is older than the grace, and so than the list, is of a worker who was there
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

// stripes are the places under which steps are told that others might tell too. Each run has one.
const stripes = 64

// only makes this process the only one for a while that tells such steps of a run. What others have told before is marked then.
func (o *outbox) only(ctx context.Context, id string) (bool, error) {
	name := fmt.Sprint(place, "/", crc32.ChecksumIEEE([]byte(id))%stripes)
	if o.places[name] {
		return true, nil
	}
	busy, err := o.store.Take(ctx, store.Slot{Limit: name, Holder: o.id, Burst: 1, Max: 1, Hold: placeHold})
	if err == nil && busy <= 0 {
		o.places[name] = true
	}
	return o.places[name], err
}

// release lets others tell again.
func (o *outbox) release(ctx context.Context) {
	for name := range o.places {
		_ = o.store.Give(ctx, name, o.id) // else it is forgotten after a while
	}
	clear(o.places)
}

// piece is what there is to tell of one run.
type piece struct {
	id    string
	spans []*tracepb.Span
	from  position
	steps []told // that the spans are of
	at    position
	more  bool // behind these
	left  bool // steps of other processes' workers, who live
	later bool // steps of a dead one that are too young, or that another process may be telling now
	alone bool // steps that others might tell too
}

// told is a step, and how many spans there are up to its end.
type told struct {
	worker string
	seq    int64
	spans  int
}

// upTo is how far the run was told where so many of the spans were, and whether that is further than before.
func (p piece) upTo(n int) (at position, some bool) {
	if n >= len(p.spans) {
		return p.at, true
	}
	at = position{p.from.Done, maps.Clone(p.from.Steps)}
	for _, s := range p.steps {
		if s.spans > n {
			break
		}
		at.Steps[s.worker], some = s.seq, true
	}
	return at, some
}

// read reads what is to be told of a run from where this process knows that it was told to, or, where others may have told some of it,
// from where their marks say.
func (o *outbox) read(ctx context.Context, id string) (p piece, err error) {
	if time.Since(o.contact) > paused {
		clear(o.at)
	}
	at, known := o.at[id]
	if known {
		if p, err = o.from(ctx, id, at); err != nil || !p.left && !p.alone {
			return p, err
		}
	}
	if at, err = o.position(ctx, id); err != nil {
		return p, err
	}
	if p, err = o.from(ctx, id, at); err != nil || !p.alone {
		return p, err
	}
	if only, err := o.only(ctx, id); !only || err != nil {
		return piece{id: id, later: true}, err
	}
	if at, err = o.position(ctx, id); err != nil {
		return p, err
	}
	return o.from(ctx, id, at)
}

func (o *outbox) from(ctx context.Context, id string, at position) (piece, error) {
	p := piece{id: id, from: at, at: position{at.Done, maps.Clone(at.Steps)}}
	live, err := o.live(ctx)
	if err != nil {
		return p, err
	}
	now, err := o.store.Now(ctx)
	if err != nil {
		return p, err
	}
	whole := true // everything up to here
	for after := p.at.Done; ; {
		r, err := o.engine.Report(ctx, id, after, page)
		if err != nil {
			return p, err
		}
		o.contact = time.Now()
		tr := o.trace(ctx, r)
		if tr == nil {
			return piece{}, nil
		}
		for _, s := range r.Steps {
			alive := live[s.Worker]
			switch {
			case s.Begins || s.Seq <= p.at.Steps[s.Worker]:
			case o.t.is(s.Worker) || !alive && now.Sub(s.OccurredAt) >= o.t.c.Grace:
				p.spans = append(p.spans, tr.step(ctx, s)...)
				p.steps = append(p.steps, told{s.Worker, s.Seq, len(p.spans)})
				p.at.Steps[s.Worker] = s.Seq
				p.alone = p.alone || !alive
			default:
				whole, p.left, p.later = false, p.left || alive, p.later || !alive
			}
			if after = s.Latest; whole {
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
	at := o.unmarked[id]
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
