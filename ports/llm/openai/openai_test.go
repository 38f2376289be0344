package openai_test

import (
	"flag"
	"path/filepath"
	"testing"

	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
	"pawl/ports/llm/openai"
)

var update = flag.Bool("update", false, "write the golden files anew")

var dialects = map[string]openai.Dialect{"own": openai.Own, "compatible": openai.Compatible, "workers-ai": openai.WorkersAI}

// TestLaw: whoever speaks like OpenAI, Workers AI too, and Gemini are behind one contract (R-000-07).
func TestLaw(t *testing.T) {
	t.Parallel()
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) { llmtest.Run(t, wire(d)) })
	}
}

// TestGolden: what is sent for a request that has everything, to the byte.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, d := range dialects {
		p := llmtest.NewProvider(t, wire(d)).Play(llmtest.Scene{Answer: llm.Response{Finish: llm.FinishStop}})
		m := p.Model(llmtest.Setup{})
		r := llmtest.Everything()
		if _, err := m.Generate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		r.Format = nil
		if _, err := m.Stream(t.Context(), r, func(llm.Delta) {}); err != nil {
			t.Fatal(err)
		}
		h := p.Heard()
		llmtest.Golden(t, filepath.Join("testdata", name+".json"), h[0].Body, *update)
		llmtest.Golden(t, filepath.Join("testdata", name+"-stream.json"), h[1].Body, *update)
	}
}
