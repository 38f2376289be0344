// Package index is the port to lexical search: a fixed set of documents is given once, and short texts are looked up in it.
//
// It may never know a vendor, a query language or what the documents are about. A query is always data: there is no
// syntax in it, and no text that is refused.
//
// Start reading at Index; indextest is the law that every vendor passes, fts the one that is built in.
package index

import (
	"context"
	"errors"
)

// Limits that hold for every index. What is longer is cut there, and the cut is reported, never an error.
const (
	MaxText  = 64 << 10 // characters of a document that are searched
	MaxQuery = 4 << 10  // characters of a query that are used
	MaxTerms = 64       // different words of a query that are used
)

// The faults of an index. Everything else is the vendor's own error.
var (
	ErrClosed    = errors.New("index: closed")
	ErrDuplicate = errors.New("index: two documents have one id")
)

// Document is one thing that can be found.
type Document struct {
	ID    string
	Title string
	Names []string // other exact names of it
	Text  string
	Group string // the kind of things that it is one of, if there are groups
}

// Group is what the documents of one kind have in common: its names say a little for each of them.
type Group struct {
	ID    string
	Names []string
}

// Query asks for the K best documents.
type Query struct {
	Text string
	K    int
}

// Hit is one document found, with what spoke for it.
type Hit struct {
	ID    string
	Title string
	Text  string // as it was given, however much of it was searched

	Score float64 // 0 to 1, best first; comparable within one result only
	Exact bool    // the query is its title or one of its names

	// These are comparable between results.
	Coverage      float64  // share of the query's weight whose words are in the document, rare words weighing more
	TitleCoverage float64  // the same, in its title and names only
	Similarity    float64  // likeness of the query by its characters to Name, 0 to 1
	Name          string   // the title or name that is most like the query
	Kinship       float64  // likeness of the query by its characters to Kin, 0 to 1
	Kin           string   // the name of its group that is most like the query
	Words         []string // words of the query that are in the document or among the names of its group, as the query has them
}

// Distance is what a vector store would call it: 0 for the best that can be.
func (h Hit) Distance() float64 { return 1 - h.Score }

// Result is the answer to one query.
type Result struct {
	Hits    []Hit // best first, no document twice
	Partial bool  // only the beginning of the query was used
}

// Index finds documents. It is safe for concurrent use, and the same query gets the same answer.
type Index interface {
	Search(ctx context.Context, q Query) (Result, error)
	// Partial lists the documents that were too large to be searched whole: they can be found by their beginning.
	Partial() []string
	Close() error
}
