package fts

import (
	"cmp"
	"math"
	"slices"

	"pawl/internal/text"
)

// grams ranks titles by the characters that they share with a query: what is misspelled or inflected is still near.
// It is the usual vector model: tf-idf over n-grams, compared by cosine.
type grams struct {
	lists map[string][]posting
	norms []float64 // by document
}

type posting struct {
	doc   int
	count float64
}

func (g *grams) add(doc int, words []string) {
	if g.lists == nil {
		g.lists = map[string][]posting{}
	}
	for gram, n := range text.Grams(words...) {
		g.lists[gram] = append(g.lists[gram], posting{doc, n})
	}
}

// weigh is called once, when all n documents are there.
func (g *grams) weigh(n int) {
	g.norms = make([]float64, n)
	for _, list := range g.lists {
		w := g.idf(len(list))
		for _, p := range list {
			g.norms[p.doc] += p.count * w * p.count * w
		}
	}
	for i, sq := range g.norms {
		g.norms[i] = math.Sqrt(sq)
	}
}

func (g *grams) idf(in int) float64 { return math.Log(1 + float64(len(g.norms))/float64(in)) }

// near is a document and its likeness to the query, 0 to 1.
type near struct {
	doc  int
	like float64
}

// rank gives the n nearest documents. Grams that no document has count too: they make the query longer.
func (g *grams) rank(words []string, n int) []near {
	var length float64
	dots := make([]float64, len(g.norms))
	for gram, count := range text.Grams(words...) {
		list := g.lists[gram]
		w := count * g.idf(max(1, len(list)))
		length += w * w
		for _, p := range list {
			dots[p.doc] += w * p.count * g.idf(len(list))
		}
	}
	var found []near
	for d, dot := range dots {
		if dot > 0 {
			// Rounded, because a map is walked in any order and the sum's last bits follow it.
			like := math.Round(dot/(math.Sqrt(length)*g.norms[d])*1e9) / 1e9
			found = append(found, near{d, min(1, like)})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(b.like, a.like), cmp.Compare(a.doc, b.doc))
	})
	return found[:min(n, len(found))]
}
