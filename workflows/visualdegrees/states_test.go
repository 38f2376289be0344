package visualdegrees

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/pawltest"
	"pawl/ports/faces"
	"pawl/ports/fetch"
	"pawl/ports/imagesearch"
)

// TestR00010StartIsRefused before anything is spent: no names, one person twice, names that nobody can search, options out of range.
func TestR00010StartIsRefused(t *testing.T) {
	for says, in := range map[string]Input{
		"personA: a name is needed":                        ask("", "B"),
		"personB: the name has no character that is seen":  ask("A", "\u200b\u200b"),
		"the same person":                                  ask("Zoë Kravitz", "zoe\u0308  KRAVITZ"),
		"are the same person: \"Björk\"":                   ask("Björk", "Bjork"),
		"may be one person":                                ask("👑Queen", "Queen"),
		"personB: more than 90 characters":                 ask("A", strings.Repeat("A", 91)),
		"personA: the name has 5000 characters":            ask(strings.Repeat("A", 5000), "B"),
		"personA: more than 24 words":                      ask(strings.Repeat("a ", 25), "B"),
		"options.hopLimit: want 1 to 12, not 13":           with(ask("A", "B"), func(c *Choices) { c.HopLimit = 13 }),
		"options.hopLimit: want 1 to 12, not -1":           with(ask("A", "B"), func(c *Choices) { c.HopLimit = -1 }),
		"options.confidenceThreshold: want above 0 to 100": with(ask("A", "B"), func(c *Choices) { c.ConfidenceThreshold = 101 }),
		"options.imagesPerQuery: want 1 to 5, not 6":       with(ask("A", "B"), func(c *Choices) { c.ImagesPerQuery = 6 }),
		"sessionId: control characters":                    {SessionID: "a\nb", PersonA: "A", PersonB: "B"},
		"sessionId: more than 128 characters":              {SessionID: strings.Repeat("s", 129), PersonA: "A", PersonB: "B"},
	} {
		s := newScene(t, photo("1", "A", "B"))
		_, err := pawl.Execute(t.Context(), Graph(s.Agent), in)
		if err == nil || pawl.Coded(err).Code != pawl.CodeInvalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", in, err, says)
		}
		if len(s.searched)+len(s.looked) > 0 {
			t.Errorf("%q was searched", s.searched)
		}
	}
}

// TestR00012Defaults: what is not said is 6 edges, 80 percent, 5 images, 15 searches, 75 recognitions, 10 calls of a model, two minutes
// (R-000-01, R-000-02, R-000-04, Q-000-13).
func TestR00012Defaults(t *testing.T) {
	s := newScene(t, photo("1", "A", "B"))
	r := s.plays(t, ask(" A ", "B"), pawltest.Script{})
	m := r.Output.Meta
	same(t, "caps", m.Caps, Used{DefaultSearch, DefaultRecognition, DefaultModel})
	same(t, "hops and threshold", []any{m.HopLimit, m.ConfidenceThreshold}, []any{6, 80.0})
	same(t, "source", m.Source, "album, recognized by album")
	r = s.plays(t, ask("A", "B"), budget(3, 4, 5))
	same(t, "its own caps", r.Output.Meta.Caps, Used{3, 4, 5})
	for given, want := range map[int64]int64{0: 0, DefaultSearch: DefaultSearch, MaxSearch: MaxSearch, MaxSearch + 1: MaxSearch, 100 * MaxSearch: MaxSearch} {
		r = s.plays(t, ask("A", "B"), budget(given, 75, 10))
		same(t, fmt.Sprint("given ", given), r.Output.Meta.Caps.Search, want)
	}
	for _, given := range []time.Duration{time.Minute, 29*time.Minute + 30*time.Second, maxRuntime} {
		r = s.plays(t, ask("A", "B"), pawltest.Script{Start: pawl.StartOptions{Budget: pawl.Budget{pawl.MeterRuntime: given.Milliseconds()}}})
		same(t, "its own time", limit(r, pawl.MeterRuntime), given.Milliseconds())
	}
	same(t, "no time of its own", limit(s.plays(t, ask("A", "B"), pawltest.Script{}), pawl.MeterRuntime), DefaultRuntime.Milliseconds())
}

