package pawl

import (
	"context"
	"math"

	"pawl/internal/host"
)

// Unlimited is what Remaining answers for a meter without a cap.
const Unlimited = math.MaxInt64

// Charge counts n units of a meter: inside a call's fn only, for every physical try, also one repeated after a crash. Over
// the cap it is a *BudgetError and nothing is counted. Outside a run it does nothing.
func Charge(ctx context.Context, meter string, n int64) error {
	h := host.From(ctx)
	if h == nil {
		return nil
	}
	if n < 0 {
		return Permanent(&Error{Code: CodeInvalid, Text: "a charge is not negative"})
	}
	return h.Charge(ctx, meter, n)
}

// Hold reserves money before it is spent: inside a call's fn only. settle says what was spent; what is not settled, also
// through a crash, counts in full. The first settle counts.
func Hold(ctx context.Context, most USD) (settle func(USD), err error) {
	h := host.From(ctx)
	if h == nil {
		return func(USD) {}, nil
	}
	if most < 0 {
		return nil, Permanent(&Error{Code: CodeInvalid, Text: "a hold is not negative"})
	}
	s, err := h.Hold(ctx, MeterUSD, int64(most))
	if err != nil {
		return nil, err
	}
	return func(spent USD) { s(int64(spent)) }, nil
}

// Cap lowers this run's cap of a meter: MeterUSD, MeterRuntime, or one of the graph's own. It never raises it.
func Cap(ctx context.Context, meter string, n int64) error {
	h := host.From(ctx)
	if h == nil {
		return nil
	}
	return h.Cap(ctx, meter, max(n, 0))
}

// Remaining is what may still be charged under the tightest cap, of this run or of one that it is a child of.
func Remaining(ctx context.Context, meter string) (int64, error) {
	h := host.From(ctx)
	if h == nil {
		return Unlimited, nil
	}
	n, err := h.Remaining(ctx, meter)
	if n < 0 {
		n = Unlimited
	}
	return n, err
}
