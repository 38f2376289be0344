package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pawl/store"
)

// The tests start themselves again as another process, which writes to the file that PAWL_TEST_WRITER names.
func TestMain(m *testing.M) {
	if path := os.Getenv("PAWL_TEST_WRITER"); path != "" {
		if err := writeOn(path, os.Getenv("PAWL_TEST_RUN")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// writeOn appends to a run for ever, from many goroutines, and says which numbers were acknowledged.
func writeOn(path, run string) error {
	ctx := context.Background()
	s, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	rs, _, err := s.Claim(ctx, store.Claim{Worker: run, Run: run, Max: 1, Hold: time.Hour})
	if err != nil || len(rs) != 1 {
		return fmt.Errorf("claim: %v %w", rs, err)
	}
	acks := make(chan int64, 64)
	for range 16 {
		go func() {
			for {
				rec, err := s.Append(ctx, store.Lease{Run: run, Epoch: rs[0].Epoch}, store.Batch{Rows: []store.Row{{Stream: store.Step, Data: make([]byte, 500)}}})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				acks <- rec.Seqs[0]
			}
		}()
	}
	for seq := range acks {
		fmt.Println(seq) // one write each: what the parent has read was acknowledged before
	}
	return nil
}

// startWriter starts another process on the file and returns its acknowledgements.
func startWriter(t *testing.T, path, run string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PAWL_TEST_WRITER="+path, "PAWL_TEST_RUN="+run)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

// A process that is killed while it writes loses nothing that it has acknowledged, and its run can be taken over.
func TestKilledWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, Options{})
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	cmd, acks := startWriter(t, path, "r")
	var last int64
	for i := 0; i < 300 && acks.Scan(); i++ {
		var seq int64
		fmt.Sscan(acks.Text(), &seq)
		last = max(last, seq)
	}
	must(t, cmd.Process.Kill())
	for acks.Scan() { // said before it died
		var seq int64
		if n, _ := fmt.Sscan(acks.Text(), &seq); n == 1 && strings.TrimSpace(acks.Text()) != "" {
			last = max(last, seq)
		}
	}
	_ = cmd.Wait()
	rows, err := s.Read(t.Context(), store.Scope{All: true}, "r", store.Query{Stream: store.Step})
	must(t, err)
	if int64(len(rows)) < last || last < 300 {
		t.Fatalf("%d rows, %d were acknowledged", len(rows), last)
	}
	for i, r := range rows {
		if r.Seq != int64(i+1) {
			t.Fatalf("row %d has number %d", i+1, r.Seq)
		}
	}
	fs, err := s.Check(t.Context())
	must(t, err)
	for _, f := range fs {
		if f.Name == "integrity" && f.Fault != "" {
			t.Fatal(f)
		}
	}
	must(t, s.Create(t.Context(), store.NewRun{ID: "after"}))
}

// Beside a process that writes without a pause, another gets its turn within a second; SQLite's own waiting starves it.
func TestFairness(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, Options{})
	must(t, s.Create(t.Context(), store.NewRun{ID: "a"}, store.NewRun{ID: "b"}))
	_, acks := startWriter(t, path, "a")
	if !acks.Scan() {
		t.Fatal("the other process does not write")
	}
	go func() {
		for acks.Scan() {
		}
	}()
	rs, _, err := s.Claim(t.Context(), store.Claim{Worker: "w", Run: "b", Max: 1, Hold: time.Hour})
	must(t, err)
	var longest time.Duration
	late := 0
	before := s.seq(t, "a")
	for range 50 {
		start := time.Now()
		must(t, s.Apply(t.Context(), store.Change{Run: "b", Epoch: rs[0].Epoch, Row: []byte("x"), Add: []store.Row{{Stream: store.Step}}}))
		took := time.Since(start)
		if longest = max(longest, took); took > time.Second {
			late++
		}
	}
	other := s.seq(t, "a") - before
	t.Logf("50 changes beside %d rows of a saturated writer, the slowest took %v", other, longest)
	if late > 2 { // a machine may hiccup; starving is something else
		t.Fatalf("%d of 50 waited longer than a second for a turn", late)
	}
	if other == 0 {
		t.Fatal("the other process got no turn")
	}
}

func (s *Store) seq(t *testing.T, run string) int64 {
	rows, err := s.Read(t.Context(), store.Scope{All: true}, run, store.Query{Stream: store.Step})
	must(t, err)
	return int64(len(rows))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
