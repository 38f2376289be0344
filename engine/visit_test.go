package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
)

func TestASwallowedParkChangesNothing(t *testing.T) {
	executions, later := 0, 0
	g := one(func(ctx context.Context, w work) (work, error) {
		executions++
		n, err := pawl.Ask[int](ctx, "n", pawl.Question{Text: "How many?"})
		if err != nil {
			if !errors.Is(err, pawl.ErrParked) || ctx.Err() == nil || !errors.Is(context.Cause(ctx), pawl.ErrParked) {
				t.Errorf("error %v, cause %v", err, context.Cause(ctx))
			}
			if _, err := do(ctx, "after the park", &tally{}); !errors.Is(err, pawl.ErrParked) {
				t.Errorf("a call after the park: %v", err)
			}
			if err := pawl.Emit(ctx, "after", 1); !errors.Is(err, pawl.ErrParked) {
				t.Errorf("an event after the park: %v", err)
			}
			later++
			return work{N: 99}, nil // swallowed
		}
		w.N = n
		return w, nil
	}, pawl.Options{})
	r := pawltest.Run(t, g, 1, pawltest.Script{Answers: map[string][]any{"n": {7}}})
	ended(t, r, pawl.StatusSucceeded, "END")
	if r.Output.N != 7 || executions != 2 || later != 1 || len(r.Emitted("after")) != 0 {
		t.Errorf("output %+v, %d executions, %d swallowed", r.Output, executions, later)
	}
}

func TestASwallowedCancelChangesNothing(t *testing.T) {
	inside := make(chan context.Context, 1)
	g := one(func(ctx context.Context, w work) (work, error) {
		inside <- ctx
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), pawl.ErrCancelled) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		if _, err := do(ctx, "late", &tally{}); !errors.Is(err, pawl.ErrCancelled) {
			t.Errorf("a call after the cancel: %v", err)
		}
		return work{N: 99}, nil
	}, pawl.Options{})
	virtualChan(t, &inside, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.start("one", 1)
		<-inside
		began := time.Now()
		if err := r.rs.Cancel(r.ctx, run.ID, "enough"); err != nil {
			t.Fatal(err)
		}
		end := r.ends(run.ID, pawl.StatusCancelled)
		if took := time.Since(began); took >= time.Second {
			t.Errorf("the cancel took %s", took)
		}
		if state, err := r.rs.State(r.ctx, run.ID, 0); err != nil || string(state) == "" || end.Output != nil || end.Terminal != pawl.TerminalCancelled {
			t.Errorf("state %s, run %+v, %v", state, end, err)
		} else if w := stateOf(t, state); w.N != 1 {
			t.Errorf("what the node returned is there: %+v", w)
		}
	}, build(t, g))
}

func TestCancelReachesANodeThatIsHeldByAnotherProcess(t *testing.T) {
	inside := make(chan context.Context, 1)
	g := one(func(ctx context.Context, w work) (work, error) {
		inside <- ctx
		<-ctx.Done()
		return w, ctx.Err()
	}, pawl.Options{})
	virtualChan(t, &inside, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))() // r.rs is of another engine
		run := r.start("one", 1)
		ctx := <-inside
		began := time.Now()
		if err := r.rs.Cancel(r.ctx, run.ID, ""); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if took := time.Since(began); took >= time.Second {
			t.Errorf("it took %s", took)
		}
		r.ends(run.ID, pawl.StatusCancelled)
	}, build(t, g))
}

func TestAKeyIsUsedOnceInAnExecution(t *testing.T) {
	for name, second := range map[string]func(context.Context) error{
		"do":    func(ctx context.Context) error { _, err := do(ctx, "k", &tally{}); return err },
		"ask":   func(ctx context.Context) error { _, err := pawl.Ask[int](ctx, "k", pawl.Question{}); return err },
		"sleep": func(ctx context.Context) error { return pawl.Sleep(ctx, "k", time.Hour) },
		"call":  func(ctx context.Context) error { _, err := pawl.Call(ctx, "k", leaf(), 1); return err },
	} {
		tries := 0
		g := one(func(ctx context.Context, w work) (work, error) {
			tries++
			if _, err := do(ctx, "k", &tally{}); err != nil {
				return w, err
			}
			err := second(ctx)
			if !errors.Is(err, pawl.ErrKeyUsed) {
				t.Errorf("%s: %v", name, err)
			}
			return w, err
		}, pawl.Options{Retry: pawl.Retry{Max: 3}})
		r := pawltest.Run(t, g, 1, pawltest.Script{Also: []*pawl.Workflow{build(t, leaf())}})
		failed(t, r, pawl.CodeInvalid, "k")
		if tries != 1 {
			t.Errorf("%s: %d tries", name, tries)
		}
	}
}

