package llm_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"pawl"
	"pawl/ports/llm"
)

// silent is a model whose provider does not say what a response took.
type silent struct{ usage llm.Usage }

func (silent) Ref() llm.Ref { return llm.Ref{Provider: "some", Model: "x"} }

func (s silent) Generate(context.Context, llm.Request) (llm.Response, error) {
	return llm.Response{Finish: llm.FinishStop, Usage: s.usage}, nil
}

func (s silent) Stream(ctx context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	return s.Generate(ctx, r)
}

// TestUnknownUsage: what a provider does not count is charged as it was held, and is not free.
func TestUnknownUsage(t *testing.T) {
	t.Parallel()
	for usage, fits := range map[llm.Usage]bool{{}: false, {Input: -1, Output: -1}: false, {Output: math.MaxInt64}: false, {Input: 1, Output: 1}: true} {
		m := llm.Metered(silent{usage}, llm.Price{Output: pawl.Dollars(1)}) // a hold of 600,000 tokens is 0.60 dollars
		g := pawl.New[int, int, int]("twice", pawl.Options{Version: "1", Cost: pawl.Dollars(1), Budget: pawl.Budget{llm.MeterCalls: 9}})
		ask := g.Node("ask", func(ctx context.Context, n int) (int, error) {
			for _, key := range []string{"a", "b"} {
				if _, err := llm.Generate(ctx, key, m, llm.Request{MaxTokens: 600_000}, llm.Options{Retry: pawl.Retry{Max: 1}}); err != nil {
					return n, err
				}
			}
			return n, nil
		})
		done := g.Succeed("DONE")
		g.Start(ask, func(n int) (int, error) { return n, nil })
		g.From(ask).Otherwise(done)
		g.Finish(func(n int, _ pawl.Ending) (int, error) { return n, nil })
		_, err := pawl.Execute(t.Context(), g, 1)
		var spent *pawl.BudgetError
		if fits && err != nil || !fits && !errors.As(err, &spent) {
			t.Errorf("%+v: %v", usage, err)
		}
	}
}

// TestCost: what is counted below nothing takes nothing back.
func TestCost(t *testing.T) {
	t.Parallel()
	p := llm.Price{Input: pawl.Dollars(2), Cached: pawl.Dollars(1), Output: pawl.Dollars(10)}
	for u, want := range map[llm.Usage]pawl.USD{
		{Input: 100, Cached: 40, Output: 10}: 60*2 + 40 + 100,
		{Input: -5, Cached: -5, Output: -5}:  0,
		{Input: 5, Cached: 9}:                9,
		{}:                                   0,
		{Input: math.MaxInt64, Cached: math.MaxInt64, Output: math.MaxInt64}: math.MaxInt64 / 4 * 2, // counted by nobody; and yet not below nothing
	} {
		if got := p.Cost(u); got != want {
			t.Errorf("%+v: %d, want %d", u, got, want)
		}
	}
}
