package faults

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// Calm is a plan in which nothing happens.
type Calm struct{}

// Write passes.
func (Calm) Write([]Operation) Act { return Pass }

// Read passes.
func (Calm) Read() Act { return Pass }

// Hit cannot be.
func (Calm) Hit(Point) {}

// Armed is a plan of one death: at a point, after so many passes by it.
type Armed struct {
	Point Point
	Skip  int

	mu   sync.Mutex
	done bool
}

// Write dies at the point.
func (a *Armed) Write(kinds []Operation) Act {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done || !slices.Contains(kinds, a.Point.Operation) {
		return Pass
	}
	if a.Skip > 0 {
		a.Skip--
		return Pass
	}
	switch a.Point.Position {
	case Before:
		return DieBefore
	case Inside:
		return DieInside
	}
	return DieAfter
}

// Read passes.
func (a *Armed) Read() Act { return Pass }

// Hit disarms it.
func (a *Armed) Hit(p Point) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = a.done || p == a.Point
}

// Done reports whether the process has died there.
func (a *Armed) Done() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done
}

// Chance is a plan of dice: rates are per thousand calls. All processes of a trial share one.
type Chance struct {
	Rates  Rates
	Deaths int // how many processes may die or stand still: a visit that is begun too often ends its run, as it should

	mu  sync.Mutex
	rng *rand.Rand
}

// Rates are per thousand calls.
type Rates struct{ Die, Stall, Refuse, Lose, Read int }

// NewChance makes dice.
func NewChance(seed uint64, deaths int, r Rates) *Chance {
	return &Chance{Rates: r, Deaths: deaths, rng: rand.New(rand.NewPCG(seed, 1))}
}

// Write throws.
func (c *Chance) Write(kinds []Operation) Act {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, r := c.rng.IntN(1000), c.Rates
	below := func(rate int) bool { n -= rate; return n < 0 }
	switch {
	case below(r.Die):
		if c.Deaths--; c.Deaths < 0 {
			return Pass
		}
		return []Act{DieBefore, DieInside, DieAfter}[c.rng.IntN(3)]
	case below(r.Stall):
		if c.Deaths--; c.Deaths < 0 {
			return Pass
		}
		return Stall
	case below(r.Refuse):
		return Refuse
	case below(r.Lose):
		if slices.Contains(kinds, ClaimRun) { // to a visit it is as if its worker had died
			if c.Deaths--; c.Deaths < 0 {
				return Pass
			}
		}
		return []Act{LoseBefore, LoseAfter}[c.rng.IntN(2)]
	}
	return Pass
}

// Read throws.
func (c *Chance) Read() Act {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rng.IntN(1000) < c.Rates.Read {
		return Refuse
	}
	return Pass
}

// Hit is what was thrown.
func (c *Chance) Hit(Point) {}
