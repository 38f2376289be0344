package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl/store"
	"pawl/store/internal/rules"
)

const (
	// sweep puts leases that have run out back into the queues, no farther back than is looked at ($2, see horizon).
	sweep = `
UPDATE state SET ready = greatest(due, $2::bigint) WHERE n IN (
	SELECT n FROM state WHERE until > $1::bigint AND until <> 0 AND ready IS NULL AND until <= (SELECT clock()) AND NOT ended AND due <> 0
	FOR NO KEY UPDATE SKIP LOCKED)`

	// The queues are the kinds and, of each, the priorities: the index is asked for the next one each time, so that what waits in
	// between costs nothing. $1 are the kinds; the second %s is from when on there is anything (see horizon).
	givenKinds = `kinds (kind) AS (SELECT DISTINCT unnest($1::bytea[]))`
	allKinds   = `kinds (kind) AS (
	(SELECT s.kind FROM state s WHERE s.ready IS NOT NULL AND $1::bytea[] IS NULL ORDER BY s.kind LIMIT 1) UNION ALL
	SELECT (SELECT s.kind FROM state s WHERE s.ready IS NOT NULL AND s.kind > k.kind ORDER BY s.kind LIMIT 1) FROM kinds k WHERE k.kind IS NOT NULL)`
	queues = `
WITH RECURSIVE t AS MATERIALIZED (SELECT clock() AS now), %[1]s, queue (kind, priority) AS (
	SELECT k.kind, (SELECT s.priority FROM state s WHERE s.ready IS NOT NULL AND s.kind = k.kind AND s.ready >= %[2]s::bigint
		ORDER BY s.priority DESC LIMIT 1)
	FROM kinds k WHERE k.kind IS NOT NULL UNION ALL
	SELECT q.kind, (SELECT s.priority FROM state s WHERE s.ready IS NOT NULL AND s.kind = q.kind AND s.priority < q.priority
		AND s.ready >= %[2]s::bigint ORDER BY s.priority DESC LIMIT 1)
	FROM queue q WHERE q.priority IS NOT NULL)`

	// Of each queue some more are looked at than are wanted, since other claims may have locked the first.
	claimQueues = queues + `, first AS (
	SELECT d.n, d.priority, d.ready FROM queue q, LATERAL (
		SELECT s.n, s.priority, s.ready FROM state s WHERE s.ready IS NOT NULL AND s.kind = q.kind AND s.priority = q.priority
		AND s.ready >= %[2]s::bigint AND s.ready <= (SELECT now FROM t) ORDER BY s.ready LIMIT 4 * $2::bigint + 32) d
	WHERE q.priority IS NOT NULL ORDER BY d.priority DESC, d.ready, d.n LIMIT 4 * $2::bigint + 32),
picked AS MATERIALIZED (
	SELECT s.n FROM first f JOIN state s ON s.n = f.n WHERE s.ready IS NOT NULL AND s.ready <= (SELECT now FROM t)
	ORDER BY s.priority DESC, s.ready, s.n LIMIT $2::bigint FOR NO KEY UPDATE OF s SKIP LOCKED)` + lease
	nextInQueues = queues + `, due (at) AS (
	SELECT (SELECT s.ready FROM state s WHERE s.ready IS NOT NULL AND s.kind = q.kind AND s.priority = q.priority AND s.ready >= %[2]s::bigint
		ORDER BY s.ready LIMIT 1)
	FROM queue q WHERE q.priority IS NOT NULL),
out (at) AS (
	SELECT s.until FROM state s WHERE s.until >= $3::bigint AND s.until <> 0 AND s.ready IS NULL AND ($1::bytea[] IS NULL OR s.kind = ANY ($1::bytea[]))
	ORDER BY s.until LIMIT 1)
SELECT (SELECT now FROM t), (SELECT min(at) FROM due), (SELECT at FROM out)`

	// One run, or those under one root.
	ofRun = `
WITH t AS MATERIALIZED (SELECT clock() AS now), them AS (
	SELECT r.n FROM run r WHERE r.id = $2::bytea AND ($3::bytea = '' OR r.root = $3::bytea))`
	ofRoot = `
WITH t AS MATERIALIZED (SELECT clock() AS now), them AS (
	SELECT r.n FROM run r WHERE $2::bytea = '' AND r.id = $3::bytea AND r.root = $3::bytea UNION ALL
	SELECT s.n FROM state s WHERE s.root = $3::bytea AND s.root <> '' AND NOT s.ended)`
	narrow      = ` FROM them m JOIN state s ON s.n = m.n WHERE NOT s.ended AND s.due <> 0 AND ($1::bytea[] IS NULL OR s.kind = ANY ($1::bytea[]))`
	claimNarrow = `, picked AS MATERIALIZED (
	SELECT s.n` + narrow + ` AND s.due <= (SELECT now FROM t) AND s.until <= (SELECT now FROM t)
	ORDER BY s.priority DESC, s.due, s.n LIMIT $4::bigint FOR NO KEY UPDATE OF s%s)` + leaseNarrow
	nextNarrow = `SELECT (SELECT now FROM t), min(greatest(s.due, s.until))` + narrow
)

