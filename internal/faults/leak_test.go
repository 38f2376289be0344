package faults

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// TestFaultNothingLeaks: after deaths at the worst places and a closed store, no goroutine, connection or file is left (I11). In a bubble
// a goroutine that stays is an error by itself; files, connections among them, are counted, where the system shows them.
func TestFaultNothingLeaks(t *testing.T) {
	files := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return 0
		}
		return len(all)
	}
	onEach(t, func(t *testing.T, b backend) {
		want, broken := play(t, b, &Passes{}, nil)
		if len(broken) > 0 {
			t.Fatal(broken)
		}
		routines, open := runtime.NumGoroutine(), files()
		for _, p := range []Point{{NodeCommit, Inside}, {ClaimRun, After}, {JournalEntry, Before}} {
			if _, broken := play(t, b, &Armed{Point: p}, want); len(broken) > 0 {
				t.Error(broken)
			}
		}
		for range 100 { // a finalizer or two may still run
			if runtime.NumGoroutine() <= routines && files() <= open {
				return
			}
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%d goroutines and %d files, before it were %d and %d", runtime.NumGoroutine(), files(), routines, open)
	})
}
