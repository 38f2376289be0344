package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pawl"
	"pawl/internal/codec"
)

// desk is where one client's calls are answered.
type desk struct {
	life context.Context
	runs pawl.Runs
	wait time.Duration
}

// view is a run as a client sees it.
type view struct {
	Run       string          `json:"run"`
	Workflow  string          `json:"workflow"`
	Status    pawl.Status     `json:"status"`
	Node      string          `json:"node,omitempty"`
	Terminal  string          `json:"terminal,omitempty"`
	Outcome   string          `json:"outcome,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Questions []question      `json:"questions,omitempty"`
	Error     *fault          `json:"error,omitempty"`
	Existing  string          `json:"existing,omitempty"` // what became of the key
	Next      string          `json:"next,omitempty"`     // what to do now

	failed bool
}

// question is one that a person has to answer.
type question struct {
	ID      string          `json:"id"`
	Run     string          `json:"run"`
	Text    string          `json:"text"`
	Choices []string        `json:"choices,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Schema  json.RawMessage `json:"schema"` // of the answer
	Due     *time.Time      `json:"due,omitempty"`
}

type fault struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// starting is the tool of a workflow.
func (d *desk) starting(name string, w pawl.WorkflowInfo) offer {
	input, whole := w.Input, isObject(w.Input)
	if !whole { // a tool's arguments are an object
		input = object(map[string]json.RawMessage{"input": w.Input}, "input")
	}
	fields := map[string]json.RawMessage{"output": w.Output}
	for f, schema := range viewSchema {
		fields[f] = json.RawMessage(schema)
	}
	tool := &sdk.Tool{
		Name: name, Title: w.Name, InputSchema: input, OutputSchema: object(fields),
		Description: fmt.Sprintf("Starts a run of the workflow %s and waits for it a moment: returns its output, or the run's id and its status, "+
			"to be asked for with run_get, and its questions, to be answered with run_answer.", w.Name),
		Annotations: &sdk.ToolAnnotations{Title: w.Name},
	}
	return offer{tool, d.handle(func(ctx context.Context, r *sdk.CallToolRequest) (view, error) {
		in := r.Params.Arguments
		if len(in) == 0 {
			in = json.RawMessage("{}")
		}
		if !whole {
			var args struct {
				Input json.RawMessage `json:"input"`
			}
			if err := arguments(r, &args); err != nil {
				return view{}, err
			}
			in = args.Input
		}
		key, _ := r.Params.Meta[KeyMeta].(string)
		started, err := d.runs.Start(ctx, w.Name, in, pawl.StartOptions{Key: key})
		if err != nil {
			return view{}, err
		}
		v, err := d.watch(ctx, r, started.Run.ID, d.wait)
		v.Existing = started.Existing
		v.failed = v.Status.Ended() && v.Status != pawl.StatusSucceeded
		return v, err
	})}
}

// viewSchema describes the fields of a view, but for its output and those that say themselves what they are.
var viewSchema = map[string]string{
	"run":    `{"type":"string","description":"the run's id"}`,
	"status": `{"type":"string","description":"queued, running, interrupted, waiting, succeeded, failed or cancelled"}`,
	"questions": `{"type":"array","items":{"type":"object"},
		"description":"what a person has to answer: id, run, text, choices, data, and the JSON Schema of the answer"}`,
	"error": `{"type":"object","description":"why it failed: code and text"}`,
	"next":  `{"type":"string","description":"what to do now"}`,
}

func isObject(schema json.RawMessage) bool {
	var s struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Type == "object"
}

// object is the schema of an object with these fields.
func object(fields map[string]json.RawMessage, required ...string) json.RawMessage {
	s := map[string]any{"type": "object", "properties": fields}
	if len(required) > 0 {
		s["required"], s["additionalProperties"] = required, false
	}
	raw, _ := json.Marshal(s) // raw messages from Marshal, and strings
	return raw
}

