package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pawl"
	"pawl/store"
)

// start starts the run under a key, so that it is started once however often the client has to ask.
func (t *Trial) start() error {
	in, err := json.Marshal(t.Job)
	if err != nil {
		return err
	}
	for range 2 { // the second one finds the first
		err := t.Command(func(ctx context.Context, rs pawl.Runs) error {
			s, err := rs.Start(ctx, t.Flows[0].Name(), in, pawl.StartOptions{Key: "the one"})
			if err != nil {
				return err
			}
			if t.Run != "" && t.Run != s.Run.ID {
				t.Seen.violation("I1: the key leads to run %s, and then to run %s", t.Run, s.Run.ID)
			}
			t.Run = s.Run.ID
			t.acks.again = t.acks.again || s.Existing == pawl.ExistingAgain
			return nil
		})
		if err != nil {
			return err
		}
		if _, calm := t.Client.(Calm); calm || t.Cancel > 0 { // it may have ended, and would be started again
			break
		}
	}
	return nil
}

// attend answers what is asked, cancels when that is due, and sees whether everything moves, until all runs have ended.
func (t *Trial) attend() error {
	began := time.Now()
	for {
		if t.Cancel > 0 && time.Since(began) >= t.Cancel && t.acks.cancel.IsZero() {
			if err := t.cancel(); err != nil {
				return err
			}
		}
		moving, err := t.look()
		if err != nil {
			return err
		}
		if !moving {
			return nil
		}
		if err := t.answer(); err != nil {
			return err
		}
		if wait(t.ctx, t.Lease/5) != nil {
			t.Seen.violation("I6: no end within %s: %s", t.Within, t.whatRuns())
			return nil
		}
	}
}

func (t *Trial) cancel() error {
	t.acks.tried = true
	err := t.Command(func(ctx context.Context, rs pawl.Runs) error { return rs.Cancel(ctx, t.Run, "the client wants it") })
	switch {
	case err == nil:
		t.acks.cancel = time.Now()
	case pawl.Coded(err).Code == pawl.CodeConflict: // it has ended before, or of an earlier one whose outcome was unknown
		t.Cancel = 0
	default:
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// live gives all runs that have not ended, and all that there are.
func (t *Trial) live() (live, every []store.Run, err error) {
	ctx := context.WithoutCancel(t.ctx)
	page := store.Page{Limit: 500}
	for {
		rs, err := t.Store.List(ctx, everything, store.Filter{}, page)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range rs {
			if !r.Ended {
				live = append(live, r)
			}
		}
		every = append(every, rs...)
		if len(rs) < page.Limit {
			return live, every, nil
		}
		page.After = rs[len(rs)-1].ID
	}
}

// look reports whether a run is under way, and notes those that nothing will move: I6, while the trial goes on.
func (t *Trial) look() (moving bool, err error) {
	live, _, err := t.live()
	if err != nil {
		return false, err
	}
	ctx := context.WithoutCancel(t.ctx)
	now, err := t.Store.Now(ctx)
	if err != nil {
		return false, err
	}
	parents := map[string]bool{}
	for _, r := range live {
		parents[r.Parent] = true
	}
	for _, r := range live {
		qs, err := t.Store.Questions(ctx, everything, store.Filter{Run: r.ID, Open: true}, store.Page{})
		if err != nil {
			return false, err
		}
		if r.Until.After(now) || r.Due.After(now) || parents[r.ID] || len(qs) > 0 {
			delete(t.since, r.ID)
			continue
		}
		if _, known := t.since[r.ID]; !known {
			t.since[r.ID] = now
		}
		if calm := t.Seen.calmFrom(t.Lease); calm.After(t.since[r.ID]) {
			t.since[r.ID] = calm
		}
		if stuck := now.Sub(t.since[r.ID]); stuck > 2*t.Lease {
			t.Seen.violation("I6: run %s of %s at %q (%s) has had no lease, timer, child or question for %s", r.ID, r.Workflow, r.Node, r.Status, stuck)
			return false, nil
		}
	}
	return len(live) > 0, nil
}

func (t *Trial) whatRuns() string {
	live, _, err := t.live()
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, r := range live {
		fmt.Fprintf(&b, "\n\t%s %s at %q, due %s, held until %s by %q", r.Workflow, r.Status, r.Node, r.Due, r.Until, r.Worker)
	}
	return b.String()
}

// answer answers each open question twice in the same way and once in another: I7, while the trial goes on.
func (t *Trial) answer() error {
	qs, err := t.Store.Questions(t.ctx, everything, store.Filter{Open: true}, store.Page{Limit: 1000})
	if err != nil {
		return nil // at the next look
	}
	for _, q := range qs {
		var row struct{ Text string }
		if err := json.Unmarshal(q.Row, &row); err != nil {
			return err
		}
		if strings.HasPrefix(row.Text, silent) {
			continue
		}
		say := func(a string) error {
			return t.Command(func(ctx context.Context, rs pawl.Runs) error { return rs.Answer(ctx, q.Run, q.ID, json.RawMessage(a)) })
		}
		right := fmt.Sprint(sum(row.Text))
		err := say(right)
		if code := pawl.Coded(err); code != nil {
			if code.Code != pawl.CodeConflict && code.Code != pawl.CodeNotFound { // cancelled meanwhile, or a child that has expired
				return fmt.Errorf("answer: %w", err)
			}
			continue
		}
		t.acks.answers[q.ID] = right
		if err := say(right); err != nil {
			t.Seen.violation("I7: the same answer again to question %s: %v", q.ID, err)
		}
		switch err := say("7"); {
		case err == nil:
			t.Seen.violation("I7: question %s took a second, different answer", q.ID)
		case pawl.Coded(err).Code != pawl.CodeConflict:
			t.Seen.violation("I7: a second, different answer to question %s: %v", q.ID, err)
		default:
			t.acks.attempts++
		}
	}
	return nil
}
