package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
)

// TestSleepAndUntilSurviveRestarts: the time is set once, and a worker that dies does not begin it anew.
func TestSleepAndUntilSurviveRestarts(t *testing.T) {
	until := time.Date(2000, 1, 1, 3, 0, 0, 0, time.UTC) // virtual time begins at midnight
	var woken []time.Time
	g := one(func(ctx context.Context, w work) (work, error) {
		if err := pawl.Sleep(ctx, "hour", time.Hour); err != nil {
			return w, err
		}
		if _, err := do(ctx, "between", &tally{}); err != nil {
			return w, err
		}
		if err := pawl.Until(ctx, "three", until); err != nil {
			return w, err
		}
		woken = append(woken, time.Now())
		_, err := do(ctx, "after", &tally{})
		return w, err
	}, pawl.Options{})
	r := pawltest.EveryCrash(t, g, 1, pawltest.Script{})
	if r.Took < 3*time.Hour || r.Took > 3*time.Hour+time.Second {
		t.Errorf("took %s", r.Took)
	}
	for _, w := range woken {
		if w.Before(until) || w.After(until.Add(time.Minute)) {
			t.Errorf("woken at %s", w)
		}
	}
}

func TestASleepThatIsOverIsOverForTheVisit(t *testing.T) {
	n := 0
	g := one(func(ctx context.Context, w work) (work, error) {
		if err := pawl.Sleep(ctx, "s", time.Hour); err != nil {
			return w, err
		}
		if n++; n == 1 {
			return w, errTransient()
		}
		return w, pawl.Until(ctx, "past", time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC))
	}, pawl.Options{Retry: pawl.Retry{Max: 1, First: time.Minute}})
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	if r.Took > time.Hour+2*time.Minute {
		t.Errorf("the new try slept again: %s", r.Took)
	}
}

func TestSleepsAtOnceAreWaitedForTogether(t *testing.T) {
	g := one(func(ctx context.Context, w work) (work, error) {
		var wg sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			wg.Go(func() { errs[i] = pawl.Sleep(ctx, fmt.Sprint("s", i), time.Duration(3-i)*time.Hour) })
		}
		wg.Wait()
		return w, errors.Join(errs...)
	}, pawl.Options{})
	if r := pawltest.EveryCrash(t, g, 1, pawltest.Script{}); r.Took < 3*time.Hour || r.Took > 3*time.Hour+time.Second {
		t.Errorf("took %s", r.Took)
	}
}

// TestADeadlineThatHasPassedStays: a late answer is refused, and every execution and try reads the same.
func TestADeadlineThatHasPassedStays(t *testing.T) {
	var seen []bool
	tries := 0
	g := one(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Ask[int](ctx, "q", pawl.Question{Text: "Quick?", For: time.Minute})
		if errors.Is(err, pawl.ErrParked) {
			return w, err
		}
		seen = append(seen, errors.Is(err, pawl.ErrDeadline))
		if err := pawl.Sleep(ctx, "s", time.Hour); err != nil {
			return w, err
		}
		if tries++; tries == 1 {
			return w, errTransient()
		}
		return w, err
	}, pawl.Options{Retry: pawl.Retry{Max: 3, First: time.Minute}})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		id := r.start("one", 1).ID
		r.becomes(id, pawl.StatusWaiting)
		qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{Run: id}, "", 0)
		if err != nil || len(qs) != 1 || qs[0].Due == nil {
			t.Fatal(qs, err)
		}
		r.until(id, "asleep", func(run pawl.Run) bool { return len(run.Waits) == 1 && run.Waits[0].Kind == pawl.WaitsForTime })
		err = r.rs.Answer(r.ctx, id, qs[0].ID, json.RawMessage("1"))
		named(t, pawl.Coded(err), pawl.CodeConflict)
		run := r.untilEnd(id, 3*time.Hour)
		named(t, run.Err, pawl.CodeTimeout, "q")
		if len(seen) != 3 || !seen[0] || !seen[1] || !seen[2] {
			t.Errorf("seen %v", seen)
		}
		if n := r.steps(id, "retry"); n != 1 {
			t.Errorf("a passed deadline was retried: %d retries", n)
		}
	}, build(t, g))
}

func TestAnAnswerInTimeOutlivesTheDeadline(t *testing.T) {
	g := one(func(ctx context.Context, w work) (work, error) {
		n, err := pawl.Ask[int](ctx, "q", pawl.Question{For: time.Hour})
		if err != nil {
			return w, err
		}
		w.N = n
		return w, pawl.Sleep(ctx, "s", 2*time.Hour)
	}, pawl.Options{})
	r := pawltest.EveryCrash(t, g, 1, pawltest.Script{Answers: map[string][]any{"q": {7}}})
	ended(t, r, pawl.StatusSucceeded, "END")
	if r.Output.N != 7 {
		t.Errorf("output %+v", r.Output)
	}
}

