package tools_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pawl"
	"pawl/pawltest"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
	"pawl/ports/tools"
	"pawl/ports/tools/toolstest"
)

// work is a graph of one node that uses tools.
func work(node func(ctx context.Context, in string) (string, error), o ...pawl.NodeOptions) *pawl.Graph[string, string, string] {
	g := pawl.New[string, string, string]("work", pawl.Options{Version: "1"})
	n, done := g.Node("work", node, o...), g.Succeed("DONE")
	g.Start(n, func(in string) (string, error) { return in, nil })
	g.From(n).Otherwise(done)
	g.Finish(func(s string, _ pawl.Ending) (string, error) { return s, nil })
	return g
}

// hashed is what a call is known by to whoever approves it.
func hashed(server, tool, arguments string) string {
	sum := sha256.Sum256([]byte(server + "\x00" + tool + "\x00" + arguments))
	return hex.EncodeToString(sum[:])
}

// TestApproval: a person is asked once, about exactly this call; the verdict and who gave it are kept; a crash anywhere changes
// nothing.
func TestApproval(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer tools.Verdict
		want   string
		calls  int
	}{
		{"yes", tools.Verdict{Approve: true}, `{"n":1} false`, 1},
		{"no", tools.Verdict{Reason: "not today"}, "a person has refused this call: not today true", 0},
		{"no, silently", tools.Verdict{}, "a person has refused this call true", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := offering("a", tool("write", false))
			bx := box(t, s)
			g := work(func(ctx context.Context, in string) (string, error) {
				r, err := bx.Use(ctx, "k", call("a_write", ` { "n" : 1 } `))
				return fmt.Sprint(r.Text, " ", r.Failed), err
			})
			h := hashed("a", "write", `{"n":1}`)
			script := pawltest.Script{Answers: map[string][]any{"k/approve/" + h: {c.answer}}}
			r := pawltest.Run(t, g, "", script)
			if r.Output != c.want || len(s.Calls()) != c.calls {
				t.Errorf("%q after %d calls, want %q after %d", r.Output, len(s.Calls()), c.want, c.calls)
			}
			if len(r.Questions) != 1 {
				t.Fatalf("%d questions", len(r.Questions))
			}
			q, shown := r.Questions[0], tools.Approval{}
			if err := json.Unmarshal(q.Data, &shown); err != nil {
				t.Fatal(err)
			}
			if string(shown.Arguments) != `{"n":1}` || shown.Server != "a" || shown.Tool != "write" || shown.Hash != h {
				t.Errorf("shown: %+v", shown)
			}
			var kept tools.Verdict
			if err := json.Unmarshal(q.Answer, &kept); err != nil || kept != c.answer || !q.Closed {
				t.Errorf("kept: %s", q.Answer)
			}
			if end := pawltest.EveryCrash(t, g, "", script); end.Output != c.want {
				t.Errorf("with crashes: %q", end.Output)
			}
		})
	}
}

// TestReadOnlyAsksNobody, and neither does what would be refused anyway.
func TestReadOnlyAsksNobody(t *testing.T) {
	s := offering("a", tool("read", true), tool("write", false))
	bx := box(t, s)
	r := pawltest.Run(t, work(func(ctx context.Context, in string) (string, error) {
		read, err := bx.Use(ctx, "read", call("a_read", `{"n":1}`))
		if err != nil {
			return in, err
		}
		wrong, err := bx.Use(ctx, "wrong", call("a_write", `{"n":"one"}`))
		return read.Text + " " + wrong.Text, err
	}), "", pawltest.Script{Replay: true})
	if !strings.HasPrefix(r.Output, `{"n":1} the arguments do not fit`) || len(r.Questions) != 0 {
		t.Errorf("%q, %d questions", r.Output, len(r.Questions))
	}
}

// TestChangedArgumentsAskAgain: the node is tried again, and the call is another one: the approval of the first does not count.
func TestChangedArgumentsAskAgain(t *testing.T) {
	s := offering("a", tool("write", false))
	bx := box(t, s)
	var asked []string
	yes := func(q pawl.Open) any {
		var a tools.Approval
		_ = json.Unmarshal(q.Data, &a)
		asked = append(asked, string(a.Arguments))
		return tools.Verdict{Approve: true}
	}
	g := work(func(ctx context.Context, in string) (string, error) {
		n := pawl.Info(ctx).Try
		r, err := bx.Use(ctx, fmt.Sprint("k", n), call("a_write", fmt.Sprintf(`{"n":%d}`, n)))
		if err == nil && n == 1 {
			err = fmt.Errorf("after %s", r.Text)
		}
		return "done", err
	}, pawl.NodeOptions{Retry: pawl.Retry{Max: 1}})
	r := pawltest.Run(t, g, "", pawltest.Script{Answers: map[string][]any{
		"k1/approve/" + hashed("a", "write", `{"n":1}`): {yes},
		"k2/approve/" + hashed("a", "write", `{"n":2}`): {yes},
	}})
	if r.Output != "done" || fmt.Sprint(asked) != `[{"n":1} {"n":2}]` || len(s.Calls()) != 2 {
		t.Errorf("%q, asked %v, %d calls", r.Output, asked, len(s.Calls()))
	}
}

