package visualdegrees

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"pawl"
	"pawl/internal/text"
)

// Input is the question. Only the two people are needed.
type Input struct {
	SessionID string  `json:"sessionId,omitempty" doc:"who asks, for the keys of the mirror; default: the run's id"`
	PersonA   string  `json:"personA" doc:"a public figure"`
	PersonB   string  `json:"personB" doc:"another one"`
	Options   Choices `json:"options,omitzero" doc:"how to look"`
}

// Choices are how to look. What is zero has its default.
type Choices struct {
	HopLimit            int     `json:"hopLimit,omitempty" doc:"edges that a path may have, 1 to 12; default 6"`
	ConfidenceThreshold float64 `json:"confidenceThreshold,omitempty" doc:"percent from which a recognition counts, inclusive, above 0 to 100; default 80"`
	ImagesPerQuery      int     `json:"imagesPerQuery,omitempty" doc:"results of a search that are looked at, 1 to 5; default 5"`
	TwoSided            *bool   `json:"twoSided,omitempty" doc:"also search from personB's side; default true"`
	Reverify            bool    `json:"reverify,omitempty" doc:"search again for an edge that a photograph from the discovery proves already"`
	PlanWithoutModel    bool    `json:"planWithoutModel,omitempty" doc:"when the calls of the model are spent, go on by the built-in rules instead of ending the search"`
}

// The defaults: R-000-01, R-000-02, R-000-04. Twelve edges are the most that anybody has asked for.
const (
	DefaultHops      = 6
	DefaultThreshold = 80
	DefaultImages    = 5

	MaxHops    = 12
	maxName    = 90  // characters: two of them, and a word or two, are a query that every source takes
	maxWords   = 24  // of a name, for the same reason
	maxSession = 128 // characters
)

// whole are the choices with nothing left open.
func (c Choices) whole() Choices {
	c.HopLimit = cmp.Or(c.HopLimit, DefaultHops)
	c.ConfidenceThreshold = cmp.Or(c.ConfidenceThreshold, DefaultThreshold)
	c.ImagesPerQuery = cmp.Or(c.ImagesPerQuery, DefaultImages)
	if c.TwoSided == nil {
		yes := true
		c.TwoSided = &yes
	}
	return c
}

// check refuses what cannot be looked for before anything is spent: Q-000-16.
func (in Input) check() (_ Input, names [2]text.Name, err error) {
	a, errA := text.NameOf(in.PersonA)
	b, errB := text.NameOf(in.PersonB)
	names = [2]text.Name{a, b}
	in.PersonA, in.PersonB, in.Options = a.Shown, b.Shown, in.Options.whole()
	c := in.Options
	switch {
	case errA != nil:
		return in, names, invalid("personA: %v", errA)
	case errB != nil:
		return in, names, invalid("personB: %v", errB)
	case a.Kin(b) == text.Doubtful:
		return in, names, invalid("personA and personB may be one person: %q and %q", a.Shown, b.Shown)
	case a.Kin(b).Match():
		return in, names, invalid("personA and personB are the same person: %q", a.Shown)
	case len([]rune(a.Shown)) > maxName:
		return in, names, invalid("personA: more than %d characters", maxName)
	case len([]rune(b.Shown)) > maxName:
		return in, names, invalid("personB: more than %d characters", maxName)
	case words(a) > maxWords:
		return in, names, invalid("personA: more than %d words", maxWords)
	case words(b) > maxWords:
		return in, names, invalid("personB: more than %d words", maxWords)
	case len([]rune(in.SessionID)) > maxSession:
		return in, names, invalid("sessionId: more than %d characters", maxSession)
	case strings.ContainsFunc(in.SessionID, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return in, names, invalid("sessionId: control characters")
	case c.HopLimit < 1 || c.HopLimit > MaxHops:
		return in, names, invalid("options.hopLimit: want 1 to %d, not %d", MaxHops, c.HopLimit)
	case !(c.ConfidenceThreshold > 0 && c.ConfidenceThreshold <= 100):
		return in, names, invalid("options.confidenceThreshold: want above 0 to 100, not %v", c.ConfidenceThreshold)
	case c.ImagesPerQuery < 1 || c.ImagesPerQuery > DefaultImages:
		return in, names, invalid("options.imagesPerQuery: want 1 to %d, not %d", DefaultImages, c.ImagesPerQuery)
	}
	return in, names, nil
}

func invalid(format string, args ...any) error {
	return pawl.Permanent(&pawl.Error{Code: pawl.CodeInvalid, Op: "start", Text: fmt.Sprintf(format, args...)})
}

var errNobody = errors.New("nobody was found")
