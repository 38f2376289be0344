package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"pawl"
	"pawl/internal/machine"
	"pawl/store"
)

// As is the engine for one caller.
func (e *Engine) As(c pawl.Caller) pawl.Runs { return &runs{e: e, c: c} }

type runs struct {
	e *Engine
	c pawl.Caller
}

var _ pawl.Runs = (*runs)(nil)

// scope is what the caller may see.
func (r *runs) scope() store.Scope {
	switch {
	case slices.Contains(r.c.Scopes, pawl.ScopeAll):
		return everything
	case slices.Contains(r.c.Scopes, pawl.ScopeTenant):
		return store.Scope{Tenant: r.c.Tenant, AllUsers: true}
	}
	return store.Scope{Tenant: r.c.Tenant, User: r.c.User}
}

// follow reads a run, or the owner that it was merged into.
func (r *runs) follow(ctx context.Context, id string) (store.Run, *machine.Record, Head, error) {
	for range 10 {
		run, err := r.e.store.Get(ctx, r.scope(), id)
		if err != nil {
			return run, nil, Head{}, err
		}
		rec, head, err := parts(run)
		if err != nil || rec.Merged == "" || head.Copy != nil {
			return run, rec, head, err
		}
		id = rec.Merged
	}
	return store.Run{}, nil, Head{}, conflict("run %s was merged too often", id)
}

func (r *runs) Start(ctx context.Context, workflow string, input json.RawMessage, o pawl.StartOptions) (pawl.Started, error) {
	s, err := r.e.start(ctx, r.c, workflow, input, o)
	return s, coded("start", s.Run.ID, err)
}

func (r *runs) Get(ctx context.Context, id string) (pawl.Run, error) {
	run, err := r.e.get(ctx, r.scope(), id)
	return run, coded("get", id, err)
}

func (e *Engine) get(ctx context.Context, s store.Scope, id string) (pawl.Run, error) {
	run, err := e.store.Get(ctx, s, id)
	if err != nil {
		return pawl.Run{}, err
	}
	return e.view(ctx, run, true)
}

// List leaves inputs and outputs out.
func (r *runs) List(ctx context.Context, f pawl.RunFilter, after string, limit int) ([]pawl.Run, error) {
	sf := store.Filter{Workflow: f.Workflow, Outcome: f.Outcome, Key: f.Key, Parent: f.Parent, Root: f.Root}
	held := func(b bool) *bool { return &b }
	switch f.Status {
	case "":
	case pawl.StatusQueued, pawl.StatusWaiting:
		sf.Statuses, sf.Held = []string{string(f.Status)}, held(false)
	case pawl.StatusInterrupted:
		sf.Statuses, sf.Held = []string{string(pawl.StatusRunning)}, held(false)
	case pawl.StatusRunning:
		sf.Statuses, sf.Held = liveStatuses, held(true)
	default:
		if !f.Status.Ended() {
			return nil, coded("list", "", invalid("there is no status %q", f.Status))
		}
		sf.Statuses = []string{string(f.Status)}
	}
	if limit < 0 || limit > 1000 {
		return nil, coded("list", "", invalid("a page has at most 1000 entries, not %d", limit))
	}
	rs, err := r.e.store.List(ctx, r.scope(), sf, store.Page{After: after, Limit: limit})
	if err != nil {
		return nil, coded("list", "", err)
	}
	out := make([]pawl.Run, 0, len(rs))
	for _, run := range rs {
		v, err := r.e.view(ctx, run, false)
		if err != nil { // one damaged row does not hide the others
			v = pawl.Run{ID: run.ID, Workflow: run.Workflow, Version: run.Version, Tenant: run.Tenant, User: run.User,
				Status: pawl.Status(run.Status), Node: run.Node, Outcome: run.Outcome, Key: run.Key, Parent: run.Parent, Root: run.Root,
				Created: run.Created, Updated: run.Updated, Err: pawl.Coded(err)}
		}
		out = append(out, v)
	}
	return out, nil
}

func (r *runs) Cancel(ctx context.Context, id, reason string) error {
	return coded("cancel", id, r.cancel(ctx, id, reason))
}

func (r *runs) cancel(ctx context.Context, id, reason string) error {
	run, rec, head, err := r.follow(ctx, id)
	if err == nil {
		err = uncopied(run.ID, head)
	}
	if err != nil {
		return err
	}
	if rec.Status.Ended() {
		return conflict("run %s has ended: %s", run.ID, rec.Status)
	}
	l := letter(run.ID, machine.Letter{Cancel: &machine.Cancel{By: r.c.User, Reason: reason}})
	l.Live = true
	l.Add = append(l.Add,
		store.Row{Stream: store.Event, Data: event{Type: machine.EventCancel, Data: encode(machine.Cancel{By: r.c.User, Reason: reason})}.bytes()},
		store.Row{Stream: store.Audit, Data: encode(audit{By: r.c.User, Did: "cancel", What: reason})})
	if err := r.e.store.Apply(ctx, store.Change{Run: run.ID, Letters: []store.Letter{l}}); err != nil {
		if errors.Is(err, store.ErrStale) {
			return conflict("run %s has ended meanwhile", run.ID)
		}
		return err
	}
	r.e.kick()
	return nil
}

func (r *runs) Retry(ctx context.Context, id string) (pawl.Run, error) {
	run, err := r.retry(ctx, id)
	return run, coded("retry", id, err)
}

