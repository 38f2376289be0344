package llm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
	"pawl/store/memory"
)

// schemaOf is the schema that an example shows: an object with the example's fields and no others, and what the fields' names
// stand for.
func schemaOf(example any) map[string]any {
	switch v := example.(type) {
	case map[string]any:
		properties, required := map[string]any{}, []string{}
		for k, e := range v {
			required = append(required, k)
			switch k {
			case "confidence":
				properties[k] = map[string]any{"type": "number", "minimum": 0, "maximum": 1}
			case "category":
				properties[k] = map[string]any{"type": "string", "enum": []string{"EMAIL", "JIRA", "CONFLUENCE", "LOG", "GENERIC", "OTHER"}}
			case "nco_code":
				properties[k] = map[string]any{"type": "string", "pattern": `^[0-9]{4}\.[0-9]{4}$`}
			default:
				properties[k] = schemaOf(e)
			}
		}
		return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	case []any:
		items := map[string]any{}
		if len(v) > 0 {
			items = schemaOf(v[0])
		}
		return map[string]any{"type": "array", "items": items}
	case string:
		return map[string]any{"type": "string"}
	case json.Number:
		return map[string]any{"type": "number"}
	}
	return map[string]any{}
}

func decoded(t *testing.T, text []byte) (v any, err error) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// oneAnswer asks a model that answers so at each attempt, inside a run, and says what came of it.
func oneAnswer(t *testing.T, schema json.RawMessage, turn llmtest.Turn) (value json.RawMessage, code string, model *llmtest.Script, r *pawltest.Result[string]) {
	t.Helper()
	model = llmtest.Func(func(int, llm.Request) llmtest.Turn { return turn })
	g := single(func(ctx context.Context, _ string) (string, error) {
		v, err := llm.Structured[json.RawMessage](ctx, "answer", model, llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "?")}},
			llm.StructuredOptions{Schema: schema})
		code = llm.Code(err)
		return string(v), nil
	})
	r = pawltest.Run(t, g, "", pawltest.Script{})
	return json.RawMessage(r.Output), code, model, r
}

// single is a graph of one node.
func single(run func(context.Context, string) (string, error), o ...pawl.Options) *pawl.Graph[string, string, string] {
	opt := pawl.Options{Version: "1"}
	if len(o) > 0 {
		opt = o[0]
		opt.Version = "1"
	}
	g := pawl.New[string, string, string]("single", opt)
	node, done := g.Node("node", run), g.Succeed("DONE")
	g.Start(node, func(s string) (string, error) { return s, nil })
	g.From(node).Otherwise(done)
	g.Finish(func(s string, _ pawl.Ending) (string, error) { return s, nil })
	return g
}

func notes(r *pawltest.Result[string], step string) (out []string) {
	for _, s := range r.Steps {
		if s.Name == step {
			out = append(out, string(s.Payload))
		}
	}
	return out
}

