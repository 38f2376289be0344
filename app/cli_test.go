package app

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/store"
)

// TestInput: text and fields become the input by their types.
func TestInput(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	file := filepath.Join(s.dir, "in.json")
	if err := os.WriteFile(file, []byte(`{"name":"file","times":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		in   string
		args []string
		want string
	}{
		"text":            {"", []string{"ann"}, `{"name":"ann"}`},
		"two texts":       {"", []string{"ann", "a", "b"}, `{"name":"ann","tags":["a","b"]}`},
		"field":           {"", []string{"name=a=b", "times=3", "loud=yes"}, `{"loud":true,"name":"a=b","times":3}`},
		"no field":        {"", []string{"what=that"}, `{"name":"what=that"}`},
		"after --":        {"", []string{"--", "name=x"}, `{"name":"name=x"}`},
		"before --":       {"", []string{"times=4", "--", "-v"}, `{"name":"-v","times":4}`},
		"list by items":   {"", []string{"x", "tags=a", "tags=b"}, `{"name":"x","tags":["a","b"]}`},
		"list as JSON":    {"", []string{"x", `tags=["a","b"]`}, `{"name":"x","tags":["a","b"]}`},
		"a number, null":  {"", []string{"x", "rate=1.5e3"}, `{"name":"x","rate":1500}`},
		"null":            {"", []string{"x", "rate=null"}, `{"name":"x"}`},
		"anything":        {"", []string{"x", `more={"a":[1]}`}, `{"more":{"a":[1]},"name":"x"}`},
		"anything, text":  {"", []string{"x", "more=plain"}, `{"more":"plain","name":"x"}`},
		"file":            {"", []string{"--input", file}, `{"name":"file","times":2}`},
		"file and field":  {"", []string{"--input", file, "times=9"}, `{"name":"file","times":9}`},
		"standard input":  {`{"name":"stdin"}`, []string{"--input", "-"}, `{"name":"stdin"}`},
		"other scripts":   {"", []string{"नमस्ते 世界 🙂"}, `{"name":"नमस्ते 世界 🙂"}`},
		"\u202e and more": {"", []string{"a\u202eb\u0085"}, `{"name":"a\u202eb\u0085"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shell{t: t, dir: s.dir, env: s.env, ws: s.ws}
			got := s.fed(c.in, append([]string{"run", "hello", "--json", "--store", "memory"}, c.args...)...)
			if got.code != 0 {
				t.Fatal(got)
			}
			var want, output any
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			r := got.last(t)
			if err := json.Unmarshal(r.Run.Output, &output); err != nil {
				t.Fatal(err)
			}
			a, _ := json.Marshal(want)
			b, _ := json.Marshal(output)
			if !bytes.Equal(a, b) {
				t.Errorf("%s, want %s", b, a)
			}
		})
	}
	if got := s.want(0, "run", "number", "--store", "memory", "--", "-7"); got.out != "-7\n" {
		t.Error(got)
	}
	if got := s.want(0, "run", "hello", "--store", "memory", "nmae=x"); !strings.Contains(got.err, `did you mean "name"?`) {
		t.Error(got)
	}
}

