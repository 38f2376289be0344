package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
)

// sleeper is a child that sleeps its input in minutes and gives it back; below zero it fails.
func sleeper(run body) *graph {
	g := blank("sleeper", pawl.Options{})
	a := g.Node("sleep", run)
	g.Start(a, func(n int) (work, error) {
		if n == 666 {
			return work{}, errors.New("the start function refuses 666")
		}
		return begin(n)
	})
	g.From(a).Otherwise(g.Succeed("END"))
	return g
}

func sleeps(ctx context.Context, w work) (work, error) {
	n := w.N
	if n < 0 {
		n = -n
	}
	if err := pawl.Sleep(ctx, "s", time.Duration(n)*time.Minute); err != nil {
		return w, err
	}
	if w.N < 0 {
		return w, &pawl.Error{Code: "below", Text: fmt.Sprint(w.N, " is below zero")}
	}
	return w, nil
}

// fan runs a child for each item and writes results in a line.
func fan(child *graph, items []int, limit int, collect bool, o ...pawl.NodeOptions) *graph {
	g := blank("fan", pawl.Options{})
	a := pawl.Each(g, "each", child, pawl.Fan[work, int, work]{
		Items: func(work) ([]int, error) { return items, nil },
		Limit: limit, Collect: collect,
		Join: func(w work, rs []pawl.Result[work]) (work, error) {
			for _, r := range rs {
				if r.Err != nil {
					w = w.line("error " + r.Err.Error())
				} else {
					w = w.line(fmt.Sprint(r.Output.N))
				}
			}
			return w, nil
		},
	}, o...)
	g.Start(a, begin)
	g.From(a).Otherwise(g.Succeed("END"))
	return g
}

func statuses(rs []pawl.Run) map[pawl.Status]int {
	n := map[pawl.Status]int{}
	for _, r := range rs {
		n[r.Status]++
	}
	return n
}

func TestEachGivesResultsInItemOrder(t *testing.T) {
	r := pawltest.EveryCrash(t, fan(sleeper(sleeps), []int{3, 1, 2}, 0, false), 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	if got := strings.Join(r.Output.Log, " "); got != "3 1 2" || r.Took < 3*time.Minute || r.Took > 4*time.Minute {
		t.Errorf("results %s, took %s", got, r.Took)
	}
	r = pawltest.Run(t, fan(sleeper(sleeps), nil, 0, false), 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	if len(r.Children) != 0 {
		t.Errorf("no items, children %v", r.Children)
	}
}

func TestEachOfTwoHundredWithLimitEight(t *testing.T) {
	under, most := &tally{}, 0
	child := sleeper(func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "k", func(context.Context) (int, error) {
			under.mu.Lock()
			if under.n == nil {
				under.n = map[string]int{}
			}
			under.n["now"]++
			most = max(most, under.n["now"])
			under.mu.Unlock()
			time.Sleep(time.Minute)
			under.mu.Lock()
			under.n["now"]--
			under.mu.Unlock()
			return 1, nil
		})
		return w, err
	})
	items := make([]int, 200)
	for i := range items {
		items[i] = i
	}
	r := pawltest.Run(t, fan(child, items, 8, false), 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	for i, s := range r.Output.Log {
		if s != fmt.Sprint(i) {
			t.Fatalf("result %d is %s", i, s)
		}
	}
	if most != 8 || len(r.Children) != 200 || len(r.Output.Log) != 200 || r.Took < 25*time.Minute || r.Took > 27*time.Minute {
		t.Errorf("%d at once, %d children, took %s", most, len(r.Children), r.Took)
	}
	// A crash in the middle makes no child twice.
	most, under.n = 0, nil
	again := pawltest.Run(t, fan(child, items, 8, false), 1, pawltest.Script{Crash: []int{300, 200}})
	ended(t, again, pawl.StatusSucceeded, "END")
	if len(again.Children) != 200 || strings.Join(again.Output.Log, " ") != strings.Join(r.Output.Log, " ") || len(again.Writes) != 3 {
		t.Errorf("%d children, workers %v", len(again.Children), again.Writes)
	}
}

func TestEachFailFastCancelsTheOthers(t *testing.T) {
	for _, limit := range []int{0, 2} {
		r := pawltest.EveryCrash(t, fan(sleeper(sleeps), []int{60, -1, 60, 60}, limit, false), 1, pawltest.Script{})
		failed(t, r, "below", "sleeper", "-1 is below zero")
		n := statuses(r.Children)
		if n[pawl.StatusFailed] != 1 || n[pawl.StatusSucceeded] != 0 || r.Took > 2*time.Minute {
			t.Errorf("limit %d: children %v, took %s", limit, n, r.Took)
		}
		var re *pawl.RunError
		if !errors.As(r.Run.Err, &re) || re.Status != pawl.StatusFailed || re.Code != "below" || re.Run == "" {
			t.Errorf("error %#v", r.Run.Err.Err)
		}
	}
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.ends(r.start("fan", 1).ID, pawl.StatusFailed)
		time.Sleep(time.Minute)
		rs, err := r.rs.List(r.ctx, pawl.RunFilter{Parent: run.ID}, "", 0)
		if n := statuses(rs); err != nil || n[pawl.StatusCancelled] != 3 || n[pawl.StatusFailed] != 1 {
			t.Errorf("children %v, %v", n, err)
		}
	}, build(t, fan(sleeper(sleeps), []int{60, -1, 60, 60}, 0, false)))
}

