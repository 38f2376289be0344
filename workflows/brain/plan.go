package brain

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"pawl"
)

// Limits of a plan.
const (
	MaxAttempts = 5      // replies that a run may ask for
	maxQuestion = 32_000 // characters of a question, or of a turn
	maxList     = 50     // sources, tools
	maxTurns    = 1000
	maxTimeout  = 600 // seconds
)

// The defaults of a plan.
const (
	defaultLimit       = 5
	defaultTurns       = 10
	defaultTemperature = 0.7
	defaultMaxTokens   = 2000
	defaultTimeout     = 30 // seconds
)

// Plan is what is to be done, and the input of a run: a question, what was said before it, and how to answer it. A plan that is only
// a question gets OptimizedSpecs by defaults. What a plan says is carried out and never changed.
type Plan struct {
	Question string `json:"question" jsonschema:"what is to be answered"`
	History  []Turn `json:"history,omitempty" jsonschema:"what was said before, the latest last"`

	OriginalSpecs    *Specs  `json:"original_specs,omitempty" jsonschema:"what was asked of the planner; only carried along"`
	OptimizedSpecs   *Specs  `json:"optimized_specs,omitempty" jsonschema:"what is carried out; without it, what the defaults are"`
	ReasoningApplied bool    `json:"reasoning_applied,omitempty"`
	Confidence       float64 `json:"confidence,omitempty" jsonschema:"of the planner in its plan, 0 to 1"`
	ReasoningNotes   string  `json:"reasoning_notes,omitempty" jsonschema:"of the planner; the model is told them as notes"`
	EstimatedCost    float64 `json:"estimated_cost,omitempty" jsonschema:"dollars"`
	EstimatedLatency float64 `json:"estimated_latency,omitempty" jsonschema:"seconds"`
	PlannedAt        string  `json:"planned_at,omitempty" jsonschema:"RFC 3339"`
}

// Turn is one thing that was said.
type Turn struct {
	Role    string `json:"role" jsonschema:"user or assistant"`
	Content string `json:"content"`
}

// Specs say which data, which model and which tools an answer is made with.
type Specs struct {
	DataSources   []SourceSpec               `json:"data_sources,omitempty"`
	Provider      ProviderSpec               `json:"provider,omitzero"`
	Tools         []ToolSpec                 `json:"tools,omitempty"`
	Processing    ProcessingSpec             `json:"processing,omitzero"`
	AgentMetadata map[string]json.RawMessage `json:"agent_metadata,omitempty" jsonschema:"of the agent that asks; system_prompt is what the model is told to be"`
}

// The types of data sources.
const (
	SourceVectorDB = "vector_db"
	SourceHistory  = "conversation_history"
)

// SourceSpec asks one data source.
type SourceSpec struct {
	SourceType string                     `json:"source_type" jsonschema:"vector_db or conversation_history"`
	Query      string                     `json:"query,omitempty" jsonschema:"what to look for; empty: the question"`
	Filters    map[string]string          `json:"filters,omitempty" jsonschema:"path: a document or a folder of them"`
	Limit      int                        `json:"limit,omitempty" jsonschema:"pieces (5), or turns of a conversation (10)"`
	Enabled    *bool                      `json:"enabled,omitempty" jsonschema:"true where it is not said"`
	Config     map[string]json.RawMessage `json:"config,omitempty" jsonschema:"for the source"`
}

// ProviderSpec names the model. Both names empty: the default one.
type ProviderSpec struct {
	ProviderType string   `json:"provider_type,omitempty" jsonschema:"a provider that is configured, such as openai, gemini or anthropic"`
	Model        string   `json:"model,omitempty" jsonschema:"a model of the provider; without a provider, the name that the configuration has for one"`
	Temperature  *float64 `json:"temperature,omitempty" jsonschema:"0 to 2; 0.7 where it is not said"`
	MaxTokens    int      `json:"max_tokens,omitempty" jsonschema:"of a reply; 2000 where it is not said"`
	Stream       bool     `json:"stream,omitempty" jsonschema:"show the reply while it is written"`
	CustomParams Params   `json:"custom_params,omitzero"`
}

