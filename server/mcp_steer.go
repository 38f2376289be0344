package server

import (
	"context"
	"encoding/json"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pawl"
)

// steering are the tools that read and steer runs.
func (d *desk) steering() []offer {
	yes, no := true, false
	reads := &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no}
	return []offer{
		{tool("run_get", "Reads a run: its status, its output or error, and the questions that it has for a person.", reads,
			fields{"run": runField, "wait": waitField}, "run"), d.handle(d.read)},
		{tool("run_list", "Lists runs, the newest first.", reads, fields{
			"workflow": `{"type":"string","description":"only runs of this workflow"}`,
			"status":   `{"type":"string","enum":["queued","running","interrupted","waiting","succeeded","failed","cancelled","merged"]}`,
			"after":    `{"type":"string","description":"only runs that are older than this one"}`,
			"limit":    `{"type":"integer","minimum":1,"maximum":100,"description":"at most so many; left out: 20"}`,
		}), d.list},
		{tool("run_answer", "Gives a person's answer to a question of a run, and waits for the run a moment. Never answer in a person's place: "+
			"a question may be the approval of something that cannot be undone.", &sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: &yes},
			fields{"run": runField, "question": `{"type":"string","description":"the question's id; may be left out where there is only one"}`,
				"answer": `{"description":"the answer, by the question's JSON Schema"}`, "wait": waitField}, "run", "answer"), d.handle(d.answer)},
		{tool("run_cancel", "Ends a run and its children.", &sdk.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no},
			fields{"run": runField, "reason": `{"type":"string"}`}, "run"), d.handle(d.cancel)},
		{tool("run_retry", "Begins the next attempt of a run that failed or was cancelled, from its start.", &sdk.ToolAnnotations{DestructiveHint: &no},
			fields{"run": runField, "wait": waitField}, "run"), d.handle(d.retry)},
	}
}

const (
	runField  = `{"type":"string","description":"the run's id"}`
	waitField = `{"type":"number","minimum":0,"maximum":60,"description":"seconds to wait for the run to end or to ask; left out: a few"}`
)

type fields map[string]string

func tool(name, about string, hints *sdk.ToolAnnotations, fs fields, required ...string) *sdk.Tool {
	properties := map[string]json.RawMessage{}
	for f, schema := range fs {
		properties[f] = json.RawMessage(schema)
	}
	return &sdk.Tool{Name: name, Description: about, Annotations: hints, InputSchema: object(properties, required...)}
}

// steered are the arguments of the tools that are about one run.
type steered struct {
	Run      string          `json:"run"`
	Wait     *float64        `json:"wait"`
	Question string          `json:"question"`
	Answer   json.RawMessage `json:"answer"`
	Reason   string          `json:"reason"`
}

func (d *desk) steered(r *sdk.CallToolRequest) (a steered, wait time.Duration, err error) {
	if err = arguments(r, &a); err == nil && a.Run == "" {
		err = invalid("run: the run's id is missing")
	}
	wait = d.wait
	if a.Wait != nil {
		wait = time.Duration(min(max(*a.Wait, 0), maxWait.Seconds()) * float64(time.Second))
	}
	return a, wait, err
}

func invalid(text string) error { return &pawl.Error{Code: pawl.CodeInvalid, Op: "mcp", Text: text} }

func (d *desk) read(ctx context.Context, r *sdk.CallToolRequest) (view, error) {
	a, wait, err := d.steered(r)
	if err != nil {
		return view{}, err
	}
	return d.watch(ctx, r, a.Run, wait)
}

func (d *desk) answer(ctx context.Context, r *sdk.CallToolRequest) (view, error) {
	a, wait, err := d.steered(r)
	switch {
	case err != nil:
		return view{}, err
	case len(a.Answer) == 0:
		return view{}, invalid("answer: it is missing")
	}
	if a.Question == "" {
		open, err := d.runs.Questions(ctx, pawl.QuestionFilter{Run: a.Run}, "", 2)
		switch {
		case err != nil:
			return view{}, err
		case len(open) != 1:
			return view{}, invalid("question: the run has not one open question: say which one is answered")
		}
		a.Question = open[0].ID
	}
	asked, err := d.runs.Questions(ctx, pawl.QuestionFilter{Run: a.Run, ID: a.Question, Closed: true}, "", 1)
	if err != nil {
		return view{}, err
	}
	of := a.Run
	if len(asked) == 1 { // it may be a child's
		of = asked[0].Run
	}
	if err := d.runs.Answer(ctx, of, a.Question, a.Answer); err != nil {
		return view{}, err
	}
	return d.watch(ctx, r, a.Run, wait)
}

func (d *desk) cancel(ctx context.Context, r *sdk.CallToolRequest) (view, error) {
	a, _, err := d.steered(r)
	if err != nil {
		return view{}, err
	}
	if err := d.runs.Cancel(ctx, a.Run, a.Reason); err != nil {
		return view{}, err
	}
	return d.watch(ctx, r, a.Run, d.wait)
}

func (d *desk) retry(ctx context.Context, r *sdk.CallToolRequest) (view, error) {
	a, wait, err := d.steered(r)
	if err != nil {
		return view{}, err
	}
	run, err := d.runs.Retry(ctx, a.Run)
	if err != nil {
		return view{}, err
	}
	return d.watch(ctx, r, run.ID, wait)
}

// listed is a run in a list.
type listed struct {
	Run      string      `json:"run"`
	Workflow string      `json:"workflow"`
	Status   pawl.Status `json:"status"`
	Node     string      `json:"node,omitempty"`
	Terminal string      `json:"terminal,omitempty"`
	Created  time.Time   `json:"created"`
	Updated  time.Time   `json:"updated"`
}

func (d *desk) list(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	a := struct {
		Workflow string      `json:"workflow"`
		Status   pawl.Status `json:"status"`
		After    string      `json:"after"`
		Limit    int         `json:"limit"`
	}{Limit: 20}
	if err := arguments(r, &a); err != nil {
		return refusal(err)
	}
	runs, err := d.runs.List(ctx, pawl.RunFilter{Workflow: a.Workflow, Status: a.Status}, a.After, min(max(a.Limit, 1), 100))
	if err != nil {
		return refusal(err)
	}
	out := []listed{}
	for _, run := range runs {
		out = append(out, listed{run.ID, run.Workflow, run.Status, run.Node, run.Terminal, run.Created, run.Updated})
	}
	return shown(map[string]any{"runs": out}, false)
}
