package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pawl"
)

var errOut = errors.New("out of paper") // a sentinel

func failing(err error) func(context.Context, box) (box, error) {
	return func(_ context.Context, s box) (box, error) { s.Text = "half done"; return s, err }
}

func TestErrorEdgesInOrderOnTheStateBefore(t *testing.T) {
	var asked []string
	claim := func(name string, takes bool) func(box, error) (box, bool) {
		return func(s box, err error) (box, bool) {
			asked = append(asked, name)
			if s.Text != "" || !errors.Is(err, errOut) {
				t.Errorf("%s was asked about state %+v and error %v", name, s, err)
			}
			s.Trail = append(s.Trail, name)
			return s, takes
		}
	}
	g := blank("g", pawl.Options{})
	work, mend, done := g.Node("work", failing(errOut)), g.Node("mend", keep), g.Succeed("DONE")
	g.Start(work, start)
	g.From(work).
		OnError("first", claim("first", false), done).
		OnError("second", claim("second", true), mend).AtMost(1).
		OnError("third", claim("third", true), done).
		Otherwise(done)
	g.From(mend).Otherwise(work)
	out, err := pawl.Execute(t.Context(), g, 0, pawl.Strict)
	// What a claim that refuses makes of the state is forgotten; a spent error edge is not asked.
	if got := strings.Join(out.Trail, " "); err != nil || got != "second third" {
		t.Errorf("state %s, %v", got, err)
	}
	if got := strings.Join(asked, " "); got != "first second first third" {
		t.Errorf("asked %s", got)
	}
}

func TestUnclaimedErrorFails(t *testing.T) {
	g := one(pawl.Options{}, failing(fmt.Errorf("printer: %w", errOut)))
	_, err := pawl.Execute(t.Context(), g, 0)
	var e *pawl.Error
	if !errors.As(err, &e) || e.Code != pawl.CodeInternal || e.Node != "work" || e.Text != "printer: out of paper" || !errors.Is(err, errOut) {
		t.Errorf("%#v", err)
	}
	g = one(pawl.Options{}, failing(&pawl.Error{Code: "own", Text: "x"}))
	if _, err := pawl.Execute(t.Context(), g, 0); codeOf(err) != "own" || pawl.Coded(err).Node != "work" {
		t.Errorf("%#v", err)
	}
}

// TestRetries also shows that nothing waits: an hour of backoff passes at once.
func TestRetries(t *testing.T) {
	hour := pawl.Retry{Max: 3, First: time.Hour, Factor: 4}
	for _, c := range []struct {
		name  string
		graph pawl.Retry
		node  pawl.Retry
		err   error
		tries int
	}{
		{"the node's own", pawl.Retry{}, hour, errOut, 4},
		{"the graph's default", hour, pawl.Retry{}, errOut, 4},
		{"the node's over the graph's", hour, pawl.Retry{Max: 1}, errOut, 2},
		{"none, against the graph's", hour, pawl.Retry{Max: -1}, errOut, 1},
		{"none", pawl.Retry{}, pawl.Retry{}, errOut, 1},
		{"permanent", hour, pawl.Retry{}, pawl.Permanent(errOut), 1},
		{"permanent inside", hour, pawl.Retry{}, fmt.Errorf("x: %w", pawl.Permanent(errOut)), 1},
		{"permanent in a join", hour, pawl.Retry{}, errors.Join(pawl.RetryAfter(errOut, time.Hour), pawl.Permanent(errOut)), 1},
		{"retry after", hour, pawl.Retry{}, pawl.RetryAfter(errOut, time.Hour), 4},
		{"invalid", hour, pawl.Retry{}, &pawl.Error{Code: pawl.CodeInvalid}, 1},
		{"forbidden, with a Retry-After", hour, pawl.Retry{}, pawl.RetryAfter(&pawl.Error{Code: pawl.CodeForbidden}, time.Second), 1},
		{"unavailable", hour, pawl.Retry{}, &pawl.Error{Code: pawl.CodeUnavailable}, 4},
		{"a spent budget", hour, pawl.Retry{}, &pawl.BudgetError{}, 1},
		{"tried already", hour, pawl.Retry{}, pawl.Tried(errOut), 1},
	} {
		tries := 0
		g := one(pawl.Options{Retry: c.graph}, func(_ context.Context, s box) (box, error) { tries++; return s, c.err }, pawl.NodeOptions{Retry: c.node})
		if _, err := pawl.Execute(t.Context(), g, 0); err == nil || tries != c.tries {
			t.Errorf("%s: %d tries, want %d; %v", c.name, tries, c.tries, err)
		}
	}
}

func TestARetrySucceeds(t *testing.T) {
	tries := 0
	g := one(pawl.Options{}, func(_ context.Context, s box) (box, error) {
		if tries++; tries < 3 {
			s.N = 99
			return s, errOut
		}
		s.N++
		return s, nil
	}, pawl.NodeOptions{Retry: pawl.Retry{Max: 5}})
	if out, err := pawl.Execute(t.Context(), g, 1); err != nil || out.N != 2 || tries != 3 {
		t.Error(out, err, tries)
	}
}

