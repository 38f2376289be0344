package gemini

import (
	"encoding/json"
	"strings"

	"pawl/ports/llm"
)

// request is the body, as https://ai.google.dev/api/generate-content has it.
type request struct {
	System     *content    `json:"systemInstruction,omitempty"`
	Contents   []content   `json:"contents"`
	Tools      []tools     `json:"tools,omitempty"`
	ToolConfig *toolConfig `json:"toolConfig,omitempty"`
	Config     *config     `json:"generationConfig,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []any  `json:"parts"` // part, or one that goes back as it came
}

type part struct {
	Text      *string   `json:"text,omitempty"`
	Data      *data     `json:"inlineData,omitempty"`
	Call      *call     `json:"functionCall,omitempty"`
	Response  *response `json:"functionResponse,omitempty"`
	Signature string    `json:"thoughtSignature,omitempty"`
}

type data struct {
	Type string `json:"mimeType"`
	Data []byte `json:"data"`
}

type call struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type response struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
}

type tools struct {
	Functions []function `json:"functionDeclarations"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type toolConfig struct {
	Calling calling `json:"functionCallingConfig"`
}

type calling struct {
	Mode    string   `json:"mode"`
	Allowed []string `json:"allowedFunctionNames,omitempty"`
}

type config struct {
	Temperature *float64        `json:"temperature,omitempty"`
	MaxTokens   int             `json:"maxOutputTokens,omitempty"`
	Stop        []string        `json:"stopSequences,omitempty"`
	Seed        *int64          `json:"seed,omitempty"`
	Type        string          `json:"responseMimeType,omitempty"`
	Schema      json.RawMessage `json:"responseJsonSchema,omitempty"`
}

func body(r llm.Request) request {
	out := request{Contents: contents(r.Messages)}
	if r.System != "" {
		out.System = &content{Parts: []any{part{Text: &r.System}}}
	}
	if len(r.Tools) > 0 {
		var all tools
		for _, t := range r.Tools {
			all.Functions = append(all.Functions, function{t.Name, t.Description, t.Schema})
		}
		out.Tools, out.ToolConfig = []tools{all}, choice(r.Choice)
	}
	c := config{Temperature: r.Temperature, MaxTokens: r.MaxTokens, Stop: r.Stop, Seed: r.Seed}
	if r.Format != nil {
		c.Type, c.Schema = "application/json", r.Format.Schema
	}
	if c.Temperature != nil || c.MaxTokens != 0 || c.Stop != nil || c.Seed != nil || c.Schema != nil {
		out.Config = &c
	}
	return out
}

func choice(c llm.Choice) *toolConfig {
	switch c {
	case llm.ChoiceAuto:
		return nil
	case llm.ChoiceNone:
		return &toolConfig{calling{Mode: "NONE"}}
	case llm.ChoiceAny:
		return &toolConfig{calling{Mode: "ANY"}}
	}
	return &toolConfig{calling{Mode: "ANY", Allowed: []string{string(c)}}}
}

// contents are what the user and the model said, in turn: what tools have answered comes from the user.
func contents(ms []llm.Message) []content {
	out := []content{}
	for _, m := range ms {
		role := "user"
		if m.Role == llm.RoleAssistant {
			role = "model"
		}
		var parts []any
		for _, p := range m.Parts {
			if sent := sentPart(p); sent != nil {
				parts = append(parts, sent)
			}
		}
		switch last := len(out) - 1; {
		case len(parts) == 0:
		case last >= 0 && out[last].Role == role:
			out[last].Parts = append(out[last].Parts, parts...)
		default:
			out = append(out, content{role, parts})
		}
	}
	return out
}

// opaque is what we keep with a part: its signature (https://ai.google.dev/gemini-api/docs/thought-signatures), or the part itself
// where it is of a kind that this port has no word for.
type opaque struct {
	Gemini struct {
		Signature string          `json:"signature,omitempty"`
		Part      json.RawMessage `json:"part,omitempty"`
	} `json:"gemini"`
}

func sentPart(p llm.Part) any {
	var back opaque
	_ = json.Unmarshal(p.Opaque, &back) // another vendor's is none of ours
	out := part{Signature: back.Gemini.Signature}
	switch {
	case back.Gemini.Part != nil:
		return back.Gemini.Part
	case p.Image != nil:
		out.Data = &data{p.Image.Type, p.Image.Data}
	case p.Call != nil:
		out.Call = &call{theirID(p.Call.ID), p.Call.Name, p.Call.Object()}
	case p.Result != nil:
		said := "output"
		if p.Result.Failed {
			said = "error"
		}
		out.Response = &response{theirID(p.Result.ID), p.Result.Name, map[string]string{said: p.Result.Text}}
	case p.Text != "" || out.Signature != "":
		out.Text = &p.Text
	default:
		return nil
	}
	return out
}

// ownID begins the ids of calls to which Gemini has given none. It does not know them.
const ownID = "pawl-"

func theirID(id string) string {
	if strings.HasPrefix(id, ownID) {
		return ""
	}
	return id
}
