package brain

import (
	"context"
	"slices"
	"strings"

	"pawl"
	"pawl/internal/text"
	"pawl/ports/llm"
)

// EventToken is the type of the passing events that carry a reply while it is written, each an llm.Delta.
const EventToken = "token"

// EventValidated is the type of the event that says what became of a reply, a Validated.
const EventValidated = "validated"

// AliasJudge is the name of the model that judges replies. Where the configuration has none, the model that replied does.
const AliasJudge = "judge"

// Agent answers questions.
type Agent struct {
	// Models gives the model that is configured under a name, "" for the default one; llm.CodeUnset: there is none.
	Models    func(alias string) (llm.Model, error)
	Knowledge Source // of vector_db; nil: none
	Tools     Tools  // nil: none
	// Fallback is said in place of a reply that is not good enough; nil: Generic.
	Fallback func(question string) string
}

// State flows through the nodes. The names are fixed by the requirements.
type State struct {
	Plan  Plan  `json:"execution_plan"` // as it was given, or planned by defaults; never changed
	Specs Specs `json:"specs"`          // its specs with nothing left open

	History     []Turn  `json:"history"` // as much of it as the plan wants
	DataResults []Piece `json:"data_source_results"`
	ToolResults []Piece `json:"tool_results"`
	Prompt      Prompt  `json:"messages"`

	Reply      string `json:"llm_response"`
	Finish     string `json:"finish_reason"`
	Unanswered string `json:"provider_error"` // why there is no reply in this attempt
	Spent      bool   `json:"budget_spent"`   // there can be no further one

	Confidence  float64    `json:"confidence_score"`
	Attempts    int        `json:"validation_attempts"`
	MaxAttempts int        `json:"max_validation_runs"`
	Validated   bool       `json:"is_validated"`
	Feedback    string     `json:"validation_feedback"` // of the last reply that was scored
	Previous    string     `json:"previous_response"`   // that reply, cut
	Judgement   *Judgement `json:"judgement"`
	JudgeBroken bool       `json:"judge_broken"`

	Content string   `json:"final_content"`
	Errors  []string `json:"errors"`
	Failure *Failure `json:"failure"` // why the run failed
}

// Failure is an error that nobody expected.
type Failure struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Prompt is what a model is sent.
type Prompt struct {
	System   string `json:"system"`
	Messages []Turn `json:"messages"`
}

// Output is the end of a run, and its names those of the requirements.
type Output struct {
	Success       bool     `json:"success"`
	Content       string   `json:"content"`
	Confidence    float64  `json:"confidence"`
	ExecutionID   string   `json:"execution_id"`
	Status        string   `json:"status"` // completed, completed_with_errors or failed
	Metadata      Metadata `json:"metadata"`
	ExecutionPlan Plan     `json:"execution_plan"`
}

// Metadata says how an answer came about.
type Metadata struct {
	ExecutionSteps     []string `json:"execution_steps"`
	ConfidenceScore    float64  `json:"confidence_score"`
	ValidationAttempts int      `json:"validation_attempts"`
	Errors             []string `json:"errors"`
	DurationSeconds    float64  `json:"duration_seconds"`

	IsValidated        bool     `json:"is_validated"`
	ValidationFeedback string   `json:"validation_feedback,omitempty"`
	LowConfidence      bool     `json:"low_confidence,omitempty"` // the content is a fallback, and these are what it stands for:
	OriginalConfidence float64  `json:"original_confidence,omitempty"`
	OriginalResponse   string   `json:"original_response,omitempty"`
	Error              *Failure `json:"error,omitempty"` // of a run that failed
}

// Name of the workflow.
const Name = "brain"

// Options of the graph: what a run may spend at most, and what plain text fills.
func Options() pawl.Options {
	return pawl.Options{Version: "1", Budget: pawl.Budget{llm.MeterCalls: 120}, Positional: []string{"question"}}
}

// Nodes are the handles of the nodes and terminals in a graph. Who wants another step adds a node of their own and writes the edges
// so that they lead through it.
type Nodes struct {
	Initialize, QueryDataSources, ExecuteTools, BuildMessages, CallProvider, ValidateResponse, Finalize pawl.Node[State]
	Completed, CompletedWithErrors, Failed                                                              pawl.Node[State]
}

// Nodes adds the nodes to a graph, with its start and its end. What fails for a reason that nobody expected leads to Failed, so that
// such a run has an output too.
func (a Agent) Nodes(g *pawl.Graph[Plan, State, Output]) Nodes {
	if a.Fallback == nil {
		a.Fallback = Generic
	}
	n := Nodes{
		Initialize:          g.Node("initialize", a.initialize),
		QueryDataSources:    g.Node("query_data_sources", a.queryDataSources),
		ExecuteTools:        g.Node("execute_tools", a.executeTools),
		BuildMessages:       g.Node("build_messages", a.buildMessages),
		CallProvider:        g.Node("call_provider", a.callProvider),
		ValidateResponse:    g.Node("validate_response", a.validateResponse),
		Finalize:            g.Node("finalize", a.finalize),
		Completed:           g.Succeed("completed"),
		CompletedWithErrors: g.Succeed("completed_with_errors"),
		Failed:              g.Fail("failed", pawl.End[State]{Error: failure}),
	}
	g.Start(n.Initialize, a.begin)
	g.From(n.Initialize, n.QueryDataSources, n.ExecuteTools, n.BuildMessages, n.CallProvider, n.ValidateResponse, n.Finalize).
		OnError("failed", fails, n.Failed)
	g.Finish(finish)
	return n
}

