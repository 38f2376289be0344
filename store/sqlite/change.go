package sqlite

import (
	"context"
	"errors"
	"fmt"

	"pawl/store"
	"pawl/store/internal/rules"
)

// Create makes new runs.
func (s *Store) Create(ctx context.Context, rs ...store.NewRun) error {
	guard := len(rs) > 1
	for i := range rs {
		if err := known(rs[i].Add); err != nil {
			return s.fault(ctx, "create", err)
		}
		guard = guard || rs[i].Past != nil
	}
	return s.do(ctx, "create", &op{guard: guard, run: func(t *tx) error {
		for i := range rs {
			if err := t.create(&rs[i], false); err != nil {
				return err
			}
		}
		return nil
	}})
}

// Apply makes changes.
func (s *Store) Apply(ctx context.Context, cs ...store.Change) error {
	guard := len(cs) > 1
	for i := range cs {
		c := &cs[i]
		if err := knownIn(c); err != nil {
			return s.fault(ctx, "apply", err)
		}
		guard = guard || late(c)
	}
	return s.do(ctx, "apply", &op{guard: guard, run: func(t *tx) error {
		for i := range cs {
			if err := t.change(&cs[i]); err != nil {
				return err
			}
		}
		return nil
	}})
}

// late tells whether a change may be refused after its first write.
func late(c *store.Change) bool {
	for _, l := range c.Letters {
		if l.Live {
			return true
		}
	}
	return c.Key != "" || len(c.Answer) > 0
}

