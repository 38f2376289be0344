package anthropic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"pawl/internal/codec"
	"pawl/internal/rest"
	"pawl/ports/llm"
)

// reply is a whole response, as https://platform.claude.com/docs/en/api/messages has it.
type reply struct {
	Type    string            `json:"type"`
	ID      string            `json:"id"`
	Model   string            `json:"model"`
	Content []json.RawMessage `json:"content"`
	Stop    string            `json:"stop_reason"`
	Usage   usage             `json:"usage"`
}

type usage struct {
	Input   *int64 `json:"input_tokens"` // without what the cache has read or written
	Written *int64 `json:"cache_creation_input_tokens"`
	Read    *int64 `json:"cache_read_input_tokens"`
	Output  *int64 `json:"output_tokens"`
}

// event is a piece of one, as https://platform.claude.com/docs/en/build-with-claude/streaming has it. New kinds may come at any time,
// and say nothing to us.
type event struct {
	Type    string          `json:"type"`
	Message reply           `json:"message"`
	Index   int             `json:"index"`
	Block   json.RawMessage `json:"content_block"`
	Delta   struct {
		Type      string `json:"type"`
		Text      string `json:"text"`
		JSON      string `json:"partial_json"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
		Stop      string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage           `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// said is a block of an answer.
type said struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`

	raw   json.RawMessage
	input strings.Builder
}

// thought is a block that was streamed, as it goes back.
type thought struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

// answer is what is put together of a response's pieces.
type answer struct {
	streamed  bool
	id, model string
	blocks    []*said
	stop      string
	ended     bool
	usage     usage
}

func (a *answer) whole(raw json.RawMessage) error {
	var r reply
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("an answer of another form: %w", err)
	}
	if r.Type == "error" || r.Type == "" {
		return &rest.Refused{Body: raw}
	}
	a.id, a.model, a.stop, a.usage, a.ended = r.ID, r.Model, r.Stop, r.Usage, true
	for _, b := range r.Content {
		if err := a.begin(b); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) begin(raw json.RawMessage) error {
	b := &said{raw: raw}
	if err := json.Unmarshal(raw, b); err != nil {
		return fmt.Errorf("a block of another form: %w", err)
	}
	a.blocks = append(a.blocks, b)
	return nil
}

// add takes an event of a stream, and tells its text.
func (a *answer) add(raw []byte, tell func(llm.Delta)) error {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("an event of another form: %w", err)
	}
	switch e.Type {
	case "message_start":
		a.id, a.model, a.usage = e.Message.ID, e.Message.Model, e.Message.Usage
	case "content_block_start":
		if e.Index != len(a.blocks) {
			return errors.New("the blocks of the answer are not in order")
		}
		return a.begin(e.Block)
	case "content_block_delta":
		if e.Index < 0 || e.Index >= len(a.blocks) {
			return errors.New("a piece of a block that did not begin")
		}
		b := a.blocks[e.Index]
		b.Text += e.Delta.Text
		b.Thinking += e.Delta.Thinking
		b.Signature += e.Delta.Signature
		b.input.WriteString(e.Delta.JSON)
		if e.Delta.Text != "" {
			tell(llm.Delta{Text: e.Delta.Text})
		}
	case "message_delta": // its usage is the whole so far, as far as it is said again
		if e.Delta.Stop != "" {
			a.stop = e.Delta.Stop
		}
		a.usage = usage{
			cmp.Or(e.Usage.Input, a.usage.Input), cmp.Or(e.Usage.Written, a.usage.Written), cmp.Or(e.Usage.Read, a.usage.Read),
			cmp.Or(e.Usage.Output, a.usage.Output),
		}
	case "message_stop":
		a.ended = true
		return rest.ErrDone
	case "error", "":
		return &rest.Refused{Body: raw}
	}
	return nil
}

// finishes are the reasons to stop; what is not in it is another.
var finishes = map[string]llm.Finish{
	"end_turn": llm.FinishStop, "stop_sequence": llm.FinishStop, "tool_use": llm.FinishCalls, "max_tokens": llm.FinishLength,
	"model_context_window_exceeded": llm.FinishLength, "refusal": llm.FinishRefused,
}

// response is the whole of it.
func (a *answer) response(ref llm.Ref) (llm.Response, error) {
	if a.stop == "" || !a.ended {
		return llm.Response{}, errors.New("the answer has no end")
	}
	out := llm.Response{
		ID: a.id, Model: a.model, Finish: llm.FinishOther, From: ref, Message: llm.Message{Role: llm.RoleAssistant},
		Usage: llm.Usage{
			Input: count(a.usage.Input) + count(a.usage.Written) + count(a.usage.Read), Output: count(a.usage.Output), Cached: count(a.usage.Read),
		},
	}
	if f, known := finishes[a.stop]; known {
		out.Finish = f
	}
	for _, b := range a.blocks {
		if p, ok := a.part(b); ok {
			out.Message.Parts = append(out.Message.Parts, p)
		}
	}
	return out, nil
}

func count(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// part is a block in this port's words; what the model thought is kept to go back.
func (a *answer) part(b *said) (llm.Part, bool) {
	switch b.Type {
	case "text":
		return llm.Part{Text: b.Text}, b.Text != ""
	case "tool_use":
		input := string(b.Input)
		if a.streamed {
			input = b.input.String()
		}
		return llm.Part{Call: &llm.ToolCall{ID: b.ID, Name: b.Name, Arguments: llm.Arguments(input)}}, true
	case "thinking", "redacted_thinking":
		raw := b.raw
		if a.streamed && b.Type == "thinking" {
			var err error
			if raw, err = codec.Encode(thought{b.Type, b.Thinking, b.Signature}); err != nil {
				return llm.Part{}, false
			}
		}
		if codec.Check(raw) != nil {
			return llm.Part{}, false // it could not be kept
		}
		kept, err := codec.Encode(opaque{raw})
		return llm.Part{Opaque: kept}, err == nil
	}
	return llm.Part{}, false
}
