package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"pawl"
	"pawl/internal/codec"
	"pawl/internal/schema"
)

// Toolbox is what a model may use, safe for concurrent use. What a tool fails with is a result that says so; an error is the
// toolbox's own, and becomes such a result too.
type Toolbox interface {
	Tools(ctx context.Context) ([]Tool, error)
	Call(ctx context.Context, c ToolCall) (ToolResult, error)
}

// LoopOptions of letting a model use tools. The zero value works.
type LoopOptions struct {
	Options      // of each request to the model
	Rounds   int // requests to the model at the most; 0: 10
	Calls    int // calls of tools at the most; 0: 32
	Repeat   int // the same call, with the same arguments, stops the loop when it comes that often; 0: 3
	Parallel int // calls of tools at once; 0: 8

	// Tool are the options of each call of a tool: its Timeout, Charge and Limit. It has one try: whether to try again is decided
	// by the toolbox, or by the model.
	Tool pawl.CallOptions
	// Admit is asked before a call is made, one after the other and outside of any call, so that it may ask a person. What it
	// answers, if anything, is why the call is not made.
	Admit func(ctx context.Context, key string, c ToolCall) (refused string, err error)

	History Compression
}

// Stop is why a loop ended.
type Stop string

// Why loops end. All but StopAnswered and StopUncalled leave a part of what was wanted.
const (
	StopAnswered   Stop = "answered"
	StopUncalled   Stop = "not_called" // it answered without the tool that it was to use
	StopUnfinished Stop = "unfinished" // the last response is no whole answer: its Finish says why
	StopRounds     Stop = "rounds"
	StopCalls      Stop = "calls"
	StopRepeated   Stop = "repeated"
	StopBudget     Stop = "budget_exhausted" // there is an error too
	StopFailed     Stop = "failed"           // there is an error too
)

// Outcome is what a loop came to.
type Outcome struct {
	Stop     Stop
	Response Response  // the last one
	Messages []Message // the conversation, in which every call has its result, so that it can go on
	Rounds   int       // requests made
	Calls    int       // calls that the model asked for, but for those that a stop cut off
	Usage    Usage     // of all responses
}

// Loop asks a model, runs the tools that it asks for and tells it their results, until it answers or a bound stops it: then no
// more calls are made and nothing more is asked. Requests are the calls key/1, key/2 and so on, each call of a tool is one of
// its own. What a model may get wrong, such as a tool that is not there or arguments that do not fit, is told to it as the
// result of the call. The outcome is what there is, also beside an error.
func Loop(ctx context.Context, key string, m Model, r Request, box Toolbox, o LoopOptions) (Outcome, error) {
	l := &loop{key: key, box: box, o: o.filled(), seen: map[string]int{}, out: Outcome{Messages: r.Messages}}
	err := l.run(ctx, m, r)
	if l.out.Stop == "" {
		l.out.Stop = StopFailed
		if b := (*pawl.BudgetError)(nil); errors.As(err, &b) {
			l.out.Stop = StopBudget
		}
	}
	if err == nil && l.out.Stop != StopAnswered {
		err = pawl.Note(ctx, "tools_stopped", map[string]any{"call": key, "why": l.out.Stop, "rounds": l.out.Rounds, "calls": l.out.Calls})
	}
	return l.out, err
}

func (o LoopOptions) filled() LoopOptions {
	for at, n := range map[*int]int{&o.Rounds: 10, &o.Calls: 32, &o.Repeat: 3} {
		if *at <= 0 {
			*at = n
		}
	}
	o.Tool.For, o.Tool.Retry = nil, pawl.Retry{}
	return o
}

type loop struct {
	key   string
	box   Toolbox
	o     LoopOptions
	tools map[string]*schema.Schema
	seen  map[string]int // calls that were asked for, by name and arguments
	out   Outcome
}

func (l *loop) run(ctx context.Context, m Model, r Request) (err error) {
	if r.Tools, err = pawl.Do(ctx, l.key+"/tools", l.box.Tools); err != nil {
		return err
	}
	if err := l.learn(r.Tools); err != nil {
		return err
	}
	forced := r.Choice != ChoiceAuto && r.Choice != ChoiceNone
	for l.out.Stop == "" {
		if l.out.Rounds == l.o.Rounds {
			l.out.Stop = StopRounds
			break
		}
		key := l.key + "/" + strconv.Itoa(l.out.Rounds+1)
		if l.out.Messages, err = Compress(ctx, key+"/history", l.out.Messages, l.o.History); err != nil {
			return err
		}
		r.Messages = l.out.Messages
		resp, err := Generate(ctx, key, m, r, l.o.Options)
		if err != nil {
			return err
		}
		l.out.Rounds++
		l.out.Usage = l.out.Usage.Add(resp.Usage)
		calls := l.heard(resp)
		switch {
		case resp.Finish != FinishStop && (resp.Finish != FinishCalls || len(calls) == 0): // it may say that it calls, and name nothing
			l.out.Stop = StopUnfinished
			l.answer(calls, nil)
		case len(calls) == 0 && forced && l.out.Rounds == 1:
			l.out.Stop = StopUncalled
		case len(calls) == 0:
			l.out.Stop = StopAnswered
		default:
			results, err := l.use(ctx, key, calls)
			l.answer(calls, results)
			if err != nil {
				return err
			}
		}
		if forced { // it did; were it forced again, it could never answer
			r.Choice = ChoiceAuto
		}
	}
	return nil
}

