package anthropic

import (
	"cmp"
	"encoding/json"

	"pawl/ports/llm"
)

// request is the body, as https://platform.claude.com/docs/en/api/messages has it.
type request struct {
	Model       string        `json:"model"`
	MaxTokens   int           `json:"max_tokens"`
	System      string        `json:"system,omitempty"`
	Messages    []message     `json:"messages"`
	Tools       []tool        `json:"tools,omitempty"`
	Choice      *toolChoice   `json:"tool_choice,omitempty"`
	Output      *outputConfig `json:"output_config,omitempty"`
	Temperature *float64      `json:"temperature,omitempty"`
	Stop        []string      `json:"stop_sequences,omitempty"`
	Stream      bool          `json:"stream,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"` // block, or one that goes back as it came
}

type block struct {
	Type string `json:"type"`

	Text   string  `json:"text,omitempty"`
	Source *source `json:"source,omitempty"`

	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`

	CallID  string `json:"tool_use_id,omitempty"`
	Content string `json:"content,omitempty"`
	Failed  bool   `json:"is_error,omitempty"`
}

type source struct {
	Type  string `json:"type"`
	Media string `json:"media_type"`
	Data  []byte `json:"data"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"input_schema"`
}

type toolChoice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

type outputConfig struct {
	Format format `json:"format"`
}

type format struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// strict is the form of https://platform.claude.com/docs/en/build-with-claude/structured-outputs.
func strict() llm.Strict {
	return llm.Strict{
		Drop: []string{
			"$schema", "default", "examples", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
			"pattern", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
		},
		Refuse: []string{
			"oneOf", "allOf", "not", "if", "then", "else", "prefixItems", "contains", "patternProperties", "propertyNames",
			"dependentRequired", "dependentSchemas", "unevaluatedProperties",
		},
	}
}

// defaultTokens is what a response may have where the request says nothing: the format wants a number.
const defaultTokens = 8192

func (m *model) request(r llm.Request, stream bool) request {
	out := request{
		Model: m.ref.Model, MaxTokens: cmp.Or(r.MaxTokens, defaultTokens), System: r.System, Messages: messages(r.Messages),
		Temperature: r.Temperature, Stop: r.Stop, Stream: stream,
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, tool{t.Name, t.Description, t.Schema})
	}
	if len(r.Tools) > 0 {
		out.Choice = choice(r.Choice)
	}
	if f := r.Format; f != nil {
		if closed, ok := strict().Write(f.Schema); ok {
			out.Output = &outputConfig{format{"json_schema", closed}}
		} else { // there is no other way to ask for it
			if out.System != "" {
				out.System += "\n\n"
			}
			out.System += "Answer with one JSON value only, which has to fit this JSON Schema:\n" + string(f.Schema)
		}
	}
	return out
}

func choice(c llm.Choice) *toolChoice {
	switch c {
	case llm.ChoiceAuto:
		return nil
	case llm.ChoiceNone, llm.ChoiceAny:
		return &toolChoice{Type: string(c)}
	}
	return &toolChoice{"tool", string(c)}
}

// messages are what the user and the model said, in turn: what tools have answered comes from the user, all of it at once.
func messages(ms []llm.Message) []message {
	out := []message{}
	for _, m := range ms {
		role := "user"
		if m.Role == llm.RoleAssistant {
			role = "assistant"
		}
		var blocks []any
		for _, p := range m.Parts {
			if b := sentBlock(p); b != nil {
				blocks = append(blocks, b)
			}
		}
		switch last := len(out) - 1; {
		case len(blocks) == 0:
		case last >= 0 && out[last].Role == role:
			out[last].Content = append(out[last].Content, blocks...)
		default:
			out = append(out, message{role, blocks})
		}
	}
	return out
}

// opaque is what we keep for a block that this port has no word for: what the model thought, as it wants it back.
type opaque struct {
	Anthropic json.RawMessage `json:"anthropic"`
}

func sentBlock(p llm.Part) any {
	var back opaque
	_ = json.Unmarshal(p.Opaque, &back) // another vendor's is none of ours
	switch {
	case back.Anthropic != nil:
		return back.Anthropic
	case p.Image != nil:
		return block{Type: "image", Source: &source{"base64", p.Image.Type, p.Image.Data}}
	case p.Call != nil:
		return block{Type: "tool_use", ID: p.Call.ID, Name: p.Call.Name, Input: p.Call.Object()}
	case p.Result != nil:
		return block{Type: "tool_result", CallID: p.Result.ID, Content: p.Result.Text, Failed: p.Result.Failed}
	case p.Text != "":
		return block{Type: "text", Text: p.Text}
	}
	return nil
}