// TestR00056Final: a final event has the four parts that the seed names and the result of the contract of events, a no_path event the
// same result (R-000-56, R-000-60, S-000-04); each event has the run and a time.
func TestR00056Final(t *testing.T) {
	s := newScene(t, photo("1", "A", "B"))
	r := s.plays(t, ask("A", "B"), pawltest.Script{})
	final := emitted[map[string]any](r, EventFinal)[0]
	for _, part := range []string{"path", "edges", "confidenceMap", "graph"} {
		if final[part] == nil || fmt.Sprint(final[part]) != fmt.Sprint(final["result"].(map[string]any)[part]) {
			t.Errorf("%s: %v", part, final[part])
		}
	}
	result := final["result"].(map[string]any)
	same(t, "of the result", []any{result["status"], result["personA"], result["disclaimer"]}, []any{"success", "A", Disclaimer})
	r = newScene(t, photo("1", "A", "C")).plays(t, ask("A", "B"), pawltest.Script{})
	no := emitted[map[string]any](r, EventNoPath)[0]
	result = no["result"].(map[string]any)
	same(t, "no path", []any{result["status"], result["message"]}, []any{"no_path", r.Output.Message})
	for _, e := range []map[string]any{final, no} {
		if e["runId"] == "" || e["timestamp"] == nil {
			t.Errorf("%v", e)
		}
	}
}

// limit is the cap of a meter of a run.
func limit(r *pawltest.Result[Output], meter string) int64 {
	for _, m := range r.Run.Meters {
		if m.Name == meter {
			return m.Cap
		}
	}
	return -1
}

// TestR00020Direct: one photograph of both, and the run is over after one search (R-000-14 to R-000-16, R-000-18 to R-000-22).
func TestR00020Direct(t *testing.T) {
	s := newScene(t, photo("1", "A:96", "B:94"), photo("2", "A", "C"), photo("3", "B", "C"))
	r := s.plays(t, ask("A", "B"), pawltest.Script{})
	same(t, "path", r.Path(), []string{"S0", "S1", "S6"})
	same(t, "searched", s.searched, []string{"A B"})
	same(t, "status", messages(r), []string{"Starting investigation…", "Searching for direct visual connections…"})
	same(t, "edges", []any{r.Output.Path, r.Output.Edges[0].EdgeConfidence, r.Output.Edges[0].BestEvidence.ImageScore}, []any{[]string{"A", "B"}, 94.0, 94.0})
	same(t, "map", r.Output.ConfidenceMap.Edges, map[string]float64{"A|B": 94})
	same(t, "evidence", len(r.Emitted(EventEvidence)), 1)
}

// TestR00008Threshold is inclusive, and each end must reach it in one photograph: never one of it in another (Q-000-07).
func TestR00008Threshold(t *testing.T) {
	for seen, found := range map[string]bool{"A:80|B:80": true, "A:79.9|B:99": false, "A:99|B:79.9": false} {
		a, b, _ := strings.Cut(seen, "|")
		s := newScene(t, photo("1", a, b))
		r := s.plays(t, ask("A", "B"), pawltest.Script{})
		same(t, seen, r.Output.Status == "success", found)
	}
	s := newScene(t, photo("1", "A:99", "B:70"), photo("2", "A:70", "B:99"))
	same(t, "apart", s.plays(t, ask("A", "B"), pawltest.Script{}).Output.Status, "no_path")
}

