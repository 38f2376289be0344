package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl/store"
	"pawl/store/internal/rules"
)

// selectRun answers a run with its counters, in one snapshot.
const selectRun = `
SELECT r.n, s.rev, s.steps, s.events, s.calls, s.blobs, s.audits, r.id, r.tenant, r.person, r.workflow, s.version, r.key, r.parent, r.root,
	s.status, s.node, s.outcome, r.priority, s.ended, s.epoch, s.inbox, s.worker, s.until, s.due, r.created, s.updated, s.expires, r.head, s.row,
	c.meters, c.used, c.caps
FROM run r JOIN state s ON s.n = r.n LEFT JOIN LATERAL (
	SELECT array_agg(meter ORDER BY meter) AS meters, array_agg(used ORDER BY meter) AS used, array_agg(cap ORDER BY meter) AS caps
	FROM counter WHERE run = r.n) c ON true`

func scanRun(rows pgx.Rows) (r store.Run, known *run, err error) {
	var until, due, created, updated, expires int64
	var meters [][]byte
	var used, caps []int64
	k := &run{}
	err = rows.Scan(&k.n, &k.rev, &k.seqs[0], &k.seqs[1], &k.seqs[2], &k.seqs[4], &k.seqs[5],
		text(&r.ID), text(&r.Tenant), text(&r.User), text(&r.Workflow), text(&r.Version), text(&r.Key), text(&r.Parent), text(&r.Root),
		text(&r.Status), text(&r.Node), text(&r.Outcome), &r.Priority, &r.Ended, &r.Epoch, &r.Inbox, text(&r.Worker),
		&until, &due, &created, &updated, &expires, &r.Head, &r.Row, &meters, &used, &caps)
	r.Until, r.Due, r.Expires = rules.Time(until), rules.Time(due), rules.Time(expires)
	r.Created, r.Updated = rules.Time(created), rules.Time(updated)
	for i := range meters {
		r.Counters = append(r.Counters, store.Counter{Meter: string(meters[i]), Used: used[i], Cap: caps[i]})
	}
	k.id, k.tenant, k.workflow, k.version, k.key, k.root, k.priority = r.ID, r.Tenant, r.Workflow, r.Version, r.Key, r.Root, r.Priority
	k.Lease = rules.Lease{Ended: r.Ended, Epoch: r.Epoch, Inbox: r.Inbox, Worker: r.Worker, Until: until, Due: due, Expires: expires}
	k.seqs[rules.Inbox] = r.Inbox
	return r, k, err
}

// where gathers conditions.
type where struct {
	text strings.Builder
	args []any
}

// and adds a condition, in which %d stands for the number of the argument.
func (w *where) and(cond string, arg any) {
	if w.text.Len() == 0 {
		w.text.WriteString(" WHERE ")
	} else {
		w.text.WriteString(" AND ")
	}
	w.args = append(w.args, arg)
	w.text.WriteString(strings.ReplaceAll(cond, "%d", fmt.Sprintf("$%d", len(w.args))))
}

// is adds a condition unless the value is empty.
func (w *where) is(cond, name string) {
	if name != "" {
		w.and(cond, value(name))
	}
}

// in adds a condition on a list; an empty list adds none.
func (w *where) in(cond string, list []string) {
	if len(list) > 0 {
		w.and(cond, values(list))
	}
}

// root narrows to the runs under a root, itself included; the two halves each have an index.
func (w *where) root(id string) {
	w.is(`r.n IN (SELECT n FROM run WHERE id = %d AND root = id UNION ALL SELECT n FROM run WHERE root = %d AND root <> id)`, id)
}

// scope is part of every read.
func (w *where) scope(table string, s store.Scope) {
	if s.All {
		return
	}
	w.and(table+".tenant = %d", value(s.Tenant))
	if !s.AllUsers {
		w.and("r.person = %d", value(s.User))
	}
}

// view reads. What fails because a connection has gone is read again on another one: the server may have been started anew.
func (s *Store) view(ctx context.Context, name string, f func(context.Context, *pgxpool.Conn) error) error {
	err := s.ready(ctx)
	if err != nil {
		return s.fault(ctx, name, err)
	}
	for range 2 {
		if err = s.look(ctx, patience, f); err == nil || !lost(err) || ctx.Err() != nil {
			break
		}
		s.pool.Reset()
	}
	return s.fault(ctx, name, err)
}