// leaf is a graph that doubles its input and makes one call.
func leaf() *graph {
	g := blank("leaf", pawl.Options{})
	a := g.Node("double", func(ctx context.Context, w work) (work, error) {
		n, err := pawl.Do(ctx, "double", func(context.Context) (int, error) { return 2 * w.N, nil })
		w.N = n
		return w, err
	})
	g.Start(a, begin)
	g.From(a).Otherwise(g.Succeed("END"))
	return g
}

func TestTheSameKeyWithAnotherRequest(t *testing.T) {
	execution := 0
	var second error
	g := one(func(ctx context.Context, w work) (work, error) {
		execution++
		if _, err := do(ctx, "k", &tally{}, pawl.CallOptions{For: map[string]int{"execution": execution}}); err != nil {
			second = err
			return w, err
		}
		return w, pawl.Sleep(ctx, "s", time.Hour)
	}, pawl.Options{})
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	failed(t, r, pawl.CodeInvalid, "k", "another request")
	if !errors.Is(second, pawl.ErrKeyUsed) || execution != 2 {
		t.Errorf("%d executions, error %v", execution, second)
	}
}

func TestNoCallInsideACall(t *testing.T) {
	child := leaf()
	for name, inner := range map[string]func(context.Context) error{
		"do":      func(ctx context.Context) error { _, err := do(ctx, "in", &tally{}); return err },
		"ask":     func(ctx context.Context) error { _, err := pawl.Ask[int](ctx, "in", pawl.Question{}); return err },
		"sleep":   func(ctx context.Context) error { return pawl.Sleep(ctx, "in", time.Hour) },
		"call":    func(ctx context.Context) error { _, err := pawl.Call(ctx, "in", child, 1); return err },
		"enqueue": func(ctx context.Context) error { _, err := pawl.Enqueue(ctx, "in", child, 1); return err },
		"map": func(ctx context.Context) error {
			_, err := pawl.Map(ctx, "in", []int{1}, 0, func(context.Context, int) (int, error) { return 1, nil })
			return err
		},
	} {
		var got error
		g := one(func(ctx context.Context, w work) (work, error) {
			_, err := pawl.Do(ctx, "out", func(ctx context.Context) (int, error) { got = inner(ctx); return 1, got })
			return w, err
		}, pawl.Options{Retry: pawl.Retry{Max: 3}})
		r := pawltest.Run(t, g, 1, pawltest.Script{Also: []*pawl.Workflow{build(t, child)}})
		failed(t, r, pawl.CodeInvalid)
		if !errors.Is(got, pawl.ErrNested) || len(rows(r, "retry")) != 0 {
			t.Errorf("%s: %v, %d retries", name, got, len(rows(r, "retry")))
		}
	}
}

// TestANewTryMakesAFailedCallAgain: a recorded result lives as long as the visit, a recorded error as long as the try.
func TestANewTryMakesAFailedCallAgain(t *testing.T) {
	made := &tally{}
	g := one(func(ctx context.Context, w work) (work, error) {
		if _, err := do(ctx, "good", made); err != nil {
			return w, err
		}
		_, err := pawl.Do(ctx, "bad", func(context.Context) (int, error) {
			if made.add("bad") < 3 {
				return 0, errTransient()
			}
			return 1, nil
		})
		return w, err
	}, pawl.Options{Retry: pawl.Retry{Max: 5, First: time.Minute}})
	r := pawltest.EveryCrash(t, g, 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	made.n = nil
	pawltest.Run(t, g, 1, pawltest.Script{})
	if made.of("good") != 1 || made.of("bad") != 3 {
		t.Errorf("made %v", made.n)
	}
}

func TestARerunReadsAFailedCall(t *testing.T) {
	made := &tally{}
	var texts []string
	g := one(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "bad", func(context.Context) (int, error) { made.add("bad"); return 0, errTransient() })
		texts = append(texts, err.Error())
		_, err = do(ctx, "good", made)
		return w, err
	}, pawl.Options{})
	r := pawltest.Run(t, g, 1, pawltest.Script{Fail: map[string][]error{"good": {pawltest.ErrLost}}})
	ended(t, r, pawl.StatusSucceeded, "END")
	if made.of("bad") != 1 || made.of("good") != 2 || len(texts) != 2 || texts[0] != texts[1] {
		t.Errorf("made %v, errors %q", made.n, texts)
	}
}