// TestStructuredOnRealAnswers: every case of the shared file gets its verdict and value.
func TestStructuredOnRealAnswers(t *testing.T) {
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	data, err := os.ReadFile(filepath.Join(dir, "adversarial", "llm_json_cases.jsonl"))
	if err != nil {
		t.Skip("shared data not found: ", err)
	}
	rows := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	for _, line := range rows {
		var c struct {
			ID, Raw, Expect, Note string
			Finish                llm.Finish `json:"finish_reason"`
			Value                 json.RawMessage
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		t.Run(c.ID, func(t *testing.T) {
			example, _ := decoded(t, c.Value)
			if example == nil {
				if example, err = decoded(t, []byte(c.Raw)); err != nil {
					example = map[string]any{}
				}
			}
			schema, err := json.Marshal(schemaOf(example))
			if err != nil {
				t.Fatal(err)
			}
			got, code, model, run := oneAnswer(t, schema, llmtest.Say(c.Raw).Ends(c.Finish))
			verdict := map[string]string{"": "value", llm.CodeFormat: "retry", llm.CodeTruncated: "truncated", llm.CodeRefused: "refusal",
				pawl.CodeUnavailable: "transport_error"}[code]
			mended := len(notes(run, "answer_mended")) > 0
			fine := false
			switch c.Expect {
			case "accept", "repair":
				fine = verdict == "value"
			case "accept_sanitised", "coerce_recorded":
				fine = verdict == "value" && mended
			case "repair_or_retry", "coerce_or_retry":
				fine = verdict == "value" && mended || verdict == "retry"
			default:
				fine = verdict == c.Expect
			}
			t.Logf("%s: %s (%s)", c.Expect, verdict, c.Note)
			if !fine {
				t.Errorf("%q: %s (code %q), want %s; schema %s", c.Raw, verdict, code, c.Expect, schema)
			}
			asked := len(model.Requests())
			switch verdict {
			case "value":
				want, _ := decoded(t, c.Value)
				have, _ := decoded(t, got)
				if asked != 1 || fmt.Sprint(have) != fmt.Sprint(want) {
					t.Errorf("%q: %s after %d attempts, want %s", c.Raw, got, asked, c.Value)
				}
			case "retry":
				if asked != 3 || len(notes(run, "answer_rejected")) != 3 {
					t.Errorf("%q: %d attempts, rejected %v", c.Raw, asked, notes(run, "answer_rejected"))
				}
				if c.ID == "J33" || c.ID == "J34" {
					if says := model.Requests()[1].Messages[1].Text(); !strings.Contains(says, "'EMAIL', 'JIRA', 'CONFLUENCE', 'LOG', 'GENERIC', 'OTHER'") {
						t.Errorf("the feedback does not list what is allowed: %s", says)
					}
				}
			default:
				for _, r := range model.Requests() {
					if len(r.Messages) != 1 {
						t.Errorf("feedback about a %s: %v", verdict, r.Messages)
					}
				}
			}
		})
	}
	if len(rows) < 40 {
		t.Errorf("%d rows only", len(rows))
	}
}

type verdict struct {
	Category   string   `json:"category"`
	Confidence float64  `json:"confidence"`
	Votes      int      `json:"votes,omitempty"`
	Tags       []string `json:"tags,omitempty"`
	Parts      []part   `json:"parts,omitempty"`
}

type part struct {
	Score float64 `json:"score"`
}

var narrow = map[string]map[string]any{
	"category": {"enum": []string{"EMAIL", "JIRA"}}, "confidence": {"minimum": 0, "maximum": 1}, "tags": {"enum": []string{"a", "b", "B"}},
	"parts.score": {"maximum": 25},
}

func ask(m llm.Model, o llm.StructuredOptions) (verdict, error) {
	return llm.Structured[verdict](context.Background(), "judge", m, llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "?")}}, o)
}

func TestStructuredTakes(t *testing.T) {
	for text, want := range map[string]string{
		`{"category":"email","confidence":"85%"}`:                                        "{EMAIL 0.85 0 [] []}",
		`{"category":"JIRA","confidence":1,"votes":"3","tags":["a","B","b","A"]}`:        "{JIRA 1 3 [a B b a] []}",
		`{"category":"JIRA","confidence":0.5,"parts":[{"score":"25"}]}`:                  "{JIRA 0.5 0 [] [{25}]}",
		`{"category":"JIRA","confidence":1,"votes":null,"tags":null,"parts":null}`:       "{JIRA 1 0 [] []}", // as strict providers are told
		`Twice {"category":"JIRA","confidence":1} is {"confidence":1,"category":"JIRA"}`: "{JIRA 1 0 [] []}",
		`Not {"category":"PAPER","confidence":1} but {"confidence":1,"category":"JIRA"}`: "{JIRA 1 0 [] []}",
	} {
		m := llmtest.Turns(llmtest.Say(text))
		got, err := ask(m, llm.StructuredOptions{Narrow: narrow})
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if f := m.Requests()[0].Format; f == nil || f.Name != "verdict" || !strings.Contains(string(f.Schema), `"enum":["EMAIL","JIRA"]`) {
			t.Errorf("format %+v", f)
		}
	}
}

