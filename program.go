package pawl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"pawl/internal/codec"
	"pawl/internal/host"
)

// schemas are the JSON Schemas of a graph's types.
type schemas struct{ input, output, state []byte }

// compile makes the program of a graph that was found sound.
func (g *Graph[I, S, O]) compile(children []*Workflow, docs schemas) *Workflow {
	for i, n := range g.nodes {
		n.index, n.tries = i, retry(n.opt.Retry, g.opt.Retry).Max
		for _, e := range n.out() {
			e.number = g.edges
			g.edges++
		}
	}
	states := codec.WriterOf(reflect.TypeFor[S]())
	p := &host.Program{
		Shape:      g.shape(children),
		Begin:      g.beginRaw,
		Encode:     func(b []byte, s any) ([]byte, error) { return states.Append(b[:0], s) },
		Decode:     g.decode,
		Run:        func(ctx context.Context, n int, s any) (any, error) { return g.nodes[n].run(ctx, s.(S)) },
		Holds:      func(n, e int, s any) bool { return g.nodes[n].edges[e].when(s.(S)) },
		Claims:     g.claimRaw,
		Key:        func(n int, s any) string { return g.nodes[n].key(s.(S)) },
		Failure:    g.failure,
		Finish:     g.finishRaw,
		Closing:    g.closingRaw,
		Migrations: map[string]func(host.Moved) (host.Moved, error){},
		Exec:       g.execRaw,
		Input:      docs.input,
		Output:     docs.output,
		State:      docs.state,
	}
	for from, f := range g.moves {
		p.Migrations[from] = func(m host.Moved) (host.Moved, error) {
			to, err := f(Migration(m))
			return host.Moved(to), err
		}
	}
	p.Shape.Fingerprint = fingerprint(&p.Shape, codec.Shape(reflect.TypeFor[S]()))
	return &Workflow{p: p, children: children}
}

func (g *Graph[I, S, O]) shape(children []*Workflow) host.Shape {
	s := host.Shape{
		Name: g.name, Version: g.opt.Version, Start: g.start.index, Grace: g.opt.Grace, Retain: g.opt.Retain,
		Budget: map[string]int64{}, Positional: g.opt.Positional,
	}
	maps.Copy(s.Budget, g.opt.Budget)
	if g.opt.Cost > 0 {
		s.Budget[MeterUSD] = int64(g.opt.Cost)
	}
	if g.opt.Runtime > 0 {
		s.Budget[MeterRuntime] = g.opt.Runtime.Milliseconds()
	}
	for _, n := range g.nodes {
		v := host.Node{Name: n.name, Kind: n.kind, Retry: retry(n.opt.Retry, g.opt.Retry), Timeout: n.opt.Timeout, Costs: n.opt.Costs, Keyed: n.key != nil}
		if v.Timeout == 0 {
			v.Timeout = g.opt.Timeout
		}
		if n.kind.Terminal() {
			v.Outcome = n.outcome()
		}
		if n.kind == host.Sub || n.kind == host.Each {
			v.Child, children = children[0].ID(), children[1:]
			s.Children = append(s.Children, v.Child)
		}
		for _, e := range n.edges {
			v.Edges = append(v.Edges, e.shape())
		}
		if n.other != nil {
			v.Edges = append(v.Edges, n.other.shape())
		}
		for _, e := range n.onError {
			v.Errors = append(v.Errors, e.shape())
		}
		s.Nodes = append(s.Nodes, v)
	}
	return s
}

func (e *edge[S]) shape() host.Edge {
	return host.Edge{Name: e.name, Kind: e.kind, To: e.to.index, Max: e.max, PerTurn: e.turn}
}

// retry is a node's own, or the graph's default.
func retry(own, def Retry) host.Retry {
	if own == (Retry{}) {
		own = def
	}
	own.Max = max(own.Max, 0)
	return host.Retry(own)
}

// fingerprint covers names, kinds and order of nodes and edges, the children and the shape of the state; bounds, caps and
// times may change without a new version.
func fingerprint(s *host.Shape, state string) string {
	type edge struct {
		N string
		K host.EdgeKind
		T int
	}
	type node struct {
		N, O  string
		K     host.Kind
		E, Er []edge
	}
	all := func(es []host.Edge) (out []edge) {
		for _, e := range es {
			out = append(out, edge{e.Name, e.Kind, e.To})
		}
		return out
	}
	var nodes []node
	for _, n := range s.Nodes {
		nodes = append(nodes, node{n.Name, n.Outcome, n.Kind, all(n.Edges), all(n.Errors)})
	}
	b, err := json.Marshal([]any{s.Name, s.Start, nodes, s.Children, state})
	if err != nil {
		panic(err) // plain data
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

func (g *Graph[I, S, O]) beginRaw(input []byte) (any, error) {
	var in I
	if err := codec.Strict(input, &in); err != nil {
		return nil, &Error{Code: CodeInvalid, Text: "input: " + err.Error()}
	}
	return g.enter(in)
}

// enter makes the first state. Whatever the start function refuses is the caller's input.
func (g *Graph[I, S, O]) enter(in I) (s S, err error) {
	err = guarded("Start", func() (err error) { s, err = g.begin(in); return err })
	if _, coded := errors.AsType[*Error](err); err != nil && !coded {
		err = &Error{Code: CodeInvalid, Text: err.Error(), Err: err}
	}
	return s, err
}

func (g *Graph[I, S, O]) decode(data []byte) (any, error) {
	var s S
	err := codec.Decode(data, &s)
	return s, err
}

func (g *Graph[I, S, O]) claimRaw(n, e int, s any, err error) (any, bool) {
	return g.nodes[n].onError[e].claim(s.(S), err)
}

func (g *Graph[I, S, O]) failure(n int, s any) error {
	if f := g.nodes[n].end.Error; f != nil {
		return f(s.(S))
	}
	return nil
}

func (g *Graph[I, S, O]) finishRaw(s any, e host.Ending) ([]byte, error) {
	out, err := g.finish(s.(S), ending(e))
	if err != nil {
		return nil, err
	}
	b, err := codec.Encode(&out)
	if err != nil {
		return nil, Permanent(&Error{Code: CodeInvalid, Text: "output: " + err.Error()})
	}
	return b, nil
}

func (g *Graph[I, S, O]) closingRaw(s any, e host.Ending) ([]host.Event, error) {
	if g.closing == nil {
		return nil, nil
	}
	last, _ := s.(S) // a run that ended before it had a state closes with an empty one
	var out []host.Event
	for _, v := range g.closing(last, ending(e)) {
		b, err := codec.Encode(v.Data)
		if err != nil {
			return nil, Permanent(&Error{Code: CodeInvalid, Text: fmt.Sprintf("closing event %q: %v", v.Type, err)})
		}
		out = append(out, host.Event{Type: v.Type, Data: b})
	}
	return out, nil
}

func (g *Graph[I, S, O]) execRaw(ctx context.Context, input []byte) ([]byte, error) {
	var in I
	if err := codec.Decode(input, &in); err != nil {
		return nil, err
	}
	out, terminal, err := execute(ctx, g, in, 0)
	if asked(err) {
		return nil, err
	}
	if err == nil && terminal != nil {
		err = terminal
	}
	if err != nil {
		return nil, childError(g.name, terminal, err)
	}
	return codec.Encode(&out)
}

func ending(e host.Ending) Ending {
	return Ending{Run: e.Run, Terminal: e.Terminal, Outcome: e.Outcome, Attempt: e.Attempt, Cost: USD(e.Cost),
		Duration: e.Duration, Path: e.Path, Err: Coded(e.Err)}
}