// lease and leaseNarrow differ in where the worker and the hold stand among the arguments.
const (
	lease       = leaseHead + `$3::bytea` + leaseMid + `$4::bigint` + leaseTail
	leaseNarrow = leaseHead + `$5::bytea` + leaseMid + `$6::bigint` + leaseTail
	leaseHead   = `
UPDATE state s SET epoch = s.epoch + 1, rev = s.rev + 1, ready = NULL, worker = `
	leaseMid  = `, until = least((SELECT now FROM t)::numeric + `
	leaseTail = `, 9223372036854775807)::bigint FROM picked p WHERE s.n = p.n RETURNING s.n, s.epoch`
)

// claimed is a run that was leased.
type claimed struct{ n, epoch int64 }

// Claim leases due runs.
func (s *Store) Claim(ctx context.Context, c store.Claim) (out []store.Run, next time.Duration, err error) {
	var got []claimed
	err = s.change(ctx, "claim", func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		got, next, err = s.claim(ctx, conn, &c)
		return err
	})
	if err != nil || len(got) == 0 {
		return nil, next, err
	}
	epochs, ns := map[int64]int64{}, make([]int64, len(got))
	for i, g := range got {
		epochs[g.n], ns[i] = g.epoch, g.n
	}
	err = s.view(ctx, "claim", func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, selectRun+" WHERE r.n = ANY ($1::bigint[]) ORDER BY r.priority DESC, s.due, r.n", ns)
		if err != nil {
			return err
		}
		out = nil
		return each(func(rows pgx.Rows) error {
			r, known, err := scanRun(rows)
			if err == nil && r.Epoch == epochs[known.n] { // else the lease was so short that another one has it now
				s.queue.remember(known)
				out = append(out, r)
			}
			return err
		})(rows)
	})
	if err != nil { // they are leased all the same
		return nil, 0, fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return out, next, nil
}

// claim asks in one round trip, which costs no sync where there is nothing to claim.
func (s *Store) claim(ctx context.Context, conn *pgxpool.Conn, c *store.Claim) (got []claimed, next time.Duration, err error) {
	var kinds [][]byte
	if c.Kinds != nil {
		kinds = values(c.Kinds)
	}
	b, max := &pgx.Batch{}, int64(max(c.Max, 0))
	note := s.present.queue(b, c.Worker, c.Hold, c.Announced())
	take := each(func(rows pgx.Rows) error {
		var g claimed
		err := rows.Scan(&g.n, &g.epoch)
		got = append(got, g)
		return err
	})
	var now int64
	var at, ready, ends *int64
	var seen sight
	last, began, queued := false, time.Now(), c.Run == "" && c.Root == ""
	if queued {
		from := givenKinds
		if kinds == nil {
			from = allKinds
		}
		seen = s.horizon.of(c.Kinds)
		b.Queue(sweep, seen.lapsed, seen.ready)
		if max > 0 {
			b.Queue(fmt.Sprintf(claimQueues, from, "$5"), kinds, max, value(c.Worker), int64(c.Hold), seen.ready).Query(take)
		}
		b.Queue(fmt.Sprintf(nextInQueues, from, "$2"), kinds, seen.ready, seen.ends).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&now, &ready, &ends)
			last, at = err == nil, earlier(ready, ends)
			return err
		})
	} else {
		them, wait := ofRun, ""
		if c.Run == "" {
			them, wait = ofRoot, " SKIP LOCKED"
		}
		if max > 0 {
			b.Queue(them+fmt.Sprintf(claimNarrow, wait), kinds, value(c.Run), value(c.Root), max, value(c.Worker), int64(c.Hold)).Query(take)
		}
		b.Queue(them+nextNarrow, kinds, value(c.Run), value(c.Root)).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&now, &at)
			last = err == nil
			return err
		})
	}
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, 0, outcome(err, last)
	}
	note()
	next = -1
	if at != nil {
		next = pauseOf(*at, now)
	}
	if queued {
		took := time.Since(began)
		if seen.whole.IsZero() && took >= slowLook && !kept(ctx, conn) {
			took = 0 // it is slow for another reason
		}
		if again := s.horizon.saw(c.Kinds, seen, took, now, ready, ends); again >= 0 && (next < 0 || again < next) {
			next = again
		}
	}
	return got, next, nil
}

