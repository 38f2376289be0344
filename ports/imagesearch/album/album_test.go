package album_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	photos "pawl/internal/album"
	"pawl/internal/text"
	"pawl/ports/imagesearch"
	"pawl/ports/imagesearch/album"
	"pawl/ports/imagesearch/imagesearchtest"
)

func load(t testing.TB, lines ...string) *photos.Album {
	t.Helper()
	a, err := photos.Load("test", strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func search(t testing.TB, s imagesearch.Searcher, query string, count int) []string {
	t.Helper()
	results, err := s.Search(context.Background(), imagesearch.Query{Text: query, Count: count})
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, r := range results {
		ids = append(ids, strings.TrimPrefix(r.ImageURL, "album:"))
	}
	return ids
}

// TestNames: who is named in a query. Each person has one photograph, with the person's id.
func TestNames(t *testing.T) {
	t.Parallel()
	s := album.New(load(t, "id,people",
		"ann,Ann Lee", "oswald,Lee Harvey Oswald", "lee,Lee", "jr,\"Harry Connick, Jr.\"", "harry,Harry Connick", "bjork,Björk", "louise,Louise Parker",
		"mary,Mary-Louise Parker", "o,O", "ogawa,小川 光", "rza,RZA", "chk,!!!"))
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"Ann Lee", []string{"ann"}},
		{"Ann Lee event", []string{"ann"}},
		{"Ann Lee Ann Lee", []string{"ann"}},
		{"Ann Lee Harvey Oswald", []string{"oswald"}},
		{"Ann Lee Lee Harvey Oswald", []string{"ann", "oswald"}},
		{"Lee Ann Lee", []string{"ann", "lee"}},
		{"Leeann", nil},
		{"annlee", nil},
		{"Harry Connick, Jr. with celebrities", []string{"jr"}},
		{"Harry Connick awards", []string{"harry"}},
		{"  BJÖRK   awards", []string{"bjork"}},
		{"Bjo\u0308rk", []string{"bjork"}}, // decomposed
		{"Bjork", []string{"bjork"}},
		{"Harry Connick Jr", []string{"jr"}},
		{"mary louise parker", []string{"mary"}},
		{"!!! event", []string{"chk"}},
		{"Mary-Louise Parker RZA", []string{"mary", "rza"}},
		{"Anna-Louise Parker", []string{"louise"}}, // a hyphen is a space
		{"O'Brien", nil},
		{`"Ann Lee", RZA`, []string{"ann", "rza"}},
		{"小川 光 event", []string{"ogawa"}},
		{"Nobody At All", nil},
		{"lee\u200b", []string{"lee"}},
	} {
		got := search(t, s, c.query, imagesearch.MaxCount)
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q finds %q, want %q", c.query, got, c.want)
		}
	}
}

