package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"pawl"
	"pawl/internal/machine"
	"pawl/store"
)

// tell makes the letters of an ending run to those who wait for it. A merged run's waiters go to the owner of the key.
func (h *hand) tell(ctx context.Context, rec machine.Record, out []byte, mv machine.Move, others *[]store.Change) ([]store.Letter, error) {
	if mv.What == machine.Merges {
		return h.handOver(ctx, rec, others)
	}
	return results(h.run, rec, out), nil
}

// results are the letters by which waiters get a run's end, as an entry of their journal. A large output is copied: it must
// outlive the run that made it.
func results(r store.Run, rec machine.Record, out []byte) (letters []store.Letter) {
	for _, w := range rec.Waiters {
		en := entry{Visit: w.Visit, Try: w.Try, Kind: kindChild, Key: w.Key, Family: w.Family, Run: r.ID}
		var rows []store.Row
		if rec.Status == pawl.StatusSucceeded {
			en.Result = out
			rows = aside(w.Run, &en)
		} else {
			en.Err = &pawl.Error{Code: errCode(rec), Run: r.ID, Text: errText(r, rec), Err: runError(r, rec)}
		}
		told := machine.Child{Family: w.Family, Visit: w.Visit, Failed: en.Err != nil, Person: rec.Person}
		letters = append(letters, store.Letter{Run: w.Run, Add: append(rows,
			callRow(en), store.Row{Stream: store.Inbox, Data: encode(machine.Letter{Child: &told})})})
	}
	return letters
}

// aside puts a large result of an entry into a blob of the run whose journal it goes to.
func aside(run string, en *entry) []store.Row {
	if len(en.Result) <= inline {
		return nil
	}
	key, data := hash(en.Result), en.Result
	en.Blob, en.Result = run+"/"+key, nil
	return []store.Row{{Stream: store.Blob, Key: key, Data: data}}
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
func (h *hand) handOver(ctx context.Context, rec machine.Record, others *[]store.Change) (letters []store.Letter, err error) {
	owner, orec, err := h.e.owner(ctx, rec.Merged)
	if err != nil {
		return nil, err
	}
	switch {
	case orec.Status == pawl.StatusFailed || orec.Status == pawl.StatusCancelled:
		p := h.e.byKind[owner.Kind()]
		if p == nil || p.Shape.Version != owner.Version {
			p = h.p
		}
		ch, err := h.e.restart(ctx, p, owner, h.e.now(ctx), rec.Waiters, h.run.User)
		if err != nil {
			return nil, err
		}
		*others = append(*others, ch)
	case orec.Status.Ended():
		out, err := h.e.output(ctx, owner.ID, orec)
		if err != nil {
			return nil, err
		}
		orec.Waiters = rec.Waiters
		letters = results(owner, orec, out)
	case len(rec.Waiters) > 0:
		l := store.Letter{Run: owner.ID, Live: true}
		for _, w := range rec.Waiters {
			l.Add = append(l.Add, store.Row{Stream: store.Inbox, Data: encode(machine.Letter{Waiter: &w})})
		}
		letters = append(letters, l)
	}
	return letters, nil
}

// merge ends this run, whose key another one owns. It fails instead where nobody would ever be told the end (the owner waits
// for this run), and where another user would be told it.
func (h *hand) merge(ctx context.Context, t machine.Tick, key, taken string) error {
	owner, _, err := h.e.owner(ctx, taken)
	if err != nil {
		return err
	}
	if owner.ID == h.run.ID || slices.Contains(h.head.Ancestors, owner.ID) {
		return h.fail(ctx, t, h.at(conflict("key %q is owned by run %s, which waits for this one", key, owner.ID)))
	}
	if owner.User != h.run.User {
		return h.fail(ctx, t, h.at(conflict("key %q is owned by a run of another user", key)))
	}
	return h.commit(ctx, commit{decide: func(r machine.Record) (machine.Move, error) { return h.p.m.Merge(r, t, owner.ID) }})
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
