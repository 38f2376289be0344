package pawl_test

import (
	"context"
	"errors"
	"time"

	"pawl"
)

type brainPlan struct{ MaxValidationRuns int }
type brainState struct {
	NeedsData, NeedsTools, JudgeBroken bool
	Confidence                         float64
	Attempts, MaxAttempts              int
}
type brainOutput struct {
	Success     bool
	ExecutionID string
	Status      string
	Steps       []string
	Seconds     float64
}
type brainAgent struct{}

func (brainAgent) node(ctx context.Context, s brainState) (brainState, error) { return s, nil }

func brainNeedsData(s brainState) bool   { return s.NeedsData }
func brainNeedsTools(s brainState) bool  { return s.NeedsTools }
func brainGood(s brainState) bool        { return s.Confidence >= 0.75 }
func brainJudgeBroken(s brainState) bool { return s.JudgeBroken }
func brainMayRetry(s brainState) bool    { return s.Attempts < s.MaxAttempts }

func brainGraph(a brainAgent) *pawl.Graph[brainPlan, brainState, brainOutput] {
	g := pawl.New[brainPlan, brainState, brainOutput]("brain", pawl.Options{Version: "1"})
	initialize := g.Node("initialize", a.node)
	query := g.Node("query_data_sources", a.node)
	tools := g.Node("execute_tools", a.node)
	build := g.Node("build_messages", a.node)
	call := g.Node("call_provider", a.node)
	validate := g.Node("validate_response", a.node)
	finalize := g.Node("finalize", a.node)
	completed := g.Succeed("completed")
	withErrors := g.Succeed("completed_with_errors")

	g.Start(initialize, func(p brainPlan) (brainState, error) { return brainState{MaxAttempts: p.MaxValidationRuns}, nil })
	g.From(initialize).When("data needed", brainNeedsData, query)
	g.From(initialize, query).When("tools needed", brainNeedsTools, tools).Otherwise(build)
	g.From(tools).Otherwise(build)
	g.From(build).Otherwise(call)
	g.From(call).Otherwise(validate)
	g.From(validate).
		When("good enough", brainGood, finalize).
		When("judge broken", brainJudgeBroken, finalize).
		When("try again", brainMayRetry, build).AtMost(4). // five attempts
		Otherwise(finalize)
	g.From(finalize).When("good enough", brainGood, completed).Otherwise(withErrors)
	g.Finish(func(s brainState, e pawl.Ending) (brainOutput, error) {
		return brainOutput{Success: true, ExecutionID: e.Run, Status: e.Terminal, Steps: e.Path(), Seconds: e.Duration.Seconds()}, nil
	})
	return g
}

type ncoInput struct{ Text string }
type ncoState struct {
	Messages            []string
	Retrieved           []string
	Status              string
	ImprovedSearchCount int
	Unanswered          bool
}
type ncoOutput struct{ Status string }

type ncoAgent struct {
	Turns int // answers at most; the graph is built with it
}

func (ncoAgent) expand(ctx context.Context, s ncoState) (ncoState, error)   { return s, nil }
func (ncoAgent) retrieve(ctx context.Context, s ncoState) (ncoState, error) { return s, nil }
func (ncoAgent) analyze(ctx context.Context, s ncoState) (ncoState, error)  { return s, nil }

func (ncoAgent) clarify(ctx context.Context, s ncoState) (ncoState, error) {
	if s.Status == "MATCH_FOUND" {
		return s, nil // R-003-30: passes through
	}
	reply, err := pawl.Ask[struct{ Text string }](ctx, "clarify", pawl.Question{Text: "?", For: 72 * time.Hour})
	if errors.Is(err, pawl.ErrDeadline) {
		s.Unanswered = true
		return s, nil
	}
	if err != nil {
		return s, err
	}
	return ncoState{Messages: append(s.Messages[:len(s.Messages):len(s.Messages)], reply.Text)}, nil // R-003-37: nothing else survives
}

