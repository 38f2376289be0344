package imagesearch_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pawl"
	"pawl/ports/imagesearch"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	for markup, want := range map[string]string{
		"":                              "",
		"Curie":                         "Curie",
		"<b>Curie</b> &amp; Einstein":   "Curie & Einstein",
		"O&#39;Connor &quot;live&quot;": `O'Connor "live"`,
		"&lt;b&gt; stays":               "<b> stays",
		"5 < 6 > 4 <3":                  "5 < 6 > 4 <3",
		"<br/>a<!-- no -->b":            "ab",
		"cut <b":                        "cut <b",
		"AT&T":                          "AT&T",
		"<a href='x'>x</a>":             "x",
		"</i>":                          "",
	} {
		if got := imagesearch.Plain(markup); got != want {
			t.Errorf("%q: %q, want %q", markup, got, want)
		}
	}
	if got := imagesearch.Plain(strings.Repeat("<", 16<<20)); len(got) > 10_000 { // in no time
		t.Errorf("%d bytes", len(got))
	}
}

// TestResults: one strange item is left out, and nothing but strange ones are no answer.
func TestResults(t *testing.T) {
	t.Parallel()
	type item struct{ Image, Page, Title string }
	read := func(items ...string) ([]imagesearch.Result, error) {
		var raw []json.RawMessage
		for _, i := range items {
			raw = append(raw, json.RawMessage(i))
		}
		return imagesearch.Results("some", raw, 3, func(i item) imagesearch.Result {
			return imagesearch.Result{ImageURL: i.Image, ContextURL: i.Page, Title: i.Title}
		})
	}
	good := `{"image":"https://e.org/a.jpg","page":"http://e.org/a","title":" two\n words "}`
	for _, c := range []struct {
		items []string
		n     int
		code  string
	}{
		{nil, 0, ""},
		{[]string{good, good}, 1, ""},
		{[]string{`7`, `null`, `{"image":7}`, good}, 1, ""},
		{[]string{`{}`}, 0, ""},
		{[]string{`{"image":"https://e.org/a.jpg","page":"mailto:a@e.org"}`, `{"image":"https://e.org/\u0000","page":"https://e.org"}`}, 0, ""},
		{[]string{`7`, `null`, `[]`, `{"image":{}}`}, 0, pawl.CodeUnavailable},
	} {
		got, err := read(c.items...)
		if len(got) != c.n || imagesearch.Code(err) != c.code {
			t.Errorf("%s: %+v, %v", c.items, got, err)
		}
		if c.n > 0 && got[0].Title != "two words" {
			t.Errorf("%+v", got)
		}
	}
}

// TestResultsOfLongAddresses: a picture at an address that nobody would fetch is no result, and a thumbnail at one is left out.
func TestResultsOfLongAddresses(t *testing.T) {
	t.Parallel()
	const at = "https://e.org/"
	longest := at + strings.Repeat("x", imagesearch.MaxURL-len(at))
	for _, c := range []struct {
		found imagesearch.Result
		n     int
	}{
		{imagesearch.Result{ImageURL: longest, ContextURL: longest, ThumbnailURL: longest}, 1},
		{imagesearch.Result{ImageURL: longest + "x", ContextURL: at}, 0},
		{imagesearch.Result{ImageURL: at, ContextURL: longest + "x"}, 0},
		{imagesearch.Result{ImageURL: at, ContextURL: at, ThumbnailURL: longest + "x"}, 1},
	} {
		got, err := imagesearch.Results("some", []json.RawMessage{json.RawMessage(`{}`)}, 3, func(struct{}) imagesearch.Result { return c.found })
		if err != nil || len(got) != c.n || c.n > 0 && len(got[0].ThumbnailURL) > imagesearch.MaxURL {
			t.Errorf("%d, %d and %d bytes: %d results, %v", len(c.found.ImageURL), len(c.found.ContextURL), len(c.found.ThumbnailURL), len(got), err)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("<b>Curie</b> &amp; 5 < 6")
	f.Fuzz(func(t *testing.T, markup string) {
		if got := imagesearch.Plain(markup); len(got) > 2*len(markup) || utf8.ValidString(markup) && len(markup) < 1000 && !utf8.ValidString(got) {
			t.Errorf("%q: %q", markup, got)
		}
	})
}
