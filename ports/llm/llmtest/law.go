package llmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"pawl/ports/llm"
)

// Run holds a vendor to the law.
func Run(t *testing.T, w Wire) {
	for _, c := range []struct {
		name, why string
		law       func(*testing.T, *Provider)
	}{
		{"answers", "what the model said, who it was, why it ended and what it took arrive, whole and streamed alike", answers},
		{"finish reasons", "text that is not a whole answer has to say so", finishReasons},
		{"tool calls", "what a model asks for arrives in order, with its arguments, also where it says something beside", toolCalls},
		{"history", "everything that was said before reaches the model as it was", history},
		{"images", "a picture reaches the model as its bytes", images},
		{"settings", "what a request sets is sent, and what it does not set is not", settings},
		{"schema", "the form that is wanted is the vendor's to keep to, not only the prompt's", schema},
		{"any text", "no text is syntax", anyText},
		{"request unchanged", "whoever asks may ask again with the same request", requestUnchanged},
		{"concurrent", "a model may be asked by many at once", concurrent},
		{"stream order", "the pieces are the text, in order, and none comes after the end", streamOrder},
		{"refusals", "each failure has its code, which says whether another attempt could help", refusals},
		{"statuses", "also a refusal without the vendor's words", statuses},
		{"one attempt", "retries belong to the engine, which counts them", oneAttempt},
		{"retry after", "a provider that wants to be left alone is, by its own clock", retryAfter},
		{"cancelled", "a call that nobody wants any more ends at once", cancelled},
		{"deadline", "a call whose time is up says so", deadline},
		{"silent", "a provider that says nothing, or nothing more, does not hold a run for ever", silent},
		{"broken off", "half an answer is none", brokenOff},
		{"midway", "an error in a stream is an error", midway},
		{"gateway", "a page with status 200 is not an answer", gateway},
		{"flood", "no answer takes all the memory", flood},
		{"unreachable", "nobody there is an outage", unreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.law(t, NewProvider(t, w))
			if t.Failed() {
				t.Log("law:", c.why)
			}
		})
	}
}

// ways are the two in which a model is asked.
var ways = []struct {
	name string
	ask  func(ctx context.Context, m llm.Model, r llm.Request) (llm.Response, error)
}{
	{"whole", func(ctx context.Context, m llm.Model, r llm.Request) (llm.Response, error) { return m.Generate(ctx, r) }},
	{"streamed", func(ctx context.Context, m llm.Model, r llm.Request) (llm.Response, error) {
		return m.Stream(ctx, r, func(llm.Delta) {})
	}},
}

func both(t *testing.T, f func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error))) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) { f(t, w.ask) })
	}
}

func hello() llm.Request {
	return llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "Hello?")}}
}

func said(text string) llm.Response {
	return llm.Response{
		ID: "id-1", Model: "some/model-2026", Message: llm.Text(llm.RoleAssistant, text), Finish: llm.FinishStop,
		Usage: llm.Usage{Input: 11, Output: 7},
	}
}

func answers(t *testing.T, p *Provider) {
	want := said("Good morning, all of you.")
	want.Usage = llm.Usage{Input: 21, Output: 17, Cached: 4, Thoughts: 5}
	p.Play(Scene{Answer: want})
	want.From = llm.Ref{Provider: p.wire.Provider, Model: "some/model:1"}
	m := p.Model(Setup{})
	if m.Ref() != want.From {
		t.Errorf("it is called %v", m.Ref())
	}
	if shown := fmt.Sprintf("%v %+v %#v", m, m, m); strings.Contains(shown, Key) {
		t.Errorf("a model that is printed tells the key: %s", shown)
	}
	both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
		got, err := ask(t.Context(), m, hello())
		if err != nil {
			t.Fatal(err)
		}
		if p.wire.NoThoughts {
			got.Usage.Thoughts = want.Usage.Thoughts
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
	heard := p.Heard()
	if len(heard) != 2 || heard[0].Stream || !heard[1].Stream || heard[0].Model != "some/model:1" {
		t.Errorf("%+v", heard)
	}
}

func finishReasons(t *testing.T, p *Provider) {
	for _, finish := range []llm.Finish{llm.FinishStop, llm.FinishLength, llm.FinishRefused, llm.FinishOther} {
		t.Run(string(finish), func(t *testing.T) {
			a := said("I think that")
			a.Finish = finish
			p.Play(Scene{Answer: a})
			both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
				got, err := ask(t.Context(), p.Model(Setup{}), hello())
				if err != nil || got.Finish != finish || got.Message.Text() != "I think that" || got.Usage != a.Usage {
					t.Errorf("%+v, %v", got, err)
				}
			})
		})
	}
}