func ncoIsMatch(s ncoState) bool                             { return s.Status == "MATCH_FOUND" }
func ncoWantsBetterSearch(s ncoState) bool                   { return s.Status == "IMPROVED_SEARCH" }
func ncoBegin(in ncoInput) (ncoState, error)                 { return ncoState{Messages: []string{in.Text}}, nil }
func ncoResult(s ncoState, _ pawl.Ending) (ncoOutput, error) { return ncoOutput{s.Status}, nil }

func ncoGraph(a ncoAgent) *pawl.Graph[ncoInput, ncoState, ncoOutput] {
	g := pawl.New[ncoInput, ncoState, ncoOutput]("nco", pawl.Options{Version: "1", Budget: pawl.Budget{"llm": 12}})

	expand := g.Node("expand", a.expand)
	retrieve := g.Node("retrieve", a.retrieve, pawl.NodeOptions{Retry: pawl.Retry{Max: 3, First: time.Second, Factor: 4}})
	analyze := g.Node("analyze", a.analyze)
	userInfo := g.Node("user_info", a.clarify)
	found := g.Succeed("MATCH_FOUND")
	unclear := g.Succeed("MORE_INFO")

	g.Start(expand, ncoBegin)
	g.From(expand).Otherwise(retrieve)
	g.From(retrieve).Otherwise(analyze)
	g.From(analyze).
		When("improved search", ncoWantsBetterSearch, retrieve).AtMostPerTurn(1).
		Otherwise(userInfo)
	g.From(userInfo).
		When("match found", ncoIsMatch, found).
		OnAnswer("clarified", expand).AtMost(a.Turns).
		Otherwise(unclear)
	g.Finish(ncoResult)
	return g
}

type qualifierInput struct{ Text string }
type qualifierContentType string

const (
	Generic    qualifierContentType = "GENERIC"
	Email      qualifierContentType = "EMAIL"
	Jira       qualifierContentType = "JIRA"
	Confluence qualifierContentType = "CONFLUENCE"
	Log        qualifierContentType = "LOG"
)

type qualifierState struct {
	Type      qualifierContentType
	Summary   *string
	Visual    int
	Detection struct{ Prompt, Answer, Err string } // what Koog kept in a strategy variable
	Chunks    []qualifierChunkIn
	Processed int
	Errors    []string
	Routing   string
	Metrics   struct{ Phase0, Phase1 time.Duration }
}
type qualifierOutput struct{ Routing string }
type qualifierChunkIn struct{ Text, MainNodeKey string }
type qualifierChunkState struct {
	In    qualifierChunkIn
	Calls int
}
type qualifierChunkOut struct{ ChunkID string }
type qualifierAgent struct {
	chunk *pawl.Graph[qualifierChunkIn, qualifierChunkState, qualifierChunkOut]
}

func (qualifierAgent) node(ctx context.Context, s qualifierState) (qualifierState, error) {
	return s, nil
}
func (qualifierAgent) vision(ctx context.Context, s qualifierState) (qualifierState, error) {
	t := pawl.Now(ctx)
	defer func() { s.Metrics.Phase0 = pawl.Now(ctx).Sub(t) }()
	return s, nil
}

func qualifierIs(t qualifierContentType) func(qualifierState) bool {
	return func(s qualifierState) bool { return s.Type == t }
}
func qualifierWantsVision2(s qualifierState) bool {
	return s.Summary != nil && s.Type != Generic && s.Visual > 0
}
func qualifierLiftUp(s qualifierState) bool { return s.Routing == "LIFT_UP" }

