package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"pawl"
)

func capped(meter string, n int64) pawl.Options {
	return pawl.Options{Budget: pawl.Budget{meter: n}}
}

// charged makes a call that does nothing and costs n.
func charged(ctx context.Context, key, meter string, n int64) error {
	_, err := pawl.Do(ctx, key, func(context.Context) (int, error) { return 0, nil }, pawl.CallOptions{Charge: pawl.Budget{meter: n}})
	return err
}

func remaining(t *testing.T, ctx context.Context, meter string) int64 {
	t.Helper()
	n, err := pawl.Remaining(ctx, meter)
	if err != nil {
		t.Error(err)
	}
	return n
}

// TestCostsAreChargedBeforeEveryVisit, once however often the visit is tried; what they cannot pay is an error of the node
// that an error edge may claim.
func TestCostsAreChargedBeforeEveryVisit(t *testing.T) {
	visits, tries := 0, 0
	g := blank("g", capped("llm", 3))
	work := g.Node("work", func(ctx context.Context, s box) (box, error) {
		if tries++; tries%2 == 1 {
			return s, errOut
		}
		visits++
		s.N = int(remaining(t, ctx, "llm"))
		return s, nil
	}, pawl.NodeOptions{Costs: pawl.Budget{"llm": 1}, Retry: pawl.Retry{Max: 1}})
	spent := func(s box, err error) (box, bool) {
		var b *pawl.BudgetError
		if !errors.As(err, &b) || *b != (pawl.BudgetError{Meter: "llm", Used: 3, Cap: 3}) {
			t.Errorf("%v", err)
		}
		return pawl.IsBudget(s, err)
	}
	g.Start(work, start)
	g.From(work).When("again", yes, work).OnError("spent", spent, g.Succeed("SPENT")).Otherwise(g.Succeed("DONE"))
	if out, err := pawl.Execute(t.Context(), g, 9); err != nil || visits != 3 || tries != 6 || out.N != 0 {
		t.Errorf("%d visits, %d tries, %+v, %v", visits, tries, out, err)
	}
}

func TestCallsAreChargedBeforeEveryTry(t *testing.T) {
	made := 0
	inside(t, capped("llm", 5), func(ctx context.Context) {
		_, err := pawl.Do(ctx, "a", func(context.Context) (int, error) { made++; return 0, errOut },
			pawl.CallOptions{Charge: pawl.Budget{"llm": 2}, Retry: pawl.Retry{Max: 9}})
		var b *pawl.BudgetError
		if made != 2 || !errors.As(err, &b) || b.Used != 4 || b.Cap != 5 || codeOf(err) != pawl.CodeExhausted {
			t.Errorf("%d calls, %v", made, err)
		}
		if n := remaining(t, ctx, "llm"); n != 1 {
			t.Errorf("%d left: what is refused is not counted", n)
		}
		if err := charged(ctx, "b", "other", 1<<40); err != nil {
			t.Errorf("a meter without a cap: %v", err)
		}
		if n := remaining(t, ctx, "other"); n != pawl.Unlimited {
			t.Errorf("a meter without a cap has %d left", n)
		}
		for _, err := range []error{charged(ctx, "c", "llm", -1), charged(ctx, "d", "other", -1)} {
			if codeOf(err) != pawl.CodeInvalid {
				t.Errorf("a negative charge would give back: %v", err)
			}
		}
	})
}

func TestChargesDoNotOverflow(t *testing.T) {
	inside(t, capped("llm", 5), func(ctx context.Context) {
		if err := charged(ctx, "a", "llm", 1); err != nil {
			t.Error(err)
		}
		if err := charged(ctx, "b", "llm", math.MaxInt64); err == nil {
			t.Error("a charge of 1<<63-1 on top of 1 passed a cap of 5")
		}
		for i := range 3 {
			if err := charged(ctx, fmt.Sprint("c", i), "free", math.MaxInt64); err != nil {
				t.Error(err)
			}
		}
		if err := pawl.Cap(ctx, "free", 10); err != nil || remaining(t, ctx, "free") != 0 {
			t.Error("what was used stays used", err)
		}
	})
}

// TestSeveralMetersAreAllOrNothing, and always the same one is told.
func TestSeveralMetersAreAllOrNothing(t *testing.T) {
	inside(t, pawl.Options{Budget: pawl.Budget{"a": 9, "b": 0, "c": 0}}, func(ctx context.Context) {
		for i := range 20 {
			_, err := pawl.Do(ctx, fmt.Sprint(i), func(context.Context) (int, error) { t.Error("called"); return 0, nil },
				pawl.CallOptions{Charge: pawl.Budget{"a": 1, "b": 1, "c": 1}})
			var b *pawl.BudgetError
			if !errors.As(err, &b) || b.Meter != "b" {
				t.Error(err)
			}
		}
		if n := remaining(t, ctx, "a"); n != 9 {
			t.Errorf("%d of a left", n)
		}
	})
}