// TestStrictTriesBeginWithTheSameState: what a failed try did to a map is not seen by the next one, as in an engine.
func TestStrictTriesBeginWithTheSameState(t *testing.T) {
	type counts struct{ By map[string]int }
	g := pawl.New[int, counts, int]("g", pawl.Options{Version: "1", Retry: pawl.Retry{Max: 2}})
	n := g.Node("work", func(_ context.Context, s counts) (counts, error) {
		if s.By["a"]++; s.By["a"] != 1 {
			t.Error("a try sees what the one before it did")
		}
		return s, errOut
	})
	done := g.Succeed("DONE")
	g.Start(n, func(int) (counts, error) { return counts{By: map[string]int{"a": 0}}, nil })
	g.From(n).OnError("any", pawl.IsAny, done).Otherwise(done)
	g.Finish(func(s counts, _ pawl.Ending) (int, error) { return s.By["a"], nil })
	if out, err := pawl.Execute(t.Context(), g, 0, pawl.Strict); err != nil || out != 0 {
		t.Error(out, err)
	}
}

func TestPanics(t *testing.T) {
	boom := func() { panic("boom") }
	build := func(write func(g *graph, work, done place)) *graph {
		g, work, done := short("g", pawl.Options{Retry: pawl.Retry{Max: 5}})
		write(g, work, done)
		return g
	}
	tries := 0
	finish := pawl.New[int, box, box]("g", pawl.Options{Version: "1"})
	n := finish.Node("work", keep)
	finish.Start(n, start)
	finish.From(n).Otherwise(finish.Succeed("DONE"))
	finish.Finish(func(box, pawl.Ending) (box, error) { boom(); return box{}, nil })
	for name, g := range map[string]*graph{
		"node work": one(pawl.Options{Retry: pawl.Retry{Max: 5}}, func(_ context.Context, s box) (box, error) { tries++; boom(); return s, nil }),
		`call "x"`: one(pawl.Options{}, func(ctx context.Context, s box) (box, error) {
			_, err := pawl.Do(ctx, "x", func(context.Context) (int, error) { boom(); return 0, nil }, pawl.CallOptions{Retry: pawl.Retry{Max: 5}})
			return s, err
		}),
		`call "x[1]"`: one(pawl.Options{}, func(ctx context.Context, s box) (box, error) {
			_, err := pawl.Map(ctx, "x", []int{0, 1}, 2, func(_ context.Context, i int) (int, error) {
				if i == 1 {
					boom()
				}
				return 0, nil
			})
			return s, err
		}),
		"condition of node work": build(func(g *graph, work, done place) {
			g.From(work).When("x", func(box) bool { boom(); return false }, done).Otherwise(done)
		}),
		"claim of node bad": build(func(g *graph, work, done place) {
			bad := g.Node("bad", failing(pawl.Permanent(errOut)))
			g.From(work).Otherwise(bad)
			g.From(bad).OnError("x", func(s box, _ error) (box, bool) { boom(); return s, true }, done).Otherwise(done)
		}),
		"Finish": finish,
		"in Finish": build(func(g *graph, work, done place) {
			g.From(work).When("x", yes, g.Fail("BAD", pawl.End[box]{Error: func(box) error { boom(); return nil }})).Otherwise(done)
		}),
	} {
		_, err := pawl.Execute(t.Context(), g, 0)
		if codeOf(err) != pawl.CodeInternal || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "boom") || !strings.Contains(err.Error(), "_test.go:") {
			t.Errorf("%s: code %s, %v", name, codeOf(err), err)
		}
		if _, again := pawl.Retryable(err); again {
			t.Errorf("%s: another try could not mend it", name)
		}
	}
	if tries != 1 {
		t.Errorf("a node that panics was tried %d times", tries)
	}
	// Outside a run too, a panic in a goroutine of Map does not end the process.
	if _, err := pawl.Map(t.Context(), "x", []int{1}, 1, func(context.Context, int) (int, error) { boom(); return 0, nil }); codeOf(err) != pawl.CodeInternal {
		t.Error(err)
	}
}

// TestStrictNamesTheField: a number that is not finite and text that is not UTF-8 are told by their field (cases 4 and 21).
func TestStrictNamesTheField(t *testing.T) {
	type score struct {
		Items []struct{ Score float64 }
		Names map[string]string
	}
	for name, c := range map[string]struct {
		spoil func(*score)
		want  string
	}{
		"NaN":       {func(s *score) { s.Items[1].Score = math.NaN() }, "field .Items[1].Score: NaN is not a finite number"},
		"Inf":       {func(s *score) { s.Items[0].Score = math.Inf(-1) }, "field .Items[0].Score: -Inf is not a finite number"},
		"not UTF-8": {func(s *score) { s.Names["a"] = "x\xff" }, "field .Names.a: the text is not UTF-8"},
		"its key":   {func(s *score) { s.Names["\xff"] = "x" }, `field .Names: the key "\xff" is not UTF-8`},
		"NUL":       {func(s *score) { s.Names["a"] = "what's the \x00 weather" }, ""},
		"escapes":   {func(s *score) { s.Names["a"] = `\\u0000 \ufffd � \ud800` }, ""},
	} {
		g := pawl.New[int, score, int]("g", pawl.Options{Version: "1", Retry: pawl.Retry{Max: 3}})
		tries := 0
		n := g.Node("work", func(_ context.Context, s score) (score, error) { tries++; c.spoil(&s); return s, nil })
		g.Start(n, func(int) (score, error) {
			return score{Items: make([]struct{ Score float64 }, 2), Names: map[string]string{"b": "x"}}, nil
		})
		g.From(n).Otherwise(g.Succeed("DONE"))
		g.Finish(func(score, pawl.Ending) (int, error) { return 0, nil })
		_, err := pawl.Execute(t.Context(), g, 0, pawl.Strict)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || codeOf(err) != pawl.CodeInvalid || pawl.Coded(err).Node != "work") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if tries != 1 {
			t.Errorf("%s: %d tries; the next one would make the same", name, tries)
		}
	}
}
