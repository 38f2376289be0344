// Package album searches an album of photographs by who is in them.
//
// It may never look at what fetching or recognizing a photograph would give, or invent a link: the same query gets the same answer,
// in this process and the next.
//
// Start reading at New; names.go finds the people of a query.
package album

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"slices"

	"pawl/internal/album"
	"pawl/internal/text"
	"pawl/ports/imagesearch"
)

type searcher struct {
	album  *album.Album
	people roll
	of     [][]int32 // photographs of each person, as places in the album
}

// New is the search of an album. A photograph is found by the names in a query, spelled with their accents and punctuation or without as
// names are compared (text.Loose), and the more of them its caption has, the sooner it comes; among equals a hash of the query and the photograph decides, so that no photograph is always first.
func New(a *album.Album) imagesearch.Searcher {
	s := &searcher{album: a, people: roll{of: map[string]int32{}}}
	for i, p := range a.Photos() {
		for _, name := range p.People {
			n := s.people.enter(cmp.Or(text.Loose(name), text.Key(name)))
			if int(n) == len(s.of) {
				s.of = append(s.of, nil)
			}
			if at := s.of[n]; len(at) == 0 || at[len(at)-1] != int32(i) { // one person in two spellings is one
				s.of[n] = append(at, int32(i))
			}
		}
	}
	return s
}

func (s *searcher) Name() string { return "album" }

// found is a photograph that has names of the query.
type found struct {
	photo int32
	names int
	lot   [sha256.Size]byte
}

func (s *searcher) Search(ctx context.Context, q imagesearch.Query) ([]imagesearch.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, imagesearch.FaultOf(s.Name(), err, nil)
	}
	if err := q.Check(s.Name()); err != nil {
		return nil, err
	}
	query := text.Key(q.Text)
	people := s.people.in(text.Loose(q.Text))
	if len(people) == 0 {
		people = s.people.in(query) // there are names without a word
	}
	names := map[int32]int{} // that a photograph has
	for _, person := range people {
		for _, photo := range s.of[person] {
			names[photo]++
		}
	}
	all := make([]found, 0, len(names))
	for photo, n := range names {
		all = append(all, found{photo, n, sha256.Sum256([]byte(query + "\x00" + s.album.Photos()[photo].ID))})
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.names, a.names), bytes.Compare(a.lot[:], b.lot[:]))
	})
	results := make([]imagesearch.Result, 0, min(q.Count, len(all)))
	for _, f := range all[:cap(results)] {
		p := s.album.Photos()[f.photo]
		results = append(results, imagesearch.Result{
			ImageURL: p.URL(), ContextURL: cmp.Or(p.Link, p.URL()), Title: p.Caption(),
		})
	}
	return results, nil
}
