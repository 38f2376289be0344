package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

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
	known, started := v.rec.Family(f.Key)
	if started && known.Done >= 0 && known.Done < known.Started && (f.Collect || !known.Failed) && v.unread(ctx, f.Key) {
		return v.more(f, p, known)
	}
	if _, err := v.begin(ctx, f.Key, false); err != nil {
		return nil, err
	}
	return v.family(f, p, known)
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

// more starts the next children of a family of which none is missing a place, and parks. Where a start function refuses an
// input, which is an end like any other, all of them are looked at.
func (v *visit) more(f host.Family, p *program, known machine.Family) ([]host.Child, error) {
	fam, b := known, brood{}
	for i := fam.Started; i < f.N && (f.Limit == 0 || i-fam.Done < f.Limit); i++ {
		var refused *pawl.RunError
		switch err := v.bear(f, p, i, &b); {
		case errors.As(err, &refused):
			if err := v.load(); err != nil {
				return nil, err
			}
			return v.family(f, p, known)
		case err != nil:
			return nil, err
		}
		fam.Started = i + 1
	}
	v.expect(fam, b)
	return nil, pawl.ErrParked
}

// brood is what an execution begins of a family. It goes with the park that waits for the family, or not at all.
type brood struct {
	births   []store.NewRun
	restarts []rebirth
	letters  []store.Letter // to children that others run
	ends     []*entry       // those of earlier tries on which it rests
}

// rebirth is the next attempt of a child that failed, and who waits for it.
type rebirth struct {
	change store.Change
	us     machine.Waiter
}

// attempts are the changes that restart children. Several may have been merged into one run: it is restarted once, and is told
// by letters who else waits for it.
func (b *brood) attempts() (out []store.Change) {
	first := map[string]int{}
	for _, r := range b.restarts {
		i, again := first[r.change.Run]
		if !again {
			first[r.change.Run], out = len(out), append(out, r.change)
			continue
		}
		out[i].Add = append(slices.Clip(out[i].Add), store.Row{Stream: store.Inbox, Data: encode(machine.Letter{Waiter: &r.us})})
	}
	return out
}

// expect registers a family as waited for.
func (v *visit) expect(fam machine.Family, b brood) {
	v.mu.Lock()
	l := v.packLocked()
	l.kin = append(l.kin, fam)
	l.brood.births = append(l.brood.births, b.births...)
	l.brood.restarts = append(l.brood.restarts, b.restarts...)
	l.brood.letters = append(l.brood.letters, b.letters...)
	v.mu.Unlock()
	v.park(machine.Wait{Kind: pawl.WaitsForChild, Key: fam.Key})
}

// family looks at every child through the journal. A child is read after the journal and may have ended in between: then
// what was counted is old, and all are looked at again.
func (v *visit) family(f host.Family, p *program, known machine.Family) ([]host.Child, error) {
	for {
		var b brood
		out, fam, err := v.count(f, p, known, &b)
		if err != nil || fam.Done == f.N {
			return out, err
		}
		if old, err := v.old(b); err != nil {
			return nil, err
		} else if old {
			continue
		}
		v.expect(fam, b)
		return nil, pawl.ErrParked
	}
}

// old reports whether one of the children to be restarted has told another end since. It reads the journal once for all of
// them.
func (v *visit) old(b brood) (bool, error) {
	if len(b.ends) == 0 {
		return false, nil
	}
	if err := v.reload(); err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.ContainsFunc(b.ends, func(en *entry) bool { return v.journal[en.Key].seq != en.seq }), nil
}

// count says how a family stands by the journal, and begins what there is a place for.
func (v *visit) count(f host.Family, p *program, known machine.Family, b *brood) ([]host.Child, machine.Family, error) {
	v.mu.Lock()
	journal, told := v.journal, v.told[f.Key]
	v.mu.Unlock()
	fam := machine.Family{Key: f.Key, Numbered: f.Numbered, N: f.N, Started: known.Started, Heard: known.Heard, Early: max(told-known.Heard, 0)}
	out := make([]host.Child, f.N)
	open, passed := 0, false
	for i := range f.N {
		key := childKey(f.Key, f.Numbered, i)
		en := journal[key]
		if en == nil && i < known.Started { // under way
			open++
			continue
		}
		if !en.lives(v.rec.Try) {
			if f.Limit > 0 && open >= f.Limit {
				passed = passed || i < known.Started
				continue
			}
			var err error
			if en, err = v.begun(f, p, i, en, b); err != nil {
				return nil, fam, err
			}
			if en == nil {
				fam.Started = max(fam.Started, i+1)
				open++
				continue
			}
		}
		fam.Started = max(fam.Started, i+1) // also of one whose end was recorded by an execution that died before its park
		fam.Done++
		out[i].Run = childID(v.h.run.ID, v.rec.Visit, key)
		if en.Err != nil {
			fam.Failed = true
			if out[i].Err = childErr(en.Err); !f.Collect {
				return nil, fam, out[i].Err
			}
			continue
		}
		var err error
		if out[i].Output, err = v.result(en); err != nil {
			return nil, fam, err
		}
	}
	if passed { // failed before and not begun again yet: the counts do not say so, the journal does
		fam.Done = -1
	}
	return out, fam, nil
}

