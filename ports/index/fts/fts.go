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
	db     *sql.DB
	docs   []doc
	groups []group
	exact  map[string][]int // stems of a title or name, joined by spaces -> documents
	seen   map[string]int   // stem -> in how many documents it is
	names  names            // of documents
	kin    names            // of groups
	stems  stems

	partial []string

	mu     sync.RWMutex
	closed bool
}

// doc is one document with the stems that explain its hits.
type doc struct {
	index.Document
	group int             // -1: none
	title map[string]bool // stems of title and names
	text  map[string]bool // stems of the text
}

// group is a group with its documents, and the stems of its names.
type group struct {
	words string
	stems map[string]bool
	docs  []int
}

// names are the names of all documents, or of all groups.
type names struct {
	grams
	shown []string
}

func (n *names) add(owner int, name string, words []string) {
	if len(words) > 0 {
		n.grams.add(owner, words)
		n.shown = append(n.shown, name)
	}
}

var _ index.Index = (*Index)(nil)

// Open indexes the documents, in one transaction. A document of a group that is not given is an error.
func Open(ctx context.Context, docs []index.Document, groups ...index.Group) (*Index, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, fmt.Errorf("fts: open: %w", err)
	}
	db.SetMaxOpenConns(1) // every connection to :memory: is a database of its own
	ix := &Index{db: db, exact: map[string][]int{}, seen: map[string]int{}}
	if err := ix.fill(ctx, docs, groups); err != nil {
		db.Close()
		return nil, err
	}
	return ix, nil
}

func (ix *Index) fill(ctx context.Context, docs []index.Document, groups []index.Group) error {
	tx, err := ix.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fts: begin: %w", err)
	}
	defer tx.Rollback()
	// The words arrive folded and stemmed; FTS5 only has to split them, and vowel signs (M*) belong to their words.
	const form = `content='', tokenize="unicode61 remove_diacritics 0 categories 'L* N* M* Co'"`
	for _, schema := range []string{
		`CREATE VIRTUAL TABLE docs USING fts5(title, text, kin, ` + form + `)`,
		`INSERT INTO docs(docs, rank) VALUES ('rank', 'bm25(5.0, 1.0, 1.0)')`, // a title weighs five times as much as the rest
		`CREATE VIRTUAL TABLE groups USING fts5(names, ` + form + `)`,
	} {
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return fmt.Errorf("fts: create: %w", err)
		}
	}
	at, err := ix.gather(ctx, tx, groups)
	if err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, `INSERT INTO docs(rowid, title, text, kin) VALUES (?, ?, ?, ?)`)
	if err != nil {
		return fmt.Errorf("fts: prepare: %w", err)
	}
	ids := make(map[string]bool, len(docs))
	for i, d := range docs {
		if ids[d.ID] {
			return fmt.Errorf("fts: document %q: %w", d.ID, index.ErrDuplicate)
		}
		ids[d.ID] = true
		g, ok := at[d.Group]
		if !ok {
			return fmt.Errorf("fts: document %q: there is no group %q", d.ID, d.Group)
		}
		title, body := ix.add(i, d, g)
		kin := ""
		if g >= 0 {
			kin = ix.groups[g].words
		}
		if _, err := insert.ExecContext(ctx, i+1, title, body, kin); err != nil {
			return fmt.Errorf("fts: document %q: %w", d.ID, err)
		}
	}
	ix.names.weigh()
	ix.kin.weigh()
	ix.stems.gather(ix.seen)
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fts: commit: %w", err)
	}
	return nil
}

// gather takes the groups in and says where each one is.
func (ix *Index) gather(ctx context.Context, tx *sql.Tx, groups []index.Group) (map[string]int, error) {
	at := map[string]int{"": -1}
	for i, g := range groups {
		if _, twice := at[g.ID]; twice {
			return nil, fmt.Errorf("fts: group %q: %w", g.ID, index.ErrDuplicate)
		}
		at[g.ID] = i
		kept := group{stems: map[string]bool{}}
		var all []string
		for _, name := range g.Names {
			words, _ := bounded(name)
			ix.kin.add(i, name, words)
			all = append(all, words...)
		}
		kept.words = stemmed(all, kept.stems)
		ix.groups = append(ix.groups, kept)
		if _, err := tx.ExecContext(ctx, `INSERT INTO groups(rowid, names) VALUES (?, ?)`, i+1, kept.words); err != nil {
			return nil, fmt.Errorf("fts: group %q: %w", g.ID, err)
		}
	}
	return at, nil
}

// add keeps what explains a hit on d and returns what FTS5 is given of it.
func (ix *Index) add(i int, d index.Document, in int) (title, body string) {
	d.Names = slices.Clone(d.Names)
	kept := doc{Document: d, group: in, title: map[string]bool{}, text: map[string]bool{}}
	heads, cutTitle := bounded(d.Title)
	ix.name(i, d.Title, heads)
	for _, n := range d.Names {
		words, cut := bounded(n)
		ix.name(i, n, words)
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
	if in >= 0 {
		ix.groups[in].docs = append(ix.groups[in].docs, i)
		for s := range ix.groups[in].stems {
			if !kept.title[s] && !kept.text[s] {
				ix.seen[s]++
			}
		}
	}
	if cut || cutTitle {
		ix.partial = append(ix.partial, d.ID)
	}
	ix.docs = append(ix.docs, kept)
	return title, body
}

func (ix *Index) name(i int, name string, words []string) {
	ix.names.add(i, name, words)
	key := nameKey(words)
	if key != "" && !slices.Contains(ix.exact[key], i) {
		ix.exact[key] = append(ix.exact[key], i)
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
