package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pawl"
)

// body is what a random node does.
type body = func(context.Context, State) (State, error)

// node adds node i of a plan to its graph.
func (g *GraphPlan) node(to *graph, w *World, i int, later *[]*graph) pawl.Node[State] {
	n := g.nodes[i]
	name := fmt.Sprintf("%s%d", n.kind, i)
	o := pawl.NodeOptions{}
	switch n.kind {
	case kindSub:
		child := n.child.build(w, later)
		return pawl.Sub(to, name, child, func(s State) (Job, error) { return Job{s.Path + "/" + name, s.Sum}, nil },
			func(s State, d Done) (State, error) { return s.mix(d.Sum), nil })
	case kindEach:
		return pawl.Each(to, name, n.child.build(w, later), n.fan(name))
	case kindFlaky:
		o.Retry = pawl.Retry{Max: n.n, First: max(n.takes/2, n.lasts(200*time.Millisecond))}
	case kindBroken:
		o.Retry = pawl.Retry{Max: n.n - 1, First: n.lasts(100 * time.Millisecond)}
	case kindCosts:
		o.Costs = pawl.Budget{"fuel": 1}
	default:
	}
	run := n.body(w)
	if n.kind == kindLater {
		child := n.child.build(w, later)
		*later = append(*later, child)
		run = func(ctx context.Context, s State) (State, error) {
			_, err := pawl.Enqueue(ctx, "later", child, Job{label(ctx, s, "later"), s.Sum})
			return s.mix("later"), err
		}
	}
	return to.Node(name, func(ctx context.Context, s State) (State, error) {
		w.begin(ctx)
		return run(ctx, s)
	}, o)
}

// fan runs a child for each of a few items, and joins what they gave in the order of the items.
func (n nodePlan) fan(name string) pawl.Fan[State, Job, Done] {
	return pawl.Fan[State, Job, Done]{
		Limit: n.limit, Collect: true,
		Items: func(s State) (jobs []Job, err error) {
			for i := range n.n + 1 {
				jobs = append(jobs, Job{fmt.Sprintf("%s/%s[%d]", s.Path, name, i), sum(s.Sum, i)})
			}
			return jobs, nil
		},
		Join: func(s State, rs []pawl.Result[Done]) (State, error) {
			for i, r := range rs {
				if r.Err != nil {
					s = s.mix(i, pawl.Coded(r.Err).Code)
				} else {
					s = s.mix(i, r.Output.Sum)
				}
			}
			return s, nil
		},
	}
}

// label names something that a node does, in words that do not hang on ids.
func label(ctx context.Context, s State, what any) string {
	i := pawl.Info(ctx)
	return fmt.Sprintf("%s:%s:%d:%v", s.Path, i.Node, i.Visit, what)
}

func (n nodePlan) body(w *World) body {
	switch n.kind {
	case kindCalls, kindCosts:
		return n.calls(w)
	case kindMap:
		return n.mapped(w)
	case kindEmit:
		return n.emits
	case kindAsk, kindSilent:
		return n.asks
	case kindSleep:
		return func(ctx context.Context, s State) (State, error) {
			return s.mix("slept"), pawl.Sleep(ctx, "nap", n.takes+n.lasts(time.Second))
		}
	case kindFlaky, kindBroken:
		return n.fails(w)
	case kindStubborn:
		return n.stubborn(w)
	case kindLarge:
		return func(ctx context.Context, s State) (State, error) {
			text, err := pawl.Do(ctx, "large", func(context.Context) (string, error) { return strings.Repeat("x", 70<<10+n.n), nil })
			return s.mix(len(text)), err
		}
	}
	return func(ctx context.Context, s State) (State, error) {
		return s.mix("plain"), errors.Join(pawl.Note(ctx, "noted", n.n), wait(ctx, n.takes))
	}
}

func (n nodePlan) calls(w *World) body {
	return func(ctx context.Context, s State) (State, error) {
		for k := range n.n {
			o := pawl.CallOptions{For: k}
			if k%2 == 0 {
				o.Charge = pawl.Budget{"llm": 1}
			}
			r, err := pawl.Do(ctx, fmt.Sprint("call ", k), func(ctx context.Context) (uint32, error) {
				settle, err := pawl.Hold(ctx, pawl.Dollars(.01))
				if err != nil {
					return 0, err
				}
				defer settle(pawl.Dollars(.005))
				return w.effect(ctx, label(ctx, s, k), n.takes)
			}, o)
			if err != nil {
				return s, err
			}
			s = s.mix(r)
		}
		return s, nil
	}
}

func (n nodePlan) mapped(w *World) body {
	return func(ctx context.Context, s State) (State, error) {
		items := []int{1, 2, 3, 4}[:n.n+1]
		rs, err := pawl.Map(ctx, "map", items, n.limit, func(ctx context.Context, i int) (uint32, error) {
			return w.effect(ctx, label(ctx, s, i), n.takes)
		})
		if err != nil {
			return s, err
		}
		return s.mix(rs), nil
	}
}

func (n nodePlan) emits(ctx context.Context, s State) (State, error) {
	for k := range n.n {
		if err := pawl.Emit(ctx, "mark", label(ctx, s, k)); err != nil {
			return s, err
		}
		if err := wait(ctx, n.takes/4); err != nil {
			return s, err
		}
	}
	return s.mix("emitted"), nil
}

// asks puts one question after another. Of a silent node's nobody answers the last.
func (n nodePlan) asks(ctx context.Context, s State) (State, error) {
	for k := range n.n {
		q := pawl.Question{Text: label(ctx, s, k), For: 240 * time.Hour}
		if n.kind == kindSilent && k == n.n-1 {
			q.Text, q.For = silent+q.Text, n.lasts(20*time.Second)
		}
		a, err := pawl.Ask[uint32](ctx, fmt.Sprint("ask ", k), q)
		if errors.Is(err, pawl.ErrDeadline) {
			return s.mix("deadline"), nil
		}
		if err != nil {
			return s, err
		}
		s = s.mix(a)
	}
	return s, nil
}

// silent begins the text of questions that nobody answers.
const silent = "silent: "

func (n nodePlan) fails(w *World) body {
	return func(ctx context.Context, s State) (State, error) {
		r, err := pawl.Do(ctx, "once", func(ctx context.Context) (uint32, error) { return w.effect(ctx, label(ctx, s, "once"), n.takes/8) })
		if err != nil {
			return s, err
		}
		if n.kind == kindBroken || pawl.Info(ctx).Try <= n.n {
			return s, &pawl.Error{Code: "broken", Text: "try " + fmt.Sprint(pawl.Info(ctx).Try)}
		}
		return s.mix(r), nil
	}
}

// stubborn makes a call that fails until the receiver has heard of it often enough.
func (n nodePlan) stubborn(w *World) body {
	return func(ctx context.Context, s State) (State, error) {
		r, err := pawl.Do(ctx, "again", func(ctx context.Context) (uint32, error) {
			l := label(ctx, s, "again")
			r, err := w.effect(ctx, l, 0)
			if err == nil && w.Many.Done()[l] <= n.n {
				err = &pawl.Error{Code: pawl.CodeUnavailable, Text: "busy"}
			}
			return r, err
		}, pawl.CallOptions{Retry: pawl.Retry{Max: n.n, First: max(n.takes/4, n.lasts(100*time.Millisecond))}})
		return s.mix(r), err
	}
}
