package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfiguration: flags over variables over the file over defaults, and doctor says which.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	seen := map[string]string{}
	w := Graph(hello())
	open := w.Open
	w.Options = []Option{
		{Name: "model", Value: "NAME", Usage: "which", Default: "small"}, {Name: "key", Secret: true, Usage: "secret"},
	}
	w.Open = func(ctx context.Context, o Opening) (*Opened, error) {
		seen["model"], seen["key"] = o.Value("model"), o.Value("key")
		return open(ctx, o)
	}
	s.ws = []Workflow{w}
	write := func(name, text string) string {
		file := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	doctor := func(want, source string, args ...string) {
		t.Helper()
		got := s.want(0, append([]string{"doctor"}, args...)...)
		if seen["model"] != want || !strings.Contains(got.out, want+" ("+source) {
			t.Errorf("%s, want %s from %s:\n%s", seen["model"], want, source, got.out)
		}
		if strings.Contains(got.out, "hunter2") || strings.Contains(got.err, "hunter2") {
			t.Errorf("a secret is shown:\n%s", got.out)
		}
	}
	doctor("small", "default")
	own := write("pawl/config.json", `{"store":"memory","hello":{"model":"own","key":"hunter2"}}`)
	doctor("own", "file "+own)
	if seen["key"] != "hunter2" {
		t.Error(seen)
	}
	other := write("other.json", "\xEF\xBB\xBF"+`{"hello":{"model":7}}`)
	doctor("7", "file "+other, "--config", other)
	s.env = append(s.env, "PAWL_HELLO_MODEL=env", "PAWL_HELLO_KEY_FILE="+write("secret", "hunter2 file\n"), "PAWL_CONFIG="+other, "PAWL_HELO_MODEL=x")
	doctor("env", "environment PAWL_HELLO_MODEL")
	if seen["key"] != "hunter2 file" {
		t.Errorf("%q", seen["key"])
	}
	doctor("flag", "flag --model", "--model", "flag")
	if got := s.want(0, "doctor"); !strings.Contains(got.out, "PAWL_HELO_MODEL") || !strings.Contains(got.out, "not known here") {
		t.Error(got.out)
	}
	s.want(0, "doctor", "--json")
	oneClearLine(t, s.run("run", "hello", "x", "--key", "a", "--hello.key", "b"), exitUsage, "unknown flag")
	s.env = append(s.env, "PAWL_HELLO_KEY_FILE="+filepath.Join(s.dir, "none"))
	oneClearLine(t, s.run("runs", "ls"), exitUsage, "PAWL_HELLO_KEY_FILE: open")
}

// TestDoctorFaults: what is wrong is said, and the rest looked at all the same.
func TestDoctorFaults(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	got := s.want(exitUnavailable, "doctor", "--catalog", filepath.Join(s.dir, "none"), "--store", "sqlite:"+s.dir)
	if strings.Count(got.out, "FAULT") != 2 || !strings.Contains(got.out, "hello@1") {
		t.Error(got)
	}
}

func TestStoreNames(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"postgres://u:secret@h:5432/d":   "postgres://u:****@h:5432/d",
		"postgres://h/d?password=secret": "postgres://h/d?****",
		"sqlite:/a b":                    "sqlite:/a b",
		"postgres://%zz:secret@h":        "postgres://****",
	} {
		if got := masked(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// TestDirectories: the user's own folders.
func TestDirectories(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := func(kv ...string) func(string) string { return (&call{Shell: Shell{Env: kv}}).lookup }
	if got := dataDir(env("HOME="+home, "XDG_DATA_HOME="+filepath.Join(home, "d"))); got != filepath.Join(home, "d") {
		t.Error(got)
	}
	if got := dataDir(env("HOME="+home, "LocalAppData="+home, "XDG_DATA_HOME=relative")); !strings.HasPrefix(got, home) {
		t.Error(got)
	}
	if got := dataDir(env()); got != "" {
		t.Error(got)
	}
}

// TestUsable: a list of workflows that cannot be is refused.
func TestUsable(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ws = []Workflow{Graph(hello()), Graph(hello())}
	oneClearLine(t, s.run("version"), exitUsage, "two workflows")
	s.ws = []Workflow{{}}
	oneClearLine(t, s.run("version"), exitUsage, "no name")
}
