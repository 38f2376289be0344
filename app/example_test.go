package app_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"pawl"
	"pawl/app"
)

type order struct {
	Dish string `json:"dish"`
}

func kitchen() *pawl.Graph[order, order, string] {
	g := pawl.New[order, order, string]("kitchen", pawl.Options{Version: "1", Positional: []string{"dish"}})
	cook := g.Node("cook", func(_ context.Context, o order) (order, error) { return order{strings.ToUpper(o.Dish)}, nil })
	served := g.Succeed("SERVED")
	g.Start(cook, func(o order) (order, error) { return o, nil })
	g.From(cook).Otherwise(served)
	g.Finish(func(o order, _ pawl.Ending) (string, error) { return o.Dish, nil })
	return g
}

// The whole main of a program with its own workflow: the command line, stores, progress, questions and all.
func ExampleMain() {
	main := func() { app.Main(app.Graph(kitchen())) }
	_ = main
}

// A test runs commands in its own process.
func ExampleShell_Run() {
	code := app.Shell{
		Args: []string{"run", "kitchen", "--store", "memory", "pea", "soup"},
		In:   strings.NewReader(""), Out: os.Stdout, Err: &strings.Builder{},
	}.Run(context.Background(), app.Graph(kitchen()))
	fmt.Println(code)
	// Output:
	// "PEA SOUP"
	// 0
}
