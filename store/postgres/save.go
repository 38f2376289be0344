package postgres

import (
	"github.com/jackc/pgx/v5"

	"pawl/store/internal/rules"
)

// The statements take whole columns, so that a commit of many runs has no more of them than one of a single run. $1 is the time
// of the commit; null: the server's, where nothing was decided by it.
const (
	setKeys    = `UPDATE run r SET key = v.key FROM unnest($1::bigint[], $2::bytea[]) v (n, key) WHERE r.n = v.n`
	insertRuns = `
INSERT INTO run (n, id, tenant, person, workflow, key, parent, root, priority, created, head)
SELECT v.n, v.id, v.tenant, v.person, v.workflow, v.key, v.parent, v.root, v.priority, v.created, v.head
FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bigint[], $10::bytea[],
	$11::bigint[]) v (n, id, tenant, person, workflow, key, parent, root, priority, head, created) ORDER BY v.id`
	insertStates = `
INSERT INTO state (n, rev, version, kind, priority, root, status, node, outcome, updated, ended, epoch, worker, until, due, expires, ready,
	steps, events, calls, inbox, blobs, audits, row)
SELECT v.n, 1, v.version, v.kind, v.priority, v.root, v.status, v.node, v.outcome, coalesce(v.updated, $1::bigint), v.ended, v.epoch, v.worker, v.until, v.due,
	v.expires, v.ready, v.steps, v.events, v.calls, v.inbox, v.blobs, v.audits, v.row
FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[], $10::boolean[], $11::bigint[],
	$12::bytea[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[],
	$21::bigint[], $22::bigint[], $23::bytea[], $24::bigint[], $25::bigint[])
	v (n, rev, version, kind, status, node, outcome, row, ended, epoch, worker, until, due, expires, ready,
		steps, events, calls, inbox, blobs, audits, root, priority, updated)`
	// It divides by zero where a run is not what it was thought to be.
	updateStates = `
WITH saved AS (
	UPDATE state s SET
		rev = s.rev + 1, version = v.version, kind = v.kind, steps = v.steps, events = v.events, calls = v.calls, inbox = v.inbox,
		blobs = v.blobs, audits = v.audits,
		status = CASE WHEN v.wrote THEN v.status ELSE s.status END,
		node = CASE WHEN v.wrote THEN v.node ELSE s.node END,
		outcome = CASE WHEN v.wrote THEN v.outcome ELSE s.outcome END,
		row = CASE WHEN v.wrote THEN v.row ELSE s.row END,
		updated = CASE WHEN v.wrote THEN coalesce($1::bigint, (SELECT clock())) ELSE s.updated END,
		ended = CASE WHEN v.moved THEN v.ended ELSE s.ended END,
		epoch = CASE WHEN v.moved THEN v.epoch ELSE s.epoch END,
		worker = CASE WHEN v.moved THEN v.worker ELSE s.worker END,
		until = CASE WHEN v.moved THEN v.until ELSE s.until END,
		due = CASE WHEN v.moved THEN v.due ELSE s.due END,
		expires = CASE WHEN v.moved THEN v.expires ELSE s.expires END,
		ready = CASE WHEN v.moved THEN v.ready ELSE s.ready END
	FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[], $10::boolean[],
		$11::bigint[], $12::bytea[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[],
		$20::bigint[], $21::bigint[], $22::bigint[], $23::boolean[], $24::boolean[])
		v (n, rev, version, kind, status, node, outcome, row, ended, epoch, worker, until, due, expires, ready,
			steps, events, calls, inbox, blobs, audits, wrote, moved)
	WHERE s.n = v.n AND s.rev = v.rev
	RETURNING 1)
SELECT 1 / (CASE WHEN count(*) = cardinality($2::bigint[]) THEN 1 ELSE 0 END) FROM saved`
	insertLog = `
INSERT INTO log (run, stream, seq, at, told, key, data)
SELECT v.run, v.stream, v.seq, coalesce(v.at, $1::bigint, (SELECT clock())), v.told, v.key, v.data
FROM unnest($2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[], $8::bigint[])
	v (run, stream, seq, told, key, data, at)`
	deleteCounters = `DELETE FROM counter WHERE run = ANY ($1::bigint[])`
	saveCounters   = `
INSERT INTO counter (run, meter, used, cap) SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[])
ON CONFLICT (run, meter) DO UPDATE SET used = excluded.used, cap = excluded.cap`
	insertQuestions = `
INSERT INTO question (id, run, tenant, closed, asked, due, row)
SELECT v.id, v.run, v.tenant, v.closed, v.asked, v.due, v.row
FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::boolean[], $5::bigint[], $6::bigint[], $7::bytea[])
	v (id, run, tenant, closed, asked, due, row)
ORDER BY v.id ON CONFLICT DO NOTHING`
	closeQuestions = `
UPDATE question q SET closed = true, row = CASE WHEN v.answered THEN v.row ELSE q.row END
FROM unnest($1::bytea[], $2::boolean[], $3::bytea[]) v (id, answered, row) WHERE q.id = v.id`
)

