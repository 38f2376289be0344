package app

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pawl"
	"pawl/ports/faces"
	"pawl/ports/imagesearch"
)

// TestAlbum: what is found in the album that is built in can be fetched, and whoever was searched is in it: Madame Curie is beside
// Einstein, and Einstein beside Churchill.
func TestAlbum(t *testing.T) {
	t.Parallel()
	a, err := Opening{}.Album("")
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][]string{{"Marie Curie", "Albert Einstein"}, {"Albert Einstein", "Winston Churchill"}} {
		found, err := a.Searcher.Search(t.Context(), imagesearch.Query{Text: strings.Join(pair, " "), Count: 5})
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pair, found, err)
		}
		picture, err := a.Fetcher.Image(t.Context(), found[0].ImageURL)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := a.Recognizer.Recognize(t.Context(), faces.Picture{URL: picture.URL, Type: picture.Type, Bytes: picture.Bytes})
		for _, name := range pair {
			if err != nil || !slices.ContainsFunc(seen.Faces, func(f faces.Face) bool { return f.Name == name && f.Confidence == 100 }) {
				t.Errorf("%s: %s is not in %+v, %v", pair, name, seen, err)
			}
		}
	}
}

// TestAlbumFile: a user's own, or what is wrong with it.
func TestAlbumFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		"id,people\n1,Ann|Bob\n":    "",
		"id,people\n1,Ann|\n":       "line 2, column 3: people: number 2 is empty",
		"id,people,notes\n1,Ann,\n": `line 1, column 11: "notes" is no field`,
	} {
		file := filepath.Join(dir, "a.csv")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := Opening{}.Album(file)
		if want == "" {
			if err != nil || len(a.Photos.Photos()) != 1 {
				t.Errorf("%q: %+v, %v", text, a, err)
			}
			continue
		}
		if a != nil || !isInvalid(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := (Opening{}).Album(filepath.Join(dir, "none.csv")); !isInvalid(err) {
		t.Errorf("no such file: %v", err)
	}
}

func isInvalid(err error) bool {
	e, ok := errors.AsType[*pawl.Error](err)
	return ok && e.Code == pawl.CodeInvalid
}