func TestStructuredAsksAgain(t *testing.T) {
	good := `{"category":"JIRA","confidence":1}`
	for text, want := range map[string]string{ // a part of the feedback
		"":                         "it is empty",
		"I think it is an e-mail.": "no JSON",
		`{"category":"JIRA"}`:      "missing property 'confidence'",
		`{"category":"JIRA","confidence":1,"x":1}`:                                                    "'x' not allowed",
		`{"category":"E-mail ","confidence":1}`:                                                       ".category: value must be one of 'EMAIL', 'JIRA'",
		`{"category":"JIRA","confidence":"high"}`:                                                     ".confidence: got string, want number",
		`{"category":"JIRA","confidence":85}`:                                                         ".confidence: maximum: got 85, want 1",
		`{"category":null,"confidence":1}`:                                                            "missing property 'category'",
		`{"category":"JIRA","confidence":1,"tags":[null]}`:                                            ".tags.0: ",
		`{"category":"JIRA","confidence":1e2000000}`:                                                  ".confidence: the number 1e2000000 is out of range",
		`{"category":"JIRA","confidence":"-1e-999"}`:                                                  ".confidence: the number -1e-999 is out of range",
		`{"category":"JIRA","confidence":1,"votes":"1.5"}`:                                            ".votes: got number, want integer",
		`{"category":"JIRA","confidence":1,"votes":99999999999999999999}`:                             "votes",
		`{"category":"JIRA","confidence":1,"tags":["ß"]}`:                                             ".tags.0: value must be one of 'a', 'b', 'B'",
		`{"category":"JIRA","confidence":1,"parts":[{"score":26}]}`:                                   ".parts.0.score",
		`{"category":"JIRA","confidence":1,"confidence":0}`:                                           `"confidence" stands twice`,
		`So: {"category":"JIRA","confidence":1,"Confidence":0} or {"category":"JIRA","confidence":1}`: "not allowed",
		`So: {"category":"JIRA","confidence":1,"confidence":0} or {"category":"JIRA","confidence":1}`: "stands twice",
		`{"category":"JIRA","confidence":1} or {"category":"JIRA","confidence":0}`:                    "2 different JSON values",
		`{"category":"JIRA","confidence":1`:                                                           "it ends inside of the JSON",
		`[{"category":"JIRA","confidence":1}]`:                                                        "got array, want object",
		`{"answer":{"category":"JIRA","confidence":1}}`:                                               "'answer' not allowed",
		`{"category":"JIRA","confidence":1,"` + strings.Repeat("x", 100_000) + `":1}`:                 "not allowed",
	} {
		m := llmtest.Turns(llmtest.Say(text), llmtest.Say(good))
		got, err := ask(m, llm.StructuredOptions{Narrow: narrow})
		if strings.Contains(text, `"Confidence":0} or`) { // the first does not fit, so the second is the only one
			if err != nil || len(m.Requests()) != 1 {
				t.Errorf("%s: %v %v", text, got, err)
			}
			continue
		}
		requests := m.Requests()
		if err != nil || len(requests) != 2 || got.Confidence != 1 {
			t.Errorf("%.80s: %v, %v, %d attempts", text, got, err, len(requests))
			continue
		}
		again := requests[1].Messages
		if len(again) != 2 || again[1].Role != llm.RoleUser || !strings.Contains(again[1].Text(), want) || len(again[1].Text()) > 2000 {
			t.Errorf("%.80s: the feedback is %.300s", text, again[len(again)-1].Text())
		}
		if len(text) > 60 && strings.Contains(again[1].Text(), text) {
			t.Errorf("the feedback repeats the answer: %s", text)
		}
	}
}

