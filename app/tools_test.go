package app

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/ports/llm"
)

// assistant calls one tool, as its input says.
func assistant() Workflow {
	return Workflow{Name: "assistant", Open: func(_ context.Context, o Opening) (*Opened, error) {
		box, err := o.Tools()
		if err != nil {
			return nil, err
		}
		g := pawl.New[llm.ToolCall, llm.ToolCall, string]("assistant", pawl.Options{Version: "1"})
		use := g.Node("use", func(ctx context.Context, c llm.ToolCall) (llm.ToolCall, error) {
			r, err := box.Use(ctx, "call", c)
			c.ID = r.Text
			return c, err
		})
		done := g.Succeed("DONE")
		g.Start(use, func(c llm.ToolCall) (llm.ToolCall, error) { return c, nil })
		g.From(use).Otherwise(done)
		g.Finish(func(c llm.ToolCall, _ pawl.Ending) (string, error) { return c.ID, nil })
		w, err := g.Build()
		return &Opened{Workflow: w}, err
	}}
}

// configured is a shell whose configuration has these servers of tools.
func configured(t *testing.T, servers string) *shell {
	t.Helper()
	s := newShell(t)
	s.ws = append(s.ws, assistant())
	file := filepath.Join(s.dir, "config.json")
	if err := os.WriteFile(file, []byte(`{"tools":`+servers+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "PAWL_CONFIG="+file)
	return s
}

// self is this program as a server of tools, with more fields of its configuration.
func self(t *testing.T, more string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path, _ := json.Marshal(program)
	return `{"self":{"command":` + string(path) + `,"args":["mcp"],"env":{"APP_TEST_PROGRAM":"1","PAWL_STORE":"memory","USER":"${WHO}"}` + more + `}}`
}

// TestToolsOfARun: a run calls a tool of a server in a process of its own, after a person has approved it on the command line.
func TestToolsOfARun(t *testing.T) {
	t.Parallel()
	s := configured(t, self(t, ""))
	s.env = append(s.env, "WHO=ann")
	input := `{"id":"1","name":"self_hello","arguments":{"name":"Ann"}}`
	asked := s.fed(input, "run", "assistant", "--input", "-", "--json")
	if asked.code != exitWaiting {
		t.Fatal(asked)
	}
	r := asked.last(t)
	if len(r.Questions) != 1 || !strings.Contains(string(r.Questions[0].Data), `"arguments":{"name":"Ann"}`) {
		t.Fatalf("questions %+v", r.Questions)
	}
	done := s.want(0, "runs", "answer", r.Run.ID, r.Questions[0].ID, "yes", "--json").last(t)
	if text := string(done.Run.Output); !strings.Contains(text, "GREETED") || !strings.Contains(text, "Ann") {
		t.Errorf("output %s", text)
	}
	if got := s.want(0, "runs", "show", r.Run.ID); !strings.Contains(got.out, "May hello of self be called so?") || !strings.Contains(got.out, "answered: ann") {
		t.Errorf("the approval is not shown: %s", got.out)
	}
	refused := s.fed(input, "run", "assistant", "--input", "-", "--json").last(t)
	done = s.want(0, "runs", "answer", refused.Run.ID, refused.Questions[0].ID, "no", "--json").last(t)
	if !strings.Contains(string(done.Run.Output), "a person has refused this call") {
		t.Errorf("output %s", done.Run.Output)
	}
}

// TestToolsAllowed: what is not allowed is not there; what only reads asks nobody.
func TestToolsAllowed(t *testing.T) {
	t.Parallel()
	s := configured(t, self(t, `,"allow":["run_list","absent"],"timeout":"50s"`))
	s.env = append(s.env, "WHO=ann")
	got := s.fed(`{"id":"1","name":"self_hello","arguments":{"name":"Ann"}}`, "run", "assistant", "--input", "-")
	if got.code != 0 || !strings.Contains(got.out, "there is no tool") {
		t.Error(got)
	}
	got = s.fed(`{"id":"1","name":"self_run_list","arguments":{}}`, "run", "assistant", "--input", "-")
	if got.code != 0 || !strings.Contains(got.out, `runs`) {
		t.Error(got)
	}
	got = s.want(0, "doctor")
	if !strings.Contains(got.out, "tools: 12, allowed: 1, of these with a person's approval: 0") || !strings.Contains(got.out, "it offers no absent") {
		t.Error(got.out)
	}
}

// TestToolsInDoctor: each server is listed, what cannot be started is a fault, and no secret is shown.
func TestToolsInDoctor(t *testing.T) {
	t.Parallel()
	s := configured(t, `{"files":{"command":"/nowhere/files","args":["${TOKEN}"]},
		"web":{"url":"http://u:${TOKEN}@127.0.0.1:1/mcp/${TOKEN}?key=${TOKEN}","headers":{"Authorization":"Bearer ${TOKEN}"},"timeout":"5s"}}`)
	secret := filepath.Join(s.dir, "token")
	if err := os.WriteFile(secret, []byte("hush-hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "TOKEN_FILE="+secret)
	got := s.run("doctor")
	if got.code != exitUnavailable || strings.Count(got.out, "FAULT") != 2 || !strings.Contains(got.out, "/nowhere/files") ||
		!strings.Contains(got.out, "http://127.0.0.1:1/mcp/**** server web") {
		t.Error(got)
	}
	if strings.Contains(got.out+got.err, "hush") {
		t.Errorf("the secret is shown: %s%s", got.out, got.err)
	}
	if got := s.want(0, "run", "hello", "x"); strings.Contains(got.err, "files") {
		t.Errorf("a run that needs no tools has started one: %s", got.err)
	}
}

// TestToolsTimes: a start and a call may have the same time.
func TestToolsTimes(t *testing.T) {
	t.Parallel()
	all, err := readTools([]byte(`{"a":{"command":"x","start":"9s","timeout":"9s"},"b":{"command":"x","start":"1s","timeout":"2s"},"c":{"command":"x","timeout":"2s"}}`),
		func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]time.Duration{"a": {9 * time.Second, 9 * time.Second}, "b": {time.Second, 2 * time.Second}, "c": {0, 2 * time.Second}} {
		if c := all[name].conf; c.Start != want[0] || c.Timeout != want[1] {
			t.Errorf("%s: start %s, timeout %s", name, c.Start, c.Timeout)
		}
	}
}

// TestToolsKeepSecrets: what a server of tools that dies says of its secrets stands nowhere.
func TestToolsKeepSecrets(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("not installed: sh")
	}
	s := configured(t, `{"files":{"command":"sh","args":["-c","echo key $KEY; echo no $KEY here >&2; sleep .2; exit 3"],"env":{"KEY":"${SERVER_KEY}","AT":"${HOME}"}}}`)
	s.env = append(s.env, "SERVER_KEY=canary-8Xk/q", "HOME=/exit status")
	got := s.run("run", "assistant", `{"id":"1","name":"files_read","arguments":{}}`)
	all := got.out + got.err + s.run("doctor", "--json").out
	if !strings.Contains(all, "no **** here") || !strings.Contains(all, "exit status 3") { // HOME is no secret
		t.Errorf("what it said is not told: %s", all)
	}
	err := filepath.WalkDir(s.dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var b []byte
			b, err = os.ReadFile(name)
			all += string(b)
		}
		return err
	})
	if err != nil || strings.Contains(all, "canary") {
		t.Errorf("the key is told: %v", err)
	}
}

