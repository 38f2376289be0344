package engine_test

import (
	"context"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
)

// TestWhatChildrenWaitForPeopleIsTakenOffOnce: the half hour that both wait is free, the half hour that one of them works after
// it is not.
func TestWhatChildrenWaitForPeopleIsTakenOffOnce(t *testing.T) {
	child := blank("asks", pawl.Options{})
	a := child.Node("ask", func(ctx context.Context, w work) (work, error) {
		return w, second(pawl.Ask[int](ctx, "q", pawl.Question{}))
	})
	b := child.Node("work", func(ctx context.Context, w work) (work, error) {
		return w, pawl.Sleep(ctx, "s", time.Duration(w.N)*time.Minute)
	})
	child.Start(a, begin)
	child.From(a).Otherwise(b)
	child.From(b).Otherwise(child.Succeed("END"))
	for _, items := range [][]int{{30}, {0, 30}, {30, 0, 0}, {0, 10, 20, 30}} {
		g := blank("joined", pawl.Options{Runtime: time.Hour})
		n := pawl.Each(g, "each", child, pawl.Fan[work, int, work]{Items: func(work) ([]int, error) { return items, nil }, Collect: true, Join: all})
		g.Start(n, begin)
		g.From(n).Otherwise(g.Succeed("END"))
		virtual(t, func(r *rig) {
			defer r.worker(r.engine(r.store, engine.Config{}))()
			run := r.start("joined", 1)
			time.Sleep(30 * time.Minute)
			qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{Run: run.ID}, "", 0)
			if err != nil || len(qs) != len(items) {
				t.Fatal(qs, err)
			}
			for _, q := range qs {
				if err := r.rs.Answer(r.ctx, run.ID, q.ID, []byte("1")); err != nil {
					t.Fatal(err)
				}
			}
			end := r.untilEnd(run.ID, 2*time.Hour)
			if used := time.Duration(end.Meters[0].Used) * time.Millisecond; end.Status != pawl.StatusSucceeded || used < 29*time.Minute || used > 31*time.Minute {
				t.Errorf("items %v: the run is %s, its runtime %s", items, end.Status, used)
			}
		}, build(t, g))
	}
}

// TestRuntimeOfAVisitThatWasGivenBackCounts also where an answer led to it: nobody is waited for while a node runs.
func TestRuntimeOfAVisitThatWasGivenBackCounts(t *testing.T) {
	g := one(func(ctx context.Context, w work) (work, error) {
		if err := second(pawl.Ask[int](ctx, "q", pawl.Question{})); err != nil {
			return w, err
		}
		<-ctx.Done()
		return w, ctx.Err()
	}, pawl.Options{Runtime: time.Minute})
	virtual(t, func(r *rig) {
		e := r.engine(r.store, engine.Config{})
		stop := r.worker(e)
		run := r.becomes(r.start("one", 1).ID, pawl.StatusWaiting)
		time.Sleep(time.Hour)
		if err := r.rs.Answer(r.ctx, run.ID, run.Waits[0].Question, []byte("1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		go func() { time.Sleep(time.Millisecond); e.Abort() }()
		stop()
		if used := r.get(run.ID).Meters[0].Used; used < 35_000 || used > 45_000 {
			t.Errorf("the runtime is %d ms", used)
		}
	}, build(t, g))
}
