package tools_test

import (
	"context"
	"encoding/json"
	"fmt"

	"pawl/ports/llm"
	"pawl/ports/tools"
	"pawl/ports/tools/toolstest"
)

// A server offers two tools: one that only reads, and one that nobody may call without a person.
func ExampleBox() {
	schema := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)
	files := &toolstest.Script{ID: "files", Offer: func() ([]tools.Tool, error) {
		return []tools.Tool{
			{Tool: llm.Tool{Name: "read", Schema: schema}, ReadOnly: true},
			{Tool: llm.Tool{Name: "delete", Schema: schema}},
		}, nil
	}}
	box, err := tools.New(files)
	if err != nil {
		panic(err)
	}
	for _, c := range []llm.ToolCall{
		{Name: "files_read", Arguments: json.RawMessage(`{"path": "notes"}`)},
		{Name: "files_read", Arguments: json.RawMessage(`{"file": "notes"}`)},
		{Name: "files_delete", Arguments: json.RawMessage(`{"path": "notes"}`)},
	} {
		r, err := box.Call(context.Background(), c)
		fmt.Println(r.Text, r.Failed, err)
	}
	// Output:
	// {"path":"notes"} false <nil>
	// the arguments do not fit the tool's schema: missing property 'path' true <nil>
	//  false tool files_delete is not marked as read-only, and nobody has approved this call
}