// TestBudgetIsNeverPassedInParallel: a hundred items, of which each charges twice, against a cap that is read all the time
// (with the race detector).
func TestBudgetIsNeverPassedInParallel(t *testing.T) {
	const limit = 37
	var used, most atomic.Int64
	inside(t, capped("llm", limit), func(ctx context.Context) {
		var wg sync.WaitGroup
		for m := range 4 {
			wg.Go(func() {
				_, _ = pawl.Map(ctx, fmt.Sprint("m", m), make([]int, 25), 8, func(ctx context.Context, _ int) (int, error) {
					used.Add(1)
					if pawl.Charge(ctx, "llm", 1) == nil {
						used.Add(1)
					}
					most.Store(max(most.Load(), used.Load()))
					return 0, nil
				}, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}})
			})
		}
		wg.Wait()
		if n := remaining(t, ctx, "llm"); n != limit-used.Load() || n != 0 {
			t.Errorf("%d left, %d used", n, used.Load())
		}
	})
	if most.Load() > limit {
		t.Errorf("%d of %d", most.Load(), limit)
	}
}

func TestCapOnlyLowers(t *testing.T) {
	g := one(capped("llm", 10), func(ctx context.Context, s box) (box, error) {
		for i, c := range []struct{ set, left int64 }{{20, 10}, {7, 7}, {9, 7}, {-3, 0}} {
			if err := pawl.Cap(ctx, "llm", c.set); err != nil {
				t.Error(err)
			}
			if n := remaining(t, ctx, "llm"); n != c.left {
				t.Errorf("%d: %d left after a cap of %d", i, n, c.set)
			}
		}
		if err := errors.Join(pawl.Cap(ctx, "new", 2), charged(ctx, "a", "new", 2)); err != nil {
			t.Error(err)
		}
		if err := charged(ctx, "b", "new", 1); err == nil {
			t.Error("a cap that the graph does not have does not hold")
		}
		if err := charged(ctx, "c", "llm", 0); err != nil {
			t.Errorf("a charge of nothing over a spent meter: %v", err)
		}
		return s, nil
	})
	for range 2 { // the cap was the run's, not the graph's
		if _, err := pawl.Execute(t.Context(), g, 0); err != nil {
			t.Error(err)
		}
	}
}

func TestHold(t *testing.T) {
	inside(t, pawl.Options{Cost: 100}, func(ctx context.Context) {
		hold := func(key string, most pawl.USD, settle func(func(pawl.USD))) error {
			_, err := pawl.Do(ctx, key, func(ctx context.Context) (int, error) {
				s, err := pawl.Hold(ctx, most)
				if err == nil {
					settle(s)
				}
				return 0, err
			})
			return err
		}
		for i, c := range []struct {
			most   pawl.USD
			settle func(func(pawl.USD))
			left   int64
		}{
			{40, func(s func(pawl.USD)) { s(10) }, 90},
			{40, func(func(pawl.USD)) {}, 50},               // not settled: in full
			{20, func(s func(pawl.USD)) { s(5); s(0) }, 45}, // the first counts
			{10, func(s func(pawl.USD)) { s(99) }, 35},      // never more than was held
			{10, func(s func(pawl.USD)) { s(-9) }, 35},
			{0, func(s func(pawl.USD)) { s(0) }, 35},
		} {
			if err := hold(fmt.Sprint(i), c.most, c.settle); err != nil {
				t.Errorf("%d: %v", i, err)
			}
			if n := remaining(t, ctx, pawl.MeterUSD); n != c.left {
				t.Errorf("%d: %d left, want %d", i, n, c.left)
			}
		}
		err := hold("over", 36, func(func(pawl.USD)) { t.Error("held") })
		if _, money := pawl.IsBudget(0, err); !money || err.Error() != "budget usd is spent: $0.000065 of $0.0001" {
			t.Error(err)
		}
		if err := hold("negative", -1, func(func(pawl.USD)) { t.Error("held") }); codeOf(err) != pawl.CodeInvalid {
			t.Error(err)
		}
	})
}

func TestChargesOutsideACall(t *testing.T) {
	inside(t, capped("llm", 5), func(ctx context.Context) {
		if err := pawl.Charge(ctx, "llm", 1); !errors.Is(err, pawl.ErrNotInCall) {
			t.Error(err)
		}
		if _, err := pawl.Hold(ctx, 1); !errors.Is(err, pawl.ErrNotInCall) {
			t.Error(err)
		}
		_, err := pawl.Do(ctx, "a", func(context.Context) (int, error) { return 0, pawl.Charge(ctx, "llm", 1) }) // the node's ctx, not the call's
		if codeOf(err) != pawl.CodeInvalid {
			t.Error(err)
		}
		if n := remaining(t, ctx, "llm"); n != 5 {
			t.Errorf("%d left", n)
		}
	})
	// Outside any run nothing is counted.
	settle, err := pawl.Hold(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	settle(1)
	if err := errors.Join(pawl.Charge(t.Context(), "llm", 1), pawl.Cap(t.Context(), "llm", 1)); err != nil || remaining(t, t.Context(), "llm") != pawl.Unlimited {
		t.Error(err)
	}
}
