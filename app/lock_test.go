package app

import (
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pawl"
)

// file is where the store of a shell is.
func (s *shell) file() string { return filepath.Join(s.dir, "pawl", "pawl.db") }

// lock holds the lock of the store's file as another program would that writes to it; the function lets go of it.
func (s *shell) lock() (unlock func()) {
	s.t.Helper()
	db, err := sql.Open("sqlite", s.file()+"?_pragma=busy_timeout(1000)")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(s.t.Context(), "BEGIN IMMEDIATE"); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if _, err := db.Exec("ROLLBACK"); err != nil {
			s.t.Error(err)
		}
	}
}

// refused checks that a program is told an error with a code, that names the file, and that the exit code is there too.
func (s *shell) refused(w told, exit int, code string, says ...string) {
	s.t.Helper()
	r := w.last(s.t)
	if r.Exit != exit || r.Error == nil || r.Error.Code != code {
		s.t.Fatalf("%+v, want exit %d and the error %s", r, exit, code)
	}
	for _, text := range append(says, s.file()) {
		if !strings.Contains(r.Error.Text, text) {
			s.t.Errorf("%q is not in %q", text, r.Error.Text)
		}
	}
}

// behind are the commands that write, with runs that they can be given for.
func (s *shell) behind() map[string][]string {
	s.t.Helper()
	q := s.want(exitWaiting, "run", "approve", "--json").last(s.t)
	f := s.want(exitFailed, "run", "broken", "x", "--json").last(s.t)
	return map[string][]string{
		"run":    {"run", "hello", "x", "--key", "k"},
		"detach": {"run", "hello", "y", "--key", "l", "--detach"},
		"answer": {"runs", "answer", q.Run.ID, q.Questions[0].ID, "yes"},
		"cancel": {"runs", "cancel", s.want(exitWaiting, "run", "approve", "--json").last(s.t).Run.ID},
		"retry":  {"runs", "retry", f.Run.ID},
	}
}

// goOn checks that the commands did nothing, and that each does it now.
func (s *shell) goOn(commands map[string][]string, before string) {
	s.t.Helper()
	if now := s.want(0, "runs", "ls", "--json").out; now != before {
		s.t.Errorf("there was\n%s\nthere is\n%s", before, now)
	}
	for name, args := range commands {
		code := 0
		if name == "retry" {
			code = exitFailed // as before
		}
		s.want(code, args...)
	}
	if got := s.want(0, "runs", "ls", "--json").out; strings.Count(got, "\n") != strings.Count(before, "\n")+2 {
		s.t.Errorf("there was\n%s\nthere is\n%s", before, got)
	}
}

// TestTimeoutBehindALock: the time is up while another program writes to the file: nothing has been done, and that is said.
func TestTimeoutBehindALock(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *shell) {
		commands := s.behind()
		before := s.want(0, "runs", "ls", "--json").out
		unlock := s.lock()
		for _, args := range commands {
			args = append(args, "--timeout", "2s")
			got := s.clock(exitTimeout, nil, args...)
			got.within(t, 2*time.Second)
			oneClearLine(t, got.told, exitTimeout, "pawl: the time is up: ")
			got.says(t, s.file(), "nothing was written")
			got = s.clock(exitTimeout, nil, append(args, "--json")...)
			got.within(t, 2*time.Second)
			s.refused(got.told, exitTimeout, pawl.CodeTimeout, "the time is up", "nothing was written")
		}
		unlock()
		s.goOn(commands, before)
	})
}

// TestInterruptBehindALock: so does Ctrl-C.
func TestInterruptBehindALock(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *shell) {
		commands := s.behind()
		before := s.want(0, "runs", "ls", "--json").out
		unlock := s.lock()
		for _, args := range commands {
			got := s.clock(exitInterrupted, []time.Duration{time.Second}, args...)
			got.within(t, time.Second)
			oneClearLine(t, got.told, exitInterrupted, "pawl: interrupted")
			got = s.clock(exitInterrupted, []time.Duration{time.Second}, append(args, "--json")...)
			got.within(t, time.Second)
			s.refused(got.told, exitInterrupted, pawl.CodeCancelled, "interrupted", "nothing was written")
		}
		unlock()
		s.goOn(commands, before)
	})
}

