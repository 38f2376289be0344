package pawl

import (
	"slices"
	"strings"

	"pawl/internal/host"
)

// bounded reports whether an edge cannot be taken for ever: it counts (AtMost), it needs a person (OnAnswer), or it
// leaves a node whose visits cost a capped meter. That last one is no bound for an error edge: the charge itself may be
// the error, and a visit that could not be paid counts nothing.
func (g *Graph[I, S, O]) bounded(n *node[S], e *edge[S]) bool {
	if e.max > 0 || e.kind.Person() {
		return true
	}
	for m, c := range n.opt.Costs {
		_, capped := g.opt.Budget[m]
		if e.kind != host.OnError && c > 0 && (capped || m == MeterUSD && g.opt.Cost > 0) {
			return true
		}
	}
	return false
}

// cycles returns, for every edge without a bound that closes a cycle of such edges, the cycle: node —edge→ node. A graph
// has none when all bounded edges are taken away, or it could run for ever.
func cycles[S any](nodes []*node[S], bounded func(*node[S], *edge[S]) bool) (found []string) {
	const (
		fresh = iota
		open
		done
	)
	state := map[*node[S]]int{}
	var path []*node[S]
	var ways []string // the edge out of each node of path
	var visit func(*node[S])
	visit = func(n *node[S]) {
		state[n] = open
		path, ways = append(path, n), append(ways, "")
		for _, e := range n.out() {
			if e.to == nil || bounded(n, e) {
				continue
			}
			ways[len(ways)-1] = e.name
			switch state[e.to] {
			case fresh:
				visit(e.to)
			case open:
				var b strings.Builder
				for i := slices.Index(path, e.to); i < len(path); i++ {
					b.WriteString(path[i].name + " —" + ways[i] + "→ ")
				}
				found = append(found, b.String()+e.to.name)
			}
		}
		path, ways = path[:len(path)-1], ways[:len(ways)-1]
		state[n] = done
	}
	for _, n := range nodes {
		if state[n] == fresh {
			visit(n)
		}
	}
	return found
}
