package app

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl"
	"pawl/engine"
)

// steps is a workflow that adds, asks and adds; by says how much the last node adds.
func steps(by int) Workflow {
	type sum struct {
		N     int      `json:"n"`
		Name  string   `json:"name,omitempty"`
		Parts []string `json:"parts,omitempty"`
	}
	g := pawl.New[sum, sum, sum]("steps", pawl.Options{Version: "1"})
	add := g.Node("add", func(ctx context.Context, s sum) (sum, error) {
		n, err := pawl.Do(ctx, "one", func(context.Context) (int, error) { return 1, nil })
		s.N, s.Parts = s.N+n, append(s.Parts, "added")
		return s, err
	})
	ask := g.Node("ask", func(ctx context.Context, s sum) (sum, error) {
		n, err := pawl.Ask[int](ctx, "more", pawl.Question{Text: "How many more?"})
		s.N += n * by
		return s, err
	})
	g.Start(add, func(s sum) (sum, error) { return s, nil })
	g.From(add).Otherwise(ask)
	g.From(ask).Otherwise(g.Succeed("SUM"))
	g.Finish(func(s sum, _ pawl.Ending) (sum, error) { return s, nil })
	return Graph(g)
}

// asked starts a run of steps that waits for its answer.
func (s *shell) asked(args ...string) (run, question string) {
	s.t.Helper()
	r := s.want(exitWaiting, append([]string{"run", "steps", "--json"}, args...)...).last(s.t)
	return r.Run.ID, r.Questions[0].ID
}

func TestReplayCommand(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ws = []Workflow{steps(1), NCO()}
	run, question := s.asked("n=4")
	s.want(0, "runs", "replay", run)
	s.want(0, "runs", "answer", run, question, "3")
	got := s.want(0, "runs", "replay", run)
	if !strings.Contains(got.out, "equal: ") || got.err != "" {
		t.Error(got)
	}
	coded := s.want(exitWaiting, "run", "nco", "teacher", "--json").last(t)
	s.want(0, "runs", "answer", coded.Run.ID, coded.Questions[0].ID, "2")
	s.want(0, "runs", "replay", coded.Run.ID)

	s.ws = []Workflow{steps(2)}
	golden(t, "replay_diverged.txt", s.want(exitFailed, "runs", "replay", run).out)
	var r engine.Replay
	if err := json.Unmarshal([]byte(s.want(exitFailed, "runs", "replay", run, "--json").out), &r); err != nil {
		t.Fatal(err)
	}
	if d := r.Diverged; d == nil || d.Kind != engine.DivergedState || d.Path != ".n" || string(d.Recorded) != "8" || string(d.Replayed) != "11" {
		t.Errorf("%+v", r)
	}
	s.want(exitNotFound, "runs", "replay", "nothing")
	oneClearLine(t, s.run("runs", "replay", coded.Run.ID), exitNotFound, "this program has no workflow nco")
	s.want(exitUsage, "runs", "replay")
}

