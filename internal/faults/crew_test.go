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
	lines []*Proxy
	procs []*proc
	said  int // refusals of those who are no more
}

func newCrew(s *site, name string, n int) *crew {
	c := &crew{site: s}
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

// TestFaultChaosOfProcesses: the storm goes on over 4 workers that are processes of their own: they are killed with kill -9, and
// stand still by SIGSTOP.
func TestFaultChaosOfProcesses(t *testing.T) {
	t.Parallel()
	want, server := &calm{}, ours(t)
	n, first, made := number("FAULTS_CREWS", 3), number("FAULTS_FIRST", 1), map[Harm]int{}
	runs, refused, invalid := 0, 0, 0
	for seed := first; seed < first+n; seed++ {
		name := fmt.Sprint("crew_", seed)
		s := newSite(t, pgtest.In(server.URL, pgtest.Schema(t, server.URL)), want)
		c := newCrew(s, name, 4)
		storm := &Storm{Seed: uint64(seed), Lease: Short, Least: leastInHand, Server: server, Name: name, Held: func() (int, error) { return held(s.store) }}
		for i := range c.procs {
			storm.Victims = append(storm.Victims, c.victim(i))
		}
		over, fed := make(chan struct{}), make(chan error, 1)
		go func() { fed <- c.feed(over) }()
		err := storm.Rage(t.Context(), over)
		close(over)
		if ferr := <-fed; err != nil || ferr != nil {
			t.Fatalf("seed %d: %v, %v", seed, err, ferr)
		}
		s.soon("all runs end", func() bool { return !s.live() })
		for i := range c.procs {
			c.dismiss(i)
		}
		if s.check(); t.Failed() {
			t.Fatalf("seed %d: %s", seed, told(storm.Made))
		}
		harms := 0
		for h, n := range storm.Made {
			made[h] += n
			harms += n
		}
		if harms < leastHarms {
			invalid++
		}
		runs, refused = runs+len(s.orders), refused+c.said
	}
	t.Logf("%d trials from seed %d: %d runs and their children; %s; %d writes refused as stale; %d trials invalid", n, first, runs, told(made), refused, invalid)
	if invalid*4 > n {
		t.Error("too many trials are invalid")
	}
}
