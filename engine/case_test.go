package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
	"pawl/store"
)

// TestCase05AnErrorNamesTheFieldAndWhatIsAllowed: whoever gets it can correct itself.
func TestCase05AnErrorNamesTheFieldAndWhatIsAllowed(t *testing.T) {
	type form struct {
		Approved bool `json:"approved"`
		Level    int  `json:"level"`
	}
	g := pawl.New[form, work, work]("case05", pawl.Options{Version: "1"})
	a := g.Node("ask", func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Ask[form](ctx, "q", pawl.Question{})
		return w, err
	})
	g.Start(a, func(form) (work, error) { return work{}, nil })
	g.From(a).Otherwise(g.Succeed("END"))
	g.Finish(func(w work, _ pawl.Ending) (work, error) { return w, nil })
	virtual(t, func(r *rig) {
		for in, names := range map[string][]string{
			`{"approved":"Yes","level":1}`:  {"approved", "boolean"},
			`{"approved":true,"level":"1"}`: {"level", "integer"},
			`{"Approved":true,"level":1}`:   {"Approved"},
		} {
			_, err := r.rs.Start(r.ctx, "case05", json.RawMessage(in), pawl.StartOptions{})
			named(t, pawl.Coded(err), pawl.CodeInvalid, names...)
		}
		s, err := r.rs.Start(r.ctx, "case05", json.RawMessage(`{"approved":true,"level":1}`), pawl.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.engine(r.store, engine.Config{}).WorkRun(r.ctx, s.Run.ID); err != nil {
			t.Fatal(err)
		}
		qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{}, "", 0)
		if err != nil || len(qs) != 1 {
			t.Fatal(qs, err)
		}
		err = r.rs.Answer(r.ctx, s.Run.ID, qs[0].ID, json.RawMessage(`{"approved":"Yes","level":"high"}`))
		named(t, pawl.Coded(err), pawl.CodeInvalid, "approved", "boolean", "level", "integer") // all at once
	}, build(t, g))
}

// TestCase06DuplicateKeysAreNeverTakenSilently neither in an input nor in an answer nor in an edited state.
func TestCase06DuplicateKeysAreNeverTakenSilently(t *testing.T) {
	type decision struct {
		Approved   bool    `json:"approved"`
		Confidence float64 `json:"confidence,omitempty"`
	}
	g := pawl.New[decision, decision, decision]("case06", pawl.Options{Version: "1"})
	a := g.Node("ask", func(ctx context.Context, d decision) (decision, error) {
		return pawl.Ask[decision](ctx, "q", pawl.Question{})
	})
	g.Start(a, func(d decision) (decision, error) { return d, nil })
	g.From(a).Otherwise(g.Succeed("END"))
	g.Finish(func(d decision, _ pawl.Ending) (decision, error) { return d, nil })
	virtual(t, func(r *rig) {
		s, err := r.rs.Start(r.ctx, "case06", json.RawMessage(`{"approved":false}`), pawl.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.engine(r.store, engine.Config{}).WorkRun(r.ctx, s.Run.ID); err != nil {
			t.Fatal(err)
		}
		qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{}, "", 0)
		if err != nil || len(qs) != 1 {
			t.Fatal(qs, err)
		}
		for text, name := range map[string]string{
			`{"approved":false,"approved":true}`:                  "approved",
			`{"approved":true,"confidence":0.2,"Confidence":0.9}`: "Confidence",
			`{"approved":true,"Approved":false}`:                  "Approved",
			`{"APPROVED":true}`:                                   "APPROVED",
			`{"approved":false,"\u0061pproved":true}`:             "approved",
		} {
			raw := json.RawMessage(text)
			_, err := r.rs.Start(r.ctx, "case06", raw, pawl.StartOptions{})
			named(t, pawl.Coded(err), pawl.CodeInvalid, name)
			named(t, pawl.Coded(r.rs.Answer(r.ctx, s.Run.ID, qs[0].ID, raw)), pawl.CodeInvalid, name)
			_, err = r.rs.Fork(r.ctx, s.Run.ID, 1, raw)
			named(t, pawl.Coded(err), pawl.CodeInvalid, name)
		}
	}, build(t, g))
}

