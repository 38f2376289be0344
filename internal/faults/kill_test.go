package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pawl/store"
)

// TestFaultKilled kills the program, as it is started by people, with kill -9 at random times. Its runs are gone on with by the same
// program in a new process, and by one that has been there all the while.
func TestFaultKilled(t *testing.T) {
	t.Parallel()
	const each = 10 // kills on one store
	seed, kills := uint64(time.Now().UnixNano()), number("FAULTS_KILLS", 30)
	want := &calm{}
	for i, g := range grounds() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			rng, invalid := rand.New(rand.NewPCG(seed, uint64(i))), 0
			var sites []*site
			for done := 0; done < kills; done += each {
				s := newSite(t, g.address(t), want)
				sites = append(sites, s)
				for range each {
					if !killed(s, rng) {
						invalid++
					}
				}
			}
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var works sync.WaitGroup
			for i, s := range sites { // all of them at once, as each waits for leases of 10 s
				if i%2 == 1 {
					s.program()
					continue
				}
				works.Go(func() {
					if err := s.office.Work(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			for _, s := range sites {
				s.soon("all runs end", func() bool { return !s.live() })
				s.check()
			}
			stop()
			works.Wait()
			t.Logf("seed %d: %d kills, %d of them with nothing in hand", seed, kills, invalid)
			if invalid*2 > kills {
				t.Error("too many kills of idle workers")
			}
		})
	}
}

// killed starts runs and the program, and kills it; busy: it had something in hand.
func killed(s *site, rng *rand.Rand) (busy bool) {
	before := s.hands()
	s.start(2)
	p := s.program()
	s.soon("a run is held", func() bool { return s.fresh(before) || !s.live() })
	time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
	busy = s.fresh(before)
	p.kill()
	return busy
}

// hands are the runs that somebody has in hand, with the epoch that was given out for each.
func (s *site) hands() map[string]int64 {
	yes, out := true, map[string]int64{}
	rs, err := s.store.List(context.Background(), everything, store.Filter{Held: &yes}, store.Page{})
	if err != nil {
		s.Fatal(err)
	}
	for _, r := range rs {
		out[r.ID] = r.Epoch
	}
	return out
}

// fresh reports whether a run is in hand that was not, or was in another's. What the dead had in hand is so for a while longer.
func (s *site) fresh(before map[string]int64) bool {
	for id, epoch := range s.hands() {
		if before[id] != epoch {
			return true
		}
	}
	return false
}

func recovered(s *site) {
	s.start(6)
	p := s.worker(s.address)
	s.soon("a run is held", func() bool { return s.held() > 0 })
	p.kill()
	a, b := s.worker(s.address), s.worker(s.address)
	for range 4 {
		s.start(1)
		time.Sleep(20 * time.Millisecond) // so that some begin while the two go on
	}
	s.soon("all runs end", func() bool { return !s.live() })
	a.kill()
	b.kill()
	s.check()
}

// TestFaultTwoRecoverers: two processes go on with what a killed one has left, while a third starts more.
func TestFaultTwoRecoverers(t *testing.T) {
	t.Parallel()
	want := &calm{}
	onGrounds(t, func(t *testing.T, address func(*testing.T) string) {
		for i := range number("FAULTS_RECOVERIES", 10) {
			t.Run(fmt.Sprint(i), func(t *testing.T) { recovered(newSite(t, address(t), want)) }) // its connections end with it
		}
	})
}