// TestLife: a run is started, shown, asked, answered, cancelled and retried, each in a command of its own.
func TestLife(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	asked := s.want(exitWaiting, "run", "nco", "teacher", "--label", "who=test", "--priority", "3")
	if asked.out != "" {
		t.Error(asked.out)
	}
	command := strings.Fields(asked.err[strings.LastIndex(asked.err, "answer it with: pawl ")+len("answer it with: pawl "):])
	if len(command) != 5 || command[0] != "runs" || command[4] != `"…"` {
		t.Fatal(command)
	}
	run, question := command[2], command[3]
	s.want(exitNotFound, "runs", "answer", run, "other", "x")
	s.want(exitConflict, "runs", "retry", run)
	s.want(exitWaiting, "runs", "watch", run)
	s.want(exitUsage, "runs", "answer", run, question, "--json-answer", `{"text":1}`)

	ended := s.want(0, "runs", "answer", run, question, "2")
	for _, want := range []string{"MATCH_FOUND  confidence", "2341", "evidence", "answers  1"} {
		if !strings.Contains(ended.out, want) {
			t.Errorf("%q is not in:\n%s", want, ended.out)
		}
	}
	again := s.want(0, "runs", "answer", run, question, "2")
	if again.out != ended.out {
		t.Error(again)
	}
	s.want(exitConflict, "runs", "answer", run, question, "3")
	s.want(exitConflict, "runs", "cancel", run)
	if got := s.want(0, "runs", "show", run).out; !strings.Contains(got, "labels    who=test") || !strings.Contains(got, ended.out) {
		t.Error(got)
	}
	var all shown
	if err := json.Unmarshal([]byte(s.want(0, "runs", "show", run, "--json").out), &all); err != nil {
		t.Fatal(err)
	}
	if all.Run.Labels["who"] != "test" || len(all.Steps) < 8 || len(all.Calls) < 5 || len(all.Questions) != 1 || len(all.State) == 0 {
		t.Errorf("%+v", all)
	}

	second := s.want(exitWaiting, "run", "nco", "--json", "teacher").last(t)
	if len(second.Questions) != 1 || !strings.Contains(second.Command, second.Questions[0].ID) || second.Exit != exitWaiting {
		t.Errorf("%+v", second)
	}
	cancelled := s.want(0, "runs", "cancel", second.Run.ID, "--reason", "no need", "--json").last(t)
	if cancelled.Run.Status != pawl.StatusCancelled || !strings.Contains(cancelled.Run.Err.Error(), "no need") {
		t.Errorf("%+v", cancelled.Run)
	}
	s.want(exitFailed, "runs", "watch", second.Run.ID)
	if r := s.want(exitWaiting, "runs", "retry", second.Run.ID, "--json").last(t); r.Run.Attempt != 2 {
		t.Errorf("%+v", r.Run)
	}
	if got := s.want(0, "runs", "ls"); strings.Count(got.out, "\n") != 3 || !strings.Contains(got.out, "MATCH_FOUND") {
		t.Error(got)
	}
	if got := s.want(0, "runs", "ls", "--json", "--status", "succeeded", "--workflow", "nco"); strings.Count(got.out, "\n") != 1 {
		t.Error(got)
	}
	if got := s.want(0, "runs", "ls", "--workflow", "hello"); got.out != "" || !strings.Contains(got.err, "no such runs") {
		t.Error(got)
	}
}

// TestAnswerForms: text fills the one field that an answer has to have; more fields are given as JSON.
func TestAnswerForms(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for text, want := range map[string]string{"yes": `"approve": true`, "NO": `"approve": false`} {
		r := s.want(exitWaiting, "run", "approve", "--json").last(t)
		if got := s.want(0, "runs", "answer", r.Run.ID, r.Questions[0].ID, text); !strings.Contains(got.out, want) {
			t.Error(got)
		}
	}
	asked := s.want(exitWaiting, "run", "approve")
	golden(t, "asked.txt", asked.err)
	if strings.ContainsAny(asked.err, "\x1b") || !strings.Contains(asked.err, `"cost": 3`) {
		t.Errorf("%q", asked.err)
	}
	r := s.want(exitWaiting, "run", "approve", "--json").last(t)
	oneClearLine(t, s.run("runs", "answer", r.Run.ID, r.Questions[0].ID, "perhaps"), exitUsage, "approve: want true or false")
	got := s.want(0, "runs", "answer", r.Run.ID, r.Questions[0].ID, "--json-answer", `{"approve":true,"comment":"fine"}`)
	golden(t, "answered.txt", got.err)
	golden(t, "show.txt", s.want(0, "runs", "show", r.Run.ID).out)
	if !strings.Contains(got.out, "fine") {
		t.Error(got)
	}
}

// TestChildAsks: the question of a child is put and answered under the run that was started.
func TestChildAsks(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	r := s.want(exitWaiting, "run", "family", "--json").last(t)
	if len(r.Questions) != 1 || r.Questions[0].Run == r.Run.ID || !strings.Contains(r.Command, "runs answer "+r.Run.ID) {
		t.Fatalf("%+v", r)
	}
	if got := s.want(0, "runs", "answer", r.Run.ID, r.Questions[0].ID, "yes", "--json").last(t); got.Run.ID != r.Run.ID || string(got.Run.Output) != `{"approve":true}` {
		t.Errorf("%+v", got)
	}
	r = s.want(exitWaiting, "run", "family", "--json").last(t)
	if got := s.want(0, "runs", "answer", r.Questions[0].Run, r.Questions[0].ID, "no", "--json").last(t); got.Run.ID != r.Run.ID {
		t.Errorf("%+v", got)
	}
	r = s.want(exitWaiting, "run", "family", "--json").last(t)
	s.want(0, "runs", "cancel", r.Run.ID)
	if got := s.want(0, "runs", "ls", "--status", "cancelled", "--json"); strings.Count(got.out, "\n") != 2 {
		t.Error(got)
	}
}

