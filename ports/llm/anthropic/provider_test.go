package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"pawl"
	"pawl/ports/llm"
	"pawl/ports/llm/anthropic"
	"pawl/ports/llm/llmtest"
)

// What follows is Anthropic's side, written from https://platform.claude.com/docs/en/api/messages,
// https://platform.claude.com/docs/en/build-with-claude/streaming, …/structured-outputs and https://platform.claude.com/docs/en/api/errors:
// every field that is not there is a fault of the client.

type theirRequest struct {
	Model     string         `json:"model"`
	MaxTokens *int           `json:"max_tokens"`
	System    *string        `json:"system"`
	Messages  []theirMessage `json:"messages"`
	Tools     []struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Schema      map[string]any `json:"input_schema"`
	} `json:"tools"`
	Choice *struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"tool_choice"`
	Output *struct {
		Format struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Temperature *float64 `json:"temperature"`
	Stop        []string `json:"stop_sequences"`
	Stream      bool     `json:"stream"`
}

type theirMessage struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
}

func wire() llmtest.Wire {
	return llmtest.Wire{
		Provider: "anthropic", NoThoughts: true,
		Open: func(s llmtest.Setup) llm.Model {
			return anthropic.New(anthropic.Config{URL: s.URL + "/v1", Key: llmtest.Key, First: s.First, Silence: s.Silence, Now: s.Now}, s.Name)
		},
		Hear: hear, Whole: whole, Events: events, Refusals: refusals(),
		Midway: "event: error\ndata: " + `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded ` + llmtest.Key +
			`"},"request_id":"req_1"}` + "\n\n",
		MidwayCode: pawl.CodeUnavailable,
	}
}

func hear(r *http.Request, body []byte) (h llmtest.Heard, err error) {
	if err := llmtest.Authorized(r, "x-api-key", llmtest.Key); err != nil {
		return h, err
	}
	if r.URL.String() != "/v1/messages" || r.Header.Get("anthropic-version") != "2023-06-01" {
		return h, fmt.Errorf("address %s, version %q", r.URL, r.Header.Get("anthropic-version"))
	}
	var q theirRequest
	if err := llmtest.Strict(body, &q); err != nil {
		return h, err
	}
	if q.MaxTokens == nil || *q.MaxTokens < 1 {
		return h, errors.New("max_tokens: field required")
	}
	h.Model, h.Stream, h.MaxTokens, h.Temperature, h.Stop = q.Model, q.Stream, *q.MaxTokens, q.Temperature, q.Stop
	if q.System != nil {
		if *q.System == "" {
			return h, errors.New("system: text content blocks must be non-empty")
		}
		h.System = *q.System
	}
	for _, t := range q.Tools {
		schema, _ := json.Marshal(t.Schema)
		h.Tools = append(h.Tools, llm.Tool{Name: t.Name, Description: t.Description, Schema: schema})
		if t.Schema["type"] != "object" {
			return h, errors.New("input_schema must be of an object")
		}
	}
	if c := q.Choice; c != nil {
		switch {
		case c.Type == "tool" && c.Name != "" && len(h.Tools) > 0:
			h.Choice = llm.Choice(c.Name)
		case (c.Type == "any" || c.Type == "none") && c.Name == "" && len(h.Tools) > 0:
			h.Choice = llm.Choice(c.Type)
		default:
			return h, fmt.Errorf("tool_choice %+v with %d tools", c, len(h.Tools))
		}
	}
	if q.Output != nil {
		if q.Output.Format.Type != "json_schema" {
			return h, fmt.Errorf("format %q", q.Output.Format.Type)
		}
		if err := heldStrictly(q.Output.Format.Schema); err != nil {
			return h, err
		}
		h.Format = &llm.Format{Schema: q.Output.Format.Schema}
	}
	return h, hearMessages(&h, q.Messages)
}