func tools() []llm.Tool {
	return []llm.Tool{
		{Name: "look_up", Description: "Finds a word", Schema: json.RawMessage(`{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}`)},
		{Name: "now", Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
	}
}

func toolCalls(t *testing.T, p *Provider) {
	a := said("Let me see.")
	a.Finish = llm.FinishCalls
	a.Message.Parts = append(a.Message.Parts,
		llm.Part{Call: &llm.ToolCall{ID: "call_1", Name: "look_up", Arguments: json.RawMessage(`{"word":"pawl — \"лапа\"","n":[1,2.50]}`)}},
		llm.Part{Call: &llm.ToolCall{ID: "call_2", Name: "now", Arguments: json.RawMessage(`{}`)}},
	)
	p.Play(Scene{Answer: a})
	r := hello()
	r.Tools = tools()
	both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
		got, err := ask(t.Context(), p.Model(Setup{}), r)
		if err != nil || got.Finish != llm.FinishCalls {
			t.Fatalf("%+v, %v", got, err)
		}
		if g, w := flat(got.Message), flat(a.Message); !slices.Equal(g, w) {
			t.Errorf("got  %q\nwant %q", g, w)
		}
	})
	for _, h := range p.Heard() {
		if len(h.Tools) != 2 || h.Tools[0].Name != "look_up" || h.Tools[0].Description != "Finds a word" || !sameJSON(h.Tools[0].Schema, r.Tools[0].Schema) {
			t.Errorf("%+v", h.Tools)
		}
	}
	for _, choice := range []llm.Choice{llm.ChoiceAuto, llm.ChoiceNone, llm.ChoiceAny, "now"} {
		p.Play(Scene{Answer: a})
		r.Choice = choice
		if _, err := p.Model(Setup{}).Generate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if got := p.Heard()[0].Choice; got != choice {
			t.Errorf("choice %q was heard as %q", choice, got)
		}
	}
}

// flat is a message, part by part, in a form that can be compared: the same text may come in more parts or fewer.
func flat(ms ...llm.Message) []string {
	var out []string
	text := ""
	for _, m := range ms {
		for _, p := range m.Parts {
			line := ""
			switch {
			case p.Image != nil:
				line = fmt.Sprintf("image %s %x", p.Image.Type, p.Image.Data)
			case p.Call != nil:
				line = fmt.Sprintf("call %s %s %s", p.Call.ID, p.Call.Name, compact(p.Call.Arguments))
			case p.Result != nil:
				line = fmt.Sprintf("result %s %s", p.Result.ID, p.Result.Text)
			default:
				text += p.Text
				continue
			}
			if text != "" {
				out = append(out, string(m.Role)+" "+text)
			}
			out, text = append(out, line), ""
		}
		if text != "" {
			out, text = append(out, string(m.Role)+" "+text), ""
		}
	}
	return out
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return "not JSON: " + string(raw)
	}
	return b.String()
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func history(t *testing.T, p *Provider) {
	p.Play(Scene{Answer: said("Yes.")})
	r := llm.Request{System: "Be brief.", Tools: tools(), Messages: []llm.Message{
		llm.Text(llm.RoleUser, "What is a pawl?"),
		{Role: llm.RoleAssistant, Parts: []llm.Part{
			{Text: "I look."},
			{Call: &llm.ToolCall{ID: "call_1", Name: "look_up", Arguments: json.RawMessage(`{"word":"pawl"}`)}},
			{Call: &llm.ToolCall{ID: "call_2", Name: "now", Arguments: json.RawMessage(`{}`)}},
		}},
		{Role: llm.RoleTool, Parts: []llm.Part{
			{Result: &llm.ToolResult{ID: "call_1", Name: "look_up", Text: "a catch\n\"of a ratchet\""}},
			{Result: &llm.ToolResult{ID: "call_2", Name: "now", Text: "no clock", Failed: true}},
		}},
		llm.Text(llm.RoleAssistant, "A catch."),
		llm.Text(llm.RoleUser, "Sure?"),
	}}
	if _, err := p.Model(Setup{}).Generate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	h := p.Heard()[0]
	if g, w := flat(h.Messages...), flat(r.Messages...); !slices.Equal(g, w) || h.System != r.System {
		t.Errorf("system %q\ngot  %q\nwant %q", h.System, g, w)
	}
}

func images(t *testing.T, p *Provider) {
	p.Play(Scene{Answer: said("A dot.")})
	r := llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{
		{Text: "What is it?"}, {Image: &llm.Image{Type: "image/png", Data: []byte("\x89PNG\r\n\x1a\n\x00\xff")}}, {Text: "And this?"},
		{Image: &llm.Image{Type: "image/jpeg", Data: bytes.Repeat([]byte{0xff, 0xd8, 0}, 1000)}},
	}}}}
	if _, err := p.Model(Setup{}).Generate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if g, w := flat(p.Heard()[0].Messages...), flat(r.Messages...); !slices.Equal(g, w) {
		t.Errorf("got  %.200q\nwant %.200q", g, w)
	}
}

