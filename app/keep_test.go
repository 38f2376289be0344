package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/store"
	"pawl/store/sqlite"
)

// TestRemove: runs are erased by their ids, and what cannot be is said while the others go.
func TestRemove(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	start := func(args ...string) string {
		t.Helper()
		return s.run(append(append([]string{"run"}, args...), "--json")...).last(t).Run.ID
	}
	done, live, bobs := start("hello", "x"), start("approve"), start("hello", "y", "--user", "bob")
	s.want(exitUsage, "runs", "rm")
	if got := s.want(exitUsage, "runs", "rm", done); !strings.Contains(got.err, "--yes") || !strings.Contains(got.err, "1 run") {
		t.Error(got)
	}
	s.want(exitNotFound, "runs", "rm", done, "--yes", "--user", "bob")
	got := s.want(exitConflict, "runs", "rm", "--yes", live, done, "nobody")
	if got.out != "removed "+done+"\n" || !strings.Contains(got.err, "cancel it first") || !strings.Contains(got.err, "nobody") {
		t.Error(got)
	}
	s.want(exitNotFound, "runs", "show", done)
	s.want(exitNotFound, "runs", "rm", "--yes", done)
	s.want(0, "runs", "cancel", live)
	got = s.want(exitNotFound, "runs", "rm", "--yes", "--json", live, done)
	if lines := strings.Split(got.out, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], `{"type":"removed","run":"`+live) ||
		!strings.HasPrefix(lines[1], `{"type":"kept","run":"`+done+`","error":{"code":"not_found"`) {
		t.Error(got)
	}
	s.want(0, "runs", "rm", "--yes", bobs)
	if got := s.want(0, "runs", "ls"); got.out != "" {
		t.Error(got)
	}
}

// TestRemoveAsks: on a terminal nothing is erased before somebody has said so.
func TestRemoveAsks(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	id := s.run("run", "hello", "x", "--json").last(t).Run.ID
	for _, c := range []struct{ answer, says string }{{"\n", "nothing was done"}, {"no\n", "nothing was done"}, {"yes\n", ""}} {
		s.want(0, "runs", "show", id)
		y := newTTY(80)
		done := s.onTTY(y, y, nil, "runs", "rm", id)
		y.await(t, "[y/N] ", 1)
		io.WriteString(y.typed, c.answer)
		if got := ended(t, done); got.code != 0 || !strings.Contains(got.err, id) || !strings.Contains(got.err, c.says) {
			t.Errorf("%q: %+v", c.answer, got)
		}
	}
	s.want(exitNotFound, "runs", "show", id)
	id = s.run("run", "hello", "x", "--json").last(t).Run.ID
	y, interrupts := newTTY(80), make(chan struct{}, 2)
	done := s.onTTY(y, y, interrupts, "runs", "rm", id)
	y.await(t, "[y/N] ", 1)
	interrupts <- struct{}{}
	if got := ended(t, done); got.code != exitInterrupted {
		t.Error(got)
	}
	s.want(0, "runs", "show", id)
}

