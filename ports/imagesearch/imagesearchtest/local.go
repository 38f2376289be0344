package imagesearchtest

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"pawl"
	"pawl/ports/imagesearch"
)

// RunLocal holds a searcher that asks no service to what of the law remains. It has at least MaxCount pictures of somebody.
func RunLocal(t *testing.T, m imagesearch.Searcher, somebody string) {
	for _, c := range []struct {
		name, why string
		law       func(*testing.T, imagesearch.Searcher, string)
	}{
		{"count", "no more is given than is wanted, and who wants fewer gets the first of them", localCount},
		{"complete", "a picture without its page is no evidence, and one picture is looked at once", localComplete},
		{"same answer", "the same query gets the same answer, or no run can be explained", localSame},
		{"bad queries", "what no source is asked is refused alike", localBadQueries},
		{"any text", "no text is syntax, and that nothing was found is an answer", localAnyText},
		{"no time", "a call that nobody wants any more, or whose time is up, says so", localNoTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.law(t, m, somebody)
			if t.Failed() {
				t.Log("law:", c.why)
			}
		})
	}
}

func local(t *testing.T, m imagesearch.Searcher, text string, count int) []imagesearch.Result {
	t.Helper()
	found, err := m.Search(context.Background(), imagesearch.Query{Text: text, Count: count})
	if err != nil {
		t.Error(err)
	}
	return found
}

func localCount(t *testing.T, m imagesearch.Searcher, somebody string) {
	all := local(t, m, somebody, imagesearch.MaxCount)
	if len(all) != imagesearch.MaxCount {
		t.Fatalf("%d found", len(all))
	}
	for n := 1; n <= imagesearch.MaxCount; n++ {
		if got := local(t, m, somebody, n); !slices.Equal(got, all[:n]) {
			t.Errorf("%d wanted: %v", n, urls(got))
		}
	}
}

func localComplete(t *testing.T, m imagesearch.Searcher, somebody string) {
	seen := map[string]bool{}
	for _, r := range local(t, m, somebody, imagesearch.MaxCount) {
		for _, address := range []string{r.ImageURL, r.ContextURL} {
			if u, err := url.Parse(address); err != nil || u.Scheme == "" || u.Host+u.Opaque == "" {
				t.Errorf("%q is no address: %v", address, err)
			}
		}
		if seen[r.ImageURL] || r.Title == "" || strings.ContainsAny(r.Title, "\n\r") {
			t.Errorf("%+v", r)
		}
		seen[r.ImageURL] = true
	}
}

func localSame(t *testing.T, m imagesearch.Searcher, somebody string) {
	want := local(t, m, somebody, 5)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got := local(t, m, somebody, 5)
			if !slices.Equal(got, want) {
				t.Errorf("%v, and before %v", urls(got), urls(want))
			}
			clear(got) // each has its own
		})
	}
	all.Wait()
}

func localBadQueries(t *testing.T, m imagesearch.Searcher, _ string) {
	for _, q := range unsearchable() {
		got, err := m.Search(t.Context(), q)
		failed(t, named(m), err, pawl.CodeInvalid)
		if len(got) != 0 {
			t.Errorf("%q: %v", q.Text, got)
		}
	}
}

// named is a source that is asked nothing: it only says whose an error is.
func named(m imagesearch.Searcher) *Source { return &Source{wire: Wire{Name: m.Name()}} }

func localAnyText(t *testing.T, m imagesearch.Searcher, _ string) {
	for _, text := range append(writings(), "\u200b", "nobody of this name") {
		local(t, m, text, 5)
	}
}

func localNoTime(t *testing.T, m imagesearch.Searcher, somebody string) {
	q := imagesearch.Query{Text: somebody, Count: 5}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Search(ctx, q); !errors.Is(err, context.Canceled) || imagesearch.Code(err) != "" {
		t.Errorf("cancelled: %v", err)
	}
	late, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	_, err := m.Search(late, q)
	failed(t, named(m), err, pawl.CodeTimeout)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("too late: %v", err)
	}
}