func TestForkCommand(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ws = []Workflow{steps(1)}
	run, question := s.asked("n=4", "name=ann")
	s.want(0, "runs", "answer", run, question, "3")
	f := s.want(exitWaiting, "runs", "fork", run, "--step", "2", "n=40", "name=7", "parts[1]=more", "--json").last(t)
	if f.Run.ForkOf != run || f.Run.ForkStep != 2 || f.Run.ID == run {
		t.Errorf("%+v", f.Run)
	}
	done := s.want(0, "runs", "answer", f.Run.ID, f.Questions[0].ID, "1", "--json").last(t)
	if string(done.Run.Output) != `{"n":41,"name":"7","parts":["added","more"]}` {
		t.Errorf("%s", done.Run.Output)
	}
	if got := s.want(0, "runs", "show", f.Run.ID).out; !strings.Contains(got, run+" at step 2") {
		t.Error(got)
	}
	file := filepath.Join(s.dir, "state.json")
	if err := os.WriteFile(file, []byte(`{"n":100}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--state", file, "name=eve"}, {"--state", "-"}} {
		got := s.fed(`{"n":100,"name":"eve"}`, append([]string{"runs", "fork", run, "--step", "1", "--json"}, args...)...)
		r := got.last(t)
		state := s.want(0, "runs", "show", r.Run.ID, "--json").out
		if got.code != exitWaiting || !strings.Contains(state, `"n": 101`) || !strings.Contains(state, `"name": "eve"`) {
			t.Errorf("%v: %v\n%s", args, got, state)
		}
	}
	for text, args := range map[string][]string{
		".n: ":                    {"--step", "2", "n=\"x\""},
		"want JSON, such as":      {"--step", "2", "n=x"},
		"it can from step 2":      {},
		"colour":                  {"--step", "2", "colour=red"},
		"no place 5":              {"--step", "2", "parts[5]=x"},
		`there is no field "who"`: {"--step", "2", "who.name=x"},
		"PATH=VALUE":              {"--step", "2", "plain"},
		"no step 99":              {"--step", "99"},
		"--step: there is no":     {"--step", "-1"},
		"--state: ":               {"--state", "nowhere.json"},
	} {
		got := s.run(append([]string{"runs", "fork", run}, args...)...)
		if got.code == 0 || !strings.Contains(got.err, text) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%v: %v, want %q", args, got, text)
		}
	}
}

func TestExportAndImportCommands(t *testing.T) {
	t.Parallel()
	s, there := newShell(t), newShell(t)
	s.ws = []Workflow{steps(1)}
	there.ws = []Workflow{steps(1)}
	run, question := s.asked("n=4")
	file := filepath.Join(s.dir, "run.gz")
	if got := s.want(0, "runs", "export", run, "--out", file); got.out != file+"\n" || !strings.Contains(got.err, "nothing is masked") {
		t.Error(got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info, err)
	}
	s.want(exitConflict, "runs", "export", run, "--out", file)
	s.want(exitNotFound, "runs", "export", "nothing", "--out", filepath.Join(s.dir, "nothing.gz"))
	if _, err := os.Stat(filepath.Join(s.dir, "nothing.gz")); err == nil {
		t.Error("a file of nothing is left")
	}
	s.want(exitUsage, "runs", "export", run, "--out", filepath.Join(s.dir, "no", "folder.gz"))

	if got := there.want(0, "runs", "import", file); got.out != run+"\n" || !strings.Contains(got.err, "replay it with: pawl runs replay "+run) {
		t.Error(got)
	}
	there.want(exitConflict, "runs", "import", file)
	there.want(0, "runs", "replay", run)
	if got := there.want(0, "runs", "show", run).out; !strings.Contains(got, "imported") || !strings.Contains(got, "ask (a copy)") {
		t.Error(got)
	}
	there.want(exitConflict, "runs", "answer", run, question, "3")
	there.want(exitConflict, "runs", "cancel", run)
	if got := there.want(exitUnavailable, "runs", "watch", run); !strings.Contains(got.err, "runs fork "+run) {
		t.Error(got)
	}
	f := there.want(exitWaiting, "runs", "fork", run, "--json").last(t)
	there.want(0, "runs", "answer", f.Run.ID, f.Questions[0].ID, "3")

	piped := s.want(0, "runs", "export", run, "--out", "-")
	other := newShell(t)
	if got := other.fed(piped.out, "runs", "import", "-", "--json"); got.code != 0 || !strings.Contains(got.out, `"runs": 1`) {
		t.Error(got)
	}
	if err := os.WriteFile(file, []byte(piped.out[:len(piped.out)/2]), 0o600); err != nil {
		t.Fatal(err)
	}
	oneClearLine(t, newShell(t).run("runs", "import", file), exitUsage, "cut off")
	oneClearLine(t, newShell(t).fed("hello", "runs", "import", "-"), exitUsage, "no file that an export")
	oneClearLine(t, newShell(t).run("runs", "import", filepath.Join(s.dir, "none")), exitUsage, "no such file")
	oneClearLine(t, newShell(t).fed(piped.out, "runs", "import", "-", "--tenant", "acme"), exitForbidden, "may import")
}

func TestPathsIntoAState(t *testing.T) {
	for edit, want := range map[string]string{
		"a=2":           `{"a":2,"b":[{"c":"x"},null],"d":{}}`,
		".a=2":          `{"a":2,"b":[{"c":"x"},null],"d":{}}`,
		"b[0].c=a=b":    `{"a":1,"b":[{"c":"a=b"},null],"d":{}}`,
		"b[1]=[1]":      `{"a":1,"b":[{"c":"x"},[1]],"d":{}}`,
		"b[2]=true":     `{"a":1,"b":[{"c":"x"},null,true],"d":{}}`,
		"d.new=text":    `{"a":1,"b":[{"c":"x"},null],"d":{"new":"text"}}`,
		"d.new=12":      `{"a":1,"b":[{"c":"x"},null],"d":{"new":12}}`,
		"=1":            "",
		"a.=1":          "",
		"a..b=1":        "",
		"b[x]=1":        "",
		"b[-1]=1":       "",
		"b[9999999]=1":  "",
		"a[0]=1":        "",
		"a.b=1":         "",
		"d=text":        "",
		"b[0].c.d=1":    "",
		"b[0].c=\xff":   "",
		"d.new.deep=1":  "",
		"b[0]c=\"y\"":   `{"a":1,"b":[{"c":"\"y\""},null],"d":{}}`,
		"b[0].c=\u202e": "{\"a\":1,\"b\":[{\"c\":\"\\u202e\"},null],\"d\":{}}",
	} {
		got, err := edited(json.RawMessage(`{"a":1,"b":[{"c":"x"},null],"d":{}}`), []string{edit})
		if (err != nil) != (want == "") || string(got) != want {
			t.Errorf("%q: %s, %v, want %s", edit, got, err, want)
		}
	}
}
