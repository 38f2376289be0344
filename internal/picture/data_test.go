package picture_test

import (
	"encoding/csv"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"pawl/internal/picture"
)

// data is a file of the shared test data.
func data(t testing.TB, name string) []byte {
	t.Helper()
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = "../../../shared/data"
	}
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if os.IsNotExist(err) {
		t.Skipf("no shared test data (set PAWL_TESTDATA): %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return raw
}

func dataFiles(t *testing.T, folder string) (names []string) {
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = "../../../shared/data"
	}
	entries, err := os.ReadDir(filepath.Join(dir, folder))
	if os.IsNotExist(err) {
		t.Skipf("no shared test data (set PAWL_TESTDATA): %v", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, folder+"/"+e.Name())
		}
	}
	return names
}

func code(err error) string {
	var e *picture.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// wanted is the code that the manifest's words ask for; empty: it is decoded.
func wanted(t *testing.T, words string) string {
	for _, w := range []struct{ begin, code string }{
		{"reject: empty", picture.CodeEmpty},
		{"reject: html_instead_of_image", picture.CodePage},
		{"reject: unsupported_type", picture.CodeType},
		{"reject: corrupt", picture.CodeCorrupt},
		{"reject: too small", picture.CodeTooSmall},
		{"reject by header", picture.CodePixels},
		{"reject; no fetch", picture.CodeType},
		{"unsupported_type", picture.CodeType},
		{"not decodable by the standard library", picture.CodeType},
	} {
		if strings.HasPrefix(words, w.begin) {
			return w.code
		}
	}
	if strings.HasPrefix(words, "reject") {
		t.Fatalf("what is %q?", words)
	}
	return ""
}

// TestManifest: every file of the shared pictures has the outcome that its manifest says.
func TestManifest(t *testing.T) {
	t.Parallel()
	rows, err := csv.NewReader(strings.NewReader(string(data(t, "images/manifest.csv")))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	room := picture.NewRoom(0)
	for _, name := range append(dataFiles(t, "images"), dataFiles(t, "images/phash")...) {
		words := ""
		for _, row := range rows[1:] {
			if ok, _ := path.Match(row[0], strings.TrimPrefix(name, "images/")); ok {
				words = row[2]
			}
		}
		if path.Base(name) == "manifest.csv" {
			continue
		}
		if words == "" {
			t.Errorf("%s: not in the manifest", name)
			continue
		}
		raw := data(t, name)
		want := wanted(t, words)
		info, err := room.Check(t.Context(), raw, picture.Limits{MinSide: 64}) // 80 is one recognizer's, and the gopher's side is 75
		if code(err) != want || want == "" && err != nil {
			t.Errorf("%s: %v (%s), want %q", name, err, code(err), want)
			continue
		}
		if err != nil {
			continue
		}
		if strings.Contains(words, "image/png") && info.Type != picture.PNG {
			t.Errorf("%s: %+v", name, info)
		}
		if flat := strings.Contains(words, "flat") || strings.Contains(name, "1200_frames"); info.Flat != flat { // its first frame has one color
			t.Errorf("%s: flat is %v", name, info.Flat)
		}
		if partial := strings.Contains(name, "truncated"); info.Partial != partial {
			t.Errorf("%s: partial is %v", name, info.Partial)
		}
		if !strings.HasPrefix(name, "images/phash/") { // they are all of one kind
			fits(t, room, name, raw)
		}
	}
}

// fits has a picture made fit for a recognizer that takes JPEG and PNG.
func fits(t *testing.T, room *picture.Room, name string, raw []byte) {
	l := picture.Limits{Types: []string{picture.JPEG, picture.PNG}, MaxBytes: 60_000, MinSide: 64, MaxSide: 500}
	out, info, err := room.Fit(t.Context(), raw, l)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if again, err := room.Check(t.Context(), out, l); err != nil || again != info || again.Partial {
		t.Errorf("%s: %+v, %v; it was said to be %+v", name, again, err, info)
	}
}
