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
	"pawl/store"
)

// binding is a graph that binds the key that key makes of its input, and then runs second.
func binding(name string, key func(int) string, second body) *graph {
	g := blank(name, pawl.Options{})
	a := g.Node("first", func(_ context.Context, w work) (work, error) { w.Text = key(w.N); return w, nil })
	b := g.Node("second", second)
	g.Start(a, begin)
	g.Key(a, func(w work) string { return w.Text })
	g.From(a).Otherwise(b)
	g.From(b).Otherwise(g.Succeed("END"))
	return g
}

func always(key string) func(int) string { return func(int) string { return key } }

// calls is a parent of one child, whose output is its own.
func calls(child *graph, in int, o ...pawl.NodeOptions) *graph {
	return one(func(ctx context.Context, _ work) (work, error) { return pawl.Call(ctx, "c", child, in) }, pawl.Options{}, o...)
}

// TestARetryOfAMergedChildRestartsTheOwner and takes its result.
func TestARetryOfAMergedChildRestartsTheOwner(t *testing.T) {
	child := binding("bound", always("K"), func(ctx context.Context, w work) (work, error) {
		time.Sleep(10 * time.Second)
		if pawl.Info(ctx).Attempt == 1 {
			return w, errTransient()
		}
		return w.line("worked"), nil
	})
	parent := calls(child, 1, pawl.NodeOptions{Retry: pawl.Retry{Max: 3, First: time.Minute}})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		owner := r.start("bound", 7)
		time.Sleep(2 * time.Second)
		run := r.untilEnd(r.start("one", 1).ID, 2*time.Hour)
		if run.Status != pawl.StatusSucceeded {
			t.Fatalf("the parent is %s: %v", run.Status, run.Err)
		}
		got := r.get(owner.ID)
		if w := output(t, run); w.N != 7 || len(w.Log) != 1 || got.Attempt != 2 || got.Status != pawl.StatusSucceeded {
			t.Errorf("output %+v, owner %+v", w, got)
		}
	}, build(t, child), build(t, parent))
}

// TestAMergeIntoARunThatIsItselfMergedFollowsToItsOwner.
func TestAMergeIntoARunThatIsItselfMergedFollowsToItsOwner(t *testing.T) {
	child := binding("bound", func(n int) string {
		if n == 3 {
			return "A"
		}
		return "B"
	}, func(_ context.Context, w work) (work, error) { return w.line("worked"), nil })
	parent := calls(child, 3)
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		owner := r.ends(r.start("bound", 1).ID, pawl.StatusSucceeded)                            // owns B
		merged := r.ends(r.start("bound", 2, pawl.StartOptions{Key: "A"}).ID, pawl.StatusMerged) // owned A, and is B
		run := r.untilEnd(r.start("one", 1).ID, time.Hour)                                       // its child finds A
		direct := r.until(r.start("bound", 3).ID, "over", func(x pawl.Run) bool { return x.Status.Ended() })
		if run.Status != pawl.StatusSucceeded || output(t, run).N != 1 || merged.MergedInto != owner.ID {
			t.Errorf("the parent is %s: %v, output %s; merged into %s", run.Status, run.Err, run.Output, merged.MergedInto)
		}
		if direct.Status != pawl.StatusMerged || direct.MergedInto != owner.ID {
			t.Errorf("a run of its own: %s, merged into %q, the owner is %s", direct.Status, direct.MergedInto, owner.ID)
		}
		from := map[string]int{}
		for ev, err := range r.rs.Events(r.ctx, direct.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type == "pawl.ended" {
				from[ev.Run]++
			}
		}
		if from[owner.ID] != 1 || from[merged.ID] != 0 {
			t.Errorf("events of the end by run %v", from)
		}
	}, build(t, child), build(t, parent))
}

