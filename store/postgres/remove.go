package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl/store"
	"pawl/store/internal/rules"
)

const (
	lockExpired = `
SELECT r.n, r.id FROM state s JOIN run r ON r.n = s.n WHERE s.expires <> 0 AND s.expires <= (SELECT clock())
ORDER BY s.expires LIMIT $1::bigint FOR UPDATE OF s SKIP LOCKED`
	readFamily = `
WITH RECURSIVE them (n, id) AS (
	SELECT n, id FROM run WHERE id = $1 UNION SELECT r.n, r.id FROM them m JOIN run r ON r.parent = m.id AND r.parent <> '')
SELECT n, id FROM them ORDER BY n`
	lockFamily = `SELECT n, ended FROM state WHERE n = ANY ($1::bigint[]) ORDER BY n FOR UPDATE`
	keepRow    = `
INSERT INTO deleted (id, tenant, person, at, row) SELECT id, tenant, person, clock(), $2 FROM run WHERE id = $1
ON CONFLICT (id) DO UPDATE SET tenant = excluded.tenant, person = excluded.person, at = excluded.at, row = excluded.row`
)

// Expire removes runs that have expired.
func (s *Store) Expire(ctx context.Context, most int) (n int, err error) {
	err = s.change(ctx, "expire", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		n, err = s.expire(ctx, c, max(most, 0))
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (s *Store) expire(ctx context.Context, c *pgxpool.Conn, most int) (int, error) {
	defer rollback(ctx, c)
	if err := sweepUp(ctx, c); err != nil {
		return 0, err
	}
	var f family
	b := &pgx.Batch{}
	b.Queue(begin)
	b.Queue(lockExpired, most).Query(each(f.add))
	if err := c.SendBatch(ctx, b).Close(); err != nil || len(f.ns) == 0 {
		return 0, err
	}
	return len(f.ns), s.erase(ctx, c, &pgx.Batch{}, &f)
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
	return s.change(ctx, "delete", func(ctx context.Context, c *pgxpool.Conn) error {
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
