package openai

import (
	"encoding/base64"
	"encoding/json"

	"pawl/ports/llm"
)

// request is the body, as https://platform.openai.com/docs/api-reference/chat/create has it.
type request struct {
	Model         string          `json:"model"`
	Messages      []message       `json:"messages"`
	Tools         []tool          `json:"tools,omitempty"`
	Choice        any             `json:"tool_choice,omitempty"`
	Format        *responseFormat `json:"response_format,omitempty"`
	MaxCompletion int             `json:"max_completion_tokens,omitempty"`
	MaxTokens     int             `json:"max_tokens,omitempty"`
	Temperature   *float64        `json:"temperature,omitempty"`
	Seed          *int64          `json:"seed,omitempty"`
	Stop          []string        `json:"stop,omitempty"`
	Stream        bool            `json:"stream,omitempty"`
	StreamOptions *streamOptions  `json:"stream_options,omitempty"`
}

type streamOptions struct {
	Usage bool `json:"include_usage"`
}

// message has its content also where it is empty: some endpoints want it beside tool calls.
type message struct {
	Role    string     `json:"role"`
	Content any        `json:"content"` // a text, or a list of parts
	Calls   []toolCall `json:"tool_calls,omitempty"`
	CallID  string     `json:"tool_call_id,omitempty"`
}

type part struct {
	Type  string    `json:"type"`
	Text  string    `json:"text,omitempty"`
	Image *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type chosen struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type responseFormat struct {
	Type   string `json:"type"`
	Schema any    `json:"json_schema"`
}

type namedSchema struct {
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

// strict is the form of https://platform.openai.com/docs/guides/structured-outputs. A schema that cannot have it is sent as it is,
// and the model held to it only as far as the endpoint does.
func strict() llm.Strict {
	return llm.Strict{
		Drop: []string{"$schema", "default", "examples", "minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties"},
		Refuse: []string{
			"oneOf", "allOf", "not", "if", "then", "else", "prefixItems", "contains", "patternProperties", "propertyNames",
			"dependentRequired", "dependentSchemas", "unevaluatedProperties",
		},
		Required: true, Recursive: true,
	}
}

// workersTokens is what a response of Workers AI may have where the request says nothing: with the 256 of its own, JSON is cut.
const workersTokens = 4096

func (m *model) request(r llm.Request, stream bool) request {
	out := request{Model: m.ref.Model, Messages: messages(r), Temperature: r.Temperature, Seed: r.Seed, Stop: r.Stop, Stream: stream}
	if stream {
		out.StreamOptions = &streamOptions{Usage: true}
	}
	switch {
	case m.dialect == Own:
		out.MaxCompletion = r.MaxTokens
	case m.dialect == WorkersAI && r.MaxTokens == 0:
		out.MaxTokens = workersTokens
	default:
		out.MaxTokens = r.MaxTokens
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, tool{"function", function{t.Name, t.Description, t.Schema}})
	}
	if len(r.Tools) > 0 {
		out.Choice = choice(r.Choice)
	}
	if f := r.Format; f != nil {
		out.Format = &responseFormat{"json_schema", f.Schema}
		if m.dialect != WorkersAI {
			named := namedSchema{Name: f.Name, Schema: f.Schema}
			if closed, ok := strict().Write(f.Schema); ok {
				named.Strict, named.Schema = true, closed
			}
			out.Format.Schema = named
		}
	}
	return out
}

func choice(c llm.Choice) any {
	switch c {
	case llm.ChoiceAuto:
		return nil
	case llm.ChoiceNone:
		return "none"
	case llm.ChoiceAny:
		return "required"
	}
	return chosen{"function", function{Name: string(c)}}
}

func messages(r llm.Request) []message {
	out := []message{}
	if r.System != "" {
		out = append(out, message{Role: "system", Content: r.System})
	}
	for _, m := range r.Messages {
		spoken := message{Role: string(m.Role), Content: content(m)}
		for _, p := range m.Parts {
			switch {
			case p.Result != nil:
				out = append(out, message{Role: "tool", CallID: p.Result.ID, Content: p.Result.Text})
			case p.Call != nil:
				spoken.Calls = append(spoken.Calls, toolCall{p.Call.ID, "function", functionCall{p.Call.Name, argumentText(p.Call.Arguments)}})
			}
		}
		if m.Role != llm.RoleTool {
			out = append(out, spoken)
		}
	}
	return out
}

// content is what a message says: text, or parts where there are pictures among it.
func content(m llm.Message) any {
	var parts []part
	pictures := false
	for _, p := range m.Parts {
		switch {
		case p.Image != nil:
			url := "data:" + p.Image.Type + ";base64," + base64.StdEncoding.EncodeToString(p.Image.Data)
			parts = append(parts, part{Type: "image_url", Image: &imageURL{url}})
			pictures = true
		case p.Text != "":
			parts = append(parts, part{Type: "text", Text: p.Text})
		}
	}
	if pictures {
		return parts
	}
	return m.Text()
}

// argumentText is a call's arguments as the text that they were: see llm.Arguments.
func argumentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
