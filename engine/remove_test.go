package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// TestARemovalIsAudited: who, what and when can be read after the run is gone, and nothing else can.
func TestARemovalIsAudited(t *testing.T) {
	g := one(func(_ context.Context, w work) (work, error) { return w, nil }, pawl.Options{})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.ends(r.start("one", 1).ID, pawl.StatusSucceeded)
		time.Sleep(time.Hour)
		now, err := r.store.Now(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.rs.Remove(r.ctx, run.ID); err != nil {
			t.Fatal(err)
		}
		rows, err := r.store.Read(r.ctx, store.Scope{All: true}, run.ID, store.Query{Stream: store.Audit})
		if err != nil || len(rows) != 1 || !rows[0].At.Equal(now) {
			t.Fatal(rows, err)
		}
		var row struct{ By, Did, What string }
		if err := json.Unmarshal(rows[0].Data, &row); err != nil || row.By != "ann" || row.Did != "remove" || row.What != "one@1" {
			t.Errorf("%s, %v", rows[0].Data, err)
		}
	}, build(t, g))
}

// TestChildrenExpireWithTheirParent, also where their own graph keeps them for ever.
func TestChildrenExpireWithTheirParent(t *testing.T) {
	lasting := one(func(_ context.Context, w work) (work, error) { return w, nil }, pawl.Options{})
	brief := blank("brief", pawl.Options{Retain: time.Minute})
	b := brief.Node("b", func(ctx context.Context, _ work) (work, error) { return pawl.Call(ctx, "c", lasting, 1) })
	brief.Start(b, begin)
	brief.From(b).Otherwise(brief.Succeed("END"))
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.ends(r.start("brief", 1).ID, pawl.StatusSucceeded)
		if cs := r.children(run.ID); len(cs) != 1 {
			t.Fatal(cs)
		}
		time.Sleep(10 * time.Minute)
		if rs, err := r.rs.List(r.ctx, pawl.RunFilter{}, "", 0); err != nil || len(rs) != 0 {
			t.Errorf("left: %+v, %v", rs, err)
		}
	}, build(t, brief), build(t, lasting))
}

// TestAnExpiredParentStaysWhileAChildGoesOn: a child that is tried again by itself charges its parent, and is shown under it.
func TestAnExpiredParentStaysWhileAChildGoesOn(t *testing.T) {
	child := sleeper(func(ctx context.Context, w work) (work, error) {
		if pawl.Info(ctx).Attempt == 1 {
			return w, errTransient()
		}
		if err := pawl.Sleep(ctx, "s", 8*time.Minute); err != nil {
			return w, err
		}
		return w, second(do(ctx, "k", &tally{}, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}}))
	})
	parent := one(func(ctx context.Context, _ work) (work, error) { return pawl.Call(ctx, "c", child, 1) }, pawl.Options{Retain: time.Minute})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.ends(r.start("one", 1).ID, pawl.StatusFailed)
		c := r.children(run.ID)[0].ID
		if _, err := r.rs.Retry(r.ctx, c); err != nil {
			t.Fatal(err)
		}
		r.ends(c, pawl.StatusSucceeded)
		r.get(run.ID)
		time.Sleep(5 * time.Minute)
		if rs, err := r.rs.List(r.ctx, pawl.RunFilter{}, "", 0); err != nil || len(rs) != 0 {
			t.Errorf("left: %+v, %v", rs, err)
		}
	}, build(t, child), build(t, parent))
}
