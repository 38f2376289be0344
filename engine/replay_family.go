package engine

import (
	"context"
	"errors"

	"pawl"
	"pawl/internal/host"
	"pawl/store"
)

// Children gives the recorded ends of a family.
func (x *echo) Children(ctx context.Context, f host.Family) ([]host.Child, error) {
	if f.N == 0 {
		return nil, nil
	}
	p, err := x.program(f.Program)
	if err != nil {
		return nil, err
	}
	if len(x.r.head.Ancestors)+1 > pawl.MaxDepth {
		return nil, exhausted("call %q: children more than %d deep", f.Key, pawl.MaxDepth)
	}
	if _, err := x.begin(ctx, f.Key, kindChild, kindFound); err != nil {
		return nil, err
	}
	out, gone := make([]host.Child, f.N), ""
	x.mu.Lock()
	for i := range f.N {
		x.keys[childKey(f.Key, f.Numbered, i)] = true
	}
	x.mu.Unlock()
	for i := range f.N {
		key := childKey(f.Key, f.Numbered, i)
		en := x.journal[key]
		if out[i].Run = childID(x.r.run.ID, x.rec.Visit, key); en != nil || x.open {
			if err := x.sameChild(f, p, i, out[i].Run); err != nil {
				return nil, err
			}
		}
		switch {
		case !en.lives(x.rec.Try):
			if gone == "" {
				gone = key
			}
		case en.Err != nil:
			if out[i].Err = childErr(en.Err); !f.Collect {
				return nil, out[i].Err
			}
		default:
			if out[i].Output, err = x.result(en); err != nil {
				return nil, err
			}
		}
	}
	if gone != "" {
		if x.open {
			gone = f.Key // which is what the run waits for
		}
		return nil, x.missed(kindChild, gone)
	}
	return out, nil
}

// program finds the registered program of a graph that node code names.
func (x *echo) program(p *host.Program) (*program, error) {
	got, err := x.r.e.programOf(p)
	if err != nil && (x.cause == nil || x.cause.Error() != err.Error()) { // it was there when the run was worked
		x.mu.Lock()
		defer x.mu.Unlock()
		x.fault = conflict("workflow %s@%s is not registered here: replay the run with a program that has it", p.Shape.Name, p.Shape.Version)
	}
	return got, err
}

// sameChild compares what a child is begun with.
func (x *echo) sameChild(f host.Family, p *program, i int, id string) error {
	in, err := f.Input(i)
	if err != nil {
		return pawl.Permanent(invalid("call %q: input %d: %v", f.Key, i, err))
	}
	return x.sameRun(childKey(f.Key, f.Numbered, i), p, in, id)
}

// sameRun compares another run with how this one would begin it. One that is gone is not compared.
func (x *echo) sameRun(key string, p *program, in []byte, id string) error {
	run, err := x.r.e.store.Get(x.r.ctx, x.r.scope, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil // its start function refused the input, or it has expired
	}
	var head Head
	if err == nil {
		_, head, err = parts(run)
	}
	if err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.fault = err
		return pawl.Permanent(err)
	}
	x.r.charged(run)
	if run.Workflow != p.Shape.Name {
		return x.otherRequest(key, "%q begins another workflow", encode(run.Workflow), encode(p.Shape.Name))
	}
	if head.Hash == hash(in) {
		return nil
	}
	was, err := x.r.e.input(x.r.ctx, run.ID, head)
	if err != nil {
		was = nil
	}
	return x.otherRequest(key, "the child %q is begun with another input", was, in)
}

// Enqueue gives the id that the background run has. Whether there was one is not in the journal: where it is gone it is not
// compared.
func (x *echo) Enqueue(ctx context.Context, q host.Enqueue) (string, error) {
	p, err := x.program(q.Program)
	if err != nil {
		return "", err
	}
	if _, err := enqueued(p, q, x.r.head.Generation); err != nil {
		return "", err
	}
	if _, err := x.begin(ctx, q.Key); err != nil {
		return "", err
	}
	r := x.r
	if q.RunKey != "" {
		tenant, _ := r.owner()
		rs, err := r.e.store.List(r.ctx, store.Scope{Tenant: tenant, AllUsers: true}, store.Filter{Workflow: p.Shape.Name, Key: q.RunKey}, store.Page{Limit: 1})
		if err == nil && len(rs) > 0 {
			return rs[0].ID, nil
		}
		return keyedID(tenant, p.Shape.Name, q.RunKey), nil
	}
	id := backgroundID(r.run.ID, x.rec.Visit, q.Key)
	if x.open {
		return id, nil // not begun: the node did not commit
	}
	if _, err := r.e.store.Get(r.ctx, everything, id); errors.Is(err, store.ErrNotFound) {
		x.mu.Lock()
		defer x.mu.Unlock()
		r.note("the background run %s (%q) is not in this store: it is not compared", id, q.Key)
		return id, nil
	}
	return id, x.sameRun(q.Key, p, q.Input, id)
}
