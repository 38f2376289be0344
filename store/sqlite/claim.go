package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"pawl/store"
	"pawl/store/internal/rules"
)

// Claim leases due runs.
func (s *Store) Claim(ctx context.Context, c store.Claim) (out []store.Run, next time.Duration, err error) {
	err = s.do(ctx, "claim", &op{run: func(t *tx) (err error) {
		out, next, err = t.claim(&c)
		return err
	}})
	if err != nil {
		return nil, 0, err
	}
	return out, next, nil
}

// candidate is a run that may be claimed.
type candidate struct{ n, priority, due int64 }

// survey is what a claim finds: the candidates, and the earliest time at which there will be another; 0: none is in sight.
type survey struct {
	found []candidate
	next  int64
}

func (v *survey) later(at int64) {
	if v.next == 0 || at < v.next {
		v.next = at
	}
}

// see sorts a run in by the time from which it may be claimed.
func (t *tx) see(v *survey, c candidate, ready int64) {
	switch {
	case t.damaged[c.n]:
	case ready <= t.now:
		v.found = append(v.found, c)
	default:
		v.later(ready)
	}
}

func (t *tx) claim(c *store.Claim) ([]store.Run, time.Duration, error) {
	if err := t.present(c.Worker, c.Hold, c.Announced()); err != nil {
		return nil, 0, err
	}
	kinds, err := t.kindsOf(c.Kinds)
	if err != nil {
		return nil, 0, err
	}
	v := &survey{}
	if c.Run != "" || c.Root != "" {
		err = t.narrow(v, c, kinds)
	} else {
		err = t.queues(v, max(c.Max, 0), kinds)
	}
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(v.found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.due, b.due), cmp.Compare(a.n, b.n))
	})
	var out []store.Run
	for i, f := range v.found {
		if i >= c.Max {
			v.next = t.now
			break
		}
		r, whole, err := t.lease(f.n, c)
		if err != nil {
			return nil, 0, err
		}
		if !whole {
			t.damaged[f.n] = true
			v.later(t.now) // it has stood before others
			continue
		}
		out = append(out, r)
		v.later(rules.After(t.now, c.Hold))
	}
	if v.next == 0 {
		return out, -1, nil
	}
	return out, time.Duration(max(0, v.next-t.now)), nil
}

// kindsOf are the numbers of the kinds asked for, or of all.
func (t *tx) kindsOf(names []string) (ns []int64, err error) {
	if names == nil {
		return each(t, "SELECT n FROM kind", nil, func(scan func(...any) error) (n int64, err error) { return n, scan(&n) })
	}
	for _, name := range names {
		n, err := t.kind(name, false)
		if err != nil {
			return nil, err
		}
		if n != 0 && !slices.Contains(ns, n) {
			ns = append(ns, n)
		}
	}
	return ns, nil
}

const (
	sweep        = `UPDATE lease SET ready = due WHERE until <> 0 AND ready IS NULL AND until <= ? AND ended = 0 AND due <> 0`
	expired      = `SELECT 1 FROM lease WHERE until <> 0 AND ready IS NULL AND until <= ? LIMIT 1`
	nextPriority = `SELECT priority FROM lease WHERE ready IS NOT NULL AND kind = ? AND priority <= ? ORDER BY priority DESC LIMIT 1`
	firstReady   = `SELECT n, ready FROM lease WHERE ready IS NOT NULL AND kind = ? AND priority = ? ORDER BY ready LIMIT ?`
	heldUntil    = `SELECT kind, until FROM lease WHERE until <> 0 AND ready IS NULL ORDER BY until`
)

// queues looks at the head of each kind's queue, priority by priority, which is all the index it needs to touch.
func (t *tx) queues(v *survey, want int, kinds []int64) error {
	if any, err := t.row(expired, []any{t.now}, new(int)); err != nil {
		return err
	} else if any { // leases that have run out are put back into the queues
		if _, err := t.exec(sweep, t.now); err != nil {
			return err
		}
	}
	for _, kind := range kinds {
		if err := t.queue(v, want, kind); err != nil {
			return err
		}
	}
	if len(v.found) >= want && want > 0 || len(kinds) == 0 {
		return nil
	}
	return t.leased(v, kinds)
}

// queue goes down the priorities of a kind until enough runs are due. Of each it reads one run more than are wanted, which
// tells when there will be another.
func (t *tx) queue(v *survey, want int, kind int64) error {
	for bound, due := int64(math.MaxInt64), 0; due < max(want, 1); {
		var p int64
		if found, err := t.row(nextPriority, []any{kind, bound}, &p); err != nil || !found {
			return err
		}
		cs, err := each(t, firstReady, []any{kind, p, want + 1 + len(t.damaged)}, func(scan func(...any) error) (c candidate, err error) {
			c.priority = p
			return c, scan(&c.n, &c.due)
		})
		if err != nil {
			return err
		}
		for _, c := range cs {
			t.see(v, c, c.due)
			if c.due <= t.now && !t.damaged[c.n] {
				due++
			}
		}
		if p == math.MinInt64 {
			return nil
		}
		bound = p - 1
	}
	return nil
}

