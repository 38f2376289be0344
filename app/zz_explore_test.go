package app

import (
	"bytes"
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func xlock(t *testing.T, s *shell) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.dir, "pawl", "pawl.db"))
	if err != nil { t.Fatal(err) }
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil { t.Fatal(err) }
	done := false
	u := func() { if !done { done = true; db.Exec("ROLLBACK"); db.Close() } }
	t.Cleanup(u)
	return u
}

func TestZZ(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t)
		s.want(0, "run", "hello", "x")
		q := s.want(exitWaiting, "run", "approve", "--json").last(t)
		do := func(args ...string) {
			var out, err bytes.Buffer
			b := time.Now()
			code := Shell{Args: args, In: strings.NewReader(""), Out: &out, Err: &err, Env: s.env}.Run(context.Background(), s.ws...)
			t.Logf("%q\n took %v exit %d\nOUT %s\nERR %s", args, time.Since(b), code, out.String(), err.String())
		}
		do("runs", "watch", q.Run.ID, "--timeout", "1s")
		do("runs", "watch", q.Run.ID, "--timeout", "1ns")
		do("run", "slow", "n=2", "ms=700", "--timeout", "100ms", "--json")
		u := xlock(t, s)
		for _, extra := range [][]string{{"--timeout", "1s"}, {"--timeout", "1s", "--json"}, {}, {"--json"}} {
			do(append([]string{"run", "hello", "x"}, extra...)...)
			do(append([]string{"runs", "answer", q.Run.ID, q.Questions[0].ID, "yes"}, extra...)...)
			do(append([]string{"runs", "cancel", q.Run.ID}, extra...)...)
			do(append([]string{"runs", "watch", q.Run.ID}, extra...)...)
			do(append([]string{"run", "hello", "x", "--detach"}, extra...)...)
		}
		do("runs", "ls")
		do("runs", "show", q.Run.ID)
		u()
		do("runs", "watch", q.Run.ID)
	})
}
