package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"pawl"
	"pawl/internal/machine"
	"pawl/internal/parcel"
	"pawl/store"
)

// Export writes a run and its descendants as one file, which Import reads. Everything that is recorded of them is in it: inputs,
// states, requests, results and answers of people. Background runs and what a run was forked from are runs of their own.
func (e *Engine) Export(ctx context.Context, c pawl.Caller, run string, w io.Writer) error {
	return coded("export", run, e.export(ctx, (&runs{e: e, c: c}).scope(), run, w))
}

func (e *Engine) export(ctx context.Context, s store.Scope, id string, w io.Writer) error {
	family, err := e.familyOf(ctx, s, id)
	if err != nil {
		return err
	}
	p, err := parcel.NewWriter(w, parcel.Header{Root: id, Runs: len(family), Made: e.now(ctx)})
	if err != nil {
		return unpacked(err)
	}
	for _, id := range family {
		r, err := e.whole(ctx, s, id)
		if err == nil {
			err = p.Run(r)
		}
		if err != nil {
			return unpacked(err)
		}
	}
	return p.Close()
}

// familyOf is the ids of a run and of its descendants, the run first.
func (e *Engine) familyOf(ctx context.Context, s store.Scope, id string) ([]string, error) {
	run, err := e.store.Get(ctx, s, id)
	if err != nil {
		return nil, err
	}
	ids := []string{id}
	for page := (store.Page{Limit: 500}); ; {
		rs, err := e.store.List(ctx, s, store.Filter{Root: run.Root}, page)
		if err != nil {
			return nil, err
		}
		for _, r := range rs {
			_, head, err := parts(r)
			if err != nil {
				return nil, err
			}
			if slices.Contains(head.Ancestors, id) {
				ids = append(ids, r.ID)
			}
		}
		if len(rs) < page.Limit {
			return ids, nil
		}
		page.After = rs[len(rs)-1].ID
	}
}

// whole reads all of a run, as it is at one moment: what was read while it moved is read again, and so is what cannot be right.
func (e *Engine) whole(ctx context.Context, s store.Scope, id string) (parcel.Run, error) {
	for range 20 {
		before, err := e.store.Get(ctx, s, id)
		if err != nil {
			return parcel.Run{}, err
		}
		r := parcel.Run{Run: before}
		var asked error
		r.Rows, err = e.rows(ctx, s, id)
		r.Questions, asked = e.questions(ctx, s, id)
		after, gone := e.store.Get(ctx, s, id)
		switch {
		case gone != nil:
			return r, gone
		case !bytes.Equal(before.Row, after.Row) || before.Inbox != after.Inbox || before.Epoch != after.Epoch:
		case err != nil || asked != nil:
			return r, cmp.Or(err, asked)
		default:
			return r, origin(&r)
		}
	}
	return parcel.Run{}, conflict("run %s is being worked, and changes while it is read: try again when it waits or has ended", id)
}

// origin gives an imported run the tenant and the user that it had.
func origin(r *parcel.Run) error {
	_, head, err := parts(r.Run)
	if err == nil && head.Copy != nil {
		r.Tenant, r.User, r.Key = head.Copy.Tenant, head.Copy.User, head.Copy.Key
	}
	return err
}

// rows reads all streams of a run, in an order in which they can be appended again.
func (e *Engine) rows(ctx context.Context, s store.Scope, id string) ([]store.Row, error) {
	all := map[store.Stream][]store.Row{}
	size := 0
	for _, stream := range []store.Stream{store.Step, store.Event, store.Call, store.Inbox, store.Blob, store.Audit} {
		for after := int64(0); ; {
			rows, err := e.store.Read(ctx, s, id, store.Query{Stream: stream, After: after, Limit: 200})
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				size += len(row.Data)
			}
			if all[stream] = append(all[stream], rows...); size > parcel.MaxBytes {
				return nil, fmt.Errorf("%w: more than %d bytes", parcel.ErrLarge, parcel.MaxBytes)
			}
			if len(rows) < 200 {
				break
			}
			after = rows[len(rows)-1].Seq
		}
	}
	out, err := told(all[store.Step], all[store.Event])
	for _, stream := range []store.Stream{store.Call, store.Inbox, store.Blob, store.Audit} {
		out = append(out, all[stream]...)
	}
	return out, err
}

// told puts steps and events into one order: a row that is in both streams is one row.
func told(steps, events []store.Row) (out []store.Row, err error) {
	for _, ev := range events {
		if !framed(ev) {
			out = append(out, ev)
			continue
		}
		for {
			if len(steps) == 0 {
				return nil, &pawl.Error{Code: pawl.CodeInternal, Text: fmt.Sprintf("event %d tells of a step that is not there", ev.Seq)}
			}
			step := steps[0]
			steps = steps[1:]
			step.Told = bytes.Equal(step.Data, ev.Data)
			if out = append(out, step); step.Told {
				break
			}
		}
	}
	return append(out, steps...), nil
}

// questions reads those of one run, without those of its children, the oldest first.
func (e *Engine) questions(ctx context.Context, s store.Scope, id string) (out []store.Question, err error) {
	for page := (store.Page{Limit: 500}); ; {
		qs, err := e.store.Questions(ctx, s, store.Filter{Run: id}, page)
		if err != nil {
			return nil, err
		}
		for _, q := range qs {
			if q.Run == id {
				out = append(out, q)
			}
		}
		if len(qs) < page.Limit {
			slices.Reverse(out)
			return out, nil
		}
		page.After = qs[len(qs)-1].ID
	}
}

// unpacked gives the errors of a file their codes.
func unpacked(err error) error {
	for _, bad := range []error{parcel.ErrForeign, parcel.ErrNewer, parcel.ErrCut, parcel.ErrDamaged, parcel.ErrLarge} {
		if errors.Is(err, bad) {
			return &pawl.Error{Code: pawl.CodeInvalid, Text: err.Error(), Err: err}
		}
	}
	return err
}

// uncopied refuses to move a copy of a run that was made elsewhere.
func uncopied(id string, head Head) error {
	if head.Copy == nil {
		return nil
	}
	return conflict("run %s is an imported copy: it can be read, replayed and forked, and nothing else", id)
}

// outcomeImported is the outcome by which copies of runs are listed that had not ended.
const outcomeImported = "imported"

func outcomeOf(rec *machine.Record) string {
	if rec.Status.Ended() {
		return rec.Outcome
	}
	return outcomeImported
}
