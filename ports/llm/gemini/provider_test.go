package gemini_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"pawl"
	"pawl/ports/llm"
	"pawl/ports/llm/gemini"
	"pawl/ports/llm/llmtest"
)

// What follows is Google's side, written from https://ai.google.dev/api/generate-content,
// https://ai.google.dev/gemini-api/docs/function-calling and https://ai.google.dev/gemini-api/docs/troubleshooting: every field that
// is not there is a fault of the client.

type theirContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text *string `json:"text"`
		Data *struct {
			Type string `json:"mimeType"`
			Data []byte `json:"data"`
		} `json:"inlineData"`
		Call *struct {
			ID   string         `json:"id"`
			Name string         `json:"name"`
			Args map[string]any `json:"args"`
		} `json:"functionCall"`
		Response *struct {
			ID       string `json:"id"`
			Name     string `json:"name"`
			Response struct {
				Output *string `json:"output"`
				Error  *string `json:"error"`
			} `json:"response"`
		} `json:"functionResponse"`
		Thought   bool           `json:"thought"`
		Signature string         `json:"thoughtSignature"`
		Code      map[string]any `json:"executableCode"`
	} `json:"parts"`
}

type theirRequest struct {
	System   *theirContent  `json:"systemInstruction"`
	Contents []theirContent `json:"contents"`
	Tools    []struct {
		Functions []struct {
			Name        string         `json:"name"`
			Description string         `json:"description"`
			Parameters  map[string]any `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	ToolConfig *struct {
		Calling struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Config struct {
		Temperature *float64        `json:"temperature"`
		MaxTokens   *int            `json:"maxOutputTokens"`
		Stop        []string        `json:"stopSequences"`
		Seed        *int32          `json:"seed"`
		Type        string          `json:"responseMimeType"`
		Schema      json.RawMessage `json:"responseJsonSchema"`
	} `json:"generationConfig"`
}

func wire() llmtest.Wire {
	return llmtest.Wire{
		Provider: "gemini",
		Open: func(s llmtest.Setup) llm.Model {
			return gemini.New(gemini.Config{URL: s.URL + "/v1beta", Key: llmtest.Key, First: s.First, Silence: s.Silence, Now: s.Now}, s.Name)
		},
		Hear: hear, Whole: whole, Events: events, Refusals: refusals(),
		Midway:     `data: {"error":{"code":503,"message":"The model is overloaded ` + llmtest.Key + `","status":"UNAVAILABLE"}}` + "\r\n\r\n",
		MidwayCode: pawl.CodeUnavailable,
	}
}

func hear(r *http.Request, body []byte) (h llmtest.Heard, err error) {
	if err := llmtest.Authorized(r, "x-goog-api-key", llmtest.Key); err != nil {
		return h, err
	}
	name, method, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/v1beta/models/"), ":gen")
	if before, ok := strings.CutSuffix(r.URL.EscapedPath(), ":streamGenerateContent"); ok {
		name, method, h.Stream = strings.TrimPrefix(before, "/v1beta/models/"), "erateContent", true
	}
	if h.Stream != (r.URL.RawQuery == "alt=sse") || method != "erateContent" || strings.Contains(name, "/") {
		return h, fmt.Errorf("address %s", r.URL)
	}
	if h.Model, err = url.PathUnescape(name); err != nil {
		return h, err
	}
	var q theirRequest
	if err := llmtest.Strict(body, &q); err != nil {
		return h, err
	}
	h.Temperature, h.Stop = q.Config.Temperature, q.Config.Stop
	if q.Config.MaxTokens != nil {
		h.MaxTokens = *q.Config.MaxTokens
	}
	if q.Config.Schema != nil {
		if q.Config.Type != "application/json" {
			return h, errors.New("responseJsonSchema needs responseMimeType application/json")
		}
		h.Format = &llm.Format{Schema: q.Config.Schema}
	}
	for _, t := range q.Tools {
		for _, f := range t.Functions {
			schema, _ := json.Marshal(f.Parameters)
			h.Tools = append(h.Tools, llm.Tool{Name: f.Name, Description: f.Description, Schema: schema})
		}
	}
	if q.ToolConfig != nil {
		if h.Choice, err = hearChoice(q.ToolConfig.Calling.Mode, q.ToolConfig.Calling.Allowed, len(h.Tools)); err != nil {
			return h, err
		}
	}
	if q.System != nil {
		if q.System.Role != "" || len(q.System.Parts) != 1 || q.System.Parts[0].Text == nil {
			return h, errors.New("systemInstruction takes text only")
		}
		h.System = *q.System.Parts[0].Text
	}
	return h, hearContents(&h, q.Contents)
}

func hearChoice(mode string, allowed []string, tools int) (llm.Choice, error) {
	switch {
	case tools == 0:
	case mode == "NONE" && allowed == nil:
		return llm.ChoiceNone, nil
	case mode == "ANY" && allowed == nil:
		return llm.ChoiceAny, nil
	case mode == "ANY" && len(allowed) == 1:
		return llm.Choice(allowed[0]), nil
	}
	return "", fmt.Errorf("functionCallingConfig %s %v with %d tools", mode, allowed, tools)
}

func hearContents(h *llmtest.Heard, contents []theirContent) error {
	before := ""
	calls := 0 // that have no answer
	for _, c := range contents {
		if c.Role == before || c.Role != "user" && c.Role != "model" || len(c.Parts) == 0 {
			return fmt.Errorf("role %q after %q, %d parts: user and model take turns", c.Role, before, len(c.Parts))
		}
		before = c.Role
		m := llm.Message{Role: llm.RoleUser}
		if c.Role == "model" {
			m.Role = llm.RoleAssistant
		}
		for _, p := range c.Parts {
			switch {
			case p.Thought || p.Code != nil:
			case p.Call != nil:
				args, _ := json.Marshal(p.Call.Args)
				m.Parts = append(m.Parts, llm.Part{Call: &llm.ToolCall{ID: p.Call.ID, Name: p.Call.Name, Arguments: args}})
				calls++
			case p.Response != nil:
				said := p.Response.Response.Output
				if said == nil {
					said = p.Response.Response.Error
				}
				if said == nil || p.Response.Name == "" {
					return errors.New("a functionResponse without a name or what was said")
				}
				m.Parts = append(m.Parts, llm.Part{Result: &llm.ToolResult{ID: p.Response.ID, Name: p.Response.Name, Text: *said}})
				calls--
			case p.Data != nil:
				m.Parts = append(m.Parts, llm.Part{Image: &llm.Image{Type: p.Data.Type, Data: p.Data.Data}})
			case p.Text != nil:
				m.Parts = append(m.Parts, llm.Part{Text: *p.Text})
			default:
				return errors.New("a part without data")
			}
		}
		if m.Role == llm.RoleUser && calls != 0 {
			return errors.New("the number of function responses must be that of the calls")
		}
		h.Messages = append(h.Messages, m)
	}
	return nil
}

type doc = map[string]any

func theirUsage(u llm.Usage) doc {
	return doc{
		"promptTokenCount": u.Input, "cachedContentTokenCount": u.Cached, "candidatesTokenCount": u.Output - u.Thoughts,
		"thoughtsTokenCount": u.Thoughts, "totalTokenCount": u.Input + u.Output, "promptTokensDetails": []doc{{"modality": "TEXT", "tokenCount": u.Input}},
	}
}

func theirFinish(f llm.Finish) string {
	switch f {
	case llm.FinishLength:
		return "MAX_TOKENS"
	case llm.FinishRefused:
		return "PROHIBITED_CONTENT"
	case llm.FinishOther:
		return "MALFORMED_FUNCTION_CALL"
	}
	return "STOP"
}

// piece is a response of parts; finish empty: there is more.
func piece(a llm.Response, finish string, usage llm.Usage, parts ...doc) string {
	candidate := doc{"content": doc{"role": "model", "parts": parts}, "index": 0}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	out, _ := json.Marshal(doc{"candidates": []doc{candidate}, "usageMetadata": theirUsage(usage), "modelVersion": a.Model, "responseId": a.ID})
	return string(out)
}

func theirCalls(a llm.Response) (out []doc) {
	for _, c := range a.Message.Calls() {
		out = append(out, doc{"functionCall": doc{"id": c.ID, "name": c.Name, "args": c.Arguments}})
	}
	return out
}

func whole(a llm.Response) string {
	parts := []doc{{"thought": true, "text": "Hm."}}
	if text := a.Message.Text(); text != "" {
		parts = append(parts, doc{"text": text})
	}
	return piece(a, theirFinish(a.Finish), a.Usage, append(parts, theirCalls(a)...)...)
}

func events(a llm.Response) []string {
	out := []string{piece(a, "", llm.Usage{Input: a.Usage.Input}, doc{"thought": true, "text": "Hm."})}
	for _, p := range llmtest.Pieces(a.Message.Text()) {
		out = append(out, piece(a, "", llm.Usage{Input: a.Usage.Input, Output: 1}, doc{"text": p}))
	}
	for _, c := range theirCalls(a) {
		out = append(out, piece(a, "", llm.Usage{Input: a.Usage.Input, Output: 1}, c))
	}
	out = append(out, piece(a, theirFinish(a.Finish), a.Usage, doc{"text": ""}))
	for i := range out {
		out[i] = "data: " + out[i] + "\r\n\r\n"
	}
	return out
}

func refusals() map[string]llmtest.Refusal {
	refusal := func(code int, status, message string, details ...doc) llmtest.Refusal {
		body, _ := json.MarshalIndent(doc{"error": doc{"code": code, "message": message, "status": status, "details": details}}, "", "  ")
		return llmtest.Refusal{Status: code, Body: string(body)}
	}
	perDay := doc{
		"@type":      "type.googleapis.com/google.rpc.QuotaFailure",
		"violations": []doc{{"quotaMetric": "x", "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}},
	}
	delay := doc{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38.5s"}
	listed := refusal(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
	listed.Body = "[" + listed.Body + "]"
	return map[string]llmtest.Refusal{
		pawl.CodeInvalid: refusal(400, "INVALID_ARGUMENT", "Unable to process input image"),
		pawl.CodeForbidden: refusal(400, "INVALID_ARGUMENT", "API key not valid: $KEY. Please pass a valid API key.",
			doc{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}),
		pawl.CodeForbidden + " too": refusal(403, "PERMISSION_DENIED", "Permission denied on the project"),
		llm.CodeRateLimited:         refusal(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", delay),
		llm.CodeQuota:               refusal(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", perDay, delay),
		llm.CodeRetired:             refusal(404, "NOT_FOUND", "models/x is not found for API version v1beta"),
		llm.CodeTooLong:             refusal(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
		pawl.CodeUnavailable:        refusal(500, "INTERNAL", "An internal error has occurred."),
		pawl.CodeTimeout:            refusal(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),

		pawl.CodeUnavailable + " in a list": listed,
	}
}