// stateColumns are what is written of some runs, column by column.
type stateColumns struct {
	n, rev, epoch, until, due, expires []int64
	ready                              []*int64
	seqs                               [len(rules.Streams)][]int64
	version, kind, status, node        [][]byte
	outcome, row, worker, root         [][]byte
	ended, wrote, moved                []bool
	priority                           []int64
	updated                            []*int64 // of new runs
}

func (c *stateColumns) add(r *run, now int64) {
	c.n, c.rev = append(c.n, r.n), append(c.rev, r.rev)
	c.version, c.kind = append(c.version, value(r.version)), append(c.kind, value(r.workflow+"@"+r.version))
	status, node, outcome, row := "", "", "", []byte(nil)
	switch {
	case r.wrote != nil:
		status, node, outcome, row = r.wrote.Status, r.wrote.Node, r.wrote.Outcome, r.wrote.Row
	case r.made != nil:
		status, node, row = r.made.Status, r.made.Node, r.made.Row
		var updated *int64
		if p := r.made.Past; p != nil {
			at := rules.Stamp(p.Updated, now)
			outcome, updated = p.Outcome, &at
		}
		c.updated = append(c.updated, updated)
	}
	c.status, c.node = append(c.status, value(status)), append(c.node, value(node))
	c.outcome, c.row = append(c.outcome, value(outcome)), append(c.row, row)
	c.ended, c.epoch, c.worker = append(c.ended, r.Ended), append(c.epoch, r.Epoch), append(c.worker, value(r.Worker))
	c.until, c.due, c.expires = append(c.until, r.Until), append(c.due, r.Due), append(c.expires, r.Expires)
	c.ready = append(c.ready, r.ready(now))
	for i := range c.seqs {
		c.seqs[i] = append(c.seqs[i], r.seqs[i])
	}
	root := r.root
	if root == r.id {
		root = ""
	}
	c.root, c.priority = append(c.root, value(root)), append(c.priority, int64(r.priority))
	c.wrote, c.moved = append(c.wrote, r.wrote != nil), append(c.moved, r.moved)
}

// args are the columns that an insert and an update have in common.
func (c *stateColumns) args(now *int64) []any {
	args := []any{now, c.n, c.rev, c.version, c.kind, c.status, c.node, c.outcome, c.row, c.ended, c.epoch, c.worker, c.until, c.due,
		c.expires, c.ready}
	for i := range c.seqs {
		args = append(args, c.seqs[i])
	}
	return args
}

// ready is what the index of claimable runs has for a run; nil: nothing, since somebody holds it or nothing wakes it.
func (r *run) ready(now int64) *int64 {
	if r.Ended || r.Due == 0 || r.Held(now) {
		return nil
	}
	due := max(r.Due, now) // never before what has been seen: see horizon
	return &due
}

// save queues all that the operations have decided; it tells whether there is anything.
func (g *group) save(b *pgx.Batch) bool {
	var now *int64
	if g.now != 0 {
		now = &g.now
	}
	g.saveRuns(b, now)
	g.saveLog(b, now)
	g.saveCounters(b)
	g.saveQuestions(b)
	return b.Len() > 0
}