func TestAQuestionIsAskedOnce(t *testing.T) {
	g := one(func(ctx context.Context, w work) (work, error) {
		var wg sync.WaitGroup
		var errs [2]error
		wg.Go(func() { errs[0] = second(pawl.Ask[int](ctx, "q", pawl.Question{For: 24 * time.Hour})) })
		wg.Go(func() { errs[1] = pawl.Sleep(ctx, "s", time.Hour) })
		wg.Wait()
		return w, errors.Join(errs[:]...)
	}, pawl.Options{})
	r := pawltest.EveryCrash(t, g, 1, pawltest.Script{Answers: map[string][]any{"q": {7}}, Think: 5 * time.Hour})
	ended(t, r, pawl.StatusSucceeded, "END")
	if len(r.Questions) != 1 {
		t.Errorf("questions %+v", r.Questions)
	}
	waiting := 0
	for _, e := range r.Events {
		if e.Type == "pawl.waiting" {
			waiting++
		}
	}
	if waiting != 1 {
		t.Errorf("%d times told that it waits", waiting)
	}
}

// TestCallsUnderWayAreRecordedWhenTheVisitParks: they run to their end, and no new one starts.
func TestCallsUnderWayAreRecordedWhenTheVisitParks(t *testing.T) {
	made := &tally{}
	g := one(func(ctx context.Context, w work) (work, error) {
		var wg sync.WaitGroup
		var errs [2]error
		wg.Go(func() {
			errs[0] = second(pawl.Do(ctx, "slow", func(ctx context.Context) (int, error) {
				made.add("slow")
				select {
				case <-time.After(time.Minute):
					return 1, nil
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				}
			}))
		})
		time.Sleep(time.Second)
		wg.Go(func() { errs[1] = second(pawl.Ask[int](ctx, "q", pawl.Question{})) })
		wg.Wait()
		return w, errors.Join(errs[:]...)
	}, pawl.Options{})
	r := pawltest.Run(t, g, 1, pawltest.Script{Answers: map[string][]any{"q": {1}}})
	ended(t, r, pawl.StatusSucceeded, "END")
	if made.of("slow") != 1 {
		t.Errorf("made %d times", made.of("slow"))
	}
}

// TestWhatEndsACallOfAParkedVisitIsNotItsError: an abort, or the clock of the node, cuts it short; nothing is recorded, the next
// execution makes it again. The visit itself has come to its end by then: its timeout makes no error of it.
func TestWhatEndsACallOfAParkedVisitIsNotItsError(t *testing.T) {
	for name, o := range map[string]pawl.Options{"abort": {}, "timeout": {Timeout: 10 * time.Second}} {
		made := &tally{}
		g := one(func(ctx context.Context, w work) (work, error) {
			long := time.Minute
			if made.of("slow") > 0 {
				long = time.Second
			}
			return both(w, func() error { return second(obedient(ctx, "slow", long, made)) },
				func() error { time.Sleep(time.Second); return pawl.Sleep(ctx, "s", 5*time.Minute) })
		}, o)
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				e := r.engine(r.store, engine.Config{})
				stop := r.worker(e)
				run := r.start("one", 1)
				time.Sleep(5 * time.Second)
				if name == "abort" {
					go stop()
					time.Sleep(time.Second)
					e.Abort()
				}
				time.Sleep(10 * time.Second)
				stop()
				if got := r.get(run.ID); got.Status != pawl.StatusWaiting {
					t.Errorf("the run is %s", got.Status)
				}
				defer r.worker(r.engine(r.store, engine.Config{}))()
				if r.ends(run.ID, pawl.StatusSucceeded); made.of("slow") != 2 {
					t.Errorf("made %d times", made.of("slow"))
				}
			}, build(t, g))
		})
	}
}

// TestAShortRetryBesideAQuestionDoesNotWaitForThePerson: it is one more thing that the visit waits for.
func TestAShortRetryBesideAQuestionDoesNotWaitForThePerson(t *testing.T) {
	made := &tally{}
	g := one(func(ctx context.Context, w work) (work, error) {
		return both(w, func() error {
			return second(pawl.Do(ctx, "quick", func(context.Context) (int, error) {
				if made.add("quick") == 1 {
					return 0, errTransient()
				}
				return 1, nil
			}, pawl.CallOptions{Retry: pawl.Retry{Max: 1, First: 800 * time.Millisecond}}))
		}, func() error {
			time.Sleep(100 * time.Millisecond)
			return second(pawl.Ask[int](ctx, "q", pawl.Question{}))
		})
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.start("one", 1)
		time.Sleep(10 * time.Second)
		if got := r.get(run.ID); made.of("quick") != 2 || got.Status != pawl.StatusWaiting {
			t.Errorf("made %d times, the run is %s", made.of("quick"), got.Status)
		}
	}, build(t, g))
}