// TestToolsConfiguration: what cannot be is said in one line that names the server.
func TestToolsConfiguration(t *testing.T) {
	t.Parallel()
	for servers, says := range map[string]string{
		`[]`:                                     "array",
		`{"a":{}}`:                               "a command or a URL",
		`{"a":{"command":"x","url":"http://y"}}`: "a command or a URL",
		`{"A b":{"command":"x"}}`:                "cannot be called so",
		`{"a":{"command":"x","comand":"y"}}`:     "comand",
		`{"a":{"command":"x"},"a":{"command":"y"}}`:        "twice",
		`{"a":{"command":"x","timeout":"soon"}}`:           "soon",
		`{"a":{"command":"x","timeout":"-1s"}}`:            "-1s",
		`{"a":{"command":"x","env":{"K":"${NOT_THERE}"}}}`: "NOT_THERE",
		`{"a":{"command":"x","headers":{"K":"v"}}}`:        "headers",
		`{"a":{"url":"http://y","args":["v"]}}`:            "args",
		`{"a":{"url":"ftp://y"}}`:                          "http://",
		`{"a":{"command":"x","maxResult":-1}}`:             "below 0",
	} {
		oneClearLine(t, configured(t, servers).run("run", "hello", "x"), exitUsage, says)
	}
	s := newShell(t)
	s.ws = []Workflow{{Name: "tools", Open: assistant().Open}}
	oneClearLine(t, s.run("version"), exitUsage, "section of that name")
}
