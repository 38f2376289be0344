package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"pawl"
	"pawl/internal/codec"
	"pawl/ports/llm"
)

// Verdict is what a person answers who is asked to approve a call.
type Verdict struct {
	Approve bool   `json:"approve"`
	Reason  string `json:"reason,omitempty"` // shown to the model where it is refused
}

// Approval is what a person is asked to approve: the data of the question. Hash is of server, tool and arguments; it is part of
// the question's key, so that another call is another question.
type Approval struct {
	Server      string          `json:"server"`
	Tool        string          `json:"tool"` // by the server's name for it
	Description string          `json:"description,omitempty"`
	Arguments   json.RawMessage `json:"arguments"`
	Hash        string          `json:"hash"`
}

// maxDescription bounds what is shown of a server's own words, which may be made to persuade.
const maxDescription = 500

// Guard is a Box in one execution of a node, in which it remembers what was approved: a call whose tool is not marked as read-only is
// made only after Admit. Put its Admit into llm.LoopOptions:
//
//	g := box.Guard()
//	llm.Loop(ctx, "work", model, request, g, llm.LoopOptions{Admit: g.Admit})
type Guard struct {
	*Box

	mu       sync.Mutex
	approved map[hash]bool
}

// Guard begins one execution's use of the box.
func (b *Box) Guard() *Guard { return &Guard{Box: b, approved: map[hash]bool{}} }

// Admit asks a person whether a call may be made, where its tool is not marked as read-only, and parks the run meanwhile. The
// question is bound to the call by the hash of its server, its tool and its arguments: with others it is asked again. What it
// returns, if anything, is why the call is not made. key is the call's. It stands outside the function of a pawl.Do.
//
// Nobody is asked about a call that needs no approval, or that Call would refuse anyway.
func (g *Guard) Admit(ctx context.Context, key string, c llm.ToolCall) (refused string, err error) {
	looks := ctx
	if errors.Is(context.Cause(ctx), pawl.ErrParked) { // beside a question that parks the run, this one is still to be put
		looks = context.WithoutCancel(ctx)
	}
	o, args, wrong, err := g.admit(looks, c)
	if err != nil || wrong != "" || o.tool.ReadOnly {
		return wrong, err
	}
	h := hashOf(o, args)
	v, err := pawl.Ask[Verdict](ctx, key+"/approve/"+h.String(), pawl.Question{
		Text:    "May " + o.tool.Name + " of " + o.server.Name() + " be called so?",
		Choices: []string{"yes", "no"},
		Data: Approval{Server: o.server.Name(), Tool: o.tool.Name, Description: Cut(o.tool.Description, maxDescription), Arguments: args,
			Hash: h.String()},
	})
	switch {
	case err != nil:
		return "", err
	case !v.Approve:
		return strings.TrimSuffix("a person has refused this call: "+v.Reason, ": "), nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.approved[h] = true
	return "", nil
}

// Call calls a tool that is marked as read-only, or whose call was admitted. For the rest see Box.Call.
func (g *Guard) Call(ctx context.Context, c llm.ToolCall) (llm.ToolResult, error) {
	return g.call(ctx, c, func(h hash) bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.approved[h]
	})
}

// hash tells a call by its server, its tool and its exact arguments.
type hash [sha256.Size]byte

func (h hash) String() string { return hex.EncodeToString(h[:]) }

func hashOf(o offer, args []byte) hash {
	return sha256.Sum256(bytes.Join([][]byte{[]byte(o.server.Name()), []byte(o.tool.Name), args}, []byte{0}))
}

// canonical is the arguments of a call in one form, in which they are approved and sent: an object without space, its keys in order,
// its numbers as they were written.
func canonical(raw []byte) ([]byte, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return []byte("{}"), nil // so models write that there are none
	}
	if err := codec.Check(raw); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var args map[string]any
	if err := d.Decode(&args); err != nil || args == nil {
		return nil, errors.New("they are not a JSON object")
	}
	return codec.Encode(args)
}
