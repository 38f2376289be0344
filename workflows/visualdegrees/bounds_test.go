package visualdegrees

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pawl"
	"pawl/internal/codec"
	"pawl/internal/text"
	"pawl/pawltest"
	"pawl/ports/faces"
	"pawl/ports/imagesearch"
	"pawl/ports/kv"
	"pawl/ports/kv/memory"
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

// refound is a searcher that says something else of pictures.
type refound struct {
	imagesearch.Searcher
	picture func(r *imagesearch.Result)
}

func (f refound) Search(ctx context.Context, q imagesearch.Query) ([]imagesearch.Result, error) {
	rs, err := f.Searcher.Search(ctx, q)
	for i := range rs {
		f.picture(&rs[i])
	}
	return rs, err
}

// crowded are photographs of a chain, five of each edge, in which as many people are recognized as a recognizer names.
func crowded(edges int) (photos []string) {
	for e := range edges {
		in := []string{fmt.Sprint("Person ", e), fmt.Sprint("Person ", e+1)}
		for i := range 62 {
			in = append(in, fmt.Sprintf("Somebody Else %d of %d:85", i, e))
		}
		for k := range mostEvidence {
			photos = append(photos, photo(fmt.Sprint(e, "-", k), in...))
		}
	}
	return photos
}

// detailed says of a face all that a recognizer may.
func detailed(f *faces.Face) {
	f.Box = &faces.Box{Left: 0.12345678, Top: 0.23456789, Width: 0.08765432, Height: 0.17654321}
	f.URLs = []string{"www.wikidata.org/wiki/Q123456", "www.imdb.com/name/nm0000123"}
}

// told holds a final event against what each edge must have: its two ends, first, and photographs that are in the graph.
func told(t *testing.T, e FinalEvent) {
	t.Helper()
	for i, edge := range e.Edges {
		for _, v := range append(edge.Evidence, edge.BestEvidence) {
			if n := len(v.DetectedCelebs); n > 2+mostOthers || v.DetectedCelebs[0].Name != edge.From || v.DetectedCelebs[1].Name != edge.To {
				t.Errorf("%s – %s: %+v", edge.From, edge.To, v.DetectedCelebs)
			}
		}
		refs := e.Graph.Edges[i].EvidenceRefs
		if len(refs) == 0 || len(refs) != len(edge.Evidence) {
			t.Errorf("%d photographs and %d references", len(edge.Evidence), len(refs))
		}
		for _, ref := range refs {
			if !slices.ContainsFunc(e.Graph.Evidence, func(v PictureEvidence) bool { return v.ID == ref }) {
				t.Errorf("no photograph %s", ref)
			}
		}
	}
}

// TestR00056Crowd: a path whose photographs are full of people and stand at long addresses is told, and no reason for a run to fail.
func TestR00056Crowd(t *testing.T) {
	s := newScene(t, crowded(2)...)
	s.Faces = changed{s.Faces, detailed}
	s.Search = refound{s.Search, func(r *imagesearch.Result) {
		r.ContextURL = "https://h.example/" + strings.Repeat("x", imagesearch.MaxURL-len("https://h.example/"))
		r.ThumbnailURL = r.ContextURL
	}}
	r := s.plays(t, with(ask("Person 0", "Person 2"), oneSided), budget(200, 1000, 0))
	same(t, "path", r.Output.Path, []string{"Person 0", "Person 1", "Person 2"})
	told(t, emitted[FinalEvent](r, EventFinal)[0])
}

