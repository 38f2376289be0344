package app

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// smallDisk is a folder on a disk of 40 MB of its own, where this machine lets us make one.
func smallDisk(t *testing.T) (dir string, ok bool) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return "", false
	}
	dir = t.TempDir()
	if exec.Command("mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", dir).Run() != nil {
		return "", false
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir, true
}

// TestFaultFullDisk: a disk that is full in the middle of a run gives a clear error, and when there is space again the run goes on
// with nothing lost and nothing twice.
func TestFaultFullDisk(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	dir, small := smallDisk(t)
	var full told
	if small {
		s.env = append(s.env, "PAWL_STORE=sqlite:"+filepath.Join(dir, "pawl.db"))
		s.want(0, "run", "hello", "x")
		fill := filepath.Join(dir, "fill")
		if err := os.WriteFile(fill, make([]byte, 39_300_000), 0o600); err != nil {
			t.Fatal(err)
		}
		full = s.start("run", "slow", "n=900", "ms=0").end(t)
		if !strings.Contains(full.err, "full") {
			t.Errorf("%+v", full)
		}
		if err := os.Remove(fill); err != nil {
			t.Fatal(err)
		}
	} else if runtime.GOOS == "windows" {
		t.Skip("needs linux: a small disk, or a limit of the size of files")
	} else { // a limit of the size of files is nearly a full disk
		s.want(0, "run", "hello", "x")
		full = s.limited("1200", "run", "slow", "n=900", "ms=0").end(t)
	}
	if full.code != exitUnavailable || !strings.Contains(full.err, "pawl.db") {
		t.Fatalf("%+v", full)
	}
	id := regexp.MustCompile(`run (\S+)  slow@1`).FindStringSubmatch(full.err)
	if id == nil {
		t.Fatal(full.err)
	}
	s.want(0, "runs", "ls")
	if got := s.want(0, "runs", "watch", id[1]); !strings.Contains(got.err, "succeeded") {
		t.Error(got.err)
	}
	s.whole(id[1], 900)
}

// whole checks that a run of slow made so many visits, each once, and numbered its steps without a hole.
func (s *shell) whole(id string, visits int) {
	s.t.Helper()
	var shown struct {
		Steps []struct {
			Seq   int64  `json:"seq"`
			Name  string `json:"step_name"`
			Visit int64  `json:"visit"`
		} `json:"steps"`
	}
	if err := json.Unmarshal([]byte(s.want(0, "runs", "show", id, "--json").out), &shown); err != nil {
		s.t.Fatal(err)
	}
	seen := map[int64]bool{}
	for i, st := range shown.Steps {
		if st.Seq != int64(i+1) {
			s.t.Fatalf("step %d has number %d", i+1, st.Seq)
		}
		if st.Name == "work" && seen[st.Visit] {
			s.t.Fatalf("visit %d is recorded twice", st.Visit)
		}
		if st.Name == "work" {
			seen[st.Visit] = true
		}
	}
	if len(seen) != visits {
		s.t.Errorf("%d visits, want %d", len(seen), visits)
	}
}

// limited begins a command in a process that may not write files beyond so many blocks.
func (s *shell) limited(blocks string, args ...string) *process {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	p := &process{Cmd: exec.Command("sh", append([]string{"-c", `ulimit -f ` + blocks + ` && exec "$0" "$@"`, self}, args...)...), done: make(chan struct{})}
	p.Env = append(append([]string{}, s.env...), "APP_TEST_PROGRAM=1", "GOCOVERDIR="+s.dir)
	return s.begin(p)
}

// TestBesideASaturatedWorker: commands are done within a second while other processes write the same file as fast as they
// can. The bound here is generous, as the machine may be busy; the usual time is in docs/performance.md.
func TestBesideASaturatedWorker(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.want(0, "run", "hello", "x")
	busy := []*process{s.start("run", "slow", "n=900", "ms=0"), s.start("run", "slow", "n=900", "ms=0")}
	for _, p := range busy {
		p.await(t, "slow@1", 1)
	}
	took := []time.Duration{}
	for range 5 {
		began := time.Now()
		if got := s.start("run", "hello", "y").end(t); got.code != 0 {
			t.Errorf("%+v", got)
		}
		took = append(took, time.Since(began))
	}
	t.Logf("a run beside two saturated processes took %s", took)
	for _, d := range took {
		if d > 5*time.Second {
			t.Errorf("a command took %s", d)
		}
	}
	for _, p := range busy {
		if got := p.end(t); got.code != 0 {
			t.Errorf("%+v", got)
		}
	}
}
