package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pawl/store"
	"pawl/store/internal/rules"
)

// Claim leases due runs.
func (s *Store) Claim(ctx context.Context, c store.Claim) ([]store.Run, time.Duration, error) {
	if err := s.enter(ctx, "claim"); err != nil {
		return nil, 0, err
	}
	defer s.mu.Unlock()
	now := s.now()
	s.present(c.Worker, now, c.Hold, slices.Clone(c.Announced()))
	var out []store.Run
	take := func(r *run) {
		r.Claim(c.Worker, now, c.Hold)
		s.place(r, now)
		out = append(out, r.out())
	}
	var next int64 // the earliest time at which one may be claimed
	if c.Run != "" || c.Root != "" {
		next = s.narrow(&c, now, take)
	} else {
		next = s.claim(&c, now, take)
	}
	if next == 0 {
		return out, -1, nil
	}
	return out, time.Duration(max(0, next-now)), nil
}

// claim takes from the queues of the kinds, again and again the best of their heads.
func (s *Store) claim(c *store.Claim, now int64, take func(*run)) (next int64) {
	var qs []*queue
	for _, k := range c.Kinds {
		if q := s.queues[k]; q != nil {
			qs = append(qs, q)
		}
	}
	if c.Kinds == nil {
		for _, q := range s.queues {
			qs = append(qs, q)
		}
	}
	for _, q := range qs {
		q.ripen(now)
	}
	for n := 0; n < c.Max; n++ {
		var best *run
		for _, q := range qs {
			if r := q.ready.first(); r != nil && (best == nil || before(r, best)) {
				best = r
			}
		}
		if best == nil {
			break
		}
		take(best)
	}
	for _, q := range qs {
		if q.ready.first() != nil {
			return now
		}
		next = earlier(next, q.later.first())
	}
	return next
}

// narrow takes among the runs of one root, or one run.
func (s *Store) narrow(c *store.Claim, now int64, take func(*run)) (next int64) {
	from := s.roots[c.Root]
	if c.Run != "" {
		from = nil
		if r := s.runs[c.Run]; r != nil && (c.Root == "" || r.root == c.Root) {
			from = []*run{r}
		}
	}
	var due, rest []*run
	for _, r := range from {
		ready := r.Ready()
		switch {
		case ready == 0 || c.Kinds != nil && !slices.Contains(c.Kinds, r.kind):
		case ready <= now:
			due = append(due, r)
		default:
			rest = append(rest, r)
		}
	}
	slices.SortFunc(due, func(a, b *run) int {
		if before(a, b) {
			return -1
		}
		return 1
	})
	for i, r := range due {
		if i >= c.Max {
			return now
		}
		take(r)
		next = earlier(next, r)
	}
	for _, r := range rest {
		next = earlier(next, r)
	}
	return next
}

func earlier(next int64, r *run) int64 {
	if r == nil || next != 0 && next <= r.Ready() {
		return next
	}
	return r.Ready()
}

// present notes that a worker lives. Kinds nil keeps what it said before.
func (s *Store) present(id string, now int64, hold time.Duration, kinds []string) {
	if id == "" {
		return
	}
	if kinds == nil {
		kinds = s.workers[id].kinds
	}
	s.workers[id] = worker{kinds, rules.After(now, hold)}
}

// Renew extends leases.
func (s *Store) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) ([]store.Held, error) {
	if err := s.enter(ctx, "renew"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.now()
	s.present(worker, now, hold, nil)
	out := make([]store.Held, len(ls))
	for i, l := range ls {
		r := s.runs[l.Run]
		out[i] = store.Held{Run: l.Run, Lost: r == nil || !r.Owns(l.Epoch)}
		if r != nil {
			out[i].Inbox = r.Inbox
		}
		if !out[i].Lost {
			r.Until = rules.After(now, hold)
			s.place(r, now)
		}
	}
	return out, nil
}

// Workers lists the live workers.
func (s *Store) Workers(ctx context.Context) ([]store.Worker, error) {
	if err := s.enter(ctx, "workers"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.now()
	held := map[string]int{}
	for _, r := range s.runs {
		if r.Held(now) {
			held[r.Worker]++
		}
	}
	out := []store.Worker{}
	for id, w := range s.workers {
		if w.until > now {
			out = append(out, store.Worker{ID: id, Kinds: slices.Clone(w.kinds), Until: rules.Time(w.until), Runs: held[id]})
		}
	}
	slices.SortFunc(out, func(a, b store.Worker) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// Append records a batch under a lease.
func (s *Store) Append(ctx context.Context, l store.Lease, b store.Batch) (store.Receipt, error) {
	if err := s.enter(ctx, "append"); err != nil {
		return store.Receipt{}, err
	}
	defer s.mu.Unlock()
	rec, err := s.append(l, &b)
	return rec, wrap("append", err)
}

func (s *Store) append(l store.Lease, b *store.Batch) (rec store.Receipt, err error) {
	r := s.runs[l.Run]
	if r == nil || !r.Owns(l.Epoch) {
		return rec, store.ErrStale
	}
	t := s.begin()
	t.touch(r)
	for _, c := range b.Caps {
		t.count(r, c.Meter, func(old store.Counter) (store.Counter, bool) { return rules.Lower(old, c.Cap), true })
	}
	for _, c := range b.Charges {
		o := s.runs[c.Run]
		if o == nil {
			t.rollback()
			return rec, fmt.Errorf("%w: charged run %s", store.ErrNotFound, c.Run)
		}
		t.touch(o)
		was, ok := t.count(o, c.Meter, func(old store.Counter) (store.Counter, bool) { return rules.Charge(old, c.N) })
		if !ok {
			t.rollback()
			return store.Receipt{Refused: &store.Refusal{Run: c.Run, Counter: was}}, nil
		}
	}
	for i := range b.Rows {
		n, err := rules.Place(&b.Rows[i])
		if err != nil {
			t.rollback()
			return store.Receipt{}, err
		}
		rec.Seqs = append(rec.Seqs, r.append(n, &b.Rows[i], t.now))
	}
	t.commit()
	return rec, nil
}

// count changes one counter of a run. The list is copied first, since the old one may have to come back.
func (t *tx) count(r *run, meter string, change func(store.Counter) (store.Counter, bool)) (was store.Counter, ok bool) {
	i, found := slices.BinarySearchFunc(r.counters, meter, func(c store.Counter, m string) int { return strings.Compare(c.Meter, m) })
	was = store.Counter{Meter: meter, Cap: -1}
	if found {
		was = r.counters[i]
	}
	now, ok := change(was)
	if !ok {
		return was, false
	}
	r.counters = slices.Clone(r.counters)
	if found {
		r.counters[i] = now
	} else {
		r.counters = slices.Insert(r.counters, i, now)
	}
	return was, true
}