// arguments reads a call's arguments, and refuses what is not known, or said twice.
func arguments(r *sdk.CallToolRequest, into any) error {
	raw := r.Params.Arguments
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := codec.Strict(raw, into); err != nil {
		return invalid("arguments: " + err.Error())
	}
	return nil
}

// watch waits for a run until it has ended, asks a person, or the time is up, and tells the client what happens meanwhile where it
// wants to know. The run goes on whatever becomes of the call.
func (d *desk) watch(ctx context.Context, r *sdk.CallToolRequest, id string, wait time.Duration) (view, error) {
	timed, stop := context.WithTimeout(ctx, min(wait, maxWait))
	defer stop()
	tell := progress(ctx, r)
	after := int64(0)
	for {
		run, err := d.get(ctx, id)
		if err != nil {
			return view{}, err
		}
		if run.ID != id {
			id, after = run.ID, 0
		}
		v, err := d.view(ctx, run)
		if err != nil || run.Status.Ended() || len(v.Questions) > 0 || run.Imported != "" || timed.Err() != nil {
			return v, err
		}
		if after, err = d.listen(timed, id, after, tell); err != nil {
			return view{}, err
		}
		if ctx.Err() != nil {
			return view{}, ctx.Err()
		}
	}
}

// look is how often a run is looked at of which nothing is heard: a question of its child is no event of its own.
const look = 500 * time.Millisecond

// listen tells of a run's events until it may stand, or for a moment, and returns the last one's number.
func (d *desk) listen(ctx context.Context, id string, after int64, tell func(pawl.Logged)) (int64, error) {
	ctx, stop := context.WithTimeout(ctx, look)
	defer stop()
	for l, err := range d.runs.Events(ctx, id, after) {
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			return after, err
		}
		tell(l)
		if after = max(after, l.Seq); strings.HasPrefix(l.Type, "pawl.") && l.Type != "pawl.step" {
			break
		}
	}
	return after, nil
}

// get reads a run, or the one that it was merged into.
func (d *desk) get(ctx context.Context, id string) (pawl.Run, error) {
	run, err := d.runs.Get(ctx, id)
	for n := 0; err == nil && run.MergedInto != "" && n < 10; n++ {
		run, err = d.runs.Get(ctx, run.MergedInto)
	}
	return run, err
}

// progress tells a client of events, where its call has a token for it. Only what lasts is told: deltas are too many.
func progress(ctx context.Context, r *sdk.CallToolRequest) func(pawl.Logged) {
	token := r.Params.GetProgressToken()
	n := 0.0
	return func(l pawl.Logged) {
		if token == nil || l.Seq == 0 {
			return
		}
		n++
		text := l.Type
		if len(l.Data) > 0 && len(l.Data) <= 300 {
			text += " " + string(l.Data)
		}
		_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: n, Message: text}) // a courtesy
	}
}

// view is a run with its open questions, those of its children too.
func (d *desk) view(ctx context.Context, run pawl.Run) (view, error) {
	v := view{Run: run.ID, Workflow: run.Workflow, Status: run.Status, Node: run.Node, Terminal: run.Terminal, Outcome: run.Outcome, Output: run.Output}
	if run.Err != nil {
		text, _, _ := strings.Cut(run.Err.Error(), "\ngoroutine ") // a stack is nothing for a client
		v.Error = &fault{Code: run.Err.Code, Text: text}
	}
	if run.Status.Ended() {
		return v, nil
	}
	open, err := d.runs.Questions(ctx, pawl.QuestionFilter{Run: run.ID}, "", 100)
	if err != nil {
		return v, err
	}
	for i := len(open) - 1; i >= 0; i-- { // the oldest first
		q := open[i]
		v.Questions = append(v.Questions, question{ID: q.ID, Run: q.Run, Text: q.Text, Choices: q.Choices, Data: q.Data, Schema: q.Schema, Due: q.Due})
	}
	v.Next = "ask for it again with run_get"
	if len(v.Questions) > 0 {
		v.Next = "put the questions to the person, and give each answer with run_answer"
	}
	return v, nil
}