// look lends a connection for at most so long.
func (s *Store) look(ctx context.Context, most time.Duration, f func(context.Context, *pgxpool.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	return f(ctx, c)
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, c *pgxpool.Conn, query string, args []any, scan func(pgx.Rows) (T, error)) ([]T, error) {
	rows, err := c.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	out := []T{}
	err = each(func(rows pgx.Rows) error {
		v, err := scan(rows)
		out = append(out, v)
		return err
	})(rows)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) runs(ctx context.Context, name string, w *where, order string) (rs []store.Run, err error) {
	err = s.view(ctx, name, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		rs, err = collect(ctx, c, selectRun+w.text.String()+order, w.args, func(rows pgx.Rows) (store.Run, error) {
			r, _, err := scanRun(rows)
			return r, err
		})
		return err
	})
	return rs, err
}

// Get reads one run.
func (s *Store) Get(ctx context.Context, sc store.Scope, id string) (store.Run, error) {
	var w where
	w.and("r.id = %d", value(id))
	w.scope("r", sc)
	rs, err := s.runs(ctx, "get", &w, "")
	if err == nil && len(rs) == 0 {
		err = s.fault(ctx, "get", store.ErrNotFound)
	}
	if err != nil {
		return store.Run{}, err
	}
	return rs[0], nil
}

// List pages through runs.
func (s *Store) List(ctx context.Context, sc store.Scope, f store.Filter, p store.Page) ([]store.Run, error) {
	var w where
	w.scope("r", sc)
	w.is("r.id < %d", p.After)
	w.is("r.workflow = %d", f.Workflow)
	w.is("r.key = %d AND r.key <> ''", f.Key) // the second half names the partial index
	w.is("r.parent = %d AND r.parent <> ''", f.Parent)
	w.root(f.Root)
	w.is("s.outcome = %d", f.Outcome)
	w.in("s.status = ANY (%d::bytea[])", f.Statuses)
	w.in("s.version <> ALL (%d::bytea[])", f.NotVersions)
	if f.Held != nil {
		w.and("(s.until > (SELECT clock())) = %d", *f.Held)
	}
	if !f.Since.IsZero() {
		w.and("s.updated >= %d", rules.Stamp(f.Since, 0))
	}
	return s.runs(ctx, "list", &w, fmt.Sprintf(" ORDER BY r.id DESC LIMIT %d", rules.Limit(p)))
}

// The last column is false where the run is there and has no such row.
const (
	selectStream = `
SELECT x.seq, x.key, x.at, x.data, x.seq IS NOT NULL FROM (SELECT r.n FROM run r%s) r LEFT JOIN LATERAL (%s) x ON true ORDER BY x.seq`
	ownRows  = `(SELECT l.seq, l.key, l.at, l.data FROM log l WHERE l.run = r.n AND l.stream = %d AND l.seq > %d%s ORDER BY l.seq%s)`
	toldRows = `(SELECT l.told, l.key, l.at, l.data FROM log l WHERE l.run = r.n AND l.told IS NOT NULL AND l.told > %d%s ORDER BY l.told%s)`
	// What is left of a run that was deleted.
	selectDeleted = `SELECT r.at, r.row FROM deleted r`
)

