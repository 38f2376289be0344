package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
)

// claims is an engine configuration that counts claims.
func claims(n *int) engine.Config {
	return engine.Config{Trace: engine.Trace{Claimed: func(string, string, int64) { *n++ }}}
}

func failing(times int, err error, when *[]time.Time) body {
	return func(context.Context, work) (w work, _ error) {
		*when = append(*when, time.Now())
		if len(*when) <= times {
			return w, err
		}
		return w, nil
	}
}

func TestARetryBelowASecondIsWaitedForInHand(t *testing.T) {
	var when []time.Time
	n := 0
	g := one(failing(1, errTransient(), &when), pawl.Options{Retry: pawl.Retry{Max: 1, First: 800 * time.Millisecond}})
	ended(t, pawltest.Run(t, g, 1, pawltest.Script{Engine: claims(&n)}), pawl.StatusSucceeded, "END")
	if d := when[1].Sub(when[0]); n != 1 || d < 640*time.Millisecond || d > time.Second {
		t.Errorf("%d claims, waited %s", n, d)
	}
}

func TestARetryAboveASecondParks(t *testing.T) {
	var when []time.Time
	g := one(failing(3, errTransient(), &when), pawl.Options{Retry: pawl.Retry{Max: 3, First: 10 * time.Second, Factor: 3}})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		id := r.start("one", 1).ID
		run := r.becomes(id, pawl.StatusWaiting)
		if len(run.Waits) != 1 || run.Waits[0].Kind != pawl.WaitsForRetry || run.Worker != "" || run.Waits[0].Due == nil {
			t.Errorf("run %+v", run)
		}
		r.ends(id, pawl.StatusSucceeded)
		for i, want := range []time.Duration{10 * time.Second, 30 * time.Second, 90 * time.Second} {
			if d := when[i+1].Sub(when[i]); d < want*8/10 || d > want*12/10+time.Second {
				t.Errorf("wait %d was %s, want about %s", i+1, d, want)
			}
		}
	}, build(t, g))
}

func TestRetryAfterIsHonored(t *testing.T) {
	for name, g := range map[string]func(*[]time.Time) *graph{
		"node": func(when *[]time.Time) *graph {
			return one(failing(1, pawl.RetryAfter(errTransient(), time.Hour), when), pawl.Options{Retry: pawl.Retry{Max: 1, First: time.Second}})
		},
		"call": func(when *[]time.Time) *graph {
			return one(func(ctx context.Context, w work) (work, error) {
				return pawl.Do(ctx, "k", func(ctx context.Context) (work, error) {
					return failing(1, pawl.RetryAfter(errTransient(), time.Hour), when)(ctx, w)
				}, pawl.CallOptions{Retry: pawl.Retry{Max: 1, First: time.Second}})
			}, pawl.Options{})
		},
		"node after the error of a call": func(when *[]time.Time) *graph {
			return one(func(ctx context.Context, w work) (work, error) {
				return pawl.Do(ctx, "k", func(ctx context.Context) (work, error) {
					return failing(1, pawl.RetryAfter(errTransient(), time.Hour), when)(ctx, w)
				})
			}, pawl.Options{Retry: pawl.Retry{Max: 1, First: time.Second}})
		},
	} {
		var when []time.Time
		ended(t, pawltest.Run(t, g(&when), 1, pawltest.Script{}), pawl.StatusSucceeded, "END")
		if len(when) != 2 {
			t.Fatalf("%s: %d tries", name, len(when))
		}
		if d := when[1].Sub(when[0]); d < time.Hour || d > time.Hour+2*time.Second {
			t.Errorf("%s: waited %s", name, d)
		}
	}
}

func TestTheNodeDoesNotRepeatACallWithRetriesOfItsOwn(t *testing.T) {
	for _, wait := range []time.Duration{0, 10 * time.Millisecond, time.Hour} {
		made, tries := &tally{}, 0
		g := one(func(ctx context.Context, w work) (work, error) {
			tries++
			_, err := pawl.Do(ctx, "k", func(context.Context) (int, error) { made.add("k"); return 0, errTransient() },
				pawl.CallOptions{Retry: pawl.Retry{Max: 2, First: wait}})
			return w, err
		}, pawl.Options{Retry: pawl.Retry{Max: 5}})
		r := pawltest.Run(t, g, 1, pawltest.Script{})
		failed(t, r, pawl.CodeInternal, "503")
		if made.of("k") != 3 || len(rows(r, "retry")) != 0 {
			t.Errorf("First %s: made %d times, %d retries of the node", wait, made.of("k"), len(rows(r, "retry")))
		}
	}
}

// TestTriesOfACallAreCountedOverCrashes: the number of the try is durable before the wait.
func TestTriesOfACallAreCountedOverCrashes(t *testing.T) {
	made := &tally{}
	g := one(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "k", func(context.Context) (int, error) { made.add("k"); return 0, errTransient() },
			pawl.CallOptions{Retry: pawl.Retry{Max: 4, First: time.Minute}})
		return w, err
	}, pawl.Options{})
	r := pawltest.Run(t, g, 1, pawltest.Script{Crash: []int{2, 2, 2}}) // behind each recorded failure
	failed(t, r, pawl.CodeInternal)
	if made.of("k") != 5 || len(r.Writes) != 4 {
		t.Errorf("made %d times by %d workers", made.of("k"), len(r.Writes))
	}
}

