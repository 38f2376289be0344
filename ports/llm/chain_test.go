package llm_test

import (
	"context"
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

func named(name string, turns ...llmtest.Turn) *llmtest.Script {
	s := llmtest.Turns(turns...)
	s.Name = llm.Ref{Provider: name, Model: "m"}
	return s
}

func wait(code string, d time.Duration) llmtest.Turn {
	return llmtest.Turn{Err: llm.Failure{Ref: llm.Ref{Provider: "p", Model: "m"}, Code: code, Status: 429, Text: "slow down", After: d}.Fault()}
}

// TestChainGoesOnWhereTheCausePasses, and only there: another model is no way around a refusal or a bill.
func TestChainGoesOnWhereTheCausePasses(t *testing.T) {
	for code, next := range map[string]bool{
		llm.CodeRateLimited: true, pawl.CodeTimeout: true, pawl.CodeUnavailable: true,
		llm.CodeQuota: false, llm.CodeRetired: false, llm.CodeRefused: false, llm.CodeTooLong: false, pawl.CodeInvalid: false, pawl.CodeForbidden: false,
	} {
		first, second := named("first", llmtest.Fail(code)), named("second", llmtest.Say("hi"))
		m := llm.Chain(first, second)
		resp, err := m.Generate(t.Context(), question)
		if next && (err != nil || resp.From.Provider != "second") || !next && (llm.Code(err) != code || len(second.Requests()) > 0) {
			t.Errorf("%s: %+v, %v", code, resp, err)
		}
		if _, again := pawl.Retryable(err); err != nil && again {
			t.Errorf("%s may be tried again", code)
		}
		if m.Ref() != first.Ref() {
			t.Errorf("the chain is called %s", m.Ref())
		}
	}
	second := named("second", llmtest.Say("hi"))
	page := named("first", llmtest.Say("<html><h1>502 Bad Gateway</h1></html>"))
	r := question
	r.Format = &llm.Format{Name: "x", Schema: []byte(`{}`)}
	if resp, err := llm.Chain(page, second).Generate(t.Context(), r); err != nil || resp.From.Provider != "second" {
		t.Errorf("a gateway's page: %+v, %v", resp, err)
	}
}

// TestChainThatFails has the code of the first failure and the shortest wait that one of its models wants.
func TestChainThatFails(t *testing.T) {
	m := llm.Chain(named("a", wait(llm.CodeRateLimited, time.Minute)), named("b", wait(pawl.CodeUnavailable, 20*time.Second)), named("c", llmtest.Fail(pawl.CodeTimeout)))
	_, err := m.Generate(t.Context(), question)
	after, again := pawl.Retryable(err)
	if llm.Code(err) != llm.CodeRateLimited || !again || after != 20*time.Second || strings.Count(err.Error(), "; then ") != 2 {
		t.Errorf("%v, after %s, again %t", err, after, again)
	}
	_, err = llm.Chain(named("a", llmtest.Fail(pawl.CodeTimeout)), named("b", llmtest.Fail(llm.CodeQuota))).Generate(t.Context(), question)
	if _, again := pawl.Retryable(err); llm.Code(err) != pawl.CodeTimeout || !again {
		t.Errorf("the first may be better by then: %v", err)
	}
	if one := named("a"); llm.Chain(one) != llm.Model(one) {
		t.Error("a chain of one is more than that one")
	}
}

// TestChainVoidsWhatItStreamed: the watcher hears that the half of the first is void, and the answer is of one model only.
func TestChainVoidsWhatItStreamed(t *testing.T) {
	m := llm.Chain(named("a", llmtest.Fail(pawl.CodeUnavailable, "one ", "two ")), named("b", llmtest.Fail(pawl.CodeUnavailable)), named("c", llmtest.Turn{Pieces: []string{"un ", "deux"}}))
	var heard []string
	resp, err := m.Stream(t.Context(), question, func(d llm.Delta) {
		if d.Void {
			heard = nil
		}
		heard = append(heard, d.Text)
	})
	if err != nil || resp.Message.Text() != "un deux" || strings.Join(heard, "") != "un deux" {
		t.Errorf("%q, %q, %v", resp.Message.Text(), heard, err)
	}
}

// TestChainEndsWithTheRun: a spent budget, a cancelled context and a stranger's error go to no other model.
func TestChainEndsWithTheRun(t *testing.T) {
	second := named("second", llmtest.Say("hi"))
	for _, err := range []error{&pawl.BudgetError{Meter: "llm"}, errors.New("a bug"), pawl.ErrFenced} {
		if _, got := llm.Chain(named("first", llmtest.Turn{Err: err}), second).Generate(t.Context(), question); !errors.Is(got, err) || len(second.Requests()) > 0 {
			t.Errorf("%v: %v", err, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := llmtest.Func(func(int, llm.Request) llmtest.Turn {
		cancel()
		return llmtest.Fail(pawl.CodeUnavailable)
	})
	if _, err := llm.Chain(first, second).Generate(ctx, question); err == nil || len(second.Requests()) > 0 {
		t.Error(err)
	}
}

// TestChainIsRecorded: who answered in whose place stands at the call.
func TestChainIsRecorded(t *testing.T) {
	m := llm.Chain(named("first", llmtest.Fail(pawl.CodeUnavailable)), named("second", llmtest.Say("hi")))
	r := pawltest.Run(t, single(func(ctx context.Context, _ string) (string, error) {
		resp, err := llm.Generate(ctx, "g", m, question)
		return resp.From.String(), err
	}), "", pawltest.Script{})
	if r.Output != "second/m" || len(r.Calls) != 1 {
		t.Fatalf("%s, %+v, %v", r.Output, r.Calls, r.Run.Err)
	}
	attrs, err := json.Marshal(r.Calls[0].Attrs)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"fallback":"second/m"`, `"fallback_from":"script/script: as the script says"`, `"gen_ai.request.model":"m"`, `"gen_ai.provider.name":"first"`,
		`"gen_ai.usage.input_tokens":10`, `"gen_ai.response.finish_reasons":"stop"`} {
		if !strings.Contains(string(attrs), want) {
			t.Errorf("%s is not in %s", want, attrs)
		}
	}
}

// TestChainsModelsHaveTheirOwnTime: one that says nothing leaves the next one its own, and is asked first again at the next try.
func TestChainsModelsHaveTheirOwnTime(t *testing.T) {
	silent := llmtest.Turn{Hang: true}
	for _, deltas := range []string{"", "text"} {
		first, second := named("first", silent, silent), named("second", silent, llmtest.Say("hi"))
		r := pawltest.Run(t, single(func(ctx context.Context, _ string) (string, error) {
			resp, err := llm.Generate(ctx, "g", llm.Chain(first, second), question, llm.Options{Timeout: 30 * time.Second, Deltas: deltas})
			return resp.From.String(), err
		}), "", pawltest.Script{})
		if r.Output != "second/m" || len(first.Requests()) != 2 || len(second.Requests()) != 2 {
			t.Errorf("%s, asked %d and %d times, %v", r.Output, len(first.Requests()), len(second.Requests()), r.Run.Err)
		}
	}
}
