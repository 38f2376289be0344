package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pawl/store"
	"pawl/store/internal/rules"
)

// slice is about how long a commit may remove runs, while all others wait for it. It removes at least one.
const slice = 50 * time.Millisecond

// Expire removes runs that have expired, in several commits where there is much to remove.
func (s *Store) Expire(ctx context.Context, most int) (n int, err error) {
	for more := true; more; {
		removed := 0
		err = s.do(ctx, "expire", &op{run: func(t *tx) (err error) {
			removed, more, err = t.expire(max(most-n, 0))
			return err
		}})
		if err != nil {
			return n, err
		}
		n += removed
	}
	return n, nil
}

// Delete erases a run and its descendants.
func (s *Store) Delete(ctx context.Context, run string, row []byte) error {
	return s.do(ctx, "delete", &op{run: func(t *tx) error { return t.delete(run, row) }})
}

// expiredRuns are those of whose descendants nobody is alive.
const expiredRuns = `
SELECT l.n, coalesce(r.id, '') FROM lease l LEFT JOIN run r ON r.n = l.n
WHERE l.expires <> 0 AND l.expires <= ? AND NOT EXISTS (
	WITH RECURSIVE kin (n, id) AS (
		SELECT c.n, c.id FROM run c WHERE c.parent = r.id AND c.parent <> ''
		UNION
		SELECT c.n, c.id FROM kin k JOIN run c ON c.parent = k.id AND c.parent <> '')
	SELECT 1 FROM kin k JOIN lease a ON a.n = k.n WHERE a.ended = 0)
ORDER BY l.expires LIMIT ?`

// expire says too whether it has left some for another commit.
func (t *tx) expire(most int) (removed int, more bool, err error) {
	if err := t.sweepUp(); err != nil {
		return 0, false, err
	}
	found, err := each(t, expiredRuns, []any{t.now, most}, func(scan func(...any) error) (r run, err error) {
		return r, scan(&r.n, &r.id)
	})
	if err != nil {
		return 0, false, err
	}
	gone := map[int64]bool{}
	for _, r := range found {
		if gone[r.n] {
			continue // with its ancestor
		}
		kin, err := t.kin(r.n, r.id)
		if err != nil {
			return 0, false, err
		}
		for _, k := range kin {
			if removed == most {
				return removed, false, nil
			}
			if removed > 0 && t.w.s.clock.now()-t.now > int64(slice) {
				return removed, true, nil
			}
			if err := t.remove(&k); err != nil {
				return 0, false, err
			}
			gone[k.n] = true
			removed++
		}
	}
	return removed, false, nil
}

const insertGrave = `INSERT INTO grave (id, tenant, user, at, row) SELECT id, tenant, user, ?, ? FROM run WHERE n = ?`

func (t *tx) delete(id string, row []byte) error {
	r, err := t.load(id)
	if err != nil {
		return err
	}
	if r == nil {
		return fmt.Errorf("%w: run %s", store.ErrNotFound, id)
	}
	kin, err := t.kin(r.n, r.id)
	if err != nil {
		return err
	}
	for _, k := range kin {
		if !k.Ended {
			return fmt.Errorf("%w: run %s has not ended", store.ErrStale, k.id)
		}
	}
	if _, err := t.exec(insertGrave, t.now, row, r.n); err != nil {
		return err
	}
	for _, k := range kin {
		if err := t.remove(&k); err != nil {
			return err
		}
	}
	return nil
}

// selectKin goes down the generations, so the youngest come last. A run is known by its lease: some of its other rows may be
// missing.
const selectKin = `
WITH RECURSIVE kin (n, id) AS (
	VALUES (?, ?)
	UNION
	SELECT r.n, r.id FROM kin k JOIN run r ON r.parent = k.id AND r.parent <> '')
SELECT k.n, k.id, coalesce(l.ended, 1), l.tails, p.tails FROM kin k LEFT JOIN lease l ON l.n = k.n LEFT JOIN progress p ON p.n = k.n`

// kin is a run with all its descendants, the youngest first.
func (t *tx) kin(n int64, id string) ([]run, error) {
	rs, err := each(t, selectKin, []any{n, id}, func(scan func(...any) error) (r run, err error) {
		var a, b []byte
		err = scan(&r.n, &r.id, &r.Ended, &a, &b)
		r.tails.grow(a)
		r.tails.grow(b)
		return r, err
	})
	slices.Reverse(rs)
	return rs, err
}

// logOf follows the streams from their ends. By UNION it meets no row twice, so that a damaged one cannot lead it in a circle.
const logOf = `
WHERE run = ? AND id IN (
	WITH RECURSIVE chain (id, stream) AS (
		VALUES (?, 0), (?, 1), (?, 2), (?, 3), (?, 4), (?, 5)
		UNION
		SELECT iif(l.stream = c.stream, l.prev, l.told), c.stream FROM chain c JOIN log l ON l.id = c.id)
	SELECT id FROM chain)`

// Where SQLite removes rows it moves those beside them together, and leaves copies of them in the gaps. So the rows of one run
// are emptied where they stand before the first of them goes.
const (
	emptyLog      = `UPDATE log SET key = '', data = zeroblob(length(data)) ` + logOf
	deleteLog     = `DELETE FROM log ` + logOf
	emptyQuestion = `UPDATE question SET row = zeroblob(length(row)) WHERE run = ?`
)

// remove removes a run with all its rows.
func (t *tx) remove(r *run) error {
	args := []any{r.n}
	for _, end := range r.tails {
		args = append(args, end.id)
	}
	for _, q := range []string{emptyLog, deleteLog} {
		if _, err := t.exec(q, args...); err != nil {
			return err
		}
	}
	for _, q := range []string{
		emptyQuestion,
		"DELETE FROM mark WHERE run = ?", "DELETE FROM blob WHERE run = ?", "DELETE FROM counter WHERE run = ?",
		"DELETE FROM question WHERE run = ?", "DELETE FROM head WHERE n = ?", "DELETE FROM progress WHERE n = ?",
		"DELETE FROM lease WHERE n = ?", "DELETE FROM run WHERE n = ?",
	} {
		if _, err := t.exec(q, r.n); err != nil {
			return err
		}
	}
	delete(t.runs, r.id)
	t.changed = append(t.changed, r.id)
	t.w.erased = true
	return nil
}

// sweepUp removes what has run out and no run owns: the tables would only grow otherwise.
func (t *tx) sweepUp() error {
	for q, until := range map[string]int64{
		"DELETE FROM worker WHERE until <= ?": t.now - int64(rules.Remembered),
		"DELETE FROM holder WHERE until <= ?": t.now,
		"DELETE FROM rate WHERE tat <= ?":     t.now,
	} {
		if _, err := t.exec(q, until); err != nil {
			return err
		}
	}
	return nil
}
