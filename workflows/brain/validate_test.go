package brain

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/pawltest"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
)

// R-002-29, R-002-30, R-002-31, Q-002-01: the formula, exact in decimals for every score that there is.
func TestR00231Formula(t *testing.T) {
	for sum := range 101 {
		want := json.Number(strings.TrimRight(strings.TrimRight(thousandths(150+7*sum), "0"), "."))
		got, _ := json.Marshal(Confidence(sum))
		if string(got) != string(want) {
			t.Errorf("%d: %s, want %s", sum, got, want)
		}
		if Passes(Confidence(sum)) != (sum >= 86) {
			t.Errorf("%d passes: %v", sum, Passes(Confidence(sum)))
		}
	}
	if !Passes(0.75) || Passes(0.7499999) || Confidence(100) != 0.85 {
		t.Error("the threshold is inclusive, and the ceiling 0.85")
	}
	if got := (Judgement{Relevance: 25, Helpfulness: 20, Accuracy: 1, Completeness: 0}).Sum(); got != 46 {
		t.Error(got)
	}
}

func thousandths(n int) string {
	return "0." + string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)})
}

// R-002-18, R-002-24: every reply is scored, whatever it is, before the run goes on.
func TestR00224EveryReplyIsScored(t *testing.T) {
	m := &actor{reply: func(n int, _ llm.Request) llmtest.Turn {
		switch n {
		case 1:
			return llmtest.Say("No.")
		case 2:
			return llmtest.Say("Sorry, but I can't assist with that.")
		case 3:
			return llmtest.Turn{Err: llm.Failure{Code: llm.CodeRefused, Text: "blocked", After: -1}.Fault()}
		}
		return llmtest.Say(goodReply)
	}, judge: scores(50, 100)}
	r := play(t, m.agent(), Plan{})
	var got []string
	for _, data := range r.Emitted(EventValidated) {
		var v Validated
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(v.Confidence)
		got = append(got, v.By+" "+string(raw))
	}
	same(t, got, []string{"too_short 0.1", "refusal 0.3", "provider error 0", "judge 0.5", "judge 0.85"})
	if len(m.asked) != 5 || len(m.judged) != 2 || r.Output.Status != "completed" {
		t.Errorf("%d %d %+v", len(m.asked), len(m.judged), r.Output)
	}
}

// Q-002-02: a rule that fails is the whole score of that attempt, even where the judge would have given it a hundred: it is not asked,
// and the rule's message is the feedback.
func TestQ00202ARuleEndsTheScoring(t *testing.T) {
	m := &actor{reply: always("I cannot help with that request.")}
	r := play(t, m.agent(), Plan{})
	if len(m.judged) != 0 || len(m.asked) != 5 || r.Output.Confidence != 0.3 {
		t.Errorf("%d judged, %d asked, %+v", len(m.judged), len(m.asked), r.Output)
	}
	if s := m.asked[1].System; !strings.Contains(s, "The reply refuses or evades") {
		t.Error(s)
	}
	m = &actor{reply: func(int, llm.Request) llmtest.Turn {
		return llmtest.Say(goodReply).Ends(llm.FinishRefused)
	}}
	if r := play(t, m.agent(), Plan{}); r.Output.Confidence != 0.3 || len(m.judged) != 0 {
		t.Errorf("a refusal by its finish reason: %+v", r.Output)
	}
}

// Q-002-04: a provider's error is one attempt with no confidence, after the retries of the call are spent; what it tried before does
// not count.
func TestQ00204AProviderErrorIsOneAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		calls int // of the whole run
	}{
		"an outage": {llm.Failure{Code: pawl.CodeUnavailable, Status: 503, Text: "down", After: -1}.Fault(), 15},
		"a key":     {llm.Failure{Code: pawl.CodeForbidden, Status: 401, Text: "no key", After: -1}.Fault(), 5},
		"a bug":     {errors.New("boom"), 15},
	} {
		t.Run(name, func(t *testing.T) {
			m := &actor{reply: errs(c.err)}
			r := play(t, m.agent(), Plan{})
			o := r.Output
			if len(m.asked) != c.calls || len(m.judged) != 0 || o.Confidence != 0 || o.Metadata.ValidationAttempts != 5 || len(o.Metadata.Errors) != 6 {
				t.Errorf("%d calls, %+v", len(m.asked), o)
			}
			if o.Status != "completed_with_errors" || !o.Success || o.Content != Generic("") || o.Metadata.OriginalResponse != "" {
				t.Errorf("%+v", o)
			}
			same(t, o.Metadata.ExecutionSteps, nodes("i"+strings.Repeat("bcv", 5)+"f"))
		})
	}
	m := &actor{reply: func(n int, _ llm.Request) llmtest.Turn { // two tries fail, the third replies
		if n < 3 {
			return llmtest.Turn{Err: llm.Failure{Code: llm.CodeRateLimited, Status: 429, After: time.Second}.Fault()}
		}
		return llmtest.Say(goodReply)
	}}
	if r := play(t, m.agent(), Plan{}); r.Output.Metadata.ValidationAttempts != 1 || len(m.asked) != 3 || r.Output.Status != "completed" {
		t.Errorf("%+v", r.Output)
	}
	feedback := &actor{judge: scores(10, 100), reply: func(n int, _ llm.Request) llmtest.Turn { // what was said of the first reply holds over an outage
		if n == 2 {
			return llmtest.Turn{Err: llm.Failure{Code: llm.CodeQuota, Text: "spent", After: -1}.Fault()}
		}
		return llmtest.Say(goodReply)
	}}
	play(t, feedback.agent(), Plan{})
	if s := feedback.asked[2].System; !strings.Contains(s, "Say more about the K side.") {
		t.Error(s)
	}
}

