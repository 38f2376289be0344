package rules

import (
	"slices"
	"testing"
)

// Any name survives, and odd text does no harm.
func FuzzKinds(f *testing.F) {
	f.Add("a@1", "")
	f.Add("\xff\"\\", "x\x00y")
	f.Fuzz(func(t *testing.T, a, b string) {
		if got := SplitKinds(JoinKinds([]string{a, b})); !slices.Equal(got, []string{a, b}) {
			t.Fatalf("%q", got)
		}
		SplitKinds(a)
	})
}
