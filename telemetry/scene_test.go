package telemetry_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"pawl"
	"pawl/engine"
	"pawl/store"
	"pawl/store/memory"
	"pawl/telemetry"
)

var all = pawl.Caller{Scopes: []string{pawl.ScopeAll}}

// scene is a store, an engine whose steps are told, and who gets them.
type scene struct {
	*testing.T
	to     *receiver
	store  store.Store
	traces *telemetry.Traces
	engine *engine.Engine
	faults chan error
	stop   func()
}

// newScene tells a receiver of what an engine does, which has this store, or one in memory.
func newScene(t *testing.T, s store.Store, to *receiver, c telemetry.Config, ws ...*pawl.Workflow) *scene {
	t.Helper()
	if s == nil {
		s = memory.New()
	}
	sc := &scene{T: t, to: to, store: s, faults: make(chan error, 1000)}
	c.URL, c.Fault = to.URL+"/v1/traces", func(_ string, err error) { sc.faults <- err }
	if c.Delay == 0 {
		c.Delay, c.Grace = 10*time.Millisecond, 200*time.Millisecond
	}
	var err error
	if sc.traces, err = telemetry.NewTraces(c); err != nil {
		t.Fatal(err)
	}
	conf := engine.Config{Lease: time.Second, Trace: engine.Trace{Fault: func(op string, err error) { t.Log(op, err) }}.And(sc.traces.Trace())}
	if sc.engine, err = engine.New(s, ws, conf); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := sc.traces.Work(ctx, s); err != nil {
			t.Error(err)
		}
	}()
	sc.stop = func() { cancel(); <-done }
	t.Cleanup(sc.stop)
	return sc
}

func (sc *scene) start(workflow, input string, o pawl.StartOptions) string {
	sc.Helper()
	s, err := sc.engine.As(all).Start(context.Background(), workflow, json.RawMessage(input), o)
	if err != nil {
		sc.Fatal(err)
	}
	return s.Run.ID
}

// work works a run until it ends or waits for somebody.
func (sc *scene) work(run string) pawl.Run {
	sc.Helper()
	if err := sc.engine.WorkRun(context.Background(), run); err != nil {
		sc.Fatal(err)
	}
	r, err := sc.engine.As(all).Get(context.Background(), run)
	if err != nil {
		sc.Fatal(err)
	}
	return r
}

// want is what a receiver has to have of a run: the ids do not matter, but how many spans there are of each kind.
func want(t testing.TB, e *engine.Engine, run string) (steps, calls, attempts int) {
	t.Helper()
	for after := int64(0); ; {
		r, err := e.Report(context.Background(), run, after, 7) // small pages: their edges are met
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range r.Steps {
			after = s.Latest
			if calls += len(s.Calls); !s.Begins {
				steps++
			}
			if s.Ends {
				attempts++
			}
		}
		if !r.More {
			return steps, calls, attempts
		}
	}
}

// await waits until the receiver has every span of a run, and fails where it has one twice.
func (sc *scene) await(run string) map[string]*tracepb.Span {
	sc.Helper()
	steps, calls, attempts := want(sc, sc.engine, run)
	sc.soon("all spans", func() bool { return len(sc.to.of(run)) >= steps+calls+attempts })
	time.Sleep(50 * time.Millisecond) // for one too many
	got := sc.to.of(run)
	if len(got) != steps+calls+attempts {
		sc.Errorf("%d spans, want %d steps, %d calls and %d attempts", len(got), steps, calls, attempts)
	}
	for id, n := range got {
		if n != 1 {
			sc.Errorf("span %s came %d times", id, n)
		}
	}
	byName := map[string]*tracepb.Span{}
	for _, sp := range sc.to.spans() {
		if plain(sp.Attributes)["pawl.run.id"] == run {
			byName[sp.Name] = sp
		}
	}
	return byName
}

func (sc *scene) soon(what string, is func() bool) {
	sc.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			sc.Fatalf("does not come: %s (%+v)", what, sc.traces.Count())
		}
	}
}

func idOf(sp *tracepb.Span) string { return hex.EncodeToString(sp.SpanId) }

func built[I, S, O any](t testing.TB, g *pawl.Graph[I, S, O]) *pawl.Workflow {
	t.Helper()
	w, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

type state struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

// brain asks a model, whose first try fails, tries a node again, asks a person and fails at the end where it is told to.
func brain() *pawl.Graph[state, state, string] {
	g := pawl.New[state, state, string]("brain", pawl.Options{Version: "1"})
	tried := map[string]int{}
	answer := g.Node("answer", func(ctx context.Context, s state) (state, error) {
		text, err := pawl.Do(ctx, "reply", func(ctx context.Context) (string, error) {
			pawl.Annotate(ctx, "gen_ai.operation.name", "chat", "gen_ai.provider.name", "ollama", "gen_ai.request.model", "tiny")
			if tried[pawl.Info(ctx).Run]++; tried[pawl.Info(ctx).Run] == 1 {
				return "", &pawl.Error{Code: "rate_limited", Text: "later"}
			}
			pawl.Annotate(ctx, "gen_ai.response.model", "tiny:1", "gen_ai.response.finish_reasons", "stop",
				"gen_ai.usage.input_tokens", int64(12), "gen_ai.usage.output_tokens", int64(34), "cost_usd", "$0.0125", "confidence", 0.85)
			return "the answer", nil
		}, pawl.CallOptions{For: "the question", Retry: pawl.Retry{Max: 1, First: time.Millisecond}})
		if err != nil {
			return s, err
		}
		_, err = pawl.Do(ctx, "look", func(ctx context.Context) (string, error) {
			pawl.Annotate(ctx, "gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", "search")
			return "found", nil
		})
		pawl.Annotate(ctx, "path", "short")
		s.Text = text
		return s, errors.Join(err, pawl.Note(ctx, "policy_applied", map[string]string{"why": "secret reasons"}))
	})
	shaky := g.Node("shaky", func(_ context.Context, s state) (state, error) {
		if s.N++; s.N > 0 && s.Text == "the answer" {
			return state{}, errors.New("first try")
		}
		return s, nil
	}, pawl.NodeOptions{Retry: pawl.Retry{Max: 1, First: time.Millisecond}})
	ask := g.Node("ask", func(ctx context.Context, s state) (state, error) {
		yes, err := pawl.Ask[bool](ctx, "ok", pawl.Question{Text: "Go ahead?"})
		if err == nil && !yes {
			panic("as told")
		}
		return s, err
	})
	g.Start(answer, func(s state) (state, error) { return s, nil })
	g.From(answer).Otherwise(shaky)
	g.From(shaky).OnError("enough", func(s state, _ error) (state, bool) { return s, true }, ask)
	g.From(shaky).Otherwise(ask)
	g.From(ask).OnAnswer("said", g.Succeed("DONE")).AtMost(1).Otherwise(g.Fail("LOST"))
	g.Finish(func(s state, _ pawl.Ending) (string, error) { return s.Text, nil })
	return g
}
