package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl/ports/imagesearch"
)

// TestSearcher: which source of pictures a workflow gets, that it is asked with what is configured, and that doctor says it.
func TestSearcher(t *testing.T) {
	t.Parallel()
	var asked []string
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.Header.Get("X-Subscription-Token")+r.URL.Query().Get("key")+r.Header.Get("User-Agent"))
		fmt.Fprint(w, `{"kind":"customsearch#search","results":[],"batchcomplete":true}`)
	}))
	t.Cleanup(there.Close)
	for _, c := range []struct {
		env                 []string
		name, asked, doctor string
		code                int
	}{
		{nil, "", "", "(none)", 0},
		{[]string{"BRAVE_KEY=hunter2"}, "brave", "/res/v1/images/search hunter2", "brave", 0},
		{[]string{"BRAVE_KEY=hunter2", "SOURCE=openverse"}, "openverse", "/v1/images/ pawl", "openverse", 0},
		{[]string{"SOURCE=commons", "CONTACT=me@example.org"}, "commons", "/w/api.php pawl/", "commons", 0},
		{[]string{"SOURCE=googlecse", "GOOGLECSE_KEY=hunter2", "GOOGLECSE_ENGINE=e"}, "googlecse", "/customsearch/v1 hunter2", "2027-01-01", 0},
		{[]string{"SOURCE=album"}, "album", "", "built in", 0},
		{[]string{"SOURCE=commons"}, "", "", "PAWL_SEARCH_CONTACT", exitUnavailable},
		{[]string{"SOURCE=brave"}, "", "", "PAWL_SEARCH_BRAVE_KEY", exitUnavailable},
		{[]string{"SOURCE=comons"}, "", "", "commons", exitUnavailable},
	} {
		asked = nil
		s := newShell(t)
		w := Graph(hello())
		open := w.Open
		var got imagesearch.Searcher
		w.Open = func(ctx context.Context, o Opening) (*Opened, error) {
			got, _ = o.Searcher()
			return open(ctx, o)
		}
		s.ws = []Workflow{w}
		for _, e := range append(c.env, "URL="+there.URL) {
			s.env = append(s.env, "PAWL_SEARCH_"+e)
		}
		out := s.want(c.code, "doctor").out
		line := ""
		for l := range strings.Lines(out) {
			if strings.Contains(l, "pictures") {
				line = l
			}
		}
		if !strings.Contains(line, c.doctor) || strings.Contains(out, "hunter2") {
			t.Errorf("%s: doctor says %s\n%s", c.env, line, out)
		}
		if (got == nil) != (c.name == "") || got != nil && got.Name() != c.name {
			t.Errorf("%s: %v", c.env, got)
		}
		if got == nil {
			continue
		}
		_, err := got.Search(t.Context(), imagesearch.Query{Text: "Marie Curie", Count: 5})
		if err != nil || (len(asked) == 1) != (c.asked != "") || !strings.HasPrefix(strings.Join(asked, "; "), c.asked) {
			t.Errorf("%s: asked %q, %v", c.env, asked, err)
		}
	}
}

// TestSearchFile: the file has the settings in one object.
func TestSearchFile(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	file := filepath.Join(s.dir, "c.json")
	if err := os.WriteFile(file, []byte(`{"search":{"source":"openverse","openverse-id":"app","openverse-key":"hunter2"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ws = []Workflow{Graph(hello())}
	if got := s.want(0, "doctor", "--config", file); !strings.Contains(got.out, "openverse") || strings.Contains(got.out+got.err, "hunter2") {
		t.Errorf("%s", got.out)
	}
}