func TestEachCollects(t *testing.T) {
	r := pawltest.EveryCrash(t, fan(sleeper(sleeps), []int{2, -1, 666, 1}, 2, true), 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	if len(r.Output.Log) != 4 || r.Output.Log[0] != "2" || !strings.Contains(r.Output.Log[1], "-1 is below zero") ||
		!strings.Contains(r.Output.Log[2], "refuses 666") || r.Output.Log[3] != "1" {
		t.Errorf("results %q", r.Output.Log)
	}
	if len(r.Children) != 3 {
		t.Errorf("%d children: what its start function refuses never exists", len(r.Children))
	}
}

// flaky is a child that fails in its first attempts, so often as its input says.
func flaky() *graph {
	return sleeper(func(ctx context.Context, w work) (work, error) {
		if a := pawl.Info(ctx).Attempt; a <= w.N {
			return w, fmt.Errorf("attempt %d", a)
		}
		return w.line(fmt.Sprint("attempt ", pawl.Info(ctx).Attempt)), nil
	})
}

func TestARetryOfTheNodeIsTheChildsNextAttempt(t *testing.T) {
	g := blank("parent", pawl.Options{})
	a := pawl.Sub(g, "sub", flaky(), func(w work) (int, error) { return w.N, nil },
		func(w, out work) (work, error) { return w.line(out.Log[0]), nil }, pawl.NodeOptions{Retry: pawl.Retry{Max: 2, First: time.Minute}})
	g.Start(a, begin)
	g.From(a).Otherwise(g.Succeed("END"))
	r := pawltest.EveryCrash(t, g, 2, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	if len(r.Children) != 1 || r.Children[0].Attempt != 3 || r.Output.Log[0] != "attempt 3" {
		t.Errorf("children %+v, log %v", r.Children, r.Output.Log)
	}
	r = pawltest.Run(t, g, 3, pawltest.Script{})
	failed(t, r, pawl.CodeInternal, "attempt 3")
	// In an Each only what failed is tried again.
	r = pawltest.Run(t, fan(flaky(), []int{0, 1, 0, 1}, 1, false, pawl.NodeOptions{Retry: pawl.Retry{Max: 2}}), 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	attempts := 0
	for _, c := range r.Children {
		attempts += c.Attempt
	}
	if attempts != 6 || len(r.Children) != 4 {
		t.Errorf("%d attempts of %d children", attempts, len(r.Children))
	}
}

// TestChildrenThatWereStartedAgainAreCancelledToo when their parent's node is over.
func TestChildrenThatWereStartedAgainAreCancelledToo(t *testing.T) {
	again := sleeper(func(ctx context.Context, w work) (work, error) {
		switch {
		case w.N == 1 && pawl.Info(ctx).Attempt == 1:
			return w, errTransient()
		case w.N == 1:
			return w, pawl.Sleep(ctx, "long", 100*time.Hour)
		}
		if err := pawl.Sleep(ctx, "short", time.Hour); err != nil {
			return w, err
		}
		return w, errTransient()
	})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.start("fan", 1)
		end := r.untilEnd(run.ID, 3*time.Hour)
		time.Sleep(time.Minute)
		rs, err := r.rs.List(r.ctx, pawl.RunFilter{Parent: run.ID}, "", 0)
		if n := statuses(rs); err != nil || end.Status != pawl.StatusFailed || n[pawl.StatusCancelled] != 1 || n[pawl.StatusFailed] != 1 {
			t.Errorf("the parent %s, children %v, %v", end.Status, n, err)
		}
	}, build(t, fan(again, []int{1, 2}, 0, false, pawl.NodeOptions{Retry: pawl.Retry{Max: 1}})))
}

func TestCallInANode(t *testing.T) {
	child := leaf()
	g := one(func(ctx context.Context, w work) (work, error) {
		for i := range 3 {
			out, err := pawl.Call(ctx, fmt.Sprint("call ", i), child, w.N)
			if err != nil {
				return w, err
			}
			w.N = out.N
		}
		return w, nil
	}, pawl.Options{})
	r := pawltest.EveryCrash(t, g, 1, pawltest.Script{Also: []*pawl.Workflow{build(t, child)}})
	ended(t, r, pawl.StatusSucceeded, "END")
	if r.Output.N != 8 || len(r.Children) != 3 {
		t.Errorf("output %+v, %d children", r.Output, len(r.Children))
	}
	r = pawltest.Run(t, g, 1, pawltest.Script{})
	failed(t, r, pawl.CodeInvalid, "leaf@1", "not registered")
}

// TestEnqueueStartsIfAndOnlyIfTheNodeCommits.
func TestEnqueueStartsIfAndOnlyIfTheNodeCommits(t *testing.T) {
	bg := leaf()
	for name, c := range map[string]struct {
		err  func(try int) error
		park bool
		want int
	}{
		"commits":         {func(int) error { return nil }, false, 1},
		"fails":           {func(int) error { return pawl.Permanent(errTransient()) }, false, 0},
		"is tried again":  {func(try int) error { return map[bool]error{true: errTransient()}[try == 1] }, false, 1},
		"parks meanwhile": {func(int) error { return nil }, true, 1},
	} {
		g := one(func(ctx context.Context, w work) (work, error) {
			if _, err := pawl.Enqueue(ctx, "bg", bg, 1); err != nil {
				return w, err
			}
			if c.park {
				if err := pawl.Sleep(ctx, "s", time.Hour); err != nil {
					return w, err
				}
			}
			return w, c.err(pawl.Info(ctx).Try)
		}, pawl.Options{Retry: pawl.Retry{Max: 1}})
		virtual(t, func(r *rig) {
			defer r.worker(r.engine(r.store, engine.Config{}))()
			id := r.start("one", 1).ID
			if c.park {
				time.Sleep(time.Minute)
				if rs, _ := r.rs.List(r.ctx, pawl.RunFilter{Workflow: "leaf"}, "", 0); len(rs) != 0 {
					t.Errorf("%s: started before the commit: %+v", name, rs)
				}
			}
			r.untilEnd(id, 2*time.Hour)
			time.Sleep(time.Minute)
			rs, err := r.rs.List(r.ctx, pawl.RunFilter{Workflow: "leaf"}, "", 0)
			if err != nil || len(rs) != c.want || c.want == 1 && rs[0].Status != pawl.StatusSucceeded {
				t.Errorf("%s: background runs %+v, %v", name, rs, err)
			}
		}, build(t, g), build(t, bg))
	}
}

func TestEnqueueWithAKeyFindsItsOwner(t *testing.T) {
	bg := leaf()
	g := one(func(ctx context.Context, w work) (work, error) {
		id, err := pawl.Enqueue(ctx, "bg", bg, 1, pawl.StartOptions{Key: "the only one"})
		w.Text = id
		return w, err
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		var ids []string
		for range 5 {
			ids = append(ids, r.start("one", 1).ID)
		}
		owners := map[string]int{}
		for _, id := range ids {
			owners[output(t, r.ends(id, pawl.StatusSucceeded)).Text]++
		}
		rs, err := r.rs.List(r.ctx, pawl.RunFilter{Workflow: "leaf"}, "", 0)
		if err != nil || len(rs) != 1 || owners[rs[0].ID] != 5 {
			t.Errorf("owners %v, runs %+v, %v", owners, rs, err)
		}
	}, build(t, g), build(t, bg))
}

// keyed looks at something, binds its key by what it saw, and then works on it for an hour; only in the attempt that the
// input says does it succeed.
func keyed(works *tally) *graph {
	g := blank("keyed", pawl.Options{})
	look := g.Node("look", func(_ context.Context, w work) (work, error) { w.Text = fmt.Sprint("content ", w.N/10); return w, nil })
	do := g.Node("work", func(ctx context.Context, w work) (work, error) {
		works.add(w.Text)
		if err := pawl.Sleep(ctx, "s", time.Hour); err != nil {
			return w, err
		}
		if pawl.Info(ctx).Attempt < w.N%10 {
			return w, errTransient()
		}
		return w.line("worked"), nil
	})
	g.Start(look, begin)
	g.Key(look, func(w work) string { return w.Text })
	g.From(look).Otherwise(do)
	g.From(do).Otherwise(g.Succeed("END"))
	return g
}

func TestMergeIntoARunningOwner(t *testing.T) {
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		owner := r.start("keyed", 11)
		time.Sleep(time.Minute)
		other := r.ends(r.start("keyed", 12).ID, pawl.StatusMerged)
		if other.MergedInto != owner.ID {
			t.Fatalf("merged into %q", other.MergedInto)
		}
		if es := r.events(other.ID); es["pawl.ended"] != 1 { // follows, to the end
			t.Errorf("events %v", es)
		}
		end := r.get(owner.ID)
		if end.Status != pawl.StatusSucceeded || end.Key != "content 1" {
			t.Errorf("owner %+v", end)
		}
		late := r.ends(r.start("keyed", 13).ID, pawl.StatusMerged) // into one that succeeded
		if again := r.get(owner.ID); late.MergedInto != owner.ID || again.Attempt != 1 || again.Steps != end.Steps {
			t.Errorf("late %+v, owner %+v", late, again)
		}
	}, build(t, keyed(&tally{})))
}

