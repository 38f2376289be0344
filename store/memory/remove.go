package memory

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"pawl/store"
	"pawl/store/internal/rules"
)

// grave is what stays of a run that was deleted.
type grave struct {
	tenant, user string
	at           int64
	row          []byte
}

// Expire removes runs that have expired.
func (s *Store) Expire(ctx context.Context, most int) (int, error) {
	if err := s.enter(ctx, "expire"); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	now := s.now()
	s.sweepUp(now)
	gone, kept := map[*run]bool{}, []*run(nil)
	var kids map[string][]*run
	for r := s.expiry.first(); r != nil && r.Expires <= now && len(gone) < most; r = s.expiry.first() {
		if kids == nil {
			kids = s.kids()
		}
		all := kin(r, kids)
		if slices.ContainsFunc(all, alive) {
			s.expiry.remove(r)
			kept = append(kept, r)
			continue
		}
		for _, k := range all {
			if len(gone) == most {
				break
			}
			if !gone[k] {
				s.remove(k)
				gone[k] = true
			}
		}
	}
	for _, r := range kept {
		s.expiry.push(r)
	}
	s.forget(gone)
	return len(gone), nil
}

// Delete erases a run and its descendants.
func (s *Store) Delete(ctx context.Context, id string, row []byte) error {
	if err := s.enter(ctx, "delete"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return wrap("delete", store.ErrNotFound)
	}
	all := kin(r, s.kids())
	if slices.ContainsFunc(all, alive) {
		return wrap("delete", store.ErrStale)
	}
	gone := map[*run]bool{}
	for _, k := range all {
		s.remove(k)
		gone[k] = true
	}
	s.graves[id] = grave{r.tenant, r.user, s.now(), bytes.Clone(row)}
	s.forget(gone)
	return nil
}

// kids are the runs by their parents.
func (s *Store) kids() map[string][]*run {
	out := map[string][]*run{}
	for _, r := range s.runs {
		if r.parent != "" {
			out[r.parent] = append(out[r.parent], r)
		}
	}
	return out
}

// kin is a run with all its descendants, the youngest first.
func kin(r *run, kids map[string][]*run) []*run {
	all, known := []*run{r}, map[*run]bool{r: true}
	for i := 0; i < len(all); i++ {
		for _, k := range kids[all[i].id] {
			if !known[k] {
				known[k] = true
				all = append(all, k)
			}
		}
	}
	slices.Reverse(all)
	return all
}

func alive(r *run) bool { return !r.Ended }

// remove takes a run out of the maps and queues; forget does the rest for many at once.
func (s *Store) remove(r *run) {
	if r.in != nil {
		r.in.remove(r)
	}
	if r.rooted {
		s.root(r)
	}
	delete(s.runs, r.id)
	if k := (key{r.tenant, r.workflow, r.key}); s.keys[k] == r {
		delete(s.keys, k)
	}
}

// forget sweeps the ordered lists and tells of what is gone.
func (s *Store) forget(gone map[*run]bool) {
	if len(gone) == 0 {
		return
	}
	ids := map[string]bool{}
	for r := range gone {
		ids[r.id] = true
	}
	s.order.all = slices.DeleteFunc(s.order.all, func(r *run) bool { return gone[r] })
	s.asked.all = slices.DeleteFunc(s.asked.all, func(id string) bool {
		if !ids[s.questions[id].Run] {
			return false
		}
		delete(s.questions, id)
		return true
	})
	for id := range ids {
		s.hub.Tell(id)
	}
}

// exhume reads what a deleted run has left.
func (s *Store) exhume(sc store.Scope, id string, q store.Query) ([]store.Row, error) {
	g, ok := s.graves[id]
	switch {
	case !ok || q.Stream != store.Audit || !rules.Sees(sc, g.tenant, g.user):
		return nil, store.ErrNotFound
	case q.After >= 1 || q.Key != "":
		return []store.Row{}, nil
	}
	return []store.Row{{Stream: store.Audit, Seq: 1, Data: bytes.Clone(g.row), At: rules.Time(g.at)}}, nil
}

// sweepUp removes what has run out and no run owns.
func (s *Store) sweepUp(now int64) {
	maps.DeleteFunc(s.workers, func(_ string, w worker) bool { return w.until <= now-int64(rules.Remembered) })
	maps.DeleteFunc(s.limits, func(_ string, l *limit) bool {
		maps.DeleteFunc(l.holders, func(_ string, until int64) bool { return until <= now })
		return l.tat <= now && len(l.holders) == 0
	})
}
