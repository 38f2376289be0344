package nco

import "context"

// Status is what the analyzer decides: exactly one of the three.
type Status string

// The statuses. IMPROVED_SEARCH is internal: no run ends with it.
const (
	MatchFound     Status = "MATCH_FOUND"
	MoreInfo       Status = "MORE_INFO"
	ImprovedSearch Status = "IMPROVED_SEARCH"
)

// Who said a message.
const (
	RoleUser = "user"
	RoleAI   = "ai"
)

// Message is one thing that was said.
type Message struct {
	Role    string   `json:"role"`
	Text    string   `json:"text"`
	Choices []string `json:"choices"` // what a question offered
}

// Expander turns what was said into a search query, or says what is missing. It never picks codes or a status.
//
// It is called inside pawl.Do: an implementation may Charge and Hold, and it may not Do. What it returns is checked.
type Expander interface {
	Expand(ctx context.Context, turn Turn) (Expansion, error)
}

// Turn is all that an expander may know: nothing survives an answer but the messages.
type Turn struct {
	Messages []Message `json:"messages"`
}

// Expansion is what an expander found. A query without a question is clear, with one it is doubtful; no query means that
// the question has to be answered first.
type Expansion struct {
	Reasoning      string   `json:"reasoning"`
	DivisionReason string   `json:"division_reason"`
	TitleReason    string   `json:"title_reason"`
	Generated      bool     `json:"is_query_generated"`
	Query          string   `json:"query"` // "Division: … | Title: … | Description: …", any of them may be missing
	Note           string   `json:"note_for_analyzer"`
	Question       string   `json:"clarification_question"`
	Choices        []string `json:"clarification_choices"`
	Assumptions    []string `json:"assumptions"`
}

// Ambiguous says whether the expander has a question, hard (no query) or soft.
func (e Expansion) Ambiguous() bool { return !e.Generated || e.Question != "" }

// Analyzer judges what was retrieved and decides. It is called inside pawl.Do, as an Expander is, and what it returns is
// checked: codes that were not retrieved, statuses that are not allowed and numbers that are none do not get through.
type Analyzer interface {
	Analyze(ctx context.Context, c Case) (Verdict, error)
}

// Case is what an analyzer judges.
type Case struct {
	Messages   []Message   `json:"messages"`
	Expansion  Expansion   `json:"expander_analysis"`
	Queries    []string    `json:"queries"`    // what was searched in this turn, in order
	Candidates []Candidate `json:"candidates"` // untrusted evidence, best first
	Rivals     []Candidate `json:"rivals"`     // the best of other families, further down: they tell how clear the case is
	Allowed    []Status    `json:"allowed"`    // the statuses that it may choose
	Problem    string      `json:"problem"`    // why its verdict before was not accepted, empty at first
}

// Candidate is one retrieved entry and what spoke for it.
type Candidate struct {
	Code     string   `json:"id"`
	Distance float64  `json:"distance"` // 0 is nearest
	Metadata Metadata `json:"metadata"`
	Document string   `json:"document"` // its description, or the beginning of it
	Evidence Evidence `json:"evidence"`
}

// Metadata is what the catalogue says of an entry.
type Metadata struct {
	Title       string `json:"occupation_title"`
	Family      string `json:"family"`
	FamilyTitle string `json:"family_name"`
	Division    string `json:"division_name"`
	Residual    bool   `json:"residual"` // what is left over: never right when a specific one fits
}

// Evidence says why an entry was retrieved.
type Evidence struct {
	Query      string   `json:"query"` // the first query that found it
	Rank       int      `json:"rank"`  // there, from 1
	Words      []string `json:"words"` // of the query that the entry has
	Score      float64  `json:"score"` // 0 to 1, as the index gave it
	Coverage   float64  `json:"coverage"`
	Similarity float64  `json:"similarity"` // likeness of the query to the name
	Name       string   `json:"name"`       // its title, or the name of it that is most like the query
	Kinship    float64  `json:"kinship"`    // likeness of the query to the kin
	Kin        string   `json:"kin"`        // the name of its family that is most like the query
	Exact      bool     `json:"exact"`      // the query is its title
}

// Verdict is what an analyzer decided.
type Verdict struct {
	Reasoning  string   `json:"thought_process"`
	Status     Status   `json:"status"`
	Codes      []string `json:"selected_codes"`
	Titles     []string `json:"selected_titles"`
	Confidence float64  `json:"confidence_score"` // 0 to 10
	Directive  string   `json:"system_directive"` // the refined query of IMPROVED_SEARCH, else a technical summary
	Message    string   `json:"user_message"`     // the question of MORE_INFO, or what to tell; empty for IMPROVED_SEARCH
	Choices    []string `json:"choices"`          // at most five, offered with the question
	Why        []string `json:"explanation"`      // what a person wants to know of it, a sentence each
}