func TestMergeStartsAFailedOwnerAgain(t *testing.T) {
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		owner := r.start("keyed", 12) // fails in its first attempt
		r.untilEnd(owner.ID, 2*time.Hour)
		other := r.ends(r.start("keyed", 11).ID, pawl.StatusMerged)
		run := r.get(owner.ID)
		if other.MergedInto != owner.ID || run.Attempt != 2 || run.Status.Ended() {
			t.Fatalf("other %+v, owner %+v", other, run)
		}
		if run = r.untilEnd(owner.ID, 2*time.Hour); run.Status != pawl.StatusSucceeded || run.Key != "content 1" {
			t.Errorf("owner %+v", run)
		}
	}, build(t, keyed(&tally{})))
}

// TestWhoWaitsForAMergedChildGetsTheOwnersResult whether the owner runs, has succeeded or has failed.
func TestWhoWaitsForAMergedChildGetsTheOwnersResult(t *testing.T) {
	works := &tally{}
	child := keyed(works)
	parent := one(func(ctx context.Context, w work) (work, error) {
		out, err := pawl.Call(ctx, "child", child, w.N)
		return w.line(strings.Join(out.Log, " ")), err
	}, pawl.Options{})
	for name, c := range map[string]struct {
		first int
		wait  time.Duration
	}{"runs": {11, time.Minute}, "has succeeded": {11, 2 * time.Hour}, "has failed": {12, 2 * time.Hour}} {
		virtual(t, func(r *rig) {
			defer r.worker(r.engine(r.store, engine.Config{}))()
			owner := r.start("keyed", c.first)
			time.Sleep(c.wait)
			run := r.untilEnd(r.start("one", 11).ID, 3*time.Hour)
			if run.Status != pawl.StatusSucceeded || output(t, run).Log[0] != "worked" {
				t.Errorf("%s: %+v, %v", name, run, run.Err)
			}
			rs, err := r.rs.List(r.ctx, pawl.RunFilter{Parent: run.ID}, "", 0)
			if err != nil || len(rs) != 1 || rs[0].MergedInto != owner.ID {
				t.Errorf("%s: children %+v, %v", name, rs, err)
			}
		}, build(t, child), build(t, parent))
	}
}

