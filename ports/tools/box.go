package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"pawl"
	"pawl/internal/schema"
	"pawl/ports/llm"
)

// Box puts the tools of several servers before a model. It keeps nothing: what may be called is what the servers list when it is
// called. It is a toolbox of llm.Loop, and so is its Guard.
type Box struct{ servers []Server }

var (
	_ llm.Toolbox = (*Box)(nil)
	_ llm.Toolbox = (*Guard)(nil)
)

// New makes a box. The names of its servers are different, and of a to z, 0 to 9 and -, at most 24 of them: a tool is called
// SERVER_TOOL before a model.
func New(servers ...Server) (*Box, error) {
	seen := map[string]bool{}
	for _, s := range servers {
		switch name := s.Name(); {
		case !ServerName(name):
			return nil, &pawl.Error{Code: pawl.CodeInvalid, Text: fmt.Sprintf("a server of tools cannot be called %q: take a to z, 0 to 9 and -, at most %d of them", name, maxServer)}
		case seen[name]:
			return nil, &pawl.Error{Code: pawl.CodeInvalid, Text: fmt.Sprintf("two servers of tools are called %s", name)}
		default:
			seen[name] = true
		}
	}
	return &Box{slices.Clone(servers)}, nil
}

const (
	maxServer = 24
	maxName   = 64 // what every provider of models takes
)

// ServerName says whether a server may be called so.
func ServerName(name string) bool {
	return name != "" && len(name) <= maxServer && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// offer is one tool as the model knows it.
type offer struct {
	name   string
	server Server
	tool   Tool
	schema *schema.Schema
}

// Tools lists what a model may call, the servers in their order. A server that cannot be asked is an error: a model that silently
// lacks half of its tools decides something else.
func (b *Box) Tools(ctx context.Context) ([]llm.Tool, error) {
	lists, errs := make([][]offer, len(b.servers)), make([]error, len(b.servers))
	var wg sync.WaitGroup
	for i, s := range b.servers {
		wg.Go(func() { lists[i], errs[i] = offers(ctx, s) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var out []llm.Tool
	for _, o := range slices.Concat(lists...) {
		out = append(out, llm.Tool{Name: o.name, Description: o.tool.Description, Schema: o.tool.Schema})
	}
	return out, nil
}

// offers is what a server offers, without what nobody could check or call: a second tool of a name, and one whose schema cannot be
// read.
func offers(ctx context.Context, s Server) ([]offer, error) {
	all, err := s.Tools(ctx)
	if err != nil {
		return nil, err
	}
	var out []offer
	seen := map[string]bool{}
	for _, t := range all {
		name := modelName(s.Name(), t.Name)
		compiled, err := schema.Compile(t.Schema)
		if err != nil || seen[name] {
			_ = pawl.Note(ctx, "tool_left_out", map[string]any{"server": s.Name(), "tool": t.Name, "error": fmt.Sprint(err)}) // outside a run nobody reads it
			continue
		}
		seen[name] = true
		out = append(out, offer{name, s, t, compiled})
	}
	return out, nil
}

// modelName is how a model calls a tool: of letters, digits, _ and -, the same for the same tool, and never that of another
// server's.
func modelName(server, tool string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, tool)
	name := server + "_" + clean
	if clean == tool && len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(tool))
	return name[:min(len(name), maxName-9)] + "_" + hex.EncodeToString(sum[:4])
}

// find is the tool that a model means; ok is false where there is none.
func (b *Box) find(ctx context.Context, name string) (o offer, ok bool, err error) {
	prefix, _, _ := strings.Cut(name, "_")
	for _, s := range b.servers {
		if s.Name() != prefix {
			continue
		}
		all, err := offers(ctx, s)
		if err != nil {
			return o, false, err
		}
		if i := slices.IndexFunc(all, func(o offer) bool { return o.name == name }); i >= 0 {
			return all[i], true, nil
		}
	}
	return o, false, nil
}

// admit finds the tool of a call and checks its arguments. wrong is what the model got wrong.
func (b *Box) admit(ctx context.Context, c llm.ToolCall) (o offer, args []byte, wrong string, err error) {
	o, ok, err := b.find(ctx, c.Name)
	switch {
	case err != nil:
	case !ok:
		wrong = fmt.Sprintf("there is no tool %.80q", c.Name)
	case len(c.Arguments) > MaxArguments:
		wrong = fmt.Sprintf("the arguments have %d bytes, at most %d are taken", len(c.Arguments), MaxArguments)
	default:
		var bad error
		if args, bad = canonical(c.Arguments); bad == nil {
			bad = o.schema.Check(args)
		}
		if bad != nil {
			wrong = "the arguments do not fit the tool's schema: " + Cut(bad.Error(), 1500)
		}
	}
	return o, args, wrong, err
}

// Call calls a tool that its server marks as read-only. Every other one is refused: a Guard asks a person about it first.
//
// It makes one attempt, and belongs into the function of a pawl.Do: inside a run it may be made again after a crash. What the model
// got wrong, such as a tool that is not offered or arguments that do not fit, is a result that says so, as a tool's own failure is.
func (b *Box) Call(ctx context.Context, c llm.ToolCall) (llm.ToolResult, error) {
	return b.call(ctx, c, func(hash) bool { return false })
}

func (b *Box) call(ctx context.Context, c llm.ToolCall, approved func(hash) bool) (llm.ToolResult, error) {
	o, args, wrong, err := b.admit(ctx, c)
	switch {
	case err != nil:
		return llm.ToolResult{}, err
	case wrong != "":
		return Failed(c, wrong), nil
	case !o.tool.ReadOnly && !approved(hashOf(o, args)):
		return llm.ToolResult{}, pawl.Permanent(&pawl.Error{Code: pawl.CodeForbidden, Op: "call",
			Text: "tool " + c.Name + " is not marked as read-only, and nobody has approved this call"})
	}
	r, err := o.server.Call(ctx, llm.ToolCall{ID: c.ID, Name: o.tool.Name, Arguments: args})
	r.ID, r.Name = c.ID, c.Name
	return r, err
}

// Use calls a tool inside a run: a person approves it first where that is wanted, and the result is recorded, as pawl.Do does. key
// is the call's. Outside a run it only calls.
func (b *Box) Use(ctx context.Context, key string, c llm.ToolCall, o ...pawl.CallOptions) (llm.ToolResult, error) {
	g := b.Guard()
	refused, err := g.Admit(ctx, key, c)
	switch {
	case err != nil:
		return llm.ToolResult{}, err
	case refused != "":
		return Failed(c, refused), nil
	}
	opt := slices.Concat(o, []pawl.CallOptions{{}})[0]
	if opt.For == nil {
		opt.For = asked{c.Name, string(c.Arguments)}
	}
	return pawl.Do(ctx, key, func(ctx context.Context) (llm.ToolResult, error) {
		pawl.Annotate(ctx, "gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", c.Name, "gen_ai.tool.call.id", c.ID)
		return g.Call(ctx, c)
	}, opt)
}

// asked is what is recorded of a call. The arguments are text: a model may have written anything.
type asked struct {
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
}

// Cut shortens a result's text to so many bytes, at the border of a character, and says so in it. What is not UTF-8 is replaced.
func Cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	kept := text[:most]
	for len(kept) > 0 && !utf8.ValidString(kept) {
		kept = kept[:len(kept)-1]
	}
	return fmt.Sprintf("%s\n[cut here: %d of %d bytes]", kept, len(kept), len(text))
}

// Close closes the servers.
func (b *Box) Close() error {
	var errs []error
	for _, s := range b.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