// TestR00056LongestPath: the closing event has room for the longest path that a run may find, whatever its photographs are, and what it
// leaves out are the worst of them before anything of the best.
func TestR00056LongestPath(t *testing.T) {
	for longer, want := range map[int]int{30: mostEvidence, 300: 2, 1500: 1, imagesearch.MaxURL: 1} {
		in, _, err := ask("Person 0", fmt.Sprint("Person ", MaxHops)).check()
		if err != nil {
			t.Fatal(err)
		}
		s := State{In: in, Decisions: slices.Repeat([]Decision{{Why: strings.Repeat("x", 300)}}, 1000)}
		for e := range MaxHops + 1 {
			s.Path = append(s.Path, fmt.Sprint("Person ", e))
			for k := range mostEvidence {
				if e == MaxHops {
					break
				}
				at := fmt.Sprintf("https://h.example/%d/%d/", e, k)
				at += strings.Repeat("x", longer-len(at))
				p := Photo{Result: imagesearch.Result{ImageURL: at, ContextURL: at, ThumbnailURL: at, Title: strings.Repeat("x", 60)}}
				for i := range 64 {
					f := faces.Face{Name: fmt.Sprintf("Somebody Else %d of %d", i, e), Confidence: 99}
					if i > 61 {
						f.Name, f.Confidence = fmt.Sprint("Person ", e+i-62), float64(95-k)
					}
					detailed(&f)
					p.Faces = append(p.Faces, f)
				}
				p.IDs = people(p.Faces)
				s.Photos = append(s.Photos, p)
			}
		}
		for terminal, most := range map[string]int{"S6": 256 << 10, "S7": 4 << 10} {
			raw, err := codec.Encode(closing(s, pawl.Ending{Terminal: terminal})[0].Data)
			if err != nil || len(raw) > most {
				t.Errorf("addresses of %d: %s: %d bytes, %v", longer, terminal, len(raw), err)
			}
			var e FinalEvent
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			if terminal == "S7" {
				continue
			}
			same(t, "edges", len(e.Edges), MaxHops)
			same(t, fmt.Sprint("photographs at addresses of ", longer), len(e.Edges[0].Evidence), want)
			same(t, "the best one's confidence", e.Edges[0].Evidence[0].ImageScore, 95)
			told(t, e)
		}
		for _, to := range []int{1, MaxHops} {
			edge := fit(func(photos, address int) Edge {
				return s.edge(s.ties(), fmt.Sprint("person ", to-1), fmt.Sprint("person ", to)).within(photos, address)
			})
			same(t, "photographs of an edge of its own", len(edge.Evidence), mostEvidence)
		}
	}
}

// hindered is a mirror of which some writes fail, or never end.
type hindered struct {
	kv.Store
	put func(ctx context.Context, key string) error
}

func (h hindered) Put(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := h.put(ctx, key); err != nil {
		return err
	}
	return h.Store.Put(ctx, key, value, ttl)
}

// TestR00067FailedWrite: a key that could not be written once is there in the end, and keeps no other from being written.
func TestR00067FailedWrite(t *testing.T) {
	s := newScene(t, photo("1", "A", "X"), photo("2", "X", "Y"), photo("3", "Y", "Z"), photo("4", "Z", "B"))
	s.Search = slow{s.Search, 6 * time.Second} // longer than the mirror is left alone
	failed := ""
	m := memory.New(memory.Config{Now: func() time.Time { return time.Unix(0, 0) }})
	s.Mirror = hindered{m, func(_ context.Context, key string) error {
		if failed == "" && strings.Contains(key, ":edge:") {
			failed = key
			return kv.Failure{Store: "memory", Code: pawl.CodeUnavailable, Text: "down", After: -1}.Fault()
		}
		return nil
	}}
	r := s.plays(t, with(ask("A", "B"), oneSided), pawltest.Script{})
	same(t, "status", r.Output.Status, "success")
	keys, err := m.Keys(t.Context(), "vd:")
	if err != nil || failed == "" || !slices.Contains(keys, failed) {
		t.Errorf("%q is not in %q: %v", failed, keys, err)
	}
	edges := 0
	for _, k := range keys {
		if strings.Contains(k, ":edge:") {
			edges++
		}
	}
	same(t, "edges", edges, 4)
}

// TestR00073SlowMirror: a mirror that hangs, or is slow, takes the search no more than a tenth of its time, and changes nothing but what it
// says itself; one that is only slow has the path in the end.
func TestR00073SlowMirror(t *testing.T) {
	var chain []string
	for i := range MaxHops {
		chain = append(chain, photo(fmt.Sprint(i), fmt.Sprint("Person ", i), fmt.Sprint("Person ", i+1)))
	}
	in := with(ask("Person 0", fmt.Sprint("Person ", MaxHops)), func(c *Choices) { oneSided(c); c.HopLimit = MaxHops; c.Reverify = true })
	for what, put := range map[string]func(ctx context.Context, key string) error{
		"hangs": func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() },
		"slow": func(ctx context.Context, _ string) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(200 * time.Millisecond):
				return nil
			}
		},
	} {
		s := newScene(t, chain...)
		s.Search = slow{s.Search, time.Second}
		m := memory.New(memory.Config{Now: func() time.Time { return time.Unix(0, 0) }})
		waited := time.Duration(0)
		s.Mirror = hindered{m, func(ctx context.Context, key string) error {
			began := time.Now()
			err := put(ctx, key)
			waited += time.Since(began)
			return err
		}}
		r := s.plays(t, in, budget(200, 500, 0))
		same(t, what+": path", len(r.Output.Path), MaxHops+1)
		if most := DefaultRuntime/mirrorShare + 2*mirrorWithin; waited > most {
			t.Errorf("%s: waited for it %s, at most %s", what, waited, most)
		}
		keys, err := m.Keys(t.Context(), "vd:")
		if err != nil {
			t.Fatal(err)
		}
		same(t, what+": has the path", slices.ContainsFunc(keys, func(k string) bool { return strings.HasSuffix(k, ":path") }), what == "slow")
	}
}
