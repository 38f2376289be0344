package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
	"pawl/store"
)

// TestLimitsNameNodeAndField: state 8 MiB, a result 4 MiB, an event 256 KiB.
func TestLimitsNameNodeAndField(t *testing.T) {
	big := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name  string
		run   body
		names []string
	}{
		{"state", func(_ context.Context, w work) (work, error) { w.Text = big(engine.MaxState); return w, nil }, []string{"node", "state", "8388608"}},
		{"result", func(ctx context.Context, w work) (work, error) {
			return w, second(pawl.Do(ctx, "fetch", func(context.Context) (string, error) { return big(engine.MaxResult), nil }))
		}, []string{"node", "fetch", "result", "4194304"}},
		{"event", func(ctx context.Context, w work) (work, error) {
			return w, pawl.Emit(ctx, "page", big(engine.MaxEvent))
		},
			[]string{"node", "page", "event", "262144"}},
		{"delta", func(ctx context.Context, w work) (work, error) {
			return w, pawl.Delta(ctx, "token", big(engine.MaxEvent))
		},
			[]string{"node", "token", "262144"}},
		{"note", func(ctx context.Context, w work) (work, error) {
			return w, pawl.Note(ctx, "policy", big(engine.MaxEvent))
		},
			[]string{"node", "policy", "262144"}},
		{"question", func(ctx context.Context, w work) (work, error) {
			return w, second(pawl.Ask[int](ctx, "which", pawl.Question{Data: big(engine.MaxEvent)}))
		}, []string{"which", "262144"}},
	} {
		tries := 0
		g := one(func(ctx context.Context, w work) (work, error) { tries++; return c.run(ctx, w) }, pawl.Options{Retry: pawl.Retry{Max: 2}})
		r := pawltest.Run(t, g, 1, pawltest.Script{})
		failed(t, r, pawl.CodeExhausted, c.names...)
		if tries != 1 || r.Run.Err.Node != "node" {
			t.Errorf("%s: %d tries, error of node %q", c.name, tries, r.Run.Err.Node)
		}
	}
}

func TestWhatIsExactlyAsLargeAsTheLimitGoesThrough(t *testing.T) {
	quoted := func(n int) string { return strings.Repeat("x", n-2) }
	g := two(func(ctx context.Context, w work) (work, error) {
		s, err := pawl.Do(ctx, "fetch", func(context.Context) (string, error) { return quoted(engine.MaxResult), nil })
		w.N = len(s)
		if err != nil {
			return w, err
		}
		return w, pawl.Emit(ctx, "page", quoted(engine.MaxEvent))
	}, func(_ context.Context, w work) (work, error) {
		w.Text = strings.Repeat("x", engine.MaxState-len(`{"N":4194302,"Text":"","Log":null}`))
		return w, nil
	}, pawl.Options{})
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	ended(t, r, pawl.StatusSucceeded, "END")
	if r.Output.N != engine.MaxResult-2 || len(r.State) != engine.MaxState {
		t.Errorf("N %d, state of %d bytes", r.Output.N, len(r.State))
	}
}

