package faults

import (
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pawl/store"
)

// TestFaultModel plays sequences of calls on each store and on an oracle of its contract.
func TestFaultModel(t *testing.T) {
	n := number("FAULTS_SEQUENCES", 2000)
	for name, v := range map[string]string{"rapid.checks": strconv.Itoa(n), "rapid.steps": "10"} {
		was := flag.Lookup(name).Value.String()
		if err := flag.Set(name, v); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(name, was) })
	}
	onEach(t, func(t *testing.T, b backend) {
		began, sequences := time.Now(), 0
		var s store.Store
		defer func() {
			if s != nil {
				_ = s.Close()
			}
		}()
		rapid.Check(t, func(r *rapid.T) {
			if sequences%200 == 0 { // where many have played, each look goes through what they have left
				s = afresh(t, b, s)
			}
			sequences++
			Model(r, s, fmt.Sprint("w", sequences))
		})
		t.Logf("%d sequences in %s", sequences, time.Since(began).Round(time.Millisecond))
	})
}

// afresh opens a store in place of another one.
func afresh(t *testing.T, b backend, old store.Store) store.Store {
	t.Helper()
	if old != nil {
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s, _, err := b.open(t)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
