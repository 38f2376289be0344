package fts

import (
	"cmp"
	"maps"
	"slices"

	"pawl/internal/text"
)

// stems are the stems of all documents, to be found by those that are like them.
type stems struct {
	all   []string
	sizes []int32            // n-grams of each
	lists map[string][]int32 // n-gram -> stems, once for each time that they have it
}

const (
	alike = 0.45 // stems that share so many of their n-grams (Dice) are taken for relatives
	most  = 4    // relatives of one word
)

func (s *stems) gather(seen map[string]int) {
	s.lists = map[string][]int32{}
	for _, stem := range slices.Sorted(maps.Keys(seen)) {
		n := int32(len(s.all))
		s.all = append(s.all, stem)
		size := int32(0)
		for gram, count := range text.Grams(stem) {
			for range int(count) {
				s.lists[gram] = append(s.lists[gram], n)
				size++
			}
		}
		s.sizes = append(s.sizes, size)
	}
}

// relatives are the stems most like one, without itself.
func (s *stems) relatives(stem string) []string {
	shared := map[int32]int32{}
	size := int32(0)
	for gram, count := range text.Grams(stem) {
		size += int32(count)
		had := map[int32]int32{}
		for _, n := range s.lists[gram] {
			if had[n] < int32(count) {
				had[n]++
				shared[n]++
			}
		}
	}
	type relative struct {
		stem string
		like float64
	}
	var found []relative
	for n, both := range shared {
		like := 2 * float64(both) / float64(size+s.sizes[n])
		if like >= alike && s.all[n] != stem {
			found = append(found, relative{s.all[n], like})
		}
	}
	slices.SortFunc(found, func(a, b relative) int {
		return cmp.Or(cmp.Compare(b.like, a.like), cmp.Compare(a.stem, b.stem))
	})
	var out []string
	for _, f := range found[:min(most, len(found))] {
		out = append(out, f.stem)
	}
	return out
}
