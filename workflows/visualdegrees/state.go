package visualdegrees

import (
	"context"
	"slices"

	"pawl"
)

// The meters of a run. MeterModel is charged by the port of models.
const (
	MeterSearch      = "search"
	MeterRecognition = "recognition"
	MeterModel       = "llm"
	meterExpansion   = "expansion" // one for each choice of S3: no cycle goes round it
)

// Why a search ended without a path; a spent meter is budget:<meter>.
const (
	ReasonHops     = "hop_limit"
	ReasonFrontier = "frontier_exhausted"
	ReasonRuntime  = "runtime"
	reasonBudget   = "budget:"
)

// The two sides of a search.
const (
	fromA = 0
	fromB = 1
)

// State flows through the nodes. It holds all that the search knows; what photographs prove is read from them again.
type State struct {
	In       Input  `json:"in"`
	Started  int64  `json:"started"`  // milliseconds since 1970
	At       int64  `json:"at"`       // when the visit began that is under way
	TimeLeft int64  `json:"timeLeft"` // milliseconds, when the visit last asked
	Source   string `json:"source"`   // who searches, and who recognizes
	Caps     Used   `json:"caps"`
	Runtime  int64  `json:"runtime"` // milliseconds that the run may take
	Spent    Used   `json:"spent"`
	Searches int    `json:"searches"` // that were answered
	Broken   int    `json:"broken"`   // that were not
	Unseen   int    `json:"unseen"`   // photographs that no service could fetch or recognize

	Photos []Photo  `json:"photos,omitempty"`
	Asked  []string `json:"asked,omitempty"` // queries, each once

	Chosen   bool     `json:"chosen"` // whether a frontier was
	Side     int      `json:"side"`
	Frontier string   `json:"frontier"`         // who is expanded
	Hop      int      `json:"hop"`              // as the seed counts: edges from A, or B, to the frontier
	Known    [2][]Met `json:"known"`            // whom an edge was verified to, from either side
	Trying   string   `json:"trying,omitempty"` // who may be the next on the way
	Failed   []Pair   `json:"failed,omitempty"`

	Verified  bool       `json:"verified"`          // what the node tried
	Another   bool       `json:"another,omitempty"` // somebody else to go on to from the frontier, where this one was not verified (R-000-42)
	Stop      string     `json:"stop,omitempty"`
	Told      []Pair     `json:"told,omitempty"` // edges whose evidence was shown
	Path      []string   `json:"path,omitempty"` // the best chain so far, and the path in the end
	Decisions []Decision `json:"decisions,omitempty"`
	Mirrored  int64      `json:"mirrored,omitempty"` // when all keys of the mirror were written last

	// What the mirror has cost.
	MirrorTook int64 `json:"mirrorTook,omitempty"` // milliseconds of all copies
}

// Used is how much of what is scarce was used, or may be.
type Used struct {
	Search      int64 `json:"searchCallsUsed"`
	Recognition int64 `json:"rekognitionCallsUsed"`
	Model       int64 `json:"llmCallsUsed"`
}

func (u *Used) set(meter string, n int64) {
	switch meter {
	case MeterSearch:
		u.Search = n
	case MeterRecognition:
		u.Recognition = n
	case MeterModel:
		u.Model = n
	}
}

func (u Used) of(meter string) int64 {
	return map[string]int64{MeterSearch: u.Search, MeterRecognition: u.Recognition, MeterModel: u.Model}[meter]
}

// Met is somebody who can be expanded.
type Met struct {
	Person  string   `json:"person"`
	Queries int      `json:"queries,omitempty"` // of the discovery that were made
	Planned []string `json:"planned,omitempty"` // whom to go on to, chosen and not tried yet
	Tried   []string `json:"tried,omitempty"`
}

// Pair is two people; the first is the frontier.
type Pair struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Decision is one choice and its reason, for replay (R-000-83).
type Decision struct {
	State    string   `json:"state"`
	Frontier string   `json:"frontier,omitempty"`
	Side     string   `json:"side,omitempty"`
	Chosen   []string `json:"chosen,omitempty"`
	By       string   `json:"by"` // model, rules, names, or what happened
	Why      string   `json:"why,omitempty"`
}

// begin refuses bad questions: then there is no run, and nothing is spent (Q-000-16).
func begin(in Input) (State, error) {
	in, names, err := in.check()
	if err != nil {
		return State{}, err
	}
	s := State{In: in, Frontier: person(in.PersonA)}
	for side := range s.Known {
		s.Known[side] = []Met{{Person: s.root(side)}}
	}
	for _, n := range names {
		s.spelled("S0", n, "")
	}
	return s, nil
}

// clock notes the time of a visit, which stays what it was when the visit is made again.
func (s *State) clock(ctx context.Context) error {
	type clock struct{ Now, Left int64 }
	c, err := pawl.Do(ctx, "clock", func(ctx context.Context) (clock, error) {
		left, err := pawl.Remaining(ctx, pawl.MeterRuntime)
		return clock{pawl.Now(ctx).UnixMilli(), left}, err
	})
	s.At, s.TimeLeft = c.Now, c.Left
	return err
}

// root is the person from whom a side begins.
func (s *State) root(side int) string {
	if side == fromB {
		return person(s.In.PersonB)
	}
	return person(s.In.PersonA)
}

// target is the person to whom a side leads.
func (s *State) target(side int) string { return s.root(1 - side) }

// ties are what the run's photographs prove.
func (s *State) ties() *ties {
	t := tiesOf(s.Photos, s.In.Options.ConfidenceThreshold)
	t.names[person(s.In.PersonA)], t.names[person(s.In.PersonB)] = s.In.PersonA, s.In.PersonB
	return t
}

// name is how a person is shown.
func (s *State) name(t *ties, id string) string { return t.names[id] }

// shown is how a person is shown, without the rest of what is known.
func (s *State) shown(id string) string {
	if id == person(s.In.PersonB) {
		return s.In.PersonB
	}
	for _, p := range s.Photos {
		if name := p.name(id); name != "" {
			return name
		}
	}
	return ""
}

// connected reports whether what is known proves a path that is short enough.
func (s *State) connected(t *ties) bool {
	return t.path(s.root(fromA), s.root(fromB), s.In.Options.HopLimit) != nil
}

// met finds somebody who can be expanded.
func (s *State) met(side int, id string) *Met {
	for i := range s.Known[side] {
		if s.Known[side][i].Person == id {
			return &s.Known[side][i]
		}
	}
	return nil
}

func (s *State) failed(from, to string) bool { return slices.Contains(s.Failed, Pair{from, to}) }

func (s *State) photo(url string) int {
	return slices.IndexFunc(s.Photos, func(p Photo) bool { return p.ImageURL == url })
}

// decided records a decision.
func (s *State) decided(d Decision) {
	d.Side = sideName(s.Side)
	s.Decisions = append(s.Decisions, d)
}

func sideName(side int) string {
	if side == fromB {
		return "B"
	}
	return "A"
}

// reasonOf is why a search ends when a meter is spent.
func reasonOf(b *pawl.BudgetError) string {
	if b.Meter == pawl.MeterRuntime {
		return ReasonRuntime
	}
	return reasonBudget + b.Meter
}
