package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"pawl"
	"pawl/engine"
)

// spender charges a call a visit and goes round as long as its edge lets it; at 3 it fails.
func spender() *graph {
	g := blank("spender", pawl.Options{Budget: pawl.Budget{"llm": 4}})
	a := g.Node("spend", func(ctx context.Context, w work) (work, error) {
		_, err := pawl.Do(ctx, "call", func(context.Context) (int, error) { return 1, nil }, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}})
		w.N++
		return w, err
	})
	b := g.Node("check", func(_ context.Context, w work) (work, error) {
		if w.N == 3 {
			return w, pawl.Permanent(errTransient())
		}
		return w, nil
	})
	g.Start(a, begin)
	g.From(a).When("again", func(w work) bool { return w.N < 3 }, a).AtMost(3).Otherwise(b)
	g.From(b).Otherwise(g.Succeed("END"))
	return g
}

// I12: whatever is forked, its source stays as it was; the fork has counters and bounds of its own.
func TestAForkHasFreshCountersAndLeavesItsSource(t *testing.T) {
	virtual(t, func(r *rig) {
		stop := r.worker(r.engine(r.store, engine.Config{}))
		defer stop()
		run := r.start("spender", 0, pawl.StartOptions{Key: "K", Labels: map[string]string{"who": "ann"}, Budget: pawl.Budget{"llm": 3}})
		r.ends(run.ID, pawl.StatusFailed)
		before := r.everything(run.ID)
		for step, want := range map[int64]int64{1: 3, 2: 2, 0: 0} { // calls that are still to be made: 0 begins at the node that failed
			fork, err := r.rs.Fork(r.ctx, run.ID, step, nil)
			if err != nil {
				t.Fatal(err)
			}
			if fork.Key != "" || fork.Labels["who"] != "ann" || fork.Attempt != 1 || fork.Parent != "" || fork.Root != fork.ID {
				t.Errorf("step %d: %+v", step, fork)
			}
			fork = r.ends(fork.ID, pawl.StatusFailed)
			for _, m := range fork.Meters {
				if m.Name == "llm" && (m.Used != want || m.Cap != 3) {
					t.Errorf("step %d: the fork has used %d of %d, want %d of 3", step, m.Used, m.Cap, want)
				}
			}
			r.equal(fork.ID)
		}
		fork, err := r.rs.Fork(r.ctx, run.ID, 0, json.RawMessage(`{"N":9,"Text":"","Log":null}`))
		if err != nil {
			t.Fatal(err)
		}
		r.ends(fork.ID, pawl.StatusSucceeded)
		_, err = r.rs.Fork(r.ctx, run.ID, 2, json.RawMessage(`{"N":"nine","Text":"","Log":null}`))
		named(t, pawl.Coded(err), pawl.CodeInvalid, ".N")
		_, err = r.rs.Fork(r.ctx, fork.ID, 0, nil)
		named(t, pawl.Coded(err), pawl.CodeConflict, "END", "it can from step 1")
		for _, step := range []int64{-1, 99} {
			_, err = r.rs.Fork(r.ctx, run.ID, step, nil)
			named(t, pawl.Coded(err), pawl.CodeNotFound, "no step")
		}
		if after := r.everything(run.ID); after != before {
			t.Errorf("the source has changed from\n%s\nto\n%s", before, after)
		}
	}, built(t, spender()))
}

// A fork that bound its source's key would be merged into it, and would begin it again where it had failed.
func TestAForkBindsNoKey(t *testing.T) {
	fails := true
	child := binding("bound", always("K"), func(_ context.Context, w work) (work, error) {
		if fails {
			return w, pawl.Permanent(errTransient())
		}
		return w.line("worked"), nil
	})
	below := binding("below", always("B"), func(_ context.Context, w work) (work, error) { return w, nil })
	parent := calls(below, 1)
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.ends(r.start("bound", 7).ID, pawl.StatusFailed)
		before := r.everything(run.ID)
		fails = false
		fork, err := r.rs.Fork(r.ctx, run.ID, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if fork = r.ends(fork.ID, pawl.StatusSucceeded); fork.Key != "" || fork.MergedInto != "" {
			t.Errorf("%+v", fork)
		}
		if after := r.everything(run.ID); after != before {
			t.Errorf("the source has changed from\n%s\nto\n%s", before, after)
		}
		first := r.ends(r.start("one", 1).ID, pawl.StatusSucceeded)
		again, err := r.rs.Fork(r.ctx, first.ID, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.ends(again.ID, pawl.StatusSucceeded)
		all, err := r.rs.List(r.ctx, pawl.RunFilter{Root: again.ID}, "", 0)
		if err != nil || len(all) != 2 || all[0].MergedInto+all[1].MergedInto != "" {
			t.Errorf("a child of a fork was merged: %+v, %v", all, err)
		}
	}, build(t, child), build(t, below), build(t, parent))
}

// Who sees a run may fork it, and the fork is theirs; who does not, cannot tell that it is there.
func TestAForkBelongsToWhoForks(t *testing.T) {
	virtual(t, func(r *rig) {
		e := r.engine(r.store, engine.Config{})
		ann := pawl.Caller{Tenant: "acme", User: "ann"}
		s, err := e.As(ann).Start(r.ctx, "spender", json.RawMessage("0"), pawl.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		boss := pawl.Caller{Tenant: "acme", User: "bob", Scopes: []string{pawl.ScopeTenant}}
		fork, err := e.As(boss).Fork(r.ctx, s.Run.ID, 1, nil) // of a run that nobody has begun
		if err != nil || fork.User != "bob" || fork.Tenant != "acme" {
			t.Errorf("%+v, %v", fork, err)
		}
		for _, c := range []pawl.Caller{{Tenant: "acme", User: "bob"}, {Tenant: "evil", User: "ann", Scopes: []string{pawl.ScopeTenant}}} {
			_, err := e.As(c).Fork(r.ctx, s.Run.ID, 1, nil)
			named(t, pawl.Coded(err), pawl.CodeNotFound)
			if strings.Contains(err.Error(), "step") {
				t.Errorf("%v", err)
			}
		}
	}, built(t, spender()))
}

// TestARetriedForkBeginsWhereItWasForked: with the state that it was given, not with the input of its source.
func TestARetriedForkBeginsWhereItWasForked(t *testing.T) {
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.start("spender", 0)
		r.ends(run.ID, pawl.StatusFailed)
		fork, err := r.rs.Fork(r.ctx, run.ID, 0, json.RawMessage(`{"N":3,"Text":"edited","Log":null}`))
		if err != nil {
			t.Fatal(err)
		}
		failed := r.ends(fork.ID, pawl.StatusFailed)
		if _, err := r.rs.Retry(r.ctx, fork.ID); err != nil {
			t.Fatal(err)
		}
		r.until(fork.ID, "its second attempt fails", func(run pawl.Run) bool { return run.Attempt == 2 && run.Status == pawl.StatusFailed })
		steps, err := r.rs.Steps(r.ctx, fork.ID, failed.Steps, 1)
		if err != nil || len(steps) != 1 || steps[0].StateAfter != "check" {
			t.Fatalf("%+v, %v", steps, err)
		}
		if s, err := r.rs.State(r.ctx, fork.ID, steps[0].Seq); err != nil || !strings.Contains(string(s), `"edited"`) {
			t.Errorf("%s, %v", s, err)
		}
		r.equal(fork.ID)
	}, build(t, spender()))
}
