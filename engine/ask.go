package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
	"pawl/store"
)

// Ask returns the accepted answer, or parks the visit until it is there or the deadline has passed.
func (v *visit) Ask(ctx context.Context, a host.Ask) ([]byte, error) {
	en, err := v.begin(ctx, a.Key, false)
	if err == nil {
		err = v.is(en, a.Key, kindAnswer, kindDeadline)
	}
	if err != nil {
		return nil, err
	}
	if en != nil {
		return v.answer(en)
	}
	w, open := v.rec.Wait(pawl.WaitsForAnswer, a.Key)
	now := v.h.e.now(ctx)
	if open && !w.Due.IsZero() && !now.Before(w.Due) {
		if w.Due, err = v.due(w); err != nil {
			return nil, err
		}
		if !now.Before(w.Due) {
			return v.overdue(a.Key)
		}
	}
	if !open {
		w = machine.Wait{Kind: pawl.WaitsForAnswer, Key: a.Key, Question: newID()}
		if a.For > 0 {
			w.Due = now.Add(a.For)
		}
		row, err := asks(a, v.rec.Visit)
		if err != nil {
			return nil, err
		}
		v.mu.Lock()
		l := v.packLocked()
		l.asks = append(l.asks, asking{w, row})
		v.mu.Unlock()
	}
	v.park(w)
	return nil, pawl.ErrParked
}

// asks is the row of a question.
func asks(a host.Ask, visit int64) ([]byte, error) {
	row := encode(question{Key: a.Key, Visit: visit, Text: a.Text, Choices: a.Choices, Data: a.Data, Schema: a.Schema})
	if len(row) > MaxEvent {
		return nil, exhausted("question %q has %d bytes, at most %d are allowed", a.Key, len(row), MaxEvent)
	}
	return row, nil
}

// asking is a question that this execution opens with its park.
type asking struct {
	wait machine.Wait
	row  []byte
}

// asked are the questions to be opened. What was promised when they were asked is what the store goes by, however long calls
// beside them have taken: an answer that it accepts must be one that the next execution still reads.
func (v *visit) asked(as []asking) (out []store.Ask) {
	for _, a := range as {
		ask := store.Ask{ID: a.wait.Question, Row: a.row}
		if !a.wait.Due.IsZero() {
			ask.After = max(a.wait.Due.Sub(v.h.e.now(v.base)), 1)
		}
		out = append(out, ask)
	}
	return out
}

// due is until when the store takes an answer: a moment later than the wait says, as the commit took one.
func (v *visit) due(w machine.Wait) (time.Time, error) {
	var qs []store.Question
	err := v.h.patiently(v.base, func() (err error) {
		qs, err = v.h.e.store.Questions(v.base, everything, store.Filter{Question: w.Question}, store.Page{Limit: 1})
		return err
	})
	if err != nil {
		return w.Due, v.breaks(err)
	}
	if len(qs) == 1 && qs[0].Due.After(w.Due) {
		return qs[0].Due, nil
	}
	return w.Due, nil
}

// overdue ends a question whose time has passed: no answer is accepted any more. One may have come in time and after the
// journal was read.
func (v *visit) overdue(key string) ([]byte, error) {
	if err := v.reload(); err != nil {
		return nil, err
	}
	v.mu.Lock()
	en := v.journal[key]
	v.mu.Unlock()
	if en == nil {
		en = &entry{Visit: v.rec.Visit, Try: v.rec.Try, Kind: kindDeadline, Key: key}
		if _, err := v.record([]store.Row{callRow(*en)}, nil); err != nil {
			return nil, err
		}
	}
	return v.answer(en)
}

// answer is what the journal says of a question: a person's answer, or that nobody answered in time.
func (v *visit) answer(en *entry) ([]byte, error) {
	if en.Kind == kindDeadline {
		return nil, fmt.Errorf("question %q: %w", en.Key, pawl.ErrDeadline)
	}
	v.mu.Lock()
	v.answered = true
	v.mu.Unlock()
	return v.result(en)
}

// Sleep returns when the time has come. The time is set once, by the park that begins the wait.
func (v *visit) Sleep(ctx context.Context, key string, d time.Duration, until time.Time) error {
	if en, err := v.begin(ctx, key, false); err != nil || en != nil {
		return errors.Join(err, v.is(en, key, kindTimer)) // an entry says that the time has come before
	}
	now := v.h.e.now(ctx)
	w, open := v.rec.Wait(pawl.WaitsForTime, key)
	if !open {
		w = machine.Wait{Kind: pawl.WaitsForTime, Key: key, Due: until.UTC()}
		if until.IsZero() {
			w.Due = now.Add(d)
		}
	}
	if now.Before(w.Due) {
		v.park(w)
		return pawl.ErrParked
	}
	if !open {
		return nil
	}
	// Kept, so that a clock set back, or a park that follows in the same visit, does not begin the wait anew.
	_, err := v.record([]store.Row{callRow(entry{Visit: v.rec.Visit, Try: v.rec.Try, Kind: kindTimer, Key: key})}, nil)
	return err
}
