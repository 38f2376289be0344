package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
	"pawl/store"
)

// advance takes the first edge that holds.
func (h *hand) advance(ctx context.Context, v *visit, t machine.Tick, next any) error {
	raw, err := h.p.encode(h.spare, next, h.rec.Node)
	if err != nil {
		return h.failed(ctx, v, t, err)
	}
	choices, err := h.p.m.Open(h.choices[:0], h.rec, t.Answered)
	if err != nil {
		return err
	}
	h.choices = choices
	_, node, err := h.p.m.Node(h.rec)
	if err != nil {
		return err
	}
	edge, spent, err := h.choose(node, choices, next)
	if err != nil {
		return h.fail(ctx, v, t, h.at(err))
	}
	key := ""
	if h.p.Shape.Nodes[node].Keyed && !h.head.Unkeyed {
		if err := guard("Key", func() error { key = h.p.Key(node, next); return nil }); err != nil {
			return h.fail(ctx, v, t, h.at(err))
		}
	}
	to := h.p.Shape.Nodes[node].Edges[edge].To
	failure, err := h.failure(to, next)
	if err != nil {
		return h.fail(ctx, v, t, h.at(err))
	}
	c := commit{state: next, raw: raw, visit: v, key: key, background: true}
	err = h.commit(ctx, c, func(r *machine.Record) (machine.Move, error) { return h.p.m.Advance(r, t, edge, spent, failure) })
	if taken, ok := errors.AsType[*store.Taken](err); ok {
		return h.merge(ctx, v, t, key, taken.Owner)
	}
	return err
}

// choose finds the first edge that holds and is not spent.
func (h *hand) choose(node int, choices []machine.Choice, next any) (edge int, spent []int, err error) {
	edge = -1
	err = guardIn("a condition of node", h.rec.Node, func() error {
		for _, c := range choices {
			if c.Kind == host.When && !h.p.Holds(node, c.Edge, next) {
				continue
			}
			if c.Spent {
				spent = append(spent, c.Edge)
				continue
			}
			edge = c.Edge
			return nil
		}
		return nil
	})
	return edge, spent, err
}

// failure is the error of a Fail terminal.
func (h *hand) failure(node int, s any) (out *pawl.Error, err error) {
	n := &h.p.Shape.Nodes[node]
	if n.Kind != host.Fail {
		return nil, nil
	}
	var given error
	if err := guardIn("the error of terminal", n.Name, func() error { given = h.p.Failure(node, s); return nil }); err != nil {
		return nil, err
	}
	if given == nil {
		return &pawl.Error{Code: n.Name, Node: n.Name, Text: "the run ended in " + n.Name}, nil
	}
	e := *pawl.Coded(given)
	e.Node = n.Name
	return &e, nil
}

// failed decides after a try that failed: the next one, an error edge, or the end.
func (h *hand) failed(ctx context.Context, v *visit, t machine.Tick, err error) error {
	n, node, merr := h.p.m.Node(h.rec)
	if merr != nil {
		return merr
	}
	cause := h.at(err)
	if after, ok := pawl.Retryable(err); ok && h.rec.Try <= n.Retry.Max {
		return h.retry(ctx, v, t, n, cause, after)
	}
	choices, merr := h.p.m.Errors(h.rec, t.Answered)
	if merr != nil {
		return merr
	}
	edge, spent, folded, gerr := h.claim(n.Name, node, choices, cause)
	if gerr != nil {
		return h.fail(ctx, v, t, h.at(gerr))
	}
	if edge < 0 {
		return h.fail(ctx, v, t, cause)
	}
	raw, err := h.p.encode(h.spare, folded, n.Name)
	if err != nil {
		return h.fail(ctx, v, t, h.at(err))
	}
	to := n.Errors[edge].To
	failure, err := h.failure(to, folded)
	if err != nil {
		return h.fail(ctx, v, t, h.at(err))
	}
	return h.commit(ctx, commit{state: folded, raw: raw, visit: v}, func(r *machine.Record) (machine.Move, error) {
		return h.p.m.Claim(r, t, edge, spent, cause, failure)
	})
}

// claim finds the first error edge that claims a cause and is not spent, and what it makes of the state before the node.
func (h *hand) claim(name string, node int, choices []machine.Choice, cause *pawl.Error) (edge int, spent []int, folded any, err error) {
	edge = -1
	err = guard("an error edge of node "+name, func() error {
		for _, c := range choices {
			copied, err := h.p.Decode(h.raw)
			if err != nil {
				return err
			}
			f, ok := h.p.Claims(node, c.Edge, copied, cause)
			if !ok {
				continue
			}
			if c.Spent {
				spent = append(spent, c.Edge)
				continue
			}
			edge, folded = c.Edge, f
			return nil
		}
		return nil
	})
	return edge, spent, folded, err
}

// at is an error in its recorded form, with the node where it happened.
func (h *hand) at(err error) *pawl.Error { return at(err, h.rec.Node) }

func at(err error, node string) *pawl.Error {
	e := *pawl.Coded(err)
	if e.Node == "" {
		e.Node = node
	}
	return &e
}

