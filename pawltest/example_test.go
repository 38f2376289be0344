package pawltest_test

import (
	"context"
	"errors"
	"fmt"

	"pawl"
	"pawl/pawltest"
)

// t stands for the *testing.T of a test: with one, the hour that the graph sleeps would pass at once.
type t struct{}

func (t) Helper()                        {}
func (t) Fatalf(format string, a ...any) { fmt.Printf(format+"\n", a...) }

type order struct {
	Offer string
	Yes   bool
}

// Purchase asks a shop for an offer and a person whether it is accepted.
func purchase() *pawl.Graph[string, order, string] {
	g := pawl.New[string, order, string]("purchase", pawl.Options{Version: "1"})
	offer := g.Node("offer", func(ctx context.Context, o order) (order, error) {
		text, err := pawl.Do(ctx, "shop", func(context.Context) (string, error) { return "a bicycle for $80", nil })
		o.Offer = text
		return o, err
	}, pawl.NodeOptions{Retry: pawl.Retry{Max: 1}})
	person := g.Node("person", func(ctx context.Context, o order) (order, error) {
		yes, err := pawl.Ask[bool](ctx, "buy", pawl.Question{Text: "Buy " + o.Offer + "?"})
		o.Yes = yes
		return o, err
	})
	bought, left := g.Succeed("BOUGHT"), g.Fail("LEFT")
	g.Start(offer, func(string) (order, error) { return order{}, nil })
	g.From(offer).Otherwise(person)
	g.From(person).When("yes", func(o order) bool { return o.Yes }, bought).Otherwise(left)
	g.Finish(func(o order, _ pawl.Ending) (string, error) { return o.Offer, nil })
	return g
}

func ExampleRun() {
	r := pawltest.Run(t{}, purchase(), "a bicycle", pawltest.Script{
		Answers: map[string][]any{"buy": {true}},
		Fail:    map[string][]error{"shop": {errors.New("the line is busy")}},
	})
	fmt.Println(r.Run.Status, r.Output)
	fmt.Println(r.Path())
	// Output:
	// succeeded a bicycle for $80
	// [offer person BOUGHT]
}
