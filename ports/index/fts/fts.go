// Package fts is the index that is built in: SQLite's FTS5 in memory for words, character n-grams for spellings.
//
// It may never write to disk or let a query be anything but data. It holds no vocabulary of a trade: documents and
// queries go through the same package text.
//
// Start reading at Open, then Search in search.go.
package fts

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"

	_ "modernc.org/sqlite" // the driver, without cgo

	"pawl/internal/text"
	"pawl/ports/index"
)

// maxWord bounds one word: a blob of base64 is not a word that anybody looks up.
const maxWord = 64

// Index is an index.Index over a private database in memory.
type Index struct {
	db      *sql.DB
	docs    []doc
	names   map[string][]int // stems of a title or name, joined by spaces -> documents
	seen    map[string]int   // stem -> in how many documents it is
	grams   grams
	partial []string

	mu     sync.RWMutex
	closed bool
}

// doc is one document with the stems that explain its hits.
type doc struct {
	index.Document
	title map[string]bool // stems of title and names
	text  map[string]bool // stems of the text
}

var _ index.Index = (*Index)(nil)

// Open indexes the documents, in one transaction.
func Open(ctx context.Context, docs []index.Document) (*Index, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, fmt.Errorf("fts: open: %w", err)
	}
	db.SetMaxOpenConns(1) // every connection to :memory: is a database of its own
	ix := &Index{db: db, names: map[string][]int{}, seen: map[string]int{}}
	if err := ix.fill(ctx, docs); err != nil {
		db.Close()
		return nil, err
	}
	return ix, nil
}

func (ix *Index) fill(ctx context.Context, docs []index.Document) error {
	tx, err := ix.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fts: begin: %w", err)
	}
	defer tx.Rollback()
	// The words arrive folded and stemmed; FTS5 only has to split them, and vowel signs (M*) belong to their words.
	const schema = `CREATE VIRTUAL TABLE docs USING fts5(title, text, content='', tokenize="unicode61 remove_diacritics 0 categories 'L* N* M* Co'")`
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("fts: create: %w", err)
	}
	insert, err := tx.PrepareContext(ctx, `INSERT INTO docs(rowid, title, text) VALUES (?, ?, ?)`)
	if err != nil {
		return fmt.Errorf("fts: prepare: %w", err)
	}
	ids := make(map[string]bool, len(docs))
	for i, d := range docs {
		if ids[d.ID] {
			return fmt.Errorf("fts: document %q: %w", d.ID, index.ErrDuplicate)
		}
		ids[d.ID] = true
		title, body := ix.add(i, d)
		if _, err := insert.ExecContext(ctx, i+1, title, body); err != nil {
			return fmt.Errorf("fts: document %q: %w", d.ID, err)
		}
	}
	ix.grams.weigh(len(docs))
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fts: commit: %w", err)
	}
	return nil
}

// add keeps what explains a hit on d and returns what FTS5 is given of it.
func (ix *Index) add(i int, d index.Document) (title, body string) {
	d.Names = slices.Clone(d.Names)
	kept := doc{Document: d, title: map[string]bool{}, text: map[string]bool{}}
	heads, cutTitle := bounded(d.Title)
	ix.name(i, heads)
	ix.grams.add(i, heads)
	for _, n := range d.Names {
		words, cut := bounded(n)
		ix.name(i, words)
		heads, cutTitle = append(heads, words...), cutTitle || cut
	}
	words, cut := bounded(d.Text)
	title, body = stemmed(heads, kept.title), stemmed(words, kept.text)
	for s := range kept.title {
		ix.seen[s]++
	}
	for s := range kept.text {
		if !kept.title[s] {
			ix.seen[s]++
		}
	}
	if cut || cutTitle {
		ix.partial = append(ix.partial, d.ID)
	}
	ix.docs = append(ix.docs, kept)
	return title, body
}

func (ix *Index) name(i int, words []string) {
	key := nameKey(words)
	if key != "" && !slices.Contains(ix.names[key], i) {
		ix.names[key] = append(ix.names[key], i)
	}
}

// nameKey is the form in which a title and a query are the same: "Drivers, Car" and "car driver" are not, "Car Driver" and "car drivers" are.
func nameKey(words []string) string { return stemmed(words, nil) }

// stemmed joins the stems of words, and adds them to set.
func stemmed(words []string, set map[string]bool) string {
	var b strings.Builder
	for _, w := range words {
		s := text.Stem(w)
		if set != nil {
			set[s] = true
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s)
	}
	return b.String()
}

// bounded gives the words of s that are indexed, and whether some were cut.
func bounded(s string) (words []string, cut bool) {
	s, cut = text.Clip(s, index.MaxText)
	words = text.Words(s)
	for i, w := range words {
		short, long := text.Clip(w, maxWord)
		words[i], cut = short, cut || long
	}
	return words, cut
}

// Partial lists the documents of which only the beginning can be found.
func (ix *Index) Partial() []string { return slices.Clone(ix.partial) }

// Close frees the memory. Searches that are under way end first.
func (ix *Index) Close() error {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.closed {
		return nil
	}
	ix.closed = true
	return ix.db.Close()
}