func TestAnswerAndCancelFollowAMerge(t *testing.T) {
	g := blank("asks", pawl.Options{})
	a := g.Node("look", func(_ context.Context, w work) (work, error) { return w, nil })
	b := g.Node("ask", func(ctx context.Context, w work) (work, error) {
		n, err := pawl.Ask[int](ctx, "q", pawl.Question{})
		w.N = n
		return w, err
	})
	g.Start(a, begin)
	g.Key(a, func(w work) string { return fmt.Sprint(w.N) })
	g.From(a).Otherwise(b)
	g.From(b).Otherwise(g.Succeed("END"))
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		for _, n := range []int{1, 2} {
			owner := r.becomes(r.start("asks", n).ID, pawl.StatusWaiting)
			other := r.ends(r.start("asks", n).ID, pawl.StatusMerged)
			if n == 1 {
				qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{Run: other.ID}, "", 0)
				if err != nil || len(qs) != 1 {
					t.Fatal(qs, err)
				}
				if err := r.rs.Answer(r.ctx, other.ID, qs[0].ID, json.RawMessage("7")); err != nil {
					t.Fatal(err)
				}
				r.ends(owner.ID, pawl.StatusSucceeded)
				continue
			}
			if err := r.rs.Cancel(r.ctx, other.ID, ""); err != nil {
				t.Fatal(err)
			}
			r.ends(owner.ID, pawl.StatusCancelled)
		}
	}, build(t, g))
}
