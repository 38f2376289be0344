package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
	"pawl/store"
)

// childKey is the journal key of child i of a family.
func childKey(family string, numbered bool, i int) string {
	if !numbered {
		return family
	}
	return family + "[" + strconv.Itoa(i) + "]"
}

// familyOf is the family of a child's journal key.
func familyOf(key string) string {
	if i := strings.LastIndexByte(key, '['); i >= 0 && strings.HasSuffix(key, "]") {
		if _, err := strconv.Atoi(key[i+1 : len(key)-1]); err == nil {
			return key[:i]
		}
	}
	return key
}

// childID is the id of a child: it follows from the visit and the key, so that a re-run finds the same one.
func childID(run string, visit int64, key string) string {
	return derived(run, fmt.Sprintf("child/%d/%s", visit, key))
}

// Children brings the children of a family to their ends. It runs once for every time that one of them wakes the parent,
// so the journal is read only where the counts say that there is something to find.
func (v *visit) Children(ctx context.Context, f host.Family) ([]host.Child, error) {
	if f.N == 0 {
		return nil, nil
	}
	p, err := v.h.e.programOf(f.Program)
	if err != nil {
		return nil, err
	}
	if len(v.h.head.Ancestors)+1 > pawl.MaxDepth {
		return nil, exhausted("call %q: children more than %d deep", f.Key, pawl.MaxDepth)
	}
	known, started := v.h.rec.Family(f.Key)
	if started && known.Done >= 0 && known.Done < known.Started && (f.Collect || !known.Failed) && v.unread(ctx, f.Key) {
		return nil, v.more(f, p, known)
	}
	if _, err := v.begin(ctx, f.Key, false); err != nil {
		return nil, err
	}
	return v.family(ctx, f, p, known)
}

// unread takes the key of a family without reading the journal, if nothing else has read it.
func (v *visit) unread(ctx context.Context, key string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if scopeOf(ctx) != nil || v.loaded || v.keys[key] || v.why != nil {
		return false
	}
	if v.keys == nil {
		v.keys = map[string]bool{}
	}
	v.keys[key] = true
	v.made++
	return true
}

// more starts the next children of a family of which none is missing a place, and parks.
func (v *visit) more(f host.Family, p *program, fam machine.Family) error {
	for i := fam.Started; i < f.N && (f.Limit == 0 || i-fam.Done < f.Limit); i++ {
		if err := v.bear(f, p, i); err != nil {
			var refused *pawl.RunError
			if !errors.As(err, &refused) {
				return err
			}
			break // its start function refuses the input: found again when the journal is read
		}
		fam.Started = i + 1
	}
	v.expect(fam)
	return pawl.ErrParked
}

// expect registers a family as waited for.
func (v *visit) expect(fam machine.Family) {
	v.mu.Lock()
	v.kin = append(v.kin, fam)
	v.mu.Unlock()
	v.park(machine.Wait{Kind: pawl.WaitsForChild, Key: fam.Key})
}

// family looks at every child through the journal.
func (v *visit) family(ctx context.Context, f host.Family, p *program, known machine.Family) ([]host.Child, error) {
	v.mu.Lock()
	told := v.told[f.Key]
	v.mu.Unlock()
	fam := machine.Family{Key: f.Key, Numbered: f.Numbered, N: f.N, Started: known.Started, Heard: known.Heard, Early: max(told-known.Heard, 0)}
	out := make([]host.Child, f.N)
	open := 0
	for i := range f.N {
		key := childKey(f.Key, f.Numbered, i)
		id := childID(v.h.run.ID, v.h.rec.Visit, key)
		v.mu.Lock()
		en := v.journal[key]
		v.mu.Unlock()
		switch {
		case v.lives(en):
			fam.Done++
			out[i].Run = id
			if en.Err != nil {
				fam.Failed = true
				if out[i].Err = childErr(en.Err); !f.Collect {
					return nil, out[i].Err
				}
				continue
			}
			b, err := v.h.e.result(ctx, en)
			if err != nil {
				return nil, v.breaks(err)
			}
			out[i].Output = b
		case f.Limit > 0 && open >= f.Limit:
			continue
		case i < known.Started:
			open++
			if en != nil { // it failed in an earlier try of this node: its next attempt
				if err := v.again(ctx, p, id, key); err != nil {
					return nil, err
				}
			}
		default:
			err := v.bear(f, p, i)
			var refused *pawl.RunError
			switch {
			case errors.As(err, &refused):
				fam.Done++
				fam.Failed = true
				if out[i].Err = refused; !f.Collect {
					return nil, refused
				}
				row := callRow(entry{Visit: v.h.rec.Visit, Try: v.h.rec.Try, Kind: kindRefused, Key: key, Err: pawl.Coded(refused)})
				if _, err := v.record(ctx, []store.Row{row}, nil); err != nil {
					return nil, err
				}
			case err != nil:
				return nil, err
			default:
				open++
			}
			fam.Started = i + 1
		}
	}
	if fam.Done == f.N {
		return out, nil
	}
	v.expect(fam)
	return nil, pawl.ErrParked
}

