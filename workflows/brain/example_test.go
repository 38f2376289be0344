package brain_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"pawl"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
	"pawl/workflows/brain"
)

// R-002-43: a safety check between the model and the reviewer, without a change of the engine or of this package: define the node, add it to a
// graph with brain's own nodes, and lead the edge through it.
func Example_safetyCheck() {
	// 1. The node: card numbers do not get through.
	cards := regexp.MustCompile(`\b\d{4}([ -]?\d{4}){3}\b`)
	check := func(ctx context.Context, s brain.State) (brain.State, error) {
		s.Reply = cards.ReplaceAllString(s.Reply, "[a card number]")
		return s, nil
	}

	// 2. The graph: brain's nodes and one more.
	g := pawl.New[brain.Plan, brain.State, brain.Output]("safe-brain", brain.Options())
	n := agent().Nodes(g)
	safety := g.Node("safety_check", check)

	// 3. The edges.
	g.From(n.Initialize).When("data needed", brain.State.NeedsData, n.QueryDataSources)
	g.From(n.Initialize, n.QueryDataSources).When("tools needed", brain.State.NeedsTools, n.ExecuteTools).Otherwise(n.BuildMessages)
	g.From(n.ExecuteTools).Otherwise(n.BuildMessages)
	g.From(n.BuildMessages).Otherwise(n.CallProvider)
	g.From(n.CallProvider).Otherwise(safety) // it led to n.ValidateResponse
	g.From(safety).Otherwise(n.ValidateResponse)
	g.From(n.ValidateResponse).
		When("good enough", brain.State.Good, n.Finalize).
		When("judge broken", brain.State.Unjudged, n.Finalize).
		When("try again", brain.State.MayRetry, n.BuildMessages).AtMost(brain.MaxAttempts - 1).
		Otherwise(n.Finalize)
	g.From(n.Finalize).When("good enough", brain.State.Good, n.Completed).Otherwise(n.CompletedWithErrors)

	out, err := pawl.Execute(context.Background(), g, brain.Plan{Question: "Which card do you have on file?"})
	fmt.Println(err, out.Status, out.Confidence)
	fmt.Println(out.Content)
	fmt.Println(strings.Join(out.Metadata.ExecutionSteps, " "))
	// Output:
	// <nil> completed 0.78
	// Your card on file is [a card number].
	// initialize build_messages call_provider safety_check validate_response finalize
}

// agent is brain with a model that plays a part: it replies, and judges what it replied.
func agent() brain.Agent {
	m := llmtest.Func(func(_ int, r llm.Request) llmtest.Turn {
		if r.Format != nil {
			return llmtest.Say(`{"relevance":25,"helpfulness":25,"accuracy":20,"completeness":20,"feedback":"Name the bank."}`)
		}
		return llmtest.Say("Your card on file is 4929 1234 5678 9012.")
	})
	return brain.Agent{Models: func(string) (llm.Model, error) { return m, nil }}
}
