package memory

import (
	"cmp"
	"slices"
)

// heap is a binary heap in which each run knows its place, so that it can be taken out from anywhere.
type heap struct {
	rs   []*run
	less func(a, b *run) bool
}

func (h *heap) push(r *run) {
	r.in, r.at = h, len(h.rs)
	h.rs = append(h.rs, r)
	h.up(r.at)
}

func (h *heap) remove(r *run) {
	i, last := r.at, len(h.rs)-1
	h.swap(i, last)
	h.rs[last] = nil
	h.rs = h.rs[:last]
	r.in = nil
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h *heap) swap(i, j int) {
	h.rs[i], h.rs[j] = h.rs[j], h.rs[i]
	h.rs[i].at, h.rs[j].at = i, j
}

func (h *heap) up(i int) {
	for i > 0 && h.less(h.rs[i], h.rs[(i-1)/2]) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (h *heap) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h.rs); c++ {
			if h.less(h.rs[c], h.rs[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h *heap) first() *run {
	if len(h.rs) == 0 {
		return nil
	}
	return h.rs[0]
}

// queue holds the runs of one kind: those that may be claimed now, and those that may be later.
type queue struct{ ready, later heap }

func newQueue() *queue {
	return &queue{
		ready: heap{less: before},
		later: heap{less: func(a, b *run) bool { return a.placed.ready < b.placed.ready }},
	}
}

// before is the order of claims: the higher priority, then what has been due longest.
func before(a, b *run) bool {
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	if a.placed.due != b.placed.due {
		return a.placed.due < b.placed.due
	}
	return a.id < b.id
}

// ripen moves what has become claimable over.
func (q *queue) ripen(now int64) {
	for r := q.later.first(); r != nil && r.Ready() <= now; r = q.later.first() {
		q.later.remove(r)
		q.ready.push(r)
	}
}

// place puts a run where its lease says that it belongs; called after every change of it.
func (s *Store) place(r *run, now int64) {
	if r.in != nil {
		r.in.remove(r)
	}
	r.placed = placed{r.Due, r.Ready(), r.Expires}
	if r.Ended == r.rooted {
		s.root(r)
	}
	switch ready := r.placed.ready; {
	case r.Ended:
		if r.Expires != 0 {
			s.expiry.push(r)
		}
	case ready == 0:
	default:
		q := s.queues[r.kind]
		if q == nil {
			q = newQueue()
			s.queues[r.kind] = q
		}
		if ready <= now {
			q.ready.push(r)
		} else {
			q.later.push(r)
		}
	}
}

// root enters a live run under its root, or takes an ended one out.
func (s *Store) root(r *run) {
	rs := s.roots[r.root]
	if r.rooted = !r.rooted; r.rooted {
		r.rootAt = len(rs)
		s.roots[r.root] = append(rs, r)
		return
	}
	last := len(rs) - 1
	rs[r.rootAt] = rs[last]
	rs[r.rootAt].rootAt = r.rootAt
	rs[last] = nil
	if s.roots[r.root] = rs[:last]; last == 0 {
		delete(s.roots, r.root)
	}
}

// sorted is a list by id. Ids mostly grow, so it is put in order only when somebody reads it after one did not.
type sorted[T any] struct {
	all   []T
	id    func(T) string
	mixed bool
}

func (l *sorted[T]) add(v T) {
	if n := len(l.all); n > 0 && l.id(l.all[n-1]) > l.id(v) {
		l.mixed = true
	}
	l.all = append(l.all, v)
}

// before answers the entries whose id is less than the given one, or all; newest last.
func (l *sorted[T]) before(id string) []T {
	if l.mixed {
		slices.SortFunc(l.all, func(a, b T) int { return cmp.Compare(l.id(a), l.id(b)) })
		l.mixed = false
	}
	if id == "" {
		return l.all
	}
	i, _ := slices.BinarySearchFunc(l.all, id, func(v T, id string) int { return cmp.Compare(l.id(v), id) })
	return l.all[:i]
}