// TestStructuredChecks: what no schema can say is said to the model as well, and a value that never passes is none.
func TestStructuredChecks(t *testing.T) {
	sure := func(raw json.RawMessage) error {
		var v verdict
		if err := json.Unmarshal(raw, &v); err != nil || v.Category == "JIRA" && v.Confidence < 0.5 {
			return fmt.Errorf("%s is too vague a word for a confidence of %v", v.Category, v.Confidence)
		}
		return nil
	}
	vague, good := llmtest.Say(`{"category":"jira","confidence":"10%"}`), llmtest.Say(`{"category":"EMAIL","confidence":0.1}`)
	m := llmtest.Turns(vague, good)
	got, err := ask(m, llm.StructuredOptions{Narrow: narrow, Check: sure})
	if err != nil || got.Category != "EMAIL" || len(m.Requests()) != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	if said := m.Requests()[1].Messages[1].Text(); !strings.Contains(said, "JIRA is too vague a word for a confidence of 0.1") {
		t.Error(said)
	}
	m = llmtest.Turns(vague, vague, good)
	got, err = ask(m, llm.StructuredOptions{Narrow: narrow, Check: sure, Attempts: 2})
	if llm.Code(err) != llm.CodeFormat || !strings.Contains(err.Error(), "too vague") || got.Category != "" {
		t.Errorf("%+v %v", got, err)
	}
}

func TestStructuredGivesUp(t *testing.T) {
	say := llmtest.Say(`{"category":"JIRA","confidence":1}`)
	for name, c := range map[string]struct {
		turn     llmtest.Turn
		code     string
		attempts int
	}{
		"never well formed":                {llmtest.Say("no"), llm.CodeFormat, 2},
		"cut, although it can be read":     {say.Ends(llm.FinishLength), llm.CodeTruncated, 1},
		"the provider's filter":            {say.Ends(llm.FinishRefused), llm.CodeRefused, 1},
		"refused in words":                 {llmtest.Say("I’m sorry, but I can’t assist with that."), llm.CodeRefused, 1},
		"asks for a tool":                  {llmtest.Ask("1", "search", "{}"), llm.CodeFormat, 2},
		"ends for a reason of its own":     {say.Ends(llm.FinishOther), llm.CodeFormat, 2},
		"sorry, and an answer that is bad": {llmtest.Say(`Sorry, here it is: {"category":"PAPER"}`), llm.CodeFormat, 2},
		"a gateway's page":                 {llmtest.Say("<!DOCTYPE html><html><head><title>502</title>"), pawl.CodeUnavailable, 1},
		"a gateway's line":                 {llmtest.Say("upstream connect error or disconnect/reset before headers"), pawl.CodeUnavailable, 1},
		"the quota":                        {llmtest.Fail(llm.CodeQuota), llm.CodeQuota, 1},
	} {
		m := llmtest.Func(func(int, llm.Request) llmtest.Turn { return c.turn })
		_, err := ask(m, llm.StructuredOptions{Narrow: narrow, Attempts: 2})
		if llm.Code(err) != c.code || len(m.Requests()) != c.attempts {
			t.Errorf("%s: code %q after %d attempts: %v", name, llm.Code(err), len(m.Requests()), err)
		}
		if _, again := pawl.Retryable(err); again != (c.code == pawl.CodeUnavailable) {
			t.Errorf("%s: may be tried again: %v", name, again)
		}
	}
	for _, o := range []llm.StructuredOptions{{Schema: []byte(`{"type":"no such"}`)}, {Schema: []byte(`{`)}, {Narrow: map[string]map[string]any{"nothing": {}}}} {
		if _, err := ask(llmtest.Turns(), o); llm.Code(err) != pawl.CodeInvalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestStructuredIsRecorded: in a run each attempt is a call of its own that a crash does not make again, a gateway's page is
// waited out by the engine's retries, and all that was changed or rejected stands in the step log.
func TestStructuredIsRecorded(t *testing.T) {
	// Which turn it is shows from the request, since an attempt under way at the crash is made again.
	m := llmtest.Func(func(n int, r llm.Request) llmtest.Turn {
		switch {
		case len(r.Messages) == 1 && n%2 == 0:
			return llmtest.Say("<html>502")
		case len(r.Messages) == 1:
			return llmtest.Say(`{"category":"PAPER","confidence":1}`)
		default:
			return llmtest.Say("```json\n" + `{"category":"jira","confidence":"90%",}` + "\n```")
		}
	})
	g := single(func(ctx context.Context, _ string) (string, error) {
		v, err := llm.Structured[verdict](ctx, "judge", llm.Metered(m, llm.Price{}), llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, "?")}},
			llm.StructuredOptions{Narrow: narrow})
		return fmt.Sprint(v), err
	}, pawl.Options{Budget: pawl.Budget{llm.MeterCalls: 50}})
	r := pawltest.Run(t, g, "", pawltest.Script{Replay: true})
	if r.Output != "{JIRA 0.9 0 [] []}" || r.Meter(llm.MeterCalls) != 3 || r.Took < time.Second/2 {
		t.Errorf("%q, %d calls, %s, %v", r.Output, r.Meter(llm.MeterCalls), r.Took, r.Run.Err)
	}
	if got := notes(r, "answer_mended"); len(got) != 1 || !strings.Contains(got[0], "trailing comma") || !strings.Contains(got[0], `.confidence: \"90%\" taken as 0.9`) ||
		!strings.Contains(got[0], `.category: \"jira\" taken as JIRA`) || !strings.Contains(got[0], `"judge/2"`) {
		t.Errorf("mended: %v", got)
	}
	if got := notes(r, "answer_rejected"); len(got) != 1 || !strings.Contains(got[0], `"judge/1"`) || !strings.Contains(got[0], "EMAIL") {
		t.Errorf("rejected: %v", got)
	}
	keys := ""
	for _, c := range r.Calls {
		keys += c.Key + " "
	}
	if keys != "judge/1 judge/1 judge/2 " {
		t.Errorf("calls %s", keys)
	}
	pawltest.EveryCrash(t, g, "", pawltest.Script{})
}