// Params are what only some providers take.
type Params struct {
	Seed *int64   `json:"seed,omitempty"`
	Stop []string `json:"stop,omitempty" jsonschema:"texts at which a reply ends"`
}

// ToolSpec is one call of a tool.
type ToolSpec struct {
	Name      string                     `json:"name"`
	Arguments map[string]json.RawMessage `json:"arguments,omitempty" jsonschema:"none: the question, as the one text that the tool requires"`
	Enabled   *bool                      `json:"enabled,omitempty" jsonschema:"true where it is not said"`
}

// ProcessingSpec bounds the work.
type ProcessingSpec struct {
	MaxIterations      int     `json:"max_iterations,omitempty" jsonschema:"of the planner; only carried along"`
	Timeout            float64 `json:"timeout,omitempty" jsonschema:"seconds of one call; 30 where it is not said"`
	ExecutionStrategy  string  `json:"execution_strategy,omitempty" jsonschema:"of the planner: direct, reasoned or adaptive; only carried along"`
	ReasoningThreshold float64 `json:"reasoning_threshold,omitempty" jsonschema:"of the planner, 0 to 1; only carried along"`
	MaxValidationRuns  int     `json:"max_validation_runs,omitempty" jsonschema:"replies that may be asked for, 1 to 5; 5 where it is not said"`
}

func enabled(b *bool) bool { return b == nil || *b }

// Alias is the name under which the model is configured.
func (p ProviderSpec) Alias() string {
	if p.ProviderType != "" && p.Model != "" {
		return p.ProviderType + "/" + p.Model
	}
	return p.ProviderType + p.Model
}

func (p ProcessingSpec) timeout() time.Duration {
	if p.Timeout == 0 {
		return defaultTimeout * time.Second
	}
	return time.Duration(p.Timeout * float64(time.Second))
}

// systemPrompt is what the agent's own is, if it has one.
func (s Specs) systemPrompt() string {
	var prompt string
	_ = json.Unmarshal(s.AgentMetadata["system_prompt"], &prompt) // it was checked
	return prompt
}

// planned is the plan of a question that came without one: look it up where there is something to look in, and show the reply as
// it is written.
func (p Plan) planned(knowledge bool) Plan {
	if p.OptimizedSpecs != nil {
		return p
	}
	s := Specs{Provider: ProviderSpec{Stream: true}}
	if len(p.History) > 0 {
		s.DataSources = append(s.DataSources, SourceSpec{SourceType: SourceHistory})
	}
	if knowledge {
		s.DataSources = append(s.DataSources, SourceSpec{SourceType: SourceVectorDB})
	}
	p.OptimizedSpecs = &s
	return p
}

// settled is a copy of the specs in which nothing is left open.
func (s Specs) settled(question string) Specs {
	s.DataSources, s.Tools = slices.Clone(s.DataSources), slices.Clone(s.Tools)
	for i := range s.DataSources {
		d := &s.DataSources[i]
		if d.Limit == 0 {
			d.Limit = defaultLimit
			if d.SourceType == SourceHistory {
				d.Limit = defaultTurns
			}
		}
		if d.Query == "" {
			d.Query = question
		}
	}
	if s.Provider.Temperature == nil {
		warm := defaultTemperature
		s.Provider.Temperature = &warm
	}
	if s.Provider.MaxTokens == 0 {
		s.Provider.MaxTokens = defaultMaxTokens
	}
	if s.Processing.MaxValidationRuns == 0 {
		s.Processing.MaxValidationRuns = MaxAttempts
	}
	return s
}

// check refuses a plan that cannot be carried out, naming every field that is wrong.
func (p Plan) check() error {
	c := &checker{}
	c.text("question", p.Question, true)
	c.is(len(p.History) <= maxTurns, "history", "more than %d turns", maxTurns)
	for i, t := range p.History {
		at := fmt.Sprintf("history[%d].", i)
		c.is(t.Role == "user" || t.Role == "assistant", at+"role", "user or assistant, not %q", clipped(t.Role, 40))
		c.text(at+"content", t.Content, true)
	}
	c.share("confidence", p.Confidence)
	c.text("reasoning_notes", p.ReasoningNotes, false)
	c.is(p.EstimatedCost >= 0, "estimated_cost", "below zero")
	c.is(p.EstimatedLatency >= 0, "estimated_latency", "below zero")
	if p.PlannedAt != "" {
		_, err := time.Parse(time.RFC3339, p.PlannedAt)
		c.is(err == nil, "planned_at", "%q is no time as in RFC 3339", clipped(p.PlannedAt, 40))
	}
	if p.OptimizedSpecs != nil {
		c.specs("optimized_specs.", *p.OptimizedSpecs)
	}
	if len(c.faults) == 0 {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeInvalid, Op: "start", Text: "the plan cannot be carried out: " + strings.Join(c.faults, "; ")}
}

