package engine

import (
	"context"
	"errors"
	"fmt"

	"pawl"
	"pawl/internal/machine"
	"pawl/store"
)

// tell makes the letters of an ending run to those who wait for it. A merged run's waiters go to the owner of the key.
func (h *hand) tell(ctx context.Context, rec *machine.Record, mv machine.Move, others *[]store.Change) ([]store.Letter, error) {
	if mv.What == machine.Merges {
		return h.handOver(ctx, rec, others)
	}
	out, err := h.output(ctx, rec, mv)
	if err != nil {
		return nil, err
	}
	return results(h.run, *rec, out), nil
}

func (h *hand) output(ctx context.Context, rec *machine.Record, mv machine.Move) ([]byte, error) {
	if len(rec.Waiters) == 0 || rec.Status != pawl.StatusSucceeded || rec.Large == "" {
		return rec.Output, nil
	}
	return nil, nil // too large to be sent along: the parent reads it from the child
}

// results are the letters by which waiters get a run's end, as an entry of their journal.
func results(r store.Run, rec machine.Record, out []byte) (letters []store.Letter) {
	for _, w := range rec.Waiters {
		en := entry{Visit: w.Visit, Kind: kindChild, Key: w.Key, Run: r.ID}
		if rec.Status == pawl.StatusSucceeded {
			en.Result = out
			if rec.Large != "" {
				en.Blob = r.ID + "/" + rec.Large
			}
		} else {
			en.Err = &pawl.Error{Code: errCode(rec), Run: r.ID, Text: errText(r, rec), Err: runError(r, rec)}
		}
		letters = append(letters, store.Letter{Run: w.Run, Add: []store.Row{
			{Stream: store.Call, Data: encode(en)},
			{Stream: store.Inbox, Data: encode(machine.Letter{Child: &machine.Child{Family: familyOf(w.Key), Visit: w.Visit, Failed: en.Err != nil}})},
		}})
	}
	return letters
}

func errCode(rec machine.Record) string {
	if rec.Err != nil {
		return rec.Err.Code
	}
	return string(rec.Status)
}

func errText(r store.Run, rec machine.Record) string {
	text := string(rec.Status)
	if rec.Err != nil {
		text = rec.Err.Error()
	}
	return fmt.Sprintf("%s: %s", r.Workflow, text)
}

func runError(r store.Run, rec machine.Record) *pawl.RunError {
	e := &pawl.RunError{Run: r.ID, Status: rec.Status, Terminal: rec.Node, Code: errCode(rec), Text: errText(r, rec)}
	if rec.Err != nil {
		errors.As(error(rec.Err), &e.Budget)
	}
	return e
}

// handOver sends a merged run's waiters to the owner of its key: as a letter while the owner is under way, as the result
// where it has succeeded, with its next attempt where it has failed.
func (h *hand) handOver(ctx context.Context, rec *machine.Record, others *[]store.Change) (letters []store.Letter, err error) {
	owner, err := h.e.store.Get(ctx, everything, rec.Merged)
	if err != nil {
		return nil, err
	}
	orec, _, err := parts(owner)
	if err != nil {
		return nil, err
	}
	switch {
	case orec.Status == pawl.StatusFailed || orec.Status == pawl.StatusCancelled:
		p := h.e.byKind[owner.Kind()]
		if p == nil || p.Shape.Version != owner.Version {
			p = h.p
		}
		ch, err := h.e.restart(p, owner, h.e.now(ctx), rec.Waiters, h.run.User)
		if err != nil {
			return nil, err
		}
		*others = append(*others, ch)
	case orec.Status.Ended():
		orec.Waiters = rec.Waiters
		letters = results(owner, orec, orec.Output)
	default:
		l := store.Letter{Run: owner.ID, Live: true}
		for _, w := range rec.Waiters {
			l.Add = append(l.Add, store.Row{Stream: store.Inbox, Data: encode(machine.Letter{Waiter: &w})})
		}
		if len(l.Add) > 0 {
			letters = append(letters, l)
		}
	}
	return letters, nil
}

// merge ends this run, whose key another one owns.
func (h *hand) merge(ctx context.Context, t machine.Tick, owner string) error {
	return h.commit(ctx, commit{decide: func(r machine.Record) (machine.Move, error) { return h.p.m.Merge(r, t, owner) }})
}

// orphans are letters that cancel the children of a visit that is over before they are.
func (h *hand) orphans(ctx context.Context, rec machine.Record) (letters []store.Letter, err error) {
	for _, f := range rec.Families {
		if f.Done >= f.Started {
			continue
		}
		j, _, err := h.e.journal(ctx, h.run.ID, rec)
		if err != nil {
			return nil, err
		}
		for i := range f.Started {
			key := childKey(f.Key, f.Numbered, i)
			if en := j[key]; en == nil || en.Err != nil && en.seq <= rec.Tried {
				letters = append(letters, letter(childID(h.run.ID, rec.Visit, key),
					machine.Letter{Cancel: &machine.Cancel{By: h.run.ID, Reason: "the parent's node is over"}}))
			}
		}
	}
	return letters, nil
}
