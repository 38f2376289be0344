package anthropic_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"strings"
	"testing"

	"pawl"
	"pawl/internal/codec"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestLaw(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, wire())
}

// TestGolden: what is sent for a request that has everything.
func TestGolden(t *testing.T) {
	t.Parallel()
	p := llmtest.NewProvider(t, wire()).Play(llmtest.Scene{Answer: llm.Response{Finish: llm.FinishStop}})
	m := p.Model(llmtest.Setup{})
	if _, err := m.Generate(t.Context(), llmtest.Everything()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Stream(t.Context(), llmtest.Everything(), func(llm.Delta) {}); err != nil {
		t.Fatal(err)
	}
	h := p.Heard()
	llmtest.Golden(t, "testdata/request.json", h[0].Body, *update)
	llmtest.Golden(t, "testdata/stream.json", h[1].Body, *update)
}

// ask has a body answered as it is.
func ask(t *testing.T, body string, stream bool) (llm.Response, error) {
	t.Helper()
	kind := "application/json"
	if stream {
		kind = "text/event-stream"
	}
	p := llmtest.NewProvider(t, wire()).Play(llmtest.Scene{
		Refusal: &llmtest.Refusal{Status: 200, Header: http.Header{"Content-Type": {kind}}, Body: body},
	})
	r := llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "Hello?")}}
	if stream {
		return p.Model(llmtest.Setup{}).Stream(t.Context(), r, func(llm.Delta) {})
	}
	return p.Model(llmtest.Setup{}).Generate(t.Context(), r)
}

// TestThoughts: what the model thought goes back as it came and where it came, also over a recording, and to no other vendor.
func TestThoughts(t *testing.T) {
	t.Parallel()
	thought := `{"type":"thinking","thinking":"Hm, <so> \"é\".","signature":"c2ln+/0="}`
	hidden := `{"type":"redacted_thinking","data":"Zm9v"}`
	call := `{"type":"tool_use","id":"c1","name":"now","input":{"a":1.50}}`
	stream := []string{
		`{"type":"message_start","message":{"id":"m","model":"x","usage":{"input_tokens":3,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm, <so> "}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"\"é\"."}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln+/0="}}`,
		`{"type":"content_block_start","index":1,"content_block":` + hidden + `}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c1","name":"now","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1.50}"}}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}`,
		`{"type":"message_stop"}`,
	}
	for name, body := range map[string]string{
		"whole":  `{"type":"message","content":[` + thought + `,` + hidden + `,` + call + `],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":9}}`,
		"stream": "data: " + strings.Join(stream, "\n\ndata: ") + "\n\n",
	} {
		resp, err := ask(t, body, name == "stream")
		if err != nil {
			t.Fatal(err)
		}
		recorded, err := codec.Encode(resp.Message)
		if err != nil {
			t.Fatal(err)
		}
		var said llm.Message
		if err := json.Unmarshal(recorded, &said); err != nil || said.Text() != "" || len(said.Calls()) != 1 || resp.Usage != (llm.Usage{Input: 3, Output: 9}) {
			t.Fatalf("%s: %+v, %v", name, resp, err)
		}
		said.Parts = append(said.Parts, llm.Part{Opaque: json.RawMessage(`{"gemini":{"signature":"x"}}`)})
		p := llmtest.NewProvider(t, wire()).Play(llmtest.Scene{Answer: llm.Response{Finish: llm.FinishStop}})
		r := llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "Hello?"), said, {Role: llm.RoleTool, Parts: []llm.Part{
			{Result: &llm.ToolResult{ID: "c1", Name: "now", Text: "1"}},
		}}}}
		if _, err := p.Model(llmtest.Setup{}).Generate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		var sent struct {
			Messages []struct{ Content []json.RawMessage }
		}
		if err := json.Unmarshal(p.Heard()[0].Body, &sent); err != nil {
			t.Fatal(err)
		}
		got := string(bytes.Join([][]byte{sent.Messages[1].Content[0], sent.Messages[1].Content[1], sent.Messages[1].Content[2]}, []byte("\n")))
		if want := thought + "\n" + hidden + "\n" + call; got != want || len(sent.Messages[1].Content) != 3 {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestOpenForm: a schema that cannot be held to is asked for in words.
func TestOpenForm(t *testing.T) {
	t.Parallel()
	p := llmtest.NewProvider(t, wire()).Play(llmtest.Scene{Answer: llm.Response{Finish: llm.FinishStop}})
	schema := `{"type":"object","additionalProperties":{"type":"string"}}`
	for _, system := range []string{"", "Be brief."} {
		r := llm.Request{System: system, Messages: []llm.Message{llm.Text(llm.RoleUser, "x")}, Format: &llm.Format{Name: "f", Schema: json.RawMessage(schema)}}
		if _, err := p.Model(llmtest.Setup{}).Generate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		h := p.Heard()[len(p.Heard())-1]
		if h.Format != nil || !strings.HasPrefix(h.System, system) || !strings.HasSuffix(h.System, schema) {
			t.Errorf("%+v", h)
		}
	}
}

// TestNoEnd: a stream that does not come to its end is no answer, and an error is told by its type alone.
func TestNoEnd(t *testing.T) {
	t.Parallel()
	failed := func(kind string) string {
		return `data: {"type":"error","error":{"type":"` + kind + `","message":"prompt is too long"}}` + "\n\n"
	}
	for body, code := range map[string]string{
		`data: {"type":"message_start","message":{}}` + "\n\n":                               pawl.CodeUnavailable,
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n\n":         pawl.CodeUnavailable,
		`data: {"type":"message_stop"}` + "\n\n":                                             pawl.CodeUnavailable,
		`data: {"type":"content_block_delta","index":3,"delta":{"text":"x"}}` + "\n\n":       pawl.CodeUnavailable,
		`data: {"type":"content_block_delta","index":-1,"delta":{"text":"x"}}` + "\n\n":      pawl.CodeUnavailable,
		`data: {"type":"content_block_start","index":3,"content_block":{}}` + "\n\n":         pawl.CodeUnavailable,
		`data: {"type":"content_block_start","index":0,"content_block":{"text":7}}` + "\n\n": pawl.CodeUnavailable,
		`data: [` + "\n\n":              pawl.CodeUnavailable,
		failed("rate_limit_error"):      llm.CodeRateLimited,
		failed("invalid_request_error"): llm.CodeTooLong,
		failed("authentication_error"):  pawl.CodeForbidden,
		failed("something_new"):         pawl.CodeUnavailable,
	} {
		if _, err := ask(t, body, true); llm.Code(err) != code {
			t.Errorf("%s: %v, want %s", body, err, code)
		}
	}
	for _, body := range []string{`{"type":"message","content":[]}`, `{"type":"message","content":[{"type":"text","text":7}],"stop_reason":"end_turn"}`, `{"type":"message","content":7}`} {
		if _, err := ask(t, body, false); llm.Code(err) != pawl.CodeUnavailable {
			t.Errorf("%s: %v", body, err)
		}
	}
}
