package engine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// TestExamine finds what nobody works at and nothing wakes, and passes by what waits for something that can come.
func TestExamine(t *testing.T) {
	asks := sleeper(func(ctx context.Context, w work) (work, error) {
		return w, second(pawl.Ask[bool](ctx, "q", pawl.Question{}))
	})
	calls := one(func(ctx context.Context, _ work) (work, error) { return pawl.Call(ctx, "c", asks, 1) }, pawl.Options{})
	naps := two(func(ctx context.Context, w work) (work, error) { return w, pawl.Sleep(ctx, "s", time.Hour) }, sleeps, pawl.Options{})
	virtual(t, func(r *rig) {
		e := r.engine(r.store, engine.Config{})
		stop := r.worker(e)
		r.becomes(r.start("one", 1).ID, pawl.StatusWaiting)
		time.Sleep(time.Second)
		nap := r.becomes(r.start("two", 1).ID, pawl.StatusWaiting)
		lost := r.becomes(r.start("sleeper", 1).ID, pawl.StatusWaiting)
		stop()
		find := func(stuck, orphaned []string) {
			t.Helper()
			got, err := e.Examine(r.ctx, pawl.Caller{User: "ann"})
			if err != nil || !slices.Equal(got.Stuck, stuck) || !slices.Equal(got.Orphaned, orphaned) {
				t.Errorf("%+v, %v: want stuck %v, orphaned %v", got, err, stuck, orphaned)
			}
		}
		find(nil, nil)
		at, err := r.store.Get(r.ctx, store.Scope{All: true}, lost.ID)
		if err != nil {
			t.Fatal(err)
		}
		q, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{Run: lost.ID}, "", 0)
		if err != nil || len(q) != 1 {
			t.Fatal(q, err)
		}
		// Somebody has closed the question past the rules.
		err = r.store.Apply(r.ctx, store.Change{Run: lost.ID, Epoch: at.Epoch, Takeover: true, Status: at.Status, Node: at.Node, Row: at.Row,
			Drop: []string{q[0].ID}, Seen: at.Inbox, After: -1})
		if err != nil {
			t.Fatal(err)
		}
		find([]string{lost.ID}, nil)
		// A worker dies with a run.
		if err := r.store.Apply(r.ctx, store.Change{Run: nap.ID, Letters: []store.Letter{{Run: nap.ID}}}); err != nil {
			t.Fatal(err)
		}
		if rs, _, err := r.store.Claim(r.ctx, store.Claim{Worker: "dead", Run: nap.ID, Max: 1, Hold: time.Second}); err != nil || len(rs) != 1 {
			t.Fatal(rs, err)
		}
		find([]string{lost.ID}, nil)
		time.Sleep(time.Minute)
		find([]string{lost.ID}, []string{nap.ID})
		if got, err := e.Examine(r.ctx, pawl.Caller{User: "bob"}); err != nil || len(got.Stuck)+len(got.Orphaned) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	}, build(t, asks), build(t, calls), build(t, naps))
}
