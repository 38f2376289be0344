package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pawl/internal/pgtest"
	"pawl/store"
	"pawl/store/memory"
	"pawl/store/sqlite"
)

// backend is a store to hold against the layers; another one is a line in backends.
type backend struct {
	name string
	slow int // by how much: of what is played very often it gets that part
	open func(t *testing.T) (s store.Store, cut func(on bool), err error)
}

// onEach runs a test on each of the stores that there are.
func onEach(t *testing.T, f func(t *testing.T, b backend)) {
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			if b.name == "postgres" {
				pgtest.URL(t) // without one the test is skipped, which cannot be done from inside a bubble
			}
			f(t, b)
		})
	}
}

func backends() []backend {
	return []backend{
		{"memory", 1, func(*testing.T) (store.Store, func(bool), error) { return memory.New(), nil, nil }},
		{"sqlite", 50, func(t *testing.T) (store.Store, func(bool), error) {
			name, d, err := Wired("sqlite")
			if err != nil {
				return nil, nil, err
			}
			path := filepath.Join(tempDir(t), "x.db")
			line := d.Lay(path, &Line{})
			s, err := sqlite.Open(context.Background(), path, sqlite.Options{Driver: name})
			return s, line.Cut, err
		}},
		{"postgres", 50, func(t *testing.T) (store.Store, func(bool), error) {
			return OpenPostgres(context.Background(), pgtest.URL(t))
		}},
	}
}

// tempDir is a folder of its own also in a bubble, in memory where there is such a disk: what a disk does to a store is another
// layer's, and waiting for one is most of the time that this takes.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "faults")
	if err != nil {
		dir, err = os.MkdirTemp("", "faults")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// play plays the scene on a fresh store.
func play(t *testing.T, b backend, p Plan, want *SceneResult, bug ...Plant) (out *SceneResult, broken []string) {
	t.Helper()
	bubble(t, func() {
		s, cut, err := b.open(t)
		if err == nil {
			sc := &Scene{Store: s, Cut: cut, Plan: p, Want: want}
			if len(bug) > 0 {
				sc.Plant = bug[0]
			}
			out, broken, err = sc.Play()
		}
		if err != nil {
			broken = append(broken, "the scene cannot be played: "+err.Error())
		}
		if s != nil {
			if err := s.Close(); err != nil {
				broken = append(broken, err.Error())
			}
		}
	})
	return out, broken
}

// TestFaultCrashMatrix dies at every crash point on every store, twice, early and late, and comes to the same end.
func TestFaultCrashMatrix(t *testing.T) {
	if n := len(Points()); n != 51 {
		t.Fatalf("%d crash points, want 17 operations in 3 positions", n)
	}
	onEach(t, func(t *testing.T, b backend) {
		t.Parallel()
		want, broken := play(t, b, &Passes{}, nil)
		if len(broken) > 0 {
			t.Fatal("without faults: ", strings.Join(broken, "\n"))
		}
		for _, o := range Operations {
			if want.Made[o] == 0 {
				t.Errorf("no %s is made without faults", o)
			}
			delete(want.Made, o)
		}
		for o := range want.Made {
			t.Errorf("the operation %q has no crash point", o)
		}
		made := &Passes{}
		again, broken := play(t, b, made, want)
		if len(broken) > 0 {
			t.Fatal("without faults, again: ", strings.Join(broken, "\n"))
		}
		m := &matrix{hit: map[Point]int{}}
		t.Run("points", func(t *testing.T) {
			for lane := range lanes {
				t.Run(fmt.Sprint(lane), func(t *testing.T) {
					t.Parallel()
					for i, p := range Points() {
						if i%lanes == lane {
							m.point(t, b, p, again, want)
						}
					}
				})
			}
		})
		for _, p := range Points() {
			if m.hit[p] == 0 {
				t.Errorf("nobody died at: %s", p)
			}
		}
		t.Logf("%d trials, %d deaths at the %d points, %d more with nothing under way at the death", m.trials, m.deaths, len(m.hit), m.invalid)
	})
}

const lanes = 4 // trials at once; in a bubble and on a server most of their time is waiting

// matrix is what came of the trials.
type matrix struct {
	mu                      sync.Mutex
	hit                     map[Point]int
	trials, deaths, invalid int
}

// point plays the scene a few times with a death at a point: where the operation is made first, where it is made last, and between. A
// trial in which nothing was under way at the death is none: another one dies at the next such operation.
func (m *matrix) point(t *testing.T, b backend, p Point, calm, want *SceneResult) {
	n, made := max(number("FAULTS_DEATHS", 2), 2), calm.Made[p.Operation]
	for i := range n {
		valid := false
		for again := 0; !valid && again < mostAgain; again++ {
			a := &Armed{Point: p, Skip: (i*(made-1)/(n-1) + again) % made}
			got, broken := play(t, b, a, want)
			if len(broken) > 0 {
				t.Errorf("%s, pass %d: %s", p, a.Skip, strings.Join(broken, "\n"))
			}
			if got == nil {
				return
			}
			valid = m.count(got)
		}
		if !valid {
			t.Errorf("%s, death %d: nothing was ever under way", p, i)
		}
	}
}

// mostAgain is how often a trial is played until something is under way at the death. Where an operation is made once, it is the same one:
// what else goes on meanwhile differs.
const mostAgain = 8

// count takes a trial in, and reports whether it is one.
func (m *matrix) count(got *SceneResult) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, _, flight := got.Trial.Seen.Faults(); flight < minFlight {
		m.invalid++
		return false
	}
	m.trials++
	for h, n := range got.Trial.Seen.Points() {
		m.hit[h] += n
		m.deaths += n
	}
	return true
}
