package brain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"pawl"
	"pawl/ports/llm"
)

// Tools is a port: what can be called for an answer. A tools.Box is one.
type Tools interface {
	// Tools are those that there are. It is called inside pawl.Do.
	Tools(ctx context.Context) ([]llm.Tool, error)
	// Use calls one, as pawl.Do does: its result is recorded, and a person is asked first where the tool wants it. What the tool
	// says is its result, also that it failed.
	Use(ctx context.Context, key string, c llm.ToolCall, o ...pawl.CallOptions) (llm.ToolResult, error)
}

// executeTools calls the tools of the plan, each once and in order. One that cannot be called, or that says that it failed, is an
// entry of the errors, and the run goes on.
func (a Agent) executeTools(ctx context.Context, s State) (State, error) {
	s.Errors = slices.Clone(s.Errors)
	failed := func(tool string, err error) { s.Errors = append(s.Errors, "execute_tools: "+tool+": "+err.Error()) }
	timeout := pawl.CallOptions{Timeout: s.Specs.Processing.timeout()}
	known, err := pawl.Do(ctx, "tools", a.tools, timeout)
	if err != nil {
		s.Errors = append(s.Errors, "execute_tools: "+err.Error())
		return s, nil
	}
	for i, t := range s.Specs.Tools {
		if !enabled(t.Enabled) {
			continue
		}
		c, err := toolCall(fmt.Sprintf("plan-%d", i+1), t, known, s.Plan.Question)
		if err != nil {
			failed(t.Name, err)
			continue
		}
		r, err := a.Tools.Use(ctx, fmt.Sprintf("tool %d: %s", i+1, t.Name), c, timeout)
		switch {
		case err != nil:
			failed(t.Name, err)
			continue
		case r.Failed:
			failed(t.Name, fmt.Errorf("it failed: %s", clipped(r.Text, 200)))
		}
		s.ToolResults = append(slices.Clone(s.ToolResults), Piece{Source: t.Name, ID: c.ID, Text: cut(r.Text), Failed: r.Failed})
	}
	return s, nil
}

func (a Agent) tools(ctx context.Context) ([]llm.Tool, error) {
	if a.Tools == nil {
		return nil, &pawl.Error{Code: pawl.CodeUnavailable, Text: "no tools are configured"}
	}
	return a.Tools.Tools(ctx)
}

// toolCall is the call that a plan asks for. Without arguments, the question is the one text that the tool requires.
func toolCall(id string, t ToolSpec, known []llm.Tool, question string) (c llm.ToolCall, err error) {
	i := slices.IndexFunc(known, func(k llm.Tool) bool { return k.Name == t.Name })
	if i < 0 {
		return c, fmt.Errorf("there is no such tool")
	}
	args := t.Arguments
	if args == nil {
		args = map[string]json.RawMessage{}
		if field := onlyText(known[i].Schema); field != "" {
			args[field] = json.RawMessage(line(question))
		}
	}
	raw, err := json.Marshal(args)
	return llm.ToolCall{ID: id, Name: t.Name, Arguments: raw}, err
}

// onlyText is the field of a tool's arguments that is required and a text, if there is exactly one.
func onlyText(schema json.RawMessage) string {
	var s struct {
		Required   []string
		Properties map[string]struct{ Type any }
	}
	if json.Unmarshal(schema, &s) != nil || len(s.Required) != 1 || s.Properties[s.Required[0]].Type != "string" {
		return ""
	}
	return s.Required[0]
}