// TestALargeResultGoesToABlob: the journal holds a reference, and whoever reads it sees the value.
func TestALargeResultGoesToABlob(t *testing.T) {
	made := &tally{}
	text := strings.Repeat("y", 100_000)
	child := blank("child", pawl.Options{})
	c := child.Node("c", func(_ context.Context, w work) (work, error) { w.Text = text; return w, nil })
	child.Start(c, begin)
	child.From(c).Otherwise(child.Succeed("END"))
	g := one(func(ctx context.Context, w work) (work, error) {
		s, err := pawl.Do(ctx, "fetch", func(context.Context) (string, error) { made.add("fetch"); return text, nil })
		if err != nil || s != text {
			t.Errorf("result of %d bytes, %v", len(s), err)
		}
		if err := pawl.Sleep(ctx, "s", time.Hour); err != nil {
			return w, err
		}
		out, err := pawl.Call(ctx, "child", child, 1)
		if err == nil && out.Text != text {
			t.Errorf("output of the child has %d bytes", len(out.Text))
		}
		w.Text = text // the output is large, too
		return w, err
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		run := r.start("one", 1)
		if err := r.engine(r.store, engine.Config{}).WorkRun(r.ctx, run.ID); err != nil {
			t.Fatal(err)
		}
		end := r.ends(run.ID, pawl.StatusSucceeded)
		if w := output(t, end); w.Text != text || made.of("fetch") != 1 {
			t.Errorf("output of %d bytes, made %d times", len(w.Text), made.of("fetch"))
		}
		all := store.Scope{All: true}
		blobs, err := r.store.Read(r.ctx, all, run.ID, store.Query{Stream: store.Blob})
		if err != nil || len(blobs) == 0 {
			t.Errorf("%d blobs, %v", len(blobs), err)
		}
		calls, err := r.store.Read(r.ctx, all, run.ID, store.Query{Stream: store.Call})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range calls {
			if len(row.Data) > 64<<10 {
				t.Errorf("journal entry %d has %d bytes", row.Seq, len(row.Data))
			}
		}
		at, err := r.store.Get(r.ctx, all, run.ID)
		if err != nil || len(at.Row) > 64<<10 {
			t.Errorf("the row has %d bytes, %v", len(at.Row), err)
		}
		ss, err := r.rs.Steps(r.ctx, run.ID, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		made, err := r.rs.Calls(r.ctx, run.ID, ss[len(ss)-1].Seq)
		if err != nil || len(made) == 0 || made[0].Key != "fetch" || string(made[0].Result) != `"`+text+`"` {
			t.Errorf("calls %.200v, %v", made, err)
		}
	}, build(t, g), build(t, child))
}

func TestNaNInTheStateNamesTheField(t *testing.T) {
	type score struct {
		Good float64
		By   map[string][]struct{ Confidence float64 }
	}
	for name, c := range map[string]struct {
		state score
		names []string
	}{
		"NaN": {score{Good: math.NaN()}, []string{"Good", "NaN"}},
		"Inf": {score{By: map[string][]struct{ Confidence float64 }{"x": {{1}, {math.Inf(1)}}}}, []string{"By", "x", "1", "Confidence", "Inf"}},
	} {
		g := pawl.New[int, score, int]("nan", pawl.Options{Version: "1", Retry: pawl.Retry{Max: 3}})
		tries := 0
		a := g.Node("score", func(context.Context, score) (score, error) { tries++; return c.state, nil })
		g.Start(a, func(int) (score, error) { return score{}, nil })
		g.From(a).Otherwise(g.Succeed("END"))
		g.Finish(func(score, pawl.Ending) (int, error) { return 1, nil })
		r := pawltest.Run(t, g, 1, pawltest.Script{})
		failed(t, r, pawl.CodeInvalid, append(c.names, "score")...)
		if tries != 1 {
			t.Errorf("%s: %d tries", name, tries)
		}
	}
	g := pawl.New[int, work, float64]("nanout", pawl.Options{Version: "1"})
	a := g.Node("a", func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "k", func(context.Context) (float64, error) { return math.NaN(), nil })
		named(t, pawl.Coded(err), pawl.CodeInvalid, "k")
		return w, nil
	})
	g.Start(a, begin)
	g.From(a).Otherwise(g.Succeed("END"))
	g.Finish(func(work, pawl.Ending) (float64, error) { return math.NaN(), nil })
	failed(t, pawltest.Run(t, g, 1, pawltest.Script{}), pawl.CodeInvalid)
}

// TestCallsOfAVisitAreCapped: 10,000 are allowed, and what waits counts too.
func TestCallsOfAVisitAreCapped(t *testing.T) {
	n := 0
	g := one(func(ctx context.Context, w work) (work, error) {
		for i := range pawl.MaxCalls + 1 {
			if _, err := pawl.Do(ctx, fmt.Sprint(i), func(context.Context) (int, error) { n++; return i, nil }); err != nil {
				return w, err
			}
		}
		return w, nil
	}, pawl.Options{Retry: pawl.Retry{Max: 2}})
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	failed(t, r, pawl.CodeExhausted, "node", "10000")
	if n != pawl.MaxCalls {
		t.Errorf("%d calls", n)
	}
}

func TestChildrenAreCappedInDepth(t *testing.T) {
	at, deepest := 0, 0
	g := blank("deep", pawl.Options{})
	a := g.Node("down", func(ctx context.Context, w work) (work, error) {
		at = w.N
		deepest = max(deepest, at)
		_, err := pawl.Call(ctx, "child", g, w.N+1)
		return w, err
	})
	g.Start(a, begin)
	g.From(a).Otherwise(g.Succeed("END"))
	r := pawltest.Run(t, g, 0, pawltest.Script{})
	failed(t, r, pawl.CodeExhausted, "16 deep")
	if deepest != pawl.MaxDepth || len(r.Children) != pawl.MaxDepth {
		t.Errorf("deepest %d, %d children", deepest, len(r.Children))
	}
}

func TestBackgroundRunsAreCappedInGenerations(t *testing.T) {
	g := blank("offspring", pawl.Options{})
	a := g.Node("next", func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Enqueue(ctx, "next", g, w.N+1)
		return w, err
	})
	g.Start(a, begin)
	g.From(a).Otherwise(g.Succeed("END"))
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		r.start("offspring", 0)
		time.Sleep(time.Minute)
		good, bad := 0, 0
		rs, err := r.rs.List(r.ctx, pawl.RunFilter{}, "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range rs {
			switch run.Status {
			case pawl.StatusSucceeded:
				good++
			case pawl.StatusFailed:
				named(t, run.Err, pawl.CodeExhausted, "16 generations")
				bad++
			}
		}
		if good != pawl.MaxGenerations || bad != 1 || len(rs) != good+bad {
			t.Errorf("%d runs, %d good, %d bad", len(rs), good, bad)
		}
	}, build(t, g))
}