func TestWhatIsNotRetried(t *testing.T) {
	for name, err := range map[string]error{
		"permanent": pawl.Permanent(errTransient()), "invalid": &pawl.Error{Code: pawl.CodeInvalid}, "wrapped": fmt.Errorf("op: %w", pawl.Permanent(errTransient())),
		"budget": &pawl.BudgetError{Meter: "x"}, "joined": errors.Join(errTransient(), pawl.Permanent(errTransient())),
	} {
		var when []time.Time
		r := pawltest.Run(t, one(failing(9, err, &when), pawl.Options{Retry: pawl.Retry{Max: 3}}), 1, pawltest.Script{})
		if len(when) != 1 || r.Run.Status != pawl.StatusFailed {
			t.Errorf("%s: %d tries, %s", name, len(when), r.Run.Status)
		}
	}
	var when []time.Time
	pawltest.Run(t, one(failing(9, errTransient(), &when), pawl.Options{Retry: pawl.Retry{Max: 3}}, pawl.NodeOptions{Retry: pawl.Retry{Max: -1}}), 1, pawltest.Script{})
	if len(when) != 1 {
		t.Errorf("Max -1: %d tries", len(when))
	}
}

func TestANodeThatOverrunsItsTimeIsAStepTimeout(t *testing.T) {
	for name, run := range map[string]body{
		"returns the error": func(ctx context.Context, w work) (work, error) { <-ctx.Done(); return w, ctx.Err() },
		"swallows it":       func(ctx context.Context, w work) (work, error) { <-ctx.Done(); return work{N: 99}, nil },
		"in a call": func(ctx context.Context, w work) (work, error) {
			_, err := pawl.Do(ctx, "k", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
			return w, err
		},
		"ignores its context": func(_ context.Context, w work) (work, error) { time.Sleep(time.Hour); return work{N: 99}, nil },
	} {
		tries := &tally{} // a node that is left behind still runs beside the next try
		g := one(func(ctx context.Context, w work) (work, error) { tries.add("try"); return run(ctx, w) },
			pawl.Options{Timeout: 5 * time.Second, Retry: pawl.Retry{Max: 2, First: time.Second}})
		r := pawltest.Run(t, g, 1, pawltest.Script{})
		failed(t, r, pawl.CodeStepTimeout, "node", "5s")
		if tries.of("try") != 3 || stateOf(t, r.State).N != 1 || r.Took > time.Minute {
			t.Errorf("%s: %d tries, state %s, took %s", name, tries.of("try"), r.State, r.Took)
		}
	}
}

func TestATimeoutOfACallIsItsOwnError(t *testing.T) {
	n := 0
	g := one(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "slow", func(ctx context.Context) (int, error) {
			if n++; n < 3 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 1, nil
		}, pawl.CallOptions{Timeout: time.Second, Retry: pawl.Retry{Max: 1}})
		if n == 2 {
			named(t, pawl.Coded(err), pawl.CodeTimeout, "slow", "1s")
			w, err = work{N: 5}, nil
		}
		return w, err
	}, pawl.Options{})
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	if n != 2 || r.Output.N != 5 {
		t.Errorf("%d tries, output %+v", n, r.Output)
	}
}

func TestRetriesOfANodeAreCountedOverCrashes(t *testing.T) {
	tries := map[int]int{}
	g := one(func(ctx context.Context, w work) (work, error) {
		tries[pawl.Info(ctx).Try]++
		if _, err := do(ctx, fmt.Sprint("try ", pawl.Info(ctx).Try), &tally{}); err != nil {
			return w, err
		}
		return w, errTransient()
	}, pawl.Options{Retry: pawl.Retry{Max: 2, First: time.Minute}})
	r := pawltest.EveryCrash(t, g, 1, pawltest.Script{})
	failed(t, r, pawl.CodeInternal)
	if len(tries) != 3 || len(rows(r, "retry")) != 2 {
		t.Errorf("tries %v, %d retries", tries, len(rows(r, "retry")))
	}
}

// TestAnErrorOfATryThatCrashedDoesNotCountInTheNext even if the execution that followed the crash did not read it: a recorded
// error lives as long as its try.
func TestAnErrorOfATryThatCrashedDoesNotCountInTheNext(t *testing.T) {
	made, execs := &tally{}, 0
	g := one(func(ctx context.Context, w work) (work, error) {
		if execs++; execs == 2 {
			return w, errors.New("something else fails before the call")
		}
		return w, second(pawl.Do(ctx, "k", func(context.Context) (int, error) {
			if made.add("k") == 1 {
				return 0, errTransient()
			}
			return 1, nil
		}))
	}, pawl.Options{Retry: pawl.Retry{Max: 1, First: time.Minute}})
	r := pawltest.Run(t, g, 0, pawltest.Script{Crash: []int{2}})
	ended(t, r, pawl.StatusSucceeded, "END")
	if made.of("k") != 2 || execs != 3 {
		t.Errorf("made %d times in %d executions", made.of("k"), execs)
	}
}
