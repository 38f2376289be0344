package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
	"pawl/workflows/brain"
)

// brained is a shell whose brain has one model, which plays by the turns that are made of what it is asked.
func brained(t *testing.T, turn func(n int, r llm.Request) llmtest.Turn) (*shell, *llmtest.Script) {
	m := llmtest.Func(turn)
	s := newShell(t)
	s.ws = []Workflow{brainWith(func(Opening, string) (llm.Model, error) { return m, nil })}
	return s, m
}

const brainReply = "Paris is the capital of France, on the Seine."

// plays replies in pieces, and judges with these sums in turn.
func plays(sums ...int) func(int, llm.Request) llmtest.Turn {
	judged := 0
	return func(_ int, r llm.Request) llmtest.Turn {
		if r.Format == nil {
			t := llmtest.Say(brainReply)
			t.Pieces = strings.SplitAfter(brainReply, " ")
			return t
		}
		sum := sums[min(judged, len(sums)-1)]
		judged++
		part := func(i int) int { return min(25, max(0, sum-25*i)) }
		raw, _ := json.Marshal(brain.Judgement{Relevance: part(0), Helpfulness: part(1), Accuracy: part(2), Completeness: part(3), Feedback: "Name the river."})
		return llmtest.Say(string(raw))
	}
}

// TestBrain: plain text is a question with a plan by defaults; the answer is data, the way to it talk.
func TestBrain(t *testing.T) {
	t.Parallel()
	s, m := brained(t, plays(50, 90))
	got := s.want(0, "run", "brain", "what is", "the capital of France?")
	if got.out != brainReply+"\n\ncompleted  confidence 0.78  attempts 2\n" {
		t.Error(got)
	}
	if q := m.Requests()[0].Messages; len(q) != 1 || q[0].Text() != "what is the capital of France?" {
		t.Errorf("%+v", q)
	}
	if strings.Contains(got.err, "Paris") {
		t.Errorf("a reply is shown where nobody sees it written: %s", got.err)
	}
	var o brain.Output
	r := s.want(0, "run", "brain", "--json", "capital of France?").last(t)
	if err := json.Unmarshal(r.Run.Output, &o); err != nil || !o.Success || o.ExecutionID != r.Run.ID || o.ExecutionPlan.Question != "capital of France?" {
		t.Errorf("%s %v", r.Run.Output, err)
	}
	golden(t, "brain.mmd", s.want(0, "graph", "brain").out)
}

// TestBrainLowConfidence: what is said in place of a reply, and why.
func TestBrainLowConfidence(t *testing.T) {
	t.Parallel()
	s, _ := brained(t, plays(85))
	got := s.want(0, "run", "brain", "--fallback", "context", "how big is Paris?")
	for _, want := range []string{brain.ContextFallback("how?"), "completed_with_errors  confidence 0.745  attempts 5", "error  finalize: low confidence", "in place of  " + brainReply} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is not in %s", want, got.out)
		}
	}
	s.want(exitUsage, "run", "brain", "--fallback", "none", "how big is Paris?")
}

// TestBrainPlan: a plan is given as the input, and one that cannot be carried out is refused with its field.
func TestBrainPlan(t *testing.T) {
	t.Parallel()
	s, m := brained(t, plays(90))
	put(t, s.dir, "plan.json", `{"question":"Who?","optimized_specs":{"provider":{"max_tokens":7},"processing":{"max_validation_runs":1}}}`)
	plan := filepath.Join(s.dir, "plan.json")
	s.want(0, "run", "brain", "--input", plan)
	if r := m.Requests()[0]; r.MaxTokens != 7 || r.Messages[0].Text() != "Who?" {
		t.Errorf("%+v", r)
	}
	for plan, says := range map[string]string{
		`{"question":"q","optimized_specs":{"processing":{"max_validation_runs":9}}}`:          "optimized_specs.processing.max_validation_runs: 9",
		`{"question":"q","optimized_specs":{"provider":{"custom_params":{"top_k":9}}}}`:        "top_k",
		`{"question":"q","optimized_specs":{"data_sources":[{"source_type":"the internet"}]}}`: "optimized_specs.data_sources[0].source_type",
		`{"optimized_specs":{}}`: "question",
	} {
		put(t, s.dir, "plan.json", plan)
		if got := s.want(exitUsage, "run", "brain", "--input", filepath.Join(s.dir, "plan.json")); !strings.Contains(got.err, says) {
			t.Errorf("%q is not in %s", says, got.err)
		}
	}
}