func TestItemsOfAnEachAreCapped(t *testing.T) {
	g := blank("many", pawl.Options{})
	a := pawl.Each(g, "each", leaf(), pawl.Fan[work, int, work]{
		Items: func(work) ([]int, error) { return make([]int, pawl.MaxItems+1), nil },
		Join:  func(w work, _ []pawl.Result[work]) (work, error) { return w, nil },
	})
	g.Start(a, begin)
	g.From(a).Otherwise(g.Succeed("END"))
	r := pawltest.Run(t, g, 1, pawltest.Script{})
	failed(t, r, pawl.CodeExhausted, "each", "10001")
	if len(r.Children) != 0 {
		t.Errorf("%d children", len(r.Children))
	}
}

// TestACallThatWasLeftBehindKeepsItsPlaceInALimit beside the one that is made again: never more than Max are under way.
func TestACallThatWasLeftBehindKeepsItsPlaceInALimit(t *testing.T) {
	var now, most atomic.Int64
	g := one(func(ctx context.Context, w work) (work, error) {
		try := pawl.Info(ctx).Try
		return w, second(pawl.Do(ctx, "k", func(context.Context) (int, error) {
			n := now.Add(1)
			defer now.Add(-1)
			most.Store(max(most.Load(), n))
			if try == 1 {
				time.Sleep(time.Minute) // ignores its context
			}
			return 1, nil
		}, pawl.CallOptions{Limit: "api"}))
	}, pawl.Options{Timeout: 10 * time.Second, Retry: pawl.Retry{Max: 1, First: 2 * time.Second}})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{Limits: map[string]engine.Limit{"api": {Max: 1}}}))()
		if r.untilEnd(r.start("one", 1).ID, time.Hour); most.Load() != 1 {
			t.Errorf("%d at once", most.Load())
		}
	}, build(t, g))
}

// TestAChargeInsideACallIsUnderItsLimit: so is a model's, which is charged for each attempt of a chain. A call that is under the
// limit from its beginning has its place already.
func TestAChargeInsideACallIsUnderItsLimit(t *testing.T) {
	var now, most atomic.Int64
	asks := func(o pawl.CallOptions) body {
		return func(ctx context.Context, w work) (work, error) {
			return w, second(pawl.Do(ctx, "k", func(ctx context.Context) (int, error) {
				for range 2 {
					if err := pawl.Charge(ctx, "llm", 1); err != nil {
						return 0, err
					}
					n := now.Add(1)
					most.Store(max(most.Load(), n))
					time.Sleep(time.Second)
					now.Add(-1)
				}
				return 1, nil
			}, o))
		}
	}
	for name, c := range map[string]struct {
		limit  engine.Limit
		call   pawl.CallOptions
		lasts  time.Duration // of three runs at once
		atOnce int64
	}{
		"places":             {engine.Limit{Max: 1}, pawl.CallOptions{}, 6 * time.Second, 1},
		"uses":               {engine.Limit{Every: time.Minute, Burst: 1}, pawl.CallOptions{}, 5 * time.Minute, 1},
		"from its beginning": {engine.Limit{Max: 1}, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}}, 6 * time.Second, 1},
		"another's":          {engine.Limit{Max: 2}, pawl.CallOptions{}, 3 * time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			most.Store(0)
			virtual(t, func(r *rig) {
				defer r.worker(r.engine(r.store, engine.Config{Limits: map[string]engine.Limit{"llm": c.limit}}))()
				began := time.Now()
				var ids []string
				for i := range 3 {
					ids = append(ids, r.start("one", i).ID)
				}
				for _, id := range ids {
					if end := r.untilEnd(id, time.Hour); end.Status != pawl.StatusSucceeded {
						t.Error(end.Status, end.Err)
					}
				}
				if d := time.Since(began); d < c.lasts || d > c.lasts*2 || most.Load() != c.atOnce {
					t.Errorf("%s, %d at once", d, most.Load())
				}
			}, build(t, one(asks(c.call), pawl.Options{})))
		})
	}
}

// TestChargesAtTheSameTimeGiveTheirPlacesBack: all of them, when their call has ended.
func TestChargesAtTheSameTimeGiveTheirPlacesBack(t *testing.T) {
	g := one(func(ctx context.Context, w work) (work, error) {
		return w, second(pawl.Do(ctx, "k", func(ctx context.Context) (int, error) {
			errs := make(chan error, 2)
			for range 2 {
				go func() { errs <- pawl.Charge(ctx, "llm", 1) }()
			}
			return 1, errors.Join(<-errs, <-errs)
		}))
	}, pawl.Options{})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{Limits: map[string]engine.Limit{"llm": {Max: 2}}}))()
		for i := range 3 {
			r.ends(r.start("one", i).ID, pawl.StatusSucceeded)
		}
	}, build(t, g))
}
