package visualdegrees

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pawl"
	"pawl/internal/album"
	"pawl/pawltest"
	"pawl/ports/faces"
	facesalbum "pawl/ports/faces/album"
	"pawl/ports/fetch"
	fetchalbum "pawl/ports/fetch/album"
	"pawl/ports/imagesearch"
	searchalbum "pawl/ports/imagesearch/album"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
)

// scene is a small world of photographs, and what was asked of it.
type scene struct {
	album *album.Album
	Agent
	mu       sync.Mutex
	searched []string
	looked   []string

	search func(query string) ([]imagesearch.Result, error) // before the album is; nil, nil: the album answers
	see    func(url string) error
}

// photo writes a photograph: who is recognized in it, each as NAME or NAME:CONFIDENCE.
func photo(id string, seen ...string) string {
	var names, confidence []string
	for _, s := range seen {
		name, c, ok := strings.Cut(s, ":")
		if !ok {
			c = "95"
		}
		names, confidence = append(names, name), append(confidence, c)
	}
	return fmt.Sprintf("%s,%s,%s,%s\n", id, strings.Join(names, "|"), strings.Join(names, "|"), strings.Join(confidence, "|"))
}

func newScene(t testing.TB, photos ...string) *scene {
	t.Helper()
	al, err := album.Load("scene.csv", strings.NewReader("id,people,recognized_people,recognition_confidence\n"+strings.Join(photos, "")))
	if err != nil {
		t.Fatal(err)
	}
	return sceneOf(al)
}

func sceneOf(al *album.Album) *scene {
	s := &scene{album: al}
	s.Agent = Agent{Search: sceneSearch{s, searchalbum.New(al)}, Fetch: fetchalbum.New(al), Faces: sceneFaces{s, facesalbum.New(al)}}
	return s
}

type sceneSearch struct {
	*scene
	imagesearch.Searcher
}

func (s sceneSearch) Name() string { return "album" }

func (s sceneSearch) Search(ctx context.Context, q imagesearch.Query) ([]imagesearch.Result, error) {
	s.mu.Lock()
	s.searched = append(s.searched, q.Text)
	s.mu.Unlock()
	if s.search != nil {
		if rs, err := s.search(q.Text); rs != nil || err != nil {
			return rs, err
		}
	}
	return s.Searcher.Search(ctx, q)
}

type sceneFaces struct {
	*scene
	faces.Recognizer
}

func (s sceneFaces) Name() string { return "album" }

func (s sceneFaces) Recognize(ctx context.Context, p faces.Picture) (faces.Recognition, error) {
	s.mu.Lock()
	s.looked = append(s.looked, p.URL)
	s.mu.Unlock()
	if s.see != nil {
		if err := s.see(p.URL); err != nil {
			return faces.Recognition{}, err
		}
	}
	return s.Recognizer.Recognize(ctx, p)
}

// finds makes each query find the photographs with these ids, and others nothing.
func (s *scene) finds(of map[string]string) {
	s.search = func(query string) ([]imagesearch.Result, error) {
		out := []imagesearch.Result{}
		for _, id := range strings.Fields(of[query]) {
			out = append(out, imagesearch.Result{ImageURL: "album:" + id, ContextURL: "album:" + id, Title: id})
		}
		return out, nil
	}
}

// planner makes a model plan.
func (s *scene) planner(turn func(n int, b brief) llmtest.Turn) *llmtest.Script {
	m := llmtest.Func(func(n int, r llm.Request) llmtest.Turn {
		var b brief
		if err := json.Unmarshal([]byte(r.Messages[0].Text()), &b); err != nil {
			panic(err)
		}
		return turn(n, b)
	})
	s.Model = func() (llm.Model, error) { return llm.Metered(m, llm.Price{}), nil }
	return m
}

// plans answers with a plan.
func plans(p Plan) llmtest.Turn {
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return llmtest.Say(string(raw))
}

func ask(a, b string) Input { return Input{PersonA: a, PersonB: b} }

// with is an input with options.
func with(in Input, change func(*Choices)) Input { change(&in.Options); return in }

func oneSided(c *Choices) { no := false; c.TwoSided = &no }

// plays runs the workflow and holds what it did against what no run may break.
func (s *scene) plays(t *testing.T, in Input, script pawltest.Script) *pawltest.Result[Output] {
	t.Helper()
	r := pawltest.Run(t, Graph(s.Agent), in, script)
	s.holds(t, in, r)
	return r
}

// legal are the transitions of the seed (R-000-09, R-000-15, R-000-21, R-000-30, R-000-35, R-000-42, R-000-43).
var legal = map[string][]string{
	"S0": {"S1"}, "S1": {"S2", "S6", "S7"}, "S2": {"S3", "S6", "S7"}, "S3": {"S4", "S7"}, "S4": {"S5", "S3", "S2", "S7"}, "S5": {"S6", "S2", "S7"},
}

