package pawl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pawl"
	"pawl/internal/host"
)

// variant is one graph, written with one difference at a time.
type variant struct {
	name, node, edge, outcome string
	version                   string
	max                       int
	budget                    int64
	retry                     pawl.Retry
	swap, otherWay, error     bool
	child                     string // the child's version
}

func (v variant) fingerprint(t *testing.T) string {
	t.Helper()
	set := func(s *string, def string) {
		if *s == "" {
			*s = def
		}
	}
	set(&v.name, "g")
	set(&v.node, "check")
	set(&v.edge, "again")
	set(&v.child, "1")
	child, cw, cd := short("child", pawl.Options{Version: v.child})
	child.From(cw).Otherwise(cd)
	g := blank(v.name, pawl.Options{Version: v.version, Budget: pawl.Budget{"llm": v.budget}, Runtime: time.Duration(v.budget), Retry: v.retry})
	work := pawl.Sub(g, "work", child, func(s box) (int, error) { return s.N, nil }, func(s, _ box) (box, error) { return s, nil },
		pawl.NodeOptions{Timeout: time.Duration(v.max)})
	check, done := g.Node(v.node, keep, pawl.NodeOptions{Costs: pawl.Budget{"llm": 1 + v.budget}}), g.Succeed("DONE", pawl.End[box]{Outcome: v.outcome})
	g.Start(work, start)
	g.From(work).Otherwise(check)
	if v.error {
		g.From(work).OnError("oops", pawl.IsAny, done)
	}
	e := g.From(check)
	if v.swap {
		e.When("second", no, done)
	}
	to := work
	if v.otherWay {
		to = check
	}
	e.When(v.edge, no, to).AtMost(1 + v.max)
	if !v.swap {
		e.When("second", no, done)
	}
	e.Otherwise(done)
	return mustBuild(t, g).Fingerprint()
}

func TestFingerprint(t *testing.T) {
	plain := variant{}.fingerprint(t)
	for name, v := range map[string]variant{
		"nothing": {}, "a bound and a timeout": {max: 5}, "a cap, a cost and a ceiling": {budget: 7}, "retries": {retry: pawl.Retry{Max: 3}},
		"the version": {version: "2"},
	} {
		if v.fingerprint(t) != plain {
			t.Errorf("%s changed the fingerprint", name)
		}
	}
	for name, v := range map[string]variant{
		"the graph's name": {name: "h"}, "a node's name": {node: "look"}, "an edge's name": {edge: "once more"}, "an outcome": {outcome: "fine"},
		"the order of edges": {swap: true}, "where an edge leads": {otherWay: true}, "an error edge": {error: true}, "a child's version": {child: "2"},
	} {
		if v.fingerprint(t) == plain {
			t.Errorf("%s did not change the fingerprint", name)
		}
	}
}

func TestFingerprintOfStates(t *testing.T) {
	print := func(g interface {
		Build() (*pawl.Workflow, error)
	}) string {
		return mustBuild(t, g).Fingerprint()
	}
	type (
		node struct {
			Name string
			Next []node
		}
		wider struct {
			Name string
			Next []wider
			More int
		}
	)
	same := print(stateful[struct {
		A int
		B string `json:"b"`
	}]())
	if same != print(stateful[struct {
		B string `json:"b"`
		A int
	}]()) {
		t.Error("the order of fields changed the fingerprint: JSON does not know it")
	}
	for name, other := range map[string]string{
		"a name": print(stateful[struct {
			A int
			B string
		}]()),
		"a type": print(stateful[struct {
			A int
			B []string `json:"b"`
		}]()),
		"a field more": print(stateful[struct {
			A, C int
			B    string `json:"b"`
		}]()),
		"a field less": print(stateful[struct{ A int }]()),
	} {
		if other == same {
			t.Errorf("%s did not change the fingerprint", name)
		}
	}
	if print(stateful[node]()) == print(stateful[wider]()) {
		t.Error("a field of a type that contains itself did not change the fingerprint")
	}
}

func TestMove(t *testing.T) {
	g, work, done := short("g", pawl.Options{})
	mend := g.Node("mend", keep)
	g.From(work).OnError("oops", pawl.IsAny, mend).Otherwise(done)
	g.From(mend).Otherwise(done)
	w := mustBuild(t, g)
	for _, m := range []struct {
		from, to string
		ok       bool
	}{
		{"work", "DONE", true}, {"work", "mend", true}, {"mend", "DONE", true},
		{"work", "FAILED", true}, {"mend", "CANCELLED", true},
		{"mend", "work", false}, {"work", "work", false}, {"DONE", "work", false}, {"DONE", "FAILED", false},
		{"FAILED", "work", false}, {"nowhere", "DONE", false}, {"nowhere", "FAILED", false}, {"work", "nowhere", false}, {"", "", false},
	} {
		if err := w.Move(m.from, m.to); (err == nil) != m.ok || err != nil && !errors.Is(err, pawl.ErrTransition) {
			t.Errorf("%s → %s: %v", m.from, m.to, err)
		}
	}
	if w.ID() != "g@1" || w.Name() != "g" || w.Version() != "1" || len(w.Children()) != 0 || len(w.Positional()) != 0 {
		t.Error(w.ID(), w.Name(), w.Version())
	}
}

// TestProgramEnds: what an engine asks of a program that has no state, or whose start refuses.
func TestProgramEnds(t *testing.T) {
	g := blank("g", pawl.Options{})
	n := g.Node("work", func(_ context.Context, s box) (box, error) { return s, nil })
	g.Start(n, func(n int) (box, error) {
		if n < 0 {
			return box{}, errors.New("below zero")
		}
		if n > 9 {
			panic("above nine")
		}
		return box{N: n}, nil
	})
	g.From(n).Otherwise(g.Succeed("DONE"))
	g.Closing(func(s box, e pawl.Ending) []pawl.Event { return []pawl.Event{{Type: "end", Data: s.N}} })
	p := mustBuild(t, g).Program()
	for in, code := range map[string]string{`-1`: pawl.CodeInvalid, `10`: pawl.CodeInternal, `"x"`: pawl.CodeInvalid, `{`: pawl.CodeInvalid} {
		if _, err := p.Begin([]byte(in)); pawl.Coded(err) == nil || pawl.Coded(err).Code != code {
			t.Errorf("%s: %v, want code %s", in, err, code)
		}
	}
	ev, err := p.Closing(nil, host.Ending{Terminal: pawl.TerminalFailed, Err: errors.New("x")})
	if err != nil || len(ev) != 1 || string(ev[0].Data) != "0" {
		t.Errorf("closing events without a state: %v, %v", ev, err)
	}
}