// leased finds when the first live lease on one of the kinds runs out.
func (t *tx) leased(v *survey, kinds []int64) error {
	st, err := t.w.stmt(heldUntil)
	if err != nil {
		return err
	}
	rows, err := st.Query()
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var kind, until int64
		if err := rows.Scan(&kind, &until); err != nil {
			return err
		}
		if slices.Contains(kinds, kind) {
			v.later(until)
			break
		}
	}
	return rows.Err()
}

const underRoot = `SELECT n, kind, priority, until, due FROM lease WHERE root = ? AND root <> '' AND ended = 0 AND due <> 0`

// narrow looks at one run, or at those under one root.
func (t *tx) narrow(v *survey, c *store.Claim, kinds []int64) error {
	for _, id := range []string{c.Run, c.Root} {
		if id == "" || id == c.Root && c.Run != "" {
			continue
		}
		r, err := t.load(id)
		if err != nil {
			return err
		}
		if r != nil && r.Ready() != 0 && slices.Contains(kinds, r.kind) && (c.Root == "" || r.root == c.Root) {
			t.see(v, candidate{r.n, int64(r.priority), r.Due}, r.Ready())
		}
	}
	if c.Run != "" {
		return nil
	}
	type child struct {
		candidate
		kind, until int64
	}
	cs, err := each(t, underRoot, []any{c.Root}, func(scan func(...any) error) (c child, err error) {
		return c, scan(&c.n, &c.kind, &c.priority, &c.until, &c.due)
	})
	for _, c := range cs {
		if slices.Contains(kinds, c.kind) {
			t.see(v, c.candidate, max(c.due, c.until))
		}
	}
	return err
}

// lease gives a run to the worker and brings it whole; false: it cannot be read, and shall not keep the others from their work.
func (t *tx) lease(n int64, c *store.Claim) (full store.Run, whole bool, err error) {
	st, err := t.w.stmt(selectRun + " WHERE r.n = ?")
	if err != nil {
		return full, false, err
	}
	full, _, err = scanRun(st.QueryRow(n).Scan)
	if err == nil {
		var cs []store.Counter
		if cs, err = each(t, selectCounters, []any{n}, scanCounter); len(cs) > 0 {
			full.Counters = cs
		}
	}
	var r *run
	if err == nil {
		r, err = t.load(full.ID)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows), isDamage(err), err == nil && r == nil: // the last: by an index that is damaged
		return full, false, nil
	case err != nil:
		return full, false, err
	}
	was := r.Lease
	r.Claim(c.Worker, t.now, c.Hold)
	full.Epoch, full.Worker, full.Until = r.Epoch, r.Worker, rules.Time(r.Until)
	return full, true, t.save(r, was)
}

// presence is what was last written of a worker.
type presence struct {
	until int64
	kinds string
}

const savePresence = `
INSERT INTO worker (id, kinds, until) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET until = excluded.until, kinds = CASE excluded.kinds WHEN '' THEN kinds ELSE excluded.kinds END`

// present notes that a worker lives. One that asks again at once is not written again: an idle claim shall cost no sync.
func (t *tx) present(id string, hold time.Duration, kinds []string) error {
	if id == "" {
		return nil
	}
	until, text := rules.After(t.now, hold), rules.JoinKinds(kinds)
	if p, ok := t.workers[id]; ok && (text == "" || text == p.kinds) && p.until <= until && p.until-t.now > int64(hold)/16*15 {
		return nil
	}
	if _, err := t.exec(savePresence, id, text, until); err != nil {
		return err
	}
	t.workers[id] = presence{until, text}
	return nil
}

// Renew extends leases.
func (s *Store) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) (out []store.Held, err error) {
	err = s.do(ctx, "renew", &op{run: func(t *tx) error {
		out = make([]store.Held, len(ls))
		if err := t.present(worker, hold, nil); err != nil {
			return err
		}
		for i, l := range ls {
			r, err := t.load(l.Run)
			if err != nil {
				return err
			}
			out[i] = store.Held{Run: l.Run, Lost: r == nil || !r.Owns(l.Epoch)}
			if r == nil {
				continue
			}
			out[i].Inbox = r.Inbox
			if !out[i].Lost {
				was := r.Lease
				r.Until = rules.After(t.now, hold)
				if err := t.save(r, was); err != nil {
					return err
				}
			}
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return out, nil
}
