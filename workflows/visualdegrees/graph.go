package visualdegrees

import (
	"errors"
	"time"

	"pawl"
	"pawl/ports/faces"
	"pawl/ports/fetch"
	"pawl/ports/imagesearch"
	"pawl/ports/kv"
	"pawl/ports/llm"
)

// Name of the workflow.
const Name = "visualdegrees"

// Agent connects people.
type Agent struct {
	Search imagesearch.Searcher
	Fetch  fetch.Fetcher
	Faces  faces.Recognizer
	Model  func() (llm.Model, error) // plans; nil: the built-in rules do

	// Budget is what a run may use where it was given nothing of its own; a meter that is not in it has its default.
	Budget pawl.Budget

	Mirror    kv.Store      // a copy for outside readers; nil: none
	MirrorFor time.Duration // how long it is kept; 0: 20 minutes
}

// Calls that a run may make where its budget does not say: what the origin's contract has, inside the seed's ranges (Q-000-13,
// R-000-70 to R-000-73).
const (
	DefaultSearch      = 15
	DefaultRecognition = 75
	DefaultModel       = 10
	DefaultRuntime     = 2 * time.Minute
)

// The most that the budget of a run can give it.
const (
	MaxSearch      = 500
	MaxRecognition = 5000
	MaxModel       = 500
	maxExpansions  = 5000
	maxRuntime     = 30 * time.Minute
)

// The ceilings of the graph are far above that: what still has them when a run begins was not given to it.
const (
	ungiven        = 1_000_000_000
	ungivenRuntime = 100 * 24 * time.Hour
)

// allowed is what a run may use of a meter where it was given nothing of its own.
func (a Agent) allowed(meter string) int64 {
	if n, ok := a.Budget[meter]; ok {
		return n
	}
	return map[string]int64{
		MeterSearch: DefaultSearch, MeterRecognition: DefaultRecognition, MeterModel: DefaultModel, pawl.MeterRuntime: DefaultRuntime.Milliseconds(),
	}[meter]
}

// Options of the graph.
func Options() pawl.Options {
	return pawl.Options{
		Version: "1", Runtime: ungivenRuntime, Positional: []string{"personA", "personB"},
		Budget: pawl.Budget{MeterSearch: ungiven, MeterRecognition: ungiven, MeterModel: ungiven, meterExpansion: maxExpansions},
	}
}

// Graph is the workflow: the states S0 to S7 and exactly the transitions that the seed has (R-000-09). Nodes that have spent a meter
// say so in the state; a meter that is spent outside of them, by a service that does not end in time for example, is claimed, and the state
// is then the one that the visit began with.
func Graph(a Agent) *pawl.Graph[Input, State, Output] {
	g := pawl.New[Input, State, Output](Name, Options())
	s0 := g.Node("S0", a.initialize)
	s1 := g.Node("S1", a.direct)
	s2 := g.Node("S2", a.discover)
	s3 := g.Node("S3", a.plan, pawl.NodeOptions{Costs: pawl.Budget{meterExpansion: 1}})
	s4 := g.Node("S4", a.verify)
	s5 := g.Node("S5", a.bridge)
	s6 := g.Succeed("S6")
	s7 := g.Fail("S7", pawl.End[State]{Error: notFound})

	g.Start(s0, begin)
	g.From(s0).Otherwise(s1)
	g.From(s1, s2, s3, s4, s5).OnError("out of budget", spent, s7)
	g.From(s1).When("direct edge", State.verified, s6).When("stopped", State.stopped, s7).Otherwise(s2)
	g.From(s2).When("target seen", State.verified, s6).When("stopped", State.stopped, s7).Otherwise(s3)
	g.From(s3).When("stopped", State.stopped, s7).Otherwise(s4)
	g.From(s4).
		When("edge verified", State.verified, s5).
		When("stopped", State.stopped, s7).
		When("another candidate", State.another, s3).
		Otherwise(s2)
	g.From(s5).
		When("target reached", State.verified, s6).
		When("expand again", State.goesOn, s2).
		Otherwise(s7)
	g.Finish(finish)
	g.Closing(closing)
	return g
}

func (s State) verified() bool { return s.Verified }
func (s State) stopped() bool  { return s.Stop != "" }
func (s State) goesOn() bool   { return s.Stop == "" }

func (s State) another() bool { return s.Another }

// spent claims a meter that was spent outside of a node's own calls, and says which (R-000-58, R-000-74).
func spent(s State, err error) (State, bool) {
	var b *pawl.BudgetError
	if !errors.As(err, &b) {
		return s, false
	}
	s.Stop = reasonOf(b)
	return s, true
}

func notFound(s State) error {
	return &pawl.Error{Code: s.Stop, Text: sentence(s)}
}
