package postgres

import (
	"context"
	"fmt"
	"slices"

	"pawl/store"
	"pawl/store/internal/rules"
)

// Append records a batch under a lease.
func (s *Store) Append(ctx context.Context, l store.Lease, b store.Batch) (store.Receipt, error) {
	o, rec := &op{}, store.Receipt{}
	var err error
	if o.quick, err = o.needs.batch(l, &b); err != nil {
		return rec, s.fault(ctx, "append", err)
	}
	o.run = func(g *group) (err error) {
		rec, err = g.batch(l, &b)
		return err
	}
	if err := s.do(ctx, "append", o); err != nil {
		return store.Receipt{}, err
	}
	return rec, nil
}

func (g *group) batch(l store.Lease, b *store.Batch) (rec store.Receipt, err error) {
	r := g.runs[l.Run]
	if r == nil || !r.Owns(l.Epoch) {
		return rec, store.ErrStale
	}
	if rec.Refused, err = g.charge(r, b); err != nil || rec.Refused != nil {
		return rec, err
	}
	if len(b.Rows) > 0 {
		g.touch(r)
	}
	for i := range b.Rows {
		seq, err := g.append(r, &b.Rows[i])
		if err != nil {
			return rec, err
		}
		rec.Seqs = append(rec.Seqs, seq)
	}
	g.told = append(g.told, r.id)
	return rec, nil
}

// charge lowers the caps first, so that they hold for the batch's own charges. A refused one leaves the counters as they were.
func (g *group) charge(r *run, b *store.Batch) (*store.Refusal, error) {
	from := len(g.undo)
	for _, c := range b.Caps {
		g.set(r, rules.Lower(g.counter(r, c.Meter), c.Cap))
	}
	for _, c := range b.Charges {
		o := g.runs[c.Run]
		if o == nil {
			return nil, fmt.Errorf("%w: charged run %s", store.ErrNotFound, c.Run)
		}
		old := g.counter(o, c.Meter)
		now, ok := rules.Charge(old, c.N)
		if !ok {
			for _, undo := range slices.Backward(g.undo[from:]) {
				undo()
			}
			g.undo = g.undo[:from]
			return &store.Refusal{Run: c.Run, Counter: old}, nil
		}
		g.set(o, now)
	}
	for _, c := range b.Charges {
		if c.Run != r.id {
			g.told = append(g.told, c.Run)
		}
	}
	return nil, nil
}

func (g *group) counter(r *run, meter string) store.Counter {
	if c, there := g.counters[r.id][meter]; there {
		return c
	}
	return store.Counter{Meter: meter, Cap: -1}
}
