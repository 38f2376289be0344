package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"pawl"
	"pawl/store"
)

// start starts a run under a key, so that it is started once however often the client has to ask.
func (t *Trial) start(o *Order) error {
	in, err := json.Marshal(o.Job)
	if err != nil {
		return err
	}
	var begun, answered atomic.Int64
	for range 2 { // the second one finds the first
		err := t.Command(func(ctx context.Context, rs pawl.Runs) error {
			unanswered := begun.Add(1)-1 > answered.Load() // an earlier call may have done what it did not come to say
			s, err := rs.Start(ctx, t.Flows[o.Flow].Name(), in, pawl.StartOptions{Key: o.Job.Path})
			if err != nil {
				return err
			}
			answered.Add(1)
			if o.Run != "" && o.Run != s.Run.ID {
				t.Seen.violation("I1: the key leads to run %s, and then to run %s", o.Run, s.Run.ID)
			}
			o.Run, o.again = s.Run.ID, o.again || s.Existing == pawl.ExistingAgain || unanswered && s.Run.Attempt > 1
			return nil
		})
		if err != nil {
			return err
		}
		if _, calm := t.Client.(Calm); calm || o.Cancel > 0 { // it may have ended, and would be started again
			break
		}
	}
	o.began = time.Now()
	if t.Follow {
		t.readers.Go(func() { t.follow(o.Run) })
	}
	return nil
}

// follow reads a run's events to their end. Where that breaks off it goes on behind the last one: I8, while the trial goes on.
func (t *Trial) follow(run string) {
	var last int64
	err := t.Command(func(ctx context.Context, rs pawl.Runs) error {
		for e, err := range rs.Events(ctx, run, last) {
			if err != nil {
				return err
			}
			if e.Seq != last+1 || e.Run != run {
				t.Seen.violation("I8: event %d of run %s came after event %d of run %s", e.Seq, e.Run, last, run)
			}
			last = e.Seq
		}
		return nil
	})
	if err != nil && t.ctx.Err() == nil {
		t.Seen.violation("I8: the events of run %s break off: %v", run, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[run] = last
}

// attend starts and cancels runs when that is due, answers what is asked, and sees whether everything moves, until all runs have
// ended.
func (t *Trial) attend() error {
	began := time.Now()
	for {
		more, err := t.order(time.Since(began))
		if err != nil {
			return err
		}
		moving, err := t.look()
		switch {
		case errors.Is(err, store.ErrUnavailable): // we have no better line to it than others
			moving = true
		case err != nil:
			return err
		}
		if !moving && !more {
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

// order gives the commands that are due; more: some are not yet.
func (t *Trial) order(now time.Duration) (more bool, err error) {
	for _, o := range t.Orders {
		switch {
		case o.Run == "" && now < o.After:
			more = true
		case o.Run == "":
			err = t.start(o)
		case o.Cancel > 0 && o.cancelled.IsZero() && time.Since(o.began) >= o.Cancel:
			err = t.cancel(o)
		}
		if err != nil {
			return false, err
		}
	}
	return more, nil
}

func (t *Trial) cancel(o *Order) error {
	o.tried = true
	err := t.Command(func(ctx context.Context, rs pawl.Runs) error { return rs.Cancel(ctx, o.Run, "the client wants it") })
	switch {
	case err == nil:
		o.cancelled = time.Now()
	case pawl.Coded(err).Code == pawl.CodeConflict: // it has ended before, or of an earlier one whose outcome was unknown
		o.Cancel = 0
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
		waits := r.Until.After(now) || r.Due.After(now) || parents[r.ID]
		if !waits {
			qs, err := t.Store.Questions(ctx, everything, store.Filter{Run: r.ID, Open: true}, store.Page{})
			if err != nil {
				return false, err
			}
			waits = len(qs) > 0
		}
		if waits {
			delete(t.since, r.ID)
			continue
		}
		since, known := t.since[r.ID]
		if !known || since.epoch != r.Epoch {
			since = stuck{now, r.Epoch}
		}
		if calm := t.Seen.calmFrom(t.Lease); calm.After(since.at) {
			since.at = calm
		}
		t.since[r.ID] = since
		if d := now.Sub(since.at); d > 2*t.Lease+t.Slack {
			t.Seen.violation("I6: run %s of %s at %q (%s) has had no lease, timer, child or question for %s", r.ID, r.Workflow, r.Node, r.Status, d)
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
