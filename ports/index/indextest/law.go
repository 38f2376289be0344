// Package indextest is the law of indexes, and a scripted index for tests of what uses one.
//
// It may never know one vendor. Every case says why it is a law.
//
// Start reading at Run; Script is the fake.
package indextest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"pawl/ports/index"
)

// Opener makes an index over docs.
type Opener func(ctx context.Context, docs []index.Document) (index.Index, error)

// shelf is what most cases search.
var shelf = []index.Document{
	{ID: "1", Title: "Truck drivers", Text: "Drive lorries and trucks with goods over long distances", Names: []string{"Lorry driver"}},
	{ID: "2", Title: "Bus drivers", Text: "Drive buses; a truck driver or lorry driver is classified elsewhere. Truck, truck, truck."},
	{ID: "3", Title: "Tailors", Text: "Cut and sew garments from cloth"},
	{ID: "4", Title: "Café owners", Text: "Run a café or tea stall"},
	{ID: "5", Title: "दर्जी", Text: "कपड़े सिलना"},
	{ID: "6", Title: "Plumbers", Text: "Fit and repair water pipes"},
}

// Run holds an index to the law.
func Run(t *testing.T, open Opener) {
	for _, c := range []struct {
		name, why string
		law       func(*testing.T, Opener)
	}{
		{"finds by words", "a document is found by a word of its title or of its text", findsByWords},
		{"exact first", "whoever knows the name gets it first, however often others mention it", exactFirst},
		{"explains", "a hit says what spoke for it, or nobody can judge it", explains},
		{"bounded and ordered", "scores are numbers in 0..1, best first, no document twice, never more than K", boundedAndOrdered},
		{"same answer", "the same query gets the same answer, or no run can be explained", sameAnswer},
		{"nothing asked", "no words, no hits: silence is not an error", nothingAsked},
		{"query is data", "no text is syntax and none is refused", queryIsData},
		{"one text many bytes", "spelling in other bytes does not hide a document", oneTextManyBytes},
		{"misspelled", "a slip of the pen still finds", misspelled},
		{"long query", "a very long query is used by its beginning, and says so", longQuery},
		{"large document", "a document too large is kept, found by its beginning, and flagged", largeDocument},
		{"empty", "an index of nothing answers nothing", empty},
		{"duplicate", "one id is one document", duplicate},
		{"cancelled", "a cancelled search fails and harms nothing", cancelled},
		{"concurrent", "many may search at once", concurrent},
		{"owns its documents", "a caller who changes its slice or a result changes nothing", ownsItsDocuments},
		{"closed", "a closed index says so", closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.law(t, open)
			if t.Failed() {
				t.Logf("the law: %s", c.why)
			}
		})
	}
}

func opened(t *testing.T, open Opener, docs []index.Document) index.Index {
	t.Helper()
	ix, err := open(t.Context(), docs)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { ix.Close() })
	return ix
}

func search(t *testing.T, ix index.Index, query string, k int) index.Result {
	t.Helper()
	r, err := ix.Search(t.Context(), index.Query{Text: query, K: k})
	if err != nil {
		t.Fatalf("search %.60q: %v", query, err)
	}
	return r
}

func first(t *testing.T, ix index.Index, query, id string) index.Hit {
	t.Helper()
	r := search(t, ix, query, 3)
	if len(r.Hits) == 0 || r.Hits[0].ID != id {
		t.Fatalf("search %q: %v, want %s first", query, ids(r), id)
	}
	return r.Hits[0]
}

func ids(r index.Result) (ids []string) {
	for _, h := range r.Hits {
		ids = append(ids, h.ID)
	}
	return ids
}

func findsByWords(t *testing.T, open Opener) {
	ix := opened(t, open, shelf)
	first(t, ix, "tailor", "3")
	first(t, ix, "sews garments", "3")
	first(t, ix, "दर्जी", "5")
	first(t, ix, "सिलना", "5")
}