// Graph is the workflow. The condition of "try again" is the policy, its bound the proof that no run asks for a sixth reply.
func Graph(a Agent) *pawl.Graph[Plan, State, Output] {
	g := pawl.New[Plan, State, Output](Name, Options())
	n := a.Nodes(g)
	g.From(n.Initialize).When("data needed", State.NeedsData, n.QueryDataSources)
	g.From(n.Initialize, n.QueryDataSources).When("tools needed", State.NeedsTools, n.ExecuteTools).Otherwise(n.BuildMessages)
	g.From(n.ExecuteTools).Otherwise(n.BuildMessages)
	g.From(n.BuildMessages).Otherwise(n.CallProvider)
	g.From(n.CallProvider).Otherwise(n.ValidateResponse)
	g.From(n.ValidateResponse).
		When("good enough", State.Good, n.Finalize).
		When("judge broken", State.Unjudged, n.Finalize).
		When("try again", State.MayRetry, n.BuildMessages).AtMost(MaxAttempts - 1).
		Otherwise(n.Finalize)
	g.From(n.Finalize).When("good enough", State.Good, n.Completed).Otherwise(n.CompletedWithErrors)
	return g
}

// NeedsData says whether the plan has a data source that is not switched off.
func (s State) NeedsData() bool {
	return slices.ContainsFunc(s.Specs.DataSources, func(d SourceSpec) bool { return enabled(d.Enabled) })
}

// NeedsTools says whether the plan has a tool that is not switched off.
func (s State) NeedsTools() bool {
	return slices.ContainsFunc(s.Specs.Tools, func(t ToolSpec) bool { return enabled(t.Enabled) })
}

// Good says whether the last reply is good enough.
func (s State) Good() bool { return Passes(s.Confidence) }

// Unjudged says that the last reply passed the rules and that nobody could judge it: another reply would not be judged either.
func (s State) Unjudged() bool { return s.JudgeBroken }

// MayRetry says whether another reply may be asked for.
func (s State) MayRetry() bool { return s.Attempts < s.MaxAttempts && !s.Spent }

// fails folds what nobody expected into the state, so that a run that failed has its output too.
func fails(s State, err error) (State, bool) {
	e := pawl.Coded(err)
	text, _, _ := strings.Cut(e.Error(), "\ngoroutine ") // the stack is in the step log
	s.Failure = &Failure{e.Code, text}
	return s, true
}

func failure(s State) error { return &pawl.Error{Code: s.Failure.Code, Text: s.Failure.Text} }

// begin takes the plan, or refuses it before anything is spent: one that cannot be carried out, or whose model nobody has.
func (a Agent) begin(p Plan) (State, error) {
	if err := p.check(); err != nil {
		return State{}, err
	}
	p = p.planned(a.Knowledge != nil)
	alias := p.OptimizedSpecs.Provider.Alias()
	if _, err := a.Models(alias); err != nil {
		if alias != "" {
			err = &pawl.Error{Code: pawl.Coded(err).Code, Op: "start", Text: "optimized_specs.provider: " + err.Error()}
		}
		return State{}, err
	}
	return State{Plan: p, Errors: []string{}}, nil
}

// initialize settles what the plan leaves open.
func (a Agent) initialize(_ context.Context, s State) (State, error) {
	s.Specs = s.Plan.OptimizedSpecs.settled(s.Plan.Question)
	s.MaxAttempts = s.Specs.Processing.MaxValidationRuns
	return s, nil
}

// finish makes the output.
func finish(s State, e pawl.Ending) (Output, error) {
	success := e.Terminal != "failed"
	m := Metadata{
		ExecutionSteps: e.Path(), ConfidenceScore: s.Confidence, ValidationAttempts: s.Attempts, Errors: append([]string{}, s.Errors...),
		DurationSeconds: e.Duration.Seconds(), IsValidated: s.Validated, ValidationFeedback: s.Feedback, Error: s.Failure,
	}
	if success && !s.Good() && !s.JudgeBroken {
		m.LowConfidence, m.OriginalConfidence, m.OriginalResponse = true, s.Confidence, s.Reply
	}
	return Output{
		Success: success, Content: s.Content, Confidence: s.Confidence, ExecutionID: e.Run, Status: e.Terminal,
		Metadata: m, ExecutionPlan: s.Plan,
	}, nil
}

func clipped(s string, n int) string {
	s, _ = text.Clip(s, n)
	return s
}
