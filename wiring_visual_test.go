package pawl_test

import (
	"context"
	"errors"
	"time"

	"pawl"
)

type visualOptions struct{ HopLimit, ConfidenceThreshold, ImagesPerQuery int }
type visualInput struct {
	SessionID, PersonA, PersonB string
	Options                     visualOptions
}
type visualState struct {
	In       visualInput
	Frontier string
	Hop      int
	Untried  []string
	Verified bool
	Stop     string // hop_limit, budget:<meter>, frontier_exhausted, runtime
}
type visualOutput struct {
	Path   []string
	Reason string
}
type visualAgent struct{}

// begin refuses bad names: the start is refused (invalid), no run exists, no budget is spent (Q-000-16).
func visualBegin(in visualInput) (visualState, error) {
	if in.PersonA == in.PersonB {
		return visualState{}, errors.New("personA and personB are the same")
	}
	return visualState{In: in, Frontier: in.PersonA}, nil
}

func (visualAgent) s0(ctx context.Context, s visualState) (visualState, error) {
	return s, pawl.Emit(ctx, "status", "Starting investigation…")
}
func (visualAgent) s1(ctx context.Context, s visualState) (visualState, error) { return s, nil }
func (visualAgent) s2(ctx context.Context, s visualState) (visualState, error) { return s, nil }
func (visualAgent) s3(ctx context.Context, s visualState) (visualState, error) { return s, nil }
func (visualAgent) s5(ctx context.Context, s visualState) (visualState, error) { return s, nil }

type visualSeen struct {
	Faces   []string
	Skipped string // an expected refusal is a result, not an error: it is recorded and replayed like one
}

func (visualAgent) s4(ctx context.Context, s visualState) (visualState, error) {
	for _, u := range []string{"https://a/1.jpg"} {
		got, err := pawl.Do(ctx, "recognise "+u, func(ctx context.Context) (visualSeen, error) {
			// fetch, check the size …
			if err := pawl.Charge(ctx, "recognition", 1); err != nil {
				return visualSeen{}, err
			}
			return visualSeen{}, nil
		}, pawl.CallOptions{Retry: pawl.Retry{Max: 1}})
		if err != nil {
			return s, err // budget → S7; park, cancel and lost lease cannot be swallowed even by `continue`
		}
		_ = got
	}
	return s, nil
}

func visualVerified(s visualState) bool     { return s.Verified }
func visualExhausted(s visualState) bool    { return s.Stop != "" }
func visualAnotherToTry(s visualState) bool { return len(s.Untried) > 0 }
func visualHopLeft(s visualState) bool      { return s.Hop < s.In.Options.HopLimit }

// spent claims a spent budget and says which.
func visualSpent(s visualState, err error) (visualState, bool) {
	var b *pawl.BudgetError
	if !errors.As(err, &b) {
		return s, false
	}
	s.Stop = "budget:" + b.Meter
	return s, true
}

// closing: exactly one terminal event, in the final commit (R-000-79). All of it is a pure function of the state.
func visualClosing(s visualState, e pawl.Ending) []pawl.Event {
	switch e.Terminal {
	case "S6":
		return []pawl.Event{{Type: "final", Data: s}}
	case "S7":
		return []pawl.Event{{Type: "no_path", Data: s.Stop}}
	}
	return []pawl.Event{{Type: "error", Data: map[string]string{"category": e.Err.Code}}}
}

func visualGraph(a visualAgent) *pawl.Graph[visualInput, visualState, visualOutput] {
	g := pawl.New[visualInput, visualState, visualOutput]("visualdegrees", pawl.Options{
		Version: "1", Retain: 30 * time.Minute, Runtime: 10 * time.Minute,
		Budget: pawl.Budget{"search": 500, "recognition": 5000, "llm": 500, "expansion": 500}, // ceilings; StartOptions.Budget lowers them
	})
	s0 := g.Node("S0", a.s0)
	s1 := g.Node("S1", a.s1)
	s2 := g.Node("S2", a.s2)
	s3 := g.Node("S3", a.s3, pawl.NodeOptions{Costs: pawl.Budget{"expansion": 1}}) // every cycle goes through S3
	s4 := g.Node("S4", a.s4)
	s5 := g.Node("S5", a.s5)
	s6 := g.Succeed("S6")
	s7 := g.Fail("S7", pawl.End[visualState]{Error: func(s visualState) error { return &pawl.Error{Code: s.Stop} }})

	g.Start(s0, visualBegin)
	g.From(s0).Otherwise(s1)
	g.From(s1, s2, s3, s4, s5).OnError("out of budget", visualSpent, s7)
	g.From(s1).When("direct edge", visualVerified, s6).Otherwise(s2)
	g.From(s2).When("target seen", visualVerified, s6).When("frontier exhausted", visualExhausted, s7).Otherwise(s3)
	g.From(s3).Otherwise(s4)
	g.From(s4).
		When("edge verified", visualVerified, s5).
		When("another candidate", visualAnotherToTry, s3).
		Otherwise(s2)
	g.From(s5).
		When("target reached", visualVerified, s6).
		When("expand again", visualHopLeft, s2).
		Otherwise(s7)
	g.Finish(func(s visualState, e pawl.Ending) (visualOutput, error) { return visualOutput{Reason: s.Stop}, nil })
	g.Closing(visualClosing)
	return g
}
