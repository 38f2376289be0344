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
	switch {
	case en != nil && en.Kind == kindAnswer:
		v.mu.Lock()
		v.answered = true
		v.mu.Unlock()
		return v.h.e.result(v.base, en)
	case en != nil && en.Kind == kindDeadline:
		return nil, fmt.Errorf("question %q: %w", a.Key, pawl.ErrDeadline)
	}
	w, open := v.h.rec.Wait(pawl.WaitsForAnswer, a.Key)
	now := v.h.e.now(ctx)
	if open && !w.Due.IsZero() && !now.Before(w.Due) {
		// An answer may have come in time and after the journal was read. Later ones are refused by the store.
		j, _, err := v.h.e.journal(v.base, v.h.run.ID, v.h.rec)
		if err != nil {
			return nil, v.breaks(err)
		}
		if en := j[a.Key]; en != nil && en.Kind == kindAnswer {
			v.mu.Lock()
			v.answered = true
			v.mu.Unlock()
			return v.h.e.result(v.base, en)
		}
		row := callRow(entry{Visit: v.h.rec.Visit, Try: v.h.rec.Try, Kind: kindDeadline, Key: a.Key})
		if _, err := v.record([]store.Row{row}, nil); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("question %q: %w", a.Key, pawl.ErrDeadline)
	}
	if !open {
		w = machine.Wait{Kind: pawl.WaitsForAnswer, Key: a.Key, Question: newID()}
		if a.For > 0 {
			w.Due = now.Add(a.For)
		}
		row := encode(question{Key: a.Key, Visit: v.h.rec.Visit, Text: a.Text, Choices: a.Choices, Data: a.Data, Schema: a.Schema})
		if len(row) > MaxEvent {
			return nil, exhausted("question %q has %d bytes, at most %d are allowed", a.Key, len(row), MaxEvent)
		}
		v.mu.Lock()
		v.asks = append(v.asks, store.Ask{ID: w.Question, Row: row, After: a.For})
		v.mu.Unlock()
	}
	v.park(w)
	return nil, pawl.ErrParked
}

// Sleep returns when the time has come. The time is set once, by the park that begins the wait.
func (v *visit) Sleep(ctx context.Context, key string, d time.Duration, until time.Time) error {
	if en, err := v.begin(ctx, key, false); err != nil || en != nil {
		return errors.Join(err, v.is(en, key, kindTimer)) // an entry says that the time has come before
	}
	now := v.h.e.now(ctx)
	w, open := v.h.rec.Wait(pawl.WaitsForTime, key)
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
	_, err := v.record([]store.Row{callRow(entry{Visit: v.h.rec.Visit, Try: v.h.rec.Try, Kind: kindTimer, Key: key})}, nil)
	return err
}
