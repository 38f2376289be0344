package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// lateAnswers is a store that is slow to take answers.
type lateAnswers struct {
	store.Store
	by time.Duration
}

func (l *lateAnswers) Apply(ctx context.Context, cs ...store.Change) error {
	if len(cs[0].Answer) > 0 {
		time.Sleep(l.by)
	}
	return l.Store.Apply(ctx, cs...)
}

// TestAnAnswerAtTheDeadlineIsTakenOrRefused: one that was accepted is never lost.
func TestAnAnswerAtTheDeadlineIsTakenOrRefused(t *testing.T) {
	g := one(func(ctx context.Context, w work) (work, error) {
		n, err := pawl.Ask[int](ctx, "q", pawl.Question{For: 10 * time.Second})
		if !errors.Is(err, pawl.ErrDeadline) {
			w.N = n
			return w.line("answered"), err
		}
		_, err = pawl.Do(ctx, "act", func(context.Context) (int, error) { time.Sleep(5 * time.Second); return 1, nil })
		return w.line("deadline"), err
	}, pawl.Options{})
	for _, at := range []time.Duration{8 * time.Second, 9 * time.Second, 9999 * time.Millisecond, 10 * time.Second, 10001 * time.Millisecond, 12 * time.Second} {
		for _, by := range []time.Duration{0, time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 10 * time.Second} {
			t.Run(fmt.Sprintf("at %s, written %s later", at, by), func(t *testing.T) {
				virtual(t, func(r *rig) {
					e := r.engine(&lateAnswers{r.store, by}, engine.Config{})
					defer r.worker(e)()
					run := r.start("one", 1)
					time.Sleep(time.Second)
					qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{Run: run.ID}, "", 0)
					if err != nil || len(qs) != 1 {
						t.Fatal(qs, err)
					}
					time.Sleep(at - time.Second)
					err = e.As(pawl.Caller{User: "ann"}).Answer(r.ctx, run.ID, qs[0].ID, []byte("77"))
					if err != nil {
						named(t, pawl.Coded(err), pawl.CodeConflict)
					}
					w := output(t, r.ends(run.ID, pawl.StatusSucceeded))
					if taken := w.N == 77 && w.Log[0] == "answered"; taken != (err == nil) || !taken && w.Log[0] != "deadline" {
						t.Errorf("the answer came back with %v, and the run made %+v", err, w)
					}
				}, build(t, g))
			})
		}
	}
}

// TestACallOnAContextThatTheNodeHasCancelled gets that context's cause; the visit goes on.
func TestACallOnAContextThatTheNodeHasCancelled(t *testing.T) {
	mine := errors.New("the node has seen enough")
	bg := leaf()
	for name, call := range map[string]func(context.Context) error{
		"Do": func(ctx context.Context) error {
			return second(pawl.Do(ctx, "x", func(context.Context) (int, error) { return 1, nil }))
		},
		"Do with a limit": func(ctx context.Context) error {
			return second(pawl.Do(ctx, "x", func(context.Context) (int, error) { return 1, nil }, pawl.CallOptions{Limit: "api"}))
		},
		"Emit":  func(ctx context.Context) error { return errors.Join(pawl.Emit(ctx, "x", 1), mine) },
		"Sleep": func(ctx context.Context) error { return errors.Join(pawl.Sleep(ctx, "x", 10*time.Millisecond), mine) },
		"Cap":   func(ctx context.Context) error { return errors.Join(pawl.Cap(ctx, "llm", 1), mine) },
		"Enqueue": func(ctx context.Context) error {
			return errors.Join(second(pawl.Enqueue(ctx, "x", bg, 1, pawl.StartOptions{Key: "k"})), mine)
		},
	} {
		for _, fails := range []int{0, 1} { // the second try reads what the first one may have recorded
			var executions atomic.Int32
			g := one(func(ctx context.Context, w work) (work, error) {
				executions.Add(1)
				if pawl.Info(ctx).Try <= fails {
					return w, errTransient()
				}
				inner, cancel := context.WithCancelCause(ctx)
				cancel(mine)
				if err := call(inner); !errors.Is(err, mine) {
					t.Errorf("%s: the call on a cancelled context gave %v", name, err)
				}
				_, err := do(ctx, "next", &tally{})
				return w.line("went on"), err
			}, pawl.Options{}, pawl.NodeOptions{Retry: pawl.Retry{Max: 1, First: time.Second}})
			t.Run(fmt.Sprint(name, " in try ", fails+1), func(t *testing.T) {
				virtual(t, func(r *rig) {
					defer r.worker(r.engine(r.store, engine.Config{Limits: map[string]engine.Limit{"api": {Max: 1}}}))()
					run := r.ends(r.start("one", 1).ID, pawl.StatusSucceeded)
					if w := output(t, run); len(w.Log) != 1 || int(executions.Load()) != fails+1 {
						t.Errorf("output %+v, %d executions", w, executions.Load())
					}
				}, build(t, g), build(t, bg))
			})
		}
	}
}

// busy is a store that counts claims that got something and commits; each takes a moment.
type busy struct {
	store.Store
	n atomic.Int64
}

func (b *busy) Apply(ctx context.Context, cs ...store.Change) error {
	b.n.Add(1)
	time.Sleep(time.Millisecond)
	return b.Store.Apply(ctx, cs...)
}

func (b *busy) Claim(ctx context.Context, c store.Claim) ([]store.Run, time.Duration, error) {
	rs, next, err := b.Store.Claim(ctx, c)
	b.n.Add(int64(len(rs)))
	return rs, next, err
}

