package app

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pawl"
)

// The tests of this file are in a bubble: its time goes on only when all in it wait, so that the seconds of a lock or of
// --timeout pass at once and are measured exactly. The database, its files and its locks are real.

// bubble gives a test a store and a virtual time of its own.
func bubble(t *testing.T, do func(t *testing.T, s *shell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t)
		s.ws = append(s.ws, Graph(patient()), Graph(napping()))
		do(t, s)
	})
}

// patient asks, and then makes two visits of as many seconds as it was told, whoever wants it to stop.
func patient() *pawl.Graph[struct{}, int, int] {
	g := pawl.New[struct{}, int, int]("patient", pawl.Options{Version: "1"})
	ask := g.Node("ask", func(ctx context.Context, _ int) (int, error) {
		return pawl.Ask[int](ctx, "n", pawl.Question{Text: "How long?"})
	})
	work := g.Node("work", func(_ context.Context, s int) (int, error) {
		time.Sleep(time.Duration(s) * time.Second)
		return s, nil
	})
	rest := g.Node("rest", func(_ context.Context, s int) (int, error) {
		time.Sleep(time.Duration(s) * time.Second)
		return s, nil
	})
	done := g.Succeed("DONE")
	g.Start(ask, func(struct{}) (int, error) { return 0, nil })
	g.From(ask).OnAnswer("said", work).AtMost(1).Otherwise(work)
	g.From(work).Otherwise(rest)
	g.From(rest).Otherwise(done)
	g.Finish(func(s int, _ pawl.Ending) (int, error) { return s, nil })
	return g
}

// napping waits for the clock, a minute.
func napping() *pawl.Graph[struct{}, int, int] {
	g := pawl.New[struct{}, int, int]("napping", pawl.Options{Version: "1"})
	nap := g.Node("nap", func(ctx context.Context, s int) (int, error) { return s + 1, pawl.Sleep(ctx, "nap", time.Minute) })
	done := g.Succeed("DONE")
	g.Start(nap, func(struct{}) (int, error) { return 0, nil })
	g.From(nap).Otherwise(done)
	g.Finish(func(s int, _ pawl.Ending) (int, error) { return s, nil })
	return g
}

// timed is the end of a command and how long that took.
type timed struct {
	told
	took time.Duration
}

// slack is what a command may take beyond what it waits for: until it has seen that all is quiet, for example.
const slack = 300 * time.Millisecond

// within checks that a command took as long as it should, or little more.
func (w timed) within(t *testing.T, d time.Duration) {
	t.Helper()
	if w.took < d || w.took > d+slack {
		t.Errorf("it took %s, want %s\n%s%s", w.took, d, w.out, w.err)
	}
}

// clock runs a command that has to end with a code. It is interrupted after each of these times, one after the other.
func (s *shell) clock(code int, interrupts []time.Duration, args ...string) timed {
	s.t.Helper()
	var out, err bytes.Buffer
	c := make(chan struct{})
	over := make(chan struct{})
	go func() {
		for _, d := range interrupts {
			time.Sleep(d)
			select {
			case c <- struct{}{}:
			case <-over:
				return
			}
		}
	}()
	began := time.Now()
	got := Shell{Args: args, In: strings.NewReader(""), Out: &out, Err: &err, Env: s.env, Interrupts: c}.Run(s.t.Context(), s.ws...)
	w := timed{told{got, out.String(), err.String()}, time.Since(began)}
	close(over)
	if got != code {
		s.t.Fatalf("%q: exit %d, want %d\n%s%s", args, got, code, w.out, w.err)
	}
	return w
}

// says checks that people are told all of this.
func (w told) says(t *testing.T, all ...string) {
	t.Helper()
	for _, text := range all {
		if !strings.Contains(w.err, text) {
			t.Errorf("%q is not in:\n%s", text, w.err)
		}
	}
}

// TestTimeoutWhileANodeWorks: the time of a command is up in the middle of a step. The step comes to its end, and is not done
// again by the command that goes on. Where the run ends with it, that is what is said.
func TestTimeoutWhileANodeWorks(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *shell) {
		got := s.clock(exitTimeout, nil, "run", "slow", "n=5", "ms=700", "--timeout", "1s")
		got.within(t, 1400*time.Millisecond)
		id := ids.FindString(got.err)
		got.says(t, "the time is up; run "+id+" stands at work; go on with: pawl runs watch "+id+"\n")
		if got.out != "" {
			t.Errorf("%q", got.out)
		}
		got = s.clock(exitTimeout, nil, "runs", "watch", id, "--timeout", "100ms", "--json")
		got.within(t, 700*time.Millisecond)
		r := got.last(t)
		if r.Exit != exitTimeout || r.Error != nil || r.Command != "pawl runs watch "+id || r.Run.Status != pawl.StatusInterrupted {
			t.Errorf("%+v", r)
		}
		s.clock(0, nil, "runs", "watch", id, "--timeout", "1s").within(t, 1400*time.Millisecond)
		s.whole(id, 5)
		s.clock(0, nil, "run", "slow", "n=2", "ms=700", "--timeout", "0").within(t, 1400*time.Millisecond)

		got = s.clock(exitTimeout, nil, "run", "slow", "n=3", "ms=700", "--timeout", "1s", "--store", "memory", "--json")
		if r := got.last(t); r.Command != "" || !strings.Contains(got.err, "the time is up; the run was in the memory store and ends here") {
			t.Errorf("%+v %s", r, got.err)
		}
	})
}

