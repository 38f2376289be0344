package imagesearchtest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pawl/ports/imagesearch"
)

// lies are what stands in place of something else.
var lies = []string{`null`, `7`, `-1e400`, `true`, `"x"`, `"javascript:alert(1)"`, `[]`, `{}`, `[{}]`, `[null]`, `{"a":[7]}`}

// malformed puts each lie in place of each value of an answer, takes each value away, and cuts the answer at every byte.
func malformed(t *testing.T, s *Source) {
	whole := s.wire.Whole(Pictures(2))
	for i := range whole {
		told(t, s, whole[:i])
	}
	var doc any
	if err := json.Unmarshal([]byte(whole), &doc); err != nil {
		t.Fatal(err)
	}
	for _, lie := range append(slices.Clone(lies), "") {
		each(doc, func() {
			text, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			told(t, s, strings.ReplaceAll(string(text), `"`+mark+`"`, lie))
		}, lie == "")
	}
}

// mark stands where a lie will.
const mark = "(a lie)"

// each calls f once for each value in a document, with the mark in its place, or without it.
func each(doc any, f func(), gone bool) {
	switch doc := doc.(type) {
	case map[string]any:
		for key, was := range doc {
			each(was, f, gone)
			if doc[key] = mark; gone {
				delete(doc, key)
			}
			f()
			doc[key] = was
		}
	case []any:
		for i, was := range doc {
			each(was, f, gone)
			if !gone {
				doc[i] = mark
				f()
				doc[i] = was
			}
		}
	}
}

// told answers a body, and checks that nothing is found but what it says.
func told(t testing.TB, s *Source, body string) {
	t.Helper()
	got, err := s.Answer(body).Searcher(Setup{}).Search(context.Background(), query())
	if err != nil {
		if imagesearch.Code(err) == "" || len(got) != 0 {
			t.Errorf("%s: %v, found %v", body, err, got)
		}
		return
	}
	var doc any
	d := json.NewDecoder(strings.NewReader(strings.TrimPrefix(body, "\xEF\xBB\xBF")))
	d.UseNumber() // one that is too large is one
	if err := d.Decode(&doc); err != nil && len(got) != 0 {
		t.Errorf("%s: found %v in what is no JSON", body, got)
	}
	said := texts(doc)
	has := func(address string) bool { return slices.Contains(said, address) || strings.Contains(body, address) }
	for i, r := range got {
		again := slices.ContainsFunc(got[:i], func(o imagesearch.Result) bool { return o.ImageURL == r.ImageURL })
		if i >= query().Count || again || !has(r.ImageURL) || !has(r.ContextURL) || !has(r.ThumbnailURL) {
			t.Errorf("%s: found %+v", body, r)
		}
	}
}

// texts are all texts of a document.
func texts(doc any) (out []string) {
	switch doc := doc.(type) {
	case string:
		return []string{doc}
	case map[string]any:
		for _, v := range doc {
			out = append(out, texts(v)...)
		}
	case []any:
		for _, v := range doc {
			out = append(out, texts(v)...)
		}
	}
	return out
}

// Fuzz answers anything.
func Fuzz(f *testing.F, w Wire) {
	whole := w.Whole(Pictures(2))
	for _, seed := range []string{whole, w.Whole(nil), whole[:len(whole)/2], "{}", strings.ReplaceAll(whole, "https", "\\u0000"), strings.ToUpper(whole)} {
		f.Add(seed)
	}
	s := NewSource(f, w)
	f.Fuzz(func(t *testing.T, body string) { told(t, s, body) })
}
