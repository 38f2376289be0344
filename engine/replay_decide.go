package engine

import (
	"cmp"
	"encoding/json"
	"strings"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
)

// decided makes the decision after a try and compares it with the recorded one.
func (r *replaying) decided(g *stepGroup, out played, cause *pawl.Error) error {
	x := out.x
	if !x.open && out.err == nil {
		if out.raw, out.err = r.p.encode(nil, out.next, r.rec.Node); out.err == nil {
			r.unmade(x, r.noted(g, "orphans"))
		}
	} else {
		r.unmade(x, nil)
	}
	if r.over() {
		return nil
	}
	t := machine.Tick{Now: g.at, Calls: g.Upto, Notes: x.notes, Answered: x.answered}
	mv, state, raw, err := r.move(g, out, t, cause)
	if err != nil || r.over() {
		return err
	}
	if mv.End && mv.Named {
		if mv, err = r.finishes(t, mv, state); err != nil {
			return err
		}
	}
	if d := r.differs(g, mv, raw); d != nil {
		r.diverge(*d)
		return nil
	}
	end := r.ending(mv)
	if g.kind == stepTakes {
		r.path = append(r.path, r.rec.Node)
	}
	if mv.Next.Visit != r.rec.Visit || mv.End {
		r.seen = 0
		if r.emitted(x, g); r.over() {
			return nil
		}
	}
	r.rec = mv.Next
	if g.took {
		r.raw = g.state
	}
	if mv.End {
		return r.ended(g, mv, end, state)
	}
	return nil
}

// move is the machine's decision after a try, with the state that it leaves.
func (r *replaying) move(g *stepGroup, out played, t machine.Tick, cause *pawl.Error) (mv machine.Move, state any, raw []byte, err error) {
	n, node, err := r.p.m.Node(r.rec)
	if err != nil {
		return mv, nil, nil, err
	}
	h := r.hand()
	switch {
	case g.kind == stepEnds && g.Edge == "cancelled":
		rec := *r.rec
		rec.Cancel = new(machine.Cancel)
		mv, err = machine.Cancelled(&rec, t)
		return mv, nil, nil, err
	case cause != nil && cause.Code == pawl.CodeCrashLoop:
		mv, err = machine.Fail(r.rec, t, cause)
		return mv, nil, nil, err
	case out.err != nil:
		return r.failed(g, h, n, node, out.err, t, cause)
	}
	var key string
	var failure *pawl.Error
	edge, spent := 0, []int(nil)
	choices, err := r.p.m.Open(nil, r.rec, t.Answered)
	if err != nil {
		return mv, nil, nil, err
	}
	gone := &pawl.Error{Code: pawl.CodeInternal, Text: "the graph's own code has ended its goroutine"}
	ferr := r.aside(r.ctx, "a condition of node "+n.Name, gone, func() (err error) {
		if edge, spent, err = h.choose(node, choices, out.next); err != nil {
			return err
		}
		if n.Keyed && !r.head.Unkeyed {
			if err := guard("Key", func() error { key = r.p.Key(node, out.next); return nil }); err != nil {
				return err
			}
		}
		failure, err = h.failure(n.Edges[edge].To, out.next)
		return err
	})
	if r.ctx.Err() != nil {
		return mv, nil, nil, ferr
	}
	if g.kind == stepEnds && g.Edge == "merged" && ferr == nil {
		return r.merged(g, key, t)
	}
	if ferr != nil {
		mv, err = machine.Fail(r.rec, t, h.at(ferr))
		return mv, nil, nil, err
	}
	if mv, err = r.p.m.Advance(r.rec, t, edge, spent, failure); err != nil {
		return mv, nil, nil, err
	}
	return mv, out.next, out.raw, nil
}

// hand is as much of a hand as the graph's conditions and claims need.
func (r *replaying) hand() *hand {
	return &hand{e: r.e, run: r.run, head: r.head, p: r.p, rec: r.rec, raw: r.raw}
}

// merged repeats the end of a run whose key another one owned.
func (r *replaying) merged(g *stepGroup, key string, t machine.Tick) (mv machine.Move, _ any, _ []byte, err error) {
	var into struct {
		Into string `json:"into"`
	}
	if err := json.Unmarshal(g.Payload, &into); err != nil {
		return mv, nil, nil, err
	}
	if key == "" {
		d := r.at(DivergedNext, g.seq, "the node binds no key, recorded: one that run %s owns", into.Into)
		r.diverge(d)
		return mv, nil, nil, nil
	}
	mv, err = machine.Merge(r.rec, t, cmp.Or(into.Into, "?"))
	return mv, nil, nil, err
}

// failed is the decision after a try that failed: the next one, an error edge or the end.
func (r *replaying) failed(g *stepGroup, h *hand, n *host.Node, node int, err error, t machine.Tick, was *pawl.Error) (mv machine.Move, state any, raw []byte, _ error) {
	cause := h.at(err)
	if was == nil {
		d := r.at(DivergedError, g.seq, "the node fails, recorded: it does not: %s", firstLine(cause))
		d.Replayed = encode(cause)
		r.diverge(d)
		return mv, nil, nil, nil
	}
	if after, ok := pawl.Retryable(err); ok && r.rec.Try <= n.Retry.Max {
		if d := r.otherError(g, was, cause); d != nil {
			r.diverge(*d)
			return mv, nil, nil, nil
		}
		mv, err := r.p.m.Retry(r.rec, t, cause, after)
		return mv, nil, nil, err
	}
	choices, err := r.p.m.Errors(r.rec, t.Answered)
	if err != nil {
		return mv, nil, nil, err
	}
	edge, spent, folded := -1, []int(nil), any(nil)
	gone := &pawl.Error{Code: pawl.CodeInternal, Text: "the graph's own code has ended its goroutine"}
	err = r.aside(r.ctx, "an error edge of node "+n.Name, gone, func() (err error) {
		edge, spent, folded, err = h.claim(n.Name, node, choices, cause)
		return err
	})
	var failure *pawl.Error
	if err == nil && edge >= 0 {
		if raw, err = r.p.encode(nil, folded, n.Name); err == nil {
			failure, err = h.failure(n.Errors[edge].To, folded)
		}
	}
	if err != nil || edge < 0 {
		if err != nil {
			cause = h.at(err)
		}
		if d := r.otherError(g, was, cause); d != nil && g.kind == stepEnds {
			r.diverge(*d)
			return mv, nil, nil, nil
		}
		mv, err := machine.Fail(r.rec, t, cause)
		return mv, nil, nil, err
	}
	if d := r.otherError(g, was, cause); d != nil {
		r.diverge(*d)
		return mv, nil, nil, nil
	}
	mv, err = r.p.m.Claim(r.rec, t, edge, spent, cause, failure)
	return mv, folded, raw, err
}

// otherError compares the error of a try with the recorded one.
func (r *replaying) otherError(g *stepGroup, was, replayed *pawl.Error) *Divergence {
	replayed = recorded(replayed)
	if was.Code == replayed.Code && firstLine(was) == firstLine(replayed) {
		return nil
	}
	d := r.at(DivergedError, g.seq, "the node fails with %s, recorded: %s", firstLine(replayed), firstLine(was))
	d.Recorded, d.Replayed = encode(was), encode(replayed)
	return &d
}

// firstLine is an error without the stack that may follow.
func firstLine(e *pawl.Error) string {
	line, _, _ := strings.Cut(e.Error(), "\n")
	return e.Code + ": " + line
}