// TestAChildDoesNotMergeIntoItsAncestor: they would wait for each other.
func TestAChildDoesNotMergeIntoItsAncestor(t *testing.T) {
	for _, deep := range []bool{false, true} {
		var seen error
		var g *graph
		mid := blank("mid", pawl.Options{})
		m := mid.Node("m", func(ctx context.Context, _ work) (work, error) { return pawl.Call(ctx, "c", g, 1) })
		mid.Start(m, begin)
		mid.From(m).Otherwise(mid.Succeed("END"))
		g = binding("bound", always("K"), func(ctx context.Context, w work) (work, error) {
			child := g
			if deep {
				child = mid
			}
			_, err := pawl.Call(ctx, "c", child, 1)
			if !errors.Is(err, pawl.ErrParked) {
				seen = err
			}
			return w, err
		})
		t.Run(fmt.Sprint("deep ", deep), func(t *testing.T) {
			virtual(t, func(r *rig) {
				defer r.worker(r.engine(r.store, engine.Config{}))()
				run := r.untilEnd(r.start("bound", 7).ID, time.Hour)
				named(t, run.Err, pawl.CodeConflict)
				var re *pawl.RunError
				if run.Status != pawl.StatusFailed || !errors.As(seen, &re) || re.Code != pawl.CodeConflict || re.Status != pawl.StatusFailed {
					t.Errorf("the run is %s, its node saw %v", run.Status, seen)
				}
				rs, err := r.rs.List(r.ctx, pawl.RunFilter{Root: run.ID}, "", 0)
				if n := statuses(rs); err != nil || n[pawl.StatusFailed] != len(rs) {
					t.Errorf("runs %v, %v", n, err)
				}
			}, build(t, g), build(t, mid))
		})
	}
}

// TestAKeyOfAnotherUserIsAConflict: nothing of the owner can be seen, and nothing is merged.
func TestAKeyOfAnotherUserIsAConflict(t *testing.T) {
	child := binding("bound", always("K"), func(ctx context.Context, w work) (work, error) {
		return w.line("secret of " + pawl.Info(ctx).User), nil
	})
	parent := calls(child, 1)
	virtual(t, func(r *rig) {
		e := r.engine(r.store, engine.Config{})
		defer r.worker(e)()
		owner := r.ends(r.start("bound", 7).ID, pawl.StatusSucceeded)
		other := *r
		other.rs = e.As(pawl.Caller{User: "mallory"})
		for _, workflow := range []string{"bound", "one"} {
			run := other.until(other.start(workflow, 1).ID, "over", func(x pawl.Run) bool { return x.Status.Ended() })
			if run.Status != pawl.StatusFailed {
				t.Errorf("%s: the run is %s, merged into %q, output %s", workflow, run.Status, run.MergedInto, run.Output)
				continue
			}
			named(t, run.Err, pawl.CodeConflict)
			raw, err := json.Marshal(run)
			if err != nil || strings.Contains(string(raw), "secret") || strings.Contains(string(raw), owner.ID) || run.MergedInto != "" {
				t.Errorf("%s: %s, %v", workflow, raw, err)
			}
			ss, err := other.rs.Steps(r.ctx, run.ID, 0, 0)
			if err != nil || len(ss) == 0 {
				t.Errorf("%s: %d steps of its own run, %v", workflow, len(ss), err)
			}
			for ev, err := range other.rs.Events(r.ctx, run.ID, 0) {
				if err != nil || ev.Run != run.ID || strings.Contains(string(ev.Data), "secret") {
					t.Errorf("%s: event %+v, %v", workflow, ev, err)
				}
			}
		}
	}, build(t, child), build(t, parent))
}

// TestACursorOfAMergedRunsOwnEventsDoesNotSkipTheOwners: a cursor belongs to the run that its event names.
func TestACursorOfAMergedRunsOwnEventsDoesNotSkipTheOwners(t *testing.T) {
	g := blank("bound", pawl.Options{})
	a := g.Node("first", func(ctx context.Context, w work) (work, error) {
		for i := range 20 {
			if w.N == 2 {
				if err := pawl.Emit(ctx, "mine", i); err != nil {
					return w, err
				}
			}
		}
		return w, pawl.Emit(ctx, "first", w.N)
	})
	b := g.Node("second", func(ctx context.Context, w work) (work, error) { return w, pawl.Sleep(ctx, "s", time.Minute) })
	g.Start(a, begin)
	g.Key(a, func(work) string { return "K" })
	g.From(a).Otherwise(b)
	g.From(b).Otherwise(g.Succeed("END"))
	virtual(t, func(r *rig) {
		e := r.engine(r.store, engine.Config{})
		defer r.worker(e)()
		owner := r.start("bound", 1)
		time.Sleep(time.Second)
		run := r.start("bound", 2)
		var last int64
		for ev, err := range e.As(pawl.Caller{User: "ann"}).Events(r.ctx, run.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Run != run.ID {
				break
			}
			last = ev.Seq
		}
		if last < 20 {
			t.Fatalf("the last event of its own is %d", last)
		}
		r.ends(owner.ID, pawl.StatusSucceeded)
		var of []pawl.Logged
		for ev, err := range r.rs.Events(r.ctx, run.ID, last) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Run == owner.ID {
				of = append(of, ev)
			}
		}
		var want []pawl.Logged
		for ev, err := range r.rs.Events(r.ctx, owner.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, ev)
		}
		if len(of) != len(want) || len(of) == 0 || of[0].Seq != 1 || of[len(of)-1].Type != "pawl.ended" {
			t.Errorf("%d events of the owner, want %d: %+v", len(of), len(want), of)
		}
	}, build(t, g))
}

