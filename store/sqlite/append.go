package sqlite

import (
	"context"
	"fmt"
	"time"

	"pawl/store"
	"pawl/store/internal/rules"
)

// Append records a batch under a lease.
func (s *Store) Append(ctx context.Context, l store.Lease, b store.Batch) (rec store.Receipt, err error) {
	if err := known(b.Rows); err != nil {
		return rec, s.fault(ctx, "append", err)
	}
	err = s.do(ctx, "append", &op{run: func(t *tx) (err error) {
		rec, err = t.batch(l, &b)
		return err
	}})
	if err != nil {
		return store.Receipt{}, err
	}
	return rec, nil
}

// meter is a counter of a run in a batch.
type meter struct {
	run  int64
	name string
}

// tally is what the batch's charges make of the counters; nothing is written before all of them are allowed.
type tally struct {
	t        *tx
	counters map[meter]store.Counter
	order    []meter
}

func (y *tally) get(m meter) (store.Counter, error) {
	if c, ok := y.counters[m]; ok {
		return c, nil
	}
	c := store.Counter{Meter: m.name, Cap: -1}
	_, err := y.t.row("SELECT used, cap FROM counter WHERE run = ? AND meter = ?", []any{m.run, m.name}, &c.Used, &c.Cap)
	if y.counters == nil {
		y.counters = map[meter]store.Counter{}
	}
	y.counters[m] = c
	y.order = append(y.order, m)
	return c, err
}

func (t *tx) batch(l store.Lease, b *store.Batch) (rec store.Receipt, err error) {
	r, err := t.load(l.Run)
	if err != nil {
		return rec, err
	}
	if r == nil || !r.Owns(l.Epoch) {
		return rec, store.ErrStale
	}
	y := tally{t: t}
	if rec.Refused, err = y.charge(r, b); err != nil || rec.Refused != nil {
		return rec, err
	}
	for _, m := range y.order {
		c := y.counters[m]
		if _, err := t.exec(saveCounter, m.run, c.Meter, c.Used, c.Cap); err != nil {
			return rec, err
		}
	}
	was := r.Lease
	for i := range b.Rows {
		seq, err := t.append(r, &b.Rows[i])
		if err != nil {
			return rec, err
		}
		rec.Seqs = append(rec.Seqs, seq)
	}
	t.changed = append(t.changed, r.id)
	return rec, t.save(r, was)
}

// charge lowers the caps first, so that they hold for the batch's own charges.
func (y *tally) charge(r *run, b *store.Batch) (*store.Refusal, error) {
	for _, c := range b.Caps {
		m := meter{r.n, c.Meter}
		old, err := y.get(m)
		if err != nil {
			return nil, err
		}
		y.counters[m] = rules.Lower(old, c.Cap)
	}
	for _, c := range b.Charges {
		o, err := y.t.load(c.Run)
		if err != nil {
			return nil, err
		}
		if o == nil {
			return nil, fmt.Errorf("%w: charged run %s", store.ErrNotFound, c.Run)
		}
		m := meter{o.n, c.Meter}
		old, err := y.get(m)
		if err != nil {
			return nil, err
		}
		now, ok := rules.Charge(old, c.N)
		if !ok {
			return &store.Refusal{Run: c.Run, Counter: old}, nil
		}
		y.counters[m] = now
	}
	for _, c := range b.Charges {
		if c.Run != r.id {
			y.t.changed = append(y.t.changed, c.Run)
		}
	}
	return nil, nil
}

// Take uses a shared limit. One who holds a place renews it, which uses no rate.
func (s *Store) Take(ctx context.Context, sl store.Slot) (wait time.Duration, err error) {
	err = s.do(ctx, "take", &op{run: func(t *tx) (err error) {
		wait, err = t.take(&sl)
		return err
	}})
	return wait, err
}

const saveHolder = `INSERT INTO holder (name, holder, until) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET until = excluded.until`

func (t *tx) take(s *store.Slot) (time.Duration, error) {
	var full time.Duration
	hold := func() error {
		_, err := t.exec(saveHolder, s.Limit, s.Holder, rules.After(t.now, s.Hold))
		return err
	}
	if s.Max > 0 {
		if _, err := t.exec("DELETE FROM holder WHERE name = ? AND until <= ?", s.Limit, t.now); err != nil {
			return 0, err
		}
		var count int
		var mine bool
		var first int64
		_, err := t.row("SELECT count(*), coalesce(max(holder = ?), 0), coalesce(min(until), 0) FROM holder WHERE name = ?", []any{s.Holder, s.Limit}, &count, &mine, &first)
		if err != nil {
			return 0, err
		}
		if mine {
			return 0, hold()
		}
		if count >= s.Max {
			full = rules.Full(first, t.now)
		}
	}
	var old int64
	if _, err := t.row("SELECT tat FROM rate WHERE name = ?", []any{s.Limit}, &old); err != nil {
		return 0, err
	}
	tat, wait := rules.Rate(old, t.now, *s)
	if wait = max(wait, full); wait > 0 {
		return wait, nil
	}
	if tat != old {
		if _, err := t.exec("INSERT INTO rate (name, tat) VALUES (?, ?) ON CONFLICT DO UPDATE SET tat = excluded.tat", s.Limit, tat); err != nil {
			return 0, err
		}
	}
	if s.Max > 0 {
		return 0, hold()
	}
	return 0, nil
}

// Give returns a place.
func (s *Store) Give(ctx context.Context, limit, holder string) error {
	return s.do(ctx, "give", &op{run: func(t *tx) error {
		_, err := t.exec("DELETE FROM holder WHERE name = ? AND holder = ?", limit, holder)
		return err
	}})
}