// TestLockIsWaitedOut: a lock that is let go of in time is no trouble, for none of the commands, nor for one that has a time
// that is long enough.
func TestLockIsWaitedOut(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *shell) {
		const held = busy - time.Second
		for name, args := range s.behind() {
			code := 0
			if name == "retry" {
				code = exitFailed
			}
			time.AfterFunc(held, s.lock())
			got := s.clock(code, nil, append(args, "--timeout", busy.String())...)
			got.within(t, held)
			if strings.Contains(got.err, "trouble") {
				t.Errorf("%s: %s", name, got.err)
			}
		}
	})
}

// TestLockThatStays: a lock that is not let go of in time is an error which names the file, for each of those that stand in
// line. Who only reads does not wait.
func TestLockThatStays(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *shell) {
		commands := s.behind()
		before := s.want(0, "runs", "ls", "--json").out
		unlock := s.lock()
		began, line := time.Now(), make(chan timed)
		for _, args := range commands {
			go func() {
				got := s.run(append(args, "--json")...)
				line <- timed{got, time.Since(began)}
			}()
		}
		time.Sleep(time.Second) // of virtual time: they wait
		for _, reads := range [][]string{{"runs", "ls"}, {"doctor"}, {"runs", "show", ids.FindString(before)}} {
			s.clock(0, nil, reads...).within(t, 0)
		}
		why := fmt.Sprintf("another process has been writing for %s", busy)
		for range commands {
			got := <-line
			got.within(t, busy)
			got.says(t, s.file(), why)
			s.refused(got.told, exitUnavailable, pawl.CodeUnavailable, why, "nothing was written")
		}
		unlock()
		s.goOn(commands, before)
	})
}

// TestLockOfANewFile: the same for a file that has yet to be brought into shape.
func TestLockOfANewFile(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *shell) {
		if err := os.Mkdir(filepath.Dir(s.file()), 0o700); err != nil {
			t.Fatal(err)
		}
		unlock := s.lock()
		run := []string{"run", "hello", "x"}
		got := s.clock(exitUnavailable, nil, run...)
		got.within(t, busy)
		oneClearLine(t, got.told, exitUnavailable, s.file()+": another process has been writing for 5s")
		got = s.clock(exitTimeout, nil, append(run, "--timeout", "1s", "--json")...)
		got.within(t, time.Second)
		s.refused(got.told, exitTimeout, pawl.CodeTimeout, "the time is up")
		got = s.clock(exitInterrupted, []time.Duration{time.Second}, append(run, "--json")...)
		got.within(t, time.Second)
		s.refused(got.told, exitInterrupted, pawl.CodeCancelled, "interrupted")
		time.AfterFunc(time.Second, unlock)
		s.clock(0, nil, run...).within(t, time.Second)
	})
}