// TestCrosswiseMergesDoNotWaitForEver: where owners come to wait for each other, one is told so; also where none could have seen
// the other's merge yet.
func TestCrosswiseMergesDoNotWaitForEver(t *testing.T) {
	for _, after := range []time.Duration{10 * time.Second, time.Minute} { // one after the other, both at once
		var p, q *graph
		p = binding("p", always("kp"), func(ctx context.Context, w work) (work, error) {
			if err := pawl.Sleep(ctx, "s", after); err != nil {
				return w, err
			}
			return pawl.Call(ctx, "c", q, 1)
		})
		q = binding("q", always("kq"), func(ctx context.Context, w work) (work, error) {
			if err := pawl.Sleep(ctx, "s", time.Minute); err != nil {
				return w, err
			}
			return pawl.Call(ctx, "c", p, 1)
		})
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			virtual(t, func(r *rig) {
				for range 2 { // a commit takes a moment: what is decided meanwhile knows nothing of it
					defer r.worker(r.engine(&hooked{Store: r.store, apply: func(_ []store.Change, do func() error) error {
						time.Sleep(10 * time.Millisecond)
						return do()
					}}, engine.Config{}))()
				}
				a, b := r.start("p", 1), r.start("q", 1)
				for _, id := range []string{a.ID, b.ID} {
					named(t, r.ends(id, pawl.StatusFailed).Err, pawl.CodeConflict, "waits for this one")
				}
			}, build(t, p), build(t, q))
		})
	}
}

// TestAWaiterThatDoesNotWaitAnyMoreMakesNoCircle: a run may wait for one that once waited for it.
func TestAWaiterThatDoesNotWaitAnyMoreMakesNoCircle(t *testing.T) {
	p := blank("p", pawl.Options{})
	q := binding("q", func(n int) string { return fmt.Sprint("kq", n) }, func(ctx context.Context, w work) (work, error) {
		if w.N == 2 {
			return w, pawl.Permanent(errTransient())
		}
		if err := pawl.Sleep(ctx, "s", 2*time.Minute); err != nil {
			return w, err
		}
		return pawl.Call(ctx, "c", p, 1)
	})
	look := p.Node("look", func(_ context.Context, w work) (work, error) { return w, nil })
	each := pawl.Each(p, "each", q, pawl.Fan[work, int, work]{Items: func(work) ([]int, error) { return []int{1, 2}, nil }, Join: all})
	alone := p.Node("alone", func(ctx context.Context, w work) (work, error) {
		return w.line("alone"), pawl.Sleep(ctx, "s", 5*time.Minute)
	})
	p.Start(look, begin)
	p.Key(look, func(work) string { return "kp" })
	p.From(look).Otherwise(each)
	p.From(each).OnError("one has failed", pawl.IsAny, alone).Otherwise(p.Succeed("ALL"))
	p.From(alone).Otherwise(p.Succeed("END"))
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		asks := r.start("q", 1)
		time.Sleep(time.Second)
		owner := r.start("p", 1) // its first child is merged into the run that asks, its second one fails
		end := r.ends(asks.ID, pawl.StatusSucceeded)
		if w := output(t, end); len(w.Log) != 1 || w.Log[0] != "alone" || r.ends(owner.ID, pawl.StatusSucceeded).Terminal != "END" {
			t.Errorf("output %+v", w)
		}
	}, build(t, p), build(t, q))
}

// TestChildrenThatWereMergedIntoOneAreRestartedByOneAttempt: a retry restarts their owner once, and all of them get its result.
func TestChildrenThatWereMergedIntoOneAreRestartedByOneAttempt(t *testing.T) {
	child := binding("bound", always("K"), func(ctx context.Context, w work) (work, error) {
		time.Sleep(10 * time.Second)
		if pawl.Info(ctx).Attempt == 1 {
			return w, errTransient()
		}
		return w, nil
	})
	g := joined(child, []int{1, 2, 3}, 0, true, all, pawl.NodeOptions{Retry: pawl.Retry{Max: 3, First: time.Minute}})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.ends(r.start("joined", 1).ID, pawl.StatusSucceeded)
		cs := r.children(run.ID)
		attempts := 0
		for _, c := range cs {
			attempts += c.Attempt
		}
		if w := output(t, run); len(w.Log) != 3 || w.Log[0] != w.Log[1] || w.Log[1] != w.Log[2] || statuses(cs)[pawl.StatusMerged] != 2 || attempts != 4 {
			t.Errorf("output %+v, children %v, %d attempts", w, statuses(cs), attempts)
		}
	}, build(t, g))
}

