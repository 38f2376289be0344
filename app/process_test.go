package app

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// process is a command in a process of its own: this test binary as the program.
type process struct {
	*exec.Cmd
	mu       sync.Mutex
	out, err bytes.Buffer
	done     chan struct{}
}

// start begins a command in a process of its own.
func (s *shell) start(args ...string) *process {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(self, args...), done: make(chan struct{})}
	p.Env = append(append([]string{}, s.env...), "APP_TEST_PROGRAM=1", "GOCOVERDIR="+s.dir)
	if root := os.Getenv("SystemRoot"); root != "" {
		p.Env = append(p.Env, "SystemRoot="+root)
	}
	return s.begin(p)
}

// begin starts a process and sees to its end.
func (s *shell) begin(p *process) *process {
	s.t.Helper()
	p.Stdout, p.Stderr = &guarded{p: p, b: &p.out}, &guarded{p: p, b: &p.err}
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { _ = p.Wait(); close(p.done) }()
	s.t.Cleanup(func() { _ = p.Process.Kill(); <-p.done })
	return p
}

type guarded struct {
	p *process
	b *bytes.Buffer
}

func (g *guarded) Write(b []byte) (int, error) {
	g.p.mu.Lock()
	defer g.p.mu.Unlock()
	return g.b.Write(b)
}

func (p *process) told() told {
	p.mu.Lock()
	defer p.mu.Unlock()
	return told{p.ProcessState.ExitCode(), p.out.String(), p.err.String()}
}

func (p *process) says() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err.String()
}

// await waits until standard error has a text so often.
func (p *process) await(t *testing.T, text string, times int) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for strings.Count(p.says(), text) < times {
		if time.Now().After(deadline) {
			t.Fatalf("%q did not come %d times:\n%s", text, times, p.says())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (p *process) end(t *testing.T) told {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(3 * time.Minute):
		t.Fatalf("%q does not end:\n%s", p.Args, p.says())
	}
	return p.told()
}

// TestTwoAtOnce: several programs begin on one new file at the same time, and all come to their end.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	var all []*process
	for range 3 {
		all = append(all, s.start("run", "nco", "I drive a lorry between cities for a transport company"), s.start("run", "slow", "n=3", "ms=20"))
	}
	for _, p := range all {
		if got := p.end(t); got.code != 0 {
			t.Errorf("%q: %+v", p.Args[1:], got)
		}
	}
	if got := s.want(0, "runs", "ls", "--json", "--status", "succeeded"); strings.Count(got.out, "\n") != len(all) {
		t.Error(got.out)
	}
}

// TestAnswerFromAnother: one process asks, another answers and works the run on.
func TestAnswerFromAnother(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	asked := s.start("run", "nco", "teacher").end(t)
	if asked.code != exitWaiting {
		t.Fatal(asked)
	}
	found := regexp.MustCompile(`runs answer (\S+) (\S+) "…"`).FindStringSubmatch(asked.err)
	if found == nil {
		t.Fatal(asked.err)
	}
	if got := s.start("runs", "answer", found[1], found[2], "Primary school teacher").end(t); got.code != 0 || !strings.Contains(got.out, "2341") {
		t.Error(got)
	}
}

// TestFaultKilled: a run whose process is killed in the middle goes on in another one, with nothing lost and nothing twice.
func TestFaultKilled(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.start("run", "slow", "n=6", "ms=300")
	p.await(t, "work -> work", 2)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	id := ids.FindString(p.end(t).err)
	if got := s.want(0, "runs", "ls"); !strings.Contains(got.out, id) {
		t.Fatal(got)
	}
	watching := s.start("runs", "watch", id)
	watching.await(t, " ", 1)
	begun := time.Now()
	got := watching.end(t) // it waits until the lease of the dead one has run out
	if begun.Sub(killed) < 5*time.Second && !strings.Contains(got.err, "in the hands of another process") {
		t.Error(got)
	}
	var end pace
	if err := json.Unmarshal([]byte(got.out), &end); err != nil || got.code != 0 || end.Done != 6 {
		t.Fatalf("%+v %v", got, err)
	}
	var all shown
	if err := json.Unmarshal([]byte(s.want(0, "runs", "show", id, "--json").out), &all); err != nil {
		t.Fatal(err)
	}
	works := 0
	for i, step := range all.Steps {
		if step.Seq != int64(i+1) {
			t.Errorf("step %d has the number %d", i+1, step.Seq)
		}
		if step.Name == "work" {
			works++
		}
	}
	if works != 6 {
		t.Errorf("%d visits, want 6: %+v", works, all.Steps)
	}
}

// TestInterrupted: Ctrl-C stops after the step under way and says how to go on; a second one stops at once.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals on Windows")
	}
	s := newShell(t)
	store := "sqlite:" + filepath.Join(s.dir, "my runs.db")
	p := s.start("run", "slow", "n=50", "ms=300", "--store", store)
	p.await(t, "work -> work", 1)
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	got := p.end(t)
	if got.code != exitInterrupted {
		t.Fatal(got)
	}
	found := regexp.MustCompile(`go on with: (\S+) runs watch (\S+) --store '(.*)'\n`).FindStringSubmatch(got.err)
	if found == nil || found[3] != store {
		t.Fatal(got.err)
	}
	steps := strings.Count(got.err, "work -> work")
	if got := s.want(0, "runs", "ls", "--store", store, "--status", "interrupted"); !strings.Contains(got.out, found[2]) {
		t.Error(got)
	}

	p = s.start("runs", "watch", found[2], "--store", store)
	p.await(t, "work -> work", steps+2) // what was done before is shown, and more
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := p.end(t); got.code != exitInterrupted {
		t.Error(got)
	}

	p = s.start("run", "slow", "n=1", "ms=600000")
	p.await(t, "slow@1", 1)
	time.Sleep(200 * time.Millisecond)
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.await(t, "Ctrl-C again stops at once", 1)
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := p.end(t); got.code != exitInterrupted || !strings.Contains(got.err, "go on with") {
		t.Error(got)
	}
}
