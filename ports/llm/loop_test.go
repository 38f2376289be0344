package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/pawltest"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
)

// tools is a toolbox of functions.
type tools map[string]func(ctx context.Context, arguments string) (llm.ToolResult, error)

func (b tools) Tools(context.Context) (out []llm.Tool, err error) {
	for _, name := range []string{"add", "search", "hang", "broken", "dead", "book"} {
		if b[name] != nil {
			out = append(out, llm.Tool{Name: name, Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`)})
		}
	}
	return out, nil
}

func (b tools) Call(ctx context.Context, c llm.ToolCall) (llm.ToolResult, error) {
	return b[c.Name](ctx, string(c.Arguments))
}

func echo(_ context.Context, arguments string) (llm.ToolResult, error) {
	return llm.ToolResult{Text: "did " + arguments}, nil
}

var standard = tools{
	"add":    echo,
	"search": echo,
	"broken": func(context.Context, string) (llm.ToolResult, error) {
		return llm.ToolResult{Text: "no such file", Failed: true}, nil
	},
	"dead": func(context.Context, string) (llm.ToolResult, error) {
		return llm.ToolResult{}, errors.New("the server is gone\xff")
	},
	"hang": func(ctx context.Context, _ string) (llm.ToolResult, error) {
		<-ctx.Done()
		return llm.ToolResult{}, ctx.Err()
	},
}

var question = llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "?")}}

// accepted checks what providers ask of a conversation: a user's message first, each call answered in the very next message, and
// no result without its call.
func accepted(t *testing.T, messages []llm.Message) {
	t.Helper()
	var open map[string]bool
	for i, m := range messages {
		if i == 0 && m.Role != llm.RoleUser {
			t.Errorf("the first message is of the %s", m.Role)
		}
		if len(m.Parts) == 0 {
			t.Errorf("message %d is empty", i)
		}
		for _, p := range m.Parts {
			if p.Result == nil {
				continue
			}
			if m.Role != llm.RoleTool || !open[p.Result.ID] {
				t.Errorf("message %d has a result without a call: %+v", i, p.Result)
			}
			delete(open, p.Result.ID)
		}
		if len(open) > 0 {
			t.Errorf("calls %v are not answered in message %d", open, i)
		}
		open = map[string]bool{}
		for _, c := range m.Calls() {
			var object map[string]any
			if c.ID == "" || open[c.ID] || json.Unmarshal(c.Arguments, &object) != nil {
				t.Errorf("message %d has the call %+v", i, c)
			}
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		t.Errorf("calls %v are not answered", open)
	}
}

func results(messages []llm.Message) (out []string) {
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Result != nil {
				out = append(out, fmt.Sprintf("%s %t %s", p.Result.ID, p.Result.Failed, p.Result.Text))
			}
		}
	}
	return out
}

func TestLoopUsesToolsUntilItIsAnswered(t *testing.T) {
	m := llmtest.Turns(llmtest.Ask("1", "add", `{"n":1}`).And("2", "search", `{}`), llmtest.Ask("3", "broken", ""), llmtest.Say("done"))
	out, err := llm.Loop(t.Context(), "loop", m, question, standard, llm.LoopOptions{})
	if err != nil || out.Stop != llm.StopAnswered || out.Response.Message.Text() != "done" || out.Rounds != 3 || out.Calls != 3 || out.Usage.Input != 30 {
		t.Errorf("%+v, %v", out, err)
	}
	accepted(t, out.Messages)
	if got := strings.Join(results(out.Messages), "; "); got != `1 false did {"n":1}; 2 false did {}; 3 true no such file` {
		t.Errorf("results %s", got)
	}
	for i, r := range m.Requests() {
		accepted(t, r.Messages)
		if len(r.Messages) != 1+2*i || len(r.Tools) != 5 {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	if len(question.Messages) != 1 {
		t.Error("the caller's request was changed")
	}
}

// TestLoopTellsTheModelItsMistakes: what cannot be called is not called, and the model hears why.
func TestLoopTellsTheModelItsMistakes(t *testing.T) {
	refuse := func(_ context.Context, _ string, c llm.ToolCall) (string, error) {
		return map[string]string{`{"n":7}`: "Nobody wants that."}[string(c.Arguments)], nil
	}
	for name, c := range map[string]struct {
		turn llmtest.Turn
		want string
	}{
		"no such tool":            {llmtest.Ask("1", "fly", "{}"), "1 true There is no such tool. There are: add, broken, dead, hang, search"},
		"arguments that are cut":  {llmtest.Ask("1", "add", `{"n":`), "1 true The arguments are no JSON object."},
		"arguments that are none": {llmtest.Ask("1", "add", `[1]`), "1 true The arguments are no JSON object."},
		"a key twice":             {llmtest.Ask("1", "add", `{"n":1,"n":2}`), "1 true The arguments are no JSON object."},
		"another type":            {llmtest.Ask("1", "add", `{"n":"x"}`), "1 true The arguments do not fit: .n: got string, want integer"},
		"refused":                 {llmtest.Ask("1", "add", `{"n":7}`), "1 true Nobody wants that."},
		"the toolbox fails":       {llmtest.Ask("1", "dead", `{}`), "1 true The tool could not be used: the server is gone\ufffd"},
		"no result in time":       {llmtest.Ask("1", "hang", `{}`), "1 true The tool gave no result in time."},
		"one name for two calls":  {llmtest.Ask("1", "add", `{"n":1}`).And("1", "add", `{"n":2}`), `1 false did {"n":1}; call_1_1 false did {"n":2}`},
		"no name":                 {llmtest.Ask("", "add", `{"n":1}`), `call_1_0 false did {"n":1}`},
		"a finish that is wrong":  {llmtest.Ask("1", "add", `{"n":1}`).Ends(llm.FinishStop), `1 false did {"n":1}`},
	} {
		m := llmtest.Func(func(_ int, r llm.Request) llmtest.Turn {
			if len(r.Messages) == 1 {
				return c.turn
			}
			return llmtest.Say("done")
		})
		var out llm.Outcome
		r := pawltest.Run(t, single(func(ctx context.Context, _ string) (string, error) {
			var err error
			out, err = llm.Loop(ctx, "loop", m, question, standard, llm.LoopOptions{Admit: refuse, Tool: pawl.CallOptions{Timeout: time.Minute}})
			return string(out.Stop), err
		}), "", pawltest.Script{Replay: true})
		if got := strings.Join(results(out.Messages), "; "); r.Output != "answered" || got != c.want {
			t.Errorf("%s: %s %v; results %s", name, r.Output, r.Run.Err, got)
		}
		accepted(t, out.Messages)
	}
}

// TestLoopStops: whatever a model does, the loop ends, and nothing is called or asked beyond its bounds.
func TestLoopStops(t *testing.T) {
	count := func(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }
	many := llmtest.Turn{}
	for i := range 50 {
		many = many.And(fmt.Sprint(i), "add", count(i))
	}
	for name, c := range map[string]struct {
		turn  func(n int, r llm.Request) llmtest.Turn
		o     llm.LoopOptions
		stop  llm.Stop
		asked int
		made  int64
	}{
		"the same call for ever": {func(int, llm.Request) llmtest.Turn { return llmtest.Ask("1", "add", `{"n":1}`) }, llm.LoopOptions{}, llm.StopRepeated, 3, 2},
		"the same call in other spellings": {func(n int, _ llm.Request) llmtest.Turn {
			return llmtest.Ask("1", "add", strings.Repeat(" ", n)+`{"n": 1}`)
		}, llm.LoopOptions{}, llm.StopRepeated, 3, 2},
		"two calls in turns":       {func(n int, _ llm.Request) llmtest.Turn { return llmtest.Ask("1", "add", count(n%2)) }, llm.LoopOptions{}, llm.StopRepeated, 5, 4},
		"another call each time":   {func(n int, _ llm.Request) llmtest.Turn { return llmtest.Ask("1", "add", count(n)) }, llm.LoopOptions{}, llm.StopRounds, 10, 10},
		"other calls, few allowed": {func(n int, _ llm.Request) llmtest.Turn { return llmtest.Ask("1", "add", count(n)) }, llm.LoopOptions{Calls: 4}, llm.StopCalls, 5, 4},
		"many at once":             {func(int, llm.Request) llmtest.Turn { return many }, llm.LoopOptions{}, llm.StopCalls, 1, 32},
		"one call many times at once": {func(int, llm.Request) llmtest.Turn {
			return llmtest.Ask("a", "add", "{}").And("b", "add", "{}").And("c", "add", "{}")
		}, llm.LoopOptions{Repeat: 2}, llm.StopRepeated, 1, 1},
		"tools that are not there":  {func(n int, _ llm.Request) llmtest.Turn { return llmtest.Ask("1", "fly", count(n)) }, llm.LoopOptions{Calls: 4}, llm.StopCalls, 5, 0},
		"an answer that is cut":     {func(int, llm.Request) llmtest.Turn { return llmtest.Ask("1", "add", `{"n":1}`).Ends(llm.FinishLength) }, llm.LoopOptions{}, llm.StopUnfinished, 1, 0},
		"an answer that is refused": {func(int, llm.Request) llmtest.Turn { return llmtest.Say("").Ends(llm.FinishRefused) }, llm.LoopOptions{}, llm.StopUnfinished, 1, 0},
		"a call of nothing":         {func(int, llm.Request) llmtest.Turn { return llmtest.Say("").Ends(llm.FinishCalls) }, llm.LoopOptions{}, llm.StopUnfinished, 1, 0},
		"silence":                   {func(int, llm.Request) llmtest.Turn { return llmtest.Turn{} }, llm.LoopOptions{}, llm.StopAnswered, 1, 0},
	} {
		var made atomic.Int64
		box := tools{"add": func(ctx context.Context, arguments string) (llm.ToolResult, error) {
			made.Add(1)
			return echo(ctx, arguments)
		}}
		m := llmtest.Func(c.turn)
		out, err := llm.Loop(t.Context(), "loop", m, question, box, c.o)
		if err != nil || out.Stop != c.stop || len(m.Requests()) != c.asked || made.Load() != c.made {
			t.Errorf("%s: %s (%v) after %d requests and %d calls", name, out.Stop, err, len(m.Requests()), made.Load())
		}
		accepted(t, out.Messages)
	}
}

// TestLoopThatWasToUseATool: that it did not is an outcome of its own; that it did does not force it for ever.
func TestLoopThatWasToUseATool(t *testing.T) {
	r := question
	r.Choice = "add"
	out, err := llm.Loop(t.Context(), "loop", llmtest.Turns(llmtest.Say("no need")), r, standard, llm.LoopOptions{})
	if err != nil || out.Stop != llm.StopUncalled || out.Response.Message.Text() != "no need" {
		t.Errorf("%+v, %v", out, err)
	}
	m := llmtest.Turns(llmtest.Ask("1", "add", "{}"), llmtest.Say("done"))
	out, err = llm.Loop(t.Context(), "loop", m, r, standard, llm.LoopOptions{})
	if err != nil || out.Stop != llm.StopAnswered || m.Requests()[0].Choice != "add" || m.Requests()[1].Choice != llm.ChoiceAuto {
		t.Errorf("%+v, %v", out, err)
	}
}

// loopGraph runs a loop of two calls at once, then one more, then the answer, and tells how often each tool was really called.
func loopGraph(made *[3]atomic.Int64, o llm.LoopOptions, budget pawl.Budget) *pawl.Graph[string, string, string] {
	box := tools{"add": func(ctx context.Context, arguments string) (llm.ToolResult, error) {
		var a struct{ N int }
		if err := json.Unmarshal([]byte(arguments), &a); err != nil {
			return llm.ToolResult{}, err
		}
		made[a.N].Add(1)
		return echo(ctx, arguments)
	}}
	m := llmtest.Func(func(_ int, r llm.Request) llmtest.Turn {
		switch len(r.Messages) {
		case 1:
			return llmtest.Ask("a", "add", `{"n":0}`).And("b", "add", `{"n":1}`)
		case 3:
			return llmtest.Ask("c", "add", `{"n":2}`)
		}
		return llmtest.Say("done")
	})
	return single(func(ctx context.Context, _ string) (string, error) {
		out, err := llm.Loop(ctx, "loop", llm.Metered(m, llm.Price{}), question, box, o)
		if err != nil && out.Stop != llm.StopBudget {
			return "", err
		}
		return fmt.Sprint(out.Stop, " ", results(out.Messages)), nil
	}, pawl.Options{Budget: budget})
}

// TestLoopIsRecorded: after a crash at any write the loop goes on where it was. A call is made again only where it was under way.
func TestLoopIsRecorded(t *testing.T) {
	var made [3]atomic.Int64
	g := loopGraph(&made, llm.LoopOptions{}, pawl.Budget{llm.MeterCalls: 50})
	r := pawltest.Run(t, g, "", pawltest.Script{Replay: true})
	if want := `answered [a false did {"n":0} b false did {"n":1} c false did {"n":2}]`; r.Output != want || r.Meter(llm.MeterCalls) != 3 {
		t.Errorf("%s, %d requests", r.Output, r.Meter(llm.MeterCalls))
	}
	keys := map[string]int{}
	for _, c := range r.Calls {
		keys[c.Key]++
	}
	for _, k := range []string{"loop/tools", "loop/1", "loop/1/calls[0]", "loop/1/calls[1]", "loop/2", "loop/2/calls[0]", "loop/3"} {
		if keys[k] != 1 {
			t.Errorf("call %s is recorded %d times", k, keys[k])
		}
	}
	pawltest.EveryCrash(t, g, "", pawltest.Script{})
	for i := range made {
		made[i].Store(0)
	}
	pawltest.Run(t, g, "", pawltest.Script{Fail: map[string][]error{"loop/2/calls[0]": {pawltest.ErrLost}}})
	if made[0].Load() != 1 || made[1].Load() != 1 || made[2].Load() != 2 {
		t.Errorf("calls made: %d %d %d", made[0].Load(), made[1].Load(), made[2].Load())
	}
}

// TestLoopWithinABudget: a meter's cap stops it, and what there is stays, in a form in which it can go on.
func TestLoopWithinABudget(t *testing.T) {
	for _, c := range []struct {
		budget pawl.Budget
		want   string
	}{
		{pawl.Budget{llm.MeterCalls: 2, "tools": 9}, `budget_exhausted [a false did {"n":0} b false did {"n":1} c false did {"n":2}]`},
		{pawl.Budget{llm.MeterCalls: 1, "tools": 9}, `budget_exhausted [a false did {"n":0} b false did {"n":1}]`},
		{pawl.Budget{llm.MeterCalls: 9, "tools": 1}, `budget_exhausted [a false did {"n":0} b true This tool was not called, or its call was broken off.]`},
	} {
		var made [3]atomic.Int64
		g := loopGraph(&made, llm.LoopOptions{Tool: pawl.CallOptions{Charge: pawl.Budget{"tools": 1}}}, c.budget)
		if r := pawltest.Run(t, g, "", pawltest.Script{Replay: true}); r.Output != c.want {
			t.Errorf("%v: %s %v", c.budget, r.Output, r.Run.Err)
		}
	}
}

// TestLoopAsksAPerson: the question comes before the call and outside of it, so that the run can wait for the answer.
func TestLoopAsksAPerson(t *testing.T) {
	var booked atomic.Int64
	box := tools{"book": func(ctx context.Context, arguments string) (llm.ToolResult, error) {
		booked.Add(1)
		return echo(ctx, arguments)
	}}
	m := llmtest.Func(func(_ int, r llm.Request) llmtest.Turn {
		if len(r.Messages) == 1 {
			return llmtest.Ask("a", "book", `{"n":1}`).And("b", "book", `{"n":2}`)
		}
		return llmtest.Say("done")
	})
	g := single(func(ctx context.Context, _ string) (string, error) {
		out, err := llm.Loop(ctx, "loop", m, question, box, llm.LoopOptions{Admit: func(ctx context.Context, key string, c llm.ToolCall) (string, error) {
			yes, err := pawl.Ask[bool](ctx, key, pawl.Question{Text: "Call " + c.Name + string(c.Arguments) + "?"})
			if err != nil || yes {
				return "", err
			}
			return "A person said no.", nil
		}})
		return fmt.Sprint(results(out.Messages)), err
	})
	r := pawltest.EveryCrash(t, g, "", pawltest.Script{Answers: map[string][]any{"loop/1/admit[0]": {true}, "loop/1/admit[1]": {false}}})
	if r.Output != `[a false did {"n":1} b true A person said no.]` || len(r.Questions) != 2 {
		t.Errorf("%s %v", r.Output, r.Questions)
	}
	for _, q := range r.Questions {
		if want := map[string]string{"loop/1/admit[0]": `Call book{"n":1}?`, "loop/1/admit[1]": `Call book{"n":2}?`}[q.Key]; q.Text != want {
			t.Errorf("asked %q by %s", q.Text, q.Key)
		}
	}
}

// TestLoopThatIsCancelled: calls under way are broken off, and have results all the same.
func TestLoopThatIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	box := tools{"add": echo, "hang": func(ctx context.Context, _ string) (llm.ToolResult, error) {
		cancel()
		<-ctx.Done()
		return llm.ToolResult{}, context.Cause(ctx)
	}}
	out, err := llm.Loop(ctx, "loop", llmtest.Turns(llmtest.Ask("a", "add", "{}").And("b", "hang", "{}").And("c", "hang", `{"n":1}`)), question, box, llm.LoopOptions{Parallel: 1})
	if !errors.Is(err, context.Canceled) || out.Stop != llm.StopFailed || out.Calls != 3 {
		t.Errorf("%+v, %v", out, err)
	}
	accepted(t, out.Messages)
	const cut = "true This tool was not called, or its call was broken off."
	if got := strings.Join(results(out.Messages), "; "); got != "a false did {}; b "+cut+"; c "+cut {
		t.Error(got)
	}
}

func TestLoopRefusesToolsThatItCannotCheck(t *testing.T) {
	for _, list := range [][]llm.Tool{{{Name: "a", Schema: json.RawMessage(`{"type":1}`)}}, {{Name: "a", Schema: json.RawMessage(`{}`)}, {Name: "a", Schema: json.RawMessage(`{}`)}}} {
		m := llmtest.Turns()
		if _, err := llm.Loop(t.Context(), "loop", m, question, listed(list), llm.LoopOptions{}); llm.Code(err) != pawl.CodeInvalid || len(m.Requests()) > 0 {
			t.Errorf("%v: %v", list, err)
		}
	}
}

type listed []llm.Tool

func (l listed) Tools(context.Context) ([]llm.Tool, error) { return l, nil }

func (l listed) Call(context.Context, llm.ToolCall) (llm.ToolResult, error) {
	return llm.ToolResult{}, errors.New("nothing is called here")
}
