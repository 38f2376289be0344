package pawl

import (
	"context"
	"errors"
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
// the caller's; children and background runs are executed in place. Ask returns an *AskError, and a node that returns it
// ends the execution with it: no error edge can claim it, because in an engine the run would wait. At a Fail terminal both
// the output and an *Error are returned.
func Execute[I, S, O any](ctx context.Context, g *Graph[I, S, O], in I, mode ...Mode) (O, error) {
	out, terminal, err := execute(ctx, g, in, first(mode))
	if err == nil && terminal != nil {
		err = terminal
	}
	return out, err
}

// execute tells the end at a Fail terminal apart from every other failure.
func execute[I, S, O any](ctx context.Context, g *Graph[I, S, O], in I, mode Mode) (out O, terminal *Error, err error) {
	w, err := g.Build()
	if err != nil {
		return out, nil, err
	}
	s, err := g.enter(in)
	if err != nil {
		return out, nil, err
	}
	l := newLocal(localOf(ctx), w.p.Shape.Budget)
	x := execution[S]{l: l, ctx: ctx, at: g.start, strict: mode == Strict}
	x.taken = x.small[:]
	if g.edges > len(x.small) {
		x.taken = make([]int32, g.edges)
	}
	x.path = x.start[:0]
	l.left = x.left
	s, err = x.run(s)
	if err != nil {
		return out, nil, err
	}
	e := Ending{Terminal: x.at.name, Outcome: x.at.outcome(), Attempt: 1, Cost: USD(l.spent(MeterUSD)), Path: x.names}
	err = guarded("Finish", func() (err error) {
		if x.at.kind == host.Fail {
			e.Err = failed(x.at, s)
		}
		out, err = g.finish(s, e)
		return err
	})
	if err != nil {
		return out, nil, Coded(err)
	}
	return out, e.Err, nil
}

// failed is the error of a Fail terminal.
func failed[S any](n *node[S], s S) *Error {
	e := Error{Text: "the run ended in " + n.name}
	if n.end.Error != nil {
		if err := n.end.Error(s); err != nil {
			if own, ok := errors.AsType[*Error](err); ok && own.Code == "" {
				e = *own
			} else {
				e = *Coded(err)
			}
		}
	}
	if e.Code == "" {
		e.Code = n.name
	}
	e.Node = n.name
	return &e
}

type execution[S any] struct {
	l      *local
	ctx    context.Context
	at     *node[S]
	strict bool
	visits int
	taken  []int32
	path   []*node[S]
	small  [24]int32
	start  [16]*node[S]
}

// run goes from node to node until a terminal.
func (x *execution[S]) run(s S) (S, error) {
	for !x.at.kind.Terminal() {
		n := x.at
		if x.visits == MaxSteps {
			return s, &Error{Code: CodeStepCap, Node: n.name, Text: fmt.Sprintf("the run took %d steps", MaxSteps)}
		}
		if x.ctx.Err() != nil {
			return s, x.stopped(n)
		}
		x.path = append(x.path, n)
		next, later, err := x.visit(n, s)
		if x.ctx.Err() != nil { // whatever the node made of it
			return s, x.stopped(n)
		}
		if err != nil {
			if s, err = x.fail(n, s, err); err != nil {
				return s, err
			}
			continue
		}
		s = next
		if err := x.choose(n, s); err != nil {
			return s, at(n, err)
		}
		for _, f := range later {
			f(x.ctx)
		}
	}
	return s, nil
}

// stopped is the end of an execution whose context is done.
func (x *execution[S]) stopped(n *node[S]) error {
	err := context.Cause(x.ctx)
	e := at(n, err)
	if !errors.Is(err, context.DeadlineExceeded) {
		e.Code = CodeCancelled
	}
	return e
}

// at is the error of a run that ends in n without a terminal of its own.
func at[S any](n *node[S], err error) *Error {
	e := *Coded(err)
	if e.Node == "" {
		e.Node = n.name
	}
	return &e
}

// visit runs a node with its retries, and gives what it has enqueued.
func (x *execution[S]) visit(n *node[S], s S) (next S, later []func(context.Context), err error) {
	x.visits++
	x.l.calls = 0
	if err := x.l.count(n.opt.Costs); err != nil {
		return s, nil, err
	}
	for try := 1; ; try++ {
		t := &sitting{local: x.l, node: n.name, visit: x.visits, try: try}
		next, err = x.call(host.With(x.ctx, t), n, s)
		later = t.close()
		if err == nil {
			return next, later, nil
		}
		if _, ok := Retryable(err); !ok || try > n.tries || x.ctx.Err() != nil {
			return s, nil, err
		}
	}
}

func (x *execution[S]) call(ctx context.Context, n *node[S], s S) (next S, err error) {
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
	next, err = n.run(ctx, s)
	if err == nil && x.strict {
		next, err = strict(next, "state after node "+n.name)
	}
	return next, err
}

// choose takes the first edge that is open and holds.
func (x *execution[S]) choose(n *node[S], s S) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked("a condition of node "+n.name, r)
		}
	}()
	for _, e := range n.edges {
		// OnAnswer is never open: nobody can have answered.
		if e.kind == host.When && !x.spent(e) && e.when(s) {
			x.take(e)
			return nil
		}
	}
	x.at = n.other.to
	return nil
}

func (x *execution[S]) spent(e *edge[S]) bool { return e.max > 0 && int(x.taken[e.number]) >= e.max }

func (x *execution[S]) take(e *edge[S]) {
	x.taken[e.number]++
	x.at = e.to
}

// fail takes the first error edge that claims err, on the state before the node.
func (x *execution[S]) fail(n *node[S], s S, err error) (folded S, end error) {
	if asked(err) {
		return s, at(n, err)
	}
	end = at(n, err)
	fault := guarded("a claim of node "+n.name, func() error {
		for _, e := range n.onError {
			if x.spent(e) {
				continue
			}
			if f, ok := e.claim(s, err); ok {
				x.take(e)
				folded, end = f, nil
				return nil
			}
		}
		return nil
	})
	if fault != nil {
		return s, at(n, fault)
	}
	if end == nil && x.strict && x.at.kind.Terminal() { // any other node checks its state itself
		folded, fault = strict(folded, "state that an error edge of node "+n.name+" made")
		if fault != nil {
			return s, at(n, fault)
		}
	}
	return folded, end
}

// left says how often an edge of the running node may still be taken.
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
	refuse := func(why string) error { return Permanent(&Error{Code: CodeInvalid, Text: where + ": " + why}) }
	b, err := codec.Encode(&s)
	if err != nil {
		return s, refuse(err.Error())
	}
	if err := codec.Decode(b, &out); err != nil {
		return s, refuse(err.Error())
	}
	if at, same := codec.Same(s, out); !same {
		return s, refuse(at + " changes when it is stored")
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
