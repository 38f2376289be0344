package llm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pawl"
	"pawl/pawltest"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
	"pgregory.net/rapid"
)

// talk is a conversation of n turns of a user and an assistant, who uses a tool in every second one.
func talk(turns int) (out []llm.Message) {
	for i := range turns {
		out = append(out, llm.Text(llm.RoleUser, fmt.Sprintf("question %d", i)))
		if i%2 == 1 {
			out = append(out, used(i)...)
		}
		out = append(out, llm.Text(llm.RoleAssistant, fmt.Sprintf("answer %d", i)))
	}
	return out
}

// used is a call of a tool and its result.
func used(i int) []llm.Message {
	id := fmt.Sprint(i)
	return []llm.Message{
		{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: id, Name: "add", Arguments: json.RawMessage(`{}`)}}}},
		{Role: llm.RoleTool, Parts: []llm.Part{{Result: &llm.ToolResult{ID: id, Name: "add", Text: "result " + id}}}},
	}
}

func texts(messages []llm.Message) string {
	var out []string
	for _, m := range messages {
		text := string(m.Role) + ":"
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				text += " call " + p.Call.ID
			case p.Result != nil:
				text += " " + p.Result.Text
			default:
				text += " " + p.Text
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, " | ")
}

func TestCompressLeavesOutWhatIsOld(t *testing.T) {
	for _, c := range []struct {
		messages []llm.Message
		c        llm.Compression
		want     string
	}{
		{talk(2), llm.Compression{Above: 6, Keep: 2}, texts(talk(2))},
		{talk(4), llm.Compression{Above: 6, Keep: 3}, "user: [Earlier messages left out: 8] question 3 | assistant: call 3 | tool: result 3 | assistant: answer 3"},
		{talk(4), llm.Compression{Above: 6, Keep: 2}, "user: [Earlier messages left out: 8] question 3 | assistant: call 3 | tool: result 3 | assistant: answer 3"},
		{talk(4), llm.Compression{Above: 6, Keep: 4}, "user: [Earlier messages left out: 8] question 3 | assistant: call 3 | tool: result 3 | assistant: answer 3"},
		{talk(4), llm.Compression{Above: 6, Keep: 5},
			"user: [Earlier messages left out: 7] | assistant: answer 2 | user: question 3 | assistant: call 3 | tool: result 3 | assistant: answer 3"},
		{talk(4), llm.Compression{Above: 6, Keep: 50}, texts(talk(4))},
		{talk(40), llm.Compression{Above: -1, Keep: 2}, texts(talk(40))},
		{talk(26), llm.Compression{}, texts(talk(26))}, // 78 messages
	} {
		before := texts(c.messages)
		got, err := llm.Compress(t.Context(), "history", c.messages, c.c)
		if err != nil || texts(got) != c.want {
			t.Errorf("%+v: %s, %v\nwant %s", c.c, texts(got), err, c.want)
		}
		if texts(c.messages) != before {
			t.Error("the caller's conversation was changed")
		}
		accepted(t, got)
	}
	got, err := llm.Compress(t.Context(), "history", talk(27), llm.Compression{}) // 80 messages, and one more
	if err != nil || len(got) != 80 {
		t.Errorf("%d messages, %v", len(got), err)
	}
	got, err = llm.Compress(t.Context(), "history", append(talk(27), llm.Text(llm.RoleUser, "and?")), llm.Compression{})
	if err != nil || len(got) < 20 || len(got) > 22 || got[0].Parts[0].Text != "[Earlier messages left out: 61]" {
		t.Errorf("%d messages, %v, %s", len(got), err, texts(got[:1]))
	}
}

// TestCompressKeepsWhatProvidersAsk: whatever the conversation, what is left of it is taken, has the end and what was asked last.
func TestCompressKeepsWhatProvidersAsk(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		messages := []llm.Message{llm.Text(llm.RoleUser, "question")}
		for i := range rapid.IntRange(0, 60).Draw(r, "turns") {
			switch rapid.IntRange(0, 3).Draw(r, "what") {
			case 0:
				messages = append(messages, llm.Text(llm.RoleUser, fmt.Sprintf("question %d", i)))
			case 1:
				messages = append(messages, llm.Text(llm.RoleAssistant, "answer"))
			default:
				messages = append(messages, used(i)...)
			}
		}
		c := llm.Compression{Above: rapid.IntRange(1, 40).Draw(r, "above"), Keep: rapid.IntRange(1, 40).Draw(r, "keep")}
		got := messages
		for range 3 { // again and again, as a loop does
			var err error
			if got, err = llm.Compress(t.Context(), "history", got, c); err != nil {
				r.Fatal(err)
			}
		}
		accepted(t, got)
		if len(got) > max(c.Above, c.Keep+2) {
			r.Fatalf("%d messages are left of %d by %+v", len(got), len(messages), c)
		}
		if len(got) >= 1 && strings.Count(texts(got), "left out") > 1 {
			r.Fatalf("it is said twice: %s", texts(got))
		}
		last := ""
		for _, m := range messages {
			if m.Role == llm.RoleUser {
				last = m.Parts[0].Text
			}
		}
		if !strings.Contains(texts(got)+" ", last+" ") || texts(got[len(got)-1:]) != texts(messages[len(messages)-1:]) && len(got) > 1 {
			r.Fatalf("%q is lost, or the end: %s", last, texts(got))
		}
	})
}