func exactFirst(t *testing.T, open Opener) {
	ix := opened(t, open, shelf)
	for _, q := range []string{"truck driver", "Truck Drivers", "lorry driver"} {
		if h := first(t, ix, q, "1"); !h.Exact {
			t.Errorf("%q: not exact", q)
		}
	}
	if h := first(t, ix, "long distances", "1"); h.Exact {
		t.Error("words of the text are no name")
	}
}

func explains(t *testing.T, open Opener) {
	h := first(t, opened(t, open, shelf), "Sewing for the tailors", "3")
	if !slices.Equal(h.Words, []string{"sewing", "tailors"}) {
		t.Errorf("words %q", h.Words)
	}
	if h.TitleCoverage <= 0 || h.Coverage <= h.TitleCoverage || h.Coverage >= 1 || h.Similarity <= 0 {
		t.Errorf("coverage %v, in the title %v, similarity %v", h.Coverage, h.TitleCoverage, h.Similarity)
	}
	if h.Title != "Tailors" || h.Text != shelf[2].Text {
		t.Errorf("hit is %q, %q", h.Title, h.Text)
	}
}

func boundedAndOrdered(t *testing.T, open Opener) {
	ix := opened(t, open, shelf)
	for k := range 8 {
		r := search(t, ix, "truck driver of a bus, tailor", k)
		if len(r.Hits) > k {
			t.Errorf("K %d: %d hits", k, len(r.Hits))
		}
		seen := map[string]bool{}
		for i, h := range r.Hits {
			for _, v := range []float64{h.Score, h.Coverage, h.TitleCoverage, h.Similarity, h.Distance()} {
				if !(v >= 0 && v <= 1) || math.IsNaN(v) {
					t.Errorf("hit %s: %v is not in 0..1", h.ID, v)
				}
			}
			if seen[h.ID] || (i > 0 && h.Score > r.Hits[i-1].Score) {
				t.Errorf("hit %s: twice, or better than the one before", h.ID)
			}
			seen[h.ID] = true
		}
	}
	if r := search(t, ix, "truck", -1); len(r.Hits) != 0 {
		t.Errorf("K -1: %d hits", len(r.Hits))
	}
}

func sameAnswer(t *testing.T, open Opener) {
	one, two := opened(t, open, shelf), opened(t, open, shelf)
	want := search(t, one, "drive a truck or a bus", 5)
	for range 20 {
		if !reflect.DeepEqual(search(t, one, "drive a truck or a bus", 5), want) {
			t.Fatal("a second search differs")
		}
	}
	if !reflect.DeepEqual(search(t, two, "drive a truck or a bus", 5), want) {
		t.Error("a second index of the same documents differs")
	}
}

func nothingAsked(t *testing.T, open Opener) {
	ix := opened(t, open, shelf)
	for _, q := range []string{"", "   ", "\u200b\u2060", "?!…", "🚚", "\x00"} {
		if r := search(t, ix, q, 5); len(r.Hits) != 0 {
			t.Errorf("%q: %v", q, ids(r))
		}
	}
}

