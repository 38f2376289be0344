package pawl

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"

	"pawl/internal/codec"
	"pawl/internal/host"
)

// Caps that every run has, whatever its graph says.
const (
	MaxSteps       = 10_000 // visits of a run
	MaxCalls       = 10_000 // calls of one visit
	MaxClaims      = 5      // executions of one visit that end in a crash
	MaxDepth       = 16     // children of children
	MaxGenerations = 16     // background runs of background runs
)

// Mode of Execute.
type Mode uint8

// Strict encodes and decodes the state at every node and fails where that changes anything. Tests use it.
const Strict Mode = 1

// Execute runs a graph in the calling goroutine with nothing recorded: for tests, and for work that needs no durability.
// Bounds, Costs, budgets and caps hold as in an engine. Nothing waits: retries follow at once, Sleep returns, timeouts are
// the caller's; children and background runs are executed in place, and Ask returns an *AskError. At a Fail terminal both
// the output and an *Error are returned.
func Execute[I, S, O any](ctx context.Context, g *Graph[I, S, O], in I, mode ...Mode) (out O, err error) {
	w, err := g.Build()
	if err != nil {
		return out, err
	}
	s, err := g.begin(in)
	if err != nil {
		return out, err
	}
	l := &local{info: host.Info{Attempt: 1}, caps: w.p.Shape.Budget, parent: localOf(ctx)}
	l.share()
	x := execution[S]{l: l, ctx: host.With(ctx, l), start: g.start, strict: first(mode) == Strict}
	x.taken = x.small[:]
	if g.edges > len(x.small) {
		x.taken = make([]int32, g.edges)
	}
	l.left = x.left
	end, s, err := x.run(s)
	if err != nil {
		return out, err
	}
	e := Ending{Terminal: end.name, Outcome: end.end.Outcome, Attempt: 1, Cost: USD(l.used[MeterUSD]), Path: func() []string { return x.names() }}
	if e.Outcome == "" {
		e.Outcome = end.name
	}
	if end.kind == host.Fail {
		e.Err = failed(end, s)
	}
	if err := guarded("Finish", func() (err error) { out, err = g.finish(s, e); return err }); err != nil {
		return out, err
	}
	if e.Err != nil {
		return out, e.Err
	}
	return out, nil
}

// failed is the error of a Fail terminal.
func failed[S any](n *node[S], s S) *Error {
	if n.end.Error != nil {
		if err := n.end.Error(s); err != nil {
			e := *Coded(err)
			e.Node = n.name
			return &e
		}
	}
	return &Error{Code: n.name, Node: n.name, Text: "the run ended in " + n.name}
}

type execution[S any] struct {
	l      *local
	ctx    context.Context
	start  *node[S]
	at     *node[S]
	strict bool
	taken  []int32
	small  [24]int32
	path   []*node[S]
}

// run goes from node to node until a terminal.
func (x *execution[S]) run(s S) (*node[S], S, error) {
	x.at = x.start
	for steps := 0; ; steps++ {
		n := x.at
		if n.kind.Terminal() {
			return n, s, nil
		}
		if steps == MaxSteps {
			return nil, s, &Error{Code: CodeStepCap, Node: n.name, Text: fmt.Sprintf("the run took %d steps", MaxSteps)}
		}
		if err := x.ctx.Err(); err != nil {
			return nil, s, Coded(err)
		}
		x.path = append(x.path, n)
		next, err := x.visit(n, s)
		if err == nil {
			s = next
			err = guarded("condition", func() error { x.at = x.choose(n, s); return nil })
			if err != nil {
				return nil, s, err
			}
			x.l.background()
			continue
		}
		to, folded, cerr := x.claim(n, s, err)
		if cerr != nil {
			return nil, s, cerr
		}
		if to == nil {
			e := *Coded(err)
			if e.Node == "" {
				e.Node = n.name
			}
			return nil, s, &e
		}
		s, x.at = folded, to
	}
}

// visit runs a node with its retries.
func (x *execution[S]) visit(n *node[S], s S) (next S, err error) {
	x.l.visit(n.name)
	if len(n.opt.Costs) > 0 {
		if err := x.l.count(n.opt.Costs); err != nil {
			return s, err
		}
	}
	for try := 0; ; try++ {
		x.l.try(try + 1)
		next, err = x.call(n, s)
		if err == nil {
			return next, err
		}
		if _, ok := Retryable(err); !ok || try >= n.tries || x.ctx.Err() != nil {
			return next, err
		}
	}
}

func (x *execution[S]) call(n *node[S], s S) (next S, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked("node "+n.name, r)
		}
	}()
	if x.strict {
		if s, err = strict(s, "state before node "+n.name); err != nil {
			return s, err
		}
	}
	next, err = n.run(x.ctx, s)
	if err == nil && x.strict {
		next, err = strict(next, "state after node "+n.name)
	}
	return next, err
}

func (x *execution[S]) choose(n *node[S], s S) *node[S] {
	for _, e := range n.edges {
		if e.max > 0 && int(x.taken[e.number]) >= e.max {
			continue
		}
		if e.kind == host.When && e.when(s) {
			x.taken[e.number]++
			return e.to
		}
	}
	return n.other.to
}

func (x *execution[S]) claim(n *node[S], s S, err error) (to *node[S], folded S, fault error) {
	fault = guarded("claim", func() error {
		for _, e := range n.onError {
			if e.max > 0 && int(x.taken[e.number]) >= e.max {
				continue
			}
			if f, ok := e.claim(s, err); ok {
				x.taken[e.number]++
				to, folded = e.to, f
				return nil
			}
		}
		return nil
	})
	return to, folded, fault
}

func (x *execution[S]) left(edge string) (int, bool) {
	for _, e := range x.at.out() {
		if e.name == edge {
			if e.max == 0 {
				return -1, true
			}
			return e.max - int(x.taken[e.number]), true
		}
	}
	return 0, false
}

func (x *execution[S]) names() []string {
	out := make([]string, len(x.path))
	for i, n := range x.path {
		out[i] = n.name
	}
	return out
}

// strict gives back what JSON makes of a state, and an error if that is not the same.
func strict[S any](s S, where string) (out S, err error) {
	a, err := codec.Encode(s)
	if err != nil {
		return s, Permanent(&Error{Code: CodeInvalid, Text: where + ": " + err.Error()})
	}
	if err := codec.Decode(a, &out); err != nil {
		return s, Permanent(&Error{Code: CodeInvalid, Text: where + ": " + err.Error()})
	}
	b, err := codec.Encode(out)
	if err != nil || !bytes.Equal(a, b) {
		return s, Permanent(&Error{Code: CodeInvalid, Text: fmt.Sprintf("%s: it changes when it is stored: %s became %s", where, a, b)})
	}
	return out, nil
}

// guarded turns a panic of pure graph code into an error.
func guarded(what string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked(what, r)
		}
	}()
	return f()
}

// panicked is the error of a panic: internal, with its stack, not retried.
func panicked(what string, r any) error {
	return Permanent(&Error{Code: CodeInternal, Text: fmt.Sprintf("panic in %s: %v\n%s", what, r, debug.Stack())})
}