// TestTimeoutOfAnAnswer: the time is up while the run works on; the answer that the command was given for is in.
func TestTimeoutOfAnAnswer(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *shell) {
		got := s.clock(exitWaiting, nil, "run", "patient", "--timeout", "1h", "--json") // that it waits for an answer is said at once
		got.within(t, 0)
		r := got.last(t)
		id, question := r.Run.ID, r.Questions[0].ID
		s.clock(exitTimeout, nil, "runs", "answer", id, question, "3", "--timeout", "1s").within(t, 3*time.Second)
		s.want(exitConflict, "runs", "answer", id, question, "4")
		if got := s.clock(0, nil, "runs", "watch", id); got.out != "3\n" {
			t.Error(got)
		}
		s.want(0, "runs", "answer", id, question, "3")
	})
}

// TestTimeoutWhileARunSleeps: a run that waits for the clock does not keep a command whose time is up.
func TestTimeoutWhileARunSleeps(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *shell) {
		got := s.clock(exitTimeout, nil, "run", "napping", "--timeout", "10s")
		got.within(t, 10*time.Second)
		id := ids.FindString(got.err)
		s.clock(exitTimeout, nil, "runs", "watch", id, "--timeout", "10s", "--json").within(t, 10*time.Second)
		if got := s.clock(0, nil, "runs", "watch", id); got.out != "1\n" || got.took > time.Minute-20*time.Second+slack {
			t.Errorf("%+v", got)
		}
	})
}

// TestTimeoutAtAQuestion: the time is up while a person thinks; the question stays open.
func TestTimeoutAtAQuestion(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *shell) {
		y := newTTY(80)
		defer y.typed.Close()
		began := time.Now()
		got := timed{ended(t, s.onTTY(y, y, nil, "run", "approve", "--timeout", "20s")), time.Since(began)}
		got.within(t, 20*time.Second)
		id := ids.FindString(got.err)
		if got.code != exitTimeout {
			t.Error(got)
		}
		got.says(t, "> \nthe time is up; run "+id+" stands at ask; go on with: pawl runs watch "+id)
		r := s.want(exitWaiting, "runs", "watch", id, "--json").last(t)
		s.want(0, "runs", "answer", id, r.Questions[0].ID, "yes")
	})
}

// TestTimeoutBesideAnother: the run is in the hands of another command, which goes on undisturbed; a cancel that was given in
// time takes effect when that one reads it.
func TestTimeoutBesideAnother(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *shell) {
		for _, c := range []struct {
			command []string
			ends    int
		}{{[]string{"runs", "watch"}, 0}, {[]string{"runs", "cancel"}, exitFailed}} {
			r := s.want(exitWaiting, "run", "patient", "--json").last(t)
			id := r.Run.ID
			other := make(chan told, 1)
			go func() { other <- s.run("runs", "answer", id, r.Questions[0].ID, "30") }()
			time.Sleep(time.Second) // of virtual time: it is at work
			got := s.clock(exitTimeout, nil, append(c.command, id, "--timeout", "2s")...)
			if got.took > 2*time.Second+quiet+slack { // until all that the other has said is shown
				t.Errorf("it took %s", got.took)
			}
			got.says(t, "in the hands of another process", "go on with: pawl runs watch "+id)
			if got := <-other; got.code != c.ends {
				t.Errorf("%v: %+v", c.command, got)
			}
			s.want(c.ends, "runs", "watch", id)
		}
		time.Sleep(time.Minute) // the cancelled step was left behind
	})
}

// TestStopsReadingInput: what --input names may never come to its end.
func TestStopsReadingInput(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *shell) {
		for _, c := range []struct {
			code int
			says string
			args []string
		}{
			{exitTimeout, "pawl: the time is up: --input has not come to its end", []string{"--timeout", "2s"}},
			{exitInterrupted, "pawl: interrupted\n", nil},
		} {
			r, w := io.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			if c.code == exitInterrupted {
				time.AfterFunc(2*time.Second, cancel)
			}
			var out, say bytes.Buffer
			sh := Shell{Args: append([]string{"run", "hello", "--json", "--input", "-"}, c.args...), In: r, Out: &out, Err: &say, Env: s.env}
			began := time.Now()
			code := sh.Run(ctx, s.ws...)
			got := timed{told{code, out.String(), say.String()}, time.Since(began)}
			got.within(t, 2*time.Second)
			cancel()
			_ = w.Close() // the reader that was left behind
			if got.code != c.code || got.last(t).Exit != c.code || !strings.Contains(got.err, c.says) {
				t.Errorf("%+v", got)
			}
		}
	})
}