// retry makes the next try durable, and waits for it in hand where that is short.
func (h *hand) retry(ctx context.Context, v *visit, t machine.Tick, n *host.Node, cause *pawl.Error, atLeast time.Duration) error {
	after := machine.Backoff(n.Retry, h.rec.Try, fmt.Sprintf("%s/%d", h.run.ID, h.rec.Visit), atLeast)
	err := h.commit(ctx, commit{visit: v}, func(r *machine.Record) (machine.Move, error) {
		return h.p.m.Retry(r, t, cause, after)
	})
	if err != nil {
		return err
	}
	h.pause(ctx, after)
	return nil
}

// pause sits a short wait out, unless the hand must let go.
func (h *hand) pause(ctx context.Context, d time.Duration) {
	end := time.Now().Add(d)
	for h.interrupted() == nil && !h.w.draining() && ctx.Err() == nil {
		left := time.Until(end)
		if left <= 0 {
			return
		}
		wait(ctx, min(left, 50*time.Millisecond), nil)
	}
}

// fail ends the run with an error that nothing claimed. v is the execution that led here, if one did.
func (h *hand) fail(ctx context.Context, v *visit, t machine.Tick, err *pawl.Error) error {
	return h.commit(ctx, commit{visit: v}, func(r *machine.Record) (machine.Move, error) { return machine.Fail(r, t, err) })
}

// cancelled ends the run that was asked to end.
func (h *hand) cancelled(ctx context.Context, v *visit, t machine.Tick) error {
	return h.commit(ctx, commit{visit: v}, func(r *machine.Record) (machine.Move, error) { return machine.Cancelled(r, t) })
}

// giveBack releases the run because the worker stops, or because the store has failed the execution under way.
func (h *hand) giveBack(ctx context.Context, v *visit, t machine.Tick, after time.Duration) error {
	return h.commit(ctx, commit{visit: v}, func(r *machine.Record) (machine.Move, error) { return machine.Stop(r, t, after) })
}

// hold parks a run that no graph here can go on with.
func (h *hand) hold(ctx context.Context, reason string) error {
	t := h.tick(ctx, nil)
	reason, _, _ = strings.Cut(reason, "\n") // a stack is of no use to whoever waits
	if h.rec.Cancel != nil {
		h.p = nil // nothing here can make its closing events
		return h.cancelled(ctx, nil, t)
	}
	h.e.heldHere(h.run)
	return h.commit(ctx, commit{}, func(r *machine.Record) (machine.Move, error) { return machine.Hold(r, t, reason) })
}

// park throws the execution away until what it waits for has come.
func (h *hand) park(ctx context.Context, v *visit, t machine.Tick) error {
	v.mu.Lock()
	l := v.packLocked()
	waits, families := slices.Clone(l.waits), slices.Clone(l.kin)
	v.mu.Unlock()
	kept, err := v.unasked(waits)
	if err != nil {
		return err
	}
	return h.commit(ctx, commit{visit: v, parks: true}, func(r *machine.Record) (machine.Move, error) {
		now := slices.Clone(families)
		for i, f := range now {
			if known, ok := r.Family(f.Key); ok {
				now[i] = f.Catch(known)
			}
		}
		return h.p.m.Park(r, t, waits, kept, now)
	})
}

// unasked are the questions and timers of earlier executions that this one did not come to: they stay.
func (v *visit) unasked(registered []machine.Wait) (kept []machine.Wait, err error) {
	for _, w := range v.rec.Waits {
		if w.Kind != pawl.WaitsForAnswer && w.Kind != pawl.WaitsForTime {
			continue
		}
		if slices.ContainsFunc(registered, func(r machine.Wait) bool { return r.Kind == w.Kind && r.Key == w.Key }) {
			continue
		}
		if err := v.load(); err != nil {
			return nil, err
		}
		v.mu.Lock()
		over := v.keys[w.Key] || v.journal[w.Key] != nil // it came to its end, in this execution or before
		v.mu.Unlock()
		if !over {
			kept = append(kept, w)
		}
	}
	return kept, nil
}

// migrate carries a run of an older version over to the graph that is registered.
func (h *hand) migrate(ctx context.Context) error {
	f := h.p.Migrations[h.run.Version]
	if f == nil {
		return h.hold(ctx, "version "+h.run.Version+" is gone and nothing migrates from it")
	}
	var to host.Moved
	err := guard("Migrate", func() (err error) { to, err = f(host.Moved{Node: h.rec.Node, State: h.raw}); return err })
	var state any
	if err == nil {
		state, err = h.p.decode(to.State)
	}
	var raw []byte
	if err == nil {
		raw, err = h.p.encode(h.spare, state, to.Node)
	}
	if err == nil {
		_, err = h.p.m.Migrate(h.rec, h.tick(ctx, nil), to.Node)
	}
	if err != nil {
		return h.hold(ctx, fmt.Sprintf("the migration from version %s failed: %v", h.run.Version, err))
	}
	t := h.tick(ctx, nil)
	err = h.commit(ctx, commit{state: state, raw: raw}, func(r *machine.Record) (machine.Move, error) {
		return h.p.m.Migrate(r, t, to.Node)
	})
	h.run.Version = h.p.Shape.Version
	return err
}