// kept tells whether somebody keeps dead rows from being removed.
func kept(ctx context.Context, conn *pgxpool.Conn) (is bool) {
	err := conn.QueryRow(ctx, "SELECT ("+oldest+") > $1::bigint", keeps).Scan(&is)
	return err == nil && is
}

// earlier is the earlier of two times that there may be.
func earlier(a, b *int64) *int64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// presence is what was last written of each worker of this process.
type presence struct {
	mu      sync.Mutex
	workers map[string]noted
}

type noted struct {
	at    time.Time
	hold  time.Duration
	kinds string
}

const savePresence = `
INSERT INTO worker (id, kinds, until) VALUES ($1, $2, least((SELECT clock())::numeric + $3::bigint, 9223372036854775807)::bigint)
ON CONFLICT (id) DO UPDATE SET until = excluded.until, kinds = CASE WHEN excluded.kinds = '' THEN worker.kinds ELSE excluded.kinds END`

// queue notes that a worker lives, and answers what to call when that is committed. One that asks again at once is not written
// again: an idle claim shall cost no sync.
func (p *presence) queue(b *pgx.Batch, id string, hold time.Duration, kinds []string) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, text := p.workers[id], rules.JoinKinds(kinds)
	if id == "" || was.hold == hold && (text == "" || text == was.kinds) && time.Since(was.at) < hold/16 {
		return func() {}
	}
	b.Queue(savePresence, value(id), value(text), int64(hold))
	is := noted{time.Now(), hold, text}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.workers == nil || len(p.workers) > remembered {
			p.workers = map[string]noted{}
		}
		p.workers[id] = is
	}
}

const renew = `
WITH t AS MATERIALIZED (SELECT clock() AS now), them AS MATERIALIZED (
	SELECT v.i, s.n, s.inbox, s.until <> 0 AND NOT s.ended AND s.epoch = v.epoch AS owned
	FROM unnest($1::bytea[], $2::bigint[]) WITH ORDINALITY v (id, epoch, i) JOIN run r ON r.id = v.id JOIN state s ON s.n = r.n
	ORDER BY s.n FOR NO KEY UPDATE OF s),
renewed AS (
	UPDATE state s SET ready = NULL, until = least((SELECT now FROM t)::numeric + $3::bigint, 9223372036854775807)::bigint
	FROM them m WHERE s.n = m.n AND m.owned)
SELECT m.i, m.owned, m.inbox FROM them m`

// Renew extends leases.
func (s *Store) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) (out []store.Held, err error) {
	ids, epochs := make([][]byte, len(ls)), make([]int64, len(ls))
	for i, l := range ls {
		ids[i], epochs[i] = value(l.Run), l.Epoch
	}
	err = s.change(ctx, "renew", func(ctx context.Context, conn *pgxpool.Conn) error {
		out = make([]store.Held, len(ls))
		for i, l := range ls {
			out[i] = store.Held{Run: l.Run, Lost: true}
		}
		b := &pgx.Batch{}
		note := s.present.queue(b, worker, hold, nil)
		if len(ls) > 0 {
			b.Queue(renew, ids, epochs, int64(hold)).Query(each(func(rows pgx.Rows) error {
				var i, inbox int64
				var owned bool
				err := rows.Scan(&i, &owned, &inbox)
				if err == nil {
					out[i-1].Lost, out[i-1].Inbox = !owned, inbox
				}
				return err
			}))
		}
		if b.Len() == 0 {
			return nil
		}
		if err := conn.SendBatch(ctx, b).Close(); err != nil {
			return outcome(err, true)
		}
		note()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
