package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
)

// played is what a replayed try has come to.
type played struct {
	x    *echo
	next any
	raw  []byte
	err  error
}

// tries replays one try of a visit, and what was decided after it.
func (r *replaying) tries(g *stepGroup) error {
	cause, err := r.failure(g.stepHead)
	if err != nil {
		return err
	}
	n, node, err := r.p.m.Node(r.rec)
	if err != nil {
		return err
	}
	if g.Before != n.Name {
		d := r.at(DivergedNext, g.seq, "the run stands at %q, recorded: %q", n.Name, g.Before)
		d.Recorded, d.Replayed = encode(g.Before), encode(n.Name)
		r.diverge(d)
		return nil
	}
	x, err := r.echo(n, g.seq, g.at, g.From, g.Upto)
	if err != nil {
		return err
	}
	cancelled := g.kind == stepEnds && g.Edge == "cancelled"
	x.cause, x.open = cause, cancelled || stoppedByClock(cause)
	out := played{x: x}
	switch {
	case cause != nil && cause.Code == pawl.CodeCrashLoop:
		r.note("step %d: node %q was begun again and again and came to no end: it is not executed", g.seq, n.Name)
		return r.decided(g, out, cause)
	case cancelled && len(x.journal) == 0, x.uncharged(cause):
		out.err = cause
		return r.decided(g, out, cause)
	}
	if out, err = r.execute(x, node); err != nil || r.over() {
		return err
	}
	if x.open {
		out.err = cause
		return r.decided(g, out, cause)
	}
	return r.decided(g, out, cause)
}

// stoppedByClock reports whether a try was ended by time or by the store, which a replay cannot repeat.
func stoppedByClock(e *pawl.Error) bool {
	if e == nil {
		return false
	}
	var b *pawl.BudgetError
	var child *pawl.RunError
	runtime := errors.As(e.Err, &b) && b.Meter == pawl.MeterRuntime && !errors.As(e.Err, &child)
	return runtime || e.Code == pawl.CodeStepTimeout || e.Op == "record"
}

// execute runs the node, and compares what it did on its way.
func (r *replaying) execute(x *echo, node int) (out played, err error) {
	state, err := r.p.decode(r.raw)
	if err != nil {
		return out, fmt.Errorf("step %d: the state does not fit the graph's state type: %w", x.step, err)
	}
	ctx, cancel := context.WithCancelCause(host.With(r.ctx, x))
	defer cancel(pawl.ErrClosed)
	x.cancel = cancel
	r.out.Executions++
	out.x = x
	if x.open { // what ended it does not come again
		defer time.AfterFunc(r.e.c.Abandon, func() { cancel(pawl.ErrClosed) }).Stop()
	}
	out.err = r.aside(ctx, "node "+x.n.Name, &pawl.Error{Code: pawl.CodeInternal, Text: fmt.Sprintf("node %q ended its goroutine", x.n.Name)}, func() error {
		return guardIn("node", x.n.Name, func() (err error) { out.next, err = r.p.Run(ctx, node, state); return err })
	})
	found, fault := x.close()
	if fault != nil {
		return out, fault
	}
	if r.ctx.Err() != nil {
		return out, context.Cause(r.ctx)
	}
	r.out.Calls += len(x.keys) - len(x.missing)
	r.seen = max(r.seen, x.upto)
	if found != nil {
		r.diverge(*found)
	}
	return out, nil
}

// aside runs the graph's own code in a goroutine that it may end. It is left behind a while after ctx has ended.
func (r *replaying) aside(ctx context.Context, what string, exit error, f func() error) error {
	end := make(chan error, 1)
	go func() {
		err := pawl.Permanent(exit)
		defer func() { end <- err }()
		err = f()
	}()
	select {
	case err := <-end:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-end:
		return err
	case <-time.After(r.e.c.Abandon):
		return fmt.Errorf("%s does not return: %w", what, context.Cause(ctx))
	}
}

// unmade looks for recorded calls of this try that were not made.
func (r *replaying) unmade(x *echo, orphans []string) {
	if r.over() {
		return
	}
	var rows []*entry
	for _, en := range x.window {
		if !x.keys[en.Key] && !slices.Contains(orphans, en.Key) && !x.excused(en.Kind, en.Key) && en.Kind != kindCosts {
			rows = append(rows, en)
		}
	}
	if len(rows) == 0 {
		return
	}
	en := slices.MinFunc(rows, func(a, b *entry) int { return cmp.Compare(a.seq, b.seq) })
	d := r.at(DivergedUnmade, x.step, "the recorded %s %q is not made", en.Kind, en.Key)
	if len(x.missing) > 0 {
		d.Text += fmt.Sprintf("; %q is", x.missing[0].Key)
	}
	d.Key, d.Recorded = en.Key, en.For
	r.diverge(d)
}

// underWay replays the visit under way, as far as its journal goes.
func (r *replaying) underWay() error {
	n, node, err := r.p.m.Node(r.rec)
	if err != nil || r.rec.Visit != r.last.Visit || r.rec.Try != r.last.Try {
		return err
	}
	if w, ok := r.last.Wait(pawl.WaitsForRetry, ""); ok && !w.Due.IsZero() {
		return nil // the next try has not begun
	}
	x, err := r.echo(n, r.last.Steps+1, r.run.Updated, r.last.Calls, 0)
	if err != nil {
		return err
	}
	x.open = true
	waits := slices.DeleteFunc(slices.Clone(r.last.Waits), func(w machine.Wait) bool { return w.Kind == pawl.WaitsForVersion })
	if len(waits) == 0 && len(x.journal) == 0 {
		return nil // it has not begun, or left nothing yet
	}
	out, err := r.execute(x, node)
	if err != nil || r.over() {
		return err
	}
	if r.unmade(x, nil); r.over() || r.last.Status != pawl.StatusWaiting || len(waits) == 0 {
		return nil
	}
	for _, w := range waits {
		for _, m := range x.missing {
			if m.Kind == w.Kind && m.Key == w.Key || w.Kind == pawl.WaitsForRetry && m.Kind == kindCall {
				return nil
			}
			if en := x.journal[w.Key]; en != nil && x.keys[w.Key] { // it has come meanwhile
				return nil
			}
		}
	}
	d := r.at(DivergedWait, x.step, "the node does not wait, recorded: it waits for %s", waiting(waits[0]))
	if len(x.missing) > 0 {
		d.Text = fmt.Sprintf("the node waits for %s %q, recorded: %s", x.missing[0].Kind, x.missing[0].Key, waiting(waits[0]))
	} else if out.err != nil {
		d.Text += ": " + firstLine(r.hand().at(out.err))
	}
	r.diverge(d)
	return nil
}

func waiting(w machine.Wait) string { return strings.TrimSpace(fmt.Sprintf("%s %q", w.Kind, w.Key)) }
