package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"pawl/internal/rest"
	"pawl/ports/llm"
)

// chunk is a response or a piece of one, as https://platform.openai.com/docs/api-reference/chat has them: what it says stands in
// message, or, piece by piece, in delta.
type chunk struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		Index   int    `json:"index"`
		Message *said  `json:"message"`
		Delta   *said  `json:"delta"`
		Finish  string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type said struct {
	Content json.RawMessage `json:"content"`
	Refusal string          `json:"refusal"`
	Calls   []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type usage struct {
	Input        int64 `json:"prompt_tokens"`
	Output       int64 `json:"completion_tokens"`
	InputDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	OutputDetails struct {
		Thoughts int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// answer is what is put together of a response's pieces.
type answer struct {
	id, model string
	text      strings.Builder
	refused   bool
	calls     []call
	finish    string
	usage     llm.Usage
}

type call struct {
	index     int
	id, name  string
	arguments strings.Builder
}

// add takes a piece, and tells its text.
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
		a.usage = llm.Usage{Input: u.Input, Output: u.Output, Cached: u.InputDetails.Cached, Thoughts: u.OutputDetails.Thoughts}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // we ask for one
		}
		if choice.Finish != "" {
			a.finish = choice.Finish
		}
		if choice.Message != nil {
			for i := range choice.Message.Calls {
				choice.Message.Calls[i].Index = &i // a whole one lists them
			}
			a.say(choice.Message, tell)
		}
		if choice.Delta != nil {
			a.say(choice.Delta, tell)
		}
	}
	return nil
}

func (a *answer) say(s *said, tell func(llm.Delta)) {
	a.refused = a.refused || s.Refusal != ""
	text := plain(s.Content) + s.Refusal
	a.text.WriteString(text)
	if text != "" && tell != nil {
		tell(llm.Delta{Text: text})
	}
	for _, c := range s.Calls {
		to := a.call(c.Index, c.ID)
		if c.ID != "" {
			to.id = c.ID
		}
		to.name += c.Function.Name
		to.arguments.WriteString(plain(c.Function.Arguments))
	}
}

// call is the one that a piece belongs to: that of its index, or the last where there is none. Some endpoints number all alike;
// then another id is another call.
func (a *answer) call(index *int, id string) *call {
	at := len(a.calls)
	if index != nil {
		at = *index
	} else if id == "" && at > 0 {
		at = a.calls[at-1].index
	}
	for i := len(a.calls) - 1; i >= 0; i-- {
		if c := &a.calls[i]; c.index == at && (id == "" || c.id == "" || c.id == id) {
			return c
		}
	}
	a.calls = append(a.calls, call{index: at})
	return &a.calls[len(a.calls)-1]
}

// plain is a text, the text of a list of parts, or, as some endpoints answer where a form was wanted, JSON as it is.
func plain(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(raw, &parts) == nil && len(parts) > 0 && parts[0].Type == "text" {
		for _, p := range parts {
			text += p.Text
		}
		return text
	}
	return string(raw)
}

// finishes are the reasons to end; what is not in it is another.
var finishes = map[string]llm.Finish{
	"stop": llm.FinishStop, "tool_calls": llm.FinishCalls, "function_call": llm.FinishCalls, "length": llm.FinishLength,
	"content_filter": llm.FinishRefused,
}

// response is the whole of it.
func (a *answer) response(ref llm.Ref) (llm.Response, error) {
	if a.finish == "" {
		return llm.Response{}, errors.New("the answer has no end")
	}
	out := llm.Response{ID: a.id, Model: a.model, Finish: llm.FinishOther, Usage: a.usage, From: ref, Message: llm.Message{Role: llm.RoleAssistant}}
	if f, known := finishes[a.finish]; known {
		out.Finish = f
	}
	if a.text.Len() > 0 {
		out.Message.Parts = append(out.Message.Parts, llm.Part{Text: a.text.String()})
	}
	for i := range a.calls {
		c := &a.calls[i]
		if c.id == "" {
			c.id = fmt.Sprintf("%s-%d", a.id, i)
		}
		out.Message.Parts = append(out.Message.Parts, llm.Part{Call: &llm.ToolCall{ID: c.id, Name: c.name, Arguments: llm.Arguments(c.arguments.String())}})
	}
	switch {
	case a.refused:
		out.Finish = llm.FinishRefused
	case out.Finish == llm.FinishStop && len(a.calls) > 0:
		out.Finish = llm.FinishCalls // as some endpoints say it
	}
	return out, nil
}
