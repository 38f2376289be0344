package brain

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pawl"
	"pawl/ports/llm"
)

// R-002-01, R-002-02, R-002-05: the seven nodes, where a run begins, and what has only one way on.
func TestR00201TheSevenNodes(t *testing.T) {
	w, err := Graph((&actor{}).agent()).Build()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range w.Program().Shape.Nodes {
		names = append(names, n.Name)
	}
	if got, want := names[:7], nodes("iqtbcvf"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, move := range []string{
		"initialize query_data_sources", "initialize execute_tools", "initialize build_messages", "query_data_sources execute_tools",
		"query_data_sources build_messages", "execute_tools build_messages", "build_messages call_provider", "call_provider validate_response",
		"validate_response finalize", "validate_response build_messages", "finalize completed", "finalize completed_with_errors",
	} {
		from, to, _ := strings.Cut(move, " ")
		if err := w.Move(from, to); err != nil {
			t.Errorf("%s: %v", move, err)
		}
	}
	for _, move := range []string{"initialize call_provider", "build_messages validate_response", "call_provider finalize", "validate_response query_data_sources",
		"validate_response execute_tools", "execute_tools query_data_sources", "finalize build_messages", "validate_response completed"} {
		from, to, _ := strings.Cut(move, " ")
		if err := w.Move(from, to); err == nil {
			t.Errorf("there is a move %s", move)
		}
	}
}

// R-002-02, R-002-03, R-002-04, R-002-05, R-002-22: which nodes a plan needs, in which order; a node that was skipped is not there.
func TestR00203WhatIsNeeded(t *testing.T) {
	off := false
	sources := []SourceSpec{{SourceType: SourceVectorDB}}
	tools := []ToolSpec{{Name: "desk_clock"}}
	for name, c := range map[string]struct {
		specs Specs
		path  string
	}{
		"nothing":           {Specs{}, "ibcvf"},
		"data":              {Specs{DataSources: sources}, "iqbcvf"},
		"tools, data apart": {Specs{Tools: tools}, "itbcvf"},
		"data and tools":    {Specs{DataSources: sources, Tools: tools}, "iqtbcvf"},
		"all switched off":  {Specs{DataSources: []SourceSpec{{SourceType: SourceVectorDB, Enabled: &off}}, Tools: []ToolSpec{{Name: "desk_clock", Enabled: &off}}}, "ibcvf"},
	} {
		t.Run(name, func(t *testing.T) {
			a := (&actor{}).agent()
			a.Knowledge, a.Tools = shelf{}, (&desk{}).box()
			r := play(t, a, Plan{OptimizedSpecs: &c.specs})
			same(t, r.Output.Metadata.ExecutionSteps, nodes(c.path))
			same(t, r.Path(), append(nodes(c.path), "completed"))
		})
	}
}

// R-002-06, R-002-07, R-002-08, R-002-34, R-002-35, Q-002-01, Q-002-04: from which judge score a reply passes, how many replies are
// asked for, and that the first one counts.
func TestR00206Attempts(t *testing.T) {
	for name, c := range map[string]struct {
		judge      []int
		most       int
		replies    int
		confidence float64
		status     string
	}{
		"a perfect judge": {[]int{100}, 0, 1, 0.85, "completed"},
		"just enough":     {[]int{86}, 0, 1, 0.752, "completed"},
		"just not enough": {[]int{85}, 0, 5, 0.745, "completed_with_errors"},
		"the second one":  {[]int{40, 90}, 0, 2, 0.78, "completed"},
		"the fifth one":   {[]int{0, 85, 85, 85, 86}, 0, 5, 0.752, "completed"},
		"never":           {[]int{0}, 0, 5, 0.15, "completed_with_errors"},
		"the last one counts, not the best (Q-002-05)": {[]int{85, 85, 85, 85, 10}, 0, 5, 0.22, "completed_with_errors"},
		"fewer by the plan":                            {[]int{85}, 2, 2, 0.745, "completed_with_errors"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &actor{judge: scores(c.judge...)}
			r := play(t, m.agent(), Plan{OptimizedSpecs: &Specs{Processing: ProcessingSpec{MaxValidationRuns: c.most}}})
			if len(m.asked) != c.replies || len(m.judged) != c.replies {
				t.Errorf("%d replies, %d judgements, want %d", len(m.asked), len(m.judged), c.replies)
			}
			o := r.Output
			if o.Confidence != c.confidence || o.Status != c.status || o.Metadata.ValidationAttempts != c.replies || !o.Success {
				t.Errorf("%+v", o)
			}
			same(t, o.Metadata.ExecutionSteps, nodes("i"+strings.Repeat("bcv", c.replies)+"f"))
		})
	}
}

// R-002-09: data sources and tools run once, however often the reply is asked for.
func TestR00209DataAndToolsRunOnce(t *testing.T) {
	m, tools, shelf := &actor{judge: scores(0)}, &desk{}, &counted{}
	a := m.agent()
	a.Knowledge, a.Tools = shelf, tools.box()
	r := play(t, a, Plan{OptimizedSpecs: &Specs{DataSources: []SourceSpec{{SourceType: SourceVectorDB}}, Tools: []ToolSpec{{Name: "desk_clock"}}}})
	same(t, r.Output.Metadata.ExecutionSteps, nodes("iqt"+strings.Repeat("bcv", 5)+"f"))
	if shelf.n != 1 || len(tools.called) != 1 {
		t.Errorf("%d looks, %d calls", shelf.n, len(tools.called))
	}
}