// TestBrainKnowledge: a folder is looked up in, also by whoever goes on with the run; what is no text is refused or left out.
func TestBrainKnowledge(t *testing.T) {
	t.Parallel()
	s, m := brained(t, plays(90))
	for name, text := range map[string]string{
		"geo/france.md": "# France\n\nThe capital of France is Paris.", "geo/.hidden/x.md": "capital France hidden", "geo/.y.txt": "capital France hidden",
		"geo/image.png": "capital\x00France", "geo/sub/peru.TXT": "Lima is the capital of Peru.", "empty/readme.rst": "capital",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(s.dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, s.dir, name, text)
	}
	geo := filepath.Join(s.dir, "geo")
	r := s.want(0, "run", "brain", "--json", "--knowledge", geo, "what is the capital of France?").last(t)
	said := m.Requests()[0].Messages[0].Text()
	if !strings.Contains(said, "france.md#1") || !strings.Contains(said, "sub/peru.TXT#1") || strings.Contains(said, "hidden") || strings.Contains(said, "png") {
		t.Error(said)
	}
	if r.Run.Labels["pawl.knowledge"] != geo {
		t.Errorf("%+v", r.Run.Labels)
	}
	if got := s.want(0, "runs", "show", r.Run.ID); !strings.Contains(got.out, "query_data_sources") {
		t.Error(got)
	}
	s.want(0, "runs", "replay", r.Run.ID)
	for what, says := range map[string]string{filepath.Join(geo, "image.png"): "no text in UTF-8", filepath.Join(s.dir, "empty"): "there is no text in it", filepath.Join(s.dir, "none"): "no such file"} {
		if got := s.want(exitUsage, "run", "brain", "--knowledge", what, "x"); !strings.Contains(got.err, says) {
			t.Errorf("%s: %s", what, got.err)
		}
	}
}

// TestBrainTools: a tool of a configured server is called once a person has approved it, and what it says is shown to the model.
func TestBrainTools(t *testing.T) {
	t.Parallel()
	s := configured(t, self(t, ""))
	m := llmtest.Func(plays(90))
	s.ws = append(s.ws, brainWith(func(Opening, string) (llm.Model, error) { return m, nil }))
	s.env = append(s.env, "WHO=ann")
	asked := s.fed(`{"question":"Who is greeted?","optimized_specs":{"tools":[{"name":"self_hello","arguments":{"name":"Ann"}}]}}`, "run", "brain", "--input", "-", "--json")
	if asked.code != exitWaiting || len(m.Requests()) != 0 {
		t.Fatal(asked)
	}
	r := asked.last(t)
	if len(r.Questions) != 1 || !strings.Contains(string(r.Questions[0].Data), `"arguments":{"name":"Ann"}`) {
		t.Fatalf("questions %+v", r.Questions)
	}
	got := s.want(0, "runs", "answer", r.Run.ID, r.Questions[0].ID, "yes")
	if said := m.Requests()[0].Messages[0].Text(); !strings.Contains(said, "GREETED") || !strings.Contains(got.out, "completed  confidence 0.78") {
		t.Errorf("%s\n%s", said, got.out)
	}
}

// TestBrainStreams: on a terminal a reply is shown while it is written, and it is told when it does not count.
func TestBrainStreams(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	play, replies := plays(50, 90), 0
	s, _ := brained(t, func(n int, r llm.Request) llmtest.Turn {
		switch {
		case r.Format != nil && n == 1:
			<-release // the reviewer waits until the reply is on the terminal
		case r.Format == nil:
			if replies++; replies == 1 {
				turn := llmtest.Say("Rome, of course, is it.")
				turn.Pieces = []string{"Rome, of", " course, is it."}
				return turn
			}
			return llmtest.Say(brainReply) // in one piece: no other line can come between
		}
		return play(n, r)
	})
	s.env = append(s.env, "TERM=xterm", "NO_COLOR=1")
	y := newTTY(80)
	done := s.onTTY(y, y, nil, "run", "brain", "what is the capital of France?")
	y.await(t, "Rome, of", 1)
	y.await(t, " course, is it.", 1)
	close(release)
	got := ended(t, done)
	if got.code != 0 || got.out != brainReply+"\n\ncompleted  confidence 0.78  attempts 2\n" {
		t.Error(got)
	}
	void, second := strings.Index(got.err, "that is void"), strings.Index(got.err, brainReply)
	if void < strings.Index(got.err, "course, is it.\n") || second < void || strings.Count(got.err, "that is void") != 1 {
		t.Errorf("%q", got.err)
	}
	if !strings.Contains(got.err, brainReply+"\n") {
		t.Errorf("what follows stands on the line of the text: %q", got.err)
	}
}

// TestBrainWithoutAModel: no run is begun, and it is said in three lines how to configure a model.
func TestBrainWithoutAModel(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ws = []Workflow{Brain()}
	got := s.want(exitUsage, "run", "brain", "what is the capital of France?")
	for _, want := range []string{"no model is configured", "\nOllama on this machine:", "\nOpenAI-compatible endpoint:", "\nGemini:"} {
		if !strings.Contains(got.err, want) {
			t.Errorf("%q is not in %s", want, got.err)
		}
	}
	if got := s.want(0, "runs", "ls"); !strings.Contains(got.err, "there are no such runs") {
		t.Error(got)
	}
}