// TestRanking: the more names of the query a photograph has, the sooner it comes; the order of equals hangs on the query, and on
// nothing else.
func TestRanking(t *testing.T) {
	t.Parallel()
	lines := []string{"id,people,fetch_outcome"}
	for i := range 8 {
		lines = append(lines, fmt.Sprintf("a%d,Ann,ok", i), fmt.Sprintf("b%d,Bob|Cid,timeout", i))
	}
	lines = append(lines, "ab1,Ann|Bob,http_404", "ab2,Bob|Ann|Cid,ok", "abc,Cid|Bob|Ann,corrupt", "c,Cid,ok")
	a := load(t, lines...)
	backwards := slices.Clone(lines[1:])
	slices.Reverse(backwards)
	s, other := album.New(a), album.New(load(t, append(lines[:1:1], backwards...)...))
	got := search(t, s, "Ann Bob event", 5)
	if first := slices.Sorted(slices.Values(got[:3])); !slices.Equal(first, []string{"ab1", "ab2", "abc"}) {
		t.Errorf("%q: want those of both first, whatever fetching them gives", got)
	}
	if again := search(t, other, "ann  BOB event", 5); !slices.Equal(got, again) {
		t.Errorf("%q, and in a file of another order %q", got, again)
	}
	if all := search(t, s, "Ann Bob event", 10); !slices.Equal(got, all[:5]) {
		t.Errorf("the first five are %q, and of ten %q", got, all)
	}
	// The order itself is part of what recorded runs rest on: it changes in no release.
	if want := []string{"ab2", "ab1", "abc", "b2", "a4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	orders := map[string]bool{}
	for _, q := range []string{"Ann", "Ann event", "Ann awards", "Ann with celebrities", "Ann Zed"} {
		orders[strings.Join(search(t, s, q, 5), " ")] = true
	}
	if len(orders) < 5 {
		t.Errorf("five queries have %d orders", len(orders))
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	s := album.New(load(t, `{"id":"1","title":"Tea","year":1950,"place":"Rome","people":["Ann Lee","Bob"],"link":"https://a.example/1"}`, `{"id":"2","people":["Cid","Bob"]}`))
	for query, want := range map[string]imagesearch.Result{
		"Ann Lee": {ImageURL: "album:1", ContextURL: "https://a.example/1", Title: "Tea, Rome, 1950"},
		"Cid":     {ImageURL: "album:2", ContextURL: "album:2", Title: "Cid, Bob"},
	} {
		got, err := s.Search(t.Context(), imagesearch.Query{Text: query, Count: 5})
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s: %+v, %v", query, got, err)
		}
	}
}

func TestLaw(t *testing.T) {
	imagesearchtest.RunLocal(t, album.New(photos.Embedded()), "Barack Obama")
}

func FuzzSearch(f *testing.F) {
	a := photos.Embedded()
	s := album.New(a)
	for _, q := range []string{"Marie Curie Albert Einstein", "Winston Churchill event", "\xff\x00", "'’-'’-", "Albert-Einstein's"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		got, err := s.Search(t.Context(), imagesearch.Query{Text: query, Count: 5})
		seen := map[string]bool{}
		for _, r := range got {
			p, ok := a.At(r.ImageURL)
			if !ok || seen[r.ImageURL] || !slices.ContainsFunc(p.People, func(name string) bool { return named(query, name) }) {
				t.Errorf("%q finds %+v", query, r)
			}
			seen[r.ImageURL] = true
		}
		if len(got) > 5 || err != nil && len(got) > 0 {
			t.Errorf("%q: %d results, %v", query, len(got), err)
		}
	})
}

// world is the simulated world, with all of its people.
func world(t testing.TB) *photos.Album {
	t.Helper()
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	file, err := os.Open(filepath.Join(dir, "people", "photos_world.csv"))
	if err != nil {
		t.Skipf("no shared test data (set PAWL_TESTDATA): %v", err)
	}
	defer file.Close()
	a, err := photos.Load("world", file)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestWorld: every pair that is in one photograph is found in one, by every query that is asked for pairs; a person alone is found
// in his own photographs only.
func TestWorld(t *testing.T) {
	t.Parallel()
	a := world(t)
	s := album.New(a)
	var work sync.WaitGroup
	for part := range 4 {
		work.Go(func() {
			for i := part; i < len(a.Photos()); i += 4 {
				p := a.Photos()[i]
				who := p.People[0]
				with := p.People[len(p.People)-1]
				checkFinds(t, a, s, who+" "+with, who, with)
				checkFinds(t, a, s, who+" "+with+" event", who, with)
				checkFinds(t, a, s, who+" with celebrities", who)
			}
		})
	}
	work.Wait()
}

func checkFinds(t *testing.T, a *photos.Album, s imagesearch.Searcher, query string, want ...string) {
	got, err := s.Search(context.Background(), imagesearch.Query{Text: query, Count: 5})
	if err != nil || len(got) == 0 {
		t.Errorf("%s: %v, %v", query, got, err)
		return
	}
	p, ok := a.At(got[0].ImageURL)
	for _, name := range want {
		if !ok || !slices.ContainsFunc(p.People, func(other string) bool { return text.Loose(other) == text.Loose(name) }) {
			t.Errorf("%s finds %q first", query, p.People)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	a := world(b)
	s := album.New(a)
	for i := 0; b.Loop(); i++ {
		p := a.Photos()[i%len(a.Photos())]
		if _, err := s.Search(b.Context(), imagesearch.Query{Text: p.People[0] + " with celebrities", Count: 5}); err != nil {
			b.Fatal(err)
		}
	}
}

// named is the same question asked in another way: the words of a name one after the other among the words of a query.
func named(query, name string) bool {
	return strings.Contains(" "+text.Loose(query)+" ", " "+text.Loose(name)+" ")
}