// TestR00017Fallback: the other template is searched only where the first finds nothing; pictures of one of the two are told, and are no
// evidence (R-000-23, Q-000-05).
func TestR00017Fallback(t *testing.T) {
	s := newScene(t, photo("1", "A", "C"))
	s.search = func(q string) ([]imagesearch.Result, error) {
		if q == "A B" {
			return []imagesearch.Result{}, nil
		}
		return nil, nil
	}
	r := s.plays(t, ask("A", "B"), pawltest.Script{})
	same(t, "searched", s.searched[:2], []string{"A B", "A B event"})
	partial := 0
	for _, raw := range r.Emitted(EventStatus) {
		var e StatusEvent
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			t.Fatal(err)
		}
		partial += len(e.Meta.Partial)
	}
	if partial == 0 {
		t.Error("nobody is told of the photograph of one")
	}
	s = newScene(t, photo("1", "A", "C"))
	s.plays(t, ask("A", "B"), pawltest.Script{})
	if s.searched[1] == "A B event" {
		t.Error("the fallback was searched though something was found")
	}
}

// TestR00045Chain goes from one to the next, and stops each list of queries at the first proof (R-000-24 to R-000-31, R-000-40, R-000-44
// to R-000-49, Q-000-03, Q-000-18): the target is seen beside the frontier, or found by the direct attempt of S5.
func TestR00045Chain(t *testing.T) {
	s := newScene(t, photo("1", "A", "X"), photo("2", "X", "Y"), photo("3", "Y", "Z"), photo("4", "Z", "B"))
	in := with(ask("A", "B"), oneSided)
	r := s.plays(t, in, pawltest.Script{})
	same(t, "path", r.Output.Path, []string{"A", "X", "Y", "Z", "B"})
	same(t, "recognitions", r.Output.Meta.Budgets.Recognition, 4)
	for _, want := range []string{
		"Expanding search to find strong intermediates…", "Trying an expansion via X…", "Checking whether X connects directly to B…",
		"No direct edge found; expanding again…", // R-000-48
	} {
		if !strings.Contains(strings.Join(messages(r), "\n"), want) {
			t.Errorf("never said: %s", want)
		}
	}
	for _, e := range emitted[StatusEvent](r, EventStatus) {
		if e.Message == "No direct edge found; expanding again…" { // R-000-46: whoever was verified is the frontier, one edge on
			same(t, "hop and frontier", []any{e.Meta.Hop, e.Meta.Frontier, e.Meta.Side}, []any{1, "X", "A"})
			break
		}
	}
	for _, e := range emitted[StatusEvent](r, EventStatus) { // R-000-61
		same(t, "side", e.Meta.Side, "A")
	}
	same(t, "edges shown", len(r.Emitted(EventEvidence)), 4)
	if n := len(r.Emitted(EventPath)); n < 2 {
		t.Errorf("%d updates of the path", n)
	}
	two := s.plays(t, ask("A", "B"), pawltest.Script{})
	same(t, "from both sides", two.Output.Path, []string{"A", "X", "Y", "Z", "B"})
	if !slices.ContainsFunc(emitted[StatusEvent](two, EventStatus), func(e StatusEvent) bool { return e.Meta.Side == "B" }) { // R-000-62
		t.Error("nothing was done from the side of B")
	}
}

// TestR00005Crowd: whoever else is in a photograph takes nothing from its score (R-000-05).
func TestR00005Crowd(t *testing.T) {
	in := []string{"A:93", "B:91"}
	for i := range 50 {
		in = append(in, fmt.Sprint("Guest ", i))
	}
	r := newScene(t, photo("1", in...)).plays(t, ask("A", "B"), pawltest.Script{})
	same(t, "confidence", r.Output.Edges[0].EdgeConfidence, 91.0)
}

// TestR00050Confidence: 96 and 94 percent are a bottleneck of 94 and a product of 0.9024 (S-000-08), the best photograph of an edge counts
// (R-000-50 to R-000-56).
func TestR00050Confidence(t *testing.T) {
	s := newScene(t, photo("1", "A:96", "X:99"), photo("2", "X:94", "B:98"), photo("3", "A:81", "X:99"))
	o := s.plays(t, ask("A", "B"), pawltest.Script{}).Output
	same(t, "bottleneck and product", *o.Confidence, Confidence{94, 0.9024})
	same(t, "map", o.ConfidenceMap.Edges, map[string]float64{"A|X": 96, "X|B": 94})
	same(t, "nodes", o.Graph.Nodes, []PictureNode{{"p1", "A"}, {"p2", "X"}, {"p3", "B"}})
	same(t, "first edge", o.Edges[0].BestEvidence.ImageURL, "album:1")
	for _, e := range o.Graph.Edges {
		if len(e.EvidenceRefs) == 0 {
			t.Errorf("%s has no photograph", e.ID)
		}
	}
}