// heldStrictly refuses the words of a schema that are not supported.
func heldStrictly(raw json.RawMessage) error {
	var s struct {
		Type        any                        `json:"type"`
		Description string                     `json:"description"`
		Enum        []any                      `json:"enum"`
		Properties  map[string]json.RawMessage `json:"properties"`
		Required    []string                   `json:"required"`
		Additional  *bool                      `json:"additionalProperties"`
		Items       json.RawMessage            `json:"items"`
		AnyOf       []json.RawMessage          `json:"anyOf"`
	}
	if err := llmtest.Strict(raw, &s); err != nil {
		return fmt.Errorf("output_config.format.schema: %w", err)
	}
	if s.Type == "object" && (s.Additional == nil || *s.Additional) {
		return fmt.Errorf("additionalProperties must be false: %s", raw)
	}
	inner := s.AnyOf
	for _, p := range s.Properties {
		inner = append(inner, p)
	}
	if s.Items != nil {
		inner = append(inner, s.Items)
	}
	for _, i := range inner {
		if err := heldStrictly(i); err != nil {
			return err
		}
	}
	return nil
}

func hearMessages(h *llmtest.Heard, messages []theirMessage) error {
	var open []string // calls of the message before
	for i, m := range messages {
		if m.Role != "user" && m.Role != "assistant" || len(m.Content) == 0 {
			return fmt.Errorf("message %d: role %q, %d blocks", i, m.Role, len(m.Content))
		}
		out := llm.Message{Role: llm.Role(m.Role)}
		answered := 0
		for j, raw := range m.Content {
			p, err := hearBlock(raw)
			if err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			if p.Result != nil {
				if answered++; m.Role != "user" || j != answered-1 || answered > len(open) || open[answered-1] != p.Result.ID {
					return fmt.Errorf("message %d: tool_result %q is not where it must be: first, after its call", i, p.Result.ID)
				}
			}
			if p.Opaque == nil {
				out.Parts = append(out.Parts, p)
			}
		}
		if answered != len(open) {
			return fmt.Errorf("message %d: tool_use without tool_result: %v", i, open)
		}
		open = nil
		for _, c := range out.Calls() {
			open = append(open, c.ID)
		}
		h.Messages = append(h.Messages, out)
	}
	return nil
}

func hearBlock(raw json.RawMessage) (p llm.Part, err error) {
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return p, err
	}
	switch kind.Type {
	case "text":
		var b struct{ Type, Text string }
		err = llmtest.Strict(raw, &b)
		if p.Text = b.Text; err == nil && b.Text == "" {
			err = errors.New("text content blocks must be non-empty")
		}
	case "image":
		var b struct {
			Type   string `json:"type"`
			Source struct {
				Type  string `json:"type"`
				Media string `json:"media_type"`
				Data  []byte `json:"data"`
			} `json:"source"`
		}
		err = llmtest.Strict(raw, &b)
		p.Image = &llm.Image{Type: b.Source.Media, Data: b.Source.Data}
		if err == nil && b.Source.Type != "base64" {
			err = fmt.Errorf("source %q", b.Source.Type)
		}
	case "tool_use":
		var b struct {
			Type  string         `json:"type"`
			ID    string         `json:"id"`
			Name  string         `json:"name"`
			Input map[string]any `json:"input"`
		}
		err = llmtest.Strict(raw, &b)
		args, _ := json.Marshal(b.Input)
		p.Call = &llm.ToolCall{ID: b.ID, Name: b.Name, Arguments: args}
	case "tool_result":
		var b struct {
			Type    string `json:"type"`
			ID      string `json:"tool_use_id"`
			Content string `json:"content"`
			Failed  bool   `json:"is_error"`
		}
		err = llmtest.Strict(raw, &b)
		p.Result = &llm.ToolResult{ID: b.ID, Text: b.Content, Failed: b.Failed}
	case "thinking", "redacted_thinking":
		p.Opaque = raw
	default:
		err = fmt.Errorf("a block of type %q", kind.Type)
	}
	return p, err
}

type doc = map[string]any

func theirUsage(u llm.Usage) doc {
	return doc{
		"input_tokens": u.Input - u.Cached - 1, "cache_creation_input_tokens": 1, "cache_read_input_tokens": u.Cached, "output_tokens": u.Output,
		"service_tier": "standard", "cache_creation": doc{"ephemeral_5m_input_tokens": 1},
	}
}

