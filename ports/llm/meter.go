package llm

import (
	"cmp"
	"context"
	"math"

	"pawl"
)

// MeterCalls is the meter that every attempt at a model counts on, one each.
const MeterCalls = "llm"

// Price is what a model costs. The zero value is free.
type Price struct {
	Input, Cached, Output pawl.USD // for a million tokens each; Cached 0: as Input
	MaxOutput             int64    // tokens that a response can have where the request sets no limit; 0: 8192
}

// What is held for parts of a request whose tokens only the provider can count: too much rather than too little, since what is
// not used is given back.
const (
	defaultOutput = 8192
	imageTokens   = 3000 // the most that a provider's published rules come to for a picture that is not cut into many tiles
	messageTokens = 16   // what a message costs beside its text
)

// Cost is what a response costs.
func (p Price) Cost(u Usage) pawl.USD {
	cached := p.Cached
	if cached == 0 {
		cached = p.Input
	}
	fresh := max(u.Input-u.Cached, 0)
	return million(fresh, p.Input) + million(max(u.Cached, 0), cached) + million(max(u.Output, 0), p.Output)
}

// Most is what a request can cost at the most: no token is shorter than a byte.
func (p Price) Most(r Request) pawl.USD {
	return million(inputTokens(r), p.Input) + million(p.most(r), p.Output)
}

// most is how many tokens a response can have.
func (p Price) most(r Request) int64 {
	return cmp.Or(int64(r.MaxTokens), p.MaxOutput, defaultOutput)
}

// million is n tokens at a price for a million, rounded up; at most the sum of which several can be added.
func million(n int64, price pawl.USD) pawl.USD {
	const most = math.MaxInt64 / 4
	if price > 0 && n > (most-999_999)/int64(price) { // such as no provider means
		return most
	}
	return (pawl.USD(n)*price + 999_999) / 1_000_000
}

func inputTokens(r Request) int64 {
	n := len(r.System) + messageTokens
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema) + messageTokens
	}
	if r.Format != nil {
		n += len(r.Format.Schema) + messageTokens
	}
	for _, m := range r.Messages {
		n += messageTokens
		for _, p := range m.Parts {
			n += len(p.Text)
			switch {
			case p.Image != nil:
				n += imageTokens
			case p.Call != nil:
				n += len(p.Call.Name) + len(p.Call.Arguments)
			case p.Result != nil:
				n += len(p.Result.Text)
			}
		}
	}
	return int64(n)
}

// Metered is a model whose every attempt is charged to the run that makes it: one on MeterCalls, and its price in dollars, which
// is held before and settled after; so a request without a limit of its own gets the price's, or it could cost more. An attempt that fails is settled as nothing only where the provider cannot have begun it, and
// one whose provider does not say what it took keeps what was held.
func Metered(m Model, p Price) Model { return metered{m, p} }

type metered struct {
	Model
	price Price
}

func (m metered) Generate(ctx context.Context, r Request) (Response, error) {
	return m.attempt(ctx, r, func(r Request) (Response, error) { return m.Model.Generate(ctx, r) })
}

func (m metered) Stream(ctx context.Context, r Request, tell func(Delta)) (Response, error) {
	return m.attempt(ctx, r, func(r Request) (Response, error) { return m.Model.Stream(ctx, r, tell) })
}

func (m metered) attempt(ctx context.Context, r Request, ask func(Request) (Response, error)) (Response, error) {
	if err := pawl.Charge(ctx, MeterCalls, 1); err != nil {
		return Response{}, err
	}
	settle := func(pawl.USD) {}
	if m.price != (Price{}) {
		var err error
		if settle, err = pawl.Hold(ctx, m.price.Most(r)); err != nil {
			return Response{}, err
		}
		r.MaxTokens = int(m.price.most(r)) // what was held shall be the most
	}
	resp, err := ask(r)
	switch {
	case err == nil && (resp.Usage.Input > 0 || resp.Usage.Output > 0):
		settle(m.price.Cost(resp.Usage))
		pawl.Annotate(ctx, "cost_usd", m.price.Cost(resp.Usage).String())
	case refusedUnread(Code(err)):
		settle(0)
	}
	return resp, err
}

// refusedUnread says whether a provider answers so before it has made anything that it would charge for. After a time-out or a
// broken connection it may have.
func refusedUnread(code string) bool {
	switch code {
	case CodeRateLimited, CodeQuota, CodeRetired, CodeTooLong, pawl.CodeInvalid, pawl.CodeForbidden:
		return true
	}
	return false
}