// TestBrainWithASilentModel: the fallback of a model that says nothing is asked, although the plan's time for a call is up by then.
func TestBrainWithASilentModel(t *testing.T) {
	t.Parallel()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	var asked atomic.Int64
	s := newShell(t)
	s.ws = []Workflow{Brain()}
	s.env = append(s.env, "PAWL_PROVIDERS_SILENT_URL="+silent.URL, "PAWL_PROVIDERS_GOOD_URL="+endpoint(t, 200, &asked, ""), "PAWL_MODELS_DEFAULT=silent/a,good/b")
	put(t, s.dir, "plan.json", `{"question":"Who?","optimized_specs":{"processing":{"timeout":1,"max_validation_runs":1}}}`)
	if got := s.run("run", "brain", "--input", filepath.Join(s.dir, "plan.json")); !strings.Contains(got.out, "said b") || asked.Load() == 0 {
		t.Errorf("asked %d times: %+v", asked.Load(), got)
	}
}

// TestBrainModels: a plan gets the model that it names, and no other one: an alias, PROVIDER/MODEL, or the default.
func TestBrainModels(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // chat completions: https://platform.openai.com/docs/api-reference/chat
		var q struct {
			Model  string          `json:"model"`
			Stream bool            `json:"stream"`
			Format json.RawMessage `json:"response_format"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/chat/completions" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		asked = append(asked, q.Model)
		mu.Unlock()
		text := brainReply
		if q.Format != nil {
			text = `{"relevance":25,"helpfulness":25,"accuracy":25,"completeness":25,"feedback":"Fine."}`
		}
		quoted, _ := json.Marshal(text)
		if !q.Stream {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":1,"model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}`, q.Model, quoted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":%q,\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":%s},\"finish_reason\":null}]}\n\n", q.Model, quoted)
		fmt.Fprintf(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":%q,\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", q.Model)
	}))
	defer server.Close()
	s := newShell(t)
	s.ws = []Workflow{Brain()}
	s.env = append(s.env, "PAWL_PROVIDERS_MINE_URL="+server.URL+"/v1", "PAWL_MODELS_DEFAULT=mine/usual", "PAWL_MODELS_FAST=mine/small")
	run := func(code int, provider string) told {
		asked = nil
		got := s.fed(`{"question":"Which is the capital of France?","optimized_specs":{"provider":`+provider+`}}`, "run", "brain", "--input", "-")
		if got.code != code {
			t.Errorf("%s: %v", provider, got)
		}
		return got
	}
	for provider, model := range map[string]string{`{}`: "usual", `{"model":"fast"}`: "small", `{"provider_type":"mine","model":"other","stream":true}`: "other"} {
		got := run(0, provider)
		if strings.Join(asked, " ") != model+" "+model || !strings.Contains(got.out, "completed  confidence 0.85") {
			t.Errorf("%s: %v %v", provider, asked, got)
		}
	}
	for _, provider := range []string{`{"model":"unknown"}`, `{"provider_type":"mine"}`, `{"provider_type":"openai","model":"x"}`} {
		if got := run(exitUsage, provider); !strings.Contains(got.err, "optimized_specs.provider: ") || len(asked) > 0 {
			t.Errorf("%s: %v", provider, got)
		}
	}
	s.env = append(s.env, "PAWL_MODELS_JUDGE=mine/strict")
	if run(0, `{"model":"fast"}`); strings.Join(asked, " ") != "small strict" {
		t.Error(asked)
	}
}

// TestEvalBrain: how well the rules tell refusals from answers.
func TestEvalBrain(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	put(t, s.dir, "a.csv", "completion,final_label\nI cannot help with that.,2_full_refusal\nNo idea at all.,2_full_refusal\n"+"\""+brainReply+"\",1_full_compliance\nHm?,3_partial_refusal\n")
	file := filepath.Join(s.dir, "a.csv")
	if got := s.want(0, "eval", "brain", "--answers", file); got.out != "answers 4\nrefusals 2  flagged 0.500\ncompliances 1  flagged 0.000\n" {
		t.Error(got)
	}
	got := s.want(0, "eval", "brain", "--answers", file, "--json", "--misses")
	var e map[string]float64
	if err := json.Unmarshal([]byte(got.out), &e); err != nil || e["n"] != 4 || e["refusals_flagged"] != 0.5 || e["compliances_flagged"] != 0 {
		t.Errorf("%s %v", got.out, err)
	}
	if !strings.Contains(got.err, "line 3  a refusal, taken for an answer: No idea at all.") {
		t.Error(got.err)
	}
	s.want(exitUsage, "eval", "brain")
	s.want(exitUsage, "eval", "brain", "--answers", filepath.Join(s.dir, "none"))
}
