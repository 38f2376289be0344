package openai_test

import (
	"net/http"
	"strings"
	"testing"

	"pawl"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
	"pawl/ports/llm/openai"
)

// TestQuirks: what endpoints that call themselves compatible answer beside what is described.
func TestQuirks(t *testing.T) {
	t.Parallel()
	usage := `"usage":{"prompt_tokens":1,"completion_tokens":2}`
	for _, c := range []struct {
		name, body string
		stream     bool
		text       string
		calls      string // id name arguments, with | between
		finish     llm.Finish
	}{
		{name: "the object itself, where a form was wanted", text: `{"b":1, "a":[]}`, finish: llm.FinishStop,
			body: `{"choices":[{"index":0,"message":{"content":{"b":1, "a":[]}},"finish_reason":"stop"}],` + usage + `}`},
		{name: "a list of parts", text: "one two", finish: llm.FinishStop,
			body: `{"choices":[{"message":{"content":[{"type":"text","text":"one "},{"type":"text","text":"two"}]},"finish_reason":"stop"}]}`},
		{name: "calls, and stop", calls: "c1 now {}", finish: llm.FinishCalls,
			body: `{"choices":[{"message":{"content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"now","arguments":""}}]},"finish_reason":"stop"}]}`},
		{name: "calls without ids, arguments as an object", calls: `r-0 now {"a":1}|r-1 now {"a":1}`, finish: llm.FinishCalls,
			body: `{"id":"r","choices":[{"message":{"tool_calls":[{"function":{"name":"now","arguments":{"a":1}}},{"function":{"name":"now","arguments":{"a":1}}}]},"finish_reason":"tool_calls"}]}`},
		{name: "a refusal beside nothing", text: "I won't.", finish: llm.FinishRefused,
			body: `{"choices":[{"message":{"content":null,"refusal":"I won't."},"finish_reason":"stop"}]}`},
		{name: "arguments that are no JSON", calls: `c1 now "{\"a\":"`, finish: llm.FinishLength,
			body: `{"choices":[{"message":{"tool_calls":[{"id":"c1","function":{"name":"now","arguments":"{\"a\":"}}]},"finish_reason":"length"}]}`},
		{name: "stream: all calls of index 0", stream: true, calls: "c1 now {}|c2 later {}", finish: llm.FinishCalls,
			body: `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"now","arguments":"{}"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c2","function":{"name":"later","arguments":"{}"}}]},"finish_reason":"stop"}]}

data: [DONE]

`},
		{name: "stream: calls without index", stream: true, calls: `c1 now {"a":1}|c2 now {}`, finish: llm.FinishCalls,
			body: `data: {"choices":[{"delta":{"tool_calls":[{"id":"c1","function":{"name":"now","arguments":"{\"a\""}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":":1}"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"id":"c2","function":{"name":"now","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}

`},
		{name: "stream: no [DONE], but an end", stream: true, text: "Hi", finish: llm.FinishStop,
			body: "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ask(t, c.body, c.stream)
			if err != nil {
				t.Fatal(err)
			}
			var calls []string
			for _, call := range got.Message.Calls() {
				calls = append(calls, call.ID+" "+call.Name+" "+string(call.Arguments))
			}
			if got.Message.Text() != c.text || strings.Join(calls, "|") != c.calls || got.Finish != c.finish {
				t.Errorf("%q, %q, %s", got.Message.Text(), calls, got.Finish)
			}
		})
	}
}

// ask has a body answered as it is.
func ask(t *testing.T, body string, stream bool) (llm.Response, error) {
	t.Helper()
	p := llmtest.NewProvider(t, wire(openai.Compatible))
	kind := "application/json"
	if stream {
		kind = "text/event-stream"
	}
	p.Play(llmtest.Scene{Refusal: &llmtest.Refusal{Status: 200, Header: http.Header{"Content-Type": {kind}}, Body: body}})
	r := llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "Hello?")}}
	if stream {
		return p.Model(llmtest.Setup{}).Stream(t.Context(), r, func(llm.Delta) {})
	}
	return p.Model(llmtest.Setup{}).Generate(t.Context(), r)
}

// TestNoEnd: an answer that does not say why it ends is none, also where the connection was closed in good order; and an error
// may come with status 200, or in a stream, in each of its forms.
func TestNoEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body   string
		stream bool
		code   string
	}{
		{"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n", true, pawl.CodeUnavailable},
		{"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n", true, pawl.CodeUnavailable},
		{"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}\n\n", true, pawl.CodeUnavailable},
		{"data: {\"choices\":7}\n\n", true, pawl.CodeUnavailable},
		{`{"choices":[{"message":{"content":"Hi"},"finish_reason":null}]}`, false, pawl.CodeUnavailable},
		{`{"choices":[]}`, false, pawl.CodeUnavailable},
		{`{"error":{"message":"too many","code":429}}`, false, llm.CodeRateLimited},
		{"data: {\"error\":{\"message\":\"bad\",\"type\":\"BadRequestError\",\"code\":400}}\n\n", true, pawl.CodeInvalid},
		{"data: {\"error\":{\"message\":\"no more\",\"type\":\"insufficient_quota\",\"code\":null}}\n\n", true, llm.CodeQuota},
		{"data: {\"error\":{\"message\":\"slow down\",\"code\":\"rate_limit_exceeded\"}}\n\n", true, llm.CodeRateLimited},
		{"data: {\"error\":\"gone\"}\n\n", true, pawl.CodeUnavailable},
	} {
		if _, err := ask(t, c.body, c.stream); llm.Code(err) != c.code {
			t.Errorf("%s: %v, want %s", c.body, err, c.code)
		}
	}
}

// TestWorkersForm: a form is asked for whole, and told in one piece.
func TestWorkersForm(t *testing.T) {
	t.Parallel()
	p := llmtest.NewProvider(t, wire(openai.WorkersAI)).Play(llmtest.Scene{Answer: llm.Response{
		Finish: llm.FinishStop, Message: llm.Text(llm.RoleAssistant, `{"a":1}`),
	}})
	r := llm.Request{
		Messages: []llm.Message{llm.Text(llm.RoleUser, "Hello?")},
		Format:   &llm.Format{Name: "f", Schema: []byte(`{"type":"object","properties":{"a":{"type":"integer"}}}`)},
	}
	var told []string
	got, err := p.Model(llmtest.Setup{}).Stream(t.Context(), r, func(d llm.Delta) { told = append(told, d.Text) })
	if err != nil || got.Message.Text() != `{"a":1}` || len(told) != 1 || told[0] != `{"a":1}` || p.Heard()[0].Stream {
		t.Errorf("%+v, %q, %v", got, told, err)
	}
	if _, err := p.Model(llmtest.Setup{}).Stream(t.Context(), llm.Request{Messages: r.Messages}, func(llm.Delta) {}); err != nil || !p.Heard()[1].Stream {
		t.Errorf("text is streamed: %v", err)
	}
}
