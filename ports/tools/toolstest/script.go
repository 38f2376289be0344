package toolstest

import (
	"context"
	"slices"
	"sync"

	"pawl/ports/llm"
	"pawl/ports/tools"
)

// Script is a server that answers as it is told, and remembers what was called. It is free to lie: what uses a server has to be
// tested against one that does.
type Script struct {
	ID     string
	Offer  func() ([]tools.Tool, error)                 // nil: nothing
	Answer func(c llm.ToolCall) (llm.ToolResult, error) // nil: the arguments

	mu    sync.Mutex
	calls []llm.ToolCall
}

var _ tools.Server = (*Script)(nil)

// Name is ID.
func (s *Script) Name() string { return s.ID }

// Tools are what the script offers.
func (s *Script) Tools(ctx context.Context) ([]tools.Tool, error) {
	if err := ctx.Err(); err != nil || s.Offer == nil {
		return nil, err
	}
	return s.Offer()
}

// Call asks the script.
func (s *Script) Call(ctx context.Context, c llm.ToolCall) (llm.ToolResult, error) {
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return llm.ToolResult{}, err
	}
	if s.Answer == nil {
		return llm.ToolResult{ID: c.ID, Name: c.Name, Text: string(c.Arguments)}, nil
	}
	return s.Answer(c)
}

// Calls are what was called so far, in order.
func (s *Script) Calls() []llm.ToolCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Close does nothing.
func (s *Script) Close() error { return nil }