// onStore does something to the store of a shell between its commands.
func (s *shell) onStore(f func(ctx context.Context, st store.Store) error) {
	s.t.Helper()
	st, err := sqlite.Open(s.t.Context(), filepath.Join(s.dir, "pawl", "pawl.db"), sqlite.Options{})
	if err == nil {
		err = f(s.t.Context(), st)
	}
	if err == nil {
		err = st.Close()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// expired makes so many runs that have outlived their retention.
func (s *shell) expired(n int) {
	s.t.Helper()
	s.onStore(func(ctx context.Context, st store.Store) error { return expire(ctx, st, n) })
}

func expire(ctx context.Context, st store.Store, n int) error {
	var rs []store.NewRun
	var cs []store.Change
	for i := range n {
		id := fmt.Sprint("old", i)
		rs = append(rs, store.NewRun{ID: id})
		cs = append(cs, store.Change{Run: id, Takeover: true, Row: []byte("{}"), End: true, Keep: time.Nanosecond})
	}
	return errors.Join(st.Create(ctx, rs...), st.Apply(ctx, cs...))
}

// TestGCInterrupted: Ctrl-C ends it after a pass, it says what it has done, and the next one does the rest.
func TestGCInterrupted(t *testing.T) {
	t.Parallel()
	const all = 2000
	s := newShell(t)
	s.env = append(s.env, "TERM=xterm")
	s.expired(all)
	y, interrupts := newTTY(80), make(chan struct{}, 2)
	done := s.onTTY(y, y, interrupts, "gc", "--json")
	y.await(t, "removed 100 runs", 1)
	interrupts <- struct{}{}
	got := ended(t, done)
	first, _, _ := strings.Cut(got.out, "\n")
	var a, b collected
	if err := json.Unmarshal([]byte(first), &a); err != nil || got.code != exitInterrupted || !a.More || a.Removed < 100 || a.Removed >= all {
		t.Fatal(got, err)
	}
	if err := json.Unmarshal([]byte(s.want(0, "gc", "--json").out), &b); err != nil || b.More || a.Removed+b.Removed != all {
		t.Errorf("%+v, then %+v, %v", a, b, err)
	}
}

// TestGC: what has expired goes, as far as it is asked for, and the next one goes on.
func TestGC(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	kept := s.run("run", "hello", "x", "--json").last(t).Run.ID
	s.expired(250)
	s.want(exitUsage, "gc", "--max", "-1")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--max", "1"}, "removed 1 run\n"},
		{[]string{"--max", "120", "--json"}, `{"removed":120,"more":true}` + "\n"},
		{[]string{"--compact", "--json"}, `{"removed":129,"more":false,"compacted":true}` + "\n"},
		{nil, "removed 0 runs\n"},
	} {
		if got := s.want(0, append([]string{"gc"}, c.args...)...); got.out != c.want {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
	s.want(0, "runs", "show", kept)
	s.want(exitUsage, "gc", "--compact", "--store", "memory")
	s.want(0, "gc", "--store", "memory")
}

// TestBackup: where a copy may go, and what is said of stores that are copied in another way.
func TestBackup(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	id := s.run("run", "hello", "x", "--json").last(t).Run.ID
	file := filepath.Join(s.dir, "my copy.db")
	if got := s.want(0, "backup", file); !strings.Contains(got.out, file) {
		t.Error(got)
	}
	s.want(0, "runs", "show", id, "--store", "sqlite:"+file)
	if got := s.want(exitConflict, "backup", file); !strings.Contains(got.err, "--overwrite") {
		t.Error(got)
	}
	s.want(exitConflict, "backup", filepath.Join(s.dir, "pawl", "pawl.db"), "--overwrite")
	var made copied
	if err := json.Unmarshal([]byte(s.want(0, "backup", file, "--overwrite", "--json").out), &made); err != nil || made.File != file || made.Bytes < 4096 {
		t.Error(made, err)
	}
	s.want(exitUnavailable, "backup", filepath.Join(s.dir, "none", "copy.db"))
	s.want(exitUsage, "backup")
	s.want(exitUsage, "backup", "")
	for name, hint := range map[string]string{"memory": "ends with the command", "postgres://host/db": "pg_dump"} {
		if got := s.want(exitUsage, "backup", file, "--overwrite", "--store", name); !strings.Contains(got.err, hint) {
			t.Error(got)
		}
	}
}

// TestLongBackupWhileWriting: a copy that is taken while a process works opens without a fault, and its run goes on from it.
func TestLongBackupWhileWriting(t *testing.T) {
	s := newShell(t)
	p := s.start("run", "slow", "n=40", "ms=50")
	p.await(t, "work -> work", 3)
	for _, name := range []string{"one.db", "two.db", "three.db"} {
		s.want(0, "backup", filepath.Join(s.dir, name))
		p.await(t, "work -> work", 1)
	}
	if got := p.end(t); got.code != 0 {
		t.Fatal(got)
	}
	for _, name := range []string{"one.db", "three.db"} {
		at := "sqlite:" + filepath.Join(s.dir, name)
		s.want(0, "doctor", "--store", at)
		var r pawl.Run
		if err := json.Unmarshal([]byte(s.want(0, "runs", "ls", "--json", "--store", at).out), &r); err != nil {
			t.Fatal(err)
		}
		if r.Status != pawl.StatusRunning && r.Status != pawl.StatusInterrupted {
			t.Errorf("%s: the run is %s", name, r.Status)
		}
		if got := s.want(0, "runs", "watch", r.ID, "--store", at); !strings.Contains(got.out, `"done": 40`) {
			t.Error(got)
		}
	}
}

// TestDoctorFindsAilingRuns and says what to do about them.
func TestDoctorFindsAilingRuns(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	stuck, lost := s.run("run", "approve", "--json").last(t).Run.ID, s.run("run", "approve", "--json").last(t).Run.ID
	s.want(0, "doctor")
	s.onStore(func(ctx context.Context, st store.Store) error {
		r, err := st.Get(ctx, store.Scope{All: true}, stuck)
		if err != nil {
			return err
		}
		qs, err := st.Questions(ctx, store.Scope{All: true}, store.Filter{Run: stuck}, store.Page{})
		if err != nil {
			return err
		}
		err = st.Apply(ctx,
			store.Change{Run: stuck, Epoch: r.Epoch, Takeover: true, Status: r.Status, Node: r.Node, Row: r.Row, Drop: []string{qs[0].ID}, Seen: r.Inbox, After: -1},
			store.Change{Run: lost, Letters: []store.Letter{{Run: lost}}})
		if err != nil {
			return err
		}
		_, _, err = st.Claim(ctx, store.Claim{Worker: "dead", Run: lost, Max: 1, Hold: time.Millisecond})
		return err
	})
	got := s.want(exitUnavailable, "doctor")
	for _, want := range []string{"stuck runs", "runs retry RUN: " + stuck, "orphan leases", "runs watch RUN: " + lost, "clock difference", "integrity", "fsync", "schema"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is not in:\n%s", want, got.out)
		}
	}
	s.want(0, "runs", "cancel", stuck)
	s.want(exitWaiting, "runs", "watch", lost)
	s.want(0, "doctor")
}

// TestClocks: a clock that was read between two times of ours is right; else it is off by what is missing.
func TestClocks(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		at    time.Time
		value string
		fault bool
	}{{at.Add(time.Second), "0s", false}, {at.Add(-time.Second), "-1s", false}, {at.Add(-time.Hour), "-1h0m0s", true}, {at.Add(time.Hour), "59m58s", true}} {
		if value, fault := differs(c.at, at, at.Add(2*time.Second)); value != c.value || (fault != "") != c.fault {
			t.Errorf("%v: %s, %s", c.at, value, fault)
		}
	}
}