func TestACallUnderWayIsMadeAgainWithTheSameIdempotencyKey(t *testing.T) {
	keys := map[string]int{}
	var mu sync.Mutex
	g := one(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "pay", func(ctx context.Context) (int, error) {
			mu.Lock()
			keys[pawl.IdempotencyKey(ctx)]++
			n := keys[pawl.IdempotencyKey(ctx)]
			mu.Unlock()
			if n == 2 {
				return 0, errTransient()
			}
			return 1, nil
		}, pawl.CallOptions{Retry: pawl.Retry{Max: 2, First: time.Hour}})
		return w, err
	}, pawl.Options{})
	ended(t, pawltest.Run(t, g, 1, pawltest.Script{Fail: map[string][]error{"pay": {pawltest.ErrLost}}}), pawl.StatusSucceeded, "END")
	if len(keys) != 1 || keys[""] != 0 {
		t.Errorf("keys %v", keys)
	}
	for _, n := range keys {
		if n != 3 {
			t.Errorf("%d physical tries", n)
		}
	}
}

func TestResultsAndErrorsComeInTheirRecordedForm(t *testing.T) {
	type result struct {
		At  time.Time
		Set map[string]int
	}
	stranger := errors.New("stranger")
	g := one(func(ctx context.Context, w work) (work, error) {
		r, err := pawl.Do(ctx, "value", func(context.Context) (result, error) { return result{At: time.Now(), Set: map[string]int{}}, nil })
		if err != nil || r.At != r.At.Round(0) {
			t.Errorf("not as it is recorded: %+v, %v", r, err)
		}
		_, err = pawl.Do(ctx, "error", func(context.Context) (int, error) { return 0, stranger })
		var e *pawl.Error
		if !errors.As(err, &e) || e.Code != pawl.CodeInternal || errors.Is(err, stranger) {
			t.Errorf("error %#v", err)
		}
		_, err = pawl.Do(ctx, "budget", func(ctx context.Context) (int, error) { return 0, pawl.Charge(ctx, "llm", 9) })
		var b *pawl.BudgetError
		if !errors.As(err, &b) || b.Meter != "llm" || b.Cap != 1 {
			t.Errorf("error %#v", err)
		}
		return w, nil
	}, pawl.Options{Budget: pawl.Budget{"llm": 1}})
	ended(t, pawltest.Run(t, g, 1, pawltest.Script{}), pawl.StatusSucceeded, "END")
}

func TestCallsOfAGoroutineThatOutlivesTheNodeAreClosed(t *testing.T) {
	got := make(chan error, 3)
	var gate chan struct{}
	g := two(func(ctx context.Context, w work) (work, error) {
		go func() {
			<-gate
			_, err := do(ctx, "late", &tally{})
			got <- err
			got <- pawl.Emit(ctx, "late", 1)
			got <- pawl.Note(ctx, "late", 1)
		}()
		return w, nil
	}, func(_ context.Context, w work) (work, error) {
		close(gate)
		for range 3 {
			if err := <-got; !errors.Is(err, pawl.ErrClosed) {
				t.Errorf("after the node: %v", err)
			}
		}
		return w, nil
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		gate, got = make(chan struct{}), make(chan error, 3)
		run := r.start("two", 1)
		if err := r.engine(r.store, engine.Config{}).WorkRun(r.ctx, run.ID); err != nil {
			t.Fatal(err)
		}
		r.ends(run.ID, pawl.StatusSucceeded)
	}, build(t, g))
}
