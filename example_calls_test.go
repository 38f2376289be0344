package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"pawl"
)

// step is a graph of one node, for the examples of calls.
func step(run func(context.Context, string) (string, error)) *pawl.Graph[string, string, string] {
	g := pawl.New[string, string, string]("step", pawl.Options{Version: "1", Budget: pawl.Budget{"search": 3}})
	work := g.Node("work", run)
	g.Start(work, func(s string) (string, error) { return s, nil })
	g.From(work).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s string, _ pawl.Ending) (string, error) { return s, nil })
	return g
}

// A call is charged before it is made. Inside it, Charge counts what every physical try uses on top.
func ExampleDo() {
	g := step(func(ctx context.Context, q string) (string, error) {
		return pawl.Do(ctx, "search", func(ctx context.Context) (string, error) {
			if err := pawl.Charge(ctx, "search", 1); err != nil { // a second page
				return "", err
			}
			return "found " + q, nil
		}, pawl.CallOptions{For: q, Charge: pawl.Budget{"search": 1}})
	})
	fmt.Println(pawl.Execute(context.Background(), g, "a cat"))
	// Output: found a cat <nil>
}

// No counter ever passes its cap. What there is stays beside the error.
func ExampleMap() {
	g := step(func(ctx context.Context, s string) (string, error) {
		up, err := pawl.Map(ctx, "page", strings.Fields(s), 2, func(_ context.Context, w string) (string, error) {
			return strings.ToUpper(w), nil
		}, pawl.CallOptions{Charge: pawl.Budget{"search": 1}})
		fmt.Println(up, err)
		return s, nil
	})
	_, _ = pawl.Execute(context.Background(), g, "one two three four")
	// Output: [ONE TWO THREE ] item 3: budget search is spent: 3 of 3
}

// A claim gets the state before the node and may fold the error into it.
func ExampleEdges_OnError() {
	g := pawl.New[string, string, string]("mend", pawl.Options{Version: "1"})
	work := g.Node("work", func(_ context.Context, s string) (string, error) { return s + " half done", errors.New("no paper") })
	g.Start(work, func(s string) (string, error) { return s, nil })
	g.From(work).
		OnError("explain", func(s string, err error) (string, bool) { return s + ": " + err.Error(), true }, g.Succeed("EXPLAINED")).
		Otherwise(g.Succeed("DONE"))
	g.Finish(func(s string, e pawl.Ending) (string, error) { return e.Terminal + " " + s, nil })
	fmt.Println(pawl.Execute(context.Background(), g, "print"))
	// Output: EXPLAINED print: no paper <nil>
}

// Each runs one child an item. The results are in the order of the items, whatever ends first.
func ExampleEach() {
	type page struct{ Words, Lengths []string }
	length := step(func(_ context.Context, w string) (string, error) {
		if w == "" {
			return "", errors.New("an empty word")
		}
		return fmt.Sprint(len(w)), nil
	})
	g := pawl.New[[]string, page, []string]("page", pawl.Options{Version: "1"})
	each := pawl.Each(g, "each", length, pawl.Fan[page, string, string]{
		Items:   func(p page) ([]string, error) { return p.Words, nil },
		Collect: true, // one that fails is a Result.Err
		Join: func(p page, rs []pawl.Result[string]) (page, error) {
			for _, r := range rs {
				if r.Err != nil {
					r.Output = r.Err.Error()
				}
				p.Lengths = append(p.Lengths, r.Output)
			}
			return p, nil
		},
	})
	g.Start(each, func(ws []string) (page, error) { return page{Words: ws}, nil })
	g.From(each).Otherwise(g.Succeed("DONE"))
	g.Finish(func(p page, _ pawl.Ending) ([]string, error) { return p.Lengths, nil })
	out, err := pawl.Execute(context.Background(), g, []string{"owl", "", "raven"})
	fmt.Printf("%q %v\n", out, err)
	// Output: ["3" "step: an empty word" "5"] <nil>
}

// Sub runs another graph as a node.
func ExampleSub() {
	shout := step(func(_ context.Context, s string) (string, error) { return strings.ToUpper(s) + "!", nil })
	g := pawl.New[string, string, string]("talk", pawl.Options{Version: "1"})
	talk := pawl.Sub(g, "shout", shout,
		func(s string) (string, error) { return s, nil },
		func(s, loud string) (string, error) { return s + " … " + loud, nil })
	g.Start(talk, func(s string) (string, error) { return s, nil })
	g.From(talk).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s string, _ pawl.Ending) (string, error) { return s, nil })
	fmt.Println(pawl.Execute(context.Background(), g, "hello"))
	// Output: hello … HELLO! <nil>
}

// In an engine the run would wait for the answer. Where nobody can be asked, the question is the error.
func ExampleAsk() {
	g := step(func(ctx context.Context, s string) (string, error) {
		return pawl.Ask[string](ctx, "colour", pawl.Question{Text: "Which colour?", Choices: []string{"red", "blue"}})
	})
	_, err := pawl.Execute(context.Background(), g, "")
	var ask *pawl.AskError
	fmt.Println(errors.As(err, &ask), ask.Question.Text, ask.Question.Choices, pawl.Coded(err).Code)
	// Output: true Which colour? [red blue] waiting
}

// Strict finds what a state loses on its way through JSON before a crash does.
func ExampleExecute_strict() {
	g := pawl.New[string, label, string]("label", pawl.Options{Version: "1"})
	work := g.Node("work", func(_ context.Context, s label) (label, error) { return label("Mixed Case"), nil })
	g.Start(work, func(string) (label, error) { return "plain", nil })
	g.From(work).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s label, _ pawl.Ending) (string, error) { return string(s), nil })
	fmt.Println(pawl.Execute(context.Background(), g, ""))
	fmt.Println(pawl.Execute(context.Background(), g, "", pawl.Strict))
	// Output:
	// Mixed Case <nil>
	//  state after node work: the value changes when it is stored
}

// label is written in lower case: what is read back is not what was written.
type label string

func (l label) MarshalText() ([]byte, error)  { return []byte(strings.ToLower(string(l))), nil }
func (l *label) UnmarshalText(b []byte) error { *l = label(b); return nil }

func ExampleWorkflow_Move() {
	w, err := Desk{}.Graph().Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Move("judge", "write"))
	fmt.Println(w.Move("write", "SENT"))
	fmt.Println(w.Move("write", pawl.TerminalCancelled))
	// Output:
	// <nil>
	// pawl: the graph has no such move: write → SENT
	// <nil>
}
