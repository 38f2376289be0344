package visualdegrees

import (
	"testing"

	"pawl/pawltest"
)

// TestRankDoesNotAge: a photograph of other people never makes a choice that was made one that nobody can follow. Here Q and P lead to F
// alike, and Q becomes known with others later.
func TestRankDoesNotAge(t *testing.T) {
	s := newScene(t, photo("ap", "A", "P"), photo("aq", "A", "Q"), photo("pf", "P", "F"), photo("qf", "Q", "F"), photo("qz", "Q", "Z"))
	s.finds(map[string]string{"A B": "ap aq pf", "F with celebrities": "qz qf"})
	r := s.plays(t, with(ask("A", "B"), oneSided), budget(100, 75, 10))
	same(t, "reason", r.Output.Reason, ReasonFrontier)
}

// TestR00077PathIsTheShownOne: the path that comes out is the one of the last path_update, and each of its edges was shown, whatever else
// proves as short a one (scene.holds).
func TestR00077PathIsTheShownOne(t *testing.T) {
	s := newScene(t, photo("ax", "A", "X"), photo("ay", "A", "Y"), photo("yz", "Y", "Z"), photo("xyb", "X", "Y", "B"))
	s.finds(map[string]string{"A B": "ax ay", "X B": "yz xyb"})
	r := s.plays(t, with(ask("A", "B"), oneSided), pawltest.Script{})
	same(t, "path", r.Output.Path, []string{"A", "X", "B"})
}
