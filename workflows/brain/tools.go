package brain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"pawl"
	"pawl/ports/llm"
)

// Tools is a port: what can be called for an answer, such as the tools of an MCP server.
type Tools interface {
	// Tools are those that there are. It is called inside pawl.Do.
	Tools(ctx context.Context) ([]llm.Tool, error)
	// Approve asks whoever has to allow a call, outside pawl.Do; Call gets the context that it returns.
	Approve(ctx context.Context, key string, c llm.ToolCall) (context.Context, error)
	// Call calls one. It is called inside pawl.Do; what the tool says is its result, also that it failed.
	Call(ctx context.Context, c llm.ToolCall) (llm.ToolResult, error)
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
		key, opt := fmt.Sprintf("tool %d: %s", i+1, t.Name), timeout
		opt.For = c
		approved, err := a.Tools.Approve(ctx, key, c)
		if err != nil {
			failed(t.Name, err)
			continue
		}
		r, err := pawl.Do(approved, key, func(ctx context.Context) (llm.ToolResult, error) {
			r, err := a.Tools.Call(ctx, c)
			r.Text = cut(r.Text)
			return r, err
		}, opt)
		switch {
		case err != nil:
			failed(t.Name, err)
			continue
		case r.Failed:
			failed(t.Name, fmt.Errorf("it failed: %s", clipped(r.Text, 200)))
		}
		s.ToolResults = append(slices.Clone(s.ToolResults), Piece{Source: t.Name, ID: c.ID, Text: r.Text, Failed: r.Failed})
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