func (r *runs) retry(ctx context.Context, id string) (out pawl.Run, err error) {
	run, rec, head, err := r.follow(ctx, id)
	if err == nil {
		err = uncopied(run.ID, head)
	}
	if err != nil {
		return out, err
	}
	if rec.Status != pawl.StatusFailed && rec.Status != pawl.StatusCancelled {
		return out, conflict("run %s is %s: only a run that failed or was cancelled can be retried", run.ID, rec.Status)
	}
	p := r.e.byKind[run.Kind()]
	if p == nil {
		if p = r.e.byName[run.Workflow]; p == nil {
			return out, &pawl.Error{Code: pawl.CodeNotFound, Text: fmt.Sprintf("workflow %s is not registered here", run.Kind())}
		}
	}
	ch, err := r.e.restart(ctx, p, run, r.e.now(ctx), nil, r.c.User)
	if err != nil {
		return out, err
	}
	if err := r.e.store.Apply(ctx, ch); err != nil {
		return out, err
	}
	r.e.kick()
	return r.e.get(ctx, everything, run.ID)
}

func (r *runs) Steps(ctx context.Context, id string, after int64, limit int) ([]pawl.Step, error) {
	run, _, _, err := r.follow(ctx, id)
	if err != nil {
		return nil, coded("steps", id, err)
	}
	rows, err := r.e.store.Read(ctx, r.scope(), run.ID, store.Query{Stream: store.Step, After: after, Limit: limit})
	if err != nil {
		return nil, coded("steps", id, err)
	}
	out := make([]pawl.Step, 0, len(rows))
	for _, row := range rows {
		h, _, err := unframe(row)
		if err != nil {
			return nil, coded("steps", id, err)
		}
		out = append(out, stepView(run, row, h))
	}
	return out, nil
}

func (r *runs) State(ctx context.Context, id string, step int64) (json.RawMessage, error) {
	run, rec, _, err := r.follow(ctx, id)
	if err != nil {
		return nil, coded("state", id, err)
	}
	if step == 0 {
		step = rec.Steps
	}
	h, err := r.e.headOf(ctx, r.scope(), run.ID, step)
	if err != nil {
		return nil, coded("state", id, err)
	}
	raw, err := r.e.stateAt(ctx, r.scope(), run.ID, h.Full, h.Last, h.Hash)
	return raw, coded("state", id, err)
}

func (r *runs) Calls(ctx context.Context, id string, step int64) ([]pawl.Made, error) {
	out, err := r.calls(ctx, id, step)
	return out, coded("calls", id, err)
}

func (r *runs) calls(ctx context.Context, id string, step int64) (out []pawl.Made, err error) {
	run, rec, _, err := r.follow(ctx, id)
	if err != nil {
		return nil, err
	}
	visit, from, upto := rec.Visit, rec.Calls, int64(0)
	if step > 0 {
		h, err := r.e.headOf(ctx, r.scope(), run.ID, step)
		if err != nil {
			return nil, err
		}
		visit, from, upto = h.Visit, h.From, h.Upto
	}
	q := store.Query{Stream: store.Call, After: from}
	if upto > 0 {
		if q.Limit = int(upto - from); q.Limit == 0 {
			return nil, nil
		}
	}
	rows, err := r.e.store.Read(ctx, r.scope(), run.ID, q)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		var en entry
		if err := unmarshal(row, &en); err != nil {
			return nil, err
		}
		if en.Visit != visit || en.Kind == kindCosts {
			continue
		}
		made, err := r.e.made(ctx, row, en)
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

func (r *runs) Events(ctx context.Context, id string, after int64) iter.Seq2[pawl.Logged, error] {
	return func(yield func(pawl.Logged, error) bool) {
		// A merged run's own events come first, up to its merge: a cursor belongs to the run that its events name.
		for range 10 {
			if !r.e.events(ctx, r.scope(), id, after, yield) {
				return
			}
			run, err := r.e.store.Get(ctx, r.scope(), id)
			if err != nil {
				yield(pawl.Logged{}, coded("events", id, err))
				return
			}
			rec, head, err := parts(run)
			if err != nil || rec.Merged == "" || head.Copy != nil {
				return
			}
			id, after = rec.Merged, 0
		}
	}
}

func (r *runs) Workflows(context.Context) ([]pawl.WorkflowInfo, error) {
	var out []pawl.WorkflowInfo
	for _, p := range r.e.ordered {
		out = append(out, pawl.WorkflowInfo{Name: p.Shape.Name, Version: p.Shape.Version, Fingerprint: p.Shape.Fingerprint,
			Input: p.Input, Output: p.Output, Positional: p.Shape.Positional})
	}
	return out, nil
}

// eta is the median, over earlier runs, of what followed the node where a run stands; 0 where none is known.
func (e *Engine) eta(ctx context.Context, run store.Run) time.Duration {
	past, err := e.store.List(ctx, everything, store.Filter{Workflow: run.Workflow, Statuses: []string{string(pawl.StatusSucceeded)}}, store.Page{Limit: 20})
	if err != nil {
		return 0
	}
	var rests []time.Duration
	for _, p := range past {
		rows, err := e.store.Read(ctx, everything, p.ID, store.Query{Stream: store.Step})
		if err != nil {
			continue
		}
		if rest, ok := restFrom(rows, run.Node); ok {
			rests = append(rests, rest)
		}
	}
	if len(rests) == 0 {
		return 0
	}
	slices.Sort(rests)
	return rests[len(rests)/2]
}

func restFrom(rows []store.Row, node string) (rest time.Duration, ok bool) {
	for _, row := range rows {
		h, _, err := unframe(row)
		if err != nil {
			return 0, false
		}
		if h.Name == node {
			ok = true
		}
		if ok {
			rest += time.Duration(h.MS) * time.Millisecond
		}
	}
	return rest, ok
}
