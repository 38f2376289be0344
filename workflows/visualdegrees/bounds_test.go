package visualdegrees

import (
	"context"
	"strings"
	"testing"
	"unicode"

	"pawl/internal/text"
	"pawl/pawltest"
	"pawl/ports/faces"
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

// changed is a recognizer that says something else of faces.
type changed struct {
	faces.Recognizer
	face func(f *faces.Face)
}

func (c changed) Recognize(ctx context.Context, p faces.Picture) (faces.Recognition, error) {
	r, err := c.Recognizer.Recognize(ctx, p)
	for i := range r.Faces {
		c.face(&r.Faces[i])
	}
	return r, err
}

// TestR00011RecognizedNames: what nobody sees in a recognizer's names goes into no query, no path and no event, and is no way to a query
// that is too long.
func TestR00011RecognizedNames(t *testing.T) {
	for what, unseen := range map[string]func(string) string{
		"long":      func(n string) string { return n + strings.Repeat("\u200b", 190) },
		"control":   func(n string) string { return "\x1b" + n + "\x07\n" },
		"direction": func(n string) string { return "\u202e" + n },
		"spaces":    func(n string) string { return "  " + strings.ReplaceAll(n, " ", "\u00a0\t") },
	} {
		s := newScene(t, photo("1", "A", "Bob Cox"), photo("2", "Bob Cox", "Cid"), photo("3", "Cid", "D"))
		s.Faces = changed{s.Faces, func(f *faces.Face) {
			if f.Name == "Bob Cox" {
				f.Name = unseen(f.Name)
			}
		}}
		r := s.plays(t, with(ask("A", "D"), func(c *Choices) { oneSided(c); c.Reverify = true }), pawltest.Script{})
		same(t, what, r.Output.Path, []string{"A", "Bob Cox", "Cid", "D"})
		for _, q := range s.searched {
			if text.Visible(q) != q || len(q) > imagesearch.MaxText {
				t.Errorf("%s: searched %q", what, q)
			}
		}
		for _, typ := range []string{EventStatus, EventEvidence, EventPath, EventFinal} {
			for _, raw := range r.Emitted(typ) {
				if strings.ContainsFunc(string(raw), func(r rune) bool { return unicode.In(r, unicode.C) }) || strings.Contains(string(raw), `\u00`) {
					t.Errorf("%s: %s: %q", what, typ, raw)
				}
			}
		}
	}
}
