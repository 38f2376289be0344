package llmtest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"pawl/ports/llm"
)

// Everything is a request that has everything, for golden bodies.
func Everything() llm.Request {
	cool, seed := .25, int64(42)
	return llm.Request{
		System: "Be brief & exact <always>.", MaxTokens: 300, Temperature: &cool, Seed: &seed, Stop: []string{"END"},
		Tools: tools(), Choice: llm.ChoiceAny,
		Format: &llm.Format{Name: "verdict", Schema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"why": {"type": "string", "maxLength": 200},
				"score": {"type": "integer", "minimum": 0, "maximum": 100},
				"kind": {"type": "string", "enum": ["GOOD", "BAD"]},
				"seen": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "number"}}, "required": ["at"]}}
			},
			"required": ["why", "score"]
		}`)},
		Messages: []llm.Message{
			{Role: llm.RoleUser, Parts: []llm.Part{{Text: "What is it?"}, {Image: &llm.Image{Type: "image/png", Data: []byte("\x89PNG")}}}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{
				{Text: "I look."},
				{Call: &llm.ToolCall{ID: "call_1", Name: "look_up", Arguments: json.RawMessage(`{"word":"pawl"}`)}},
				{Call: &llm.ToolCall{ID: "call_2", Name: "now", Arguments: json.RawMessage(`"not { JSON"`)}},
			}},
			{Role: llm.RoleTool, Parts: []llm.Part{
				{Result: &llm.ToolResult{ID: "call_1", Name: "look_up", Text: "a catch"}},
				{Result: &llm.ToolResult{ID: "call_2", Name: "now", Text: "no such arguments", Failed: true}},
			}},
			llm.Text(llm.RoleUser, "So?"),
		},
	}
}

// Golden compares a body with a file, which is written anew where that is wanted.
func Golden(t *testing.T, file string, body []byte, update bool) {
	t.Helper()
	var got bytes.Buffer
	if err := json.Indent(&got, body, "", "\t"); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	if update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s: %v\ngot:\n%s", file, err, &got)
	}
}
