package app

import (
	"path/filepath"
	"strings"
	"testing"

	"pawl/internal/pgtest"
	"pawl/store/postgres"
)

// TestPostgres: the commands do on a Postgres what they do on a file, each as a program of its own would; whatever is printed keeps
// the password.
func TestPostgres(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t, false).URL()
	name := strings.Replace(pgtest.In(address, pgtest.Schema(t, address)), "pawl@", "pawl:secret@", 1)
	s, file := newShell(t), newShell(t) // one beside the other, for what travels
	s.ws, file.ws = []Workflow{steps(1), NCO()}, []Workflow{steps(1)}
	s.env = append(s.env, "PAWL_STORE="+name)
	says := func(code int, text string, args ...string) told {
		t.Helper()
		got := s.want(code, args...)
		if all := got.out + got.err; !strings.Contains(all, text) || strings.Contains(all, "secret") {
			t.Errorf("%v: want %q\n%s", args, text, all)
		}
		return got
	}
	says(exitWaiting, "waits for an answer", "run", "nco", "teacher")
	says(0, "waiting", "runs", "ls")
	says(0, "synchronous_commit  on", "doctor")

	run, question := s.asked("n=4")
	says(0, `"n": 8`, "runs", "answer", run, question, "3")
	says(0, "equal: ", "runs", "replay", run)
	f := s.want(exitWaiting, "runs", "fork", run, "--step", "2", "n=40", "--json").last(t)
	says(0, run+" at step 2", "runs", "show", f.Run.ID)

	says(0, `"n": 41`, "runs", "answer", f.Run.ID, f.Questions[0].ID, "1")

	other, _ := s.asked("n=40")
	says(exitConflict, "cancel it first", "runs", "rm", other, "--yes")
	s.want(0, "runs", "cancel", other)
	again := s.want(exitWaiting, "runs", "retry", other, "--json").last(t)
	if again.Run.Attempt != 2 || len(again.Questions) != 1 {
		t.Fatalf("%+v", again)
	}
	says(0, `"n": 42`, "runs", "answer", other, again.Questions[0].ID, "1")

	out := filepath.Join(s.dir, "run.gz")
	says(0, out, "runs", "export", run, "--out", out)
	file.want(0, "runs", "import", out)
	file.want(0, "runs", "replay", run)
	theirs, _ := file.asked("n=5")
	out = filepath.Join(file.dir, "theirs.gz")
	file.want(0, "runs", "export", theirs, "--out", out)
	says(0, theirs, "runs", "import", out)
	says(exitConflict, theirs, "runs", "import", out)
	says(0, "equal: ", "runs", "replay", theirs)

	says(0, "removed "+run, "runs", "rm", run, "--yes")
	says(exitNotFound, run, "runs", "show", run)
	says(0, "removed 0 runs", "gc")
	db, err := postgres.Open(t.Context(), name, postgres.Options{})
	if err == nil {
		err = expire(t.Context(), db, 120)
	}
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	says(0, "removed 120 runs", "gc")
	says(exitUsage, "no file to write anew", "gc", "--compact")
	says(0, f.Run.ID, "runs", "ls")
}
