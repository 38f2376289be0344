package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pawl"
	"pawl/ports/llm"
)

// asker asks the model of an alias what it is given.
func asker(alias string) Workflow {
	return Workflow{Name: "asker", Open: func(_ context.Context, o Opening) (*Opened, error) {
		m, err := o.Model(alias)
		if err != nil {
			return nil, err
		}
		g := pawl.New[greeting, greeting, string]("asker", pawl.Options{
			Version: "1", Positional: []string{"name"}, Cost: pawl.Dollars(1), Budget: pawl.Budget{llm.MeterCalls: 5},
		})
		ask := g.Node("ask", func(ctx context.Context, s greeting) (greeting, error) {
			warm := .5
			r := llm.Request{Messages: []llm.Message{llm.Text(llm.RoleUser, s.Name)}, Temperature: &warm, MaxTokens: 100}
			resp, err := llm.Generate(ctx, "ask", m, r, llm.Options{Retry: pawl.Retry{Max: 1}})
			s.Name = resp.Message.Text() + " by " + resp.From.String()
			return s, err
		})
		done := g.Succeed("ASKED")
		g.Start(ask, func(in greeting) (greeting, error) { return in, nil })
		g.From(ask).Otherwise(done)
		g.Finish(func(s greeting, _ pawl.Ending) (string, error) { return s.Name, nil })
		w, err := g.Build()
		return &Opened{Workflow: w}, err
	}}
}

