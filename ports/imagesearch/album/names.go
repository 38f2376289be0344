package album

import (
	"cmp"
	"slices"
	"strings"

	"pawl/internal/text"
)

// roll is all people of an album, each under one number.
type roll struct {
	of      map[string]int32 // by the loose form of the name
	longest int              // bytes of a key
}

// enter is the number of a person, a new one where there is none.
func (r *roll) enter(key string) int32 {
	n, ok := r.of[key]
	if !ok {
		n = int32(len(r.of))
		r.of[key] = n
		r.longest = max(r.longest, len(key))
	}
	return n
}

// match is a name that stands in a query.
type match struct {
	from, to int // bytes
	person   int32
}

// in are the people whose names stand in a query as whole words. The longest name is taken first, and what it covers is no other's:
// where both are in the album, "ann lee harvey oswald" names Lee Harvey Oswald and not Ann Lee.
func (r *roll) in(query string) []int32 {
	var all []match
	ends := edges(query)
	for i, from := range ends {
		for _, to := range ends[i+1:] {
			if to-from > r.longest {
				break
			}
			if person, ok := r.of[query[from:to]]; ok {
				all = append(all, match{from, to, person})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b match) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	var taken []match
	var people []int32
	for _, m := range all {
		if slices.ContainsFunc(taken, func(t match) bool { return m.from < t.to && t.from < m.to }) {
			continue
		}
		taken = append(taken, m)
		if !slices.Contains(people, m.person) {
			people = append(people, m.person)
		}
	}
	return people
}

// edges are the places of a text where a name may begin or end: everywhere but inside a word, which an apostrophe or a hyphen joins.
func edges(s string) []int {
	var at []int
	before, joined := false, false
	for i, r := range s {
		word := text.InWord(r)
		joiner := before && strings.ContainsRune("'’-", r)
		if !joiner && !(word && (before || joined)) {
			at = append(at, i)
		}
		before, joined = word, joiner
	}
	return append(at, len(s))
}
