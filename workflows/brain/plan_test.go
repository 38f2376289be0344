package brain

import (
	"encoding/json"
	"strings"
	"testing"

	"pawl"
)

// R-002-13: a plan that cannot be carried out is refused before anything is spent, and every field that is wrong is named.
func TestR00213BadPlansAreRefused(t *testing.T) {
	for plan, says := range map[string][]string{
		`{"question":" "}`:        {"question: empty"},
		`{"question":"a\u0000b"}`: {"question: not valid text"},
		`{"question":"` + strings.Repeat("x", maxQuestion+1) + `"}`:                                                    {"question: longer than"},
		`{"question":"q","history":[{"role":"system","content":"x"}]}`:                                                 {`history[0].role: user or assistant, not "system"`},
		`{"question":"q","history":[{"role":"user","content":""}]}`:                                                    {"history[0].content: empty"},
		`{"question":"q","confidence":1.5}`:                                                                            {"confidence: 1.5 is not from 0 to 1"},
		`{"question":"q","planned_at":"yesterday"}`:                                                                    {`planned_at: "yesterday"`},
		`{"question":"q","estimated_cost":-1,"estimated_latency":-1}`:                                                  {"estimated_cost: below", "estimated_latency: below"},
		`{"question":"q","optimized_specs":{"data_sources":[{"source_type":"vector_db"},{"source_type":"web"}]}}`:      {`optimized_specs.data_sources[1].source_type: vector_db or conversation_history, not "web"`},
		`{"question":"q","optimized_specs":{"data_sources":[{"source_type":"vector_db","limit":-1}]}}`:                 {"optimized_specs.data_sources[0].limit: -1"},
		`{"question":"q","optimized_specs":{"data_sources":[{"source_type":"vector_db","filters":{"author":"x"}}]}}`:   {"optimized_specs.data_sources[0].filters.author: not known"},
		`{"question":"q","optimized_specs":{"provider":{"temperature":3,"max_tokens":-5}}}`:                            {"provider.temperature: not from 0 to 2", "provider.max_tokens: -5"},
		`{"question":"q","optimized_specs":{"tools":[{"name":" "}]}}`:                                                  {"optimized_specs.tools[0].name: empty"},
		`{"question":"q","optimized_specs":{"processing":{"timeout":-1,"max_validation_runs":6,"max_iterations":-1}}}`: {"processing.timeout: -1", "processing.max_validation_runs: 6 is not from 1 to 5", "processing.max_iterations"},
		`{"question":"q","optimized_specs":{"processing":{"execution_strategy":"magic","reasoning_threshold":2}}}`:     {`processing.execution_strategy: direct, reasoned or adaptive, not "magic"`, "processing.reasoning_threshold"},
		`{"question":"q","optimized_specs":{"agent_metadata":{"system_prompt":5}}}`:                                    {"agent_metadata.system_prompt: no text"},
	} {
		var p Plan
		if err := json.Unmarshal([]byte(plan), &p); err != nil {
			t.Fatal(plan, err)
		}
		m := &actor{}
		_, err := pawl.Execute(t.Context(), Graph(m.agent()), p)
		if err == nil || pawl.Coded(err).Code != pawl.CodeInvalid || len(m.asked) > 0 {
			t.Errorf("%.100s: %v", plan, err)
			continue
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%.100s: %q is not in: %v", plan, s, err)
			}
		}
	}
}

// S-002-08: what a plan leaves open is settled by the defaults, and what it says stays.
func TestS00208Defaults(t *testing.T) {
	half, off := 0.5, false
	s := Specs{DataSources: []SourceSpec{{SourceType: SourceVectorDB}, {SourceType: SourceHistory}, {SourceType: SourceVectorDB, Query: "x", Limit: 9, Enabled: &off}}}.settled("q")
	d := s.DataSources
	if d[0].Limit != 5 || d[0].Query != "q" || d[1].Limit != 10 || d[2].Limit != 9 || d[2].Query != "x" || enabled(d[2].Enabled) || !enabled(d[0].Enabled) {
		t.Errorf("%+v", d)
	}
	if *s.Provider.Temperature != 0.7 || s.Provider.MaxTokens != 2000 || s.Provider.Stream || s.Processing.timeout().Seconds() != 30 || s.Processing.MaxValidationRuns != 5 {
		t.Errorf("%+v", s)
	}
	s = Specs{Provider: ProviderSpec{Temperature: &half, MaxTokens: 3}, Processing: ProcessingSpec{Timeout: 1.5, MaxValidationRuns: 2}}.settled("q")
	if *s.Provider.Temperature != 0.5 || s.Provider.MaxTokens != 3 || s.Processing.timeout().Milliseconds() != 1500 || s.Processing.MaxValidationRuns != 2 {
		t.Errorf("%+v", s)
	}
}
