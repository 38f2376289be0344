//go:build unix

package faults

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"pawl/internal/pgtest"
)

// crew are workers in processes of their own, each behind a line of its own.
type crew struct {
	*site
	name  string
	lines []*Proxy
	procs []*proc
	said  int // refusals of those who are no more
}

func newCrew(s *site, name string, n int) *crew {
	c := &crew{site: s, name: name}
	for range n {
		line, err := NewProxy(s.address)
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(line.Close)
		line.URL += "&application_name=" + name
		c.lines, c.procs = append(c.lines, line), append(c.procs, s.worker(line.URL))
	}
	return c
}

// victim is what a storm may do to one of them. A killed one is replaced at once.
func (c *crew) victim(i int) Victim {
	signal := func(sig syscall.Signal) {
		if err := c.procs[i].Process.Signal(sig); err != nil {
			c.Error(err)
		}
	}
	return Victim{
		Line: c.lines[i],
		Kill: func() {
			c.dismiss(i)
			c.procs[i] = c.worker(c.lines[i].URL)
		},
		Stop: func() func() {
			signal(syscall.SIGSTOP)
			return func() { signal(syscall.SIGCONT) }
		},
	}
}

func (c *crew) dismiss(i int) {
	c.procs[i].kill()
	c.said += strings.Count(c.procs[i].says(), "refused")
}

// feed starts runs as long as the storm goes on, so that there are always some to break.
func (c *crew) feed(over <-chan struct{}) error {
	for {
		select {
		case <-over:
			return nil
		case <-time.After(10 * time.Millisecond):
		}
		if n, err := live(c.store); err != nil || n > 4*leastInHand {
			continue // the server is down, or there are enough
		}
		for range 2 {
			if err := c.begin(); err != nil {
				return err
			}
		}
	}
}

// weather has the storm of a seed go over the crew until all runs have ended, and gives how many were begun too often.
func (c *crew) weather(server Server, seed int) (s *Storm, worn int) {
	c.Helper()
	s = &Storm{Seed: uint64(seed), Lease: c.lease, Least: leastInHand, Server: server, Name: c.name, Held: func() (int, error) { return held(c.store) }}
	for i := range c.procs {
		s.Victims = append(s.Victims, c.victim(i))
	}
	over, fed := make(chan struct{}), make(chan error, 1)
	go func() { fed <- c.feed(over) }()
	err := s.Rage(c.Context(), over)
	close(over)
	if ferr := <-fed; err != nil || ferr != nil {
		c.Fatalf("seed %d: %v, %v", seed, err, ferr)
	}
	c.soon("all runs end", func() bool { return !c.live() })
	for i := range c.procs {
		c.dismiss(i)
	}
	return s, c.judge()
}

// TestFaultChaosOfProcesses: the storm goes on over 4 workers that are processes of their own: they are killed with kill -9, and
// stand still by SIGSTOP.
func TestFaultChaosOfProcesses(t *testing.T) {
	t.Parallel()
	want, server := &calm{}, ours(t)
	n, first, made := number("FAULTS_CREWS", 3), number("FAULTS_FIRST", 1), map[Harm]int{}
	runs, refused, invalid, lease := 0, 0, 0, Short
	for seed := first; seed < first+n; seed++ {
		for again := true; again; { // until the leases are long enough for this machine
			c := newCrew(newSiteOf(t, pgtest.In(server.URL, pgtest.Schema(t, server.URL)), want, lease), fmt.Sprint("crew_", seed), 4)
			storm, worn := c.weather(server, seed)
			if t.Failed() {
				t.Fatalf("seed %d: %s", seed, told(storm.Made))
			}
			harms := 0
			for h, n := range storm.Made {
				made[h] += n
				harms += n
			}
			runs, refused = runs+len(c.orders), refused+c.said
			if again = worn*2 > len(c.orders); !again {
				if harms < leastHarms {
					invalid++
				}
				continue
			}
			t.Logf("%d of %d runs were begun too often with leases of %v", worn, len(c.orders), lease)
			if lease >= 8*Short {
				t.Fatal("too slow a machine, or too many leases run out")
			}
			lease *= 2
		}
	}
	t.Logf("%d trials from seed %d: %d runs and their children; %s; %d writes refused as stale; %d trials invalid", n, first, runs, told(made), refused, invalid)
	if invalid*4 > n {
		t.Error("too many trials are invalid")
	}
}