// TestCompressSummarizes: the summary is a recorded call, whose material is what is left out; where none can be had, the run goes on.
func TestCompressSummarizes(t *testing.T) {
	play := func(turn llmtest.Turn) (string, *pawltest.Result[string], *llmtest.Script) {
		m := llmtest.Func(func(int, llm.Request) llmtest.Turn { return turn })
		g := single(func(ctx context.Context, _ string) (string, error) {
			got, err := llm.Compress(ctx, "history", talk(4), llm.Compression{Above: 6, Keep: 3, Summarize: llm.Metered(m, llm.Price{})})
			return texts(got[:1]), err
		}, pawl.Options{Budget: pawl.Budget{llm.MeterCalls: 10}})
		r := pawltest.Run(t, g, "", pawltest.Script{Replay: true})
		return r.Output, r, m
	}
	said, r, m := play(llmtest.Say("They talked about numbers."))
	if said != "user: [Earlier messages left out: 8. A summary of them:]\nThey talked about numbers. question 3" || r.Meter(llm.MeterCalls) != 1 {
		t.Errorf("%s (%v)", said, r.Run.Err)
	}
	if got := m.Requests()[0].Messages[0].Text(); got != "user: question 0\nassistant: answer 0\nuser: question 1\nassistant calls add: {}\ntool add: result 1\nassistant: answer 1\nuser: question 2\nassistant: answer 2\n" {
		t.Errorf("the material is %s", got)
	}
	if n := notes(r, "history_compressed"); len(n) != 1 || n[0] != `{"by":"summary","left_out":8,"messages":12}` {
		t.Errorf("noted %s", n)
	}
	for _, turn := range []llmtest.Turn{llmtest.Fail(llm.CodeQuota), llmtest.Say("").Ends(llm.FinishRefused), llmtest.Say(" ")} {
		said, r, _ := play(turn)
		if n := notes(r, "history_compressed"); said != "user: [Earlier messages left out: 8] question 3" || len(n) != 1 || !strings.Contains(n[0], `"by":"drop"`) || !strings.Contains(n[0], `"why":`) {
			t.Errorf("%s (%v), noted %s", said, r.Run.Err, n)
		}
	}
}

// TestASummaryIsSummarizedAgain: what was known of the beginning goes from one summary into the next.
func TestASummaryIsSummarizedAgain(t *testing.T) {
	m := llmtest.Turns(llmtest.Say("The code is 4711."), llmtest.Say("Again: the code is 4711."))
	messages := []llm.Message{llm.Text(llm.RoleUser, "What is the code?")}
	for i := range 2 {
		for j := range 10 {
			messages = append(messages, used(10*i+j)...)
		}
		var err error
		if messages, err = llm.Compress(t.Context(), "history", messages, llm.Compression{Above: 10, Keep: 4, Summarize: m}); err != nil {
			t.Fatal(err)
		}
		accepted(t, messages)
	}
	if got := m.Requests()[1].Messages[0].Text(); !strings.Contains(got, "The code is 4711.") {
		t.Errorf("the first summary is lost: %s", got)
	}
	if got := messages[0].Text(); strings.Count(got, "left out") != 1 || !strings.HasSuffix(got, "Again: the code is 4711.What is the code?") {
		t.Errorf("it begins with %s", got)
	}
}

// TestLoopCompressesItsHistory: a loop that goes on for long asks with a short conversation.
func TestLoopCompressesItsHistory(t *testing.T) {
	longest := 0
	m := llmtest.Func(func(n int, r llm.Request) llmtest.Turn {
		accepted(t, r.Messages)
		longest = max(longest, len(r.Messages))
		if !strings.Contains(r.Messages[0].Text(), "What is it?") || r.System != "Be short." {
			t.Errorf("request %d has lost the question: %s", n, texts(r.Messages[:1]))
		}
		if n == 30 {
			return llmtest.Say("done")
		}
		return llmtest.Ask(fmt.Sprint(n), "add", fmt.Sprintf(`{"n":%d}`, n))
	})
	out, err := llm.Loop(t.Context(), "loop", m, llm.Request{System: "Be short.", Messages: []llm.Message{llm.Text(llm.RoleUser, "What is it?")}}, standard,
		llm.LoopOptions{Rounds: 40, History: llm.Compression{Above: 10, Keep: 4}})
	if err != nil || out.Stop != llm.StopAnswered || out.Calls != 30 || longest > 10 {
		t.Errorf("%s after %d calls, %v; %d messages", out.Stop, out.Calls, err, longest)
	}
	accepted(t, out.Messages)
}
