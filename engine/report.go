package engine

import (
	"context"
	"fmt"
	"time"

	"pawl"
	"pawl/store"
)

// Report is what the log says of one run behind a step: for whoever tells others of it. It is the run's own, also where it was
// merged into another.
type Report struct {
	pawl.Run
	Correlation string
	Traceparent string
	Origin      string // of a background run, who started it
	Began       time.Time
	Steps       []Reported
	More        bool // there are more steps behind these
}

// Reported is one step: a commit, with all that it tells. Latest is the last row that goes with it.
type Reported struct {
	pawl.Step
	Latest int64
	Begins bool      // an attempt: nothing was executed
	Ends   bool      // its attempt
	After  *Reported // the step before it in the same visit, which waited or failed; without its calls
	Err    *pawl.Error
	Notes  []pawl.Step // spent edges too
	Calls  []Journaled // that were recorded since the step before

	from, upto int64 // the journal: what was recorded before its visit, and up to it
}

// Journaled is an entry of the journal. Child is the run whose end it is.
type Journaled struct {
	pawl.Made
	Child string
}

// Report reads up to limit rows of a run's step log behind a row, which must be the last of a step.
func (e *Engine) Report(ctx context.Context, id string, after int64, limit int) (Report, error) {
	r, err := e.report(ctx, id, after, limit)
	return r, coded("report", id, err)
}

func (e *Engine) report(ctx context.Context, id string, after int64, limit int) (out Report, err error) {
	run, err := e.store.Get(ctx, everything, id)
	if err != nil {
		return out, err
	}
	rec, head, err := parts(run)
	if err != nil {
		return out, err
	}
	if out.Run, err = e.view(ctx, run, true); err != nil {
		return out, err
	}
	out.Correlation, out.Traceparent, out.Origin, out.Began = head.Correlation, head.Traceparent, head.Origin, rec.Began
	before, err := e.lastStep(ctx, run, after)
	if err != nil {
		return out, err
	}
	for left := int(rec.Steps - after); left > 0; limit *= 2 { // what came behind the row of the run is not looked at
		rows, err := e.store.Read(ctx, everything, id, store.Query{Stream: store.Step, After: after, Limit: min(limit+1, left)})
		if err != nil {
			return out, err
		}
		if len(rows) < min(limit+1, left) {
			return out, &pawl.Error{Code: pawl.CodeInternal, Text: fmt.Sprintf("step %d is missing", after+int64(len(rows))+1)}
		}
		if out.Steps, err = e.group(ctx, run, before, rows); err != nil {
			return out, err
		}
		last := len(out.Steps) - 1
		for i := range last {
			out.Steps[i].Ends = out.Steps[i+1].Begins
		}
		if len(rows) == left {
			out.Steps[last].Ends = rec.Status.Ended()
			break
		}
		if last > 0 { // it may have more rows
			out.Steps, out.More = out.Steps[:last], true
			break
		}
	}
	return out, e.journaled(ctx, id, before, out.Steps)
}

// lastStep is the step that ends with a row: the first row of its commit.
func (e *Engine) lastStep(ctx context.Context, run store.Run, at int64) (*Reported, error) {
	const notes = 64 // as many rows are looked at together
	for from := max(at-notes, 0); at > 0; from = max(from-notes, 0) {
		rows, err := e.store.Read(ctx, everything, run.ID, store.Query{Stream: store.Step, After: from, Limit: int(at - from)})
		if err != nil {
			return nil, err
		}
		steps, err := e.group(ctx, run, nil, rows)
		if err != nil {
			return nil, err
		}
		if len(steps) > 1 || from == 0 && len(steps) == 1 { // the first one may have begun before
			return &steps[len(steps)-1], nil
		}
		if from == 0 {
			break
		}
	}
	return nil, nil
}

// group makes steps of rows.
func (e *Engine) group(ctx context.Context, run store.Run, before *Reported, rows []store.Row) (out []Reported, err error) {
	look := &replaying{e: e, ctx: ctx, scope: everything, run: run}
	var first stepHead
	var kind int
	for _, row := range rows {
		head, record, err := unframe(row)
		if err != nil {
			return nil, err
		}
		step := stepView(run, row, head)
		if step.Payload, err = look.payload(head); err != nil {
			return nil, err
		}
		if len(out) > 0 && kind >= stepRetries && goesWith(first, head, len(record) > 0) {
			last := &out[len(out)-1]
			last.Notes, last.Latest = append(last.Notes, step), row.Seq
			continue
		}
		first, kind = head, kindOf(head, len(record) > 0)
		one := Reported{Step: step, Latest: row.Seq, Begins: kind <= stepRestarts, from: head.From, upto: head.Upto}
		if kind == stepRetries || kind >= stepTakes {
			if one.Err, err = look.failure(head); err != nil {
				return nil, err
			}
		}
		if before != nil {
			one.upto = max(one.upto, before.upto)
			if before.Visit == one.Visit && !one.Begins && !before.Begins {
				one.After = before
			}
		}
		out = append(out, one)
		was := one
		before = &was
	}
	return out, nil
}

// journaled reads the calls of steps, in one read: their numbers go up with them. An entry that came after the last step of its
// visit belongs to none.
func (e *Engine) journaled(ctx context.Context, id string, before *Reported, steps []Reported) error {
	if len(steps) == 0 {
		return nil
	}
	from, upto := steps[0].from, steps[len(steps)-1].upto
	if before != nil {
		from = max(from, before.upto)
	}
	if upto <= from {
		return nil
	}
	rows, err := e.store.Read(ctx, everything, id, store.Query{Stream: store.Call, After: from, Limit: int(upto - from)})
	if err != nil {
		return err
	}
	i := 0
	for _, row := range rows {
		var en entry
		if err := unmarshal(row, &en); err != nil {
			return err
		}
		for i < len(steps)-1 && row.Seq > steps[i].upto {
			i++
		}
		if en.Kind == kindCosts || en.Visit != steps[i].Visit {
			continue
		}
		made, err := e.made(ctx, row, en)
		if err != nil {
			return err
		}
		steps[i].Calls = append(steps[i].Calls, Journaled{made, en.Run})
	}
	return nil
}

// made shows an entry of the journal.
func (e *Engine) made(ctx context.Context, row store.Row, en entry) (pawl.Made, error) {
	res, err := e.result(ctx, &en)
	return pawl.Made{Seq: row.Seq, Visit: en.Visit, Try: en.Try, Kind: en.Kind, Key: en.Key, For: en.For, Result: res,
		Err: en.Err, Attrs: en.Attrs, Physical: en.Physical, Took: en.MS, At: row.At}, err
}

// goesWith tells a row that goes with the first one of a commit, which is a spent edge or a note of the same try.
func goesWith(first, h stepHead, state bool) bool {
	return h.Visit == first.Visit && h.Try == first.Try && !state && (h.Edge == "" || h.Name == edgeSpent)
}

const edgeSpent = "edge_spent"
