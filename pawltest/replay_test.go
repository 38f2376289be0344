package pawltest

import (
	"context"
	"strings"
	"testing"

	"pawl"
	"pawl/engine"
)

// forgetful counts in a variable: what it does follows from no state.
func forgetful(n *int) *pawl.Graph[int, int, int] {
	g := pawl.New[int, int, int]("forgetful", pawl.Options{Version: "1"})
	a := g.Node("count", func(context.Context, int) (int, error) { *n++; return *n, nil })
	g.Start(a, func(n int) (int, error) { return n, nil })
	g.From(a).Otherwise(g.Succeed("END"))
	g.Finish(func(n int, _ pawl.Ending) (int, error) { return n, nil })
	return g
}

func TestReplayFindsANodeThatIsNoFunctionOfItsState(t *testing.T) {
	n, f := 0, &told{}
	Run(f, forgetful(&n), 0, Script{Replay: true, Engine: engine.Config{}})
	for _, want := range []string{"does not replay", `node "count"`, "recorded 1, replayed 2"} {
		if !strings.Contains(f.text, want) {
			t.Errorf("told %q, which does not say %q", f.text, want)
		}
	}
}

func TestReplayOfWhatPeopleAndFailuresDo(t *testing.T) {
	EveryCrash(t, desk(func(string) {}), "hi", Script{Replay: true, Answers: map[string][]any{"content": {"no", "yes"}}})
	Run(t, desk(func(string) {}), "hi", Script{Replay: true, Silence: []string{"content"}})
	Run(t, desk(func(string) {}), "hi", Script{Replay: true, Fail: map[string][]error{"draft": {context.DeadlineExceeded, nil}}, Answers: map[string][]any{"content": {"yes"}}})
	Run(t, desk(func(string) {}), "hi", Script{Replay: true, Fail: map[string][]error{"draft": {pawl.Permanent(context.Canceled)}}})
	Run(t, desk(func(string) {}), "hi", Script{Replay: true, Cancel: 1, Silence: []string{"content"}})
}
