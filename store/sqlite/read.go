package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"pawl/store"
	"pawl/store/internal/rules"
)

const (
	selectRun = `
SELECT r.n, r.id, r.tenant, r.user, r.workflow, r.version, r.key, r.parent, r.root, p.status, p.node, p.outcome, r.priority,
	l.ended, l.epoch, l.inbox, l.worker, l.until, l.due, r.created, p.updated, l.expires, h.data, p.row
FROM run r JOIN lease l ON l.n = r.n JOIN progress p ON p.n = r.n JOIN head h ON h.n = r.n`
	selectTails    = `SELECT r.n, l.tails, p.tails FROM run r JOIN lease l ON l.n = r.n JOIN progress p ON p.n = r.n`
	selectCounters = `SELECT meter, used, cap FROM counter WHERE run = ? ORDER BY meter`
)

func scanRun(scan func(...any) error) (r store.Run, n int64, err error) {
	var until, due, created, updated, expires int64
	err = scan(&n, &r.ID, &r.Tenant, &r.User, &r.Workflow, &r.Version, &r.Key, &r.Parent, &r.Root, &r.Status, &r.Node, &r.Outcome,
		&r.Priority, &r.Ended, &r.Epoch, &r.Inbox, &r.Worker, &until, &due, &created, &updated, &expires, &r.Head, &r.Row)
	r.Until, r.Due, r.Expires = rules.Time(until), rules.Time(due), rules.Time(expires)
	r.Created, r.Updated = rules.Time(created), rules.Time(updated)
	return r, n, err
}

func scanCounter(scan func(...any) error) (c store.Counter, err error) {
	return c, scan(&c.Meter, &c.Used, &c.Cap)
}

// where gathers conditions.
type where struct {
	text strings.Builder
	args []any
}

func (w *where) and(cond string, args ...any) {
	if w.text.Len() == 0 {
		w.text.WriteString(" WHERE ")
	} else {
		w.text.WriteString(" AND ")
	}
	w.text.WriteString(cond)
	w.args = append(w.args, args...)
}

// is adds a condition unless the value is empty.
func (w *where) is(cond, value string) {
	if value != "" {
		w.and(cond, value)
	}
}

const underOrRoot = `r.n IN (SELECT n FROM run WHERE id = ? AND root = id UNION ALL SELECT n FROM run WHERE root = ? AND root <> id)`

// root narrows to the runs under a root, itself included; the two halves each have an index.
func (w *where) root(id string) {
	if id != "" {
		w.and(underOrRoot, id, id)
	}
}

// scope is part of every read. Where something else narrows more, the planner is kept off the tenant's index by a plus.
func (w *where) scope(tenant string, s store.Scope, narrow ...string) {
	for _, n := range narrow {
		if n != "" {
			tenant = "+" + strings.TrimPrefix(tenant, "+")
		}
	}
	if !s.All {
		w.and(tenant+" = ?", s.Tenant)
		if !s.AllUsers {
			w.and("r.user = ?", s.User)
		}
	}
}

// Get reads one run.
func (s *Store) Get(ctx context.Context, sc store.Scope, id string) (r store.Run, err error) {
	var w where
	w.and("r.id = ?", id)
	w.scope("r.tenant", sc, id)
	err = s.view(ctx, "get", func(v *view) error {
		rs, err := listRuns(v, &w, "")
		if err == nil && len(rs) == 0 {
			return store.ErrNotFound
		}
		if err == nil {
			r = rs[0]
		}
		return err
	})
	return r, err
}

