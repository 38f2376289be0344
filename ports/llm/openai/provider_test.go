package openai_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"pawl"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
	"pawl/ports/llm/openai"
)

// What follows is OpenAI's side, written from https://platform.openai.com/docs/api-reference/chat/create and
// https://platform.openai.com/docs/guides/error-codes: every field that is not there is a fault of the client.

type theirRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		Calls   []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
		CallID string `json:"tool_call_id"`
	} `json:"messages"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string         `json:"name"`
			Description string         `json:"description"`
			Parameters  map[string]any `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Choice json.RawMessage `json:"tool_choice"`
	Format *struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"json_schema"`
	} `json:"response_format"`
	MaxCompletion *int     `json:"max_completion_tokens"`
	MaxTokens     *int     `json:"max_tokens"`
	Temperature   *float64 `json:"temperature"`
	Seed          *int64   `json:"seed"`
	Stop          []string `json:"stop"`
	Stream        bool     `json:"stream"`
	Options       *struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// wire is an endpoint of a dialect.
func wire(d openai.Dialect) llmtest.Wire {
	return llmtest.Wire{
		Provider: "some",
		Open: func(s llmtest.Setup) llm.Model {
			return openai.New(openai.Config{
				Provider: "some", URL: s.URL + "/v1", Key: llmtest.Key, Dialect: d, First: s.First, Silence: s.Silence, Now: s.Now,
			}, s.Name)
		},
		Hear:  func(r *http.Request, body []byte) (llmtest.Heard, error) { return hear(d, r, body) },
		Whole: whole, Events: events, Refusals: refusals(),
		Midway:     `data: {"error":{"message":"The server had an error ` + llmtest.Key + `","type":"server_error","param":null,"code":null}}` + "\n\n",
		MidwayCode: pawl.CodeUnavailable,
	}
}

func hear(d openai.Dialect, r *http.Request, body []byte) (h llmtest.Heard, err error) {
	if err := llmtest.Authorized(r, "Authorization", "Bearer "+llmtest.Key); err != nil {
		return h, err
	}
	var q theirRequest
	if err := llmtest.Strict(body, &q); err != nil {
		return h, err
	}
	switch limit := q.MaxTokens; {
	case r.URL.String() != "/v1/chat/completions":
		return h, fmt.Errorf("address %s", r.URL)
	case q.Stream != (q.Options != nil && q.Options.Usage):
		return h, errors.New("a stream tells its usage only where that is asked for, and stream_options go only with one")
	case d == openai.Own && limit != nil:
		return h, errors.New("max_tokens is not taken by newer models: use max_completion_tokens")
	case d != openai.Own && q.MaxCompletion != nil:
		return h, errors.New("max_completion_tokens is not known here")
	case d == openai.WorkersAI && limit == nil:
		return h, errors.New("without max_tokens an answer ends after 256 tokens")
	case d == openai.WorkersAI && q.Stream && q.Format != nil:
		return h, errors.New("JSON mode does not support streaming")
	}
	h.Model, h.Stream, h.Temperature, h.Seed, h.Stop = q.Model, q.Stream, q.Temperature, q.Seed, q.Stop
	for _, limit := range []*int{q.MaxTokens, q.MaxCompletion} {
		if limit != nil {
			h.MaxTokens = *limit
		}
	}
	for _, t := range q.Tools {
		schema, _ := json.Marshal(t.Function.Parameters)
		h.Tools = append(h.Tools, llm.Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: schema})
		if t.Type != "function" {
			return h, fmt.Errorf("tool of type %q", t.Type)
		}
	}
	if h.Choice, err = hearChoice(q.Choice, len(q.Tools)); err != nil {
		return h, err
	}
	if err = hearFormat(d, &h, q); err != nil {
		return h, err
	}
	return h, hearMessages(&h, q)
}

func hearChoice(raw json.RawMessage, tools int) (llm.Choice, error) {
	var named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch {
	case len(raw) == 0:
		return llm.ChoiceAuto, nil
	case tools == 0:
		return "", errors.New("tool_choice without tools")
	case string(raw) == `"none"`:
		return llm.ChoiceNone, nil
	case string(raw) == `"required"`:
		return llm.ChoiceAny, nil
	}
	err := llmtest.Strict(raw, &named)
	if err == nil && (named.Type != "function" || named.Function.Name == "") {
		err = fmt.Errorf("tool_choice %s", raw)
	}
	return llm.Choice(named.Function.Name), err
}

func hearFormat(d openai.Dialect, h *llmtest.Heard, q theirRequest) error {
	if q.Format == nil {
		return nil
	}
	if q.Format.Type != "json_schema" {
		return fmt.Errorf("response_format of type %q", q.Format.Type)
	}
	h.Format = &llm.Format{Schema: q.Format.Schema}
	if d == openai.WorkersAI { // https://developers.cloudflare.com/workers-ai/features/json-mode: the schema itself
		var schema struct{ Type string }
		if err := json.Unmarshal(q.Format.Schema, &schema); err != nil || schema.Type != "object" {
			return fmt.Errorf("json_schema is no schema: %s", q.Format.Schema)
		}
		return nil
	}
	var named struct {
		Name   string          `json:"name"`
		Strict bool            `json:"strict"`
		Schema json.RawMessage `json:"schema"`
	}
	if err := llmtest.Strict(q.Format.Schema, &named); err != nil {
		return err
	}
	if named.Name == "" || len(named.Name) > 64 {
		return fmt.Errorf("name of the form: %q", named.Name)
	}
	h.Format = &llm.Format{Name: named.Name, Schema: named.Schema}
	if !named.Strict {
		return nil
	}
	return heldStrictly(named.Schema)
}

// heldStrictly refuses what https://platform.openai.com/docs/guides/structured-outputs refuses.
func heldStrictly(raw json.RawMessage) error {
	var s struct {
		Type       any                        `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		Additional *bool                      `json:"additionalProperties"`
		Items      json.RawMessage            `json:"items"`
		AnyOf      []json.RawMessage          `json:"anyOf"`
		MaxLength  *int                       `json:"maxLength"`
		OneOf      json.RawMessage            `json:"oneOf"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	if s.MaxLength != nil || s.OneOf != nil {
		return fmt.Errorf("not permitted in a strict schema: %s", raw)
	}
	inner := s.AnyOf
	if s.Type == "object" {
		if s.Additional == nil || *s.Additional || len(s.Required) != len(s.Properties) {
			return fmt.Errorf("additionalProperties must be false and every key required: %s", raw)
		}
	}
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

func hearMessages(h *llmtest.Heard, q theirRequest) error {
	open := map[string]bool{} // calls that are not answered
	for i, m := range q.Messages {
		out := llm.Message{Role: llm.Role(m.Role)}
		text, parts, err := hearContent(m.Content)
		if err != nil {
			return err
		}
		if (m.Role == "tool") != (m.CallID != "") || m.Role != "assistant" && m.Calls != nil || m.Role != "user" && parts != nil {
			return fmt.Errorf("message %d: not of role %q", i, m.Role)
		}
		if m.Role != "tool" && len(open) > 0 {
			return fmt.Errorf("message %d: calls without an answer before it: %v", i, open)
		}
		switch m.Role {
		case "system":
			h.System = text
			continue
		case "tool":
			if !open[m.CallID] {
				return fmt.Errorf("message %d: nobody called %s", i, m.CallID)
			}
			delete(open, m.CallID)
			out.Parts = []llm.Part{{Result: &llm.ToolResult{ID: m.CallID, Text: text}}}
		case "user", "assistant":
			if out.Parts = parts; text != "" {
				out.Parts = append(out.Parts, llm.Part{Text: text})
			}
			for _, c := range m.Calls {
				open[c.ID] = true
				out.Parts = append(out.Parts, llm.Part{Call: &llm.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: json.RawMessage(c.Function.Arguments)}})
			}
		default:
			return fmt.Errorf("message %d: role %q", i, m.Role)
		}
		h.Messages = append(h.Messages, out)
	}
	return nil
}

func hearContent(raw json.RawMessage) (text string, parts []llm.Part, err error) {
	if json.Unmarshal(raw, &text) == nil {
		return text, nil, nil
	}
	var list []struct {
		Type  string  `json:"type"`
		Text  *string `json:"text"`
		Image *struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := llmtest.Strict(raw, &list); err != nil {
		return "", nil, fmt.Errorf("content: %w", err)
	}
	for _, p := range list {
		switch {
		case p.Type == "text" && p.Text != nil && p.Image == nil:
			parts = append(parts, llm.Part{Text: *p.Text})
		case p.Type == "image_url" && p.Image != nil && p.Text == nil:
			kind, data, _ := strings.Cut(strings.TrimPrefix(p.Image.URL, "data:"), ";base64,")
			raw, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				return "", nil, err
			}
			parts = append(parts, llm.Part{Image: &llm.Image{Type: kind, Data: raw}})
		default:
			return "", nil, fmt.Errorf("a part of type %q", p.Type)
		}
	}
	return "", parts, nil
}

type doc = map[string]any

func theirUsage(u llm.Usage) doc {
	return doc{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     doc{"cached_tokens": u.Cached, "audio_tokens": 0},
		"completion_tokens_details": doc{"reasoning_tokens": u.Thoughts, "accepted_prediction_tokens": 0},
	}
}

func theirFinish(f llm.Finish) string {
	switch f {
	case llm.FinishRefused:
		return "content_filter"
	case llm.FinishOther:
		return "something_new"
	}
	return string(f)
}

func whole(a llm.Response) string {
	message := doc{"role": "assistant", "content": nil, "refusal": nil, "annotations": []any{}}
	if text := a.Message.Text(); text != "" {
		message["content"] = text
	}
	var calls []doc
	for _, c := range a.Message.Calls() {
		calls = append(calls, doc{"id": c.ID, "type": "function", "function": doc{"name": c.Name, "arguments": string(c.Arguments)}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	out, _ := json.Marshal(doc{
		"id": a.ID, "object": "chat.completion", "created": 1764000000, "model": a.Model, "usage": theirUsage(a.Usage), "service_tier": "default",
		"choices": []doc{{"index": 0, "message": message, "logprobs": nil, "finish_reason": theirFinish(a.Finish)}},
	})
	return string(out)
}

func events(a llm.Response) []string {
	var out []string
	send := func(choices []doc, usage any) {
		data, _ := json.Marshal(doc{
			"id": a.ID, "object": "chat.completion.chunk", "created": 1764000000, "model": a.Model, "choices": choices, "usage": usage, "obfuscation": "x",
		})
		out = append(out, "data: "+string(data)+"\n\n")
	}
	delta := func(d doc, finish any) {
		send([]doc{{"index": 0, "delta": d, "logprobs": nil, "finish_reason": finish}}, nil)
	}
	delta(doc{"role": "assistant", "content": "", "refusal": nil}, nil)
	for _, p := range llmtest.Pieces(a.Message.Text()) {
		delta(doc{"content": p}, nil)
	}
	for i, c := range a.Message.Calls() {
		delta(doc{"tool_calls": []doc{{"index": i, "id": c.ID, "type": "function", "function": doc{"name": c.Name, "arguments": ""}}}}, nil)
		for _, p := range llmtest.Pieces(string(c.Arguments)) {
			delta(doc{"tool_calls": []doc{{"index": i, "function": doc{"arguments": p}}}}, nil)
		}
	}
	delta(doc{}, theirFinish(a.Finish))
	send([]doc{}, theirUsage(a.Usage))
	return append(out, "data: [DONE]\n\n")
}

func refusals() map[string]llmtest.Refusal {
	refusal := func(status int, message, kind, code string) llmtest.Refusal {
		body, _ := json.Marshal(doc{"error": doc{"message": message, "type": kind, "param": nil, "code": code}})
		return llmtest.Refusal{Status: status, Body: string(body)}
	}
	cloudflare := func(status, code int, message string) llmtest.Refusal {
		body, _ := json.Marshal(doc{"result": nil, "success": false, "errors": []doc{{"code": code, "message": message}}, "messages": []any{}})
		return llmtest.Refusal{Status: status, Body: string(body)}
	}
	return map[string]llmtest.Refusal{
		pawl.CodeInvalid:     refusal(400, "Unsupported value: 'temperature'", "invalid_request_error", "unsupported_value"),
		pawl.CodeForbidden:   refusal(401, "Incorrect API key provided: $KEY.", "invalid_request_error", "invalid_api_key"),
		llm.CodeRateLimited:  refusal(429, "Rate limit reached for requests", "requests", "rate_limit_exceeded"),
		llm.CodeQuota:        refusal(429, "You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
		llm.CodeRetired:      refusal(404, "The model does not exist", "invalid_request_error", "model_not_found"),
		llm.CodeTooLong:      refusal(400, "This model's maximum context length is 8192 tokens.", "invalid_request_error", "context_length_exceeded"),
		llm.CodeRefused:      refusal(400, "Rejected by the safety system", "image_generation_user_error", "content_policy_violation"),
		pawl.CodeUnavailable: refusal(503, "The engine is currently overloaded", "server_error", ""),

		llm.CodeRetired + " groq":        refusal(400, "The model has been decommissioned", "invalid_request_error", "model_decommissioned"),
		llm.CodeTooLong + " groq":        refusal(413, "Request too large: tokens per minute", "tokens", "rate_limit_exceeded"),
		llm.CodeFormat + " groq":         refusal(400, "Failed to generate JSON", "invalid_request_error", "json_validate_failed"),
		llm.CodeTooLong + " vllm":        {Status: 400, Body: `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}`},
		llm.CodeRetired + " ollama":      {Status: 404, Body: `{"error":{"message":"model 'x' not found","type":"not_found_error","param":null,"code":null}}`},
		llm.CodeQuota + " cloudflare":    cloudflare(429, 4006, "you have used up your daily free allocation of 10,000 neurons"),
		llm.CodeRetired + " cloudflare":  cloudflare(400, 5007, "No such model"),
		llm.CodeFormat + " cloudflare":   cloudflare(400, 5024, "JSON Mode couldn't be met"),
		pawl.CodeForbidden + " fastapi":  {Status: 401, Body: `{"error":"Unauthorized"}`},
		pawl.CodeUnavailable + " vanish": {Status: 500},
	}
}