// begun begins a child, or its next attempt where it failed in an earlier try of this node. It returns an entry if that
// came to an end at once.
func (v *visit) begun(f host.Family, p *program, i int, failed *entry, b *brood) (*entry, error) {
	if failed != nil && failed.Kind == kindChild {
		en, err := v.again(f, p, failed, b)
		if !errors.Is(err, errGone) {
			return en, err
		}
	}
	err := v.bear(f, p, i, b)
	var refused *pawl.RunError
	if !errors.As(err, &refused) {
		return nil, err
	}
	return v.found(entry{Key: childKey(f.Key, f.Numbered, i), Family: f.Key, Err: pawl.Coded(refused)})
}

// found records an end of a child that no letter will tell.
func (v *visit) found(en entry) (*entry, error) {
	en.Visit, en.Try, en.Kind = v.rec.Visit, v.rec.Try, kindFound
	rows := aside(v.h.run.ID, &en)
	_, err := v.record(append(rows, callRow(en)), nil)
	return &en, err
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
func (v *visit) bear(f host.Family, p *program, i int, into *brood) error {
	in, err := f.Input(i)
	if err != nil {
		return pawl.Permanent(invalid("call %q: input %d: %v", f.Key, i, err))
	}
	h := v.h
	key := childKey(f.Key, f.Numbered, i)
	b := birth{
		p: p, id: childID(h.run.ID, v.rec.Visit, key), tenant: h.run.Tenant, user: h.run.User, parent: h.run.ID, root: h.run.Root,
		priority: h.run.Priority,
		waiters:  []machine.Waiter{{Run: h.run.ID, Visit: v.rec.Visit, Try: v.rec.Try, Key: key, Family: f.Key}},
		head: Head{
			Input: in, Hash: hash(in), Labels: h.head.Labels, Sensitivity: h.head.Sensitivity, Correlation: h.head.Correlation,
			Traceparent: h.head.Traceparent, Generation: h.head.Generation, Unkeyed: h.head.Unkeyed,
			Ancestors: append([]string{h.run.ID}, h.head.Ancestors...),
		},
	}
	r, err := b.newRun(h.e.now(v.base))
	if err != nil {
		c := pawl.Coded(err)
		return &pawl.RunError{Run: b.id, Status: pawl.StatusFailed, Terminal: pawl.TerminalFailed, Code: c.Code, Text: p.Shape.Name + ": " + c.Error()}
	}
	into.births = append(into.births, r)
	return nil
}

// errGone says that a run has expired.
var errGone = errors.New("engine: the run has expired")

// again makes the next attempt of a child that ended badly, together with the park. Others may have been there before: an
// operator, or whoever shares its key. One that is under way is waited for, one that has succeeded is taken as it is, and one
// that has expired is errGone.
func (v *visit) again(f host.Family, p *program, failed *entry, into *brood) (*entry, error) {
	h, key := v.h, failed.Key
	var r store.Run
	var rec *machine.Record
	err := h.patiently(v.base, func() (err error) {
		r, rec, err = h.e.owner(v.base, childID(h.run.ID, v.rec.Visit, key))
		return err
	})
	switch us := (machine.Waiter{Run: h.run.ID, Visit: v.rec.Visit, Try: v.rec.Try, Key: key, Family: f.Key}); {
	case errors.Is(err, store.ErrNotFound) && r.ID == "":
		return nil, errGone
	case errors.Is(err, store.ErrNotFound): // it was merged, and its owner has expired before it
		return v.found(entry{Key: key, Family: f.Key, Err: pawl.Coded(&pawl.RunError{Run: r.ID, Status: pawl.StatusFailed,
			Terminal: pawl.TerminalFailed, Code: pawl.CodeNotFound, Text: fmt.Sprintf("%s: run %s has expired", p.Shape.Name, rec.Merged)})})
	case err != nil:
		return nil, v.breaks(err)
	case rec.Status == pawl.StatusFailed || rec.Status == pawl.StatusCancelled:
		if own := h.e.byKind[r.Kind()]; own != nil && own.Shape.Version == r.Version {
			p = own
		}
		var ch store.Change
		err := h.patiently(v.base, func() (err error) {
			ch, err = h.e.restart(v.base, p, r, h.e.now(v.base), []machine.Waiter{us}, h.run.User)
			return err
		})
		if errors.Is(err, store.ErrUnavailable) {
			return nil, v.breaks(err)
		}
		if err != nil {
			return nil, err
		}
		into.restarts, into.ends = append(into.restarts, rebirth{ch, us}), append(into.ends, failed)
	case rec.Status.Ended():
		var out []byte
		err := h.patiently(v.base, func() (err error) { out, err = h.e.output(v.base, r.ID, rec); return err })
		if err != nil {
			return nil, v.breaks(err)
		}
		into.ends = append(into.ends, failed)
		return v.found(entry{Key: key, Family: f.Key, Run: r.ID, Result: out})
	case !slices.Contains(rec.Waiters, us):
		l := letter(r.ID, machine.Letter{Waiter: &us})
		l.Live = true
		into.letters = append(into.letters, l)
	}
	return nil, nil
}

// owner reads a run, or the one that it was merged into. Where that is gone it gives the last one that there is.
func (e *Engine) owner(ctx context.Context, id string) (r store.Run, rec *machine.Record, err error) {
	for range 10 {
		got, err := e.store.Get(ctx, everything, id)
		if err != nil {
			return r, rec, err
		}
		r = got
		if rec, _, err = parts(r); err != nil || rec.Merged == "" {
			return r, rec, err
		}
		id = rec.Merged
	}
	return store.Run{}, nil, conflict("run %s was merged too often", id)
}

// output is what a run that succeeded has put out.
func (e *Engine) output(ctx context.Context, run string, rec *machine.Record) ([]byte, error) {
	if rec.Large != "" {
		return e.blob(ctx, everything, run, rec.Large)
	}
	return rec.Output, nil
}

// programOf finds the registered program of a graph that node code names.
func (e *Engine) programOf(p *host.Program) (*program, error) {
	kind := store.Kind(p.Shape.Name, p.Shape.Version)
	if got := e.byKind[kind]; got != nil && got.Shape.Fingerprint == p.Shape.Fingerprint {
		return got, nil
	}
	return nil, pawl.Permanent(invalid("workflow %s is not registered with this engine", kind))
}

// enqueued are the options of a background run, which must be one that can be started.
func enqueued(p *program, q host.Enqueue, generation int) (o pawl.StartOptions, err error) {
	if generation+1 > pawl.MaxGenerations {
		return o, exhausted("call %q: background runs of more than %d generations", q.Key, pawl.MaxGenerations)
	}
	if err = json.Unmarshal(q.Options, &o); err == nil {
		err = checkStart(p, q.Input, o)
	}
	if err != nil {
		return o, pawl.Permanent(err)
	}
	return o, nil
}

// backgroundID is the id of a run that a call starts in the background; keyedID is that of one with a key of its own.
func backgroundID(run string, visit int64, key string) string {
	return derived(run, fmt.Sprintf("background/%d/%s", visit, key))
}

func keyedID(tenant, workflow, key string) string {
	return derived("", fmt.Sprintf("%q/%q/%q", tenant, workflow, key))
}

// Enqueue adds a background run to those that start with the node's commit.
func (v *visit) Enqueue(ctx context.Context, q host.Enqueue) (string, error) {
	p, err := v.h.e.programOf(q.Program)
	if err != nil {
		return "", err
	}
	o, err := enqueued(p, q, v.h.head.Generation)
	if err != nil {
		return "", err
	}
	if _, err := v.begin(ctx, q.Key, false); err != nil {
		return "", err
	}
	h := v.h
	id := backgroundID(h.run.ID, v.rec.Visit, q.Key)
	if q.RunKey != "" {
		var rs []store.Run
		err := h.patiently(v.base, func() (err error) {
			rs, err = h.e.store.List(v.base, store.Scope{Tenant: h.run.Tenant, AllUsers: true}, store.Filter{Workflow: p.Shape.Name, Key: q.RunKey}, store.Page{Limit: 1})
			return err
		})
		if err != nil {
			return "", v.breaks(err)
		}
		if len(rs) > 0 {
			return rs[0].ID, nil
		}
		// Whoever enqueues this key gives the run the same id. Only a Start with it in between could still come first.
		id = keyedID(h.run.Tenant, p.Shape.Name, q.RunKey)
	}
	labels := o.Labels
	if labels == nil {
		labels = h.head.Labels
	}
	b := birth{p: p, id: id, tenant: h.run.Tenant, user: h.run.User, root: id, key: q.RunKey, priority: o.Priority, head: Head{
		Input: q.Input, Hash: hash(q.Input), Budget: o.Budget, Labels: labels, Sensitivity: cmp.Or(o.Sensitivity, h.head.Sensitivity),
		Correlation: cmp.Or(o.Correlation, h.head.Correlation), Traceparent: cmp.Or(o.Traceparent, h.head.Traceparent), Generation: h.head.Generation + 1, Origin: h.run.ID,
	}}
	r, err := b.newRun(h.e.now(ctx))
	if err != nil {
		return "", pawl.Permanent(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	l := v.packLocked()
	l.later = append(l.later, r)
	return id, nil
}
