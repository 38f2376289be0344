package draw

import (
	"cmp"
	"slices"

	"pawl/internal/host"
)

// The layout is layered: nodes stand on even ranks, as deep as the longest way to them; labels stand between, on odd
// ranks, as if they were nodes, so that nothing can lie on top of them. Arrows that go back run outside, in lanes.

// box is something that takes room on a rank: a node, a label, or the point where a long arrow passes.
type box struct {
	rank  int
	w, h  float64
	x, y  float64 // the middle
	node  int     // index of the node, -1 for the others
	lines []string
	below []int // boxes on the next rank that it is joined with
	above []int
}

// route is one arrow of the drawing, or several with the same ends and style whose labels stand under each other.
type route struct {
	arrow
	lines []string
	chain []int   // the boxes that a forward route passes, ends included
	lane  float64 // of a route that goes back: the x of its way up
	right bool
	exit  float64 // and how far under its node and above its target it turns
	entry float64
}

// layout is a drawing before it is written.
type layout struct {
	boxes  []box
	ranks  [][]int // boxes of each rank, from left to right
	routes []route
	top    []float64 // of each rank
	bottom []float64
	w, h   float64
}

const (
	gapX   = 26.0 // between two boxes of a rank
	gapY   = 20.0 // between two ranks
	pitch  = 9.0  // between two lanes that turn on the same height
	margin = 16.0
)

func newLayout(s host.Shape) *layout {
	l := &layout{routes: bundle(arrows(s))}
	depth := ranks(len(s.Nodes), l.routes)
	for i, n := range s.Nodes {
		w, h := nodeSize(n)
		w = max(w, l.crowd(i))
		l.boxes = append(l.boxes, box{rank: 2 * depth[i], w: w, h: h, node: i})
	}
	for i := range l.routes {
		l.lay(&l.routes[i])
	}
	last := 0
	for _, b := range l.boxes {
		last = max(last, b.rank)
	}
	l.ranks = make([][]int, last+1)
	for i, b := range l.boxes {
		l.ranks[b.rank] = append(l.ranks[b.rank], i)
	}
	l.order()
	l.placeX()
	l.placeY()
	l.lanes()
	l.fit()
	return l
}

// bundle joins arrows that have the same ends and style.
func bundle(all []arrow) []route {
	var rs []route
	for _, a := range all {
		i := slices.IndexFunc(rs, func(r route) bool {
			return r.from == a.from && r.to == a.to && r.style == a.style && r.back == a.back
		})
		if i < 0 {
			rs = append(rs, route{arrow: a})
			i = len(rs) - 1
		}
		if a.label != "" {
			rs[i].lines = append(rs[i].lines, wrap(a.label, labelWidth, 3)...)
		}
	}
	return rs
}

// ranks gives every node the length of the longest way to it, arrows back not counted.
func ranks(nodes int, rs []route) []int {
	depth := make([]int, nodes)
	for range nodes { // a longest way has fewer steps than there are nodes
		moved := false
		for _, r := range rs {
			if !r.back && depth[r.to] < depth[r.from]+1 {
				depth[r.to], moved = depth[r.from]+1, true
			}
		}
		if !moved {
			break
		}
	}
	return depth
}

// crowd is how wide a node must be for the arrows that come in or go out.
func (l *layout) crowd(node int) float64 {
	in, out := 0, 0
	for _, r := range l.routes {
		if r.to == node {
			in++
		}
		if r.from == node {
			out++
		}
	}
	return float64(13*max(in, out) + 24)
}

// lay puts a box on every rank between the two ends of a forward route; the first of them carries the label.
func (l *layout) lay(r *route) {
	if r.back {
		return
	}
	r.chain = []int{r.from}
	at := r.from
	for rank := l.boxes[r.from].rank + 1; rank < l.boxes[r.to].rank; rank++ {
		b := box{rank: rank, w: 8, node: -1}
		if len(r.chain) == 1 && len(r.lines) > 0 {
			b.lines = r.lines
			b.w, b.h = textWidth(r.lines, labelSize)+6, float64(len(r.lines))*labelLine+2
		}
		l.boxes = append(l.boxes, b)
		at = l.join(at, len(l.boxes)-1)
		r.chain = append(r.chain, at)
	}
	l.join(at, r.to)
	r.chain = append(r.chain, r.to)
}

func (l *layout) join(upper, lower int) int {
	l.boxes[upper].below = append(l.boxes[upper].below, lower)
	l.boxes[lower].above = append(l.boxes[lower].above, upper)
	return lower
}

// order sorts each rank by the mean place of its neighbors, down and up again, swaps what stands better the other way
// around, and keeps the order with the fewest crossings.
func (l *layout) order() {
	best, least := clone(l.ranks), l.crossings()
	for round := 0; round < 24 && least > 0; round++ {
		down := round%2 == 0
		for k := range l.ranks {
			if down {
				l.sort(l.ranks[k], true)
			} else {
				l.sort(l.ranks[len(l.ranks)-1-k], false)
			}
		}
		l.swap()
		if n := l.crossings(); n < least {
			best, least = clone(l.ranks), n
		}
	}
	l.ranks = best
}

// sort puts a rank in the order of the mean place of each box's neighbors on one side.
func (l *layout) sort(rank []int, above bool) {
	place := l.places()
	mean := make(map[int]float64, len(rank))
	for _, b := range rank {
		near := l.boxes[b].below
		if above {
			near = l.boxes[b].above
		}
		mean[b] = place[b]
		if len(near) > 0 {
			sum := 0.0
			for _, n := range near {
				sum += place[n]
			}
			mean[b] = sum / float64(len(near))
		}
	}
	slices.SortStableFunc(rank, func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
}

// swap exchanges neighbors as long as that takes crossings away.
func (l *layout) swap() {
	for range 8 {
		better := false
		place := l.places()
		inverted := func(a, b []int) (n int) {
			for _, x := range a {
				for _, y := range b {
					if place[x] > place[y] {
						n++
					}
				}
			}
			return n
		}
		for _, rank := range l.ranks {
			for i := 1; i < len(rank); i++ {
				a, b := l.boxes[rank[i-1]], l.boxes[rank[i]]
				now := inverted(a.above, b.above) + inverted(a.below, b.below)
				then := inverted(b.above, a.above) + inverted(b.below, a.below)
				if then < now {
					place[rank[i-1]], place[rank[i]] = place[rank[i]], place[rank[i-1]]
					rank[i-1], rank[i] = rank[i], rank[i-1]
					better = true
				}
			}
		}
		if !better {
			return
		}
	}
}

// places is where each box stands in its rank, from 0 to 1.
func (l *layout) places() []float64 {
	place := make([]float64, len(l.boxes))
	for _, rank := range l.ranks {
		for i, b := range rank {
			place[b] = (float64(i) + 0.5) / float64(len(rank))
		}
	}
	return place
}

func (l *layout) crossings() int {
	at := make([]int, len(l.boxes))
	for _, rank := range l.ranks {
		for i, b := range rank {
			at[b] = i
		}
	}
	n := 0
	for _, rank := range l.ranks {
		for i, a := range rank {
			for _, b := range rank[i+1:] {
				for _, x := range l.boxes[a].below {
					for _, y := range l.boxes[b].below {
						if at[x] > at[y] {
							n++
						}
					}
				}
			}
		}
	}
	return n
}

func clone(ranks [][]int) [][]int {
	c := make([][]int, len(ranks))
	for i := range ranks {
		c[i] = slices.Clone(ranks[i])
	}
	return c
}
