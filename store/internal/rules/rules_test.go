package rules

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pawl/store"
)

// Whatever is charged and given back in whatever order, no charge passes the cap.
func TestChargeNeverPassesCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := store.Counter{Cap: rapid.Int64Range(0, 100).Draw(t, "cap")}
		for _, n := range rapid.SliceOf(rapid.Int64()).Draw(t, "charges") {
			next, ok := Charge(c, n)
			if n > 0 && ok && (next.Used > next.Cap || next.Used < c.Used) {
				t.Fatalf("%d charged on %+v: %+v", n, c, next)
			}
			if !ok && next != c {
				t.Fatal("refused, but changed")
			}
			c = next
		}
	})
}

// Whoever waits as told gets through, and never more than the rate allows in any span of time.
func TestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := store.Slot{Every: time.Duration(rapid.Int64Range(1, 1000).Draw(t, "every")), Burst: rapid.IntRange(0, 5).Draw(t, "burst")}
		now, tat := int64(1_000_000), int64(0)
		var used []int64
		for range 50 {
			now += rapid.Int64Range(0, 300).Draw(t, "pause")
			next, wait := Rate(tat, now, s)
			if wait > 0 {
				now += int64(wait)
				if next, wait = Rate(tat, now, s); wait > 0 {
					t.Fatalf("has waited, and is told to wait %v more", wait)
				}
			}
			tat, used = next, append(used, now)
		}
		for i := range used {
			for j := i + 1; j < len(used); j++ {
				if n := int64(j - i + 1 - max(s.Burst, 1)); n > 0 && used[j]-used[i] < n*int64(s.Every) {
					t.Fatalf("%d uses in %d", j-i+1, used[j]-used[i])
				}
			}
		}
	})
}

func TestAfter(t *testing.T) {
	if After(5, 7) != 12 || After(5, -7) != -2 || After(5, math.MaxInt64) != math.MaxInt64 || Due(5, -1) != 0 || Due(5, 0) != 5 {
		t.Fatal("sums")
	}
	if !Time(0).IsZero() || Time(1).Location() != time.UTC {
		t.Fatal("times")
	}
}
