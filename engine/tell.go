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
func (h *hand) tell(ctx context.Context, rec *machine.Record, out []byte, mv machine.Move, others *[]store.Change) ([]store.Letter, error) {
	if mv.What == machine.Merges {
		return h.handOver(ctx, rec, others)
	}
	return results(h.run, rec, out), nil
}

// results are the letters by which waiters get a run's end, as an entry of their journal. A large output is copied: it must
// outlive the run that made it.
func results(r store.Run, rec *machine.Record, out []byte) (letters []store.Letter) {
	for _, w := range rec.Waiters {
		en := entry{Visit: w.Visit, Try: w.Try, Kind: kindChild, Key: w.Key, Family: w.Family, Run: r.ID}
		var rows []store.Row
		if rec.Status == pawl.StatusSucceeded {
			en.Result = out
			rows = aside(w.Run, &en)
		} else {
			en.Err = &pawl.Error{Code: errCode(rec), Run: r.ID, Text: errText(r, rec), Err: runError(r, rec)}
		}
		told := machine.Child{Family: w.Family, Visit: w.Visit, Failed: en.Err != nil, Person: rec.Person, Asked: rec.Asked}
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

func errCode(rec *machine.Record) string {
	if rec.Err != nil {
		return rec.Err.Code
	}
	return string(rec.Status)
}

func errText(r store.Run, rec *machine.Record) string {
	text := string(rec.Status)
	if rec.Err != nil {
		text = rec.Err.Error()
	}
	return fmt.Sprintf("%s: %s", r.Workflow, text)
}

func runError(r store.Run, rec *machine.Record) *pawl.RunError {
	e := &pawl.RunError{Run: r.ID, Status: rec.Status, Terminal: rec.Node, Code: errCode(rec), Text: errText(r, rec)}
	if rec.Err != nil {
		errors.As(error(rec.Err), &e.Budget)
	}
	return e
}

// handOver sends a merged run's waiters to the owner of its key: as a letter while the owner is under way, as the result
// where it has succeeded, with its next attempt where it has failed.
func (h *hand) handOver(ctx context.Context, rec *machine.Record, others *[]store.Change) (letters []store.Letter, err error) {
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
func (h *hand) merge(ctx context.Context, v *visit, t machine.Tick, key, taken string) error {
	var owner store.Run
	err := h.patiently(ctx, func() (err error) { owner, _, err = h.e.owner(ctx, taken); return err })
	if errors.Is(err, store.ErrNotFound) && owner.ID != "" { // another execution would meet the same
		return h.fail(ctx, v, t, h.at(conflict("key %q is owned by run %s, which was merged into one that has expired", key, owner.ID)))
	}
	if err != nil {
		return err
	}
	if owner.ID == h.run.ID || slices.Contains(h.head.Ancestors, owner.ID) {
		return h.fail(ctx, v, t, h.at(conflict("key %q is owned by run %s, which waits for this one", key, owner.ID)))
	}
	if owner.User != h.run.User {
		return h.fail(ctx, v, t, h.at(conflict("key %q is owned by a run of another user", key)))
	}
	return h.commit(ctx, commit{visit: v}, func(r *machine.Record) (machine.Move, error) { return machine.Merge(r, t, owner.ID) })
}

// turnAway tells those of the new waiters for whom this run itself waits, directly or through others, that they would wait for
// ever, and takes their letters out. It is done here, where a waiter is taken in: of several runs that come to wait for each
// other in a circle, the last one to read its letters sees all of the others', wherever they were merged.
func (h *hand) turnAway(ctx context.Context, letters []machine.Letter) error {
	for i, l := range letters {
		if l.Waiter == nil {
			continue
		}
		circle, err := h.waitsFor(ctx, *l.Waiter)
		if err != nil {
			return err
		}
		if !circle {
			continue
		}
		w := *l.Waiter
		h.away = append(h.away, results(store.Run{ID: childID(w.Run, w.Visit, w.Key), Workflow: h.run.Workflow}, &machine.Record{
			Status: pawl.StatusFailed, Node: pawl.TerminalFailed, Waiters: []machine.Waiter{w},
			Err: pawl.Coded(conflict("it was merged into run %s, which waits for this one", h.run.ID)),
		}, nil)...)
		letters[i].Waiter = nil
	}
	return nil
}

// waitsFor reports whether this run waits for the run of a waiter: it follows who waits for that one, upwards.
func (h *hand) waitsFor(ctx context.Context, w machine.Waiter) (bool, error) {
	seen := map[machine.Waiter]bool{}
	for next := []machine.Waiter{w}; len(next) > 0; next = next[1:] {
		w := next[0]
		switch {
		case w.Run == h.run.ID && w.Visit == h.rec.Visit:
			return true, nil
		case w.Run == h.run.ID || seen[w]:
			continue
		}
		seen[w] = true
		var more []machine.Waiter
		err := h.surely(ctx, func() (err error) { more, err = h.e.waiters(ctx, w); return err })
		if err != nil {
			return false, err
		}
		next = append(next, more...)
	}
	return false, nil
}

// waiters are those who wait for the run of a waiter, letters included that it has not read yet. There are none if it does not
// wait any more.
func (e *Engine) waiters(ctx context.Context, w machine.Waiter) ([]machine.Waiter, error) {
	r, err := e.store.Get(ctx, everything, w.Run)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec, _, err := parts(r)
	if err != nil || rec.Status.Ended() || rec.Visit != w.Visit {
		return nil, nil // nor does one that cannot be read
	}
	letters, _, err := e.letters(ctx, w.Run, rec.Inbox)
	for _, l := range letters {
		if l.Waiter != nil {
			rec.Waiters = append(rec.Waiters, *l.Waiter)
		}
	}
	return rec.Waiters, err
}

// orphans are letters that cancel the children of a visit that is over before they are.
func (h *hand) orphans(ctx context.Context, rec *machine.Record) (letters []store.Letter, err error) {
	var j map[string]*entry
	for _, f := range rec.Families {
		if f.Done >= f.Started {
			continue
		}
		if j == nil {
			if j, _, err = h.journal(ctx, rec); err != nil {
				return nil, err
			}
		}
		for i := range f.Started {
			key := childKey(f.Key, f.Numbered, i)
			if !j[key].lives(rec.Try) {
				letters = append(letters, letter(childID(h.run.ID, rec.Visit, key),
					machine.Letter{Cancel: &machine.Cancel{By: h.run.ID, Reason: "the parent's node is over"}}))
			}
		}
	}
	return letters, nil
}
