package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
	"pawl/store/memory"
)

type counter struct {
	N     int    `json:"n"`
	Pad   string `json:"pad"`
	Reply string `json:"reply"`
}

func ring(bound int) *pawl.Graph[int, counter, int] {
	g := pawl.New[int, counter, int]("ring", pawl.Options{Version: "1"})
	a := g.Node("a", func(ctx context.Context, s counter) (counter, error) { s.N++; return s, nil })
	end := g.Succeed("DONE")
	g.Start(a, func(int) (counter, error) { return counter{}, nil })
	g.From(a).When("again", func(s counter) bool { return s.N < bound }, a).AtMost(9000).Otherwise(end)
	g.Finish(func(s counter, _ pawl.Ending) (int, error) { return s.N, nil })
	return g
}

func build[I, S, O any](t testing.TB, g *pawl.Graph[I, S, O]) *pawl.Workflow {
	t.Helper()
	w, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestSmoke(t *testing.T) {
	var s store.Store = memory.New()
	e, err := engine.New(s, []*pawl.Workflow{build(t, ring(3))}, engine.Config{Trace: engine.Trace{Fault: func(op string, err error) { t.Log(op, err) }}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	rs := e.As(pawl.Caller{User: "ann"})
	st, err := rs.Start(ctx, "ring", json.RawMessage("1"), pawl.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.WorkRun(ctx, st.Run.ID); err != nil {
		t.Fatal(err)
	}
	r, err := rs.Get(ctx, st.Run.ID)
	fmt.Printf("%+v %v\n", r, err)
	for ev, err := range rs.Events(ctx, r.ID, 0) {
		fmt.Println(ev.Seq, ev.Type, string(ev.Data), err)
	}
	steps, err := rs.Steps(ctx, r.ID, 0, 0)
	for _, s := range steps {
		fmt.Println(s.Seq, s.Name, s.StateBefore, s.StateAfter, s.Edge, err)
	}
}
