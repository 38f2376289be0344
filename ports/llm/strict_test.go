package llm_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"pawl/ports/llm"
)

// TestStrict: what becomes of a schema where every key must be required, and where it need not.
func TestStrict(t *testing.T) {
	t.Parallel()
	all := llm.Strict{Drop: []string{"$schema", "maxLength"}, Refuse: []string{"oneOf", "not"}, Required: true, Recursive: true}
	some := llm.Strict{Drop: []string{"minimum"}}
	for _, c := range []struct {
		name   string
		strict llm.Strict
		in     string
		want   string // empty: there is none
	}{
		{"order", all, `{"$schema":"x","type":"object","properties":{"z":{"type":"string","maxLength":3},"a":{"type":"integer"}},"required":["a","z"]}`,
			`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}},"required":["z","a"],"additionalProperties":false}`},
		{"optional", all, `{"type":"object","properties":{"a":{"type":"string","enum":["x"]},"b":{"$ref":"#/$defs/b"},"c":{"anyOf":[{"type":"string"},{"type":"integer"}]},"d":{"type":["null","string"]},"e":{"const":1}},"$defs":{"b":{"type":"number"}}}`,
			`{"type":"object","properties":{"a":{"type":["string","null"],"enum":["x",null]},"b":{"anyOf":[{"$ref":"#/$defs/b"},{"type":"null"}]},"c":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]},"d":{"type":["null","string"]},"e":{"anyOf":[{"const":1},{"type":"null"}]}},"$defs":{"b":{"type":"number"}},"additionalProperties":false,"required":["a","b","c","d","e"]}`},
		{"inside", all, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"type":"null"}}}}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"type":"null"}},"additionalProperties":false,"required":["b"]}}},"required":["a"],"additionalProperties":false}`},
		{"not required", some, `{"type":"object","properties":{"a":{"type":"number","minimum":1.50},"minimum":{"type":"number"}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"type":"number"},"minimum":{"type":"number"}},"required":["a"],"additionalProperties":false}`},
		{"nothing in it", all, `{"type":"object","properties":{}}`, `{"type":"object","properties":{},"additionalProperties":false,"required":[]}`},
		{"recursive", all, `{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"required":["n"],"$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"required":["n"]}}}`,
			`{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"required":["n"],"$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"required":["n"],"additionalProperties":false}},"additionalProperties":false}`},
		{"recursive where it may not", some, `{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}}}}}`, ``},
		{"twice is not recursive", some, `{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"string"}},"additionalProperties":false}`},
		{"of itself", some, `{"type":"object","properties":{"n":{"$ref":"#"}}}`, ``},
		{"any key", all, `{"type":"object","additionalProperties":{"type":"string"}}`, ``},
		{"any key too", all, `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":true}`, ``},
		{"any value", all, `{"type":"object","properties":{"a":{}}}`, ``},
		{"true", all, `{"type":"object","properties":{"a":true}}`, ``},
		{"a word that is refused", all, `{"type":"object","properties":{"a":{"type":"array","items":{"oneOf":[]}}}}`, ``},
		{"a key of that name", all, `{"type":"object","properties":{"not":{"type":"string"}},"required":["not"]}`,
			`{"type":"object","properties":{"not":{"type":"string"}},"required":["not"],"additionalProperties":false}`},
		{"no object", all, `{"type":"array","items":{"type":"string"}}`, ``},
		{"no JSON", all, `{"type":"object"`, ``},
		{"no schema", all, `[`, ``},
	} {
		got, ok := c.strict.Write(json.RawMessage(c.in))
		if ok != (c.want != "") || string(got) != c.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", c.name, ok, got, c.want)
		}
	}
}

// TestArguments: whatever a model writes for arguments can be recorded, and sent back.
func TestArguments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"":               {`{}`, `{}`},
		` {"a": 1.50}`:   {`{"a": 1.50}`, `{"a": 1.50}`},
		`{"a":`:          {`"{\"a\":"`, `{"text":"{\"a\":"}`},
		`{"a":1,"a":2}`:  {`"{\"a\":1,\"a\":2}"`, `{"text":"{\"a\":1,\"a\":2}"}`},
		`{"a":"\ud800"}`: {`"{\"a\":\"\\ud800\"}"`, `{"text":"{\"a\":\"\\ud800\"}"}`},
		"[1]":            {`[1]`, `{"text":[1]}`},
		"a\xff":          {"\"a\uFFFD\"", "{\"text\":\"a\uFFFD\"}"},
	} {
		got := llm.Arguments(text)
		object := llm.ToolCall{Arguments: got}.Object()
		var a, b any
		if !same(t, got, want[0], &a) || !same(t, object, want[1], &b) || !json.Valid(got) {
			t.Errorf("%q: %s, %s", text, got, object)
		}
	}
}

func same(t *testing.T, got json.RawMessage, want string, v any) bool {
	t.Helper()
	var w any
	if json.Unmarshal(got, v) != nil || json.Unmarshal([]byte(want), &w) != nil {
		return false
	}
	a, _ := json.Marshal(v)
	b, _ := json.Marshal(w)
	return bytes.Equal(a, b)
}
