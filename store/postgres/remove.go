package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl/store"
	"pawl/store/internal/rules"
)

const (
	// expiredRuns are those below which nobody is alive.
	expiredRuns = `
SELECT r.id FROM state s JOIN run r ON r.n = s.n WHERE s.expires <> 0 AND s.expires <= (SELECT clock()) AND NOT EXISTS (
	WITH RECURSIVE kin (n, id) AS (
		SELECT c.n, c.id FROM run c WHERE c.parent = r.id AND c.parent <> ''
		UNION SELECT c.n, c.id FROM kin k JOIN run c ON c.parent = k.id AND c.parent <> '')
	SELECT 1 FROM kin k JOIN state a ON a.n = k.n WHERE NOT a.ended)
ORDER BY s.expires LIMIT $1::bigint`
	// readFamily goes down the generations: the youngest come last.
	readFamily = `
WITH RECURSIVE them (n, id, depth) AS (
	SELECT n, id, 0 FROM run WHERE id = $1
	UNION SELECT r.n, r.id, m.depth + 1 FROM them m JOIN run r ON r.parent = m.id AND r.parent <> '' WHERE m.depth < 1000)
SELECT n, id FROM (SELECT n, id, max(depth) AS depth FROM them GROUP BY n, id) t ORDER BY depth, n`
	lockFamily = `SELECT n, ended FROM state WHERE n = ANY ($1::bigint[]) ORDER BY n FOR UPDATE`
	// takeTime is for what goes in one transaction, however much that is: what took too long once would take too long each time.
	takeTime = `SET LOCAL statement_timeout = 0`
	keepRow  = `INSERT INTO deleted (id, tenant, person, at, row) SELECT id, tenant, person, clock(), $2 FROM run WHERE id = $1`
)

// erasing is how long it may take to erase a run with its descendants.
const erasing = time.Hour

// Expire removes runs that have expired, each with its descendants, the youngest first: a pass that is cut off leaves no orphan.
// Where others were faster with some of what it has found, it looks again.
func (s *Store) Expire(ctx context.Context, most int) (n int, err error) {
	for more := true; more && err == nil && n < most; {
		var found []string
		found, err = s.expired(ctx, most-n)
		more = len(found) == most-n
		for _, id := range found {
			if err != nil || n == most {
				break
			}
			removed := 0
			err = s.changeWithin(ctx, erasing, "expire", func(ctx context.Context, c *pgxpool.Conn) (err error) {
				removed, err = s.expire(ctx, c, id, most-n)
				return err
			})
			n += removed
		}
	}
	return n, err
}

func (s *Store) expired(ctx context.Context, most int) (found []string, err error) {
	err = s.change(ctx, "expire", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		if err := sweepUp(ctx, c); err != nil {
			return err
		}
		found, err = collect(ctx, c, expiredRuns, []any{most}, func(rows pgx.Rows) (id string, err error) {
			return id, rows.Scan(text(&id))
		})
		return err
	})
	return found, err
}

// expire removes up to most of a family. One that is gone, or in which somebody is alive again, is left alone.
func (s *Store) expire(ctx context.Context, c *pgxpool.Conn, id string, most int) (int, error) {
	defer rollback(ctx, c)
	f, err := lockedFamily(ctx, c, id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrStale) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	slices.Reverse(f.ns)
	slices.Reverse(f.ids)
	count := min(len(f.ns), most)
	f.ns, f.ids = f.ns[:count], f.ids[:count]
	if err := s.erase(ctx, c, &pgx.Batch{}, f); err != nil {
		return 0, err
	}
	return count, nil
}

// sweepUp removes what has run out and no run owns: the tables would only grow otherwise.
func sweepUp(ctx context.Context, c *pgxpool.Conn) error {
	b := &pgx.Batch{}
	b.Queue(`DELETE FROM worker WHERE id IN (SELECT id FROM worker WHERE until <= clock() - $1::bigint FOR UPDATE SKIP LOCKED)`, int64(rules.Remembered))
	b.Queue(`DELETE FROM holder WHERE (name, holder) IN (SELECT name, holder FROM holder WHERE until <= clock() FOR UPDATE SKIP LOCKED)`)
	b.Queue(`DELETE FROM rate WHERE name IN (SELECT name FROM rate WHERE tat <= clock() FOR UPDATE SKIP LOCKED)`)
	return c.SendBatch(ctx, b).Close()
}

// family are runs that go together.
type family struct {
	ns  []int64
	ids []string
}

func (f *family) add(rows pgx.Rows) error {
	var n int64
	var id string
	err := rows.Scan(&n, text(&id))
	f.ns, f.ids = append(f.ns, n), append(f.ids, id)
	return err
}

// erase removes runs that are locked, with everything that they left, and commits.
func (s *Store) erase(ctx context.Context, c *pgxpool.Conn, b *pgx.Batch, f *family) error {
	for _, q := range []string{
		"DELETE FROM log WHERE run = ANY ($1::bigint[])", "DELETE FROM counter WHERE run = ANY ($1::bigint[])",
		"DELETE FROM question WHERE run = ANY ($1::bigint[])", "DELETE FROM state WHERE n = ANY ($1::bigint[])",
		"DELETE FROM run WHERE n = ANY ($1::bigint[])",
	} {
		b.Queue(q, f.ns)
	}
	b.Queue("COMMIT")
	if err := sendAll(ctx, c, b, true); err != nil {
		return err
	}
	s.queue.forget(f.ids...)
	s.tell(f.ids...)
	return nil
}

// Delete erases a run that has ended, with all its descendants and everything they left. The row stays behind in Audit: a Read of
// that stream yields it after the run is gone, every other read is ErrNotFound. ErrNotFound if there is no such run, ErrStale if it
// or a descendant has not ended.
func (s *Store) Delete(ctx context.Context, run string, row []byte) error {
	return s.changeWithin(ctx, erasing, "delete", func(ctx context.Context, c *pgxpool.Conn) error {
		defer rollback(ctx, c)
		f, err := lockedFamily(ctx, c, run)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(keepRow, value(run), row)
		return s.erase(ctx, c, b, f)
	})
}

// lockedFamily locks a run and its descendants, all of which must have ended. None can be added once they are locked, but some may
// have been before.
func lockedFamily(ctx context.Context, c *pgxpool.Conn, run string) (*family, error) {
	var was *family
	for {
		f, live := &family{}, false
		b := &pgx.Batch{}
		if was == nil {
			b.Queue(begin)
			b.Queue(takeTime)
		} else {
			b.Queue(lockFamily, was.ns).Query(each(func(rows pgx.Rows) error {
				var n int64
				var ended bool
				err := rows.Scan(&n, &ended)
				live = live || !ended
				return err
			}))
		}
		b.Queue(readFamily, value(run)).Query(each(f.add))
		if err := c.SendBatch(ctx, b).Close(); err != nil {
			return nil, err
		}
		switch {
		case len(f.ns) == 0:
			return nil, store.ErrNotFound
		case live:
			return nil, store.ErrStale
		case was != nil && slices.Equal(f.ns, was.ns):
			return f, nil
		}
		was = f
	}
}