// checker collects what is wrong.
type checker struct{ faults []string }

func (c *checker) is(right bool, field, format string, a ...any) {
	if !right {
		c.faults = append(c.faults, field+": "+fmt.Sprintf(format, a...))
	}
}

func (c *checker) text(field, s string, wanted bool) {
	c.is(utf8.ValidString(s) && !strings.ContainsRune(s, 0), field, "not valid text")
	c.is(!wanted || strings.TrimSpace(s) != "", field, "empty")
	c.is(utf8.RuneCountInString(s) <= maxQuestion, field, "longer than %d characters", maxQuestion)
}

func (c *checker) share(field string, v float64) {
	c.is(v >= 0 && v <= 1, field, "%v is not from 0 to 1", v)
}

func (c *checker) specs(at string, s Specs) {
	c.is(len(s.DataSources) <= maxList, at+"data_sources", "more than %d", maxList)
	for i, d := range s.DataSources {
		at := fmt.Sprintf("%sdata_sources[%d].", at, i)
		c.is(d.SourceType == SourceVectorDB || d.SourceType == SourceHistory, at+"source_type", "%s or %s, not %q",
			SourceVectorDB, SourceHistory, clipped(d.SourceType, 40))
		c.text(at+"query", d.Query, false)
		c.is(d.Limit >= 0 && d.Limit <= maxList, at+"limit", "%d is not from 1 to %d", d.Limit, maxList)
		for key := range d.Filters {
			c.is(key == "path" && d.SourceType == SourceVectorDB, at+"filters."+clipped(key, 40), "not known (a %s has: path)", SourceVectorDB)
		}
	}
	p := s.Provider
	c.is(p.Temperature == nil || *p.Temperature >= 0 && *p.Temperature <= 2, at+"provider.temperature", "not from 0 to 2")
	c.is(p.MaxTokens >= 0 && p.MaxTokens <= math.MaxInt32, at+"provider.max_tokens", "%d is no number of tokens", p.MaxTokens)
	c.is(len(p.CustomParams.Stop) <= maxList, at+"provider.custom_params.stop", "more than %d", maxList)
	c.is(len(s.Tools) <= maxList, at+"tools", "more than %d", maxList)
	for i, t := range s.Tools {
		c.is(strings.TrimSpace(t.Name) != "", fmt.Sprintf("%stools[%d].name", at, i), "empty")
	}
	r := s.Processing
	c.is(r.MaxIterations >= 0, at+"processing.max_iterations", "below zero")
	c.is(r.Timeout >= 0 && r.Timeout <= maxTimeout, at+"processing.timeout", "%v is not from 0 to %d seconds", r.Timeout, maxTimeout)
	c.is(slices.Contains([]string{"", "direct", "reasoned", "adaptive"}, r.ExecutionStrategy), at+"processing.execution_strategy",
		"direct, reasoned or adaptive, not %q", clipped(r.ExecutionStrategy, 40))
	c.share(at+"processing.reasoning_threshold", r.ReasoningThreshold)
	c.is(r.MaxValidationRuns >= 0 && r.MaxValidationRuns <= MaxAttempts, at+"processing.max_validation_runs", "%d is not from 1 to %d", r.MaxValidationRuns, MaxAttempts)
	if prompt, ok := s.AgentMetadata["system_prompt"]; ok {
		var text string
		c.is(json.Unmarshal(prompt, &text) == nil, at+"agent_metadata.system_prompt", "no text")
		c.text(at+"agent_metadata.system_prompt", text, false)
	}
}
