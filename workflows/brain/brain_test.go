package brain

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"pawl/pawltest"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
)

// actor is a model that plays two parts: it replies, and it judges where a form is asked for. It keeps what it was asked.
type actor struct {
	reply func(n int, r llm.Request) llmtest.Turn // n counts from 1
	judge func(n int, r llm.Request) llmtest.Turn

	mu            sync.Mutex
	asked, judged []llm.Request
}

// model is the actor as a model. Left to itself it replies well, and judges that it did.
func (a *actor) model() llm.Model {
	return llmtest.Func(func(_ int, r llm.Request) llmtest.Turn {
		list, say := &a.asked, a.reply
		if say == nil {
			say = always(goodReply)
		}
		if r.Format != nil {
			if list, say = &a.judged, a.judge; say == nil {
				say = scores(100)
			}
		}
		a.mu.Lock()
		*list = append(*list, r)
		n := len(*list)
		a.mu.Unlock()
		return say(n, r)
	})
}

// agent is an agent with this one model.
func (a *actor) agent() Agent {
	m := a.model()
	return Agent{Models: func(alias string) (llm.Model, error) {
		if alias == AliasJudge {
			return nil, unset()
		}
		return m, nil
	}}
}

// always replies the same.
func always(text string) func(int, llm.Request) llmtest.Turn {
	return func(int, llm.Request) llmtest.Turn { return llmtest.Say(text) }
}

// fails always fails in the same way.
func errs(err error) func(int, llm.Request) llmtest.Turn {
	return func(int, llm.Request) llmtest.Turn { return llmtest.Turn{Err: err} }
}

// scores judges with these sums, the last one for ever.
func scores(sums ...int) func(int, llm.Request) llmtest.Turn {
	return func(n int, _ llm.Request) llmtest.Turn { return llmtest.Say(judgement(sums[min(n, len(sums))-1])) }
}

// judgement is a judge's answer with this sum.
func judgement(sum int) string {
	part := func(i int) int { return min(maxScore, max(0, sum-i*maxScore)) }
	raw, _ := json.Marshal(Judgement{part(0), part(1), part(2), part(3), "Say more about the " + string(rune('A'+sum%26)) + " side."})
	return string(raw)
}

const goodReply = "Paris is the capital of France."

func unset() error { return llm.Failure{Code: llm.CodeUnset, Text: "no such model"}.Fault() }

const question = "What is the capital of France?"

// play runs a plan to its end, and demands that it replays.
func play(t *testing.T, a Agent, p Plan, s ...pawltest.Script) *pawltest.Result[Output] {
	t.Helper()
	script := slices.Concat(s, []pawltest.Script{{}})[0]
	script.Replay = true
	p.Question = cmp.Or(p.Question, question)
	return pawltest.Run(t, Graph(a), p, script)
}

// nodes are the node names of one way through the graph.
func nodes(names string) []string {
	short := map[string]string{
		"i": "initialize", "q": "query_data_sources", "t": "execute_tools", "b": "build_messages", "c": "call_provider", "v": "validate_response", "f": "finalize",
	}
	var out []string
	for _, n := range strings.Split(names, "") {
		out = append(out, short[n])
	}
	return out
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// state is the last state of a run.
func state(t *testing.T, r *pawltest.Result[Output]) (s State) {
	t.Helper()
	if err := json.Unmarshal(r.State, &s); err != nil {
		t.Fatal(err)
	}
	return s
}