func theirStop(f llm.Finish) string {
	switch f {
	case llm.FinishStop:
		return "end_turn"
	case llm.FinishCalls:
		return "tool_use"
	case llm.FinishLength:
		return "max_tokens"
	case llm.FinishRefused:
		return "refusal"
	}
	return "pause_turn"
}

func theirReply(a llm.Response, content []doc, stop any, usage doc) doc {
	return doc{
		"id": a.ID, "type": "message", "role": "assistant", "model": a.Model, "content": content, "stop_reason": stop, "stop_sequence": nil,
		"usage": usage, "container": nil,
	}
}

func whole(a llm.Response) string {
	content := []doc{}
	if text := a.Message.Text(); text != "" {
		content = append(content, doc{"type": "text", "text": text, "citations": nil})
	}
	for _, c := range a.Message.Calls() {
		content = append(content, doc{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Arguments})
	}
	out, _ := json.Marshal(theirReply(a, content, theirStop(a.Finish), theirUsage(a.Usage)))
	return string(out)
}

func events(a llm.Response) []string {
	var out []string
	send := func(d doc) {
		data, _ := json.Marshal(d)
		out = append(out, "event: "+d["type"].(string)+"\ndata: "+string(data)+"\n\n")
	}
	begin := theirUsage(a.Usage)
	begin["output_tokens"] = 1
	send(doc{"type": "message_start", "message": theirReply(a, []doc{}, nil, begin)})
	send(doc{"type": "ping"})
	index := 0
	block := func(start doc, deltas ...doc) {
		send(doc{"type": "content_block_start", "index": index, "content_block": start})
		for _, d := range deltas {
			send(doc{"type": "content_block_delta", "index": index, "delta": d})
		}
		send(doc{"type": "content_block_stop", "index": index})
		index++
	}
	if text := a.Message.Text(); text != "" {
		var deltas []doc
		for _, p := range llmtest.Pieces(text) {
			deltas = append(deltas, doc{"type": "text_delta", "text": p})
		}
		block(doc{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range a.Message.Calls() {
		deltas := []doc{{"type": "input_json_delta", "partial_json": ""}}
		for _, p := range llmtest.Pieces(strings.TrimSuffix(string(c.Arguments), "{}")) {
			deltas = append(deltas, doc{"type": "input_json_delta", "partial_json": p})
		}
		block(doc{"type": "tool_use", "id": c.ID, "name": c.Name, "input": doc{}}, deltas...)
	}
	send(doc{"type": "something_new", "x": 1})
	send(doc{"type": "message_delta", "delta": doc{"stop_reason": theirStop(a.Finish), "stop_sequence": nil}, "usage": doc{"output_tokens": a.Usage.Output}})
	send(doc{"type": "message_stop"})
	return out
}

func refusals() map[string]llmtest.Refusal {
	refusal := func(status int, kind, message string) llmtest.Refusal {
		body, _ := json.Marshal(doc{"type": "error", "error": doc{"type": kind, "message": message}, "request_id": "req_011"})
		return llmtest.Refusal{Status: status, Body: string(body)}
	}
	return map[string]llmtest.Refusal{
		pawl.CodeInvalid:     refusal(400, "invalid_request_error", "messages.0.content.1.image: image exceeds 5 MB maximum"),
		pawl.CodeForbidden:   refusal(401, "authentication_error", "invalid x-api-key $KEY"),
		llm.CodeRateLimited:  refusal(429, "rate_limit_error", "This request would exceed your organization's rate limit"),
		llm.CodeQuota:        refusal(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
		llm.CodeRetired:      refusal(404, "not_found_error", "model: some-model-1"),
		llm.CodeTooLong:      refusal(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
		pawl.CodeUnavailable: refusal(529, "overloaded_error", "Overloaded"),
		pawl.CodeTimeout:     refusal(504, "timeout_error", "Request timed out"),

		pawl.CodeForbidden + " too": refusal(403, "permission_error", "Your API key does not have permission"),
		llm.CodeQuota + " billing":  refusal(402, "billing_error", "There's an issue with your billing"),
		llm.CodeQuota + " limit":    refusal(400, "invalid_request_error", "You have reached your specified API usage limits."),
		llm.CodeTooLong + " bytes":  refusal(413, "request_too_large", "Request exceeds the maximum size"),
	}
}
