package visualdegrees

import (
	"strings"
	"testing"

	"pawl/pawltest"
	"pawl/ports/imagesearch"
)

// TestS00005LongAddresses: a result at an address that nobody would fetch is none, and does not fill the state of the run; a thumbnail at
// one is left out.
func TestS00005LongAddresses(t *testing.T) {
	long := "https://h.example/" + strings.Repeat("x", 700<<10)
	s := newScene(t, photo("1", "A", "X"), photo("2", "X", "B"))
	s.search = func(string) ([]imagesearch.Result, error) {
		out := []imagesearch.Result{{ImageURL: "album:1", ContextURL: long}, {ImageURL: long, ContextURL: "album:1"}}
		for _, id := range []string{"album:1", "album:2"} {
			out = append(out, imagesearch.Result{ImageURL: id, ContextURL: id, ThumbnailURL: long})
		}
		return out, nil
	}
	r := s.plays(t, ask("A", "B"), pawltest.Script{})
	same(t, "path", r.Output.Path, []string{"A", "X", "B"})
	same(t, "looked at", s.looked, []string{"album:1", "album:2"})
	if len(r.State) > 64<<10 {
		t.Errorf("a state of %d bytes", len(r.State))
	}
}