// TestCase10ALimitStopsTheLoop: hard, with what there is, and a crash does not reset the count.
func TestCase10ALimitStopsTheLoop(t *testing.T) {
	g := blank("case10", pawl.Options{Budget: pawl.Budget{"tool": 10}})
	a := g.Node("model", func(_ context.Context, w work) (work, error) { w.Text = string("AB"[w.N%2]); return w, nil }) // A, B, A, B
	tool := g.Node("tool", func(ctx context.Context, w work) (work, error) {
		if _, err := do(ctx, "call", &tally{}, pawl.CallOptions{Charge: pawl.Budget{"tool": 1}}); err != nil {
			return w, err
		}
		w.N++
		return w.line(w.Text), nil
	})
	g.Start(a, begin)
	g.From(a).When("again", func(work) bool { return true }, tool).AtMost(1000).Otherwise(g.Succeed("END"))
	g.From(tool).OnError("budget_exhausted", pawl.IsBudget, g.Succeed("PARTIAL", pawl.End[work]{Outcome: "budget_exhausted"})).Otherwise(a)
	r := pawltest.Run(t, g, 0, pawltest.Script{Crash: []int{7, 9, 11}})
	ended(t, r, pawl.StatusSucceeded, "PARTIAL")
	if r.Run.Outcome != "budget_exhausted" || len(r.Output.Log) > 10 || len(r.Output.Log) < 7 || r.Meter("tool") != 10 {
		t.Errorf("outcome %s, %d calls, used %d", r.Run.Outcome, len(r.Output.Log), r.Meter("tool"))
	}
}

// TestCase11EffectsOfParallelBranchesAreMadeOnceForWhoKnowsTheirKeys wherever the worker dies.
func TestCase11EffectsOfParallelBranchesAreMadeOnceForWhoKnowsTheirKeys(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		fresh := open(t)
		var mu sync.Mutex
		effects, made := map[string]int{}, 0
		g := one(func(ctx context.Context, w work) (work, error) {
			out, err := pawl.Map(ctx, "effect", []int{0, 1, 2, 3, 4, 5, 6, 7}, 8, func(ctx context.Context, i int) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				made++
				effects[pawl.IdempotencyKey(ctx)] = i
				return i, nil
			})
			for _, i := range out {
				w.N += i
			}
			return w, err
		}, pawl.Options{})
		for n := 1; n < 12; n++ {
			effects, made = map[string]int{}, 0
			r := pawltest.Run(t, g, 0, pawltest.Script{Open: fresh, Crash: []int{n}})
			ended(t, r, pawl.StatusSucceeded, "END")
			if len(effects) != 8 || made > 16 || r.Output.N != 28 || len(rows(r, "node")) != 1 {
				t.Errorf("crash behind write %d: %d keys, made %d times, output %+v", n, len(effects), made, r.Output)
			}
		}
	})
}

// TestCase12OneInterruptOneAnswer: "yes", then "no" with the same id, and twenty at once.
func TestCase12OneInterruptOneAnswer(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		open.virtual(t, func(r *rig) {
			run, q := r.waiting()
			won := atomic.Int64{}
			won.Store(-1)
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					err := r.rs.Answer(r.ctx, run.ID, q, json.RawMessage(fmt.Sprint(i)))
					switch {
					case err == nil && !won.CompareAndSwap(-1, int64(i)):
						t.Errorf("%d and %d won", won.Load(), i)
					case err != nil:
						named(t, pawl.Coded(err), pawl.CodeConflict)
					}
				})
			}
			wg.Wait()
			if err := r.rs.Answer(r.ctx, run.ID, q, json.RawMessage(fmt.Sprint(won.Load()))); err != nil {
				t.Errorf("the same again: %v", err)
			}
			named(t, pawl.Coded(r.rs.Answer(r.ctx, run.ID, q, json.RawMessage("77"))), pawl.CodeConflict, fmt.Sprint(won.Load()))
			if run = r.later(run); run.Status != pawl.StatusSucceeded || output(t, run).N != 11+int(won.Load()) {
				t.Errorf("run %+v, %d won", run, won.Load())
			}
		}, build(t, poll("1", "ask", 1)))
	})
}

