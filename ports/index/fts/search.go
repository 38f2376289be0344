package fts

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"pawl/internal/text"
	"pawl/ports/index"
)

// depth is how far each ranking is read.
const depth = 100

// What a first place in each ranking weighs. They were chosen on some thousand job titles with known groups, none of which
// any evaluation has: by words and by spelling alike, and by what a document's group is called about as much.
const (
	byWords     = 1.0 // BM25 of the query's words in the document, its title five times as heavy as the rest
	byRelatives = 0.3 // BM25 of words that are like them
	byName      = 1.0 // likeness to the nearest of its names
	byKin       = 1.0 // likeness to the nearest name of its group
	byGroup     = 1.0 // BM25 of the query's words among the names of its group
)

const (
	matchDocs   = `SELECT rowid, -rank FROM docs WHERE docs MATCH ? ORDER BY rank LIMIT ?`
	matchGroups = `SELECT rowid, -rank FROM groups WHERE groups MATCH ? ORDER BY rank LIMIT ?`
)

// term is one word of a query: as it was written, its stem, and what it weighs.
type term struct {
	word, stem string
	weight     float64
}

// Search ranks by words and by characters, in the documents and in what their groups are called, and adds up. Exact names
// come first.
func (ix *Index) Search(ctx context.Context, q index.Query) (index.Result, error) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	if ix.closed {
		return index.Result{}, index.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return index.Result{}, fmt.Errorf("fts: search: %w", err)
	}
	words, partial := limited(q.Text)
	if len(words) == 0 || q.K <= 0 {
		return index.Result{Partial: partial}, nil
	}
	terms := ix.weigh(words)
	f := found{ix: ix, scores: map[int]float64{}, names: map[int]near{}, kin: map[int]near{}}
	if err := f.byWords(ctx, terms); err != nil {
		return index.Result{}, err
	}
	if err := f.byGroups(ctx, terms, words); err != nil {
		return index.Result{}, err
	}
	for _, n := range ix.names.rank(words, depth) {
		f.names[n.owner] = n
		f.scores[n.owner] += byName * n.like
	}
	return index.Result{Hits: f.best(nameKey(words), terms, q.K), Partial: partial}, nil
}

// limited gives the words of a query that are used, and whether some were not.
func limited(query string) (words []string, cut bool) {
	query, cut = text.Clip(query, index.MaxQuery)
	words = text.Words(query)
	different := map[string]bool{}
	for i, w := range words {
		words[i], _ = text.Clip(w, maxWord)
		if different[w] = true; len(different) > index.MaxTerms {
			return words[:i], true
		}
	}
	return words, cut
}

// weigh gives every different word its weight: rare words tell more, a word that no document has tells most.
func (ix *Index) weigh(words []string) []term {
	var terms []term
	done := map[string]bool{}
	for _, w := range words {
		s := text.Stem(w)
		if done[s] {
			continue
		}
		done[s] = true
		terms = append(terms, term{w, s, math.Log(1 + float64(len(ix.docs))/float64(1+ix.seen[s]))})
	}
	return terms
}

// found is what a search has found so far.
type found struct {
	ix     *Index
	scores map[int]float64
	names  map[int]near // by document
	kin    map[int]near // by group
}

func (f *found) byWords(ctx context.Context, terms []term) error {
	var said, like []string
	for _, t := range terms {
		said = append(said, t.stem)
		like = append(like, f.ix.stems.relatives(t.stem)...)
	}
	said, like = f.ix.rare(said, 2), f.ix.rare(like, 20)
	for _, m := range []struct {
		stems  []string
		weight float64
	}{{said, byWords}, {like, byRelatives}} {
		hits, err := f.ix.match(ctx, matchDocs, m.stems)
		if err != nil {
			return err
		}
		for _, h := range hits {
			f.scores[h.row] += m.weight * h.share
		}
	}
	return nil
}

// rare leaves out the words that more than one of so many documents has, if there are others: they cost much and tell little.
func (ix *Index) rare(stems []string, of int) []string {
	rare := slices.DeleteFunc(slices.Clone(stems), func(s string) bool { return ix.seen[s] > 1+len(ix.docs)/of })
	if len(rare) == 0 {
		return stems
	}
	return rare
}