// List pages through runs.
func (s *Store) List(ctx context.Context, sc store.Scope, f store.Filter, p store.Page) (rs []store.Run, err error) {
	var w where
	w.scope("r.tenant", sc, f.Parent, f.Root)
	w.is("r.id < ?", p.After)
	w.is("r.workflow = ?", f.Workflow)
	if f.Key != "" {
		w.and("r.key = ? AND r.key <> ''", f.Key) // the second half names the partial index
	}
	if f.Parent != "" {
		w.and("r.parent = ? AND r.parent <> ''", f.Parent)
	}
	w.root(f.Root)
	w.is("p.outcome = ?", f.Outcome)
	w.in("p.status IN", f.Statuses)
	w.in("r.version NOT IN", f.NotVersions)
	if f.Held != nil {
		w.and("(l.until > ?) = ?", s.clock.now(), *f.Held)
	}
	if !f.Since.IsZero() {
		w.and("p.updated >= ?", rules.Stamp(f.Since, 0))
	}
	w.args = append(w.args, rules.Limit(p))
	err = s.view(ctx, "list", func(v *view) (err error) {
		rs, err = listRuns(v, &w, " ORDER BY r.id DESC LIMIT ?")
		return err
	})
	return rs, err
}

// in adds a condition on a list; an empty list adds none.
func (w *where) in(what string, list []string) {
	if len(list) == 0 {
		return
	}
	args := make([]any, len(list))
	for i, v := range list {
		args[i] = v
	}
	w.and(what+" (?"+strings.Repeat(", ?", len(args)-1)+")", args...)
}

