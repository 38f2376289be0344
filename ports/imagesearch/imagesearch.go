// Package imagesearch is the port to the search of pictures: a few words in, pictures out, each with the page it stands on.
//
// It may never fetch a picture, know a vendor, or page: the first few results are all that anybody looks at.
//
// Start reading at Searcher; Failure is what goes wrong, imagesearchtest the law that every vendor passes.
package imagesearch

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"pawl"
)

// Searcher is one service that searches pictures, safe for concurrent use. It makes one attempt and never retries; its errors are
// those of this package (see Failure). That nothing is found is no error.
type Searcher interface {
	Name() string // "brave", for people and records
	Search(ctx context.Context, q Query) ([]Result, error)
}

// Query is what is searched. One that a vendor takes every vendor takes.
type Query struct {
	Text  string // as people would write it, at most MaxText characters in MaxWords words
	Count int    // of results wanted, 1 to MaxCount
}

// What every vendor takes.
const (
	MaxText  = 200 // characters: Openverse cuts there, without a word
	MaxWords = 50  // Brave's limit
	MaxCount = 10  // Google's largest page
)

// MaxURL is how many bytes an address of a result may have: a longer one nobody fetches.
const MaxURL = 8 << 10

// Result is a picture that was found. ImageURL and ContextURL are addresses of the web, or of an album (album:ID), never empty or longer
// than MaxURL, and no two results have one ImageURL.
type Result struct {
	ImageURL     string `json:"imageUrl"`
	ThumbnailURL string `json:"thumbnailUrl,omitempty"`
	ContextURL   string `json:"contextUrl"`          // the page where it stands
	Title        string `json:"title"`               // text, in one line
	Sensitive    bool   `json:"sensitive,omitempty"` // the source warns that it may offend: show it to nobody unasked
}

// Check refuses a query that nobody shall be asked. It is never cut: what is left of a query would find somebody else.
func (q Query) Check(source string) error {
	text := ""
	switch chars, words := utf8.RuneCountInString(q.Text), len(strings.Fields(q.Text)); {
	case !utf8.ValidString(q.Text):
		text = "the query is not UTF-8"
	case words == 0:
		text = "the query is empty"
	case chars > MaxText:
		text = fmt.Sprintf("the query has %d characters, at most %d are searched", chars, MaxText)
	case words > MaxWords:
		text = fmt.Sprintf("the query has %d words, at most %d are searched", words, MaxWords)
	case q.Count < 1 || q.Count > MaxCount:
		text = fmt.Sprintf("%d results are wanted, 1 to %d can be", q.Count, MaxCount)
	default:
		return nil
	}
	return Failure{Source: source, Code: pawl.CodeInvalid, Text: text, After: -1}.Fault()
}
