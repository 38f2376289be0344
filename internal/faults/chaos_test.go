package faults

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl/internal/pgtest"
)

// ours is a server of the test's own that syncs, and may be stopped.
func ours(t *testing.T) Server {
	t.Helper()
	s := pgtest.Start(t, true)
	return Server{URL: s.URL(), Crash: s.Crash, Up: s.Up}
}

// storms are the sums over trials of chaos, which go on side by side.
type storms struct {
	mu              sync.Mutex
	began           time.Time
	trials, invalid int
	ChaosReport
}

func (s *storms) add(r ChaosReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trials++; r.Invalid != "" {
		s.invalid++
	}
	if s.Harms == nil {
		s.Harms = map[Harm]int{}
	}
	for h, n := range r.Harms {
		s.Harms[h] += n
	}
	s.Runs, s.Steps, s.Idle, s.Loose = s.Runs+r.Runs, s.Steps+r.Steps, s.Idle+r.Idle, s.Loose+r.Loose
	s.Worn += r.Worn
	s.Unknown, s.Refused, s.Stale = s.Unknown+r.Unknown, s.Refused+r.Refused, s.Stale+r.Stale
	for _, b := range r.Broken {
		s.Broken = append(s.Broken, fmt.Sprintf("seed %d: %s", r.Seed, b))
	}
}

func (s *storms) String() string {
	return fmt.Sprintf("%d trials in %s: %d runs, %d steps; %s; %d writes of unknown outcome, %d refused as stale, %d asked too late; %d runs cancelled, begun again or worn out (%d); %d trials invalid, %d harms without runs in hand; %d violations",
		s.trials, time.Since(s.began).Round(time.Second), s.Runs, s.Steps, told(s.Harms), s.Unknown, s.Refused, s.Stale, s.Loose, s.Worn, s.invalid, s.Idle, len(s.Broken))
}

// TestFaultPostgresChaos plays batches of runs while a storm goes on over a real Postgres. A seed that fails is printed; played again
// with FAULTS_CHAOS=1 FAULTS_FIRST=<seed> it gives the same graphs, runs and schedule of harms.
func TestFaultPostgresChaos(t *testing.T) {
	t.Parallel()
	n, first := number("FAULTS_CHAOS", 8), number("FAULTS_FIRST", 1)
	trials := make(chan *Chaos, n)
	for seed := first; seed < first+n; seed++ {
		c := &Chaos{Seed: uint64(seed)}
		bubble(t, func() {
			if err := c.Calm(); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
		trials <- c
	}
	close(trials)
	if t.Failed() {
		return
	}
	s := &storms{began: time.Now()}
	var wg sync.WaitGroup
	for range min(4, n) { // most of a trial is waiting
		server := ours(t)
		wg.Go(func() {
			for c := range trials {
				c.Server = server
				r, err := c.Play(t.Context())
				if err != nil {
					r.Broken = append(r.Broken, err.Error())
				}
				if s.add(r); len(r.Broken) > 0 {
					t.Errorf("seed %d: %s\n%v", r.Seed, strings.Join(r.Broken, "\n"), c.plans)
				}
				t.Logf("seed %d: %d runs; %s; %d unknown, %d refused, %d too late; %s", r.Seed, r.Runs, told(r.Harms), r.Unknown, r.Refused, r.Stale, r.Invalid)
			}
		})
	}
	wg.Wait()
	t.Log(s)
	if s.invalid*4 > s.trials {
		t.Errorf("%d of %d trials are invalid", s.invalid, s.trials)
	}
	for _, h := range Harms {
		if s.Harms[h] == 0 && s.trials >= 20 {
			t.Errorf("never: %s", h)
		}
	}
	if s.Unknown == 0 || s.Stale == 0 {
		t.Error("no outcome was unknown, or nobody wrote too late")
	}
}