// TestStructuredVoidsWhatItStreamed: text of an answer that is rejected, or that broke off, is taken back.
func TestStructuredVoidsWhatItStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := llmtest.Turns(llmtest.Say("no"), llmtest.Fail(llm.CodeRateLimited, "{", "half"), llmtest.Say(`{"category":"JIRA","confidence":1}`))
		watched := make(chan struct{})
		g := single(func(ctx context.Context, _ string) (string, error) {
			if err := pawl.Emit(ctx, "begun", nil); err != nil {
				return "", err
			}
			<-watched
			v, err := llm.Structured[verdict](ctx, "judge", m, llm.Request{}, llm.StructuredOptions{Options: llm.Options{Deltas: "text"}})
			return v.Category, err
		})
		w, err := g.Build()
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(memory.New(), []*pawl.Workflow{w}, engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Work(ctx) }()
		runs := e.As(pawl.Caller{User: "ann"})
		started, err := runs.Start(ctx, "single", json.RawMessage(`""`), pawl.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var live []string
		for ev, err := range runs.Events(ctx, started.Run.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev.Type {
			case "begun":
				close(watched)
			case "text":
				live = append(live, string(ev.Data))
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		const want = `{"text":"no"} {"text":"","void":true} {"text":"{"} {"text":"half"} {"text":"","void":true} {"text":"{\"category\":\"JIRA\",\"confidence\":1}"}`
		live = slices.Compact(live) // a run that waited says it again
		if got := strings.Join(live, " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}
