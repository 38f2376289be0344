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

// TestGenerateTriesAgainByItself: three tries by default, waiting as long as the provider says, and the node's own retries are not spent
// on it as well.
func TestGenerateTriesAgainByItself(t *testing.T) {
	for name, c := range map[string]struct {
		turns []llmtest.Turn
		o     llm.Options
		code  string
		asked int
		least time.Duration
	}{
		"a limit, and its end":     {[]llmtest.Turn{wait(llm.CodeRateLimited, 20*time.Second), llmtest.Say("hi")}, llm.Options{}, "", 2, 20 * time.Second},
		"an outage that stays":     {[]llmtest.Turn{llmtest.Fail(pawl.CodeUnavailable), llmtest.Fail(pawl.CodeUnavailable), llmtest.Fail(pawl.CodeUnavailable)}, llm.Options{}, pawl.CodeUnavailable, 3, 2 * time.Second},
		"what would only fail":     {[]llmtest.Turn{llmtest.Fail(llm.CodeRetired)}, llm.Options{}, llm.CodeRetired, 1, 0},
		"a quota":                  {[]llmtest.Turn{llmtest.Fail(llm.CodeQuota)}, llm.Options{}, llm.CodeQuota, 1, 0},
		"the node's own retries":   {[]llmtest.Turn{llmtest.Fail(pawl.CodeUnavailable), llmtest.Fail(pawl.CodeUnavailable), llmtest.Say("hi")}, llm.Options{Retry: pawl.Retry{Max: -1}}, "", 3, time.Second},
		"no answer in two minutes": {[]llmtest.Turn{{Hang: true}, llmtest.Say("hi")}, llm.Options{}, "", 2, 2 * time.Minute},
	} {
		m := llmtest.Turns(c.turns...)
		var code string
		r := pawltest.Run(t, single(func(ctx context.Context, _ string) (string, error) {
			resp, err := llm.Generate(ctx, "g", m, question, c.o)
			code = llm.Code(err)
			return resp.Message.Text(), err
		}, pawl.Options{Retry: pawl.Retry{Max: 5, First: time.Second}}), "", pawltest.Script{})
		if code != c.code || len(m.Requests()) != c.asked || r.Took < c.least || c.code == "" && r.Output != "hi" {
			t.Errorf("%s: code %q, %q after %d attempts and %s; %v", name, code, r.Output, len(m.Requests()), r.Took, r.Run.Err)
		}
	}
}

// TestGenerateIsRecorded: after a crash the response is read, also one of which parts are odd.
func TestGenerateIsRecorded(t *testing.T) {
	odd := llmtest.Say("caf\xe9 \x00").And("1", "add", `{"n":12345678901234567890}`).And("2", "add", `{"n":`).And("3", "add", "").And("4", "add", `{"n":"\u0000","n\ud800":1}`).
		And("5", "add", "\xff").And("6", "add", `{"n":1,"n":2}`)
	for _, streamed := range []string{"", "text"} {
		m := llmtest.Func(func(int, llm.Request) llmtest.Turn { return odd })
		g := single(func(ctx context.Context, _ string) (string, error) {
			resp, err := llm.Generate(ctx, "g", m, question, llm.Options{Deltas: streamed})
			if err != nil {
				return "", err
			}
			out := resp.Message.Text()
			for _, c := range resp.Message.Calls() {
				out += " " + string(c.Arguments)
			}
			return out, nil
		})
		const want = "caf\ufffd \x00 {\"n\":12345678901234567890} \"{\\\"n\\\":\" {} {\"n\":\"\ufffd\",\"n\ufffd\":1} \"\ufffd\" \"{\\\"n\\\":1,\\\"n\\\":2}\""
		if r := pawltest.EveryCrash(t, g, "", pawltest.Script{}); r.Output != want {
			t.Errorf("%q, want %q; %v", r.Output, want, r.Run.Err)
		}
	}
}

// TestGenerateShowsNoPictures: the record of a request has a picture's hash, and another picture under the same key is refused.
func TestGenerateShowsNoPictures(t *testing.T) {
	picture := func(data string) llm.Request {
		return llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{{Text: "what is it?"}, {Image: &llm.Image{Type: "image/png", Data: []byte(data)}}}}}}
	}
	m := llmtest.Func(func(_ int, r llm.Request) llmtest.Turn { return llmtest.Say(string(r.Messages[0].Parts[1].Image.Data)) })
	execution := 0
	r := pawltest.Run(t, single(func(ctx context.Context, _ string) (string, error) {
		execution++
		data := "secret bytes"
		if execution > 1 {
			data = "other bytes"
		}
		resp, err := llm.Generate(ctx, "g", m, picture(data))
		if err != nil {
			return "", err
		}
		return resp.Message.Text(), pawl.Sleep(ctx, "s", time.Hour)
	}), "", pawltest.Script{})
	if len(m.Requests()) != 1 || r.Run.Err == nil || !strings.Contains(r.Run.Err.Error(), "for another request") {
		t.Errorf("%d attempts, %q, %v", len(m.Requests()), r.Output, r.Run.Err)
	}
	b, err := json.Marshal(r.Calls[0])
	if err != nil || strings.Contains(string(b), "c2VjcmV0IGJ5dGVz") || !strings.Contains(string(b), "image/png sha256:") {
		t.Errorf("recorded is %s, %v", b, err)
	}
}

func TestGenerateOutsideARun(t *testing.T) {
	m := llmtest.Turns(llmtest.Turn{Pieces: []string{"a", "b"}})
	resp, err := llm.Generate(t.Context(), "g", llm.Metered(m, llm.Price{Input: pawl.Dollars(1)}), question, llm.Options{Deltas: "text"})
	if err != nil || resp.Message.Text() != "ab" {
		t.Errorf("%+v, %v", resp, err)
	}
	if _, err := llm.Generate(t.Context(), "g", m, question); err == nil || errors.Is(err, pawl.ErrNotRunning) {
		t.Errorf("the script is over: %v", err)
	}
}