func qualifierGraph(a qualifierAgent) *pawl.Graph[qualifierInput, qualifierState, qualifierOutput] {
	g := pawl.New[qualifierInput, qualifierState, qualifierOutput]("qualifier", pawl.Options{Version: "1",
		Retry: pawl.Retry{Max: 20, First: 2 * time.Second, Factor: 2}}) // transient → requeued (S-004-08)
	initState := g.Node("nodeInitState", a.node)
	vision1 := g.Node("nodeVisionStage1", a.vision)
	save := g.Node("nodeStoreStateBeforeDetection", a.node)
	prepare := g.Node("nodePrepareContentTypePrompt", a.node)
	detect := g.Node("nodeDetectContentType", a.node)
	merge := g.Node("nodeMergeDetectionResult", a.node)
	vision2 := g.Node("nodeVisionStage2", a.node)
	email, jira, confluence := g.Node("nodeExtractEmail", a.node), g.Node("nodeExtractJira", a.node), g.Node("nodeExtractConfluence", a.node)
	logs, generic := g.Node("nodeExtractLog", a.node), g.Node("nodeExtractGeneric", a.node)
	base := g.Node("nodeCreateBaseNode", a.node)
	chunks := pawl.Each(g, "chunkLoop", a.chunk, pawl.Fan[qualifierState, qualifierChunkIn, qualifierChunkOut]{
		Items: func(s qualifierState) ([]qualifierChunkIn, error) { return s.Chunks, nil },
		Limit: 1, Collect: true,
		Join: func(s qualifierState, rs []pawl.Result[qualifierChunkOut]) (qualifierState, error) {
			for _, r := range rs {
				s.Processed++
				if r.Err != nil {
					s.Errors = append(s.Errors, r.Err.Error())
				}
			}
			return s, nil
		},
	})
	route := g.Node("nodeRoute", a.node)
	done, lift := g.Succeed("DONE"), g.Succeed("LIFT_UP")

	g.Start(initState, func(in qualifierInput) (qualifierState, error) { return qualifierState{Type: Generic}, nil })
	g.From(initState).Otherwise(vision1)
	g.From(vision1).Otherwise(save)
	g.From(save).Otherwise(prepare)
	g.From(prepare).Otherwise(detect)
	g.From(detect).Otherwise(merge)
	g.From(merge).When("type-specific vision", qualifierWantsVision2, vision2)
	g.From(merge, vision2).
		When("email", qualifierIs(Email), email).
		When("jira", qualifierIs(Jira), jira).
		When("confluence", qualifierIs(Confluence), confluence).
		When("log", qualifierIs(Log), logs).
		Otherwise(generic)
	g.From(email, jira, confluence, logs, generic).Otherwise(base)
	g.From(base).Otherwise(chunks)
	g.From(chunks).Otherwise(route)
	g.From(route).When("lift up", qualifierLiftUp, lift).Otherwise(done)
	g.Finish(func(s qualifierState, _ pawl.Ending) (qualifierOutput, error) { return qualifierOutput{s.Routing}, nil })
	return g
}

// Chunk: rounds of a model that is to call storeKnowledge; not called = advance.
func qualifierChunk() *pawl.Graph[qualifierChunkIn, qualifierChunkState, qualifierChunkOut] {
	g := pawl.New[qualifierChunkIn, qualifierChunkState, qualifierChunkOut]("qualifier.chunk", pawl.Options{Version: "1"})
	n := func(ctx context.Context, s qualifierChunkState) (qualifierChunkState, error) { return s, nil }
	model, store := g.Node("askModel", n), g.Node("storeKnowledge", n)
	stored := g.Succeed("STORED")
	g.Start(model, func(in qualifierChunkIn) (qualifierChunkState, error) { return qualifierChunkState{In: in}, nil })
	g.From(model).When("tool called", func(s qualifierChunkState) bool { return s.Calls > 0 }, store).Otherwise(stored)
	g.From(store).When("another round", func(s qualifierChunkState) bool { return s.Calls < 4 }, model).AtMost(4).Otherwise(stored)
	g.Finish(func(qualifierChunkState, pawl.Ending) (qualifierChunkOut, error) { return qualifierChunkOut{}, nil })
	return g
}
