package llm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
)

// A value of a type is asked for. The first answer does not fit, so the model is told what was wrong; the second one does, after
// changes that lose nothing.
func ExampleStructured() {
	type verdict struct {
		Category   string  `json:"category"`
		Confidence float64 `json:"confidence"`
	}
	model := llmtest.Turns( // in a program: a vendor's model
		llmtest.Say(`{"category": "letter", "confidence": 0.9}`),
		llmtest.Say("Sure!\n```json\n{\"category\": \"email\", \"confidence\": \"90%\"}\n```"),
	)

	v, err := llm.Structured[verdict](context.Background(), "classify", model,
		llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "Which category is this document of? …")}},
		llm.StructuredOptions{Narrow: map[string]map[string]any{
			"category":   {"enum": []string{"EMAIL", "LOG", "OTHER"}},
			"confidence": {"minimum": 0, "maximum": 1},
		}})

	fmt.Println(v, err)
	fmt.Println(model.Requests()[1].Messages[1].Text())
	// Output:
	// {EMAIL 0.9} <nil>
	// Your last answer could not be used: .category: value must be one of 'EMAIL', 'LOG', 'OTHER'.
	// Answer again, with one JSON value that fits the schema and nothing else.
}

// clock is a toolbox of one tool.
type clock struct{}

func (clock) Tools(context.Context) ([]llm.Tool, error) {
	schema := json.RawMessage(`{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}`)
	return []llm.Tool{{Name: "time", Description: "the time in a city", Schema: schema}}, nil
}

func (clock) Call(_ context.Context, c llm.ToolCall) (llm.ToolResult, error) {
	var where struct{ City string }
	if err := json.Unmarshal(c.Arguments, &where); err != nil {
		return llm.ToolResult{}, err
	}
	return llm.ToolResult{Text: "It is noon in " + where.City + "."}, nil
}

// A model uses a tool until it can answer. It is wrong about the arguments first, and hears so.
func ExampleLoop() {
	model := llmtest.Turns( // in a program: a vendor's model
		llmtest.Ask("1", "time", `{"town": "Delhi"}`),
		llmtest.Ask("2", "time", `{"city": "Delhi"}`),
		llmtest.Say("Noon."),
	)

	out, err := llm.Loop(context.Background(), "ask", model,
		llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "What time is it in Delhi?")}}, clock{}, llm.LoopOptions{Rounds: 5})

	fmt.Println(out.Stop, out.Response.Message.Text(), err)
	fmt.Println(strings.Join(results(out.Messages), "\n"))
	// Output:
	// answered Noon. <nil>
	// 1 true The arguments do not fit: missing property 'city'
	// 2 false It is noon in Delhi.
}
