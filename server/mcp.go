package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pawl"
)

// MCPOptions of a server of the Model Context Protocol. The zero value works.
type MCPOptions struct {
	Version string        // of the program
	Wait    time.Duration // how long a call waits for a run, where it does not say so itself; 0: 5 s
}

// The longest that a call may wait for a run. A client gives up on calls that last.
const maxWait = 60 * time.Second

// KeyMeta is the name in a call's _meta of the idempotency key of the run that it starts.
const KeyMeta = "pawl/key"

// ServeMCP speaks the protocol with one client until that hangs up or ctx is done. Every workflow is a tool, and so is what reads
// and steers runs: run_get, run_list, run_answer, run_cancel, run_retry. A call that starts a run answers with its output when it
// ends soon, else with its id.
//
// What a caller can mend, such as an input that does not fit, is the result of its call, marked as an error. An error of the
// protocol says that this side is at fault, or that there is no such tool.
func ServeMCP(ctx context.Context, runs pawl.Runs, in io.Reader, out io.Writer, o MCPOptions) error {
	s, err := newMCP(ctx, runs, o)
	if err != nil {
		return err
	}
	err = s.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: nopWriteCloser{out}})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }

// instructions tell a model how the tools belong together.
const instructions = "Each workflow is a tool that starts a durable run. A run that is not at its end when the call returns goes on by itself: " +
	"ask for it with run_get. Where its status is \"waiting\" and it has questions, put them to the person, never answer for them, and give " +
	"the answer with run_answer. run_cancel ends a run."

// newMCP makes the server. Whatever waits in it ends with life.
func newMCP(life context.Context, runs pawl.Runs, o MCPOptions) (*sdk.Server, error) {
	if o.Wait == 0 {
		o.Wait = 5 * time.Second
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
	workflows, err := runs.Workflows(life)
	if err != nil {
		return nil, err
	}
	d := &desk{life: life, runs: runs, wait: o.Wait}
	s := sdk.NewServer(&sdk.Implementation{Name: "pawl", Title: "Pawl", Version: o.Version}, &sdk.ServerOptions{
		Instructions: instructions, Logger: slog.New(slog.DiscardHandler), Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	taken := map[string]bool{}
	for _, t := range d.steering() {
		taken[t.tool.Name] = true
		s.AddTool(t.tool, t.call)
	}
	for i, w := range workflows {
		if slices.ContainsFunc(workflows[i+1:], func(o pawl.WorkflowInfo) bool { return o.Name == w.Name }) {
			continue // an older version: new runs get the last one
		}
		name := toolName(w.Name)
		if taken[name] {
			return nil, &pawl.Error{Code: pawl.CodeInvalid, Op: "mcp", Text: fmt.Sprintf("workflow %s: there is a tool %s already", w.Name, name)}
		}
		taken[name] = true
		t := d.starting(name, w)
		s.AddTool(t.tool, t.call)
	}
	return s, nil
}

// toolName is a workflow's name as a tool may have it.
func toolName(workflow string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", r) {
			return r
		}
		return '_'
	}, workflow[:min(len(workflow), 128)])
}

// offer is a tool with what it does.
type offer struct {
	tool *sdk.Tool
	call sdk.ToolHandler
}

// handle makes a handler of a function of a call's arguments, which it may not know any of beside.
func (d *desk) handle(do func(ctx context.Context, r *sdk.CallToolRequest) (view, error)) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(d.life, stop)()
		v, err := do(ctx, r)
		if err != nil {
			return refusal(err)
		}
		return shown(v, v.failed)
	}
}

// shown is a view as a result: as structured content, and as its text for clients that know nothing else.
func shown(v any, failed bool) (*sdk.CallToolResult, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(raw)}}, StructuredContent: json.RawMessage(raw), IsError: failed}, nil
}

// refusal is an error as the protocol wants it: for the caller, who may mend it, as a result; else as the protocol's own.
func refusal(err error) (*sdk.CallToolResult, error) {
	e := pawl.Coded(err)
	switch e.Code {
	case pawl.CodeInternal, pawl.CodeUnavailable, pawl.CodeCancelled:
		data, _ := json.Marshal(map[string]string{"code": e.Code})
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: e.Error(), Data: data}
	}
	return shown(map[string]any{"error": fault{Code: e.Code, Text: e.Error()}}, true)
}