// TestKeys: the same key finds the same run; another input is a conflict.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	first := s.want(0, "run", "hello", "x", "--key", "k", "--json").last(t)
	second := s.want(0, "run", "hello", "x", "--key", "k", "--json")
	if r := second.last(t); r.Run.ID != first.Run.ID || r.Existing != pawl.ExistingDone || strings.Count(second.out, "\n") != 1 {
		t.Error(second)
	}
	oneClearLine(t, s.run("run", "hello", "y", "--key", "k"), exitConflict, "another input")
	if other := s.want(0, "run", "hello", "y", "--key", "k", "--tenant", "t", "--json").last(t); other.Run.ID == first.Run.ID || other.Run.Tenant != "t" {
		t.Errorf("%+v", other.Run)
	}
	waits := s.want(exitWaiting, "run", "approve", "--key", "a", "--json").last(t)
	if r := s.want(exitWaiting, "run", "approve", "--key", "a", "--json").last(t); r.Run.ID != waits.Run.ID || r.Existing != pawl.ExistingRunning {
		t.Errorf("%+v", r)
	}
}

// TestWho: without a user everything is seen; with one, their own runs.
func TestWho(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	bob := s.want(exitWaiting, "run", "approve", "--user", "bob", "--json").last(t)
	mine := s.want(exitWaiting, "run", "approve", "--json").last(t)
	if bob.Run.User != "bob" || mine.Run.User != "ann" {
		t.Error(bob.Run.User, mine.Run.User)
	}
	s.want(exitNotFound, "runs", "cancel", mine.Run.ID, "--user", "bob")
	s.want(exitNotFound, "runs", "show", bob.Run.ID, "--tenant", "other")
	if got := s.want(0, "runs", "ls", "--json", "--user", "bob"); strings.Count(got.out, "\n") != 1 {
		t.Error(got)
	}
	s.want(0, "runs", "cancel", bob.Run.ID)
}

// TestFail: the output of a Fail terminal is printed all the same.
func TestFail(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	got := s.want(exitFailed, "run", "broken", "it")
	if !strings.Contains(got.out, `"name": "it"`) || !strings.Contains(got.err, "it cannot be done") || !strings.Contains(got.err, "REFUSED") {
		t.Error(got)
	}
	got = s.want(exitFailed, "run", "hello", "x", "--budget", "llm=0")
	if !strings.Contains(got.err, "exhausted: budget llm is spent: 0 of 0") {
		t.Error(got)
	}
}