// broken is where a run ends that nothing can be said of.
const broken = "FAILED"

// holds: only legal transitions, only the six events (R-000-75) and exactly one at the end (R-000-79), no counter above its cap or told wrongly
// (R-000-74), no path that is none (R-000-08, R-000-54) or was not shown (R-000-76), and no run that ends of the workflow's own fault.
func (s *scene) holds(t *testing.T, in Input, r *pawltest.Result[Output]) {
	t.Helper()
	path := r.Path()
	for i := range path[1:] {
		if !slices.Contains(legal[path[i]], path[i+1]) && path[i+1] != broken {
			t.Errorf("%s after %s", path[i+1], path[i])
		}
	}
	final := 0
	for _, e := range r.Events {
		switch {
		case strings.HasPrefix(e.Type, "pawl."):
		case slices.Contains([]string{EventFinal, EventNoPath, EventError}, e.Type):
			final++
		case !slices.Contains([]string{EventStatus, EventEvidence, EventPath}, e.Type):
			t.Errorf("an event %s", e.Type)
		}
	}
	if final != 1 {
		t.Errorf("%d events end the run", final)
	}
	o := r.Output
	if m := o.Meta; m.Budgets.Search > m.Caps.Search || m.Budgets.Recognition > m.Caps.Recognition || m.Budgets.Model > m.Caps.Model {
		t.Errorf("spent %+v of %+v", m.Budgets, m.Caps)
	}
	if o.Status != "" {
		same(t, "told to be spent", o.Meta.Budgets, Used{r.Meter(MeterSearch), r.Meter(MeterRecognition), r.Meter(MeterModel)})
	}
	if r.Run.Err != nil && r.Run.Err.Code == "internal" {
		t.Errorf("%v after %v", r.Run.Err, path)
	}
	w := newWorld(s.album, in.Options.whole().ConfidenceThreshold)
	if o.Status == "success" {
		got := w.judge([]Question{{A: in.PersonA, B: in.PersonB}}, []answer{{path: o.Path}}, in.Options.whole().HopLimit)
		if got.Found != 1 || got.Invalid+got.False > 0 || len(o.Edges) != len(o.Path)-1 || o.Disclaimer == "" {
			t.Errorf("a path that is none: %v: %+v", o.Path, got)
		}
		if last := paths(r); len(last) == 0 || !slices.Equal(last[len(last)-1], o.Path) {
			t.Errorf("the path %v, told %v", o.Path, last)
		}
		for i := range o.Path[1:] {
			if told := edges(r); !told[o.Path[i]+"|"+o.Path[i+1]] && !told[o.Path[i+1]+"|"+o.Path[i]] {
				t.Errorf("the edge %s – %s of the path was never shown, but %v", o.Path[i], o.Path[i+1], told)
			}
		}
	} else if len(o.Path)+len(o.Edges) > 0 || o.Graph != nil || o.Summary != "" { // R-000-59
		t.Errorf("a failure with a path: %+v", o)
	}
}

// emitted are the events of a type.
func emitted[E any](r *pawltest.Result[Output], typ string) (out []E) {
	for _, raw := range r.Emitted(typ) {
		var e E
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			panic(err)
		}
		out = append(out, e)
	}
	return out
}

func messages(r *pawltest.Result[Output]) (out []string) {
	for _, e := range emitted[StatusEvent](r, EventStatus) {
		out = append(out, e.Message)
	}
	return out
}

func paths(r *pawltest.Result[Output]) (out [][]string) {
	for _, e := range emitted[PathEvent](r, EventPath) {
		out = append(out, e.Path)
	}
	return out
}

// edges are those whose evidence was shown.
func edges(r *pawltest.Result[Output]) map[string]bool {
	out := map[string]bool{}
	for _, e := range emitted[EvidenceEvent](r, EventEvidence) {
		out[e.Edge.From+"|"+e.Edge.To] = true
	}
	return out
}

func budget(search, recognition, model int64) pawltest.Script {
	return pawltest.Script{Start: pawl.StartOptions{Budget: pawl.Budget{MeterSearch: search, MeterRecognition: recognition, MeterModel: model}}}
}

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

var _ fetch.Fetcher = sceneFetch{}

// sceneFetch fails for some addresses.
type sceneFetch struct {
	fetch.Fetcher
	fails map[string]fetch.Failure
}

func (f sceneFetch) Image(ctx context.Context, url string) (fetch.Image, error) {
	if bad, ok := f.fails[url]; ok {
		return fetch.Image{}, bad.Fault()
	}
	return f.Fetcher.Image(ctx, url)
}