// TestAWaitForALimitBesideALongerWaitDoesNotSpin: the run is due when there is something to do, and not before.
func TestAWaitForALimitBesideALongerWaitDoesNotSpin(t *testing.T) {
	for _, refusals := range []int{1, 2, 100} {
		made := &tally{}
		g := one(func(ctx context.Context, w work) (work, error) {
			_, err := pawl.Map(ctx, "m", []int{0, 1, 2}, 3, func(_ context.Context, i int) (int, error) {
				if i == 0 && made.add("first") <= refusals {
					time.Sleep(100 * time.Millisecond)
					return 0, pawl.RetryAfter(errors.New("429"), time.Minute)
				}
				return i, nil
			}, pawl.CallOptions{Limit: "api", Retry: pawl.Retry{Max: 3, First: time.Second}})
			return w, err
		}, pawl.Options{})
		t.Run(fmt.Sprint(refusals, " refusals"), func(t *testing.T) {
			virtual(t, func(r *rig) {
				b := &busy{Store: r.store}
				defer r.worker(r.engine(b, engine.Config{Limits: map[string]engine.Limit{"api": {Every: 5 * time.Second}}}))()
				run := r.start("one", 1)
				time.Sleep(time.Minute)
				if n := b.n.Load(); n >= 50 {
					t.Errorf("%d claims and commits in a minute", n)
				}
				want := pawl.StatusSucceeded
				if refusals > 3 {
					want = pawl.StatusFailed
				}
				if end := r.ends(run.ID, want); made.of("first") != min(refusals, 3)+1 {
					t.Errorf("made %d times, error %v", made.of("first"), end.Err)
				}
			}, build(t, g))
		})
	}
}

// TestALimitedCallKeepsItsPlaceForAsLongAsItTakes: never more than Max are under way.
func TestALimitedCallKeepsItsPlaceForAsLongAsItTakes(t *testing.T) {
	var now, most atomic.Int32
	g := one(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "x", func(context.Context) (int, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(90 * time.Second)
			return 1, nil
		}, pawl.CallOptions{Limit: "api"})
		return w, err
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{Limits: map[string]engine.Limit{"api": {Max: 1}}}))()
		began := time.Now()
		var ids []string
		for i := range 4 {
			ids = append(ids, r.start("one", i).ID)
		}
		for _, id := range ids {
			r.ends(id, pawl.StatusSucceeded)
		}
		if took := time.Since(began); most.Load() != 1 || took > 10*time.Minute {
			t.Errorf("%d at once, took %s", most.Load(), took)
		}
	}, build(t, g))
}

// TestADeadlineRunsFromTheQuestionAndNotFromThePark: a call beside it may take long. What the run goes by and what the store goes
// by is one time, so that no accepted answer is lost.
func TestADeadlineRunsFromTheQuestionAndNotFromThePark(t *testing.T) {
	var got error
	g := one(func(ctx context.Context, w work) (work, error) {
		var err error
		_, _ = both(w, func() error { return second(obedient(ctx, "slow", 30*time.Second, &tally{})) }, func() error {
			time.Sleep(time.Millisecond)
			w.N, err = pawl.Ask[int](ctx, "q", pawl.Question{For: time.Minute})
			return nil
		})
		if errors.Is(err, pawl.ErrParked) {
			return w, err
		}
		got = err
		return w, second(obedient(ctx, "after", 20*time.Second, &tally{}))
	}, pawl.Options{})
	for at, taken := range map[time.Duration]bool{55 * time.Second: true, 65 * time.Second: false} {
		virtual(t, func(r *rig) {
			defer r.worker(r.engine(r.store, engine.Config{}))()
			run := r.start("one", 1)
			time.Sleep(at)
			qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{Run: run.ID}, "", 0)
			if err != nil || len(qs) != 1 {
				t.Fatal(qs, err)
			}
			err = r.rs.Answer(r.ctx, run.ID, qs[0].ID, []byte("42"))
			r.ends(run.ID, pawl.StatusSucceeded)
			if (err == nil) != taken || (got == nil) != taken {
				t.Errorf("at %s: the answer came back with %v, the node saw %v", at, err, got)
			}
		}, build(t, g))
	}
}

// TestAnAnswerIsTakenForAsLongAsTheStoreTakesIt: the commit that asks takes a moment, and a run that is woken within it must not
// give the question up.
func TestAnAnswerIsTakenForAsLongAsTheStoreTakesIt(t *testing.T) {
	g := one(func(ctx context.Context, w work) (work, error) {
		return both(w, func() error {
			n, err := pawl.Ask[int](ctx, "q", pawl.Question{For: 10 * time.Second})
			w.N = n
			return err
		}, func() error { return second(pawl.Ask[int](ctx, "other", pawl.Question{})) })
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(&hooked{Store: r.store, apply: func(cs []store.Change, do func() error) error {
			if len(cs[0].Ask) > 0 {
				time.Sleep(time.Second)
			}
			return do()
		}}, engine.Config{}))()
		run := r.start("one", 1)
		time.Sleep(10*time.Second + 200*time.Millisecond)
		for _, key := range []string{"other", "q"} {
			qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{Run: run.ID}, "", 0)
			i := slices.IndexFunc(qs, func(q pawl.Open) bool { return q.Key == key })
			if err != nil || i < 0 {
				t.Fatal(qs, err)
			}
			if err := r.rs.Answer(r.ctx, run.ID, qs[i].ID, []byte("42")); err != nil {
				t.Errorf("%s: %v", key, err)
			}
			time.Sleep(300 * time.Millisecond)
		}
		r.ends(run.ID, pawl.StatusSucceeded)
	}, build(t, g))
}