// TestLockAmidWork: another program takes the lock while a run is at work. Nothing of the run is lost, whatever ends the
// command; it says so with the command that goes on.
func TestLockAmidWork(t *testing.T) {
	t.Parallel()
	const after = 1500 * time.Millisecond // in the second visit
	second := []time.Duration{2 * time.Second, time.Second}
	for name, c := range map[string]struct {
		held       time.Duration
		args       []string
		interrupts []time.Duration
		code       int
		upto       time.Duration // the end of the command, at the latest
		says       string
	}{
		"it is let go of": {held: busy - time.Second, upto: after + busy + 2*time.Second, says: "succeeded: DONE"},
		"it stays":        {held: time.Hour, code: exitUnavailable, upto: after + 4*busy, says: "can be gone on with: pawl runs watch "},
		// The step under way has to be committed, which is tried for as long as a run waits for its store.
		"the time is up": {held: time.Hour, args: []string{"--timeout", "2s"}, code: exitTimeout, upto: after + 4*busy, says: "the time is up; run "},
		"Ctrl-C":         {held: time.Hour, interrupts: second[:1], code: exitInterrupted, upto: after + 4*busy, says: "interrupted; run "},
		"Ctrl-C twice":   {held: time.Hour, interrupts: second, code: exitInterrupted, upto: 3*time.Second + leave, says: "interrupted; run "},
		"in time":        {held: 2 * time.Second, args: []string{"--timeout", "2s"}, code: exitTimeout, upto: after + 2*time.Second, says: "the time is up; run "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, s *shell) {
				s.want(0, "runs", "ls") // makes the file
				time.AfterFunc(after, func() { time.AfterFunc(c.held, s.lock()) })
				got := s.clock(c.code, c.interrupts, append([]string{"run", "slow", "n=4", "ms=1000", "--json"}, c.args...)...)
				if got.took > c.upto+slack {
					t.Errorf("it took %s\n%s", got.took, got.err)
				}
				got.says(t, c.says)
				r := got.last(t)
				if r.Exit != c.code || r.Run == nil || c.code != 0 && r.Command != "pawl runs watch "+r.Run.ID {
					t.Fatalf("%+v", r)
				}
				if next := "go on with: pawl runs watch " + r.Run.ID + "\n"; c.code >= exitTimeout && c.code != exitUnavailable && !strings.HasSuffix(got.err, next) {
					t.Errorf("the last word is not how it goes on:\n%s", got.err)
				}
				if e := r.Error; c.code == exitUnavailable && (e == nil || e.Code != pawl.CodeUnavailable || !strings.Contains(e.Text, s.file())) {
					t.Errorf("%+v", e)
				}
				time.Sleep(time.Hour)
				s.want(0, "runs", "watch", r.Run.ID)
				s.whole(r.Run.ID, 4)
			})
		})
	}
}

// TestTypedBehindALock: an answer that was typed and could not be kept is not lost without a word.
func TestTypedBehindALock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code      int
		args      []string
		interrupt bool
		says      []string
	}{
		"it stays":       {exitUnavailable, nil, false, []string{"can be gone on with: pawl runs watch ", "pawl: sqlite: apply: "}},
		"the time is up": {exitTimeout, []string{"--timeout", "2s"}, false, []string{"pawl: sqlite: apply: ", "the time is up; run "}},
		"Ctrl-C":         {exitInterrupted, nil, true, []string{"pawl: sqlite: apply: ", "interrupted; run ", "go on with: pawl runs watch "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, s *shell) {
				y, interrupts := newTTY(80), make(chan struct{}, 1)
				defer y.typed.Close()
				done := s.onTTY(y, y, interrupts, append([]string{"run", "approve"}, c.args...)...)
				y.await(t, "\n> ", 1)
				unlock := s.lock()
				if _, err := io.WriteString(y.typed, "yes\n"); err != nil {
					t.Fatal(err)
				}
				if c.interrupt {
					time.AfterFunc(time.Second, func() { interrupts <- struct{}{} })
				}
				got := ended(t, done)
				if got.code != c.code {
					t.Errorf("%+v", got)
				}
				got.says(t, append(c.says, s.file(), "nothing was written")...)
				unlock()
				id := ids.FindString(got.err)
				r := s.want(exitWaiting, "runs", "watch", id, "--json").last(t)
				s.want(0, "runs", "answer", id, r.Questions[0].ID, "yes")
			})
		})
	}
}

// TestTimeoutOfAProcess: the same with the clock on the wall, for a process of its own.
func TestTimeoutOfAProcess(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.want(0, "runs", "ls") // makes the file
	unlock := s.lock()
	run := []string{"run", "hello", "x", "--key", "k", "--json"}
	got := s.start(append(run, "--timeout", "300ms")...).end(t)
	s.refused(got, exitTimeout, pawl.CodeTimeout, "the time is up", "nothing was written")
	p := s.start(run...)
	unlock()
	if got := p.end(t); got.code != 0 || got.last(t).Existing != "" {
		t.Errorf("%+v", got)
	}
}