// TestR00058Reasons tells apart why there is no path (R-000-47, R-000-57, R-000-58, R-000-60, R-000-73, R-000-74, Q-000-01, Q-000-08).
func TestR00058Reasons(t *testing.T) {
	chain := []string{photo("1", "A", "X"), photo("2", "X", "Y"), photo("3", "Y", "Z"), photo("4", "Z", "B")}
	hops := func(n int) Input { return with(ask("A", "B"), func(c *Choices) { c.HopLimit = n }) }
	for _, c := range []struct {
		name   string
		photos []string
		in     Input
		script pawltest.Script
		reason string
	}{
		{"nobody else", []string{photo("1", "A", "X")}, ask("A", "B"), pawltest.Script{}, ReasonFrontier},
		{"nothing at all", []string{photo("1", "C", "D")}, ask("A", "B"), pawltest.Script{}, ReasonFrontier},
		{"too long", chain, hops(3), budget(100, 75, 10), ReasonHops},
		{"too long from one side", chain, with(hops(3), oneSided), budget(100, 75, 10), ReasonHops},
		{"long enough", chain, hops(4), pawltest.Script{}, ""},
		{"searches", chain, ask("A", "B"), budget(2, 75, 10), "budget:search"},
		{"no searches", chain, ask("A", "B"), budget(0, 75, 10), "budget:search"},
		{"recognitions", chain, ask("A", "B"), budget(15, 1, 10), "budget:recognition"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, c.photos...)
			r := s.plays(t, c.in, c.script)
			same(t, "reason", r.Output.Reason, c.reason)
			if c.reason == "" {
				return
			}
			want := fmt.Sprintf("No verified visual connection found within %d degrees at ≥80%% confidence", c.in.Options.whole().HopLimit)
			if !strings.HasPrefix(r.Output.Message, want) || r.Run.Err == nil || r.Run.Err.Code != c.reason {
				t.Errorf("%q, %v", r.Output.Message, r.Run.Err)
			}
			if caps := c.script.Start.Budget; caps != nil && (int64(len(s.searched)) > caps[MeterSearch] || int64(len(s.looked)) > caps[MeterRecognition]) {
				t.Errorf("%d searches, %d recognitions", len(s.searched), len(s.looked))
			}
		})
	}
}

// TestR00073Runtime: a run whose time is over says so, and what it has seen until then is in its output, also of the visit that was under
// way. A service that would be asked again only later is not waited for.
func TestR00073Runtime(t *testing.T) {
	s := newScene(t, photo("1", "A", "X"), photo("2", "X", "Y"), photo("3", "Y", "Z"), photo("4", "Z", "B"))
	s.Search = slow{s.Search, 50 * time.Second}
	r := s.plays(t, ask("A", "B"), pawltest.Script{})
	same(t, "reason", r.Output.Reason, ReasonRuntime)
	same(t, "searched and looked at", []any{r.Output.Meta.Budgets, r.Output.Meta.Photographs}, []any{Used{3, 3, 0}, 3})
	s = newScene(t, photo("1", "A", "X"))
	s.search = func(string) ([]imagesearch.Result, error) {
		return nil, imagesearch.Failure{Source: "album", Code: imagesearch.CodeRateLimited, Text: "429", After: time.Hour}.Fault()
	}
	same(t, "an hour", s.plays(t, ask("A", "B"), pawltest.Script{}).Output.Reason, ReasonRuntime)
}

// slow takes its time for each search.
type slow struct {
	imagesearch.Searcher
	each time.Duration
}

