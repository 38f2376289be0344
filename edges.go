package pawl

import (
	"fmt"
	"slices"

	"pawl/internal/host"
)

// From opens the edges of one node, or of several that share them.
func (g *Graph[I, S, O]) From(n ...Node[S]) *Edges[S] {
	e := &Edges[S]{fault: g.fault}
	for _, h := range n {
		if g.owns(h, "From") {
			e.from = append(e.from, h.n)
		}
	}
	return e
}

// Edges writes the edges out of a node. They are tried in the order in which they are written, the first that holds is
// taken, and later ones are not evaluated. Where each edge has its own bound, nodes that share it count apart.
type Edges[S any] struct {
	from  []*node[S]
	last  []*edge[S]
	fault func(string, ...any)
}

func (e *Edges[S]) each(write func(*node[S]) *edge[S]) *Edges[S] {
	e.last = nil
	for _, n := range e.from {
		e.last = append(e.last, write(n))
	}
	return e
}

func (e *Edges[S]) put(n *node[S], v edge[S]) *edge[S] {
	if n.other != nil {
		e.fault("node %q: edge %q stands after Otherwise and can never be taken", n.name, v.name)
	}
	n.edges = append(n.edges, &v)
	return &v
}

// When is taken if cond holds.
func (e *Edges[S]) When(name string, cond func(S) bool, to Node[S]) *Edges[S] {
	return e.each(func(n *node[S]) *edge[S] {
		if cond == nil {
			e.fault("node %q: edge %q has no condition", n.name, name)
		}
		return e.put(n, edge[S]{name: name, kind: host.When, when: cond, to: to.n})
	})
}

// OnAnswer is taken if this visit accepted a person's answer. It is the edge by which a person breaks a cycle.
func (e *Edges[S]) OnAnswer(name string, to Node[S]) *Edges[S] {
	return e.each(func(n *node[S]) *edge[S] { return e.put(n, edge[S]{name: name, kind: host.OnAnswer, to: to.n}) })
}

// OnError is tried when the node's retries are spent, on the state before the node. claim may fold the error into that
// state; if it refuses, the next one is tried, and if none claims the error, the run FAILED.
func (e *Edges[S]) OnError(name string, claim func(S, error) (S, bool), to Node[S]) *Edges[S] {
	return e.each(func(n *node[S]) *edge[S] {
		if claim == nil {
			e.fault("node %q: error edge %q has no claim", n.name, name)
		}
		v := &edge[S]{name: name, kind: host.OnError, claim: claim, to: to.n}
		n.onError = append(n.onError, v)
		return v
	})
}

// AtMost bounds the edge just written, over the whole run. Once spent, the edge is skipped and that is noted.
func (e *Edges[S]) AtMost(n int) *Edges[S] { return e.bound(n, false) }

// AtMostPerTurn bounds the edge just written between two answers that the run accepted.
func (e *Edges[S]) AtMostPerTurn(n int) *Edges[S] { return e.bound(n, true) }

func (e *Edges[S]) bound(n int, turn bool) *Edges[S] {
	if len(e.last) == 0 && len(e.from) > 0 {
		e.fault("node %q: a bound without an edge before it", e.from[0].name)
	}
	for i, l := range e.last {
		switch {
		case n < 1:
			e.fault("node %q: edge %q: a bound of %d means that it can never be taken", e.from[i].name, l.name, n)
		case l.max != 0:
			e.fault("node %q: edge %q is bounded twice", e.from[i].name, l.name)
		}
		l.max, l.turn = n, turn
	}
	return e
}

// Otherwise is taken when no other edge is. It ends the list.
func (e *Edges[S]) Otherwise(to Node[S]) {
	e.each(func(n *node[S]) *edge[S] {
		if n.other != nil {
			e.fault("node %q: Otherwise is said twice", n.name)
		}
		n.other = &edge[S]{name: "otherwise", kind: host.Otherwise, to: to.n}
		return n.other
	})
	e.last = nil
}

func (g *Graph[I, S, O]) fault(format string, a ...any) {
	if s := fmt.Sprintf(format, a...); !slices.Contains(g.faults, s) {
		g.faults = append(g.faults, s)
	}
}

// owns reports whether a handle is of this graph; if not, that is a fault.
func (g *Graph[I, S, O]) owns(h Node[S], where string) bool {
	switch {
	case h.n == nil:
		g.fault("%s: an empty node handle", where)
	case h.n.home != any(g):
		g.fault("%s: node %q belongs to another graph", where, h.n.name)
	default:
		return true
	}
	return false
}

// out is every way out of a node.
func (n *node[S]) out() []*edge[S] {
	all := slices.Concat(n.edges, n.onError)
	if n.other != nil {
		all = append(all, n.other)
	}
	return all
}
