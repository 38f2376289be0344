package nco

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pawl"
	"pawl/internal/text"
	"pawl/ports/index"
	"pawl/ports/llm"
)

// Limits of a run.
const (
	MaxText     = 10_000 // characters of a description or an answer
	perSearch   = 5      // entries that one search brings
	depth       = 40     // entries that it looks at to see which other families come near
	maxRivals   = 5
	maxEvidence = 10  // entries that a turn keeps, the earlier ones first
	maxDocument = 600 // characters of a description that are kept as evidence
)

// Agent codes descriptions of work to the entries of a catalogue.
type Agent struct {
	Catalog  *Catalog      // nil: Embedded
	Index    index.Index   // over Catalog.Documents()
	Expander Expander      // nil: NewWords
	Analyzer Analyzer      // nil: NewMargins
	Turns    int           // questions that a run may ask; 0: 5, below 0: none
	Patience time.Duration // how long a question stays open; 0: 72 hours

	// Model gives the model that reads and judges in place of the expander and the analyzer, which stay behind it for whenever it
	// cannot be used. An error is why there is none now; nil: there is none at all.
	Model   func() (llm.Model, error)
	lexicon *lexicon // what a model's reading is held to
}

// Input is a description of somebody's work, in their own words.
type Input struct {
	Text string `json:"text" jsonschema:"what the person does, in their own words: 1 to 10,000 characters"`
	Code string `json:"code,omitempty" jsonschema:"the code that a person has decided on: the run checks and records it, and judges nothing"`
}

// State flows through the nodes. The names are fixed by the requirements.
type State struct {
	Messages            []Message `json:"messages"` // append-only: all that survives an answer
	Expansion           Expansion `json:"expander_analysis"`
	Retrieved           Retrieved `json:"retrieved_results"`
	Verdict             Verdict   `json:"analyzer_response"`
	ImprovedSearch      bool      `json:"improved_search"`       // the analyzer asked for another search in this turn
	ImprovedSearchCount int       `json:"improved_search_count"` // how often it got one in this turn: at most 1
	Unanswered          bool      `json:"unanswered"`            // nobody answered in time
	Decided             string    `json:"decided"`               // the code that a person has decided on
}

// Retrieved is what the searches of a turn brought, the earlier first. A candidate carries its distance, its metadata and
// its document, so a merge cannot part them.
type Retrieved struct {
	Queries    []string    `json:"queries"`
	Candidates []Candidate `json:"candidates"`
	Rivals     []Candidate `json:"rivals"` // of other families, further down: no answer, but they tell how clear the case is
}

// Answer is what a person says to a question.
type Answer struct {
	Text string `json:"text" jsonschema:"one of the choices, its number, or other words"`
}

// Output is the end of a run.
type Output struct {
	Status      Status   `json:"status"` // MATCH_FOUND or MORE_INFO
	Codes       []Code   `json:"codes"`
	Confidence  float64  `json:"confidence"` // 0 to 10
	Assumptions []string `json:"assumptions"`
	Turns       int      `json:"turns"`    // answers that were given
	Question    string   `json:"question"` // of MORE_INFO: what would have to be known
	Choices     []string `json:"choices"`
	Reason      string   `json:"reason"`      // why it ended so
	Why         []string `json:"explanation"` // what was read in the words, what fits and what lost, a sentence each
	Decided     bool     `json:"decided"`     // by a person, and not by the evidence
	Catalog     string   `json:"catalog"`
	Fallbacks   []string `json:"fallbacks,omitempty"` // of the explanation, what says that the rules did a model's part, and why
}

// Code is one entry that was selected, and what spoke for it.
type Code struct {
	Code        string   `json:"code"`
	Title       string   `json:"title"`
	Family      string   `json:"family"`
	FamilyTitle string   `json:"familyTitle"`
	Evidence    Evidence `json:"evidence"`
}

// Graph is the workflow. Its version says what it was built with: a run never goes on with another catalogue, nor with a model
// where it was begun without.
func Graph(a Agent) *pawl.Graph[Input, State, Output] {
	a = a.settled()
	g := pawl.New[Input, State, Output]("nco", pawl.Options{
		Version:    a.version(),
		Budget:     pawl.Budget{llm.MeterCalls: 24},
		Positional: []string{"text"},
	})
	retry := pawl.NodeOptions{Retry: pawl.Retry{Max: 3, First: time.Second, Factor: 4}}

	expand := g.Node("expand", a.expand, retry)
	retrieve := g.Node("retrieve", a.retrieve, retry)
	analyze := g.Node("analyze", a.analyze, retry)
	userInfo := g.Node("user_info", a.userInfo)
	found := g.Succeed(string(MatchFound))
	unclear := g.Succeed(string(MoreInfo))

	g.Start(expand, a.begin)
	g.From(expand).Otherwise(retrieve)
	g.From(retrieve).Otherwise(analyze)
	g.From(analyze).
		When("improved search", wantsBetterSearch, retrieve).AtMostPerTurn(1).
		Otherwise(userInfo)
	g.From(userInfo).
		When("match found", isMatch, found).
		OnAnswer(clarified, expand).AtMost(max(1, a.Turns)).
		Otherwise(unclear)
	g.Finish(a.finish)
	return g
}