func (g *group) saveRuns(b *pgx.Batch, now *int64) {
	var fresh, old stateColumns
	var made []*run
	var bound []int64
	var keys [][]byte
	for _, r := range g.order {
		if r.made != nil {
			made = append(made, r)
			fresh.add(r, g.now)
			continue
		}
		old.add(r, g.now)
		if r.bound {
			bound, keys = append(bound, r.n), append(keys, value(r.key))
		}
	}
	if len(bound) > 0 {
		b.Queue(setKeys, bound, keys)
	}
	if len(made) > 0 {
		insertMade(b, made, g.now)
		b.Queue(insertStates, append(fresh.args(now), fresh.root, fresh.priority, fresh.updated)...)
	}
	if len(old.n) > 0 {
		b.Queue(updateStates, append(old.args(now), old.wrote, old.moved)...)
	}
}

func insertMade(b *pgx.Batch, made []*run, now int64) {
	var ns, priorities, created []int64
	var cols [8][][]byte
	for _, r := range made {
		n := r.made
		ns, priorities = append(ns, r.n), append(priorities, int64(n.Priority))
		at := now
		if n.Past != nil {
			at = rules.Stamp(n.Past.Created, now)
		}
		created = append(created, at)
		for i, v := range [][]byte{value(n.ID), value(n.Tenant), value(n.User), value(n.Workflow), value(r.key), value(n.Parent), value(r.root), n.Head} {
			cols[i] = append(cols[i], v)
		}
	}
	b.Queue(insertRuns, ns, cols[0], cols[1], cols[2], cols[3], cols[4], cols[5], cols[6], priorities, cols[7], created)
}

func (g *group) saveLog(b *pgx.Batch, now *int64) {
	if len(g.log) == 0 {
		return
	}
	count := len(g.log)
	runs, streams, seqs, told := make([]int64, count), make([]int16, count), make([]int64, count), make([]*int64, count)
	keys, data, at := make([][]byte, count), make([][]byte, count), make([]*int64, count)
	for i, e := range g.log {
		runs[i], streams[i], seqs[i], told[i], keys[i], data[i], at[i] = e.n, int16(e.stream), e.seq, e.told, value(e.key), e.data, e.at
	}
	b.Queue(insertLog, now, runs, streams, seqs, told, keys, data, at)
}

func (g *group) saveCounters(b *pgx.Batch) {
	var anew, runs, used, caps []int64
	var meters [][]byte
	for _, r := range g.order {
		if r.recounted && r.made == nil {
			anew = append(anew, r.n)
		}
	}
	seen := map[pair]bool{}
	for _, p := range g.spent {
		c, there := g.counters[p.run][p.key]
		if !there || seen[p] {
			continue
		}
		seen[p] = true
		runs, meters = append(runs, g.runs[p.run].n), append(meters, value(c.Meter))
		used, caps = append(used, c.Used), append(caps, c.Cap)
	}
	if len(anew) > 0 {
		b.Queue(deleteCounters, anew)
	}
	if len(runs) > 0 {
		b.Queue(saveCounters, runs, meters, used, caps)
	}
}

func (g *group) saveQuestions(b *pgx.Batch) {
	var ids, tenants, rows, shutIDs, shutRows [][]byte
	var runs, asked, dues []int64
	var closed, answered []bool
	for _, q := range g.questions {
		switch {
		case q.made != nil:
			row := q.made.Row
			if q.answered != nil {
				row = q.answered.Row
			}
			ids, tenants, rows = append(ids, value(q.id)), append(tenants, value(q.tenant)), append(rows, row)
			runs, asked, dues, closed = append(runs, q.n), append(asked, q.asked), append(dues, q.due), append(closed, q.closed)
		case q.touched:
			shutIDs, answered = append(shutIDs, value(q.id)), append(answered, q.answered != nil)
			var row []byte
			if q.answered != nil {
				row = q.answered.Row
			}
			shutRows = append(shutRows, row)
		}
	}
	if len(ids) > 0 {
		b.Queue(insertQuestions, ids, runs, tenants, closed, asked, dues, rows)
	}
	if len(shutIDs) > 0 {
		b.Queue(closeQuestions, shutIDs, answered, shutRows)
	}
}
