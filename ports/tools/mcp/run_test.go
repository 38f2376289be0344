package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pawl"
	"pawl/pawltest"
	"pawl/ports/llm"
	"pawl/ports/tools"
	"pawl/ports/tools/mcp"
)

// realTime plays runs in real time, in which processes live.
type realTime struct{ *testing.T }

// TestFaultRunsSurvive: whatever a server does to a run, the call has the outcome that the how-to says, and the run goes on and may use
// the server again.
func TestFaultRunsSurvive(t *testing.T) {
	for _, c := range []struct {
		mode string
		call llm.ToolCall
		want string // the code of the call's error, or how its result begins
	}{
		{"bench", call("bench_hang", `{}`), "timeout"},
		{"pings", call("bench_hang", `{}`), "timeout"},
		{"bench", call("bench_die", `{}`), "unavailable"},
		{"prints noise", call("bench_echo", `{"text":"said"}`), "said"},
		{"floods", call("bench_echo", `{"text":"said"}`), "said"},
		{"answers nobody", call("bench_echo", `{"text":"said"}`), "said"},
		{"bench", call("bench_big", `{"bytes":9000000}`), "the answer is larger"},
		{"bench", call("bench_fail", `{}`), "there is no such file"},
		{"bench", call("bench_nothing", `{}`), "there is no tool"},
		{"bench", call("bench_echo", `{"text":1}`), "the arguments do not fit"},
		{"slow start", call("bench_echo", `{"text":"said"}`), "said"},
		{"asks back", call("bench_require", `{}`), "client does not support"},
	} {
		t.Run(c.mode+" "+c.call.Name, func(t *testing.T) {
			bx, err := tools.New(process(t, c.mode, "", func(o *mcp.Config) {
				if c.want == "timeout" {
					o.Timeout = 3 * time.Second
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
			r := pawltest.Run(realTime{t}, survives(bx), c.call, pawltest.Script{Within: time.Minute})
			if len(r.Output) < len(c.want) || r.Output[:len(c.want)] != c.want {
				t.Errorf("%s, output %q, want %q: %v", r.Run.Status, r.Output, c.want, r.Run.Err)
			}
		})
	}
}

// survives makes a call, with one more try, and then another one.
func survives(bx *tools.Box) *pawl.Graph[llm.ToolCall, llm.ToolCall, string] {
	g := pawl.New[llm.ToolCall, llm.ToolCall, string]("survives", pawl.Options{Version: "1"})
	first := g.Node("first", func(ctx context.Context, c llm.ToolCall) (llm.ToolCall, error) {
		r, err := bx.Use(ctx, "call", c, pawl.CallOptions{Retry: pawl.Retry{Max: 1, First: time.Millisecond}})
		c.ID = r.Text
		if err != nil {
			c.ID = pawl.Coded(err).Code
		}
		return c, nil
	})
	then := g.Node("then", func(ctx context.Context, c llm.ToolCall) (llm.ToolCall, error) {
		r, err := bx.Use(ctx, "again", call("bench_echo", `{"text":"here"}`), pawl.CallOptions{Retry: pawl.Retry{Max: 5, First: 100 * time.Millisecond}})
		if err == nil && r.Text != "here" {
			err = fmt.Errorf("echo: %q", r.Text)
		}
		return c, err
	})
	done := g.Succeed("DONE")
	g.Start(first, func(c llm.ToolCall) (llm.ToolCall, error) {
		if c.Name == "" {
			return c, errors.New("no call")
		}
		return c, nil
	})
	g.From(first).Otherwise(then)
	g.From(then).Otherwise(done)
	g.Finish(func(c llm.ToolCall, _ pawl.Ending) (string, error) { return c.ID, nil })
	return g
}