// TestCase13AnAnswerIsNotLostWhenWhatFollowsFails: the tool runs once, and the client's repetition is no error.
func TestCase13AnAnswerIsNotLostWhenWhatFollowsFails(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		made := &tally{}
		g := one(func(ctx context.Context, w work) (work, error) {
			ok, err := pawl.Ask[bool](ctx, "approve", pawl.Question{Text: "Delete it?"})
			if err != nil || !ok {
				return w, err
			}
			if _, err := do(ctx, "tool", made); err != nil {
				return w, err
			}
			_, err = pawl.Do(ctx, "model", func(context.Context) (int, error) {
				if made.add("model") == 1 {
					return 0, errTransient()
				}
				return 1, nil
			})
			return w.line("done"), err
		}, pawl.Options{Retry: pawl.Retry{Max: 1, First: 10 * time.Minute}})
		open.virtual(t, func(r *rig) {
			defer r.worker(r.engine(r.store, engine.Config{}))()
			run := r.becomes(r.start("one", 1).ID, pawl.StatusWaiting)
			q := run.Waits[0].Question
			for range 3 { // before, between and after the failure
				if err := r.rs.Answer(r.ctx, run.ID, q, json.RawMessage("true")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
			}
			if made.of("tool") != 1 || made.of("model") != 1 {
				t.Errorf("made %v", made.n)
			}
			end := r.untilEnd(run.ID, 20*time.Minute)
			if end.Status != pawl.StatusSucceeded || made.of("tool") != 1 || made.of("model") != 2 {
				t.Errorf("run %+v, made %v", end, made.n)
			}
		}, build(t, g))
	})
}

func TestCase13AllOpenInterruptsAreListed(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		g := one(func(ctx context.Context, w work) (work, error) {
			var wg sync.WaitGroup
			var errs [3]error
			for i := range errs {
				wg.Go(func() { errs[i] = second(pawl.Ask[bool](ctx, fmt.Sprint("tool ", i), pawl.Question{Text: "May I?"})) })
			}
			wg.Wait()
			return w, errors.Join(errs[:]...)
		}, pawl.Options{})
		open.virtual(t, func(r *rig) {
			defer r.worker(r.engine(r.store, engine.Config{}))()
			run := r.becomes(r.start("one", 1).ID, pawl.StatusWaiting)
			for left := 3; left > 0; left-- {
				qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{Run: run.ID}, "", 0)
				if err != nil || len(qs) != left {
					t.Fatalf("%d are left, listed %+v, %v", left, qs, err)
				}
				if err := r.rs.Answer(r.ctx, run.ID, qs[left/2].ID, json.RawMessage("true")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
			}
			r.ends(run.ID, pawl.StatusSucceeded)
		}, build(t, g))
	})
}

// TestCase15AStepLongerThanTheLeaseRunsOnce while its lease is renewed.
func TestCase15AStepLongerThanTheLeaseRunsOnce(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		n := &tally{}
		g := one(func(_ context.Context, w work) (work, error) {
			n.add("execution")
			time.Sleep(200 * time.Second)
			return w, nil
		}, pawl.Options{})
		open.virtual(t, func(r *rig) {
			for range 3 {
				defer r.worker(r.engine(r.store, short()))()
			}
			end := r.untilEnd(r.start("one", 1).ID, time.Hour)
			if end.Status != pawl.StatusSucceeded || n.of("execution") != 1 {
				t.Errorf("run %+v, %d executions", end, n.of("execution"))
			}
		}, build(t, g))
	})
}

