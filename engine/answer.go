package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"pawl"
	"pawl/internal/machine"
	"pawl/internal/schema"
	"pawl/store"
)

func (r *runs) Answer(ctx context.Context, id, question string, answer json.RawMessage) error {
	return coded("answer", id, r.answer(ctx, id, question, answer))
}

// answer closes a question, compare and set: the answer, the journal entry that node code reads, and the letter that wakes
// the run are one transaction.
func (r *runs) answer(ctx context.Context, id, qid string, answer json.RawMessage) error {
	run, _, head, err := r.follow(ctx, id)
	if err == nil {
		err = uncopied(run.ID, head)
	}
	if err != nil {
		return err
	}
	if len(answer) > MaxResult {
		return invalid("the answer has %d bytes, at most %d are allowed", len(answer), MaxResult)
	}
	for range 20 {
		q, row, err := r.e.question(ctx, r.scope(), run.ID, qid)
		if err != nil {
			return err
		}
		v, err := schema.Compile(row.Schema)
		if err != nil {
			return err
		}
		if err := v.Check(answer); err != nil {
			return invalid("answer: %v", err)
		}
		switch {
		case q.Closed && row.Answer == nil:
			return conflict("question %s is closed: nobody can answer it any more", qid)
		case q.Closed && same(row.Answer, answer):
			return nil
		case q.Closed:
			return conflict("question %s was answered with %s", qid, row.Answer)
		case !q.Due.IsZero() && !r.e.now(ctx).Before(q.Due):
			return conflict("question %s was open until %s", qid, q.Due.Format("2006-01-02T15:04:05Z07:00"))
		}
		canon, err := canonical(answer)
		if err != nil {
			return invalid("answer: %v", err)
		}
		row.Answer, row.By = canon, r.c.User
		en := entry{Visit: row.Visit, Kind: kindAnswer, Key: row.Key, By: r.c.User, Result: canon}
		rows := append(aside(q.Run, &en), callRow(en),
			store.Row{Stream: store.Event, Data: event{Type: machine.EventAnswered, Data: encode(map[string]string{"question": qid, "by": r.c.User})}.bytes()},
			store.Row{Stream: store.Audit, Data: encode(audit{By: r.c.User, Did: "answer", What: qid})},
			store.Row{Stream: store.Inbox, Data: encode(machine.Letter{Answer: qid})})
		err = r.e.store.Apply(ctx, store.Change{
			Run: q.Run, Answer: []store.Answer{{ID: qid, Row: encode(row)}},
			Letters: []store.Letter{{Run: q.Run, Add: rows, Live: true}},
		})
		if errors.Is(err, store.ErrStale) {
			continue // answered, or the run ended, meanwhile: look again
		}
		if err == nil {
			r.e.kick()
		}
		return err
	}
	return conflict("question %s keeps changing", qid)
}

// question finds a question of a run, or of one of its children.
func (e *Engine) question(ctx context.Context, s store.Scope, run, id string) (store.Question, question, error) {
	var row question
	qs, err := e.store.Questions(ctx, s, store.Filter{Question: id}, store.Page{Limit: 1})
	if err != nil {
		return store.Question{}, row, err
	}
	under := false
	if len(qs) == 1 {
		if under, err = e.under(ctx, s, run, qs[0]); err != nil {
			return store.Question{}, row, err
		}
	}
	if !under || id == "" {
		return store.Question{}, row, &pawl.Error{Code: pawl.CodeNotFound, Run: run, Text: fmt.Sprintf("run %s has no question %q", run, id)}
	}
	err = json.Unmarshal(qs[0].Row, &row)
	return qs[0], row, err
}

// under reports whether a question is a run's own or that of one of its descendants.
func (e *Engine) under(ctx context.Context, s store.Scope, run string, q store.Question) (bool, error) {
	if q.Run == run || q.Root == run {
		return true, nil
	}
	r, err := e.store.Get(ctx, s, q.Run)
	if err != nil {
		return false, err
	}
	_, head, err := parts(r)
	return slices.Contains(head.Ancestors, run), err
}

// asked pages through the questions of a run and its descendants.
func (r *runs) asked(ctx context.Context, run store.Run, f store.Filter, p store.Page) (out []store.Question, err error) {
	f.Root = run.Root
	for {
		qs, err := r.e.store.Questions(ctx, r.scope(), f, p)
		if err != nil {
			return nil, err
		}
		for _, q := range qs {
			ok, err := r.e.under(ctx, r.scope(), run.ID, q)
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, q)
			}
			if len(out) == p.Limit {
				return out, nil
			}
			p.After = q.ID
		}
		if len(qs) < p.Limit {
			return out, nil
		}
	}
}

func (r *runs) Questions(ctx context.Context, f pawl.QuestionFilter, after string, limit int) ([]pawl.Open, error) {
	if limit < 0 || limit > 1000 {
		return nil, coded("questions", "", invalid("a page has at most 1000 entries, not %d", limit))
	}
	filter, page := store.Filter{Question: f.ID, Workflow: f.Workflow, Open: !f.Closed}, store.Page{After: after, Limit: cmp.Or(limit, 100)}
	var qs []store.Question
	var err error
	if f.Run == "" {
		qs, err = r.e.store.Questions(ctx, r.scope(), filter, page)
	} else {
		var run store.Run
		if run, _, _, err = r.follow(ctx, f.Run); err == nil {
			qs, err = r.asked(ctx, run, filter, page)
		}
	}
	if err != nil {
		return nil, coded("questions", f.Run, err)
	}
	out := make([]pawl.Open, 0, len(qs))
	for _, q := range qs {
		var row question
		if err := json.Unmarshal(q.Row, &row); err != nil {
			return nil, coded("questions", q.Run, err)
		}
		o := pawl.Open{ID: q.ID, Run: q.Run, Root: q.Root, Workflow: q.Workflow, Key: row.Key, Text: row.Text, Choices: row.Choices,
			Data: row.Data, Schema: row.Schema, Asked: q.Asked, Closed: q.Closed, Answer: row.Answer, By: row.By}
		if !q.Due.IsZero() {
			due := q.Due
			o.Due = &due
		}
		out = append(out, o)
	}
	return out, nil
}
