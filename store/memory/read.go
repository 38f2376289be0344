package memory

import (
	"bytes"
	"context"
	"slices"
	"time"

	"pawl/store"
	"pawl/store/internal/rules"
)

// out is the run as the contract has it, sharing nothing.
func (r *run) out() store.Run {
	return store.Run{
		ID: r.id, Tenant: r.tenant, User: r.user, Workflow: r.workflow, Version: r.version, Key: r.key,
		Parent: r.parent, Root: r.root, Status: r.status, Node: r.node, Outcome: r.outcome, Priority: r.priority,
		Ended: r.Ended, Epoch: r.Epoch, Inbox: r.Inbox, Worker: r.Worker,
		Until: rules.Time(r.Until), Due: rules.Time(r.Due), Expires: rules.Time(r.Expires),
		Created: rules.Time(r.created), Updated: rules.Time(r.updated),
		Head: bytes.Clone(r.head), Row: bytes.Clone(r.row), Counters: slices.Clone(r.counters),
	}
}

// Get reads one run.
func (s *Store) Get(ctx context.Context, sc store.Scope, id string) (store.Run, error) {
	if err := s.enter(ctx, "get"); err != nil {
		return store.Run{}, err
	}
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil || !rules.Sees(sc, r.tenant, r.user) {
		return store.Run{}, wrap("get", store.ErrNotFound)
	}
	return r.out(), nil
}

// List pages through runs.
func (s *Store) List(ctx context.Context, sc store.Scope, f store.Filter, p store.Page) ([]store.Run, error) {
	if err := s.enter(ctx, "list"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now, limit := s.now(), rules.Limit(p)
	out := []store.Run{}
	for _, r := range slices.Backward(s.order.before(p.After)) {
		if len(out) == limit {
			break
		}
		if rules.Sees(sc, r.tenant, r.user) && r.matches(&f, now) {
			out = append(out, r.out())
		}
	}
	return out, nil
}

func (r *run) matches(f *store.Filter, now int64) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(f.Workflow, r.workflow) && is(f.Key, r.key) && is(f.Parent, r.parent) && is(f.Root, r.root) &&
		is(f.Outcome, r.outcome) && !slices.Contains(f.NotVersions, r.version) && (len(f.Statuses) == 0 || slices.Contains(f.Statuses, r.status)) &&
		(f.Held == nil || *f.Held == r.Held(now)) && r.updated >= rules.Stamp(f.Since, 0)
}

// Read reads a stream of a run.
func (s *Store) Read(ctx context.Context, sc store.Scope, id string, q store.Query) ([]store.Row, error) {
	if err := s.enter(ctx, "read"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		rows, err := s.exhume(sc, id, q)
		return rows, wrap("read", err)
	}
	if !rules.Sees(sc, r.tenant, r.user) {
		return nil, wrap("read", store.ErrNotFound)
	}
	n, err := rules.Number(q.Stream)
	if err != nil {
		return nil, wrap("read", err)
	}
	log := r.logs[n]
	out := []store.Row{}
	for i := max(q.After, 0); i < int64(len(log)) && (q.Limit <= 0 || len(out) < q.Limit); i++ {
		if e := log[i]; q.Key == "" || q.Key == e.key {
			out = append(out, store.Row{Stream: q.Stream, Seq: i + 1, Key: e.key, Data: bytes.Clone(e.data), At: rules.Time(e.at)})
		}
	}
	return out, nil
}

// Questions pages through questions.
func (s *Store) Questions(ctx context.Context, sc store.Scope, f store.Filter, p store.Page) ([]store.Question, error) {
	if err := s.enter(ctx, "questions"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	is := func(want, have string) bool { return want == "" || want == have }
	limit := rules.Limit(p)
	out := []store.Question{}
	for _, id := range slices.Backward(s.asked.before(p.After)) {
		if len(out) == limit {
			break
		}
		q := s.questions[id]
		if rules.Sees(sc, q.Tenant, q.User) && !(f.Open && q.Closed) && is(f.Workflow, q.Workflow) &&
			is(f.Root, q.Root) && is(f.Run, q.Run) && is(f.Question, q.ID) {
			c := *q
			c.Row = bytes.Clone(q.Row)
			out = append(out, c)
		}
	}
	return out, nil
}

// Take uses a shared limit. One who holds a place renews it, which uses no rate.
func (s *Store) Take(ctx context.Context, sl store.Slot) (time.Duration, error) {
	if err := s.enter(ctx, "take"); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	now := s.now()
	l := s.limits[sl.Limit]
	if l == nil {
		l = &limit{holders: map[string]int64{}}
		s.limits[sl.Limit] = l
	}
	var full time.Duration
	if sl.Max > 0 {
		var first int64
		for h, until := range l.holders {
			if until <= now {
				delete(l.holders, h)
			} else if first == 0 || until < first {
				first = until
			}
		}
		if _, ok := l.holders[sl.Holder]; ok {
			l.holders[sl.Holder] = rules.After(now, sl.Hold)
			return 0, nil
		}
		if len(l.holders) >= sl.Max {
			full = rules.Full(first, now)
		}
	}
	tat, wait := rules.Rate(l.tat, now, sl)
	if wait = max(wait, full); wait > 0 {
		return wait, nil
	}
	l.tat = tat
	if sl.Max > 0 {
		l.holders[sl.Holder] = rules.After(now, sl.Hold)
	}
	return 0, nil
}

// Give returns a place.
func (s *Store) Give(ctx context.Context, name, holder string) error {
	if err := s.enter(ctx, "give"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if l := s.limits[name]; l != nil {
		delete(l.holders, holder)
	}
	return nil
}