func queryIsData(t *testing.T, open Opener) {
	ix := opened(t, open, shelf)
	for _, q := range []string{
		`"`, `""`, `'`, `tailor"`, `tailor AND`, `NOT tailor`, `tailor OR`, `NEAR(tailor`, `title:tailor`, `tailor*`, `^tailor`,
		`(tailor`, `tailor)`, `{title}: tailor`, `-tailor`, `+`, `\`, `tailor; DROP TABLE docs; --`, "tailor\x00", "tail\xffor", `%_`,
	} {
		r := search(t, ix, q, 5)
		if strings.Contains(q, "tailor") && !slices.Contains(ids(r), "3") {
			t.Errorf("%q did not find the tailors: %v", q, ids(r))
		}
	}
	first(t, ix, "tailor", "3")
}

func oneTextManyBytes(t *testing.T, open Opener) {
	ix := opened(t, open, shelf)
	for _, q := range []string{"caf\u00e9 owner", "cafe\u0301 owner", "CAFÉ OWNERS", "cafe owner", "ｃａｆｅ owner", "ca\u200bfé owner"} {
		if h := first(t, ix, q, "4"); !h.Exact {
			t.Errorf("%q is not the same name", q)
		}
	}
}

func misspelled(t *testing.T, open Opener) {
	ix := opened(t, open, shelf)
	first(t, ix, "plumer", "6")
	first(t, ix, "tailer", "3")
}

func longQuery(t *testing.T, open Opener) {
	ix := opened(t, open, shelf)
	for _, q := range []string{
		"tailor " + strings.Repeat("x", 1<<20),
		"tailor " + strings.Repeat("word ", 1<<18),
		manyWords("tailor", 100_000),
	} {
		r := search(t, ix, q, 3)
		if !r.Partial || len(r.Hits) == 0 || r.Hits[0].ID != "3" {
			t.Errorf("%.20q…: partial %v, hits %v", q, r.Partial, ids(r))
		}
	}
	if search(t, ix, "tailor", 1).Partial {
		t.Error("a short query is partial")
	}
}

func manyWords(head string, n int) string {
	var b strings.Builder
	b.WriteString(head)
	for i := range n {
		fmt.Fprintf(&b, " word%d", i)
	}
	return b.String()
}

func largeDocument(t *testing.T, open Opener) {
	docs := append(slices.Clone(shelf),
		index.Document{ID: "many words", Title: "Archivists", Text: manyWords("parchment", 200_000)},
		index.Document{ID: "one word", Title: "Encoders", Text: "punchcard " + strings.Repeat("x", 200_000)})
	ix := opened(t, open, docs)
	first(t, ix, "parchment", "many words")
	first(t, ix, "punchcard", "one word")
	if got := ix.Partial(); !slices.Equal(got, []string{"many words", "one word"}) {
		t.Errorf("partial: %q", got)
	}
	if h := first(t, ix, "archivist", "many words"); h.Text != docs[6].Text {
		t.Error("the document itself was cut")
	}
}

func empty(t *testing.T, open Opener) {
	if r := search(t, opened(t, open, nil), "tailor", 5); len(r.Hits) != 0 {
		t.Errorf("hits %v", ids(r))
	}
}

func duplicate(t *testing.T, open Opener) {
	_, err := open(t.Context(), []index.Document{{ID: "1", Title: "a"}, {ID: "1", Title: "b"}})
	if !errors.Is(err, index.ErrDuplicate) {
		t.Errorf("error %v", err)
	}
}

func cancelled(t *testing.T, open Opener) {
	ix := opened(t, open, shelf)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ix.Search(ctx, index.Query{Text: "tailor", K: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	first(t, ix, "tailor", "3")
}

func concurrent(t *testing.T, open Opener) {
	ix := opened(t, open, shelf)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				r, err := ix.Search(context.Background(), index.Query{Text: "tailor", K: 1})
				if err != nil || len(r.Hits) != 1 {
					t.Errorf("%v, %v", r, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func ownsItsDocuments(t *testing.T, open Opener) {
	docs := []index.Document{{ID: "1", Title: "Tailors", Names: []string{"Darners"}}}
	ix := opened(t, open, docs)
	docs[0].Title, docs[0].Names[0] = "changed", "changed"
	r := search(t, ix, "darner", 1)
	r.Hits[0].Title, r.Hits[0].Words[0] = "changed", "changed"
	if h := first(t, ix, "darner", "1"); h.Title != "Tailors" || h.Words[0] != "darner" {
		t.Errorf("hit %+v", h)
	}
}

func closed(t *testing.T, open Opener) {
	ix := opened(t, open, shelf)
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ix.Search(t.Context(), index.Query{Text: "tailor", K: 1}); !errors.Is(err, index.ErrClosed) {
		t.Errorf("search: %v", err)
	}
	if err := ix.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