// Q-002-06: nobody can judge: the reply stays, unvalidated, with 0.5, and no further one is asked for.
func TestQ00206ABrokenJudgeBurnsNoAttempts(t *testing.T) {
	for name, judge := range map[string]func(int, llm.Request) llmtest.Turn{
		"an error":   errs(llm.Failure{Code: pawl.CodeUnavailable, Text: "down", After: -1}.Fault()),
		"prose":      always("I like it. Score: 90 out of 100."),
		"out of it":  always(`{"relevance":90,"helpfulness":25,"accuracy":25,"completeness":25,"feedback":""}`),
		"incomplete": always(`{"relevance":20,"feedback":"fine"}`),
		"cut": func(int, llm.Request) llmtest.Turn {
			return llmtest.Say(judgement(90)).Ends(llm.FinishLength)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &actor{judge: judge}
			r := play(t, m.agent(), Plan{})
			o := r.Output
			if len(m.asked) != 1 || o.Confidence != 0.5 || o.Status != "completed_with_errors" || !o.Success || o.Content != goodReply {
				t.Errorf("%d replies, %+v", len(m.asked), o)
			}
			if o.Metadata.ValidationFeedback != "validator unavailable" || o.Metadata.IsValidated || o.Metadata.LowConfidence || len(o.Metadata.Errors) != 2 {
				t.Errorf("%+v", o.Metadata)
			}
			same(t, o.Metadata.ExecutionSteps, nodes("ibcvf"))
		})
	}
}

// Q-002-10: another model may judge, and it is asked as a judge is.
func TestQ00210AnotherJudge(t *testing.T) {
	writer, judge := &actor{judge: scores(0)}, &actor{judge: scores(88)}
	a := writer.agent()
	first, second := writer.model(), judge.model()
	a.Models = func(alias string) (llm.Model, error) {
		if alias == AliasJudge {
			return second, nil
		}
		return first, nil
	}
	r := play(t, a, Plan{})
	if len(writer.judged) != 0 || len(judge.judged) != 1 || r.Output.Confidence != 0.766 {
		t.Errorf("%d %d %+v", len(writer.judged), len(judge.judged), r.Output)
	}
	q := judge.judged[0]
	if *q.Temperature != 0.3 || !strings.Contains(q.Messages[0].Text(), goodReply) || !strings.Contains(q.Messages[0].Text(), question) {
		t.Errorf("%+v", q)
	}
}

// R-002-19, R-002-36, R-002-37, Q-002-07: a fallback stands in place of a low-confidence reply; the agent still gets the score and the
// reply.
func TestR00236Fallback(t *testing.T) {
	m := &actor{judge: scores(85)}
	o := play(t, m.agent(), Plan{}).Output
	if o.Content != Generic("") || o.Confidence != 0.745 || !o.Success || o.Status != "completed_with_errors" {
		t.Errorf("%+v", o)
	}
	if d := o.Metadata; !d.LowConfidence || d.OriginalConfidence != 0.745 || d.OriginalResponse != goodReply || len(d.Errors) != 1 || !strings.Contains(d.Errors[0], "low confidence 0.745 after 5 attempts") {
		t.Errorf("%+v", d)
	}
}

// R-002-38, S-002-07: the agent's own fallback speaks by what was asked.
func TestR00238ContextFallback(t *testing.T) {
	m := &actor{judge: scores(0)}
	a := m.agent()
	a.Fallback = ContextFallback
	if o := play(t, a, Plan{Question: "Why am I so lonely?"}).Output; o.Content != ContextFallback("I am lonely") || o.Content == Generic("") {
		t.Errorf("%+v", o)
	}
	classes := map[string][]string{}
	for q, class := range map[string]string{
		"I feel so SAD today": "emotional", "I'm worried about what comes": "emotional", "How do plants grow?": "asking", "Explain the tides": "asking",
		"what?": "asking", strings.Repeat("word ", 51): "long", strings.Repeat("word ", 50): "generic", "Tell me a story": "generic", "Somehow and whatever": "generic", "": "generic",
	} {
		classes[class] = append(classes[class], ContextFallback(q))
	}
	seen := map[string]string{}
	for class, texts := range classes {
		for _, text := range texts {
			if text != texts[0] || seen[text] != "" && seen[text] != class {
				t.Errorf("%s: %q", class, text)
			}
			seen[text] = class
		}
	}
	if classes["generic"][0] != Generic("") || len(seen) != 4 {
		t.Errorf("%+v", classes)
	}
}

