package openai_test

import (
	"strings"
	"testing"

	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
	"pawl/ports/llm/openai"
)

// TestCase8FallbackInMidStream: what was shown of an attempt that broke off is taken back before the next one begins, and the answer
// is of one attempt only.
func TestCase8FallbackInMidStream(t *testing.T) {
	t.Parallel()
	text := "One, two, three, four, five."
	for _, broken := range []llmtest.Scene{{Cut: true}, {Midway: true}} {
		broken.Answer = llm.Response{Finish: llm.FinishStop, Message: llm.Text(llm.RoleAssistant, "Uno, dos, tres, cuatro.")}
		first := llmtest.NewProvider(t, wire(openai.Own)).Play(broken)
		second := llmtest.NewProvider(t, wire(openai.Own)).Play(llmtest.Scene{
			Answer: llm.Response{Finish: llm.FinishStop, Message: llm.Text(llm.RoleAssistant, text)},
		})
		var all, shown strings.Builder
		voids := 0
		m := llm.Chain(first.Model(llmtest.Setup{Name: "a"}), second.Model(llmtest.Setup{Name: "b"}))
		got, err := m.Stream(t.Context(), llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "Count!")}}, func(d llm.Delta) {
			if d.Void {
				voids++
				shown.Reset()
			}
			all.WriteString(d.Text)
			shown.WriteString(d.Text)
		})
		if err != nil || got.Message.Text() != text || got.From.Model != "b" || shown.String() != text || voids != 1 || !strings.HasPrefix(all.String(), "Uno") {
			t.Errorf("%+v, %v; shown %q of %q, taken back %d times", got, err, shown.String(), all.String(), voids)
		}
		if len(first.Heard()) != 1 || len(second.Heard()) != 1 {
			t.Errorf("asked %d and %d times", len(first.Heard()), len(second.Heard()))
		}
	}
}
