package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"pawl"
	"pawl/internal/schema"
)

func (r *runs) Fork(ctx context.Context, id string, step int64, state json.RawMessage) (pawl.Run, error) {
	run, err := r.fork(ctx, id, step, state)
	return run, coded("fork", id, err)
}

func (r *runs) fork(ctx context.Context, id string, step int64, state json.RawMessage) (out pawl.Run, err error) {
	run, rec, head, err := r.follow(ctx, id)
	if err != nil {
		return out, err
	}
	p := r.e.byKind[run.Kind()]
	if p == nil || p.Shape.Version != run.Version || !p.fits(run, rec) {
		return out, conflict("version %s of %s is not registered here", run.Version, run.Workflow)
	}
	if step == 0 {
		step = rec.Steps
	}
	at, err := r.e.headOf(ctx, r.scope(), run.ID, step)
	if err != nil {
		return out, err
	}
	// A note or a wait may stand behind the row that carries the state; that one says where the run went with it.
	to, err := r.e.headOf(ctx, r.scope(), run.ID, at.Last)
	if err != nil {
		return out, err
	}
	if to.Version != p.Shape.Version {
		return out, conflict("step %d of run %s is of version %s, and the run is of version %s by now", step, run.ID, to.Version, p.Shape.Version)
	}
	raw := []byte(state)
	if len(raw) == 0 {
		if raw, err = r.e.stateAt(ctx, r.scope(), run.ID, at.Full, at.Last, at.Hash); err != nil {
			return out, err
		}
	} else {
		v, err := schema.Compile(p.State)
		if err != nil {
			return out, err
		}
		if err := v.Check(raw); err != nil {
			return out, invalid("state: %v", err)
		}
	}
	s, err := p.decode(raw)
	if err != nil {
		return out, invalid("state: %v", err)
	}
	if raw, err = p.encode(nil, s, to.After); err != nil {
		return out, err
	}
	mv, err := p.m.Fork(to.After, r.e.now(ctx))
	if err != nil {
		return out, conflict("step %d of run %s: %v%s", step, run.ID, err, r.earlier(ctx, p, run.ID, at.Last))
	}
	if head.Input, err = r.e.input(ctx, run.ID, head); err != nil {
		return out, err
	}
	head.Large, head.ForkOf, head.ForkStep, head.Ancestors, head.Origin = "", run.ID, step, nil, ""
	head.Unkeyed, head.Copy = true, nil
	b := birth{p: p, id: newID(), tenant: run.Tenant, user: r.c.User, priority: run.Priority, head: head}
	b.root = b.id
	n, err := b.row(mv, raw)
	if err != nil {
		return out, err
	}
	if err := r.e.store.Create(ctx, n); err != nil {
		return out, err
	}
	r.e.kick()
	return r.e.get(ctx, everything, n.ID)
}

// earlier names the last step before one with which a run can go on, in words; empty where there is none near.
func (r *runs) earlier(ctx context.Context, p *program, run string, step int64) string {
	for range 20 {
		h, err := r.e.headOf(ctx, r.scope(), run, step-1)
		if err != nil {
			return ""
		}
		if step = h.Last; step < 1 {
			return ""
		}
		if h, err = r.e.headOf(ctx, r.scope(), run, step); err != nil {
			return ""
		}
		if i := p.Shape.Index(h.After, ""); i >= 0 && !p.Shape.Nodes[i].Kind.Terminal() {
			return fmt.Sprintf(" (it can from step %d)", step)
		}
	}
	return ""
}
