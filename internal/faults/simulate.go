package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"pawl/store"
	"pawl/store/memory"
)

// Report is what came of one trial.
type Report struct {
	Seed     uint64
	Steps    int // in the run without faults
	Faults   int
	Deaths   int
	Invalid  string // why the trial says nothing; empty: it does
	Broken   []string
	Points   map[Point]int
	Stale    int // writes of lost epochs that were refused
	Told     string
	Answered int
}

// minFlight is how many steps must have been under way, over all workers, at one fault of a trial at least. Where things break
// only while nobody works the trial tells nothing: it is invalid, not passed.
const minFlight = 1

// Options of a simulation.
type Options struct {
	Size  int // nodes of a graph; 0: 30
	Plant Plant
	Store func() (s store.Store, cut func(on bool), err error) // for the trial with faults; nil: memory
}

// Simulate plays a random graph without faults and in memory, then with them, and checks what is left. In a
// bubble of testing/synctest hours pass at once. Deterministic simulation after FoundationDB (Zhou et al., SIGMOD 2021): the
// seed gives graph, faults and times; which goroutine goes first it does not give.
func Simulate(seed uint64, o Options) (r Report, err error) {
	r.Seed = seed
	if o.Size == 0 {
		o.Size = 30
	}
	if o.Store == nil {
		o.Store = inMemory
	}
	plan := RandomGraph(seed, o.Size)
	r.Told = plan.String()
	calm, err := simulated(plan, Options{Store: inMemory}, Calm{}, Calm{}, nil, nil)
	if err != nil {
		return r, fmt.Errorf("without faults: %w", err)
	}
	want, err := ResultOf(calm)
	if err != nil {
		return r, err
	}
	r.Steps = want.Path
	if broken := Check(calm, want); len(broken) > 0 {
		r.Broken = append(broken, "(without faults)")
		return r, nil
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	workers := NewChance(seed, 1+rng.IntN(3), weather(rng, want.Path))
	client := NewChance(seed+1, 2, Rates{Die: 40, Refuse: 40, Lose: 60, Read: 10})
	fork := rng.IntN(5) == 0
	t, err := simulated(plan, o, workers, client, rng, func(t *Trial) error {
		if plan.tight || t.Orders[0].loose() {
			want = nil
		}
		if r.Broken = Check(t, want); len(r.Broken) > 0 || !fork {
			return nil
		}
		return Forked(t, rng.IntN)
	})
	if err != nil {
		return r, err
	}
	switch {
	case len(r.Broken) > 0:
	case fork:
		r.Broken = Check(t, nil) // its effects are made again
	default:
		r.Broken = t.Seen.Broken() // by those who were let go last
	}
	r.Points, r.Stale, r.Answered = t.Seen.Points(), t.Seen.Stale(), len(t.acks.answers)
	var flight int
	r.Faults, r.Deaths, flight = t.Seen.Faults()
	switch {
	case r.Faults == 0:
		r.Invalid = "nothing broke"
	case flight < minFlight:
		r.Invalid = fmt.Sprintf("at most %d steps were under way at a fault, want %d", flight, minFlight)
	}
	return r, t.Store.Close()
}

// weather is how often what breaks: more often in short runs.
func weather(rng *rand.Rand, steps int) Rates {
	busy := 1000 / (6 + 4*steps)
	r := Rates{Die: 1 + rng.IntN(2*busy+1), Stall: rng.IntN(busy + 1)}
	if rng.IntN(2) == 0 {
		r.Refuse, r.Read = rng.IntN(60), rng.IntN(20)
	}
	if rng.IntN(2) == 0 {
		r.Lose = rng.IntN(60)
	}
	return r
}

func inMemory() (store.Store, func(bool), error) { return memory.New(), nil, nil }

// simulated plays a plan once. Without dice nothing breaks.
func simulated(plan *GraphPlan, o Options, workers, client Plan, rng *rand.Rand, after func(*Trial) error) (t *Trial, err error) {
	s, cut, err := o.Store() // in the bubble
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if o.Plant.Under != nil {
		s = o.Plant.Under(s)
	}
	t = &Trial{Store: s, Cut: cut, Seen: NewWitness(), Workers: workers, Client: client, Staff: 1, After: after, Plant: o.Plant}
	t.World = NewWorld(t.Seen)
	if t.Flows, err = plan.Workflows(t.World); err != nil {
		return nil, err
	}
	if rng != nil {
		t.Staff = 1 + rng.IntN(2)
		if rng.IntN(6) == 0 {
			t.Orders = []*Order{{Cancel: time.Duration(1 + rng.IntN(int(20*time.Second)))}}
		}
	}
	return t, t.Play()
}
