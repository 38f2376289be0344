package fts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pawl/ports/index"
	"pawl/ports/index/fts"
	"pawl/ports/index/indextest"
)

func open(ctx context.Context, docs []index.Document) (index.Index, error) {
	ix, err := fts.Open(ctx, docs)
	if err != nil {
		return nil, err
	}
	return ix, nil
}

func TestLaw(t *testing.T) { indextest.Run(t, open) }

// The big list of naughty strings: every one is data.
func TestNaughtyStrings(t *testing.T) {
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "adversarial", "blns.json"))
	if err != nil {
		t.Skipf("no shared test data (set PAWL_TESTDATA): %v", err)
	}
	var naughty []string
	if err := json.Unmarshal(raw, &naughty); err != nil {
		t.Fatal(err)
	}
	ix, err := open(t.Context(), numbered(200))
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	for _, s := range naughty {
		if _, err := ix.Search(t.Context(), index.Query{Text: s, K: 5}); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// numbered makes documents of about the size of an occupation: a title and some 600 characters.
func numbered(n int) []index.Document {
	docs := make([]index.Document, n)
	for i := range docs {
		body := ""
		for j := range 75 {
			body += fmt.Sprintf("word%d ", (i*31+j*j*17)%9000)
		}
		docs[i] = index.Document{ID: fmt.Sprint(i), Title: fmt.Sprintf("Operator%d, Machine%d", i, i%97), Text: body}
	}
	return docs
}

func BenchmarkOpen(b *testing.B) {
	docs := numbered(3600)
	for b.Loop() {
		ix, err := open(b.Context(), docs)
		if err != nil {
			b.Fatal(err)
		}
		ix.Close()
	}
}

func BenchmarkSearch(b *testing.B) {
	ix, err := open(b.Context(), numbered(3600))
	if err != nil {
		b.Fatal(err)
	}
	defer ix.Close()
	for b.Loop() {
		if _, err := ix.Search(b.Context(), index.Query{Text: "operator of machine word17 with word31 and word48", K: 5}); err != nil {
			b.Fatal(err)
		}
	}
}
