package app

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// bulkArgs code the made-up titles of in.csv into a file.
func (s *shell) bulkArgs(out string, more ...string) []string {
	return append([]string{"nco", "--in", filepath.Join(s.dir, "in.csv"), "--column", "job title", "--out", filepath.Join(s.dir, out)}, more...)
}

// TestFaultBulkKilled: killed with kill -9 at any moment, as often as may be, the same command comes to the same output.
func TestFaultBulkKilled(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	put(t, s.dir, "in.csv", madeUpTitles(300))
	if got := s.start(s.bulkArgs("whole.csv")...).end(t); got.code != 0 {
		t.Fatal(got)
	}
	whole := got(t, s.dir, "whole.csv")
	seed := uint64(time.Now().UnixNano())
	chance := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	part := filepath.Join(s.dir, "out.csv.part")
	for round := range 6 {
		kills, from := 0, 0
		for {
			p := s.start(s.bulkArgs("out.csv", "--workers", fmt.Sprint(1+round%3))...)
			from += chance.IntN(len(whole) / 3) // until the part has grown so far, and a moment more
			wait := time.Duration(chance.IntN(3000)) * time.Microsecond
			deadline := time.After(time.Minute)
		waiting:
			for {
				select {
				case <-p.done:
					break waiting
				case <-deadline:
					t.Fatal(p.says())
				default:
				}
				if info, err := os.Stat(part); err == nil && int(info.Size()) >= from {
					time.Sleep(wait)
					break
				}
				time.Sleep(200 * time.Microsecond)
			}
			_ = p.Process.Kill()
			end := p.end(t)
			if end.code == 0 {
				break
			}
			if kills++; end.code != -1 && runtime.GOOS != "windows" {
				t.Fatalf("it was not killed: %+v", end)
			}
			if files, err := filepath.Glob(filepath.Join(s.dir, "out.csv*")); err != nil || slices.Equal(files, []string{filepath.Join(s.dir, "out.csv")}) {
				break // killed between its last act and its exit: nothing is left to go on with
			}
		}
		t.Logf("round %d: killed %d times", round, kills)
		if got(t, s.dir, "out.csv") != whole {
			t.Fatalf("round %d: the output differs from that of an undisturbed run", round)
		}
		left, err := filepath.Glob(filepath.Join(s.dir, "out.csv?*"))
		if err != nil || len(left) > 0 {
			t.Error("left behind: ", left, err)
		}
		if err := os.Remove(filepath.Join(s.dir, "out.csv")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFaultBulkTwoAtOnce: a second process on the same output is refused, and does not disturb the first.
func TestFaultBulkTwoAtOnce(t *testing.T) {
	t.Parallel()
	if !bulkRenamesOpen {
		t.Skip("needs linux: there are no locks of the kind here")
	}
	s := newShell(t)
	put(t, s.dir, "in.csv", madeUpTitles(1500))
	first := s.start(s.bulkArgs("out.csv")...)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if info, err := os.Stat(filepath.Join(s.dir, "out.csv.part")); err == nil && info.Size() > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(first.says())
		}
	}
	for _, args := range [][]string{s.bulkArgs("out.csv"), s.bulkArgs("out.csv", "--overwrite")} {
		oneClearLine(t, s.run(args...), exitConflict, "is being written by another process")
	}
	if got := first.end(t); got.code != 0 || !strings.Contains(got.out, "rows 1500  ") {
		t.Error(got)
	}
	oneClearLine(t, s.run(s.bulkArgs("out.csv")...), exitConflict, "is there already")
}

// TestFaultBulkFullDisk: a disk that is full in the middle is said, and when there is space again the same command goes on.
func TestFaultBulkFullDisk(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	put(t, s.dir, "in.csv", madeUpTitles(600))
	s.want(0, s.bulkArgs("whole.csv")...)
	args := s.bulkArgs("out.csv")
	var full told
	if dir, small := smallDisk(t); small {
		args[6] = filepath.Join(dir, "out.csv")
		fill := filepath.Join(dir, "fill")
		if err := os.WriteFile(fill, make([]byte, 40<<20-60_000), 0o600); err != nil {
			t.Fatal(err)
		}
		full = s.start(args...).end(t)
		if !strings.Contains(full.err, "no space left") {
			t.Errorf("%+v", full)
		}
		if err := os.Remove(fill); err != nil {
			t.Fatal(err)
		}
	} else if runtime.GOOS == "windows" {
		t.Skip("needs linux: a small disk, or a limit of the size of files")
	} else {
		full = s.limited("60", args...).end(t)
	}
	if full.code != exitUnavailable || !strings.Contains(full.err, "cannot write: ") || !strings.Contains(full.err, "go on with: ") {
		t.Fatalf("%+v", full)
	}
	done := s.want(0, append(args, "--json")...)
	var end bulkEnd
	if err := json.Unmarshal([]byte(done.out), &end); err != nil || end.Before == 0 || end.Rows != 600 {
		t.Error(done)
	}
	if out, err := os.ReadFile(args[6]); err != nil || string(out) != got(t, s.dir, "whole.csv") {
		t.Error("the output differs from that of a run with space: ", err)
	}
}

// mostHeap runs a command and gives the most that it held on the heap, in bytes: what is left of several collections, as
// each also finds what was only just made.
func (s *shell) mostHeap(args ...string) (most uint64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		Shell{Args: args, In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Env: s.env}.Run(s.t.Context(), s.ws...)
	}()
	const wait = 100 * time.Millisecond // between two looks; within one it is shorter
	for {
		held := uint64(math.MaxUint64)
		for i := range 8 {
			select {
			case <-done:
				return most
			case <-time.After(wait / time.Duration(1+9*i)):
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			held = min(held, m.HeapAlloc)
		}
		most = max(most, held)
	}
}

// TestLongBulkMemory: a file of ten times the rows takes no more memory. It is not parallel: others would be counted too.
func TestLongBulkMemory(t *testing.T) {
	s := newShell(t)
	var most [2]uint64
	for i, rows := range []int{30_000, 300_000} {
		put(t, s.dir, "in.csv", "job title\n"+strings.Repeat("cook\ntailor\nwelder\nbarber\n", rows/4))
		out := fmt.Sprintf("out%d.csv", rows)
		most[i] = s.mostHeap(s.bulkArgs(out, "--workers", "1")...) // with more, there is more that was only just made
		if n := strings.Count(got(t, s.dir, out), "\n"); n != rows+1 {
			t.Fatalf("%d lines", n)
		}
	}
	t.Logf("most heap: %.1f MB with 30,000 rows, %.1f MB with 300,000", float64(most[0])/1e6, float64(most[1])/1e6)
	if most[0] == 0 || most[1] > most[0]+12<<20 { // if the rows stayed, it would be some 40 MB
		t.Errorf("the heap went from %d to %d bytes", most[0], most[1])
	}
}

// TestLongBulkTenThousand: ten thousand rows, and how many a second.
func TestLongBulkTenThousand(t *testing.T) {
	s := newShell(t)
	put(t, s.dir, "in.csv", madeUpTitles(10000))
	var end bulkEnd
	if err := json.Unmarshal([]byte(s.start(s.bulkArgs("out.csv", "--json")...).end(t).out), &end); err != nil || end.Rows != 10000 {
		t.Fatal(end, err)
	}
	t.Logf("%d rows in %.1f s: %.0f rows/s, %d matched, %d asked", end.Rows, end.Seconds, end.RowsPerSecond, end.Matched, end.Asked)
	for i, row := range rowsIn(t, filepath.Join(s.dir, "out.csv"))[1:] {
		if row[0] != fmt.Sprintf("E%05d", i) || row[2] != fmt.Sprintf("n, %d", i) || row[3] != fmt.Sprint(i+1) {
			t.Fatalf("row %d is %q", i+1, row)
		}
	}
}
