package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"pawl/store"
	"pawl/store/internal/rules"
)

const (
	begin    = `BEGIN ISOLATION LEVEL READ COMMITTED`
	lockRuns = `
SELECT r.id, r.n, r.tenant, r.workflow, r.key, r.root, r.priority, s.version, s.rev, s.ended, s.epoch, s.worker, s.until, s.due, s.expires,
	s.steps, s.events, s.calls, s.inbox, s.blobs, s.audits
FROM unnest($1::bytea[]) v (id) JOIN run r ON r.id = v.id JOIN state s ON s.n = r.n ORDER BY s.n FOR NO KEY UPDATE OF s`
	lockQuestions = `
SELECT q.id, r.id, q.closed, q.due FROM unnest($1::bytea[]) v (id) JOIN question q ON q.id = v.id JOIN run r ON r.n = q.run
ORDER BY q.id FOR NO KEY UPDATE OF q`
	readCounters = `
SELECT r.id, c.meter, c.used, c.cap FROM unnest($1::bytea[]) v (id) JOIN run r ON r.id = v.id JOIN counter c ON c.run = r.n`
	readBlobs = `
SELECT r.id, l.key, l.seq FROM unnest($1::bytea[], $2::bytea[]) v (id, key) JOIN run r ON r.id = v.id
JOIN log l ON l.run = r.n AND l.key = v.key AND l.stream = 4`
	readOwners = `
SELECT o.tenant, o.workflow, o.key, o.id FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) v (tenant, workflow, key)
JOIN run o ON o.tenant = v.tenant AND o.workflow = v.workflow AND o.key = v.key AND o.key <> ''`
	readBound = `
SELECT o.tenant, o.workflow, o.key, o.id FROM unnest($1::bytea[], $2::bytea[]) v (id, key) JOIN run r ON r.id = v.id
JOIN run o ON o.tenant = r.tenant AND o.workflow = r.workflow AND o.key = v.key AND o.key <> ''`
	readGraves = `SELECT id FROM deleted WHERE id = ANY ($1::bytea[])`
	newNumbers = `SELECT nextval('run_n') FROM generate_series(1, $1::int)`
	readClock  = `SELECT clock()`
)

// load locks and reads, in one round trip, all that the operations need. Each statement sees what was committed before it, and
// the locks come first: what is read stays so.
func (g *group) load(ctx context.Context, c sender, n *needs) error {
	b := &pgx.Batch{}
	b.Queue(begin)
	b.Queue(lockRuns, values(distinct(n.runs))).Query(each(g.addRun))
	if len(n.questions) > 0 {
		b.Queue(lockQuestions, values(distinct(n.questions))).Query(each(g.addQuestion))
	}
	if len(n.counted) > 0 {
		b.Queue(readCounters, values(distinct(n.counted))).Query(each(g.addCounter))
	}
	if len(n.blobKeys) > 0 {
		b.Queue(readBlobs, values(n.blobRuns), values(n.blobKeys)).Query(each(func(r pgx.Rows) error {
			var run, key []byte
			var seq int64
			err := r.Scan(&run, &key, &seq)
			g.blobs[pair{string(run), string(key)}] = seq
			return err
		}))
	}
	if len(n.keys) > 0 {
		b.Queue(readOwners, values(n.tenants), values(n.workflows), values(n.keys)).Query(each(g.addOwner))
	}
	if len(n.bindKeys) > 0 {
		b.Queue(readBound, values(n.bindRuns), values(n.bindKeys)).Query(each(g.addOwner))
	}
	if len(n.ids) > 0 {
		b.Queue(readGraves, values(n.ids)).Query(each(func(r pgx.Rows) error {
			var id string
			err := r.Scan(text(&id))
			g.graves[id] = true
			return err
		}))
		b.Queue(newNumbers, len(n.ids)).Query(each(func(r pgx.Rows) error {
			var n int64
			err := r.Scan(&n)
			g.free = append(g.free, n)
			return err
		}))
	}
	b.Queue(readClock).QueryRow(func(r pgx.Row) error { return r.Scan(&g.now) })
	return c.SendBatch(ctx, b).Close()
}

// sender is a connection.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// each reads rows one by one.
func each(f func(pgx.Rows) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			if err := f(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

func (g *group) addRun(rows pgx.Rows) error {
	r := &run{}
	err := rows.Scan(text(&r.id), &r.n, text(&r.tenant), text(&r.workflow), text(&r.key), text(&r.root), &r.priority, text(&r.version), &r.rev,
		&r.Ended, &r.Epoch, text(&r.Worker), &r.Until, &r.Due, &r.Expires,
		&r.seqs[0], &r.seqs[1], &r.seqs[2], &r.seqs[3], &r.seqs[4], &r.seqs[5])
	r.Inbox = r.seqs[rules.Inbox]
	g.runs[r.id] = r
	return err
}

func (g *group) addQuestion(rows pgx.Rows) error {
	q := &question{}
	err := rows.Scan(text(&q.id), text(&q.run), &q.closed, &q.due)
	g.questions[q.id] = q
	return err
}

func (g *group) addCounter(rows pgx.Rows) error {
	var run string
	var c store.Counter
	err := rows.Scan(text(&run), text(&c.Meter), &c.Used, &c.Cap)
	if g.counters[run] == nil {
		g.counters[run] = map[string]store.Counter{}
	}
	g.counters[run][c.Meter] = c
	return err
}

func (g *group) addOwner(rows pgx.Rows) error {
	var at ownedKey
	var id string
	err := rows.Scan(text(&at.tenant), text(&at.workflow), text(&at.key), text(&id))
	g.owners[at] = id
	return err
}

// text reads a bytea into a string.
func text(s *string) *bytes { return (*bytes)(s) }

type bytes string

// ScanBytes makes bytes what pgx can scan a bytea into.
func (b *bytes) ScanBytes(v []byte) error {
	*b = bytes(v)
	return nil
}

// value is a string as a bytea, never null.
func value(s string) []byte { return []byte(s) }

func values(ss []string) [][]byte {
	vs := make([][]byte, len(ss))
	for i, s := range ss {
		vs[i] = []byte(s)
	}
	return vs
}

func distinct(ss []string) []string {
	ss = slices.Clone(ss)
	slices.Sort(ss)
	return slices.Compact(ss)
}
