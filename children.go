package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"pawl/internal/codec"
	"pawl/internal/host"
)

// Sub runs child as a node: into makes its input, back folds its output into the state. A child that does not succeed
// fails the node with a *RunError; the node's retries start the child's next attempt.
func Sub[I, S, O, CI, CS, CO any](g *Graph[I, S, O], name string, child *Graph[CI, CS, CO],
	into func(S) (CI, error), back func(S, CO) (S, error), o ...NodeOptions) Node[S] {
	if into == nil || back == nil {
		g.fault("node %q: Sub needs both functions", name)
	}
	run := func(ctx context.Context, s S) (S, error) {
		in, err := into(s)
		if err != nil {
			return s, err
		}
		out, err := Call(ctx, name, child, in)
		if err != nil {
			return s, err
		}
		return back(s, out)
	}
	return g.add(&node[S]{name: name, kind: host.Sub, run: run, opt: first(o), child: child})
}

// Fan says how Each runs: one child an item, at most Limit at a time (0: all at once). Join gets the results in item
// order, whatever finished first.
type Fan[S, CI, CO any] struct {
	Items   func(S) ([]CI, error)
	Limit   int
	Collect bool // false: the first failure cancels the others and fails the node
	Join    func(S, []Result[CO]) (S, error)
}

// Result is the end of one child.
type Result[O any] struct {
	Run    string
	Output O
	Err    error // *RunError
}

// MaxItems is how many items an Each may have.
const MaxItems = 10_000

// Each runs one child for every item.
func Each[I, S, O, CI, CS, CO any](g *Graph[I, S, O], name string, child *Graph[CI, CS, CO], f Fan[S, CI, CO], o ...NodeOptions) Node[S] {
	if f.Items == nil || f.Join == nil || f.Limit < 0 {
		g.fault("node %q: Each needs Items, Join and a Limit that is not negative", name)
	}
	run := func(ctx context.Context, s S) (S, error) {
		items, err := f.Items(s)
		if err != nil {
			return s, err
		}
		rs, err := family[CI, CO](ctx, name, true, child, items, f.Limit, f.Collect)
		if err != nil {
			return s, err
		}
		return f.Join(s, rs)
	}
	return g.add(&node[S]{name: name, kind: host.Each, run: run, opt: first(o), child: child})
}

// Call runs another graph as a child and waits for its output; the run is parked meanwhile. A child that does not
// succeed is a *RunError.
func Call[I, S, O any](ctx context.Context, key string, g *Graph[I, S, O], in I) (out O, err error) {
	rs, err := family[I, O](ctx, key, false, g, []I{in}, 1, true)
	if err != nil {
		return out, err
	}
	return rs[0].Output, rs[0].Err
}

// program builds a graph that a call names.
func program(g child) (*host.Program, error) {
	w, err := g.Build()
	if err != nil {
		return nil, Permanent(err)
	}
	return w.Program(), nil
}

func family[I, O any](ctx context.Context, key string, numbered bool, g child, items []I, limit int, collect bool) ([]Result[O], error) {
	if len(items) > MaxItems {
		return nil, &Error{Code: CodeExhausted, Text: fmt.Sprintf("%s: %d items, at most %d are allowed", key, len(items), MaxItems)}
	}
	if err := keyed(key); err != nil {
		return nil, err
	}
	p, err := program(g)
	if err != nil {
		return nil, err
	}
	h := host.From(ctx)
	if h == nil {
		h = &sitting{local: &local{mu: new(sync.Mutex)}}
		ctx = host.With(ctx, h)
	}
	ends, err := h.Children(ctx, host.Family{
		Key: key, Numbered: numbered, Program: p, N: len(items), Limit: limit, Collect: collect,
		Input: func(i int) ([]byte, error) {
			b, err := codec.Encode(&items[i])
			if err != nil {
				return nil, Permanent(&Error{Code: CodeInvalid, Text: fmt.Sprintf("%s: input %d: %v", key, i, err)})
			}
			return b, nil
		},
	})
	if err != nil {
		return nil, err
	}
	rs := make([]Result[O], len(ends))
	for i, e := range ends {
		rs[i].Run, rs[i].Err = e.Run, e.Err
		if e.Err == nil {
			if err := codec.Decode(e.Output, &rs[i].Output); err != nil {
				return nil, fmt.Errorf("output of child %s: %w", e.Run, err)
			}
		}
	}
	return rs, nil
}

// StartOptions of a run. Budget and caps can only lower what the graph allows.
type StartOptions struct {
	Key         string            `json:"key,omitempty"` // idempotency key, unique per tenant and workflow
	Priority    int               `json:"priority,omitempty"`
	Budget      Budget            `json:"budget,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"` // inherited by children; Info(ctx).Labels
	Sensitivity string            `json:"sensitivity,omitempty"`
	Correlation string            `json:"correlation,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"`
}

// Enqueue starts a background run if and only if this node commits, and returns its id. It has budgets of its own, is not
// cancelled with this run, and nothing waits for it. With a Key that another run owns, that run's id is returned.
func Enqueue[I, S, O any](ctx context.Context, key string, g *Graph[I, S, O], in I, o ...StartOptions) (string, error) {
	h := host.From(ctx)
	if h == nil {
		return "", ErrNotRunning
	}
	if err := keyed(key); err != nil {
		return "", err
	}
	p, err := program(g)
	if err != nil {
		return "", err
	}
	b, err := codec.Encode(&in)
	if err != nil {
		return "", Permanent(&Error{Code: CodeInvalid, Text: fmt.Sprintf("%s: input: %v", key, err)})
	}
	opt := first(o)
	raw, err := json.Marshal(opt)
	if err != nil {
		return "", Permanent(err)
	}
	return h.Enqueue(ctx, host.Enqueue{Key: key, Program: p, Input: b, Options: raw, RunKey: opt.Key})
}

// childError is how a child that ran in place ended, as its parent sees it. terminal is the Fail terminal that it
// reached, nil if it reached none.
func childError(name string, terminal *Error, err error) *RunError {
	e := Coded(err)
	r := &RunError{Status: StatusFailed, Terminal: TerminalFailed, Code: e.Code, Text: name + ": " + e.Error()}
	if terminal != nil {
		r.Terminal = terminal.Node
	}
	errors.As(err, &r.Budget)
	return r
}

// asked reports whether an error is a question that nobody could be asked.
func asked(err error) bool {
	_, ok := errors.AsType[*AskError](err)
	return ok
}
