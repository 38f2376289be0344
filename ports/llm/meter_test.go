package llm_test

import (
	"context"
	"encoding/json"
	"testing"

	"pawl"
	"pawl/pawltest"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
	"pgregory.net/rapid"
)

func TestPrice(t *testing.T) {
	p := llm.Price{Input: pawl.Dollars(3), Cached: pawl.Dollars(0.3), Output: pawl.Dollars(15)}
	for _, c := range []struct {
		p    llm.Price
		u    llm.Usage
		want float64
	}{
		{p, llm.Usage{Input: 1_000_000, Output: 1_000_000}, 18},
		{p, llm.Usage{Input: 1000, Cached: 1000, Output: 1}, 0.000315},
		{llm.Price{Input: pawl.Dollars(3)}, llm.Usage{Input: 1000, Cached: 1000}, 0.003}, // no price of its own
		{p, llm.Usage{Input: 1}, 0.000003},
		{llm.Price{Input: pawl.Dollars(0.1)}, llm.Usage{Input: 1}, 0.000001}, // nothing is free by rounding
		{p, llm.Usage{Input: 5, Cached: 10}, 0.000003},                       // a provider that counts oddly never earns a run money
		{llm.Price{}, llm.Usage{Input: 1 << 40, Output: 1 << 40}, 0},
	} {
		if got := c.p.Cost(c.u); got != pawl.Dollars(c.want) {
			t.Errorf("%+v costs %s, want $%v", c.u, got, c.want)
		}
	}
}

// TestPriceMostIsEnough: what is held covers what is charged, whatever the request and however it is cut into tokens.
func TestPriceMostIsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 50, 200)
		r := llm.Request{System: text.Draw(t, "system"), MaxTokens: rapid.IntRange(0, 5000).Draw(t, "max")}
		bytes := len(r.System)
		for range rapid.IntRange(0, 5).Draw(t, "messages") {
			said, result := text.Draw(t, "text"), text.Draw(t, "result")
			arguments, _ := json.Marshal(said)
			r.Messages = append(r.Messages, llm.Text(llm.RoleUser, said), llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{Name: "add", Arguments: arguments}}}},
				llm.Message{Role: llm.RoleTool, Parts: []llm.Part{{Result: &llm.ToolResult{Text: result}}}})
			bytes += len(said) + len(result) + len(arguments) + 3
		}
		p := llm.Price{Input: pawl.USD(rapid.Int64Range(0, 1e8).Draw(t, "in")), Output: pawl.USD(rapid.Int64Range(0, 1e8).Draw(t, "out")), MaxOutput: rapid.Int64Range(0, 10_000).Draw(t, "most")}
		written := int64(r.MaxTokens)
		if written == 0 {
			written = p.MaxOutput
		}
		if used := (llm.Usage{Input: int64(bytes), Output: written}); p.Most(r) < p.Cost(used) {
			t.Fatalf("%s is held, %s is charged", p.Most(r), p.Cost(used))
		}
	})
}

// TestMeteredSettles: an attempt costs what it used; one that the provider cannot have begun costs nothing, and one of which nobody
// knows costs what was held.
func TestMeteredSettles(t *testing.T) {
	price := llm.Price{Input: pawl.Dollars(1), Output: pawl.Dollars(10), MaxOutput: 100}
	used := price.Cost(llm.Usage{Input: 10, Output: 5})
	for name, c := range map[string]struct {
		turn llmtest.Turn
		want pawl.USD
	}{
		"answered":     {llmtest.Say("hi"), used},
		"cut":          {llmtest.Say("hi").Ends(llm.FinishLength), used},
		"limited":      {llmtest.Fail(llm.CodeRateLimited), 0},
		"no quota":     {llmtest.Fail(llm.CodeQuota), 0},
		"not allowed":  {llmtest.Fail(pawl.CodeForbidden), 0},
		"broken off":   {llmtest.Fail(pawl.CodeUnavailable, "half"), price.Most(question)},
		"out of time":  {llmtest.Fail(pawl.CodeTimeout), price.Most(question)},
		"hangs":        {llmtest.Turn{Hang: true}, price.Most(question)},
		"another code": {llmtest.Fail("odd"), price.Most(question)},
	} {
		script := llmtest.Turns(c.turn)
		m := llm.Metered(script, price)
		g := single(func(ctx context.Context, _ string) (string, error) {
			_, _ = llm.Generate(ctx, "g", m, question, llm.Options{Retry: pawl.Retry{Max: -1}})
			return "", nil
		}, pawl.Options{Budget: pawl.Budget{llm.MeterCalls: 5}, Cost: pawl.Dollars(1)})
		r := pawltest.Run(t, g, "", pawltest.Script{})
		if got := pawl.USD(r.Meter(pawl.MeterUSD)); got != c.want || r.Meter(llm.MeterCalls) != 1 {
			t.Errorf("%s: %s, want %s; %d attempts", name, got, c.want, r.Meter(llm.MeterCalls))
		}
		if n := script.Requests()[0].MaxTokens; n != 100 {
			t.Errorf("%s: the response may have %d tokens, and 100 are paid for", name, n)
		}
	}
}

// TestMeteredHoldsBeforeItAsks: a request that could cost more than is left is not made, although it might have been cheap.
func TestMeteredHoldsBeforeItAsks(t *testing.T) {
	m := llmtest.Turns(llmtest.Say("hi"), llmtest.Say("hi"))
	price := llm.Price{Output: pawl.Dollars(10), MaxOutput: 60_000} // 0.60 at the most
	g := single(func(ctx context.Context, _ string) (string, error) {
		one := llm.Metered(m, price)
		if _, err := llm.Generate(ctx, "1", one, question); err != nil {
			return "", err
		}
		if err := pawl.Cap(ctx, pawl.MeterUSD, int64(pawl.Dollars(0.6))); err != nil {
			return "", err
		}
		_, err := llm.Generate(ctx, "2", one, question)
		return "", err
	}, pawl.Options{Budget: pawl.Budget{llm.MeterCalls: 5}, Cost: pawl.Dollars(1)})
	r := pawltest.Run(t, g, "", pawltest.Script{})
	if len(m.Requests()) != 1 || r.Run.Err == nil || r.Run.Err.Code != pawl.CodeExhausted {
		t.Errorf("%d attempts, %v", len(m.Requests()), r.Run.Err)
	}
}