func (s slow) Search(ctx context.Context, q imagesearch.Query) ([]imagesearch.Result, error) {
	select {
	case <-time.After(s.each):
		return s.Searcher.Search(ctx, q)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestR00074Spent: what is told to be spent is what was, where services fail too; scene.holds compares the two (R-000-70 to R-000-72).
func TestR00074Spent(t *testing.T) {
	s := newScene(t, photo("1", "A", "X"), photo("2", "A", "X", "Y"))
	n := 0
	s.search = func(string) ([]imagesearch.Result, error) {
		if n++; n > 2 {
			return nil, imagesearch.Failure{Source: "album", Code: pawl.CodeUnavailable, Text: "x", After: -1}.Fault()
		}
		return nil, nil
	}
	s.see = func(url string) error {
		if url == "album:1" {
			return faces.Failure{Recognizer: "album", Code: faces.CodePicture, Text: "no", After: -1}.Fault()
		}
		return faces.Failure{Recognizer: "album", Code: pawl.CodeUnavailable, Text: "no", After: -1}.Fault()
	}
	r := s.plays(t, ask("A", "B"), budget(100, 75, 10))
	if m := r.Output.Meta.Budgets; m.Recognition != 3 || m.Search < 10 {
		t.Errorf("%+v", m)
	}
}

// TestQ00002Reverify: what the discovery has seen proves an edge with no further call; with reverify the queries of S4 are made, a photograph
// that was seen before counts for them and is not looked at again, and what they do not show is not verified (R-000-37 to R-000-43).
func TestQ00002Reverify(t *testing.T) {
	photos := []string{photo("1", "A", "X"), photo("2", "A", "Y"), photo("3", "Y", "B")}
	s := newScene(t, photos...)
	blind := func(queries ...string) {
		s.search = func(q string) ([]imagesearch.Result, error) {
			for _, b := range append(queries, "A B", "X B") {
				if strings.HasPrefix(q, b) {
					return []imagesearch.Result{}, nil
				}
			}
			return nil, nil
		}
	}
	blind()
	in := with(ask("A", "B"), func(c *Choices) { oneSided(c); c.Reverify = true })
	r := s.plays(t, in, pawltest.Script{})
	same(t, "path", r.Output.Path, []string{"A", "Y", "B"})
	if !strings.Contains(strings.Join(s.searched, "\n"), "A X") {
		t.Errorf("never corroborated: %q", s.searched)
	}
	same(t, "each photograph once", len(s.looked), 3)
	s = newScene(t, photos...)
	blind("A X")
	r = s.plays(t, in, pawltest.Script{})
	if !strings.Contains(strings.Join(messages(r), "\n"), "Unable to verify this intermediate; trying another…") {
		t.Error("X was taken on the word of one search")
	}
	same(t, "path", r.Output.Path, []string{"A", "Y", "B"})
}

// TestQ00002ShortBudget: an edge that a photograph proves is not dropped because no searches are left to look for it again, or because
// nobody answers them.
func TestQ00002ShortBudget(t *testing.T) {
	for _, searches := range []int64{1, 100} {
		s := newScene(t, photo("1", "A", "X"), photo("2", "X", "B"))
		s.finds(map[string]string{"A B": "1", "X B": "2"})
		finds := s.search
		s.search = func(q string) ([]imagesearch.Result, error) {
			if strings.HasPrefix(q, "A X") {
				return nil, imagesearch.Failure{Source: "album", Code: pawl.CodeUnavailable, Text: "x", After: -1}.Fault()
			}
			return finds(q)
		}
		r := s.plays(t, with(ask("A", "B"), func(c *Choices) { oneSided(c); c.Reverify = true }), budget(searches, 75, 10))
		if !edges(r)["A|X"] {
			t.Errorf("%d searches: the edge was dropped: %v, %q", searches, r.Path(), messages(r))
		}
	}
}

// TestQ00008BothSides: the first frontier is on A's side, whatever went wrong before.
func TestQ00008BothSides(t *testing.T) {
	for _, broken := range []bool{false, true} {
		s := newScene(t, photo("ax", "A", "X"), photo("by", "B", "Y"))
		s.search = func(q string) ([]imagesearch.Result, error) {
			if q != "A B" && q != "A B event" {
				return nil, nil
			}
			if broken {
				return nil, imagesearch.Failure{Source: "album", Code: pawl.CodeTimeout, Text: "x", After: -1}.Fault()
			}
			return []imagesearch.Result{}, nil
		}
		r := s.plays(t, ask("A", "B"), pawltest.Script{})
		for _, d := range r.Output.Decisions {
			if d.State == "S2" {
				same(t, fmt.Sprint("broken ", broken), d.Side, "A")
				break
			}
		}
	}
}

// TestQ00004NoCycle: nobody is on a path twice, and whom a name is spelled differently is one person.
func TestQ00004NoCycle(t *testing.T) {
	s := newScene(t, photo("1", "Ana Diaz", "Zoë X"), photo("2", "Zoe X", "Ana Díaz"), photo("3", "Zoe\u0308 X", "Y"), photo("4", "Y", "B"))
	r := s.plays(t, ask("ana  diaz", "B"), pawltest.Script{})
	same(t, "status", r.Output.Status, "success")
	same(t, "edges", len(r.Output.Edges), 3)
	noted := []string{}
	for _, d := range r.Output.Decisions {
		if d.By == "names" {
			noted = append(noted, strings.Join(d.Chosen, " = ")+": "+d.Why)
		}
	}
	likely := ": likely the same name: taken for one person"
	same(t, "noted", noted, []string{"Ana Díaz = ana diaz" + likely, "Zoë X = Zoe X" + likely})
}

// TestR00011NamesAreNoted: what is odd about a name is in the run, and so is whom nobody but a person can tell apart: they are not one
// (R-000-11).
func TestR00011NamesAreNoted(t *testing.T) {
	s := newScene(t, photo("1", "Queen", "👑Queen"), photo("2", "👑Queen", "A$AP"), photo("3", "A$AP", "B"))
	r := s.plays(t, ask("\u202eQueen", "B"), pawltest.Script{})
	same(t, "path", r.Output.Path, []string{"Queen", "👑Queen", "A$AP", "B"})
	noted := map[string]string{}
	for _, d := range r.Output.Decisions {
		if d.By == "names" {
			noted[strings.Join(d.Chosen, " = ")] = d.State + " " + d.Why
		}
	}
	for name, why := range map[string]string{"Queen": "S0 flagged: direction_control", "👑Queen": "flagged: symbol", "A$AP": "flagged: symbol"} {
		if !strings.HasSuffix(noted[name], why) {
			t.Errorf("%s: noted %q, want %q", name, noted[name], why)
		}
	}
}

// TestR00019LongNames: whoever has a name that no search takes is nobody to go on with.
func TestR00019LongNames(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("a ", 25))
	s := newScene(t, photo("1", "A", long), photo("2", long, "B"))
	r := s.plays(t, ask("A", "B"), pawltest.Script{})
	same(t, "reason", r.Output.Reason, ReasonFrontier)
	most := strings.TrimSpace(strings.Repeat("a ", 24))
	s = newScene(t, photo("1", most, "X"), photo("2", "X", most+"b"))
	same(t, "the longest", s.plays(t, ask(most, most+"b"), pawltest.Script{}).Output.Status, "success")
}

// TestCase54SkippedPhotos cost no recognition, and the search goes on with the others.
func TestCase54SkippedPhotos(t *testing.T) {
	s := newScene(t, photo("1", "A", "B"), photo("2", "A", "B", "C"))
	bad := map[string]fetch.Failure{}
	for _, id := range []string{"album:1"} {
		bad[id] = fetch.Failure{URL: id, Code: fetch.CodePage, Text: "a page", After: -1}
	}
	s.Fetch = sceneFetch{s.Fetch, bad}
	r := s.plays(t, ask("A", "B"), pawltest.Script{})
	same(t, "status", r.Output.Status, "success")
	same(t, "recognitions", r.Meter(MeterRecognition), 1)
	same(t, "proof", r.Output.Edges[0].BestEvidence.ImageURL, "album:2")
}
