package faults

import (
	"flag"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
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
		s, _, err := b.open(t)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		began := time.Now()
		var sequences atomic.Int64
		rapid.Check(t, func(r *rapid.T) { Model(r, s, fmt.Sprint("w", sequences.Add(1))) })
		t.Logf("%d sequences in %s", sequences.Load(), time.Since(began).Round(time.Millisecond))
	})
}
