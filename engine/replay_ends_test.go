package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pawl"
	"pawl/pawltest"
)

// TestReplayOfEveryKindOfEnd plays graphs that end in odd ways, and demands that they replay.
func TestReplayOfEveryKindOfEnd(t *testing.T) {
	items := make([]int, 40)
	for i := range items {
		items[i] = i
	}
	mapped := func(bad int) body {
		return func(ctx context.Context, w work) (work, error) {
			out, err := pawl.Map(ctx, "m", items, 4, func(ctx context.Context, i int) (int, error) {
				time.Sleep(time.Duration(i%5) * time.Second)
				if i == bad {
					return 0, pawl.Permanent(fmt.Errorf("item %d is bad", i))
				}
				return i, nil
			})
			return w.line(fmt.Sprint(out)), err
		}
	}
	hangs := func(ctx context.Context, w work) (work, error) {
		if _, err := pawl.Do(ctx, "before", func(context.Context) (int, error) { return 1, nil }); err != nil {
			return w, err
		}
		<-ctx.Done()
		return w, ctx.Err()
	}
	budgeted := func(ctx context.Context, w work) (work, error) {
		for i := range 9 {
			left, err := pawl.Remaining(ctx, "llm")
			if err != nil || left == 1 {
				return w.line(fmt.Sprint("left ", left)), err
			}
			_, err = pawl.Do(ctx, fmt.Sprint("call ", i), func(context.Context) (int, error) { return 1, nil }, pawl.CallOptions{Charge: pawl.Budget{"llm": 2}})
			if err != nil {
				return w, err
			}
		}
		return w, nil
	}
	call := func(n int64) body {
		return func(ctx context.Context, w work) (work, error) {
			_, err := pawl.Do(ctx, "c", func(context.Context) (int, error) { return 1, nil }, pawl.CallOptions{Charge: pawl.Budget{"llm": n}})
			return w, err
		}
	}
	retried := pawl.NodeOptions{Retry: pawl.Retry{Max: 2, First: time.Minute}}
	for name, c := range map[string]struct {
		g *graph
		s pawltest.Script
	}{
		"a map":               {one(mapped(-1), pawl.Options{}), pawltest.Script{}},
		"a map that fails":    {one(mapped(13), pawl.Options{}), pawltest.Script{}},
		"step timeout":        {one(hangs, pawl.Options{}, pawl.NodeOptions{Timeout: time.Minute, Retry: pawl.Retry{Max: 1, First: time.Minute}}), pawltest.Script{}},
		"runtime":             {one(hangs, pawl.Options{Runtime: time.Minute}), pawltest.Script{}},
		"cancelled in a node": {one(hangs, pawl.Options{}), pawltest.Script{Cancel: time.Minute}},
		"remaining":           {one(budgeted, pawl.Options{Budget: pawl.Budget{"llm": 7}}), pawltest.Script{}},
		"a budget":            {one(call(9), pawl.Options{Budget: pawl.Budget{"llm": 7}}), pawltest.Script{}},
		"costs over the cap":  {one(call(0), pawl.Options{Budget: pawl.Budget{"llm": 1}}, pawl.NodeOptions{Costs: pawl.Budget{"llm": 2}}), pawltest.Script{}},
		"a panic":             {one(func(context.Context, work) (work, error) { panic("oh") }, pawl.Options{}), pawltest.Script{}},
		"a panic in a call":   {one(call(1), pawl.Options{}), pawltest.Script{Fail: map[string][]error{"c": {pawltest.Panic("oh")}}}},
		"a worker that dies":  {one(call(1), pawl.Options{}, retried), pawltest.Script{Fail: map[string][]error{"c": {pawltest.ErrCrash, pawltest.ErrLost, errTransient()}}}},
		"a key twice": {one(func(ctx context.Context, w work) (work, error) {
			return w, errors.Join(second(call(1)(ctx, w)), second(call(1)(ctx, w)))
		}, pawl.Options{}), pawltest.Script{}},
		"an event of a call": {one(emits, pawl.Options{}, retried), pawltest.Script{Fail: map[string][]error{"c": {nil, errTransient()}}}},
		"an event that is big": {one(func(ctx context.Context, w work) (work, error) {
			return w, pawl.Emit(ctx, "big", make([]byte, 300<<10))
		}, pawl.Options{}), pawltest.Script{}},
	} {
		c.s.Replay = true
		t.Run(name, func(t *testing.T) { pawltest.Run(t, c.g, 1, c.s) })
	}
}

// emits emits inside of a call and outside, and fails in its first two tries.
func emits(ctx context.Context, w work) (work, error) {
	try := pawl.Info(ctx).Try
	if err := pawl.Emit(ctx, "outside", try); err != nil {
		return w, err
	}
	_, err := pawl.Do(ctx, "c", func(ctx context.Context) (int, error) { return 1, pawl.Emit(ctx, "inside", 1) })
	if err == nil && try < 3 {
		err = errTransient()
	}
	return w, err
}