// learn reads the schemas of the tools.
func (l *loop) learn(tools []Tool) error {
	l.tools = map[string]*schema.Schema{}
	for _, t := range tools {
		s, err := schema.Compile(t.Schema)
		if err == nil && l.tools[t.Name] != nil {
			err = errors.New("there are two of this name")
		}
		if err != nil {
			return pawl.Permanent(&pawl.Error{Code: pawl.CodeInvalid, Op: "loop", Text: fmt.Sprintf("%s: tool %q: %v", l.key, t.Name, err)})
		}
		l.tools[t.Name] = s
	}
	return nil
}

// heard adds a response to the conversation and returns the calls that it asks for: each has a name of its own there, and arguments
// that every provider takes back. The calls that are returned have them as the model wrote them.
func (l *loop) heard(resp Response) (calls []ToolCall) {
	parts := slices.Clone(resp.Message.Parts)
	ids := map[string]bool{}
	for i, p := range parts {
		if p.Call == nil {
			continue
		}
		c := *p.Call
		if c.ID == "" || ids[c.ID] {
			c.ID = fmt.Sprintf("call_%d_%d", l.out.Rounds, i)
		}
		ids[c.ID] = true
		calls = append(calls, c)
		if !isObject(c.Arguments) {
			c.Arguments = json.RawMessage("{}")
		}
		parts[i].Call = &c
	}
	resp.Message.Parts = parts
	l.out.Response = resp
	if len(parts) > 0 { // providers refuse a message of nothing
		l.out.Messages = append(slices.Clip(l.out.Messages), resp.Message)
	}
	return calls
}

func isObject(arguments json.RawMessage) bool {
	return strings.HasPrefix(strings.TrimSpace(string(arguments)), "{")
}

// answer adds the results of calls to the conversation. A call that was not made, or did not end, has one that says so.
func (l *loop) answer(calls []ToolCall, results map[string]ToolResult) {
	if len(calls) == 0 {
		return
	}
	m := Message{Role: RoleTool}
	for _, c := range calls {
		res, ok := results[c.ID]
		if !ok {
			res = failed(c, "This tool was not called, or its call was broken off.")
		}
		m.Parts = append(m.Parts, Part{Result: &res})
	}
	l.out.Messages = append(slices.Clip(l.out.Messages), m)
}

func failed(c ToolCall, text string) ToolResult {
	return ToolResult{ID: c.ID, Name: c.Name, Text: text, Failed: true}
}

// use makes the calls that may be made and returns the results by the calls' ids.
func (l *loop) use(ctx context.Context, key string, calls []ToolCall) (map[string]ToolResult, error) {
	results := map[string]ToolResult{}
	var todo []ToolCall
	for i, c := range calls {
		again := c.Name + " " + canonical(c.Arguments)
		switch l.seen[again]++; {
		case l.out.Calls == l.o.Calls:
			l.out.Stop = StopCalls
		case l.seen[again] >= l.o.Repeat:
			l.out.Stop = StopRepeated
		}
		if l.out.Stop != "" {
			break
		}
		l.out.Calls++
		why, err := l.refused(ctx, fmt.Sprintf("%s/admit[%d]", key, i), c)
		if err != nil {
			return results, err
		}
		if why != "" {
			results[c.ID] = failed(c, why)
			continue
		}
		todo = append(todo, c)
	}
	made, err := pawl.Map(ctx, key+"/calls", todo, l.o.Parallel, func(in context.Context, c ToolCall) (ToolResult, error) { return l.call(ctx, in, c) }, l.o.Tool)
	for i, res := range made {
		if res.ID != "" { // it was made
			results[todo[i].ID] = res
		}
	}
	return results, err
}

// refused says why a call is not made.
func (l *loop) refused(ctx context.Context, key string, c ToolCall) (why string, err error) {
	s, ok := l.tools[c.Name]
	if !ok {
		return "There is no such tool. There are: " + strings.Join(slices.Sorted(maps.Keys(l.tools)), ", "), nil
	}
	if !isObject(c.Arguments) {
		return "The arguments are no JSON object.", nil
	}
	if err := s.Check(c.Arguments); err != nil {
		return "The arguments do not fit: " + clip(err.Error(), 1500), nil
	}
	if l.o.Admit != nil {
		return l.o.Admit(ctx, key, c)
	}
	return "", nil
}

// call makes one call of a tool, in the context of its own. Only what ends the run or the loop is an error.
func (l *loop) call(outer, ctx context.Context, c ToolCall) (ToolResult, error) {
	pawl.Annotate(ctx, "gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", c.Name, "gen_ai.tool.call.id", c.ID)
	res, err := l.box.Call(ctx, c)
	switch {
	case err == nil:
	case outer.Err() != nil || ends(err):
		return ToolResult{}, err
	case ctx.Err() != nil:
		pawl.Annotate(ctx, "error.type", pawl.CodeTimeout)
		res = failed(c, "The tool gave no result in time.")
	default:
		pawl.Annotate(ctx, "error.type", pawl.Coded(err).Code)
		res = failed(c, "The tool could not be used: "+clip(err.Error(), 1500))
	}
	res.ID, res.Name, res.Text = c.ID, c.Name, strings.ToValidUTF8(res.Text, "\ufffd")
	return res, nil
}

// ends says whether an error is the run's and not a tool's.
func ends(err error) bool {
	var b *pawl.BudgetError
	return errors.As(err, &b) || slices.ContainsFunc([]error{pawl.ErrParked, pawl.ErrCancelled, pawl.ErrFenced, pawl.ErrClosed, pawl.ErrDrained, pawl.ErrNested},
		func(end error) bool { return errors.Is(err, end) })
}

// canonical makes arguments that say the same equal.
func canonical(arguments json.RawMessage) string {
	if r, err := strict(string(arguments)); err == nil {
		if b, err := codec.Encode(r.value); err == nil {
			return string(b)
		}
	}
	return string(arguments)
}
