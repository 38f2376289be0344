package tools

import (
	"context"
	"errors"
	"slices"

	"pawl"
	"pawl/ports/llm"
)

// Limits that hold for every server.
const (
	MaxTools     = 512      // that a server may list
	MaxArguments = 64 << 10 // bytes of a call's arguments
	MaxResult    = 64 << 10 // bytes of a result's text, where a server's configuration sets none; what is longer is cut, and says so
)

// The codes of this port's errors, beside pawl's own: CodeTimeout (no answer in time), CodeUnavailable (the server is not there, or
// went away), CodeForbidden (nobody has approved the call, or the server does not let us in) and CodeCancelled.
const CodeProtocol = "protocol" // the server answered what its protocol does not allow, or refused a request by its rules

// ErrClosed is what a closed server answers.
var ErrClosed = errors.New("tools: the server is closed")

// Tool is one thing that a server offers, with what the server says of it.
type Tool struct {
	llm.Tool
	ReadOnly   bool // it changes nothing
	Idempotent bool // the same call again changes nothing more
}

// Server offers tools. It is safe for concurrent use, and makes one attempt: it never retries by itself.
type Server interface {
	// Name tells servers apart: see New for what it may be.
	Name() string
	// Tools lists what it offers now.
	Tools(ctx context.Context) ([]Tool, error)
	// Call calls a tool by the server's own name for it and answers within a bounded time, whatever the server does. What the tool
	// itself says, its failure too, is a result; an error says that there is none. It is retryable only where the call was not
	// made, or may be made again.
	Call(ctx context.Context, c llm.ToolCall) (llm.ToolResult, error)
	// Close ends it and what it has started.
	Close() error
}

// Failed is the result of a call that had none: data for the model, which may do better.
func Failed(c llm.ToolCall, text string) llm.ToolResult {
	return llm.ToolResult{ID: c.ID, Name: c.Name, Text: text, Failed: true}
}

// Only is a server without the tools that are not named: they are neither listed nor called.
func Only(s Server, names ...string) Server { return only{s, slices.Clone(names)} }

type only struct {
	Server
	names []string
}

func (o only) Tools(ctx context.Context) ([]Tool, error) {
	all, err := o.Server.Tools(ctx)
	return slices.DeleteFunc(slices.Clone(all), func(t Tool) bool { return !slices.Contains(o.names, t.Name) }), err
}

func (o only) Call(ctx context.Context, c llm.ToolCall) (llm.ToolResult, error) {
	if !slices.Contains(o.names, c.Name) {
		return llm.ToolResult{}, &pawl.Error{Code: pawl.CodeForbidden, Op: "call", Text: "tool " + c.Name + " of " + o.Name() + " is not allowed"}
	}
	return o.Server.Call(ctx, c)
}