// clarified is the edge that an answer takes.
const clarified = "clarified"

// modeled marks the versions of runs that a model reads and judges for. Its number changes with what the model is told.
const modeled = "-llm1"

func (a Agent) version() string {
	mark := ""
	if a.Model != nil {
		mark = modeled
	}
	return "2" + mark + "+" + a.Catalog.Hash()[:8]
}

// Modeled says whether the runs of a version are read and judged by a model.
func Modeled(version string) bool { return strings.Contains(version, "-llm") }

func (a Agent) settled() Agent {
	if a.Catalog == nil {
		a.Catalog = Embedded()
	}
	if a.Expander == nil || a.Analyzer == nil || a.Model != nil && a.lexicon == nil {
		l := newLexicon(a.Catalog)
		if a.Expander == nil {
			a.Expander = Words{l}
		}
		if a.Analyzer == nil {
			a.Analyzer = Margins{l}
		}
		a.lexicon = l
	}
	if a.Turns == 0 {
		a.Turns = 5
	}
	if a.Patience == 0 {
		a.Patience = 72 * time.Hour
	}
	return a
}

func isMatch(s State) bool { return s.Verdict.Status == MatchFound }

// wantsBetterSearch is the policy (R-003-28); the bound on its edge is the proof.
func wantsBetterSearch(s State) bool {
	return s.Verdict.Status == ImprovedSearch && s.ImprovedSearchCount < 1
}

// begin refuses what cannot be a description, before anything is spent.
func (a Agent) begin(in Input) (State, error) {
	refuse := func(why string) (State, error) {
		return State{}, &pawl.Error{Code: pawl.CodeInvalid, Op: "start", Text: "text: " + why}
	}
	if why := unreadable(in.Text); why != "" {
		return refuse(why)
	}
	if text.Key(in.Text) == "" {
		return refuse("empty: say what the person does, in 1 to 10,000 characters")
	}
	s := State{Messages: []Message{{Role: RoleUser, Text: in.Text}}}
	if in.Code != "" {
		e, ok := a.decision(in.Code)
		if !ok {
			shown, _ := text.Clip(in.Code, 40)
			return State{}, &pawl.Error{Code: pawl.CodeInvalid, Op: "start", Text: fmt.Sprintf("code: %q is no entry of the catalogue %s", shown, a.Catalog.Name())}
		}
		s.Decided = e.Code
	}
	return s, nil
}

// decision is the entry that a person has named by its code.
func (a Agent) decision(said string) (Entry, bool) {
	code, ok := codeSaid(said)
	if !ok {
		return Entry{}, false
	}
	return a.Catalog.Entry(code)
}

// finish makes the output. The status is the terminal's, so IMPROVED_SEARCH never leaves.
func (a Agent) finish(s State, e pawl.Ending) (Output, error) {
	o := Output{
		Status: Status(e.Terminal), Codes: []Code{}, Confidence: s.Verdict.Confidence, Turns: turns(s),
		Assumptions: append([]string{}, s.Expansion.Assumptions...), Choices: []string{}, Catalog: a.Catalog.Name(),
		Why: explanation(s), Decided: s.Decided != "",
	}
	o.Fallbacks = fallbacks(o.Why)
	if o.Status == MatchFound {
		o.Reason = s.Verdict.Directive
		for _, code := range s.Verdict.Codes {
			i := slices.IndexFunc(s.Retrieved.Candidates, func(c Candidate) bool { return c.Code == code })
			c := s.Retrieved.Candidates[i] // the policy let only retrieved codes through
			o.Codes = append(o.Codes, Code{
				Code: c.Code, Title: c.Metadata.Title, Family: c.Metadata.Family, FamilyTitle: c.Metadata.FamilyTitle, Evidence: c.Evidence,
			})
		}
		return o, nil
	}
	o.Question, o.Choices = s.Verdict.Message, append(o.Choices, s.Verdict.Choices...)
	ended := "The turns are spent."
	switch {
	case a.Turns < 0:
		ended = "Nobody could be asked."
	case s.Unanswered:
		ended = "Nobody answered in time."
	}
	o.Reason = strings.TrimSpace(ended + " " + s.Verdict.Directive)
	return o, nil
}

// explanation is what a person wants to know of the end: how the words were read, and why it was decided so.
func explanation(s State) []string {
	why := []string{}
	note := s.Expansion.Note
	if fell, rest, ok := strings.Cut(note, "\n"); ok && isFallback(fell) {
		why, note = append(why, fell), rest
	}
	if note != "" {
		why = append(why, note)
	}
	return append(why, s.Verdict.Why...)
}

// turns are the answers that a run got.
func turns(s State) int {
	n := -1 // the first thing that the person said is no answer
	for _, m := range s.Messages {
		if m.Role == RoleUser {
			n++
		}
	}
	return n
}
