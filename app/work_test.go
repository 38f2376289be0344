package app

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"pawl/engine"
)

// later starts a run for whoever works the store.
func (s *shell) later(args ...string) string {
	s.t.Helper()
	return strings.TrimSpace(s.want(0, append([]string{"run", "--detach"}, args...)...).out)
}

// TestWork: a worker takes what is started, says what ended, and stops at the first signal after the steps under way.
func TestWork(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	w := s.start("work", "slow", "hello")
	w.await(t, "working slow@1, hello@1", 1)
	good := s.later("hello", "Ann")
	w.await(t, "run "+good+" succeeded", 1)
	long := s.later("slow", "n=3", "ms=700")
	s.watchUntil(long, `"status": "running"`)
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Skip("needs linux: no such signal here")
	}
	if got := w.end(t); got.code != 0 || !strings.Contains(got.err, "stopping after the steps under way") {
		t.Errorf("%+v", got)
	}
	// The step under way was committed, the run is free, and whoever comes next goes on at once.
	began := time.Now()
	if got := s.want(0, "runs", "watch", long); !strings.Contains(got.out, `"done": 3`) || time.Since(began) > 8*time.Second {
		t.Errorf("%s, %+v", time.Since(began), got)
	}
}

// watchUntil waits until a run is shown with a text.
func (s *shell) watchUntil(id, text string) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got := s.want(0, "runs", "show", id, "--json")
		if strings.Contains(got.out, text) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(got.out)
		}
	}
}

// TestWorkStopsAtOnce: the second signal throws the step under way away, and so does --drain when its time is over.
func TestWorkStopsAtOnce(t *testing.T) {
	t.Parallel()
	for _, drain := range []string{"0", "100ms"} {
		s := newShell(t)
		w := s.start("work", "--drain", drain)
		w.await(t, "working ", 1)
		id := s.later("slow", "n=1", "ms=60000")
		s.watchUntil(id, `"status": "running"`)
		if err := w.Process.Signal(syscall.SIGTERM); err != nil {
			t.Skip("needs linux: no such signal here")
		}
		w.await(t, "stopping", 1)
		if drain == "0" {
			_ = w.Process.Signal(syscall.SIGTERM)
		}
		if got := w.end(t); got.code != 0 {
			t.Errorf("--drain %s: %+v", drain, got)
		}
		s.watchUntil(id, `"status": "interrupted"`)
	}
}

// TestFaultWorkerDies: the runs of a worker that is killed go to another one within two lease times, and every step is there
// once.
func TestFaultWorkerDies(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	w := s.start("work")
	w.await(t, "working ", 1)
	id := s.later("slow", "n=12", "ms=200")
	s.watchUntil(id, `"status": "running"`)
	other := s.start("work", "--json")
	other.await(t, "working ", 1)
	_ = w.Process.Kill()
	died := time.Now()
	s.watchUntil(id, `"status": "succeeded"`)
	if d := time.Since(died); d > 25*time.Second {
		t.Errorf("taken over and ended after %s", d)
	}
	_ = other.Process.Kill()
	<-other.done
	types := map[string]int{}
	for line := range strings.Lines(other.told().out) {
		var l workLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if l.Run == id {
			types[l.Type]++
		}
	}
	if types["claimed"] != 1 || types["ended"] != 1 {
		t.Error(types)
	}
	show := s.want(0, "runs", "show", id, "--json")
	if n := strings.Count(show.out, `"step_name": "work"`); n != 12 {
		t.Errorf("%d steps:\n%s", n, show.out)
	}
}

// TestWorkRefuses: what no worker can be told.
func TestWorkRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for says, args := range map[string][]string{
		"--slots: want a number from 1 to 10000": {"--slots", "0"},
		"--drain: -1s is below nothing":          {"--drain=-1s"},
		`there is no workflow "nope"`:            {"nope"},
		"a worker needs a store that others":     {"--store", "memory"},
		`limits: "search" is not NAME=USES/TIME`: {"--limits", "search"},
		`limits: "search": it is empty`:          {"--limits", "search="},
		`"60" is no rate such as 60/1m`:          {"--limits", "search=60"},
		`"0/1m" is no rate`:                      {"--limits", "search=0/1m"},
		`"0" is no number of calls at once`:      {"--limits", "search=:0"},
		`"search" is given twice`:                {"--limits", "search=:1,search=:2"},
		`"x" is no number of runs at once`:       {"--concurrency", "nco=x"},
		"concurrency: \"nco\" is not WORKFLOW":   {"--concurrency", "nco"},
	} {
		if got := s.run(append([]string{"work"}, args...)...); got.code == 0 || !strings.Contains(got.err, says) {
			t.Errorf("%q: %+v, want %q", args, got, says)
		}
	}
}

func TestLimitsOf(t *testing.T) {
	got, err := limitsOf("search=60/1m, llm=:2,both=10/1s:3")
	if err != nil || len(got) != 3 || got["search"] != (engine.Limit{Every: time.Second}) || got["llm"] != (engine.Limit{Max: 2}) ||
		got["both"] != (engine.Limit{Every: 100 * time.Millisecond, Max: 3}) {
		t.Error(got, err)
	}
}

// TestWorkConcurrency: two processes on one store never have more runs of a workflow in hand than was said.
func TestWorkConcurrency(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for range 2 {
		s.start("work", "--concurrency", "slow=2").await(t, "working ", 1)
	}
	var ids []string
	for range 6 {
		ids = append(ids, s.later("slow", "n=2", "ms=500")) // long enough to be seen on a slow machine
	}
	most := 0
	for deadline := time.Now().Add(time.Minute); ; {
		running := strings.Count(s.want(0, "runs", "ls", "--json").out, `"worker":"`)
		most = max(most, running)
		if strings.Count(s.want(0, "runs", "ls", "--json", "--status", "succeeded").out, "\n") == len(ids) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("they do not end")
		}
	}
	if most != 2 {
		t.Errorf("%d in hand at once", most)
	}
}
