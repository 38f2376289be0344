package imagesearchtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"pawl"
	"pawl/ports/imagesearch"
)

// Run holds a vendor to the law.
func Run(t *testing.T, w Wire) {
	for _, c := range []struct {
		name, why string
		law       func(*testing.T, *Source)
	}{
		{"answers", "what was found arrives, in the source's order", answers},
		{"count", "no more than is wanted is asked for, and no more is given, whatever comes", count},
		{"bad queries", "what cannot be searched is refused before anybody is asked or anything is spent", badQueries},
		{"any text", "a name reaches the source as people write it, and no text is syntax of the request", anyText},
		{"incomplete", "a picture without its page is no evidence, and one without an address none at all", incomplete},
		{"duplicates", "one picture is looked at once", duplicates},
		{"nothing found", "that nothing was found is an answer", nothingFound},
		{"titles", "a title is text, whatever it is made of", titles},
		{"concurrent", "a searcher may be asked by many at once", concurrent},
		{"malformed", "whatever a source says, nothing is found that it did not say", malformed},
		{"refusals", "each failure has its code, which says whether another attempt could help", refusals},
		{"statuses", "also a refusal without the vendor's words", statuses},
		{"one attempt", "retries belong to the engine, which counts them", oneAttempt},
		{"retry after", "a source that wants to be left alone is, by its own clock", retryAfter},
		{"cancelled", "a call that nobody wants any more ends at once", cancelled},
		{"deadline", "a call whose time is up says so", deadline},
		{"silent", "a source that says nothing, or nothing more, does not hold a run for ever", silent},
		{"broken off", "half an answer is none", brokenOff},
		{"gateway", "a page with status 200 is no answer, and not that nothing was found", gateway},
		{"flood", "no answer takes all the memory", flood},
		{"unreachable", "nobody there is an outage", unreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.law(t, NewSource(t, w))
			if t.Failed() {
				t.Log("law:", c.why)
			}
		})
	}
}

func query() imagesearch.Query {
	return imagesearch.Query{Text: "Marie Curie Albert Einstein", Count: 5}
}

// Pictures are n that a source may have.
func Pictures(n int) (out []imagesearch.Result) {
	for i := range n {
		out = append(out, imagesearch.Result{
			ImageURL:     fmt.Sprintf("https://img.example.org/%d.jpg?a=1&b=%d", i, i),
			ThumbnailURL: fmt.Sprintf("https://img.example.org/small/%d.jpg", i),
			ContextURL:   fmt.Sprintf("https://example.org/page/%d#there", i),
			Title:        fmt.Sprintf("Picture %d", i),
		})
	}
	return out
}

// urls are what identifies results.
func urls(found []imagesearch.Result) (out []string) {
	for _, r := range found {
		out = append(out, r.ImageURL+" "+r.ContextURL)
	}
	return out
}

func answers(t *testing.T, s *Source) {
	want := Pictures(3)
	s.Play(Scene{Found: want})
	m := s.Searcher(Setup{})
	if m.Name() != s.wire.Name {
		t.Errorf("it is called %s", m.Name())
	}
	if shown := fmt.Sprintf("%v %+v %#v", m, m, m); strings.Contains(shown, Key) {
		t.Errorf("a searcher that is printed tells the key: %s", shown)
	}
	got, err := m.Search(t.Context(), query())
	if err != nil || !slices.Equal(urls(got), urls(want)) {
		t.Fatalf("%v, %v", urls(got), err)
	}
	for i, r := range got {
		if r.Title != want[i].Title || r.ThumbnailURL == "" || r.Sensitive {
			t.Errorf("%+v", r)
		}
	}
	if heard := s.Heard(); !reflect.DeepEqual(heard, []imagesearch.Query{query()}) {
		t.Errorf("asked %+v", heard)
	}
}

func count(t *testing.T, s *Source) {
	s.Play(Scene{Found: Pictures(2 * imagesearch.MaxCount)})
	for n := 1; n <= imagesearch.MaxCount; n++ {
		q := query()
		q.Count = n
		got, err := s.Searcher(Setup{}).Search(t.Context(), q)
		if err != nil || !slices.Equal(urls(got), urls(Pictures(n))) {
			t.Errorf("%d: %d found, %v", n, len(got), err)
		}
		if heard := s.Heard(); heard[len(heard)-1].Count < n {
			t.Errorf("%d wanted, %d asked for", n, heard[len(heard)-1].Count)
		}
	}
}

// unsearchable are queries that nobody is asked.
func unsearchable() []imagesearch.Query {
	return []imagesearch.Query{
		{Text: "", Count: 5}, {Text: " \t\n\u3000", Count: 5}, {Text: "Marie\xff", Count: 5},
		{Text: strings.Repeat("é", imagesearch.MaxText+1), Count: 5}, {Text: strings.Repeat("a ", imagesearch.MaxWords+1), Count: 5},
		{Text: "Marie", Count: 0}, {Text: "Marie", Count: -1}, {Text: "Marie", Count: imagesearch.MaxCount + 1},
	}
}

