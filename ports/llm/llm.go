package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"pawl/internal/codec"
)

// Model is one model of one provider, safe for concurrent use. Its errors are those of this package (see Fault); it makes one
// attempt and never retries.
type Model interface {
	Ref() Ref
	// Generate asks for a response, whole.
	Generate(ctx context.Context, r Request) (Response, error)
	// Stream asks for a response and hands out its text as it is written, in order, from the calling goroutine. What was handed
	// out is provisional: the response is what is returned, and where the stream breaks off there is an error and none.
	Stream(ctx context.Context, r Request, tell func(Delta)) (Response, error)
}

// Ref names a model as the configuration does.
type Ref struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

func (r Ref) String() string { return r.Provider + "/" + r.Model }

// Request is what a model is asked.
type Request struct {
	System   string    `json:"system,omitempty"` // instructions, apart from what is said
	Messages []Message `json:"messages"`

	Tools  []Tool  `json:"tools,omitempty"`
	Choice Choice  `json:"choice,omitempty"`
	Format *Format `json:"format,omitempty"` // nil: text

	MaxTokens   int      `json:"maxTokens,omitempty"` // of the response; 0: the model's own limit
	Temperature *float64 `json:"temperature,omitempty"`
	Seed        *int64   `json:"seed,omitempty"` // where the provider has such a thing
	Stop        []string `json:"stop,omitempty"`

	Within time.Duration `json:"-"` // how long one attempt may take; 0: as long as its context lasts
}

// Role is who said a message.
type Role string

// The roles of messages. What a tool has answered is said by RoleTool.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is what one of them said.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Part is one of Text, Image, Call and Result. Opaque is what a provider wants back unchanged with it.
type Part struct {
	Text   string          `json:"text,omitempty"`
	Image  *Image          `json:"image,omitempty"`
	Call   *ToolCall       `json:"call,omitempty"`
	Result *ToolResult     `json:"result,omitempty"`
	Opaque json.RawMessage `json:"opaque,omitempty"`
}

// Image is a picture, as its bytes. Type is its media type.
type Image struct {
	Type string `json:"type"`
	Data []byte `json:"data"`
}

// ToolCall asks for a tool. Arguments are a JSON object as the model wrote it, which may be anything else than what the tool takes.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Arguments are a tool's arguments as a provider hands them over: as text, which may be no JSON, or JSON that cannot be kept (see
// codec.Check). Such text becomes a JSON string, so that it can be recorded, and refused by whoever wants an object. No text at
// all are no arguments.
func Arguments(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	if text == "" {
		return json.RawMessage("{}")
	}
	if codec.Check([]byte(text)) == nil {
		return json.RawMessage(text)
	}
	return codec.AppendString(nil, strings.ToValidUTF8(text, "\uFFFD"))
}

// Object is the arguments as a JSON object, for providers that take nothing else back: what is none stands in it as "text".
func (c ToolCall) Object() json.RawMessage {
	if raw := bytes.TrimSpace(c.Arguments); len(raw) > 0 && raw[0] == '{' {
		return raw
	}
	if len(c.Arguments) == 0 {
		return json.RawMessage("{}")
	}
	return json.RawMessage(`{"text":` + string(c.Arguments) + `}`)
}

// ToolResult answers a ToolCall.
type ToolResult struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// Tool is what a model may ask for.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"` // of its arguments, an object
}

// Choice is what the model shall do with the tools: ChoiceAuto, ChoiceNone, ChoiceAny, or the name of one.
type Choice string

// The choices that are not a tool's name.
const (
	ChoiceAuto Choice = ""
	ChoiceNone Choice = "none"
	ChoiceAny  Choice = "any"
)

// Format asks for JSON. A provider may not keep to it, and one that wants every key to be required is told that the others may
// be null: a null for a key that is not required means that it is not there. See Structured.
type Format struct {
	Name   string          `json:"name"` // at most 64 of a to z, A to Z, 0 to 9, _ and -
	Schema json.RawMessage `json:"schema"`
}

// Response is what a model answered.
type Response struct {
	ID      string  `json:"id,omitempty"`
	Model   string  `json:"model,omitempty"` // as the provider names the one that answered
	Message Message `json:"message"`
	Finish  Finish  `json:"finish"`
	Usage   Usage   `json:"usage"`
	From    Ref     `json:"from"` // whom it was asked of
}

// Finish is why a response ends.
type Finish string

// Why responses end. Everything but FinishStop and FinishCalls means that the text is not a whole answer.
const (
	FinishStop    Finish = "stop"
	FinishCalls   Finish = "tool_calls"
	FinishLength  Finish = "length"
	FinishRefused Finish = "refused" // the model's own refusal, or the provider's filter
	FinishOther   Finish = "other"
)

// Usage counts tokens. Cached are those of Input that were read from a cache, Thoughts those of Output that are not shown.
type Usage struct {
	Input    int64 `json:"input"`
	Output   int64 `json:"output"`
	Cached   int64 `json:"cached,omitempty"`
	Thoughts int64 `json:"thoughts,omitempty"`
}

// Add sums what several responses took.
func (u Usage) Add(v Usage) Usage {
	return Usage{Input: u.Input + v.Input, Output: u.Output + v.Output, Cached: u.Cached + v.Cached, Thoughts: u.Thoughts + v.Thoughts}
}

// Delta is a piece of a response's text. Void: what was handed out before it is, since another attempt begins.
type Delta struct {
	Text string `json:"text"`
	Void bool   `json:"void,omitempty"`
}

// Text is a message that is only text.
func Text(role Role, text string) Message { return Message{Role: role, Parts: []Part{{Text: text}}} }

// Text is the text of a message, without what else is in it.
func (m Message) Text() string {
	var out string
	for _, p := range m.Parts {
		out += p.Text
	}
	return out
}

// Calls are the tools that a message asks for.
func (m Message) Calls() []ToolCall {
	var out []ToolCall
	for _, p := range m.Parts {
		if p.Call != nil {
			out = append(out, *p.Call)
		}
	}
	return out
}
