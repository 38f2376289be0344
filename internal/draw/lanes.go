package draw

import (
	"cmp"
	"math"
	"slices"
)

// placeY stacks the ranks. Between a rank of nodes and its neighbors there is room for the routes that turn there.
func (l *layout) placeY() {
	exits, entries := make([]int, len(l.ranks)), make([]int, len(l.ranks))
	for i := range l.routes {
		r := &l.routes[i]
		if !r.back {
			continue
		}
		from, to := l.boxes[r.from].rank, l.boxes[r.to].rank
		r.exit = 10 + float64(pitch*float64(exits[from]))
		r.entry = 14 + float64(pitch*float64(entries[to]))
		exits[from]++
		entries[to]++
	}
	l.top, l.bottom = make([]float64, len(l.ranks)), make([]float64, len(l.ranks))
	y := headRoom
	if entries[0] > 0 { // the start's arrow begins above them
		y += 12 + float64(pitch*float64(entries[0]))
	}
	for k, rank := range l.ranks {
		h := 0.0
		for _, b := range rank {
			h = max(h, l.boxes[b].h)
		}
		if k > 0 {
			y += l.slope(k) + float64(pitch*float64(exits[k-1]+entries[k]))
		}
		l.top[k], l.bottom[k] = y, y+h
		for _, b := range rank {
			l.boxes[b].y = y + h/2
		}
		y += h
	}
	l.h = y + float64(pitch*float64(exits[len(exits)-1]))
}

// slope is the room above a rank: more where arrows have far to go sideways.
func (l *layout) slope(k int) float64 {
	far := 0.0
	for _, b := range l.ranks[k] {
		for _, a := range l.boxes[b].above {
			far = max(far, math.Abs(l.boxes[a].x-l.boxes[b].x))
		}
	}
	room := gapY
	if k%2 == 1 {
		room = gapY - 6 // a label belongs to the node above it
	}
	return math.Round(room + min(far/12, 22))
}

// lanes gives each route that goes back a way up outside of everything on the ranks that it spans, on the nearer side.
// Short ones come first and so lie inside.
func (l *layout) lanes() {
	right, left := make([]float64, len(l.ranks)), make([]float64, len(l.ranks))
	low, high := math.Inf(1), math.Inf(-1)
	for k, rank := range l.ranks {
		right[k], left[k] = math.Inf(-1), math.Inf(1)
		for _, b := range rank {
			right[k] = max(right[k], l.boxes[b].x+l.boxes[b].w/2)
			left[k] = min(left[k], l.boxes[b].x-l.boxes[b].w/2)
		}
		low, high = min(low, left[k]), max(high, right[k])
	}
	back := make([]*route, 0, len(l.routes))
	for i := range l.routes {
		if l.routes[i].back {
			back = append(back, &l.routes[i])
		}
	}
	span := func(r *route) int { return l.boxes[r.from].rank - l.boxes[r.to].rank }
	slices.SortStableFunc(back, func(a, b *route) int { return cmp.Compare(span(a), span(b)) })
	for _, r := range back {
		to, from := l.boxes[r.to], l.boxes[r.from]
		outerRight, outerLeft := math.Inf(-1), math.Inf(1)
		for k := to.rank; k <= from.rank; k++ {
			outerRight, outerLeft = max(outerRight, right[k]), min(outerLeft, left[k])
		}
		r.right = outerRight-max(from.x, to.x) <= min(from.x, to.x)-outerLeft
		room := textWidth(r.lines, labelSize) + 8
		if r.right {
			r.lane = outerRight + 18
		} else {
			r.lane = outerLeft - 18
			room = -room
		}
		for k := to.rank; k <= from.rank; k++ {
			right[k], left[k] = max(right[k], r.lane, r.lane+room), min(left[k], r.lane, r.lane+room)
		}
		low, high = min(low, r.lane, r.lane+room), max(high, r.lane, r.lane+room)
	}
	l.shift(margin - low)
	l.w = high - low + 2*margin
}

// fit rounds the size up.
func (l *layout) fit() { l.w, l.h = math.Ceil(l.w), math.Ceil(l.h) }

func (l *layout) shift(dx float64) {
	dx = math.Round(dx)
	for i := range l.boxes {
		l.boxes[i].x += dx
	}
	for i := range l.routes {
		l.routes[i].lane = math.Round(l.routes[i].lane + dx)
	}
}

// labelAt is where the label of a route that goes back begins, and the height of its middle: beside the lane, on a rank
// of nodes, since no other route turns there.
func (l *layout) labelAt(r route) (x, y float64) {
	k := (l.boxes[r.from].rank + l.boxes[r.to].rank) / 2
	k -= k % 2
	x = r.lane + 6
	if !r.right {
		x = r.lane - 6
	}
	return x, (l.top[k] + l.bottom[k]) / 2
}

// port is where a route touches its node. The routes on one side of a node share its width, sorted by where they go.
type port struct {
	route int
	exit  bool
}

// ports finds the x of every end of every route.
func (l *layout) ports() map[port]float64 {
	type end struct {
		port
		toward float64
	}
	at := make(map[port]float64, 2*len(l.routes))
	for b := range l.boxes {
		if l.boxes[b].node < 0 {
			continue
		}
		var exits, entries []end
		for i, r := range l.routes {
			side := math.Inf(-1)
			if r.right {
				side = math.Inf(1)
			}
			if r.from == b {
				if !r.back {
					side = l.boxes[r.chain[1]].x
				}
				exits = append(exits, end{port{i, true}, side})
			}
			if r.to == b {
				if !r.back {
					side = l.boxes[r.chain[len(r.chain)-2]].x
				}
				entries = append(entries, end{port{i, false}, side})
			}
		}
		for _, ends := range [][]end{exits, entries} {
			slices.SortStableFunc(ends, func(a, z end) int { return cmp.Compare(a.toward, z.toward) })
			left, right := 0, 0 // loops, at the sides
			for _, e := range ends {
				if math.IsInf(e.toward, -1) {
					left++
				} else if math.IsInf(e.toward, 1) {
					right++
				}
			}
			half := (l.boxes[b].w - 24) / 2
			step := min(22, 2*half/float64(max(1, len(ends)-1)))
			middle := float64(left) + float64(len(ends)-left-right-1)/2 // the ways forward stand in the middle, if there is room
			if float64(step*max(middle, float64(len(ends)-1)-middle)) > half {
				middle = float64(len(ends)-1) / 2
			}
			for i, e := range ends {
				at[e.port] = math.Round(l.boxes[b].x + float64((float64(i)-middle)*step))
			}
		}
	}
	return at
}