// writings are what somebody may search.
func writings() []string {
	return []string{
		`Beyoncé "live" & more`, "AC/DC 100% #1?", "a=b&key=c;d", "Тина Тёрнер", "黒澤 明", "O'Connor\\n", "🎬 é\u0301 \u200b", "-minus +plus :",
		strings.Repeat("語", imagesearch.MaxText), strings.TrimSpace(strings.Repeat("a ", imagesearch.MaxWords)),
	}
}

func badQueries(t *testing.T, s *Source) {
	s.Play(Scene{Found: Pictures(3)})
	for _, q := range unsearchable() {
		got, err := s.Searcher(Setup{}).Search(t.Context(), q)
		failed(t, s, err, pawl.CodeInvalid)
		if len(got) != 0 {
			t.Errorf("%q: %v", q.Text, got)
		}
	}
	if heard := s.Heard(); len(heard) != 0 {
		t.Errorf("asked %+v", heard)
	}
}

func anyText(t *testing.T, s *Source) {
	for _, text := range writings() {
		s.Play(Scene{Found: Pictures(1)})
		q := imagesearch.Query{Text: text, Count: 3}
		got, err := s.Searcher(Setup{}).Search(t.Context(), q)
		if heard := s.Heard(); err != nil || len(got) != 1 || len(heard) != 1 || heard[0].Text != text {
			t.Errorf("%q: asked %+v, %v", text, heard, err)
		}
	}
}

func incomplete(t *testing.T, s *Source) {
	all := Pictures(9)
	all[0].ImageURL, all[1].ContextURL = "", ""
	all[2].ImageURL, all[3].ContextURL = "javascript:alert(1)", "data:text/html,x"
	all[4].ImageURL, all[5].ImageURL = "/relative.jpg", "https://"
	all[6].ThumbnailURL, all[7].Title, all[8].ThumbnailURL = "", "", "javascript:alert(1)"
	s.Play(Scene{Found: all})
	q := query()
	q.Count = imagesearch.MaxCount
	got, err := s.Searcher(Setup{}).Search(t.Context(), q)
	if err != nil || !slices.Equal(urls(got), urls(all[6:])) {
		t.Errorf("%v, %v", urls(got), err)
	}
	for _, r := range got {
		if strings.HasPrefix(r.ThumbnailURL, "javascript") {
			t.Errorf("%+v", r)
		}
	}
	s.Play(Scene{Found: all[:6]})
	if got, err := s.Searcher(Setup{}).Search(t.Context(), q); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func duplicates(t *testing.T, s *Source) {
	all := Pictures(4)
	all[1].ImageURL, all[3].ImageURL = all[0].ImageURL, all[2].ImageURL
	s.Play(Scene{Found: all})
	got, err := s.Searcher(Setup{}).Search(t.Context(), query())
	if want := []imagesearch.Result{all[0], all[2]}; err != nil || !slices.Equal(urls(got), urls(want)) {
		t.Errorf("%v, %v", urls(got), err)
	}
}

func nothingFound(t *testing.T, s *Source) {
	s.Play(Scene{})
	if got, err := s.Searcher(Setup{}).Search(t.Context(), query()); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func titles(t *testing.T, s *Source) {
	all := Pictures(5)
	all[0].Title = `Tom & "Jerry" <3 it’s 5 > 4`
	all[1].Title = "Curie &amp; Einstein, 1911"
	all[2].Title = "two\nlines\tand \x1b[31mred"
	all[3].Title = strings.Repeat("long ", 1000)
	all[4].Title = "キュリー夫人"
	s.Play(Scene{Found: all})
	got, err := s.Searcher(Setup{}).Search(t.Context(), query())
	if err != nil || len(got) != 5 {
		t.Fatalf("%v, %v", got, err)
	}
	if got[0].Title != all[0].Title || got[4].Title != all[4].Title {
		t.Errorf("%q, %q", got[0].Title, got[4].Title)
	}
	if got[1].Title != all[1].Title && got[1].Title != "Curie & Einstein, 1911" { // a source whose text is text may mean it
		t.Errorf("%q", got[1].Title)
	}
	if strings.ContainsAny(got[2].Title, "\n\t\x1b") || len(got[3].Title) > 400 {
		t.Errorf("%q, %d bytes", got[2].Title, len(got[3].Title))
	}
}

func concurrent(t *testing.T, s *Source) {
	s.Play(Scene{Found: Pictures(3)})
	m := s.Searcher(Setup{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			q := query()
			q.Text = fmt.Sprint("query ", i)
			if got, err := m.Search(t.Context(), q); err != nil || len(got) != 3 {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if heard := s.Heard(); len(heard) != 8 {
		t.Errorf("asked %d times", len(heard))
	}
}