// TestAStartWithTheKeyOfAMergedRunFindsTheOwner: its end is the end of what was asked for.
func TestAStartWithTheKeyOfAMergedRunFindsTheOwner(t *testing.T) {
	g := binding("bound", always("B"), func(ctx context.Context, w work) (work, error) {
		if w.Text = "worked"; pawl.Info(ctx).Attempt == 1 {
			return w, pawl.Sleep(ctx, "s", time.Minute)
		}
		return w, nil
	})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		owner := r.start("bound", 1)
		time.Sleep(time.Second)
		merged := r.ends(r.start("bound", 2, pawl.StartOptions{Key: "A"}).ID, pawl.StatusMerged)
		for _, want := range []string{pawl.ExistingRunning, pawl.ExistingDone} {
			s, err := r.rs.Start(r.ctx, "bound", json.RawMessage("2"), pawl.StartOptions{Key: "A"})
			if err != nil || s.Existing != want || s.Run.ID != owner.ID || s.Run.ID == merged.ID || want == pawl.ExistingDone && output(t, s.Run).Text != "worked" {
				t.Errorf("existing %q, run %s, output %s, %v", s.Existing, s.Run.ID, s.Run.Output, err)
			}
			r.ends(owner.ID, pawl.StatusSucceeded)
		}
	}, build(t, g))
}

// TestARetryOfAMergedChildWhoseOwnerHasExpired fails with that: there is nothing to be restarted, and the child's id is taken.
func TestARetryOfAMergedChildWhoseOwnerHasExpired(t *testing.T) {
	fails := func(version string, keep time.Duration) *graph {
		g := blank("bound", pawl.Options{Version: version, Retain: keep})
		a := g.Node("first", func(_ context.Context, w work) (work, error) { return w, nil })
		b := g.Node("second", func(_ context.Context, w work) (work, error) { time.Sleep(10 * time.Second); return w, errTransient() })
		g.Start(a, begin)
		g.Key(a, func(work) string { return "K" })
		g.From(a).Otherwise(b)
		g.From(b).Otherwise(g.Succeed("END"))
		return g
	}
	child := fails("2", 0)
	parent := calls(child, 1, pawl.NodeOptions{Retry: pawl.Retry{Max: 1, First: time.Hour}})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		s, err := r.rs.Start(r.ctx, "bound@1", json.RawMessage("1"), pawl.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		run := r.untilEnd(r.start("one", 1).ID, 3*time.Hour)
		named(t, run.Err, pawl.CodeNotFound, s.Run.ID, "has expired")
	}, build(t, fails("1", time.Minute)), build(t, child), build(t, parent))
}

// TestAKeyOfARunThatWasMergedIntoAnExpiredOneIsAConflict: nobody is left to be merged into, and no other execution would find
// anybody.
func TestAKeyOfARunThatWasMergedIntoAnExpiredOneIsAConflict(t *testing.T) {
	bound := func(version string, keep time.Duration) *graph {
		g := blank("bound", pawl.Options{Version: version, Retain: keep})
		a := g.Node("node", func(_ context.Context, w work) (work, error) { return w, nil })
		g.Start(a, begin)
		g.Key(a, func(w work) string { return map[int]string{1: "B", 2: "B", 3: "A"}[w.N] })
		g.From(a).Otherwise(g.Succeed("END"))
		return g
	}
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		owner, err := r.rs.Start(r.ctx, "bound@1", json.RawMessage("1"), pawl.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.ends(owner.Run.ID, pawl.StatusSucceeded)
		merged := r.ends(r.start("bound", 2, pawl.StartOptions{Key: "A"}).ID, pawl.StatusMerged)
		time.Sleep(time.Hour)
		named(t, r.ends(r.start("bound", 3).ID, pawl.StatusFailed).Err, pawl.CodeConflict, merged.ID, "has expired")
	}, build(t, bound("1", time.Minute)), build(t, bound("2", 0)))
}
