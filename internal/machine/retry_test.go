package machine_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pawl/internal/host"
	"pawl/internal/machine"
)

// TestBackoff: the wait before repetition n is First·Factor^(n-1), at most a fifth more or less, never above a day, the same
// for the same seed, and never shorter than a server has said.
func TestBackoff(t *testing.T) {
	const day = 24 * time.Hour
	rapid.Check(t, func(t *rapid.T) {
		r := host.Retry{First: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "first")), Factor: rapid.Float64Range(1, 10).Draw(t, "factor")}
		n := rapid.IntRange(1, 40).Draw(t, "n")
		seed := rapid.String().Draw(t, "seed")
		atLeast := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(2*day)).Draw(t, "at least"))
		exact := min(float64(r.First)*math.Pow(r.Factor, float64(n-1)), float64(day))
		got := machine.Backoff(r, n, seed, 0)
		if float64(got) < 0.8*exact-2 || float64(got) > 1.2*exact+2 || got > day {
			t.Fatalf("%s, not %s ± 20 %%", got, time.Duration(exact))
		}
		if again := machine.Backoff(r, n, seed, 0); again != got {
			t.Fatalf("%s, and then %s", got, again)
		}
		if said := machine.Backoff(r, n, seed, atLeast); said != max(got, min(atLeast, day)) {
			t.Fatalf("%s where the server said %s and we %s", said, atLeast, got)
		}
	})
}

// TestBackoffSpread: runs that failed together do not come back together, nor do the repetitions of one run lie alike in
// their windows.
func TestBackoffSpread(t *testing.T) {
	for name, seed := range map[string]func(int) (string, int){
		"runs":        func(i int) (string, int) { return fmt.Sprintf("0197b0de-7c1a-7000-8000-%012d/1", i), 1 },
		"visits":      func(i int) (string, int) { return fmt.Sprintf("0197b0de-7c1a-7000-8000-000000000001/%d", i), 1 },
		"repetitions": func(i int) (string, int) { return "0197b0de-7c1a-7000-8000-000000000001/1", i + 1 },
	} {
		var tenths [10]int
		for i := range 1000 {
			s, n := seed(i)
			d := machine.Backoff(host.Retry{First: time.Second, Factor: 1}, n, s, 0)
			tenths[min(int((d-800*time.Millisecond)/(40*time.Millisecond)), 9)]++
		}
		for i, n := range tenths {
			if n < 60 || n > 140 {
				t.Errorf("%s: %d of 1000 waits lie in tenth %d of the window: %v", name, n, i, tenths)
				break
			}
		}
	}
}

// TestBackoffOdd: what Build would refuse must not make a wait that never ends or comes at once for ever.
func TestBackoffOdd(t *testing.T) {
	for _, c := range []struct {
		r    host.Retry
		n    int
		want time.Duration
	}{
		{host.Retry{}, 5, 0},
		{host.Retry{First: -time.Second}, 2, 0},
		{host.Retry{First: 0, Factor: math.Inf(1)}, 9, 0},
		{host.Retry{First: time.Second, Factor: math.Inf(1)}, 3, 24 * time.Hour},
		{host.Retry{First: time.Second, Factor: math.NaN()}, 2, 2 * time.Second},
		{host.Retry{First: time.Second, Factor: 0.5}, 2, 2 * time.Second},
		{host.Retry{First: time.Second, Factor: 2}, math.MaxInt, 24 * time.Hour},
		{host.Retry{First: math.MaxInt64}, 1, 24 * time.Hour},
	} {
		if d := machine.Backoff(c.r, c.n, "s", 0); d < c.want*8/10 || d > min(c.want*12/10, 24*time.Hour) {
			t.Errorf("%+v, repetition %d: %s, want about %s", c.r, c.n, d, c.want)
		}
	}
}
