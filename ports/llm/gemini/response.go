package gemini

import (
	"encoding/json"
	"errors"
	"fmt"

	"pawl/internal/codec"
	"pawl/internal/rest"
	"pawl/ports/llm"
)

// chunk is a response or a piece of one, as https://ai.google.dev/api/generate-content has them.
type chunk struct {
	ID         string `json:"responseId"`
	Model      string `json:"modelVersion"`
	Candidates []struct {
		Index   int `json:"index"`
		Content struct {
			Parts []json.RawMessage `json:"parts"`
		} `json:"content"`
		Finish string `json:"finishReason"`
	} `json:"candidates"`
	Feedback struct {
		Blocked string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt   int64 `json:"promptTokenCount"`
		Tools    int64 `json:"toolUsePromptTokenCount"`
		Cached   int64 `json:"cachedContentTokenCount"`
		Answer   int64 `json:"candidatesTokenCount"`
		Thoughts int64 `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
	Error json.RawMessage `json:"error"`
}

type answered struct {
	Text      *string `json:"text"`
	Thought   bool    `json:"thought"`
	Call      *call   `json:"functionCall"`
	Signature string  `json:"thoughtSignature"`
}

// answer is what is put together of a response's pieces.
type answer struct {
	id, model string
	parts     []llm.Part
	finish    string
	calls     int
	usage     llm.Usage
}

// add takes a piece, and tells its text. Usage is the whole so far, in every piece.
func (a *answer) add(raw json.RawMessage, tell func(llm.Delta)) error {
	var c chunk
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("an answer of another form: %w", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return &rest.Refused{Body: raw}
	}
	if c.ID != "" {
		a.id = c.ID
	}
	if c.Model != "" {
		a.model = c.Model
	}
	if u := c.Usage; u != nil {
		a.usage = llm.Usage{Input: u.Prompt + u.Tools, Output: u.Answer + u.Thoughts, Cached: u.Cached, Thoughts: u.Thoughts}
	}
	if c.Feedback.Blocked != "" {
		a.finish = "SAFETY" // what was asked is refused, and there is no candidate
	}
	for _, candidate := range c.Candidates {
		if candidate.Index != 0 {
			continue // we ask for one
		}
		if candidate.Finish != "" {
			a.finish = candidate.Finish
		}
		for _, p := range candidate.Content.Parts {
			if err := a.part(p, tell); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *answer) part(raw json.RawMessage, tell func(llm.Delta)) error {
	var p answered
	if err := json.Unmarshal(raw, &p); err != nil {
		return fmt.Errorf("a part of another form: %w", err)
	}
	switch {
	case p.Thought && p.Signature == "":
	case p.Thought, p.Text == nil && p.Call == nil:
		if codec.Check(raw) == nil { // else it cannot be kept
			a.keep(llm.Part{}, opaque{}, raw)
		}
	case p.Call != nil:
		id := p.Call.ID
		if id == "" {
			id = fmt.Sprintf("%s%s-%d", ownID, a.id, a.calls)
		}
		a.calls++
		a.keep(llm.Part{Call: &llm.ToolCall{ID: id, Name: p.Call.Name, Arguments: llm.Arguments(string(p.Call.Args))}}, signed(p.Signature), nil)
	default:
		if *p.Text != "" && tell != nil {
			tell(llm.Delta{Text: *p.Text})
		}
		last := len(a.parts) - 1
		switch {
		case p.Signature != "":
			a.keep(llm.Part{Text: *p.Text}, signed(p.Signature), nil)
		case *p.Text == "":
		case last >= 0 && a.parts[last].Call == nil && a.parts[last].Opaque == nil:
			a.parts[last].Text += *p.Text
		default:
			a.parts = append(a.parts, llm.Part{Text: *p.Text})
		}
	}
	return nil
}

func signed(signature string) (o opaque) {
	o.Gemini.Signature = signature
	return o
}

// keep appends a part with what goes back with it.
func (a *answer) keep(p llm.Part, o opaque, raw json.RawMessage) {
	o.Gemini.Part = raw
	if o.Gemini.Signature != "" || raw != nil {
		p.Opaque, _ = json.Marshal(o) // text and JSON: it cannot fail
	}
	a.parts = append(a.parts, p)
}

// finishes are the reasons to end; what is not in it is another.
var finishes = map[string]llm.Finish{
	"STOP": llm.FinishStop, "MAX_TOKENS": llm.FinishLength, "SAFETY": llm.FinishRefused, "RECITATION": llm.FinishRefused,
	"BLOCKLIST": llm.FinishRefused, "PROHIBITED_CONTENT": llm.FinishRefused, "SPII": llm.FinishRefused,
	"IMAGE_SAFETY": llm.FinishRefused, "IMAGE_PROHIBITED_CONTENT": llm.FinishRefused, "IMAGE_RECITATION": llm.FinishRefused,
}

// response is the whole of it.
func (a *answer) response(ref llm.Ref) (llm.Response, error) {
	if a.finish == "" {
		return llm.Response{}, errors.New("the answer has no end")
	}
	out := llm.Response{
		ID: a.id, Model: a.model, Finish: llm.FinishOther, Usage: a.usage, From: ref,
		Message: llm.Message{Role: llm.RoleAssistant, Parts: a.parts},
	}
	if f, known := finishes[a.finish]; known {
		out.Finish = f
	}
	if out.Finish == llm.FinishStop && a.calls > 0 {
		out.Finish = llm.FinishCalls
	}
	return out, nil
}
