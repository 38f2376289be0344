package toolstest

import (
	"context"
	"encoding/json"
	"strings"

	"pawl/ports/llm"
	"pawl/ports/tools"
)

// Work is a tool of the bench, with what it does.
type Work struct {
	tools.Tool
	Do func(ctx context.Context, args map[string]any) (text string, failed bool)
}

// Bench is what a server offers that is held to the law: a vendor's test puts it behind the vendor's protocol. die is how that
// server goes away in the middle of a call.
func Bench(die func()) []Work {
	one := func(field, kind string) json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":{"` + field + `":{"type":"` + kind + `"}},"required":["` + field + `"],"additionalProperties":false}`)
	}
	none := json.RawMessage(`{"type":"object"}`)
	read := func(name string, schema json.RawMessage) tools.Tool {
		return tools.Tool{Tool: llm.Tool{Name: name, Description: "the tool " + name, Schema: schema}, ReadOnly: true}
	}
	echo := func(_ context.Context, args map[string]any) (string, bool) {
		text, _ := args["text"].(string)
		return text, false
	}
	write := read("write", one("text", "string"))
	write.ReadOnly = false
	set := read("set", one("text", "string"))
	set.ReadOnly, set.Idempotent = false, true
	end := func(ctx context.Context, _ map[string]any) (string, bool) {
		die()
		<-ctx.Done()
		return "", true
	}
	destroy := read("destroy", none)
	destroy.ReadOnly = false
	return []Work{
		{read("echo", one("text", "string")), echo},
		{write, echo},
		{set, echo},
		{read("fail", none), func(context.Context, map[string]any) (string, bool) { return "there is no such file", true }},
		{read("big", one("bytes", "integer")), func(_ context.Context, args map[string]any) (string, bool) {
			n, _ := args["bytes"].(float64)
			return strings.Repeat("x", int(n)), false
		}},
		{read("hang", none), func(ctx context.Context, _ map[string]any) (string, bool) {
			<-ctx.Done()
			return "", true
		}},
		{read("die", none), end},
		{destroy, end},
	}
}
