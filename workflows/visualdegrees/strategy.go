package visualdegrees

import (
	"slices"
)

// discovery are the ends of the queries by which whoever stands beside a person is found (R-000-25).
var discovery = [...]string{" with celebrities", " event", " awards"}

// candidates are those to whom a search may go on from a frontier: seen beside it, not on the way to it, and not tried (R-000-28,
// Q-000-04), best first.
func (s *State) candidates(t *ties, side int, r reach, frontier string) []string {
	way := r.chain(frontier)
	m := s.met(side, frontier)
	return slices.DeleteFunc(t.beside(frontier), func(id string) bool {
		return !s.candidate(side, m, way, id)
	})
}

// open reports whether there are candidates.
func (s *State) open(t *ties, side int, r reach, frontier string) bool {
	way, m := r.chain(frontier), s.met(side, frontier)
	for id := range t.of[frontier] {
		if s.candidate(side, m, way, id) {
			return true
		}
	}
	return false
}

func (s *State) candidate(side int, m *Met, way []string, id string) bool {
	return !slices.Contains(way, id) && !slices.Contains(m.Tried, id) && !s.failed(m.Person, id) && s.met(side, id) == nil
}

// choice is where to look next.
type choice struct {
	side     int
	frontier string
	search   bool // by another query of the discovery; else by the candidates that are there
}

// choose picks the frontier to expand (R-000-24). The seed's own order goes on from whoever was found last and tracks back where
// nothing is left (Q-000-08). With two sides it takes them in turn, and of a side what costs least: a person near to its root, who was
// searched for seldom. A reason says why nothing is left.
func (s *State) choose(t *ties) (c choice, reason string) {
	limit := s.In.Options.HopLimit
	reason = ReasonFrontier
	sides := []int{fromA}
	if *s.In.Options.TwoSided {
		sides = []int{1 - s.Side, s.Side}
		if !s.Chosen {
			sides = []int{fromA, fromB}
		}
	}
	for _, side := range sides {
		r := t.reach(s.root(side), limit)
		best, found := 0.0, false
		for i, m := range s.Known[side] {
			d, ok := r.depth[m.Person]
			if !ok {
				continue
			}
			if d >= limit {
				reason = ReasonHops
				continue
			}
			search, open := m.Queries < len(discovery), s.open(t, side, r, m.Person)
			if open && d == limit-1 { // whoever comes next stands at the limit, and would be on a path if that were its end
				open = false
				reason = ReasonHops
			}
			if !search && !open {
				continue
			}
			cost := cost(d, m, open)
			if !*s.In.Options.TwoSided {
				cost = float64(-i) // the last one found
			}
			if !found || cost < best {
				best, found = cost, true
				c = choice{side, m.Person, search && !open}
			}
		}
		if found {
			return c, ""
		}
	}
	return choice{}, reason
}

// cost of expanding somebody who is d edges away from a side's root.
func cost(d int, m Met, open bool) float64 {
	if open {
		return float64(d) + 0.5
	}
	return float64(d + m.Queries)
}

// heuristic is the planner without a model: who was seen with the most confidence beside the frontier, then most often (R-000-34,
// R-000-82). The order of candidates is that already.
func heuristic(candidates []string) []string { return candidates[:min(2, len(candidates))] }
