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