func settings(t *testing.T, p *Provider) {
	p.Play(Scene{Answer: said("Yes.")})
	warm, cold, seed := .7, 0.0, int64(0)
	r := hello()
	r.MaxTokens, r.Temperature, r.Stop, r.Seed = 99, &warm, []string{"END", "\n\n"}, &seed
	m := p.Model(Setup{})
	if _, err := m.Generate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	r.Temperature, r.Stop, r.Seed = &cold, nil, nil
	if _, err := m.Generate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(t.Context(), hello()); err != nil {
		t.Fatal(err)
	}
	h := p.Heard()
	if h[0].MaxTokens != 99 || h[0].Temperature == nil || *h[0].Temperature != .7 || !slices.Equal(h[0].Stop, []string{"END", "\n\n"}) {
		t.Errorf("%+v", h[0].Request)
	}
	if h[1].Temperature == nil || *h[1].Temperature != 0 || h[1].Stop != nil || h[1].Seed != nil {
		t.Errorf("%+v", h[1].Request)
	}
	if h[2].Temperature != nil {
		t.Errorf("%+v", h[2].Request)
	}
}

func schema(t *testing.T, p *Provider) {
	p.Play(Scene{Answer: said(`{"b":1,"a":null}`)})
	r := hello()
	r.Format = &llm.Format{Name: "some-form_1", Schema: json.RawMessage(`{"type":"object","properties":{"b":{"type":"integer","minimum":0},"a":{"type":"string","maxLength":5}},"required":["b"]}`)}
	both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
		got, err := ask(t.Context(), p.Model(Setup{}), r)
		if err != nil || got.Message.Text() != `{"b":1,"a":null}` {
			t.Fatalf("%+v, %v", got, err)
		}
	})
	for _, h := range p.Heard() {
		if h.Format == nil || !bytes.Contains(h.Format.Schema, []byte(`"b"`)) || bytes.Index(h.Format.Schema, []byte(`"b"`)) > bytes.Index(h.Format.Schema, []byte(`"a"`)) {
			t.Errorf("%+v: keys in another order, or none", h.Format)
		}
	}
}

func anyText(t *testing.T, p *Provider) {
	text := "data: [DONE]\n\nevent: error\r\n: x\x00\u2028</script>\"\\u0000 \U0001F9ED e\u0301 {\"error\":1} " + strings.Repeat("é\t", 2000)
	p.Play(Scene{Answer: said(text)})
	r := llm.Request{System: text, Messages: []llm.Message{llm.Text(llm.RoleUser, text)}}
	both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
		got, err := ask(t.Context(), p.Model(Setup{}), r)
		if err != nil || got.Message.Text() != text {
			t.Errorf("%.300q, %v", got.Message.Text(), err)
		}
	})
	for _, h := range p.Heard() {
		if h.System != text || len(h.Messages) != 1 || h.Messages[0].Text() != text {
			t.Errorf("%.300q", h.System)
		}
	}
	r = llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "half \xff a letter")}}
	if _, err := p.Model(Setup{}).Generate(t.Context(), r); err == nil {
		t.Error("text that is not UTF-8 was sent, and changed on the way")
	}
}

func requestUnchanged(t *testing.T, p *Provider) {
	p.Play(Scene{Answer: said("Yes.")})
	r := llm.Request{
		System: "x", Tools: tools(), Format: &llm.Format{Name: "f", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)},
		Messages: []llm.Message{llm.Text(llm.RoleUser, "a"), llm.Text(llm.RoleUser, "b"), llm.Text(llm.RoleAssistant, "c"), llm.Text(llm.RoleUser, "d")},
	}
	before, _ := json.Marshal(r)
	both(t, func(t *testing.T, ask func(context.Context, llm.Model, llm.Request) (llm.Response, error)) {
		if _, err := ask(t.Context(), p.Model(Setup{}), r); err != nil {
			t.Fatal(err)
		}
	})
	if after, _ := json.Marshal(r); !bytes.Equal(before, after) {
		t.Errorf("before %s\nafter  %s", before, after)
	}
}

func concurrent(t *testing.T, p *Provider) {
	p.Play(Scene{Answer: said("Yes, all of you.")})
	m := p.Model(Setup{})
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if got, err := ways[i%2].ask(t.Context(), m, hello()); err != nil || got.Message.Text() != "Yes, all of you." {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	all.Wait()
}

func streamOrder(t *testing.T, p *Provider) {
	text := "One, two, three, four, five."
	p.Play(Scene{Answer: said(text)})
	var pieces []string
	returned := false
	got, err := p.Model(Setup{}).Stream(t.Context(), hello(), func(d llm.Delta) {
		if returned || d.Void || d.Text == "" {
			t.Errorf("%+v, returned: %v", d, returned)
		}
		pieces = append(pieces, d.Text)
	})
	returned = true
	if err != nil || got.Message.Text() != text || !slices.Equal(pieces, Pieces(text)) {
		t.Errorf("%q, %+v, %v", pieces, got, err)
	}
	p.Play(Scene{Refusal: &Refusal{Status: 500}})
	if _, err := p.Model(Setup{}).Stream(t.Context(), hello(), func(d llm.Delta) { t.Errorf("%+v", d) }); err == nil || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
