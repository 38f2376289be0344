package engine

import (
	"context"
	"encoding/json"

	"pawl"
	"pawl/store"
)

// view shows a stored run to its callers; whole includes input and output.
func (e *Engine) view(ctx context.Context, r store.Run, whole bool) (pawl.Run, error) {
	rec, head, err := parts(r)
	if err != nil {
		return pawl.Run{}, err
	}
	now := e.now(ctx)
	out := pawl.Run{
		ID: r.ID, Workflow: r.Workflow, Version: r.Version, Tenant: r.Tenant, User: r.User, Status: rec.Status, Node: rec.Node,
		Outcome: r.Outcome, Attempt: rec.Attempt, Steps: rec.Steps, Key: r.Key, Parent: r.Parent, Root: r.Root, MergedInto: rec.Merged,
		ForkOf: head.ForkOf, ForkStep: head.ForkStep, Err: rec.Err, Labels: head.Labels, Created: r.Created, Updated: r.Updated,
	}
	if head.Copy != nil {
		out.Imported = head.Copy.At
	}
	held := r.Until.After(now)
	switch {
	case rec.Status.Ended():
		if rec.Status != pawl.StatusMerged {
			out.Terminal = rec.Node
		}
	case held:
		out.Status, out.Worker = pawl.StatusRunning, r.Worker
	case rec.Status == pawl.StatusRunning:
		out.Status = pawl.StatusInterrupted
	}
	if !r.Due.IsZero() && !rec.Status.Ended() {
		due := r.Due
		out.Due = &due
	}
	for _, w := range rec.Waits {
		v := w.Waiting()
		if f, ok := rec.Family(w.Key); ok && w.Kind == pawl.WaitsForChild && !f.Numbered {
			v.Run = childID(r.ID, rec.Visit, f.Key)
		}
		out.Waits = append(out.Waits, v)
	}
	runtime := rec.Used(now).Milliseconds()
	for _, c := range r.Counters {
		m := pawl.Meter{Name: c.Meter, Used: c.Used, Cap: c.Cap}
		if c.Meter == pawl.MeterRuntime {
			m.Used = runtime
		}
		out.Meters = append(out.Meters, m)
	}
	if !whole {
		return out, nil
	}
	if out.Input, err = e.input(ctx, r.ID, head); err != nil {
		return out, err
	}
	out.Output, err = e.output(ctx, r.ID, rec)
	return out, err
}

func stepView(run store.Run, row store.Row, h stepHead) pawl.Step {
	s := pawl.Step{
		Seq: row.Seq, Run: run.ID, Workflow: run.Workflow, Version: h.Version, Attempt: h.Attempt, Name: h.Name,
		StateBefore: h.Before, StateAfter: h.After, Payload: h.Payload, OccurredAt: row.At, DurationMS: h.MS, Worker: h.Worker,
		Edge: h.Edge, Visit: h.Visit, Try: h.Try, Hash: h.Hash,
	}
	if h.Cost != 0 {
		s.CostUSD = json.Number(pawl.USD(h.Cost).Decimal())
	}
	return s
}
