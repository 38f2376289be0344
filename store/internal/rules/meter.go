package rules

import (
	"time"

	"pawl/store"
)

// Charge adds n to a counter. Giving back always works; a charge that would pass the cap, or run over, does not.
func Charge(c store.Counter, n int64) (store.Counter, bool) {
	sum := c.Used + n
	if n > 0 && (sum < c.Used || c.Cap >= 0 && sum > c.Cap) {
		return c, false
	}
	c.Used = sum
	return c, true
}

// Lower makes the cap the smaller of the two; a cap below zero is none.
func Lower(c store.Counter, limit int64) store.Counter {
	if limit >= 0 && (c.Cap < 0 || limit < c.Cap) {
		c.Cap = limit
	}
	return c
}

// Poll is how soon to ask again for a place that a holder may give back at any time.
const Poll = 100 * time.Millisecond

// Rate is one use of a rate: tat is the time at which the rate is unused again (GCRA). It answers the next tat and how long
// to wait; with a wait nothing was used.
func Rate(tat, now int64, s store.Slot) (int64, time.Duration) {
	if s.Every <= 0 {
		return tat, 0
	}
	tat = max(tat, now)
	if early := tat - now - int64(s.Every)*int64(max(s.Burst, 1)-1); early > 0 {
		return tat, time.Duration(early)
	}
	return tat + int64(s.Every), 0
}

// Full is how long to wait where all places are held, the first of them until the given time.
func Full(first, now int64) time.Duration {
	return min(Poll, max(time.Duration(first-now), time.Millisecond))
}