// known refuses rows of a stream that there is not, before anything is written.
func known(rows []store.Row) error {
	for i := range rows {
		if _, err := rules.Place(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

func knownIn(c *store.Change) error {
	err := known(c.Add)
	for i := range c.Create {
		err = errors.Join(err, known(c.Create[i].Add))
	}
	for i := range c.Letters {
		err = errors.Join(err, known(c.Letters[i].Add))
	}
	return err
}

const (
	insertRun = `
INSERT INTO run (id, tenant, user, workflow, version, key, parent, root, priority, created)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 WHERE NOT EXISTS (SELECT 1 FROM grave WHERE id = ?1) ON CONFLICT DO NOTHING`
	insertProgress = `INSERT INTO progress (n, status, node, outcome, updated, tails, row) VALUES (?, ?, ?, ?, ?, ?, ?)`
	insertLease    = `
INSERT INTO lease (n, kind, priority, root, ended, epoch, inbox, worker, until, due, expires, ready)
VALUES (?, ?, ?, ?, ?, 0, ?, '', 0, ?, 0, ?)`
	owner    = `SELECT id FROM run WHERE id = ? UNION ALL SELECT id FROM grave WHERE id = ?`
	keyOwner = `SELECT id FROM run WHERE tenant = ? AND workflow = ? AND key = ? AND key <> ''`
)

// create makes a run. With leave, one whose id or key is taken is left out; else that is a *Taken.
func (t *tx) create(n *store.NewRun, leave bool) error {
	r := &run{
		id: n.ID, tenant: n.Tenant, root: n.Root, key: n.Key, workflow: n.Workflow, version: n.Version, priority: n.Priority,
		Lease: rules.Lease{Due: rules.Due(t.now, n.After)}, shown: shown{status: n.Status, node: n.Node},
	}
	if r.root == "" {
		r.root = r.id
	}
	created, updated := t.now, t.now
	if n.Past != nil {
		r.Lease = rules.Lease{Ended: true}
		r.shown.outcome, created, updated = n.Past.Outcome, rules.Stamp(n.Past.Created, t.now), rules.Stamp(n.Past.Updated, t.now)
	}
	res, err := t.w.write(insertRun, n.ID, n.Tenant, n.User, n.Workflow, n.Version, n.Key, n.Parent, r.root, n.Priority, created)
	if err != nil {
		return err
	}
	if made, err := res.RowsAffected(); err != nil {
		return err
	} else if made == 0 {
		if leave {
			return nil
		}
		return t.taken(n)
	}
	t.dirty = true
	if r.n, err = res.LastInsertId(); err != nil {
		return err
	}
	if r.kind, err = t.kind(store.Kind(n.Workflow, n.Version), true); err != nil {
		return err
	}
	if _, err := t.exec("INSERT INTO head (n, data) VALUES (?, ?)", r.n, n.Head); err != nil {
		return err
	}
	if err := t.count(r.n, n.Caps); err != nil {
		return err
	}
	for i := range n.Add {
		at := t.now
		if n.Past != nil {
			at = rules.Stamp(n.Add[i].At, t.now)
		}
		if _, err := t.appendAt(r, &n.Add[i], at); err != nil {
			return err
		}
	}
	if _, err := t.exec(insertProgress, r.n, n.Status, n.Node, r.shown.outcome, updated, r.tails.bytes(), n.Row); err != nil {
		return err
	}
	r.grown = false
	root := r.root
	if root == r.id {
		root = ""
	}
	if _, err := t.exec(insertLease, r.n, r.kind, r.priority, root, r.Ended, r.Inbox, r.Due, r.ready(t.now)); err != nil {
		return err
	}
	if n.Past != nil {
		if err := t.asked(r, n.Past.Questions); err != nil {
			return err
		}
	}
	t.runs[r.id] = r
	t.changed = append(t.changed, r.id)
	return nil
}

// asked writes the questions of a run that has been.
func (t *tx) asked(r *run, qs []store.Question) error {
	for _, q := range qs {
		made, err := t.exec(insertAsked, q.ID, r.n, r.tenant, q.Closed, rules.Stamp(q.Asked, t.now), rules.Stamp(q.Due, 0), q.Row)
		if err != nil {
			return err
		}
		if made == 0 {
			var id string
			if _, err := t.row(questionRun, []any{q.ID}, &id); err != nil {
				return err
			}
			return &store.Taken{Owner: id}
		}
	}
	return nil
}

// taken names the owner of what a new run wanted.
func (t *tx) taken(n *store.NewRun) error {
	var id string
	found, err := t.row(owner, []any{n.ID, n.ID}, &id)
	if err == nil && !found {
		_, err = t.row(keyOwner, []any{n.Tenant, n.Workflow, n.Key}, &id)
	}
	if err != nil {
		return err
	}
	return &store.Taken{Owner: id}
}

// count writes counters that are not there yet.
func (t *tx) count(run int64, cs []store.Counter) error {
	for _, c := range cs {
		if _, err := t.exec(saveCounter, run, c.Meter, c.Used, c.Cap); err != nil {
			return err
		}
	}
	return nil
}

const saveCounter = `
INSERT INTO counter (run, meter, used, cap) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET used = excluded.used, cap = excluded.cap`

func (t *tx) change(c *store.Change) error {
	r, err := t.load(c.Run)
	if err != nil {
		return err
	}
	if r == nil {
		if c.Epoch > 0 && !c.Takeover {
			return store.ErrStale
		}
		return fmt.Errorf("%w: run %s", store.ErrNotFound, c.Run)
	}
	if err := r.Admit(c, t.now); err != nil {
		return err
	}
	was, holder, letters := r.Lease, c.Takeover || c.Epoch != 0, false
	if holder && c.Key != "" && c.Key != r.key { // first, since it may be refused
		if err := t.bind(r, c.Key); err != nil {
			return err
		}
	}
	if holder {
		r.Settle(c, t.now) // by the letters that were there before this change
		t.dirty = true     // what is remembered has changed, and has to be forgotten if the rest is refused
	}
	for i := range c.Add {
		if _, err := t.append(r, &c.Add[i]); err != nil {
			return err
		}
		letters = letters || c.Add[i].Stream == store.Inbox
	}
	if letters && (c.Takeover || !holder) {
		r.Letter(t.now)
	}
	if holder {
		if err := t.write(r, c); err != nil {
			return err
		}
	}
	if err := t.save(r, was); err != nil {
		return err
	}
	t.changed = append(t.changed, r.id)
	return t.rest(r, c, holder)
}

// Most steps change no more than the node of what lists show.
const (
	saveProgress = `UPDATE progress SET updated = ?, tails = ?, row = ?, node = ?, status = ?, outcome = ? WHERE n = ?`
	saveNode     = `UPDATE progress SET updated = ?, tails = ?, row = ?, node = ? WHERE n = ?`
	saveRow      = `UPDATE progress SET updated = ?, tails = ?, row = ? WHERE n = ?`
)

// progress writes how far a run has come.
func (t *tx) progress(r *run, c *store.Change) error {
	next := shown{c.Status, c.Node, c.Outcome}
	text := saveRow
	t.tails = r.tails.append(t.tails[:0])
	args := append(t.args[:0], t.now, t.tails, c.Row)
	switch {
	case next.status != r.shown.status || next.outcome != r.shown.outcome:
		text, args = saveProgress, append(args, next.node, next.status, next.outcome)
	case next.node != r.shown.node:
		text, args = saveNode, append(args, next.node)
	}
	args = append(args, r.n)
	_, err := t.exec(text, args...)
	t.used(args)
	if err != nil {
		return err
	}
	r.shown, r.grown = next, false
	return nil
}

// write replaces what only a holder or a takeover may.
func (t *tx) write(r *run, c *store.Change) error {
	if c.Row != nil {
		if err := t.progress(r, c); err != nil {
			return err
		}
		if c.Version != "" && c.Version != r.version {
			if err := t.move(r, c.Version); err != nil {
				return err
			}
		}
	}
	if c.Counters != nil {
		if _, err := t.exec("DELETE FROM counter WHERE run = ?", r.n); err != nil {
			return err
		}
		if err := t.count(r.n, c.Counters); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) bind(r *run, key string) error {
	n, err := t.exec("UPDATE OR IGNORE run SET key = ? WHERE n = ?", key, r.n)
	if err != nil {
		return err
	}
	if n == 0 {
		return t.taken(&store.NewRun{Tenant: r.tenant, Workflow: r.workflow, Key: key})
	}
	r.key = key
	return nil
}

// move gives the run another version, and with it another kind.
func (t *tx) move(r *run, version string) (err error) {
	if r.kind, err = t.kind(store.Kind(r.workflow, version), true); err != nil {
		return err
	}
	if _, err := t.exec("UPDATE run SET version = ? WHERE n = ?", version, r.n); err != nil {
		return err
	}
	r.version = version
	_, err = t.exec("UPDATE lease SET kind = ? WHERE n = ?", r.kind, r.n)
	return err
}

const (
	insertQuestion = `
INSERT INTO question (id, run, tenant, closed, asked, due, row) VALUES (?, ?, ?, 0, ?, ?, ?) ON CONFLICT DO NOTHING`
	insertAsked = `
INSERT INTO question (id, run, tenant, closed, asked, due, row) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	closeQuestion  = `UPDATE question SET closed = 1 WHERE id = ? AND closed = 0`
	answerQuestion = `UPDATE question SET closed = 1, row = ? WHERE id = ? AND closed = 0 AND (due = 0 OR due > ?)`
	questionRun    = `SELECT r.id FROM question q JOIN run r ON r.n = q.run WHERE q.id = ?`
)

// rest does what a change does outside its run.
func (t *tx) rest(r *run, c *store.Change, holder bool) error {
	for i := range c.Create {
		if err := t.create(&c.Create[i], true); err != nil {
			return err
		}
	}
	if holder {
		if err := t.ask(r, c); err != nil {
			return err
		}
	}
	for _, a := range c.Answer {
		n, err := t.exec(answerQuestion, a.Row, a.ID, t.now)
		if err != nil {
			return err
		}
		if n == 0 {
			return store.ErrStale
		}
		var id string
		if _, err := t.row(questionRun, []any{a.ID}, &id); err != nil {
			return err
		}
		t.changed = append(t.changed, id)
	}
	for i := range c.Letters {
		if err := t.letter(&c.Letters[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) ask(r *run, c *store.Change) error {
	for _, a := range c.Ask {
		due := int64(0)
		if a.After != 0 {
			due = rules.After(t.now, a.After)
		}
		if _, err := t.exec(insertQuestion, a.ID, r.n, r.tenant, t.now, due, a.Row); err != nil {
			return err
		}
	}
	for _, id := range c.Drop {
		if _, err := t.exec(closeQuestion, id); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) letter(l *store.Letter) error {
	r, err := t.load(l.Run)
	if err != nil {
		return err
	}
	if r == nil || r.Ended {
		if l.Live {
			return store.ErrStale
		}
		return nil
	}
	was := r.Lease
	for i := range l.Add {
		if _, err := t.append(r, &l.Add[i]); err != nil {
			return err
		}
	}
	r.Letter(t.now)
	t.changed = append(t.changed, r.id)
	return t.save(r, was)
}