// Read reads a stream of a run.
func (s *Store) Read(ctx context.Context, sc store.Scope, id string, q store.Query) (out []store.Row, err error) {
	stream, err := rules.Number(q.Stream)
	if err != nil {
		return nil, s.fault(ctx, "read", err)
	}
	var w where
	w.and("r.id = %d", value(id))
	w.scope("r", sc)
	query, args := streamQuery(&w, stream, &q)
	found := false
	err = s.view(ctx, "read", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, err := c.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		out, found = []store.Row{}, false
		err = each(func(rows pgx.Rows) error {
			found = true
			row, some, err := scanRow(rows, q.Stream)
			if some {
				out = append(out, row)
			}
			return err
		})(rows)
		if err != nil || found {
			return err
		}
		if out, err = s.remains(ctx, c, &w, &q); err == nil && out == nil {
			err = store.ErrNotFound
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func streamQuery(w *where, stream int, q *store.Query) (string, []any) {
	args, key, limit := w.args, "", ""
	if q.Key != "" {
		args = append(args, value(q.Key))
		key = fmt.Sprintf(" AND l.key = $%d", len(args))
	}
	if q.Limit > 0 {
		limit = fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	rows := fmt.Sprintf(ownRows, stream, max(q.After, 0), key, limit)
	if stream == rules.Event {
		rows = fmt.Sprintf("SELECT * FROM (%s UNION ALL %s) e ORDER BY 1%s", rows, fmt.Sprintf(toldRows, max(q.After, 0), key, limit), limit)
	}
	return fmt.Sprintf(selectStream, w.text.String(), rows), args
}

func scanRow(rows pgx.Rows, stream store.Stream) (r store.Row, some bool, err error) {
	var seq, at *int64
	var key []byte
	if err := rows.Scan(&seq, &key, &at, &r.Data, &some); err != nil || !some {
		return r, false, err
	}
	r.Stream, r.Seq, r.Key, r.At = stream, *seq, string(key), rules.Time(*at)
	return r, true, nil
}

// remains is what a deleted run has left in its Audit; nil: there was no such run.
func (s *Store) remains(ctx context.Context, c *pgxpool.Conn, w *where, q *store.Query) ([]store.Row, error) {
	if q.Stream != store.Audit {
		return nil, nil
	}
	out, err := collect(ctx, c, selectDeleted+w.text.String(), w.args, func(rows pgx.Rows) (store.Row, error) {
		r := store.Row{Stream: store.Audit, Seq: 1}
		var at int64
		err := rows.Scan(&at, &r.Data)
		r.At = rules.Time(at)
		return r, err
	})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	if q.After >= 1 || q.Key != "" {
		out = out[:0]
	}
	return out, nil
}

const selectQuestion = `
SELECT q.id, r.id, r.tenant, r.person, r.workflow, r.root, q.closed, q.asked, q.due, q.row
FROM question q JOIN run r ON r.n = q.run`

// Questions pages through questions.
func (s *Store) Questions(ctx context.Context, sc store.Scope, f store.Filter, p store.Page) (qs []store.Question, err error) {
	var w where
	w.scope("q", sc)
	w.is("q.id < %d", p.After)
	w.is("q.id = %d", f.Question)
	w.is("r.id = %d", f.Run)
	w.is("r.workflow = %d", f.Workflow)
	w.root(f.Root)
	if f.Open {
		w.and("NOT q.closed = %d", true)
	}
	query := selectQuestion + w.text.String() + fmt.Sprintf(" ORDER BY q.id DESC LIMIT %d", rules.Limit(p))
	err = s.view(ctx, "questions", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		qs, err = collect(ctx, c, query, w.args, func(rows pgx.Rows) (q store.Question, err error) {
			var asked, due int64
			err = rows.Scan(text(&q.ID), text(&q.Run), text(&q.Tenant), text(&q.User), text(&q.Workflow), text(&q.Root), &q.Closed, &asked, &due, &q.Row)
			q.Asked, q.Due = rules.Time(asked), rules.Time(due)
			return q, err
		})
		return err
	})
	return qs, err
}

const selectWorkers = `
WITH t AS MATERIALIZED (SELECT clock() AS now)
SELECT w.id, w.kinds, w.until, (SELECT count(*) FROM state s WHERE s.until > t.now AND s.until <> 0 AND s.ready IS NULL AND s.worker = w.id)
FROM t, worker w WHERE w.until > t.now ORDER BY w.id`

// Workers lists the live workers.
func (s *Store) Workers(ctx context.Context) (ws []store.Worker, err error) {
	err = s.view(ctx, "workers", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		ws, err = collect(ctx, c, selectWorkers, nil, func(rows pgx.Rows) (w store.Worker, err error) {
			var kinds string
			var until int64
			err = rows.Scan(text(&w.ID), text(&kinds), &until, &w.Runs)
			w.Kinds, w.Until = rules.SplitKinds(kinds), rules.Time(until)
			return w, err
		})
		return err
	})
	return ws, err
}

// pauseOf is a duration until a time, not below zero.
func pauseOf(at, now int64) time.Duration { return time.Duration(max(0, at-now)) }
