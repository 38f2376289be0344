package faults

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pawl/store"
)

// bubble plays a trial in virtual time.
func bubble(t *testing.T, f func()) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		f()
		time.Sleep(24 * time.Hour) // what was left behind comes to its end
	})
}

// simulate plays a seed on a store.
func simulate(t *testing.T, seed uint64, b backend, p Plant) (r Report) {
	t.Helper()
	var err error
	o := Options{Plant: p, Store: func() (store.Store, func(bool), error) { return b.open(t) }}
	bubble(t, func() { r, err = Simulate(seed, o) })
	if err != nil {
		r.Broken = append(r.Broken, err.Error())
	}
	return r
}

// number is a number from the environment: a developer's longer run.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// sums are over the trials of a layer, which run side by side.
type sums struct {
	mu sync.Mutex
	Report
	trials, invalid int
	broken          []string // told once more at the end, where nothing else is written meanwhile
	began           time.Time
}

func (s *sums) add(r Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trials++
	s.Steps, s.Faults, s.Deaths = s.Steps+r.Steps, s.Faults+r.Faults, s.Deaths+r.Deaths
	s.Stale, s.Answered = s.Stale+r.Stale, s.Answered+r.Answered
	if r.Invalid != "" {
		s.invalid++
	}
}

func (s *sums) breaks(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = append(s.broken, what)
}

func (s *sums) String() string {
	return fmt.Sprintf("%d trials in %s: %d steps, %d answers, %d faults, %d deaths, %d stale writes refused, %d invalid", s.trials,
		time.Since(s.began).Round(time.Millisecond), s.Steps, s.Answered, s.Faults, s.Deaths, s.Stale, s.invalid)
}

// TestFaultSimulation plays random graphs while things break. A seed that fails is printed, and belongs into testdata/seeds.
func TestFaultSimulation(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		t.Parallel() // a database is waited for most of the time
		n, first, lanes := max(number("FAULTS_SEEDS", 5000)/b.slow, 1), number("FAULTS_FIRST", 1), 2
		s := &sums{began: time.Now()}
		t.Run("seeds", func(t *testing.T) {
			for lane := range lanes {
				t.Run(fmt.Sprint(lane), func(t *testing.T) {
					t.Parallel()
					for seed := first + lane; seed < first+n; seed += lanes {
						r := simulate(t, uint64(seed), b, Plant{})
						s.add(r)
						if len(r.Broken) > 0 {
							t.Errorf("seed %d: %s\n%s", seed, strings.Join(r.Broken, "\n"), r.Told)
							s.breaks(fmt.Sprintf("seed %d: %s", seed, strings.Join(r.Broken, "\n")))
						}
					}
				})
			}
		})
		t.Log(s)
		if len(s.broken) > 0 {
			t.Error(strings.Join(s.broken, "\n"))
		}
		if s.invalid*4 > s.trials {
			t.Errorf("%d of %d trials are invalid", s.invalid, s.trials)
		}
		if s.Stale == 0 || s.Deaths == 0 {
			t.Error("no worker was overtaken, or none died")
		}
	})
}

// TestSeeds plays the seeds that are kept.
func TestSeeds(t *testing.T) {
	text, err := os.ReadFile("testdata/seeds")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		n, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		seed, err := strconv.ParseUint(n, 10, 64)
		if strings.HasPrefix(line, "#") || err != nil {
			continue
		}
		t.Run(n, func(t *testing.T) {
			if r := simulate(t, seed, backends()[0], Plant{}); len(r.Broken) > 0 {
				t.Errorf("%s: %s\n%s", strings.TrimSpace(why), strings.Join(r.Broken, "\n"), r.Told)
			}
		})
	}
}
