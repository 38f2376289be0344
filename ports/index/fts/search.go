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

const (
	depth   = 60 // how far each ranking is read
	damping = 60 // of reciprocal rank fusion: how little a first place outweighs a second
)

// term is one word of a query: as it was written, its stem, and what it weighs.
type term struct {
	word, stem string
	weight     float64
}

// Search ranks by words (BM25) and by characters, and fuses the two by rank. Exact names come first.
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
	byWord, err := ix.match(ctx, terms)
	if err != nil {
		return index.Result{}, err
	}
	byChar := ix.grams.rank(words, depth)
	return index.Result{Hits: ix.fuse(nameKey(words), terms, byWord, byChar, q.K), Partial: partial}, nil
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

// match is the ranking by words, best first. Terms are quoted, so FTS5 reads nothing in them.
func (ix *Index) match(ctx context.Context, terms []term) ([]int, error) {
	quoted := make([]string, len(terms))
	for i, t := range terms {
		quoted[i] = `"` + strings.ReplaceAll(t.stem, `"`, `""`) + `"`
	}
	const query = `SELECT rowid FROM docs WHERE docs MATCH ? ORDER BY bm25(docs, 5.0, 1.0), rowid LIMIT ?`
	rows, err := ix.db.QueryContext(ctx, query, strings.Join(quoted, " OR "), depth)
	if err != nil {
		return nil, fmt.Errorf("fts: search: %w", err)
	}
	defer rows.Close()
	var docs []int
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("fts: search: %w", err)
		}
		docs = append(docs, id-1)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("fts: search: %w", err)
	}
	return docs, nil
}

// fuse adds up the reciprocal ranks and gives the k best. A score of 1 is kept for exact names; first in both rankings is just below.
func (ix *Index) fuse(name string, terms []term, byWord []int, byChar []near, k int) []index.Hit {
	scores, likes := map[int]float64{}, map[int]float64{}
	const first = 2.0 / (damping + 1)
	for rank, d := range byWord {
		scores[d] += 0.99 / first / float64(damping+1+rank)
	}
	for rank, n := range byChar {
		scores[n.doc] += 0.99 / first / float64(damping+1+rank)
		likes[n.doc] = n.like
	}
	exact := map[int]bool{}
	for _, d := range ix.names[name] {
		exact[d], scores[d] = true, 1
	}
	order := make([]int, 0, len(scores))
	for d := range scores {
		order = append(order, d)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	hits := make([]index.Hit, min(k, len(order)))
	for i, d := range order[:len(hits)] {
		hits[i] = ix.explain(d, terms)
		hits[i].Score, hits[i].Exact, hits[i].Similarity = scores[d], exact[d], likes[d]
	}
	return hits
}

// explain says which words of the query the document has, and how much they weigh.
func (ix *Index) explain(d int, terms []term) index.Hit {
	doc := &ix.docs[d]
	h := index.Hit{ID: doc.ID, Title: doc.Title, Text: doc.Text}
	var all, title, both float64
	for _, t := range terms {
		all += t.weight
		if doc.title[t.stem] {
			title += t.weight
		}
		if doc.title[t.stem] || doc.text[t.stem] {
			both += t.weight
			h.Words = append(h.Words, t.word)
		}
	}
	if all > 0 {
		h.Coverage, h.TitleCoverage = both/all, title/all
	}
	return h
}