// childErr is a child's end as its parent sees it.
func childErr(e *pawl.Error) error {
	var r *pawl.RunError
	if errors.As(error(e), &r) {
		return r
	}
	return e
}

// bear adds a child to those that are created with the park. An input that its start function refuses is a *RunError.
func (v *visit) bear(f host.Family, p *program, i int) error {
	in, err := f.Input(i)
	if err != nil {
		return pawl.Permanent(invalid("call %q: input %d: %v", f.Key, i, err))
	}
	h := v.h
	key := childKey(f.Key, f.Numbered, i)
	b := birth{
		p: p, id: childID(h.run.ID, h.rec.Visit, key), tenant: h.run.Tenant, user: h.run.User, parent: h.run.ID, root: h.run.Root,
		priority: h.run.Priority,
		waiters:  []machine.Waiter{{Run: h.run.ID, Visit: h.rec.Visit, Key: key}},
		head: Head{
			Input: in, Hash: hash(in), Labels: h.head.Labels, Sensitivity: h.head.Sensitivity, Correlation: h.head.Correlation,
			Traceparent: h.head.Traceparent, Generation: h.head.Generation,
			Ancestors: append([]string{h.run.ID}, h.head.Ancestors...),
		},
	}
	r, err := b.newRun(h.e.now(v.ctx))
	if err != nil {
		c := pawl.Coded(err)
		return &pawl.RunError{Run: b.id, Status: pawl.StatusFailed, Terminal: pawl.TerminalFailed, Code: c.Code, Text: p.Shape.Name + ": " + c.Error()}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.births = append(v.births, r)
	return nil
}

// again makes the next attempt of a child that ended badly, together with the park. One that has not ended yet (it was
// started again by an execution that crashed) is only waited for.
func (v *visit) again(ctx context.Context, p *program, id, key string) error {
	r, err := v.h.e.store.Get(ctx, everything, id)
	if err != nil {
		return v.breaks(err)
	}
	if !r.Ended {
		return nil
	}
	ch, err := v.h.e.restart(p, r, v.h.e.now(ctx), []machine.Waiter{{Run: v.h.run.ID, Visit: v.h.rec.Visit, Key: key}}, v.h.run.User)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.restarts = append(v.restarts, ch)
	return nil
}

// programOf finds the registered program of a graph that node code names.
func (e *Engine) programOf(p *host.Program) (*program, error) {
	kind := store.Kind(p.Shape.Name, p.Shape.Version)
	if got := e.byKind[kind]; got != nil && got.Shape.Fingerprint == p.Shape.Fingerprint {
		return got, nil
	}
	return nil, pawl.Permanent(invalid("workflow %s is not registered with this engine", kind))
}

// Enqueue adds a background run to those that start with the node's commit.
func (v *visit) Enqueue(ctx context.Context, q host.Enqueue) (string, error) {
	p, err := v.h.e.programOf(q.Program)
	if err != nil {
		return "", err
	}
	if v.h.head.Generation+1 > pawl.MaxGenerations {
		return "", exhausted("call %q: background runs of more than %d generations", q.Key, pawl.MaxGenerations)
	}
	var o pawl.StartOptions
	if err := json.Unmarshal(q.Options, &o); err != nil {
		return "", pawl.Permanent(err)
	}
	if err := checkStart(p, q.Input, o); err != nil {
		return "", pawl.Permanent(err)
	}
	if _, err := v.begin(ctx, q.Key, false); err != nil {
		return "", err
	}
	h := v.h
	id := derived(h.run.ID, fmt.Sprintf("background/%d/%s", h.rec.Visit, q.Key))
	if q.RunKey != "" {
		rs, err := h.e.store.List(ctx, store.Scope{Tenant: h.run.Tenant, AllUsers: true}, store.Filter{Workflow: p.Shape.Name, Key: q.RunKey}, store.Page{Limit: 1})
		if err != nil {
			return "", v.breaks(err)
		}
		if len(rs) > 0 {
			return rs[0].ID, nil
		}
		// Whoever enqueues this key gives the run the same id: the one returned is right whoever comes first.
		id = derived("", fmt.Sprintf("%q/%q/%q", h.run.Tenant, p.Shape.Name, q.RunKey))
	}
	labels := o.Labels
	if labels == nil {
		labels = h.head.Labels
	}
	b := birth{p: p, id: id, tenant: h.run.Tenant, user: h.run.User, root: id, key: q.RunKey, priority: o.Priority, head: Head{
		Input: q.Input, Hash: hash(q.Input), Budget: o.Budget, Labels: labels, Sensitivity: h.head.Sensitivity,
		Correlation: h.head.Correlation, Traceparent: h.head.Traceparent, Generation: h.head.Generation + 1, Origin: h.run.ID,
	}}
	r, err := b.newRun(h.e.now(ctx))
	if err != nil {
		return "", pawl.Permanent(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.later = append(v.later, r)
	return id, nil
}
