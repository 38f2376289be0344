package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
)

// TestNodeContext holds the context of a node to what one of the library does, whenever it is first asked for something.
func TestNodeContext(t *testing.T) {
	type color struct{}
	var kept, child context.Context
	ended := make(chan error, 1)
	for name, node := range map[string]func(context.Context){
		"nothing is asked": func(context.Context) {},
		"its end is asked for": func(ctx context.Context) {
			if _, limited := ctx.Deadline(); limited || ctx.Err() != nil || context.Cause(ctx) != nil {
				t.Errorf("it has ended or will: %v", context.Cause(ctx))
			}
		},
		"it has children": func(ctx context.Context) {
			var stop context.CancelFunc
			child, stop = context.WithTimeout(context.WithValue(ctx, color{}, "red"), time.Hour)
			t.Cleanup(stop)
			context.AfterFunc(child, func() { ended <- context.Cause(child) })
			if child.Value(color{}) != "red" || pawl.Info(child).Node != "node" {
				t.Errorf("the child has %v of %+v", child.Value(color{}), pawl.Info(child))
			}
		},
		"it is left": func(ctx context.Context) {
			free := context.WithoutCancel(ctx)
			if pawl.Info(free).Node != "node" || free.Done() != nil || context.Cause(free) != nil {
				t.Errorf("one that does not end with it knows %+v", pawl.Info(free))
			}
		},
		"many ask at once": func(ctx context.Context) {
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					inner, stop := context.WithCancel(ctx)
					stop()
					<-inner.Done()
				})
			}
			all.Wait()
		},
		"it is printed while its visit changes": func(ctx context.Context) {
			var printer sync.WaitGroup
			printer.Go(func() {
				for range 100 {
					if s := fmt.Sprint(ctx); s != "pawl.node" {
						t.Errorf("it is printed as %.40s", s)
						return
					}
				}
			})
			_, err := do(ctx, "x", &tally{})
			if printer.Wait(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			child = nil
			g := one(func(ctx context.Context, w work) (work, error) { kept = ctx; node(ctx); return w, nil }, pawl.Options{})
			virtual(t, func(r *rig) {
				defer r.worker(r.engine(r.store, engine.Config{}))()
				r.ends(r.start("one", 1).ID, pawl.StatusSucceeded)
				if child != nil {
					if err := <-ended; !errors.Is(err, pawl.ErrClosed) {
						t.Errorf("a child has ended for %v", err)
					}
				}
				late, stop := context.WithCancel(kept)
				defer stop()
				for _, ctx := range []context.Context{kept, late} {
					<-ctx.Done()
					if err := context.Cause(ctx); !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(err, pawl.ErrClosed) {
						t.Errorf("behind the node it has ended for %v, %v", ctx.Err(), err)
					}
				}
			}, build(t, g))
		})
	}
}