// TestCase15AStepThatOverrunsEndsAsStepTimeout and not in another silent run, also where it ignores cancellation.
func TestCase15AStepThatOverrunsEndsAsStepTimeout(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		fresh := open(t)
		mails := &tally{}
		g := one(func(_ context.Context, w work) (work, error) {
			mails.add("begun")
			time.Sleep(time.Hour)
			return work{N: 99}, nil
		}, pawl.Options{Timeout: 12 * time.Second}, pawl.NodeOptions{Retry: pawl.Retry{Max: 2, First: time.Second}})
		r := pawltest.Run(t, g, 1, pawltest.Script{Open: fresh, Engine: short()})
		failed(t, r, pawl.CodeStepTimeout, "node", "12s")
		if mails.of("begun") != 3 || strings.Contains(strings.Join(r.Path(), " "), "END") || len(rows(r, "retry")) != 2 {
			t.Errorf("%d executions, %d retries", mails.of("begun"), len(rows(r, "retry")))
		}
	})
}

// TestCase16NoRunIsRunTwice: 500 starts beside three workers that look for work all the time.
func TestCase16NoRunIsRunTwice(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		n := &tally{}
		g := one(func(ctx context.Context, w work) (work, error) {
			n.add(pawl.Info(ctx).Run)
			return w, nil
		}, pawl.Options{})
		open.virtual(t, func(r *rig) {
			for range 3 {
				defer r.worker(r.engine(r.store, engine.Config{Poll: 10 * time.Millisecond}))()
			}
			var wg sync.WaitGroup
			ids := make([]string, 500)
			for i := range ids {
				wg.Go(func() { ids[i] = r.start("one", i).ID })
			}
			wg.Wait()
			for _, id := range ids {
				r.ends(id, pawl.StatusSucceeded)
				if n.of(id) != 1 || r.steps(id, "node") != 1 {
					t.Errorf("run %s: %d executions, %d steps", id, n.of(id), r.steps(id, "node"))
				}
			}
		}, build(t, g))
	})
}

// TestCase16OneMessageOneEnd: two workers recover a waiting run when its message comes.
func TestCase16OneMessageOneEnd(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		open.virtual(t, func(r *rig) {
			for i := range 20 {
				run, q := r.waiting()
				stop1, stop2 := r.worker(r.engine(r.store, engine.Config{})), r.worker(r.engine(r.store, engine.Config{}))
				if err := r.rs.Answer(r.ctx, run.ID, q, json.RawMessage(fmt.Sprint(i))); err != nil {
					t.Fatal(err)
				}
				end := r.ends(run.ID, pawl.StatusSucceeded)
				if ev := r.events(run.ID); ev["pawl.ended"] != 1 || output(t, end).N != 11+i {
					t.Errorf("events %v, output %s", ev, end.Output)
				}
				stop1()
				stop2()
			}
		}, build(t, poll("1", "ask", 1)))
	})
}