// byGroups adds to every document what speaks for its group.
func (f *found) byGroups(ctx context.Context, terms []term, words []string) error {
	if len(f.ix.groups) == 0 {
		return nil
	}
	shares := map[int]float64{}
	for _, n := range f.ix.kin.rank(words, depth) {
		f.kin[n.owner] = n
		shares[n.owner] += byKin * n.like
	}
	stems := make([]string, len(terms))
	for i, t := range terms {
		stems[i] = t.stem
	}
	hits, err := f.ix.match(ctx, matchGroups, stems)
	if err != nil {
		return err
	}
	for _, h := range hits {
		shares[h.row] += byGroup * h.share
	}
	for g, share := range shares {
		for _, d := range f.ix.groups[g].docs {
			f.scores[d] += share
		}
	}
	return nil
}

// row is a row that matches, and its BM25 as a share of the best one's.
type row struct {
	row   int
	share float64
}

// match is a ranking by words, best first. Terms are quoted, so FTS5 reads nothing in them.
func (ix *Index) match(ctx context.Context, query string, stems []string) ([]row, error) {
	if len(stems) == 0 {
		return nil, nil
	}
	quoted := make([]string, len(stems))
	for i, s := range stems {
		quoted[i] = `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	rows, err := ix.db.QueryContext(ctx, query, strings.Join(quoted, " OR "), depth)
	if err != nil {
		return nil, fmt.Errorf("fts: search: %w", err)
	}
	defer rows.Close()
	var out []row
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.row, &r.share); err != nil {
			return nil, fmt.Errorf("fts: search: %w", err)
		}
		r.row--
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("fts: search: %w", err)
	}
	if len(out) > 0 {
		best := max(out[0].share, 1e-9)
		for i := range out {
			out[i].share /= best
		}
	}
	return out, nil
}

// best gives the k best. A score of 1 is kept for exact names; first in every ranking is just below.
func (f *found) best(name string, terms []term, k int) []index.Hit {
	all := byWords + byRelatives + byName
	if len(f.ix.groups) > 0 {
		all += byKin + byGroup
	}
	for d, s := range f.scores {
		f.scores[d] = math.Round(0.99*s/all*1e9) / 1e9 // rounded, because sums were made in any order
	}
	exact := map[int]bool{}
	for _, d := range f.ix.exact[name] {
		exact[d], f.scores[d] = true, 1
	}
	order := make([]int, 0, len(f.scores))
	for d := range f.scores {
		order = append(order, d)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(f.scores[b], f.scores[a]), cmp.Compare(a, b)) })
	hits := make([]index.Hit, min(k, len(order)))
	for i, d := range order[:len(hits)] {
		hits[i] = f.explain(d, terms)
		hits[i].Score, hits[i].Exact = f.scores[d], exact[d]
	}
	return hits
}

// explain says which words and which name of the document, or of its group, spoke for it.
func (f *found) explain(d int, terms []term) index.Hit {
	doc := &f.ix.docs[d]
	h := index.Hit{ID: doc.ID, Title: doc.Title, Text: doc.Text}
	var kin map[string]bool
	if doc.group >= 0 {
		kin = f.ix.groups[doc.group].stems
		if n, ok := f.kin[doc.group]; ok {
			h.Kin, h.Kinship = f.ix.kin.shown[n.name], n.like
		}
	}
	if n, ok := f.names[d]; ok {
		h.Name, h.Similarity = f.ix.names.shown[n.name], n.like
	}
	var all, title, both float64
	for _, t := range terms {
		all += t.weight
		if doc.title[t.stem] {
			title += t.weight
		}
		if doc.title[t.stem] || doc.text[t.stem] || kin[t.stem] {
			both += t.weight
			h.Words = append(h.Words, t.word)
		}
	}
	if all > 0 {
		h.Coverage, h.TitleCoverage = both/all, title/all
	}
	return h
}
