package draw

import (
	"math"
	"slices"
)

// placeX moves every box toward its neighbors, rank by rank, as far as the room allows. Long arrows pull hardest, so
// that they come out straight.
func (l *layout) placeX() {
	for _, rank := range l.ranks {
		x := 0.0
		for _, b := range rank {
			l.boxes[b].x = x + l.boxes[b].w/2
			x += l.boxes[b].w + gapX
		}
	}
	for round := range 40 {
		for k := range l.ranks {
			rank := l.ranks[k]
			if round%2 == 1 {
				rank = l.ranks[len(l.ranks)-1-k]
			}
			l.settle(rank, round%2 == 0 && round < 36, round%2 == 1 && round < 36)
		}
	}
	for range 2 {
		for _, r := range l.routes {
			l.straighten(r)
		}
	}
	for i := range l.boxes {
		l.boxes[i].x = math.Round(l.boxes[i].x)
	}
}

// straighten makes a long route run straight down wherever the boxes beside it leave room.
func (l *layout) straighten(r route) {
	if len(r.chain) < 4 {
		return
	}
	inner := r.chain[1 : len(r.chain)-1]
	for i := 0; i < len(inner); {
		low, high, sum, n := math.Inf(-1), math.Inf(1), 0.0, 0
		for _, b := range inner[i:] {
			lo, hi := l.room(b)
			if max(low, lo) > min(high, hi) {
				break
			}
			low, high = max(low, lo), min(high, hi)
			sum += l.boxes[b].x
			n++
		}
		for _, b := range inner[i : i+max(n, 1)] {
			if n > 0 {
				l.boxes[b].x = min(max(sum/float64(n), low), high)
			}
		}
		i += max(n, 1)
	}
}

// room is where a box may stand between the two beside it.
func (l *layout) room(b int) (lo, hi float64) {
	lo, hi = math.Inf(-1), math.Inf(1)
	rank := l.ranks[l.boxes[b].rank]
	i := slices.Index(rank, b)
	if i > 0 {
		a := l.boxes[rank[i-1]]
		lo = a.x + (a.w+l.boxes[b].w)/2 + gapX/2
	}
	if i+1 < len(rank) {
		z := l.boxes[rank[i+1]]
		hi = z.x - (z.w+l.boxes[b].w)/2 - gapX/2
	}
	return lo, hi
}

// settle places one rank: each box as near as possible to where it wants to be, in order and without overlap. With
// the offsets taken away this is a monotone regression, solved by pooling neighbors that are in each other's way.
func (l *layout) settle(rank []int, fromAbove, fromBelow bool) {
	type pool struct {
		sum, weight float64
		n           int
	}
	var pools []pool
	offset := make([]float64, len(rank))
	for i, b := range rank {
		if i > 0 {
			offset[i] = offset[i-1] + (l.boxes[rank[i-1]].w+l.boxes[b].w)/2 + gapX
		}
		want, weight := l.wish(b, fromAbove, fromBelow)
		pools = append(pools, pool{float64(weight * (want - offset[i])), weight, 1})
		for len(pools) > 1 {
			a, z := pools[len(pools)-2], pools[len(pools)-1]
			if float64(a.sum*z.weight) <= float64(z.sum*a.weight) {
				break
			}
			pools = append(pools[:len(pools)-2], pool{a.sum + z.sum, a.weight + z.weight, a.n + z.n})
		}
	}
	i := 0
	for _, p := range pools {
		for range p.n {
			l.boxes[rank[i]].x = p.sum/p.weight + offset[i]
			i++
		}
	}
}

// wish is where a box wants to be, and how much.
func (l *layout) wish(b int, fromAbove, fromBelow bool) (x, weight float64) {
	pull := func(near []int) {
		for _, n := range near {
			w := 1.0
			if l.boxes[b].node < 0 {
				w = 2
			}
			if l.boxes[b].node < 0 && l.boxes[n].node < 0 {
				w = 8
			}
			x += float64(w * l.boxes[n].x)
			weight += w
		}
	}
	if !fromBelow {
		pull(l.boxes[b].above)
	}
	if !fromAbove {
		pull(l.boxes[b].below)
	}
	if weight == 0 {
		return l.boxes[b].x, 0.1
	}
	return x / weight, weight
}
