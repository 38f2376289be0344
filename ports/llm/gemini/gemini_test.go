package gemini_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"testing"
	"time"

	"pawl"
	"pawl/internal/codec"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestLaw: Gemini and whoever speaks like OpenAI, Workers AI too, are behind one contract (R-000-07).
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
	if !bytes.Equal(h[0].Body, h[1].Body) {
		t.Errorf("only the address of a stream is another:\n%s\n%s", h[0].Body, h[1].Body)
	}
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

// TestSignatures: what Gemini has signed goes back as it came and where it came, also over a recording, and parts of kinds that we
// have no word for too. Ids that are ours do not.
func TestSignatures(t *testing.T) {
	t.Parallel()
	parts := `{"thought":true,"text":"Hm.","thoughtSignature":"c2ln+/0="},{"text":"I look."},` +
		`{"functionCall":{"name":"now","args":{"a":1.50}},"thoughtSignature":"c2lnMQ=="},{"functionCall":{"name":"now","args":{}}},` +
		`{"executableCode":{"language":"PYTHON","code":"1"}},{"text":"","thoughtSignature":"c2lnMg=="}`
	want := []string{
		`{"thought":true,"text":"Hm.","thoughtSignature":"c2ln+/0="}`, `{"text":"I look."}`,
		`{"functionCall":{"name":"now","args":{"a":1.50}},"thoughtSignature":"c2lnMQ=="}`, `{"functionCall":{"name":"now","args":{}}}`,
		`{"executableCode":{"language":"PYTHON","code":"1"}}`, `{"text":"","thoughtSignature":"c2lnMg=="}`,
	}
	for name, body := range map[string]string{
		"whole": `{"candidates":[{"content":{"parts":[` + parts + `]},"finishReason":"STOP"}],"responseId":"r"}`,
		"stream": "data: {\"candidates\":[{\"content\":{\"parts\":[" + parts + "]}}],\"responseId\":\"r\"}\n\n" +
			"data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n",
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
		if err := json.Unmarshal(recorded, &said); err != nil {
			t.Fatal(err)
		}
		calls := said.Calls()
		if said.Text() != "I look." || len(calls) != 2 || calls[0].ID == calls[1].ID || resp.Finish != llm.FinishCalls {
			t.Errorf("%s: %+v", name, resp)
		}
		p := llmtest.NewProvider(t, wire()).Play(llmtest.Scene{Answer: llm.Response{Finish: llm.FinishStop}})
		r := llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "Hello?"), said, {Role: llm.RoleTool, Parts: []llm.Part{
			{Result: &llm.ToolResult{ID: calls[0].ID, Name: "now", Text: "1"}}, {Result: &llm.ToolResult{ID: calls[1].ID, Name: "now", Text: "2"}},
		}}}}
		if _, err := p.Model(llmtest.Setup{}).Generate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		var sent struct {
			Contents []struct{ Parts []json.RawMessage }
		}
		if err := json.Unmarshal(p.Heard()[0].Body, &sent); err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			if i >= len(sent.Contents[1].Parts) || string(sent.Contents[1].Parts[i]) != w {
				t.Errorf("%s: part %d of %s, want %s", name, i, sent.Contents[1].Parts, w)
			}
		}
		if bytes.Contains(p.Heard()[0].Body, []byte("pawl-")) {
			t.Errorf("an id of ours was sent: %s", p.Heard()[0].Body)
		}
	}
}

// TestAnotherVendorsParts: what another vendor wanted back is not sent to this one.
func TestAnotherVendorsParts(t *testing.T) {
	t.Parallel()
	p := llmtest.NewProvider(t, wire()).Play(llmtest.Scene{Answer: llm.Response{Finish: llm.FinishStop}})
	other := json.RawMessage(`{"anthropic":{"type":"thinking","thinking":"Hm.","signature":"x"}}`)
	r := llm.Request{Messages: []llm.Message{
		llm.Text(llm.RoleUser, "Hello?"), {Role: llm.RoleAssistant, Parts: []llm.Part{{Opaque: other}, {Text: "Hi.", Opaque: other}}}, llm.Text(llm.RoleUser, "So?"),
	}}
	if _, err := p.Model(llmtest.Setup{}).Generate(t.Context(), r); err != nil || bytes.Contains(p.Heard()[0].Body, []byte("thinking")) {
		t.Errorf("%s, %v", p.Heard()[0].Body, err)
	}
}

// TestBlocked: a question that is refused has no candidate, and that is no broken answer.
func TestBlocked(t *testing.T) {
	t.Parallel()
	body := `{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":5,"totalTokenCount":5}}`
	for _, stream := range []bool{false, true} {
		if stream {
			body = "data: " + body + "\n\n"
		}
		if got, err := ask(t, body, stream); err != nil || got.Finish != llm.FinishRefused || got.Usage.Input != 5 || got.Message.Text() != "" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := ask(t, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}]}}]}\n\n", true); llm.Code(err) != pawl.CodeUnavailable {
		t.Errorf("a stream without a finishReason: %v", err)
	}
}

// TestRetryDelay: Google says in the body how long it wants to be left alone.
func TestRetryDelay(t *testing.T) {
	t.Parallel()
	refusal := refusals()[llm.CodeRateLimited]
	p := llmtest.NewProvider(t, wire()).Play(llmtest.Scene{Refusal: &refusal})
	_, err := p.Model(llmtest.Setup{}).Generate(t.Context(), llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "Hello?")}})
	if after, ok := pawl.Retryable(err); !ok || after != 38500*time.Millisecond {
		t.Errorf("%s, %v, %v", after, ok, err)
	}
}

// TestNames: a tuned model stands elsewhere.
func TestNames(t *testing.T) {
	t.Parallel()
	p := llmtest.NewProvider(t, wire()).Play(llmtest.Scene{Answer: llm.Response{Finish: llm.FinishStop}})
	if _, err := p.Model(llmtest.Setup{Name: "models/x"}).Generate(t.Context(), llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "x")}}); err != nil || p.Heard()[0].Model != "x" {
		t.Error(err)
	}
}
