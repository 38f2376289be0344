package fts

import (
	"cmp"
	"math"
	"slices"

	"pawl/internal/text"
)

// grams finds names by the characters that they share with a query: what is misspelled or inflected is still near.
// It is the usual vector model: tf-idf over n-grams, compared by cosine.
type grams struct {
	lists map[string][]posting
	owner []int // by name: what it is a name of
	norms []float64
}

type posting struct {
	name  int32
	count float32
}

// add takes a name in.
func (g *grams) add(owner int, words []string) {
	if g.lists == nil {
		g.lists = map[string][]posting{}
	}
	for gram, n := range text.Grams(words...) {
		g.lists[gram] = append(g.lists[gram], posting{int32(len(g.owner)), float32(n)})
	}
	g.owner = append(g.owner, owner)
}

// weigh is called once, when all names are there.
func (g *grams) weigh() {
	g.norms = make([]float64, len(g.owner))
	for _, list := range g.lists {
		w := g.idf(len(list))
		for _, p := range list {
			g.norms[p.name] += float64(p.count) * w * float64(p.count) * w
		}
	}
	for i, sq := range g.norms {
		g.norms[i] = math.Sqrt(sq)
	}
}

func (g *grams) idf(in int) float64 { return math.Log(1 + float64(len(g.owner))/float64(in)) }

// near is an owner, that name of it which is most like the query, and how like it is, 0 to 1.
type near struct {
	owner, name int
	like        float64
}

// rank gives the n nearest owners. Grams that no name has count too: they make the query longer.
func (g *grams) rank(words []string, n int) []near {
	var length float64
	dots := make([]float64, len(g.owner))
	for gram, count := range text.Grams(words...) {
		list := g.lists[gram]
		w := count * g.idf(max(1, len(list)))
		length += w * w
		for _, p := range list {
			dots[p.name] += w * float64(p.count) * g.idf(len(list))
		}
	}
	var found []near
	for name, dot := range dots {
		if dot > 0 {
			// Rounded, because a map is walked in any order and the sum's last bits follow it.
			like := math.Round(dot/(math.Sqrt(length)*g.norms[name])*1e9) / 1e9
			found = append(found, near{g.owner[name], name, min(1, like)})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(b.like, a.like), cmp.Compare(a.name, b.name))
	})
	best := found[:0]
	seen := map[int]bool{}
	for _, f := range found {
		if !seen[f.owner] && len(best) < n {
			seen[f.owner] = true
			best = append(best, f)
		}
	}
	return best
}