// R-002-21, R-002-23: the keys of a result, and what agrees in it.
func TestR00221TheResult(t *testing.T) {
	r := play(t, (&actor{}).agent(), Plan{})
	var out map[string]json.RawMessage
	if err := json.Unmarshal(r.Run.Output, &out); err != nil {
		t.Fatal(err)
	}
	var metadata map[string]json.RawMessage
	if err := json.Unmarshal(out["metadata"], &metadata); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"success": "true", "content": `"` + goodReply + `"`, "confidence": "0.85", "status": `"completed"`, "execution_id": `"` + r.Run.ID + `"`} {
		if string(out[key]) != want {
			t.Errorf("%s: %s, want %s", key, out[key], want)
		}
	}
	for key, want := range map[string]string{"confidence_score": "0.85", "validation_attempts": "1", "errors": "[]"} {
		if string(metadata[key]) != want {
			t.Errorf("metadata.%s: %s, want %s", key, metadata[key], want)
		}
	}
	if len(out["execution_plan"]) == 0 || len(metadata["execution_steps"]) == 0 || len(metadata["duration_seconds"]) == 0 {
		t.Errorf("%s", r.Run.Output)
	}
}

// R-002-42: a run that fails has its output, with success false, and its error with the stack in the step log.
func TestR00242ARunThatFails(t *testing.T) {
	a := (&actor{}).agent()
	models := a.Models
	a.Models = func(alias string) (llm.Model, error) {
		if alias == AliasJudge {
			panic("the judge is gone")
		}
		return models(alias)
	}
	r := play(t, a, Plan{})
	o := r.Output
	if r.Run.Status != pawl.StatusFailed || o.Success || o.Status != "failed" || o.Content != "" || o.Metadata.Error == nil || o.Metadata.Error.Code != pawl.CodeInternal {
		t.Fatalf("%s %+v", r.Run.Status, o)
	}
	if !strings.Contains(o.Metadata.Error.Text, "the judge is gone") || strings.Contains(o.Metadata.Error.Text, "goroutine") {
		t.Errorf("%s", o.Metadata.Error.Text)
	}
	same(t, o.Metadata.ExecutionSteps, nodes("ibcv"))
	stack := false
	for _, s := range r.Steps {
		stack = stack || strings.Contains(string(s.Payload), "validate.go")
	}
	if !stack {
		t.Error("no step has the stack")
	}
}

// A model that was there when the run began and is not any more fails the run: no other attempt would find it.
func TestAModelThatIsGone(t *testing.T) {
	n := 0
	a := (&actor{}).agent()
	models := a.Models
	a.Models = func(alias string) (llm.Model, error) {
		if n++; n > 1 {
			return nil, unset()
		}
		return models(alias)
	}
	r := pawltest.Run(t, Graph(a), Plan{Question: question}, pawltest.Script{})
	if r.Run.Status != pawl.StatusFailed || r.Run.Err == nil || r.Run.Err.Code != llm.CodeUnset || r.Output.Metadata.Error.Code != llm.CodeUnset {
		t.Errorf("%+v %+v", r.Run, r.Output)
	}
}

// R-002-39, R-002-40, R-002-41: every step has its state and its time, and the reply, the score and the search are steps of their own.
func TestR00239EveryStepIsTraced(t *testing.T) {
	m := &actor{reply: func(int, llm.Request) llmtest.Turn { time.Sleep(3 * time.Second); return llmtest.Say(goodReply) },
		judge: func(int, llm.Request) llmtest.Turn { time.Sleep(2 * time.Second); return llmtest.Say(judgement(90)) }}
	a := m.agent()
	a.Knowledge = slow{}
	r := play(t, a, Plan{})
	took := map[string]int64{}
	for _, s := range r.Steps {
		if s.Edge != "" && s.Name == s.StateBefore {
			took[s.Name] += s.DurationMS
			if s.Hash == "" {
				t.Errorf("%s has no state", s.Name)
			}
		}
	}
	if took["query_data_sources"] != 1000 || took["call_provider"] != 3000 || took["validate_response"] != 2000 || r.Output.Metadata.DurationSeconds != 6 {
		t.Errorf("%v %v", took, r.Output.Metadata.DurationSeconds)
	}
	for _, c := range r.Calls {
		if len(c.For) == 0 || len(c.Result) == 0 {
			t.Errorf("%s is recorded without its request or its result", c.Key)
		}
	}
	if len(r.Calls) != 3 || len(r.Emitted(EventValidated)) != 1 || !strings.Contains(r.Emitted(EventValidated)[0], `"confidence":0.78`) {
		t.Errorf("%+v", r.Calls)
	}
}
