package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"pawl"
	"pawl/ports/llm"
)

// Turn is one attempt at a scripted model: a response, or an error.
type Turn struct {
	llm.Response          // what is left out of it is filled in
	Pieces       []string // what is streamed: the text of the response, unless it says so itself; before an error too
	Hang         bool     // there is no end before the context's
	Err          error
}

// Say is a turn that answers with a text.
func Say(text string) Turn {
	return Turn{Response: llm.Response{Message: llm.Text(llm.RoleAssistant, text)}}
}

// Ask is a turn that asks for a tool. And adds others.
func Ask(id, tool, arguments string) Turn { return Turn{}.And(id, tool, arguments) }

// And makes a turn ask for one more tool.
func (t Turn) And(id, tool, arguments string) Turn {
	parts := append([]llm.Part{}, t.Message.Parts...)
	t.Message.Parts = append(parts, llm.Part{Call: &llm.ToolCall{ID: id, Name: tool, Arguments: json.RawMessage(arguments)}})
	return t
}

// Ends makes a turn end for another reason.
func (t Turn) Ends(why llm.Finish) Turn {
	t.Finish = why
	return t
}

// Fail is a turn that fails with an error of this port, after the pieces that were streamed.
func Fail(code string, pieces ...string) Turn {
	return Turn{Err: llm.Failure{Ref: llm.Ref{Provider: "script", Model: "script"}, Code: code, Text: "as the script says", After: -1}.Fault(), Pieces: pieces}
}

// Script is a model that answers as it is told and remembers what it was asked. It is safe for concurrent use.
type Script struct {
	Name llm.Ref // empty: script/script

	turn     func(n int, r llm.Request) Turn
	mu       sync.Mutex
	requests []llm.Request
}

// Turns is a model that takes these turns, one after the other. One more attempt is an error that nothing retries.
func Turns(turns ...Turn) *Script {
	return Func(func(n int, _ llm.Request) Turn {
		if n >= len(turns) {
			return Turn{Err: pawl.Permanent(fmt.Errorf("llmtest: attempt %d, and the script has %d turns", n+1, len(turns)))}
		}
		return turns[n]
	})
}

// Func is a model whose turns are made from the number of the attempt, from 0, and what it was asked.
func Func(turn func(n int, r llm.Request) Turn) *Script { return &Script{turn: turn} }

// Ref names the model.
func (s *Script) Ref() llm.Ref {
	if s.Name == (llm.Ref{}) {
		return llm.Ref{Provider: "script", Model: "script"}
	}
	return s.Name
}

// Requests are what the model was asked, in order.
func (s *Script) Requests() []llm.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]llm.Request{}, s.requests...)
}

// Generate takes the next turn.
func (s *Script) Generate(ctx context.Context, r llm.Request) (llm.Response, error) {
	return s.end(ctx, r, s.next(r))
}

// Stream takes the next turn and tells its pieces.
func (s *Script) Stream(ctx context.Context, r llm.Request, tell func(llm.Delta)) (llm.Response, error) {
	t := s.next(r)
	if t.Pieces == nil && t.Message.Text() != "" {
		t.Pieces = []string{t.Message.Text()}
	}
	for _, p := range t.Pieces {
		if ctx.Err() != nil {
			break
		}
		tell(llm.Delta{Text: p})
	}
	return s.end(ctx, r, t)
}

func (s *Script) next(r llm.Request) Turn {
	s.mu.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	return s.turn(n, r)
}

func (s *Script) end(ctx context.Context, asked llm.Request, t Turn) (llm.Response, error) {
	if asked.Within > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, asked.Within)
		defer stop()
	}
	if t.Hang {
		<-ctx.Done()
	}
	if err := context.Cause(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = llm.Failure{Ref: s.Ref(), Code: pawl.CodeTimeout, Text: "no answer in time", After: -1, Err: err}.Fault()
		}
		return llm.Response{}, err
	}
	if t.Err != nil {
		return llm.Response{}, t.Err
	}
	r := t.Response
	if r.Message.Parts == nil && t.Pieces != nil {
		r.Message = llm.Text(llm.RoleAssistant, strings.Join(t.Pieces, ""))
	}
	r.Message.Role = llm.RoleAssistant
	if r.Finish == "" {
		r.Finish = llm.FinishStop
		if len(r.Message.Calls()) > 0 {
			r.Finish = llm.FinishCalls
		}
	}
	if r.Usage == (llm.Usage{}) {
		r.Usage = llm.Usage{Input: 10, Output: 5}
	}
	if r.Model == "" {
		r.Model = s.Ref().Model
	}
	r.From = s.Ref()
	return r, nil
}
