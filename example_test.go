package pawl_test

import (
	"context"
	"fmt"
	"time"

	"pawl"
)

// Reply is the one state that flows through the graph.
type Reply struct {
	Question, Text, Advice string
	Score                  float64
}

type Desk struct {
	Generate func(ctx context.Context, r Reply) (string, error)
	Judge    func(ctx context.Context, r Reply) (float64, error)
}

func (d Desk) Graph() *pawl.Graph[string, Reply, string] {
	g := pawl.New[string, Reply, string]("reply", pawl.Options{Version: "1", Budget: pawl.Budget{"llm": 12}})

	write := g.Node("write", d.write) // func(context.Context, Reply) (Reply, error)
	judge := g.Node("judge", d.judge, pawl.NodeOptions{Retry: pawl.Retry{Max: 3, First: time.Second, Factor: 4}})
	person := g.Node("person", d.person)
	sent, dropped := g.Succeed("SENT"), g.Fail("DROPPED")

	g.Start(write, func(q string) (Reply, error) { return Reply{Question: q}, nil })
	g.From(write).Otherwise(judge)
	g.From(judge).
		When("good", Reply.good, sent).
		When("write again", Reply.weak, write).AtMostPerTurn(3).
		Otherwise(person)
	g.From(person).
		OnAnswer("advice", write).AtMost(2).
		Otherwise(dropped)
	g.From(write, judge).OnError("out of budget", pawl.IsBudget, dropped)
	g.Finish(func(r Reply, _ pawl.Ending) (string, error) { return r.Text, nil })
	return g
}

func (d Desk) write(ctx context.Context, r Reply) (Reply, error) {
	text, err := pawl.Do(ctx, "draft", func(ctx context.Context) (string, error) { // recorded: not made again after a crash
		return d.Generate(ctx, r)
	}, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}})
	r.Text = text
	return r, err
}

func (d Desk) judge(ctx context.Context, r Reply) (Reply, error) {
	score, err := pawl.Do(ctx, "score", func(ctx context.Context) (float64, error) { return d.Judge(ctx, r) })
	r.Score = score
	return r, err
}

func (d Desk) person(ctx context.Context, r Reply) (Reply, error) {
	advice, err := pawl.Ask[string](ctx, "advice", pawl.Question{Text: "Not good enough yet. What should it say?"}) // parks
	r.Advice = advice
	return r, err
}

func (r Reply) good() bool { return r.Score >= 0.75 }
func (r Reply) weak() bool { return r.Score >= 0.25 }

func Example() {
	tries := 0
	d := Desk{
		Generate: func(context.Context, Reply) (string, error) { tries++; return fmt.Sprintf("draft %d", tries), nil },
		Judge:    func(context.Context, Reply) (float64, error) { return 0.3 * float64(tries), nil },
	}
	out, err := pawl.Execute(context.Background(), d.Graph(), "Where is my parcel?")
	fmt.Println(out, err)
	// Output: draft 3 <nil>
}