// TestCatalogs: a run goes on with the catalogue that it was begun with, wherever the command is given.
func TestCatalogs(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	file := filepath.Join(s.dir, "my list.csv")
	write := func(more string) {
		text := "code,title,description\n2341.0100,Primary School Teacher,Teaches children\n2330.0100,Secondary School Teacher,Teaches\n" + more
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	asked := s.want(exitWaiting, "run", "nco", "teacher", "--catalog", file)
	if !strings.Contains(asked.err, `"…" --catalog '`+file+`'`) {
		t.Error(asked.err)
	}
	r := s.want(exitWaiting, "run", "nco", "teacher", "--catalog", file, "--json").last(t)
	if r.Run.Labels[labelCatalog] != file {
		t.Error(r.Run.Labels)
	}
	id, question := r.Run.ID, r.Questions[0].ID
	held := s.want(exitUnavailable, "runs", "answer", id, question, "Primary school teacher", "--catalog", "")
	for _, want := range []string{"is not registered here", "begun with " + file, "go on with: pawl runs watch " + id + " --catalog '" + file + "'"} {
		if !strings.Contains(held.err, want) {
			t.Errorf("%q is not in:\n%s", want, held.err)
		}
	}
	if got := s.want(0, "doctor"); !strings.Contains(got.out, id) {
		t.Error(got.out)
	}
	write("2341.0200,Another Teacher,Teaches too\n")
	if got := s.want(exitUnavailable, "runs", "watch", id, "--json"); got.last(t).Command != "pawl runs watch "+id+" --catalog FILE" {
		t.Error(got)
	}
	write("")
	if got := s.want(0, "runs", "watch", id); !strings.Contains(got.out, "2341.0100") {
		t.Error(got)
	}

	builtIn := s.want(exitWaiting, "run", "nco", "teacher", "--json").last(t)
	s.env = append(s.env, "PAWL_NCO_CATALOG="+file)
	if got := s.want(0, "runs", "answer", builtIn.Run.ID, builtIn.Questions[0].ID, "2"); !strings.Contains(got.out, "catalog  embedded") {
		t.Error(got)
	}
}

// TestVersionElsewhere: a run that an answer has made due, and whose version only another live worker has, is left to that one,
// and the command says so and how to go on.
func TestVersionElsewhere(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	file := filepath.Join(s.dir, "list.csv")
	if err := os.WriteFile(file, []byte("code,title,description\n2341.0100,Primary School Teacher,Teaches children\n2330.0100,Secondary School Teacher,Teaches\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := s.want(exitWaiting, "run", "nco", "teacher", "--catalog", file, "--json").last(t)
	s.onStore(func(ctx context.Context, st store.Store) error {
		_, _, err := st.Claim(ctx, store.Claim{Worker: "other", Kinds: []string{"nco@" + r.Run.Version}, Run: "none", Max: 1, Hold: time.Hour})
		return err
	})
	got := s.want(exitUnavailable, "runs", "answer", r.Run.ID, r.Questions[0].ID, "1", "--catalog", "")
	for _, want := range []string{"is not registered here", "at work elsewhere", "go on with: pawl runs watch " + r.Run.ID + " --catalog " + file} {
		if !strings.Contains(got.err, want) {
			t.Errorf("%q is not in:\n%s", want, got.err)
		}
	}
	if got := s.want(0, "runs", "watch", r.Run.ID); !strings.Contains(got.out, "2341.0100") {
		t.Error(got)
	}
}

// TestNotMine: a program without a run's workflow shows the run and leaves it alone.
func TestNotMine(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	r := s.want(exitWaiting, "run", "approve", "--json").last(t)
	s.ws = []Workflow{Graph(hello())}
	if got := s.want(exitWaiting, "runs", "watch", r.Run.ID); !strings.Contains(got.err, "waits for an answer") {
		t.Error(got)
	}
	s.want(0, "runs", "show", r.Run.ID)
	if got := s.want(exitUnavailable, "runs", "answer", r.Run.ID, r.Questions[0].ID, "yes"); !strings.Contains(got.err, "no workflow approve") {
		t.Error(got)
	}
	s.ws = testWorkflows()
	if got := s.want(0, "runs", "watch", r.Run.ID); !strings.Contains(got.out, "true") {
		t.Error(got)
	}
}

// TestFixed: what is always the same.
func TestFixed(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.env = append(s.env, "PAWL_STORE=memory")
	golden(t, "graph.mmd", s.want(0, "graph", "hello").out)
	golden(t, "nco.mmd", s.want(0, "graph", "nco", "--format", "mermaid").out)
	for format, begins := range map[string]string{"dot": "digraph", "svg": "<svg", "json": "{"} {
		if got := s.want(0, "graph", "nco", "--format", format); !strings.HasPrefix(got.out, begins) {
			t.Error(got.out)
		}
	}
	golden(t, "help.txt", s.want(0, "--help").out)
	golden(t, "help_run.txt", s.want(0, "run", "--help").out)
	golden(t, "run.jsonl", s.want(0, "run", "hello", "x", "--json").out)
	plain := s.want(0, "run", "hello", "x")
	golden(t, "run.txt", plain.err)
	golden(t, "output.json", plain.out)
	if got := s.want(0, "workflows"); !strings.Contains(got.out, "hello    1") {
		t.Error(got)
	}
	var infos []pawl.WorkflowInfo
	if err := json.Unmarshal([]byte(s.want(0, "workflows", "--json").out), &infos); err != nil || len(infos) != len(s.ws) {
		t.Error(infos, err)
	}
	if got := s.want(0, "version"); !strings.HasPrefix(got.out, "pawl ") || !strings.Contains(got.out, " go1.") {
		t.Error(got)
	}
	s.want(0, "version", "--json")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := s.want(0, "completion", shell); len(got.out) < 1000 {
			t.Error(got)
		}
	}
	if got := s.want(0, "__complete", "run", "h"); !strings.Contains(got.out, "hello") {
		t.Error(got)
	}
	s.want(0)
	s.want(0, "runs")
}

// TestDetach: a run is left to whoever works.
func TestDetach(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	got := s.want(0, "run", "hello", "x", "--detach")
	id := strings.TrimSpace(got.out)
	if !ids.MatchString(id) || !strings.Contains(got.err, "work it here with: pawl runs watch "+id) {
		t.Error(got)
	}
	if got := s.want(0, "runs", "ls", "--status", "queued"); !strings.Contains(got.out, id) {
		t.Error(got)
	}
	s.want(0, "runs", "watch", id)
	if r := s.want(0, "run", "hello", "x", "--detach", "--json").last(t); r.Run == nil || r.Command == "" {
		t.Error(r)
	}
}

// TestRenderNCO: what a person sees of an output.
func TestRenderNCO(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"nco_found.txt": `{"status":"MATCH_FOUND","codes":[{"code":"2341.0400","title":"Primary School Teacher","family":"2341","familyTitle":
			"Primary school teachers","evidence":{"query":"q","rank":1,"words":["primary","teacher"],"score":1,"coverage":0.5,"similarity":0.25,"exact":true}}],
			"confidence":9.5,"assumptions":["\"school\" names the place"],"turns":1,"question":"","choices":[],"reason":"it fits","catalog":"embedded"}`,
		"nco_more.txt": `{"status":"MORE_INFO","codes":[],"confidence":2,"assumptions":[],"turns":5,"question":"Whom do you teach?",
			"choices":["children","adults"],"reason":"The turns are spent.","catalog":"embedded"}`,
	} {
		var b bytes.Buffer
		if err := renderNCO(&b, json.RawMessage(raw)); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.String())
	}
}