// TestCase21NULInText goes through unchanged everywhere, and what is no UTF-8 is refused with a clear error.
func TestCase21NULInText(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		fresh := open(t)
		for _, text := range []string{"what's the \x00 weather", `literal \u0000`, `\\u0000`, "\x00", "\u2028\u2029<>&", "\ufffd"} {
			g := one(func(ctx context.Context, w work) (work, error) {
				s, err := pawl.Do(ctx, "k"+text, func(context.Context) (map[string]string, error) { return map[string]string{text: text}, nil }, pawl.CallOptions{For: text})
				if err != nil || s[text] != text {
					t.Errorf("%q: result %q, %v", text, s, err)
				}
				if err := pawl.Emit(ctx, "text", text); err != nil {
					return w, err
				}
				a, err := pawl.Ask[string](ctx, "q", pawl.Question{Text: text})
				w.Text = a
				return w, err
			}, pawl.Options{})
			r := pawltest.Run(t, g, 1, pawltest.Script{Open: fresh, Answers: map[string][]any{"q": {text}}})
			ended(t, r, pawl.StatusSucceeded, "END")
			var emitted string
			if err := json.Unmarshal([]byte(r.Emitted("text")[0]), &emitted); err != nil || emitted != text || r.Output.Text != text || r.Questions[0].Text != text {
				t.Errorf("%q: output %q, event %q, question %q", text, r.Output.Text, emitted, r.Questions[0].Text)
			}
		}
		const bad = "invalid \xff\xfe"
		for name, run := range map[string]body{
			"state": func(_ context.Context, w work) (work, error) { return w.line(bad), nil },
			"result": func(ctx context.Context, w work) (work, error) {
				return w, second(pawl.Do(ctx, "k", func(context.Context) (string, error) { return bad, nil }))
			},
			"event": func(ctx context.Context, w work) (work, error) { return w, pawl.Emit(ctx, "e", bad) },
			"note":  func(ctx context.Context, w work) (work, error) { return w, pawl.Note(ctx, "n", bad) },
		} {
			r := pawltest.Run(t, one(run, pawl.Options{}), 1, pawltest.Script{Open: fresh})
			failed(t, r, pawl.CodeInvalid, "UTF-8")
			if name == "state" {
				named(t, r.Run.Err, pawl.CodeInvalid, "Log", "node")
			}
		}
		r := pawltest.Run(t, one(func(_ context.Context, w work) (work, error) { return w, errors.New(bad) }, pawl.Options{}), 1, pawltest.Script{Open: fresh})
		failed(t, r, pawl.CodeInternal, "invalid") // an error is told all the same
	})
}

// TestCase22DoubleSubmit: fifty at once to two processes are one run and one bill.
func TestCase22DoubleSubmit(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		n := &tally{}
		g := one(func(ctx context.Context, w work) (work, error) { _, err := do(ctx, "bill", n); return w, err }, pawl.Options{})
		open.virtual(t, func(r *rig) {
			engines := []*engine.Engine{r.engine(r.store, engine.Config{}), r.engine(r.store, engine.Config{})}
			for _, e := range engines {
				defer r.worker(e)()
			}
			var wg sync.WaitGroup
			ids := make([]string, 50)
			for i := range ids {
				wg.Go(func() {
					s, err := engines[i%2].As(pawl.Caller{User: "ann"}).Start(r.ctx, "one", json.RawMessage("1"), pawl.StartOptions{Key: "k"})
					if err != nil {
						t.Error(err)
					}
					ids[i] = s.Run.ID
				})
			}
			wg.Wait()
			end := r.ends(ids[0], pawl.StatusSucceeded)
			for _, id := range ids {
				if id != ids[0] {
					t.Errorf("runs %s and %s", id, ids[0])
				}
			}
			s, err := r.rs.Start(r.ctx, "one", json.RawMessage("1"), pawl.StartOptions{Key: "k"})
			if err != nil || s.Existing != pawl.ExistingDone || string(s.Run.Output) != string(end.Output) || n.of("bill") != 1 {
				t.Errorf("%+v, %v, billed %d times", s, err, n.of("bill"))
			}
			_, err = r.rs.Start(r.ctx, "one", json.RawMessage("2"), pawl.StartOptions{Key: "k"})
			named(t, pawl.Coded(err), pawl.CodeConflict, "k", ids[0])
			all, err := r.store.List(r.ctx, store.Scope{All: true}, store.Filter{}, store.Page{})
			if err != nil || len(all) != 1 || strings.Count(all[0].ID, "-") != 4 {
				t.Errorf("%d runs, %v", len(all), err)
			}
		}, build(t, g))
	})
}
