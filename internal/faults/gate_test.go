package faults

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestFaultMutationGate plants each bug and sees to it that the layer which is named for it catches it: a suite that finds
// nothing must be one that would have found something (mutation testing after DeMillo, Lipton, Sayward, 1978). They are planted
// over the store in memory, by hand over the one that FAULTS_GATE names.
func TestFaultMutationGate(t *testing.T) {
	over := cmp.Or(os.Getenv("FAULTS_GATE"), "memory")
	i := slices.IndexFunc(backends(), func(b backend) bool { return b.name == over })
	if i < 0 {
		t.Fatalf("there is no store %q", over)
	}
	for _, bug := range Bugs() {
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			caught := map[string]func(*testing.T, backend, Bug) (string, int){
				LayerSimulation: simulationCatches, LayerMatrix: matrixCatches, LayerPower: powerCatches, LayerLinear: linearCatches,
			}[bug.Layer]
			what, trials := caught(t, backends()[i], bug)
			if what == "" {
				t.Fatalf("the %s does not catch it in %d trials", bug.Layer, trials)
			}
			what, _, _ = strings.Cut(what, "\n")
			t.Logf("caught by the %s in trial %d: %.200s", bug.Layer, trials, what)
		})
	}
}

// simulationCatches plays seeds until one catches the bug. There are many: what goes first in a trial is chance, and a bug that needs a
// worker to be overtaken at the wrong moment may show in one seed of a hundred, and not each time.
func simulationCatches(t *testing.T, on backend, b Bug) (what string, trials int) {
	const most = 2000
	for seed := range uint64(most) {
		if r := simulate(t, seed+1, on, b.Plant); len(r.Broken) > 0 {
			return r.Broken[0], int(seed + 1)
		}
	}
	return "", most
}

func matrixCatches(t *testing.T, on backend, b Bug) (what string, trials int) {
	made := &Passes{}
	want, broken := play(t, on, made, nil)
	if len(broken) > 0 {
		t.Fatal(broken)
	}
	for i := range 10 {
		skip := (i + 5) % 10 * made.made[NodeCommit] / 10
		if _, broken := play(t, on, &Armed{Point: Point{NodeCommit, After}, Skip: skip}, want, b.Plant); len(broken) > 0 {
			return broken[0], i + 1
		}
	}
	return "", 10
}

func powerCatches(t *testing.T, _ backend, b Bug) (what string, trials int) {
	make := powerOf(t)
	for i := range 100 {
		p := make(uint64(10_000 + i))
		p.Bug, p.Normal = b.Plant.Under, b.Plant.Under == nil
		c, err := p.Play()
		if err != nil {
			t.Fatal(err)
		}
		if c.Lost > 0 {
			return "acknowledged writes are lost", i + 1
		}
	}
	return "", 100
}