// TestLoopAsks: a model lets tools be used; what changes something waits for a person, two calls at once; other arguments than the
// approved ones are not called.
func TestLoopAsks(t *testing.T) {
	s := offering("a", tool("read", true), tool("write", false))
	bx := box(t, s)
	g := work(func(ctx context.Context, in string) (string, error) {
		m := llmtest.Func(func(_ int, r llm.Request) llmtest.Turn {
			if len(r.Messages) > 1 {
				return llmtest.Say("done")
			}
			return llmtest.Ask("1", "a_read", `{"n":1}`).And("2", "a_write", `{"n":2}`).And("3", "a_write", `{"n":3}`)
		})
		guard := bx.Guard()
		out, err := llm.Loop(ctx, "l", m, llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, in)}}, guard, llm.LoopOptions{Admit: guard.Admit})
		var results []string
		for _, m := range out.Messages {
			for _, p := range m.Parts {
				if p.Result != nil {
					results = append(results, p.Result.Text)
				}
			}
		}
		return strings.Join(results, "; "), err
	})
	approve := func(i int, n string, v tools.Verdict) (string, []any) {
		return fmt.Sprintf("l/1/admit[%d]/approve/%s", i, hashed("a", "write", n)), []any{v}
	}
	answers := map[string][]any{}
	k, v := approve(1, `{"n":2}`, tools.Verdict{Approve: true})
	answers[k] = v
	k, v = approve(2, `{"n":3}`, tools.Verdict{Reason: "too much"})
	answers[k] = v
	r := pawltest.Run(t, g, "?", pawltest.Script{Answers: answers})
	if want := `{"n":1}; {"n":2}; a person has refused this call: too much`; r.Output != want {
		t.Errorf("%q, want %q", r.Output, want)
	}
	if len(s.Calls()) != 2 || len(r.Questions) != 2 {
		t.Errorf("%d calls, %d questions", len(s.Calls()), len(r.Questions))
	}
}

// TestApprovalIsOfOneCall: a guard makes what it has admitted, and nothing that differs in server, tool or arguments; a tool that
// turns out to change something is asked about although it was listed as read-only before.
func TestApprovalIsOfOneCall(t *testing.T) {
	readOnly := true
	turning := &toolstest.Script{ID: "t", Offer: func() ([]tools.Tool, error) { return []tools.Tool{tool("turn", readOnly)}, nil }}
	bx := box(t, offering("a", tool("write", false), tool("delete", false)), offering("b", tool("write", false)), turning)
	g := work(func(ctx context.Context, in string) (string, error) {
		guard := bx.Guard()
		if _, err := guard.Admit(ctx, "k", call("a_write", `{"n":1}`)); err != nil {
			return in, err
		}
		if _, err := guard.Admit(ctx, "turn", call("t_turn", `{"n":1}`)); err != nil {
			return in, err
		}
		readOnly = false
		var refused []string
		for _, c := range []llm.ToolCall{
			call("a_write", `{"n":1}`), call("a_write", `{ "n" : 1 }`), call("a_write", `{"n":2}`), call("a_delete", `{"n":1}`), call("b_write", `{"n":1}`), call("t_turn", `{"n":1}`),
		} {
			if _, err := guard.Call(ctx, c); err != nil {
				refused = append(refused, c.Name+string(c.Arguments)+" "+pawl.Coded(err).Code)
			}
		}
		readOnly = true
		return strings.Join(refused, "; "), nil
	})
	r := pawltest.Run(t, g, "", pawltest.Script{Answers: map[string][]any{
		"k/approve/" + hashed("a", "write", `{"n":1}`): {tools.Verdict{Approve: true}},
	}})
	if want := `a_write{"n":2} forbidden; a_delete{"n":1} forbidden; b_write{"n":1} forbidden; t_turn{"n":1} forbidden`; r.Output != want {
		t.Errorf("%q, want %q", r.Output, want)
	}
}
