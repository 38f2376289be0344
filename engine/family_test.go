package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// over lets an hour pass and checks that no child of an ended run is left.
func (r *rig) over(parent string) {
	r.Helper()
	time.Sleep(time.Hour)
	for _, c := range r.children(parent) {
		if !c.Status.Ended() {
			r.Errorf("child %s, attempt %d, is %s an hour after its parent's end", c.ID, c.Attempt, c.Status)
		}
	}
}

// TestAChildStartedAgainIsCancelledThoughAnEarlierEndCameLate: the failure of an attempt that began in an earlier try is no end
// of the one that runs now.
func TestAChildStartedAgainIsCancelledThoughAnEarlierEndCameLate(t *testing.T) {
	child := sleeper(func(ctx context.Context, w work) (work, error) {
		if pawl.Info(ctx).Attempt == 1 {
			time.Sleep(time.Duration(w.N) * time.Second)
			return w, errTransient()
		}
		return w, pawl.Sleep(ctx, "s", 1000*time.Hour)
	})
	g := joined(child, []int{1, 3}, 0, false, all, pawl.NodeOptions{Retry: pawl.Retry{Max: 1, First: 10 * time.Second}})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.start("joined", 1)
		time.Sleep(5 * time.Minute)
		if err := r.rs.Cancel(r.ctx, run.ID, ""); err != nil {
			t.Fatal(err)
		}
		r.ends(run.ID, pawl.StatusCancelled)
		r.over(run.ID)
	}, build(t, g))
}

// TestARefusedItemDoesNotHideTheOthersFromACancel: its end is recorded at once, and counts as the end of one that was started, also
// where the worker dies before the park.
func TestARefusedItemDoesNotHideTheOthersFromACancel(t *testing.T) {
	g := joined(sleeper(sleeps), []int{1, 60 * 24, 666}, 0, true, all)
	virtual(t, func(r *rig) {
		var parks atomic.Int64
		defer r.worker(r.engine(&hooked{Store: r.store, apply: func(cs []store.Change, do func() error) error {
			if cs[0].Row != nil && parks.Add(1) == 1 {
				return errors.New("the worker dies here")
			}
			return do()
		}}, engine.Config{}))()
		run := r.start("joined", 1)
		time.Sleep(10 * time.Minute)
		if err := r.rs.Cancel(r.ctx, run.ID, ""); err != nil {
			t.Fatal(err)
		}
		r.ends(run.ID, pawl.StatusCancelled)
		r.over(run.ID)
	}, build(t, g))
}

// TestARefusedItemHoldsNothingUp: the items behind it are begun in their turn, and without Collect it is the node's error as soon
// as its turn has come.
func TestARefusedItemHoldsNothingUp(t *testing.T) {
	for _, collect := range []bool{true, false} {
		g := joined(sleeper(sleeps), []int{1, 600, 666, 1, 1}, 2, collect, all)
		virtual(t, func(r *rig) {
			defer r.worker(r.engine(r.store, engine.Config{}))()
			run := r.start("joined", 1)
			time.Sleep(2 * time.Hour)
			if n := len(r.children(run.ID)); collect && n != 4 {
				t.Errorf("after two hours %d children were started, want 4", n)
			}
			if got := r.get(run.ID); !collect && got.Status != pawl.StatusFailed {
				t.Errorf("without Collect the run is %s two hours after the refusal", got.Status)
			}
		}, build(t, g))
	}
}

// oldJournal is a store that is slow to hand out a journal: children may have ended since.
func oldJournal(s store.Store, by time.Duration) store.Store {
	return &hooked{Store: s, read: func(q store.Query, do func() error) error {
		err := do()
		if q.Stream == store.Call {
			time.Sleep(by)
		}
		return err
	}}
}

// TestAChildThatEndsWhileItsParentLooksIsCountedOnce: a child's row is read after the journal, and an end that came in between was
// told for this very try. It must not be restarted for it again, nor take a place for two.
func TestAChildThatEndsWhileItsParentLooksIsCountedOnce(t *testing.T) {
	for _, by := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
		for _, fails := range []int{1, 9} { // the first attempts
			var now, most atomic.Int64
			child := sleeper(func(ctx context.Context, w work) (work, error) {
				n := now.Add(1)
				defer now.Add(-1)
				most.Store(max(most.Load(), n))
				time.Sleep(time.Duration(w.N) * time.Second)
				if a := pawl.Info(ctx).Attempt; a <= fails {
					return w, fmt.Errorf("attempt %d", a)
				}
				return w, nil
			})
			g := joined(child, []int{1, 2, 3, 4, 1, 2, 3}, 2, true, all, pawl.NodeOptions{Retry: pawl.Retry{Max: 2, First: time.Minute}})
			t.Run(fmt.Sprintf("%d fail, seen %s later", fails, by), func(t *testing.T) {
				virtual(t, func(r *rig) {
					defer r.worker(r.engine(oldJournal(r.store, by), engine.Config{}))()
					run := r.untilEnd(r.start("joined", 1).ID, time.Hour)
					want := map[int]pawl.Status{1: pawl.StatusSucceeded, 9: pawl.StatusFailed}[fails]
					if run.Status != want || most.Load() > 2 {
						t.Errorf("the run is %s: %v; %d at once", run.Status, run.Err, most.Load())
					}
					for _, c := range r.children(run.ID) {
						if c.Attempt != min(fails+1, 3) {
							t.Errorf("child %s had %d attempts", c.ID, c.Attempt)
						}
					}
				}, build(t, g))
			})
		}
	}
}
