package brain

import (
	"fmt"
	"strings"
	"testing"

	"pawl"
	"pawl/pawltest"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
)

// metered is an agent whose every attempt at a model is charged.
func (a *actor) metered() Agent {
	agent := a.agent()
	models := agent.Models
	agent.Models = func(alias string) (llm.Model, error) {
		m, err := models(alias)
		if err != nil {
			return nil, err
		}
		return llm.Metered(m, llm.Price{Input: pawl.Dollars(1), Output: pawl.Dollars(2)}), nil
	}
	return agent
}

// full is a plan that goes through all seven nodes.
func full() Plan {
	return Plan{Question: question, History: []Turn{{"user", "Hello"}}, OptimizedSpecs: &Specs{
		DataSources: []SourceSpec{{SourceType: SourceHistory}, {SourceType: SourceVectorDB}}, Tools: []ToolSpec{{Name: "desk_clock"}, {Name: "desk_failing"}},
		Provider: ProviderSpec{Stream: true, MaxTokens: 50},
	}}
}

// Wherever the worker is dropped, the run comes to the same end: what a model, a source or a tool has said is read and not asked again.
func TestEveryCrashComesToTheSameEnd(t *testing.T) {
	m := &actor{
		reply: func(_ int, r llm.Request) llmtest.Turn { // decided by what it is asked, so that a repeated call is the same
			if strings.Contains(r.System, "reviewer") {
				return llmtest.Say("Paris is the capital, and it lies on the Seine.")
			}
			return llmtest.Say(goodReply)
		},
		judge: func(_ int, r llm.Request) llmtest.Turn {
			if strings.Contains(r.Messages[0].Text(), "Seine") {
				return llmtest.Say(judgement(90))
			}
			return llmtest.Say(judgement(50))
		},
	}
	a := m.metered()
	a.Knowledge, a.Tools = shelf{}, (&desk{}).box()
	r := pawltest.EveryCrash(t, Graph(a), full(), pawltest.Script{Replay: true, Varies: []string{"duration_seconds"}})
	same(t, r.Output.Metadata.ExecutionSteps, nodes("iqtbcvbcvf"))
	if r.Output.Status != "completed" || r.Output.Confidence != 0.78 || r.Meter(llm.MeterCalls) != 4 {
		t.Errorf("%+v, %d calls", r.Output, r.Meter(llm.MeterCalls))
	}
}

// With the meter capped at n, no behavior of a model causes n+1 calls: not with replies that never pass, not with outages, not with
// a judge that does not keep to its form, and not over crashes. Each such run ends with what it has.
func TestBudgetsHold(t *testing.T) {
	outage := llm.Failure{Code: pawl.CodeUnavailable, Text: "down", After: -1}.Fault()
	for name, m := range map[string]*actor{
		"replies that never pass": {judge: scores(0)},
		"outages":                 {reply: errs(outage)},
		"a judge without a form":  {judge: always("fine")},
		"a judge that is down":    {judge: errs(outage)},
	} {
		for _, most := range []int64{0, 1, 2, 3, 5} {
			t.Run(fmt.Sprintf("%s, %d", name, most), func(t *testing.T) {
				for _, crash := range [][]int{nil, {5}, {7, 3}, {10}} {
					m.asked, m.judged = nil, nil
					r := pawltest.Run(t, Graph(m.metered()), Plan{Question: question}, pawltest.Script{
						Crash: crash, Start: pawl.StartOptions{Budget: pawl.Budget{llm.MeterCalls: most}},
					})
					calls := int64(len(m.asked) + len(m.judged))
					if calls > most || r.Meter(llm.MeterCalls) > most {
						t.Errorf("crash %v: %d calls, %d counted", crash, calls, r.Meter(llm.MeterCalls))
					}
					if r.Run.Status != pawl.StatusSucceeded || r.Output.Status != "completed_with_errors" {
						t.Errorf("crash %v: %s %+v", crash, r.Run.Status, r.Output)
					}
				}
			})
		}
	}
}

// A budget that is spent ends the attempts: nobody is asked in vain.
func TestASpentBudgetEndsTheAttempts(t *testing.T) {
	m := &actor{judge: scores(50)}
	r := play(t, m.metered(), Plan{}, pawltest.Script{Start: pawl.StartOptions{Budget: pawl.Budget{llm.MeterCalls: 2}}})
	same(t, r.Output.Metadata.ExecutionSteps, nodes("ibcvbcvf"))
	if o := r.Output; o.Content != Generic("") || len(o.Metadata.Errors) != 2 || !strings.Contains(o.Metadata.Errors[0], "budget llm is spent") {
		t.Errorf("%+v", o)
	}
}