func listRuns(v *view, w *where, order string) ([]store.Run, error) {
	rows, err := v.query(selectRun+w.text.String()+order, w.args...)
	if err != nil {
		return nil, err
	}
	var ns []int64
	rs, err := collect(rows, func(scan func(...any) error) (store.Run, error) {
		r, n, err := scanRun(scan)
		ns = append(ns, n)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	for i, n := range ns {
		rows, err := v.query(selectCounters, n)
		if err != nil {
			return nil, err
		}
		cs, err := collect(rows, scanCounter)
		if err != nil {
			return nil, err
		}
		if len(cs) > 0 {
			rs[i].Counters = cs
		}
	}
	return rs, nil
}

// Read reads a stream of a run.
func (s *Store) Read(ctx context.Context, sc store.Scope, id string, q store.Query) (out []store.Row, err error) {
	stream, err := rules.Number(q.Stream)
	if err != nil {
		return nil, s.fault(ctx, "read", err)
	}
	var w where
	w.and("r.id = ?", id)
	w.scope("r.tenant", sc, id)
	err = s.view(ctx, "read", func(v *view) error {
		var n int64
		var a, b []byte
		switch err := v.row(selectTails+w.text.String(), w.args, &n, &a, &b); {
		case err == sql.ErrNoRows:
			out, err = readGrave(v, sc, id, q)
			return err
		case err != nil:
			return err
		}
		var ts tails
		ts.grow(a)
		ts.grow(b)
		out, err = readStream(v, n, stream, ts[stream], q)
		return err
	})
	return out, err
}

// readGrave reads what a deleted run has left.
func readGrave(v *view, sc store.Scope, id string, q store.Query) ([]store.Row, error) {
	if q.Stream != store.Audit {
		return nil, store.ErrNotFound
	}
	row, at, tenant, user := store.Row{Stream: store.Audit, Seq: 1}, int64(0), "", ""
	err := v.row("SELECT tenant, user, at, row FROM grave WHERE id = ?", []any{id}, &tenant, &user, &at, &row.Data)
	if err == sql.ErrNoRows || err == nil && !rules.Sees(sc, tenant, user) {
		return nil, store.ErrNotFound
	}
	if row.At = rules.Time(at); err != nil || q.After >= 1 || q.Key != "" {
		return []store.Row{}, err
	}
	return []store.Row{row}, nil
}

const (
	selectMark   = `SELECT seq, id FROM mark WHERE run = ? AND stream = ? AND seq >= ? ORDER BY seq LIMIT 1`
	selectBlob   = `SELECT seq, id FROM blob WHERE run = ? AND key = ?`
	selectStream = `
WITH RECURSIVE chain (id, seq) AS (
	SELECT ?1, ?2
	UNION ALL
	SELECT iif(l.stream = ?6, l.prev, l.told), c.seq - 1 FROM chain c JOIN log l ON l.id = c.id WHERE c.seq > ?3 + 1)
SELECT c.seq, l.key, l.at, l.data FROM chain c JOIN log l ON l.id = c.id WHERE c.seq <= ?4 AND (?5 = '' OR l.key = ?5)`
)

// readStream follows the chain back from the stream's end, or from a mark not far behind the last row that is wanted.
func readStream(v *view, n int64, stream int, from tail, q store.Query) ([]store.Row, error) {
	after, limit := max(q.After, 0), q.Limit
	var err error
	switch {
	case q.Key != "" && stream == rules.Blob:
		from = tail{}
		if err = v.row(selectBlob, []any{n, q.Key}, &from.seq, &from.id); err == nil && from.seq > after {
			after = from.seq - 1
		}
	case q.Key == "" && limit > 0 && from.seq > after+int64(limit)+stride:
		err = v.row(selectMark, []any{n, stream, after + int64(limit)}, &from.seq, &from.id)
	}
	if err == sql.ErrNoRows || from.seq <= after {
		return []store.Row{}, nil
	}
	if err != nil {
		return nil, err
	}
	last := from.seq
	if q.Key == "" && limit > 0 {
		last = min(last, after+int64(limit))
	}
	rows, err := v.query(selectStream, from.id, from.seq, after, last, q.Key, stream)
	if err != nil {
		return nil, err
	}
	out, err := collect(rows, func(scan func(...any) error) (store.Row, error) {
		r := store.Row{Stream: q.Stream}
		var at int64
		err := scan(&r.Seq, &r.Key, &at, &r.Data)
		r.At = rules.Time(at)
		return r, err
	})
	slices.SortFunc(out, func(a, b store.Row) int { return cmp.Compare(a.Seq, b.Seq) })
	if limit > 0 && len(out) > limit {
		out = out[:limit]
	}
	return out, err
}

const selectQuestion = `
SELECT q.id, r.id, r.tenant, r.user, r.workflow, r.root, q.closed, q.asked, q.due, q.row
FROM question q JOIN run r ON r.n = q.run`

// Questions pages through questions.
func (s *Store) Questions(ctx context.Context, sc store.Scope, f store.Filter, p store.Page) (qs []store.Question, err error) {
	var w where
	w.scope("q.tenant", sc, f.Question, f.Run, f.Root)
	w.is("q.id < ?", p.After)
	w.is("q.id = ?", f.Question)
	w.is("r.id = ?", f.Run)
	w.is("r.workflow = ?", f.Workflow)
	w.root(f.Root)
	if f.Open {
		w.and("q.closed = 0")
	}
	w.args = append(w.args, rules.Limit(p))
	err = s.view(ctx, "questions", func(v *view) error {
		rows, err := v.query(selectQuestion+w.text.String()+" ORDER BY q.id DESC LIMIT ?", w.args...)
		if err != nil {
			return err
		}
		qs, err = collect(rows, func(scan func(...any) error) (q store.Question, err error) {
			var asked, due int64
			err = scan(&q.ID, &q.Run, &q.Tenant, &q.User, &q.Workflow, &q.Root, &q.Closed, &asked, &due, &q.Row)
			q.Asked, q.Due = rules.Time(asked), rules.Time(due)
			return q, err
		})
		return err
	})
	return qs, err
}

const selectWorkers = `
SELECT w.id, w.kinds, w.until, (SELECT count(*) FROM lease l WHERE l.until > ?1 AND l.until <> 0 AND l.ready IS NULL AND l.worker = w.id)
FROM worker w WHERE w.until > ?1 ORDER BY w.id`

// Workers lists the live workers.
func (s *Store) Workers(ctx context.Context) (ws []store.Worker, err error) {
	err = s.view(ctx, "workers", func(v *view) error {
		rows, err := v.query(selectWorkers, s.clock.now())
		if err != nil {
			return err
		}
		ws, err = collect(rows, func(scan func(...any) error) (w store.Worker, err error) {
			var kinds string
			var until int64
			err = scan(&w.ID, &kinds, &until, &w.Runs)
			w.Kinds, w.Until = rules.SplitKinds(kinds), rules.Time(until)
			return w, err
		})
		return err
	})
	return ws, err
}