// R-002-10, Q-002-08: the plan comes out as it went in, whatever was left open in it.
func TestR00210ThePlanIsNotChanged(t *testing.T) {
	const raw = `{"question":"Why?","history":[{"role":"user","content":"Hello"}],"original_specs":{"provider":{"model":"big"}},` +
		`"optimized_specs":{"data_sources":[{"source_type":"conversation_history","enabled":false,"config":{"a":[1,{"b":null}]}}],"provider":{"model":"small"},` +
		`"processing":{"execution_strategy":"direct"},"agent_metadata":{"agent":"zoe","n":1.50}},"reasoning_applied":true,"confidence":0.9,` +
		`"reasoning_notes":"short","estimated_cost":0.01,"estimated_latency":2,"planned_at":"2026-11-28T10:00:00Z"}`
	var p Plan
	if err := json.Unmarshal([]byte(raw), &p); err != nil {
		t.Fatal(err)
	}
	r := play(t, (&actor{}).agent(), p)
	var out struct {
		Plan json.RawMessage `json:"execution_plan"`
	}
	if err := json.Unmarshal(r.Run.Output, &out); err != nil || string(out.Plan) != raw {
		t.Errorf("%s\n%s\n%v", out.Plan, raw, err)
	}
}

// R-002-11, R-002-12: what the state carries, by name, at every node.
func TestR00211WhatTheStateCarries(t *testing.T) {
	m := &actor{judge: scores(50, 90)}
	r := play(t, m.agent(), Plan{History: []Turn{{"user", "Hello"}}})
	var s map[string]any
	if err := json.Unmarshal(r.State, &s); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"execution_plan", "specs", "data_source_results", "tool_results", "messages", "llm_response", "final_content", "errors", "history",
		"confidence_score", "validation_attempts", "max_validation_runs", "is_validated", "validation_feedback"} {
		if _, ok := s[field]; !ok {
			t.Errorf("the state has no %s", field)
		}
	}
	if s["confidence_score"] != 0.78 || s["validation_attempts"] != 2.0 || s["max_validation_runs"] != 5.0 || s["is_validated"] != true {
		t.Errorf("%s", r.State)
	}
	if got := state(t, r); len(got.History) != 1 || got.Plan.Question != question {
		t.Errorf("%+v", got)
	}
}

// R-002-13: the entry point takes a plan; one without specs is a question, and planned by defaults.
func TestR00213ThePlanIsTheInput(t *testing.T) {
	a := (&actor{}).agent()
	a.Knowledge = shelf{}
	o, err := pawl.Execute(t.Context(), Graph(a), Plan{Question: question, ReasoningNotes: "be brief"}, pawl.Strict)
	if err != nil || !o.Success || o.Content != goodReply {
		t.Fatalf("%+v %v", o, err)
	}
	specs := o.ExecutionPlan.OptimizedSpecs
	if len(specs.DataSources) != 1 || specs.DataSources[0].SourceType != SourceVectorDB || !specs.Provider.Stream {
		t.Errorf("planned: %+v", specs)
	}
	w, _ := Graph(a).Build()
	same(t, w.Positional(), []string{"question"})
	for _, field := range []string{"original_specs", "optimized_specs", "reasoning_applied", "confidence", "reasoning_notes", "estimated_cost", "estimated_latency",
		"planned_at", "data_sources", "source_type", "filters", "limit", "enabled", "config", "provider_type", "model", "temperature", "max_tokens", "stream",
		"custom_params", "tools", "max_iterations", "timeout", "execution_strategy", "reasoning_threshold", "agent_metadata"} {
		if !strings.Contains(string(w.Input()), `"`+field+`"`) {
			t.Errorf("the input has no %s", field)
		}
	}
}

// R-002-20: the provider of the plan is resolved by name; one that nobody has refuses the plan before a run exists.
func TestR00220TheProviderIsResolved(t *testing.T) {
	var names []string
	m := (&actor{}).model()
	a := Agent{}
	a.Models = func(alias string) (llm.Model, error) {
		names = append(names, alias)
		if alias == "gemini/fast" || alias == AliasJudge {
			return m, nil
		}
		return nil, unset()
	}
	p := Plan{Question: question, OptimizedSpecs: &Specs{Provider: ProviderSpec{ProviderType: "gemini", Model: "fast"}}}
	if o, err := pawl.Execute(t.Context(), Graph(a), p); err != nil || !o.Success {
		t.Errorf("%+v %v", o, err)
	}
	same(t, slices.Compact(slices.Sorted(slices.Values(names))), []string{"gemini/fast", AliasJudge})
	for _, spec := range []ProviderSpec{{}, {ProviderType: "openai"}, {Model: "other"}, {ProviderType: "openai", Model: "fast"}} {
		p.OptimizedSpecs.Provider = spec
		_, err := pawl.Execute(t.Context(), Graph(a), p)
		if llm.Code(err) != llm.CodeUnset || strings.Contains(err.Error(), "optimized_specs.provider: ") != (spec.Alias() != "") {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}
