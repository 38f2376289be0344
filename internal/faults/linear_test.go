package faults

import (
	"testing"
	"time"

	"pawl/store"
)

// history plays one in virtual time.
func historyOf(t *testing.T, b backend, seed uint64, plant Plant) (broken string) {
	t.Helper()
	bubble(t, func() {
		s, _, err := b.open(t)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		seen := store.Store(s)
		if plant.Under != nil {
			seen = plant.Under(s)
		}
		if broken, err = History(seed, seen, 200); err != nil {
			t.Error(err)
		}
	})
	return broken
}

// TestFaultLinearisable checks histories of 200 commands by 8 clients at once, on each store.
func TestFaultLinearisable(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		t.Parallel()
		began, n := time.Now(), number("FAULTS_HISTORIES", 20)
		for seed := range uint64(n) {
			if broken := historyOf(t, b, seed+1, Plant{}); broken != "" {
				t.Fatalf("seed %d: %s", seed+1, broken)
			}
		}
		t.Logf("%d histories of 200 commands in %s", n, time.Since(began).Round(time.Millisecond))
	})
}

func linearCatches(t *testing.T, on backend, b Bug) (what string, trials int) {
	for seed := range uint64(100) {
		if broken := historyOf(t, on, seed+1, b.Plant); broken != "" {
			return broken, int(seed + 1)
		}
	}
	return "", 100
}
