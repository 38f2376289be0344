package visualdegrees

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pawl"
	"pawl/internal/album"
)

func shared(t *testing.T, name string) *os.File {
	t.Helper()
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(dir, "people", name))
	if err != nil {
		t.Skip("shared data not found: ", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestLongSimulatedWorld: on 10,915 photographs, with wrong labels and pictures that cannot be fetched, the workflow finds at least one and a
// half times what the seed does read word by word, with more budget nearly all that there is, and forges nothing. Every third pair is played, with
// more budget every sixth; `pawl eval visualdegrees` plays all.
func TestLongSimulatedWorld(t *testing.T) {
	al, err := album.Load("photos_world.csv", shared(t, "photos_world.csv"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := LoadQuestions("photos_world_pairs_gold.csv", shared(t, "photos_world_pairs_gold.csv"))
	if err != nil {
		t.Fatal(err)
	}
	var many, some []Question // the command plays all
	for i := range all {
		if i%3 == 0 {
			many = append(many, all[i])
		}
		if i%6 == 0 {
			some = append(some, all[i])
		}
	}
	s := sceneOf(al)
	s.Agent.Search, s.Agent.Faces = s.Agent.Search.(sceneSearch).Searcher, s.Agent.Faces.(sceneFaces).Recognizer
	tr := Trial{Agent: s.Agent, Album: al}
	w := newWorld(al, DefaultThreshold)
	plays := func(qs []Question, play func(context.Context, Question) (answer, error)) Report {
		answers, err := each(t.Context(), qs, play)
		if err != nil {
			t.Fatal(err)
		}
		r := w.judge(qs, answers, DefaultHops)
		t.Logf("%+v", r)
		if r.Pairs != len(qs) || r.False+r.Invalid > 0 || r.Found > r.Reachable || sum(r.ByReason) != r.Pairs {
			t.Errorf("%+v", r)
		}
		return r
	}
	ours, plain := plays(many, tr.pawl), plays(many, tr.plain)
	if ours.FoundShare < 1.5*plain.FoundShare || ours.Search > DefaultSearch || ours.Recognition > DefaultRecognition {
		t.Errorf("found %.3f, the seed word by word %.3f", ours.FoundShare, plain.FoundShare)
	}
	tr.Agent.Budget = pawl.Budget{MeterSearch: 200, MeterRecognition: 1000}
	if more := plays(some, tr.pawl); more.FoundShare < 0.95 {
		t.Errorf("found %.3f of what is reachable", more.FoundShare)
	}
	c, err := tr.Run(t.Context(), some[:len(some)/4])
	if err != nil || c.BFS.Found == 0 || c.BFS.False+c.BFS.Invalid > 0 || c.Pawl.Reachable != c.BFS.Reachable {
		t.Errorf("%+v, %v", c, err)
	}
}

func sum(by map[string]int) (n int) {
	for _, m := range by {
		n += m
	}
	return n
}

// TestJudge counts what is false, mislabelled and no path.
func TestJudge(t *testing.T) {
	al, err := album.Load("x.csv", strings.NewReader("id,people,recognized_people,recognition_confidence,fetch_outcome\n"+
		"1,A|X,A|X,90|90,ok\n2,X|B,X|B,90|90,ok\n3,B|C,B|D,90|90,webp\n4,C|D,C|D,90|90,http_404\n5,D|E,D|E,90|79,ok\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(al, 80)
	for path, want := range map[string]Report{
		"A X B":     {Found: 1},
		"A X B D":   {Found: 1, Mislabelled: 1},
		"A B":       {Found: 1, False: 1},
		"A X B D C": {Found: 1, Mislabelled: 1, False: 1},
		"D E":       {Found: 1, False: 1},
		"A X A":     {Invalid: 1},
	} {
		p := strings.Fields(path)
		got := w.judge([]Question{{A: p[0], B: p[len(p)-1]}}, []answer{{path: p}}, 6)
		if got.Found != want.Found || got.False != want.False || got.Mislabelled != want.Mislabelled || got.Invalid != want.Invalid {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if got := w.judge([]Question{{A: "A", B: "B"}}, []answer{{path: []string{"A", "X", "B"}}}, 1); got.Invalid != 1 || got.Reachable != 0 {
		t.Errorf("too long: %+v", got)
	}
	if got := w.judge([]Question{{A: "A", B: "B"}}, []answer{{path: []string{"X", "B"}}}, 6); got.Invalid != 1 || got.Reachable != 1 {
		t.Errorf("another question's: %+v", got)
	}
}

// TestBaselines: a spent meter ends them, and each says why it ends.
func TestBaselines(t *testing.T) {
	chain := []string{photo("1", "A", "X"), photo("2", "X", "Y"), photo("3", "Y", "Z"), photo("4", "Z", "B")}
	for name, c := range map[string]struct {
		hops   int
		budget pawl.Budget
		plain  string
		bfs    string
	}{
		"reached":         {6, pawl.Budget{MeterSearch: 100}, "", ""},
		"too long":        {3, pawl.Budget{MeterSearch: 100}, ReasonHops, ReasonHops},
		"no recognitions": {6, pawl.Budget{MeterRecognition: 3}, "budget:recognition", ""},
		"no searches":     {6, pawl.Budget{MeterSearch: 2}, "budget:search", ""},
	} {
		s := newScene(t, chain...)
		s.Budget = c.budget
		tr := Trial{Agent: s.Agent, Album: s.album, Hops: c.hops}
		got, err := tr.plain(t.Context(), Question{A: "A", B: "B"})
		if err != nil || got.reason != c.plain || (got.path == nil) != (c.plain != "") || got.used.Search != int64(len(s.searched)) {
			t.Errorf("%s: plain %+v, %v, searched %q", name, got, err, s.searched)
		}
		if most, ok := c.budget[MeterRecognition]; ok && (got.used.Recognition != most || len(s.searched) != 3) {
			t.Errorf("%s: %+v, and then searched %q", name, got.used, s.searched)
		}
		var memo sync.Map
		if got, err := tr.breadth(t.Context(), Question{A: "A", B: "B"}, &memo); err != nil || got.reason != c.bfs {
			t.Errorf("%s: bfs %+v, %v", name, got, err)
		}
	}
}

// TestLoadQuestions says what is wrong with a file, and where.
func TestLoadQuestions(t *testing.T) {
	for says, file := range map[string]string{
		"x:1: the columns source and target are needed": "a,b\n1,2\n",
		"x:3: ":          "source,target\nA,B\nA,a\n",
		"x: no pairs":    "source,target\n",
		"x:2: 1 columns": "source,target\nA\n",
		"parse error":    "source,target\n\"A,B\n",
	} {
		if _, err := LoadQuestions("x", strings.NewReader(file)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", file, err, says)
		}
	}
	if _, err := LoadQuestions("x", strings.NewReader("")); err == nil || !strings.Contains(err.Error(), io.EOF.Error()) {
		t.Errorf("an empty file: %v", err)
	}
	qs, err := LoadQuestions("x", strings.NewReader("\ufeffid,source,target\r\n1,A,B\r\n"))
	if err != nil || len(qs) != 1 || qs[0] != (Question{"A", "B", 2}) {
		t.Errorf("%v, %v", qs, err)
	}
}
