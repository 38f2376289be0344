package postgres

import (
	"context"
	"fmt"
	"maps"

	"pawl/store"
	"pawl/store/internal/rules"
)

// Create makes new runs.
func (s *Store) Create(ctx context.Context, rs ...store.NewRun) error {
	o := &op{}
	for i := range rs {
		if err := o.needs.create(&rs[i]); err != nil {
			return s.fault(ctx, "create", err)
		}
	}
	o.run = func(g *group) error {
		for i := range rs {
			if err := g.create(&rs[i], false); err != nil {
				return err
			}
		}
		return nil
	}
	return s.do(ctx, "create", o)
}

// Apply makes changes.
func (s *Store) Apply(ctx context.Context, cs ...store.Change) error {
	o := &op{quick: true}
	for i := range cs {
		plain, err := o.needs.change(&cs[i])
		if err != nil {
			return s.fault(ctx, "apply", err)
		}
		o.quick = o.quick && plain
	}
	o.run = func(g *group) error {
		for i := range cs {
			if err := g.change(&cs[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return s.do(ctx, "apply", o)
}

// create makes a run. With leave, one whose id or key is taken is left out; else that is a *Taken.
func (g *group) create(n *store.NewRun, leave bool) error {
	at := ownedKey{n.Tenant, n.Workflow, n.Key}
	owner, taken := n.ID, g.runs[n.ID] != nil || g.graves[n.ID]
	if !taken && n.Key != "" {
		owner, taken = g.owners[at]
	}
	switch {
	case taken && leave:
		return nil
	case taken:
		return &store.Taken{Owner: owner}
	}
	r := &run{
		id: n.ID, tenant: n.Tenant, root: n.Root, key: n.Key, workflow: n.Workflow, version: n.Version, priority: n.Priority,
		made: n, n: g.free[0], Lease: rules.Lease{Due: rules.Due(g.now, n.After)},
	}
	if r.root == "" {
		r.root = r.id
	}
	free := g.free
	g.free = g.free[1:]
	g.runs[n.ID] = r
	if n.Key != "" {
		g.owners[at] = n.ID
	}
	g.undo = append(g.undo, func() {
		g.free = free
		delete(g.runs, n.ID)
		if n.Key != "" {
			delete(g.owners, at)
		}
	})
	g.touch(r)
	for _, c := range n.Caps {
		g.set(r, c)
	}
	for i := range n.Add {
		rows := len(g.log)
		if _, err := g.append(r, &n.Add[i]); err != nil {
			return err
		}
		if n.Past != nil && len(g.log) > rows {
			at := rules.Stamp(n.Add[i].At, g.now)
			g.log[rows].at = &at
		}
	}
	g.told = append(g.told, r.id)
	if n.Past == nil {
		return nil
	}
	r.Lease = rules.Lease{Ended: true, Inbox: r.Inbox}
	return g.past(r, n.Past.Questions)
}

// past adds the questions that a run had where it was made.
func (g *group) past(r *run, qs []store.Question) error {
	for i := range qs {
		q := &qs[i]
		if old := g.questions[q.ID]; old != nil {
			return &store.Taken{Owner: old.run}
		}
		g.questions[q.ID] = &question{
			id: q.ID, run: r.id, n: r.n, tenant: r.tenant, closed: q.Closed, made: &store.Ask{ID: q.ID, Row: q.Row},
			asked: rules.Stamp(q.Asked, g.now), due: rules.Stamp(q.Due, 0),
		}
		g.undo = append(g.undo, func() { delete(g.questions, q.ID) })
	}
	return nil
}

func (g *group) change(c *store.Change) error {
	r := g.runs[c.Run]
	if r == nil {
		if c.Epoch > 0 && !c.Takeover {
			return store.ErrStale
		}
		return fmt.Errorf("%w: run %s", store.ErrNotFound, c.Run)
	}
	if err := r.Admit(c, g.now); err != nil {
		return err
	}
	g.touch(r)
	was, holder, letters := r.Lease, c.Takeover || c.Epoch != 0, false
	if holder && c.Key != "" && c.Key != r.key {
		if err := g.bind(r, c.Key); err != nil {
			return err
		}
	}
	if holder {
		r.Settle(c, g.now) // by the letters that were there before this change
	}
	for i := range c.Add {
		if _, err := g.append(r, &c.Add[i]); err != nil {
			return err
		}
		letters = letters || c.Add[i].Stream == store.Inbox
	}
	if letters && (c.Takeover || !holder) {
		r.Letter(g.now)
	}
	if holder {
		g.write(r, c)
	}
	r.moves(was)
	g.told = append(g.told, r.id)
	return g.rest(r, c, holder)
}

// moves notes whether more than the number of the last letter has changed.
func (r *run) moves(was rules.Lease) {
	was.Inbox = r.Inbox
	r.moved = r.moved || was != r.Lease
}

// write replaces what only a holder or a takeover may.
func (g *group) write(r *run, c *store.Change) {
	if c.Row != nil {
		r.wrote = c
		if c.Version != "" && c.Version != r.version {
			r.version = c.Version
		}
	}
	if c.Counters == nil {
		return
	}
	r.recounted = true
	was := maps.Clone(g.counters[r.id])
	g.counters[r.id] = map[string]store.Counter{}
	g.undo = append(g.undo, func() { g.counters[r.id] = was })
	for _, counter := range c.Counters {
		g.set(r, counter)
	}
}

func (g *group) bind(r *run, key string) error {
	at := ownedKey{r.tenant, r.workflow, key}
	if owner, taken := g.owners[at]; taken {
		return &store.Taken{Owner: owner}
	}
	old := ownedKey{r.tenant, r.workflow, r.key}
	owner, owned := g.owners[old]
	delete(g.owners, old)
	g.owners[at] = r.id
	g.undo = append(g.undo, func() {
		delete(g.owners, at)
		if owned {
			g.owners[old] = owner
		}
	})
	r.key, r.bound = key, true
	return nil
}

// rest does what a change does outside its run.
func (g *group) rest(r *run, c *store.Change, holder bool) error {
	for i := range c.Create {
		if err := g.create(&c.Create[i], true); err != nil {
			return err
		}
	}
	if holder {
		g.ask(r, c)
	}
	for i := range c.Answer {
		q := g.questions[c.Answer[i].ID]
		if q == nil || q.closed || q.due != 0 && q.due <= g.now {
			return store.ErrStale
		}
		g.turn(q)
		q.closed, q.answered = true, &c.Answer[i]
		g.told = append(g.told, q.run)
	}
	for i := range c.Letters {
		if err := g.letter(&c.Letters[i]); err != nil {
			return err
		}
	}
	return nil
}

// turn notes that a question is about to be changed.
func (g *group) turn(q *question) {
	was := *q
	q.touched = true
	g.undo = append(g.undo, func() { *q = was })
}

func (g *group) ask(r *run, c *store.Change) {
	for i := range c.Ask {
		a := &c.Ask[i]
		if g.questions[a.ID] != nil {
			continue
		}
		q := &question{id: a.ID, run: r.id, n: r.n, tenant: r.tenant, made: a, asked: g.now}
		if a.After != 0 {
			q.due = rules.After(g.now, a.After)
		}
		g.questions[a.ID] = q
		g.undo = append(g.undo, func() { delete(g.questions, a.ID) })
	}
	for _, id := range c.Drop {
		if q := g.questions[id]; q != nil && !q.closed {
			g.turn(q)
			q.closed = true
		}
	}
}

func (g *group) letter(l *store.Letter) error {
	r := g.runs[l.Run]
	if r == nil || r.Ended {
		if l.Live {
			return store.ErrStale
		}
		return nil
	}
	g.touch(r)
	was := r.Lease
	for i := range l.Add {
		if _, err := g.append(r, &l.Add[i]); err != nil {
			return err
		}
	}
	r.Letter(g.now)
	r.moves(was)
	g.told = append(g.told, r.id)
	return nil
}
