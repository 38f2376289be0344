package app

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl"
)

// A run is found again with what it was begun with, whatever labels people put on it.
func TestOwnLabels(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	r := s.want(exitWaiting, "run", "nco", "teacher", "--label", "catalog=spring", "--json").last(t)
	s.want(0, "runs", "answer", r.Run.ID, r.Questions[0].ID, "2")
	s.want(exitUsage, "run", "nco", "teacher", "--label", "pawl.catalog=spring")
}

// What is to end needs no catalogue.
func TestCancelWithoutCatalog(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	file := filepath.Join(s.dir, "list.csv")
	text := "code,title,description\n2341.0100,Primary School Teacher,Teaches children\n2330.0100,Secondary School Teacher,Teaches\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := s.want(exitWaiting, "run", "nco", "teacher", "--catalog", file, "--json").last(t)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s.want(exitUsage, "runs", "watch", r.Run.ID)
	if got := s.want(0, "runs", "cancel", r.Run.ID); !strings.Contains(got.err, "is asked to end") {
		t.Error(got.err)
	}
}

// A store that ends with the command gets no command that goes on with its runs.
func TestNoCommandForMemory(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	if got := s.run("run", "broken", "it", "--store", "memory"); strings.Contains(got.err, "begin it again with") {
		t.Error(got.err)
	}
	got := s.run("run", "approve", "--store", "memory", "--json")
	if r := got.last(t); r.Command != "" || strings.Contains(got.err, "answer it with") {
		t.Errorf("command %q, %s", r.Command, got.err)
	}
}

// A program that asks for JSON gets it for every error, wherever the flag stands.
func TestJSONForEveryError(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, args := range [][]string{{"--json", "run", "hello", "--nope"}, {"run", "hello", "--nope", "--json"}, {"nope", "--json"}} {
		if r := s.want(exitUsage, args...).last(t); r.Error == nil || r.Exit != exitUsage {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// What the configuration file says has one meaning, and what nobody knows in it is an error.
func TestConfigurationIsStrict(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, text := range []string{`{"stroe":{}}`, `{"store":{}}`, `{"store":{"":"memory"}}`, `{"nco.turns":1}`, `{"nco":1}`, `{"nco":{"":1}}`, `{"nco":{"nope":1}}`} {
		file := filepath.Join(s.dir, "c.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := s.run("runs", "ls", "--config", file); got.code != exitUsage {
			t.Errorf("%s: exit %d %s", text, got.code, got.err)
		}
	}
	s.env = []string{"HOME=/dev/null", "USER=x"} // as services have it
	s.want(0, "run", "hello", "x", "--store", "memory")
}

// Small things that were let pass: a time below nothing, a list that is given twice, help with what is not there, an option
// that is called like a flag.
func TestUsageIsStrict(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.want(exitUsage, "run", "slow", "n=1", "ms=1", "--timeout", "-5s")
	s.want(exitUsage, "help", "nope")
	s.want(0, "help", "runs", "answer")
	for _, args := range [][]string{{`tags=["a","b"]`, "tags=c"}, {"tags=c", `tags=["a","b"]`}} {
		got := s.want(0, append([]string{"run", "hello", "x", "--store", "memory"}, args...)...)
		for _, tag := range []string{`"a"`, `"b"`, `"c"`} {
			if !strings.Contains(got.out, tag) {
				t.Errorf("%v: %s is lost: %s", args, tag, got.out)
			}
		}
	}
	for _, name := range []string{"json", "store", "timeout"} {
		s := newShell(t)
		w := Graph(hello())
		w.Options = []Option{{Name: name, Value: "X", Usage: "mine"}}
		s.ws = []Workflow{w}
		if got := s.want(exitUsage, "run", "hello", "x"); !strings.Contains(got.err, "option "+name) {
			t.Errorf("%s: %s", name, got.err)
		}
	}
}

// What a workflow renders reaches the terminal whole, in whatever pieces it is written.
func TestRenderInPieces(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	w := Graph(hello())
	open := w.Open
	w.Open = func(ctx context.Context, o Opening) (*Opened, error) {
		out, err := open(ctx, o)
		if err == nil {
			out.Render = func(w io.Writer, _ json.RawMessage) error {
				b := bufio.NewWriterSize(w, 16)
				_, err := b.WriteString("x" + strings.Repeat("नमस्ते ", 30) + "\x1b[31m\n")
				_ = b.Flush()
				return err
			}
		}
		return out, err
	}
	s.ws = []Workflow{w}
	got := s.want(0, "run", "hello", "x", "--store", "memory")
	if strings.Count(got.out, "\uFFFD") != 1 || strings.Contains(got.out, "\x1b") { // one for the escape
		t.Errorf("%q", got.out)
	}
}

// A choice is meant by its own words before it is meant by its number, at the prompt and in a command.
func TestNumberOfAChoice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ said, means string }{{"1", "1"}, {"2", "2"}, {"3", "1"}, {"10", "10"}, {"7", "7"}} {
		if got := choice(pawl.Open{Choices: []string{"10", "2", "1"}}, c.said); got != c.means {
			t.Errorf("%s means %s, want %s", c.said, got, c.means)
		}
	}
	s := newShell(t)
	r := s.want(exitWaiting, "run", "approve", "--json").last(t)
	s.want(0, "runs", "answer", r.Run.ID, r.Questions[0].ID, "2")
}

// A name in a setting that nothing has is said: a slip of the finger must not pass for a bound.
func TestUnknownNamesAreSaid(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	if got := s.want(0, "run", "hello", "x", "--budget", "lmm=1,llm=2,usd=1,runtime=5m"); !strings.Contains(got.err, `hello has no ceiling "lmm"`) ||
		!strings.Contains(got.err, `did you mean "llm"?`) || strings.Count(got.err, "no ceiling") != 1 {
		t.Error(got.err)
	}
	w := s.start("work", "--concurrency", "helo=1,hello=2,approve=3", "family")
	w.await(t, `this program has no workflow "helo": did you mean "hello"?`, 1)
	if err := w.Process.Signal(os.Interrupt); err != nil {
		t.Skip("needs linux: no such signal here")
	}
	if got := w.end(t); strings.Count(got.err, "has no workflow") != 1 {
		t.Error(got.err)
	}
}

// Who names the wrong file reads so, and so does who looks into the wrong store.
func TestWrongPlaceIsNamed(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	if got := s.want(exitUsage, "runs", "import", s.dir); !strings.Contains(got.err, s.dir+" is a folder") {
		t.Error(got.err)
	}
	file := "sqlite:" + filepath.Join(s.dir, "other.db")
	if got := s.want(0, "runs", "ls", "--store", file); !strings.Contains(got.err, "there are no such runs in "+file) {
		t.Error(got.err)
	}
}
