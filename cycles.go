package pawl

import (
	"slices"
	"strings"
)

// bounded reports whether an edge cannot be taken for ever: it counts (AtMost), it needs a person (OnAnswer), or it
// leaves a node that costs a capped meter on every visit.
func (g *Graph[I, S, O]) bounded(n *node[S], e *edge[S]) bool {
	for m, c := range n.opt.Costs {
		_, capped := g.opt.Budget[m]
		if c > 0 && (capped || m == MeterUSD && g.opt.Cost > 0) {
			return true
		}
	}
	return e.max > 0 || e.kind.Person()
}

// cycles returns a path for every cycle that is closed by an edge without a bound, when all bounded edges are taken away.
func cycles[S any](nodes []*node[S], bounded func(*node[S], *edge[S]) bool) (found []string) {
	const (
		fresh = iota
		open
		done
	)
	state := map[*node[S]]int{}
	var path []*node[S]
	var visit func(*node[S])
	visit = func(n *node[S]) {
		state[n] = open
		path = append(path, n)
		for _, e := range n.out() {
			if e.to == nil || bounded(n, e) {
				continue
			}
			switch state[e.to] {
			case fresh:
				visit(e.to)
			case open:
				var names []string
				for _, p := range path[slices.Index(path, e.to):] {
					names = append(names, p.name)
				}
				found = append(found, strings.Join(append(names, e.to.name), " → "))
			}
		}
		path = path[:len(path)-1]
		state[n] = done
	}
	for _, n := range nodes {
		if state[n] == fresh {
			visit(n)
		}
	}
	return found
}