// endpoint speaks OpenAI's format (https://platform.openai.com/docs/api-reference/chat/create), or refuses with a status.
func endpoint(t *testing.T, status int, asked *atomic.Int64, key string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var body struct {
			Model       string
			Temperature *float64
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Authorization") != key {
			t.Errorf("%+v, %v, %q", body, err, r.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"id":"r","model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":"said %s, warm: %v"},"finish_reason":"stop"}],
			"usage":{"prompt_tokens":30,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":20}}}`, body.Model, body.Model, body.Temperature != nil)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// TestModels: providers, aliases, fallbacks, prices and secrets, from the file and from the environment, in a run.
func TestModels(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ws = []Workflow{asker("judge")}
	var busy, good atomic.Int64
	write := func(name, text string) string {
		file := filepath.Join(s.dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	conf := write("c.json", fmt.Sprintf(`{"store":"sqlite:%s",
		"providers":{"busy":{"url":%q},"good":{"kind":"openai","url":%q,"temperature":false,"timeout":"20s"}},
		"models":{"default":"nobody/x","judge":["busy/a","good/b/c:1"]},
		"prices":{"busy/*":{"input":1,"output":1},"good/b/c:1":{"input":"2.50","cached":0.25,"output":"10"}}}`,
		filepath.ToSlash(filepath.Join(s.dir, "x.db")), endpoint(t, 503, &busy, ""), endpoint(t, 200, &good, "Bearer canary hunter2")))
	s.env = append(s.env, "PAWL_CONFIG="+conf, "PAWL_PROVIDERS_GOOD_KEY_FILE="+write("key", "canary hunter2\n"))

	doctor := s.want(exitUnavailable, "doctor") // because of nobody
	for _, want := range []string{
		"busy/a, then good/b/c:1", "provider nobody is not configured", "providers.good.key", "PAWL_PROVIDERS_GOOD_KEY_FILE", "(listed there)", "asker@1",
	} {
		if !strings.Contains(doctor.out, want) {
			t.Errorf("%q is not in it:\n%s", want, doctor.out)
		}
	}
	if busy.Load()+good.Load() != 0 {
		t.Error("doctor has asked")
	}
	got := s.want(0, "run", "asker", "hello", "--json")
	if !strings.Contains(got.out, "said b/c:1, warm: false by good/b/c:1") || busy.Load() != 1 || good.Load() != 1 {
		t.Errorf("%d, %d: %s", busy.Load(), good.Load(), got.out)
	}
	var run pawl.Run
	if err := json.Unmarshal([]byte(s.want(0, "runs", "ls", "--json").out), &run); err != nil {
		t.Fatal(err)
	}
	// A 503 keeps what was held, since the provider may have worked: 37 tokens in and 100 out at the most. Then 10 fresh tokens,
	// 20 cached and 10 written.
	want := []pawl.Meter{{Name: "llm", Used: 2, Cap: 5}, {Name: "usd", Used: 37 + 100 + 10*2.50 + 20*0.25 + 10*10, Cap: 1_000_000}}
	for _, m := range want {
		if !slices.Contains(run.Meters, m) {
			t.Errorf("%+v is not in %+v", m, run.Meters)
		}
	}
	detail := s.want(0, "runs", "show", run.ID, "--json")
	for _, all := range []string{doctor.out + doctor.err, got.out + got.err, detail.out} {
		if strings.Contains(all, "hunter2") {
			t.Errorf("the secret is shown:\n%s", all)
		}
	}
}

// TestModelsByEnvironment: no file is needed, and a variable is stronger than one.
func TestModelsByEnvironment(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ws = []Workflow{asker("default")}
	var good atomic.Int64
	url := endpoint(t, 200, &good, "Bearer hunter2")
	conf := filepath.Join(s.dir, "c.json")
	if err := os.WriteFile(conf, []byte(`{"models":{"default":"nobody/x"},"providers":{"my-own":{"url":"http://127.0.0.1:1/v1"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "PAWL_MODELS_DEFAULT= my-own/some-model ,", "PAWL_PROVIDERS_MY_OWN_URL="+url, "PAWL_PROVIDERS_MY_OWN_KEY=hunter2")
	for _, file := range []string{"", conf} {
		s.env = append(s.env, "PAWL_CONFIG="+file)
		if got := s.want(0, "run", "asker", "hello"); !strings.Contains(got.out, "said some-model, warm: true by my-own/some-model") {
			t.Error(got)
		}
		if got := s.want(0, "doctor"); !strings.Contains(got.out, "my-own/some-model has no price") || strings.Contains(got.out, "not known") {
			t.Error(got)
		}
	}
	if good.Load() != 2 {
		t.Error(good.Load())
	}
}

// TestNoModel: whoever has configured none is told how, in three ways.
func TestNoModel(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ws = []Workflow{asker("judge")}
	got := s.run("run", "asker", "hello")
	oneClearLine(t, got, exitUsage, "no model is configured")
	if lines := strings.Split(strings.TrimSpace(got.err), "\n"); len(lines) != 4 || !strings.HasPrefix(lines[1], "Ollama") ||
		!strings.HasPrefix(lines[2], "OpenAI-compatible") || !strings.HasPrefix(lines[3], "Gemini") {
		t.Error(got.err)
	}
	if got := s.run("run", "asker", "hello", "--json"); !strings.Contains(got.out, `"code":"`+llm.CodeUnset+`"`) {
		t.Error(got.out)
	}
	s.ws = nil
	if got := s.want(0, "doctor"); !strings.Contains(got.out, "model    default           (none)") {
		t.Error(got.out)
	}
	s.env = append(s.env, "PAWL_MODELS_DEFAULT=ollama/x,far/y", "PAWL_PROVIDERS_FAR_URL=http://example.com/v1", "PAWL_PROVIDERS_FAR_KEY=hunter2")
	if got := s.want(0, "doctor"); !strings.Contains(got.out, "far/y is asked without encryption") || strings.Contains(got.out, "ollama/x has") {
		t.Error(got.out)
	}
}

// TestBadModels: what is wrong in the configuration is said, with the place.
func TestBadModels(t *testing.T) {
	t.Parallel()
	for file, says := range map[string]string{
		`{"providers":7}`:                           "providers: it must be an object",
		`{"providers":{"x":[]}}`:                    "providers.x: it must be an object with kind, url, key",
		`{"providers":{"x":{"urk":"a"}}}`:           `unknown providers.x.urk: did you mean "url"?`,
		`{"providers":{"x":{"url":{}}}}`:            "providers.x.url: it must be a text",
		`{"providers":{"X y":{}}}`:                  "small letters",
		`{"models":{"default":{}}}`:                 "models.default: want PROVIDER/MODEL, or a list",
		`{"models":{"default":["a/b",7]}}`:          "models.default: want PROVIDER/MODEL, or a list",
		`{"models":{"default":"gpt"}}`:              `model "gpt": want PROVIDER/MODEL`,
		`{"models":{"default":"olama/x"}}`:          `did you mean "ollama"?`,
		`{"models":{"default":"gemini/x"}}`:         "PAWL_PROVIDERS_GEMINI_KEY",
		`{"models":{"default":"workers-ai/@cf/x"}}`: "PAWL_PROVIDERS_WORKERS_AI_URL",
		`{"models":{"default":"x/y"},"providers":{"x":{"kind":"geminy","url":"http://h"}}}`:                  `did you mean "gemini"?`,
		`{"models":{"default":"x/y"},"providers":{"x":{"url":"ftp://h"}}}`:                                   "want https://HOST",
		`{"models":{"default":"x/y"},"providers":{"x":{"url":"http://u:hunter2@h"}}}`:                        "what nobody may see belongs into key",
		`{"models":{"default":"x/y"},"providers":{"x":{"url":"http://h?key=hunter2"}}}`:                      "what nobody may see belongs into key",
		`{"models":{"default":"x/y"},"providers":{"x":{"url":"http://h","timeout":"soon"}}}`:                 "timeout: want a time",
		`{"models":{"default":"x/y"},"providers":{"x":{"url":"http://h","temperature":"hot"}}}`:              "temperature: want true or false",
		`{"models":{"default":"ollama/y"},"prices":"/nowhere/prices.json"}`:                                  "prices: open /nowhere",
		`{"models":{"default":"ollama/y"},"prices":{"x":{}}}`:                                                "want PROVIDER/MODEL or PROVIDER/*",
		`{"models":{"default":"ollama/y"},"prices":{"x/y":{"in":1}}}`:                                        "unknown field",
		`{"models":{"default":"ollama/y"},"prices":{"x/y":{"input":"1e3"}}}`:                                 "as a decimal such as 0.15",
		`{"models":{"default":"ollama/y"},"prices":{"x/y":{"input":-1}}}`:                                    "as a decimal such as 0.15",
		`{"models":{"default":"ollama/y"},"prices":{"x/y":{"input":"0.0000001"}}}`:                           "at most six places",
		`{"models":{"default":"ollama/y"},"prices":{"x/y":{"input":"99999999999999999999999999999999999"}}}`: "dollars for a million tokens",
		`{"models":{"default":"ollama/y"},"prices":{"x/y":{"maxOutput":-1}}}`:                                "maxOutput",
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			s.ws = []Workflow{asker("default")}
			conf := filepath.Join(s.dir, "c.json")
			if err := os.WriteFile(conf, []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			got := s.run("run", "asker", "hello", "--config", conf, "--store", "memory")
			oneClearLine(t, got, exitUsage, says)
			if strings.Contains(got.err, "hunter2") {
				t.Error(got.err)
			}
		})
	}
	s := newShell(t)
	s.ws = []Workflow{{Name: "models", Open: asker("x").Open}}
	oneClearLine(t, s.run("version"), exitUsage, "section of that name")
}

// TestPrices: decimals to the micro-dollar, of a file of their own.
func TestPrices(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prices.json")
	text := `{"a/b":{"input":"0.293","cached":0,"output":2.253,"maxOutput":100},"a/*":{"input":5},"c/d":{"output":"0.000001"},"e/f":{"input":".5"}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &config{settings: []*setting{{key: pricesKey, value: file}}}
	if _, err := c.prices(); err == nil || !strings.Contains(err.Error(), "decimal") && !strings.Contains(err.Error(), "places") {
		t.Errorf(".5: %v", err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(text, `,"e/f":{"input":".5"}`, "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := c.prices()
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[llm.Ref]llm.Price{
		{Provider: "a", Model: "b"}: {Input: 293_000, Output: 2_253_000, MaxOutput: 100},
		{Provider: "a", Model: "x"}: {Input: 5_000_000},
		{Provider: "c", Model: "d"}: {Output: 1},
		{Provider: "c", Model: "x"}: {},
	} {
		if got := list.of(ref); got != want {
			t.Errorf("%s: %+v, want %+v", ref, got, want)
		}
	}
}
