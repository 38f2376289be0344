package telemetry_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"pawl"
	"pawl/telemetry"
)

const starter = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// played is a run of brain that asked, was answered and came to its end.
func played(t *testing.T, content bool, answer string) (*scene, string, map[string]*tracepb.Span) {
	t.Helper()
	sc := newScene(t, nil, newReceiver(t), telemetry.Config{Content: content, Resource: map[string]string{"service.name": "x"}}, built(t, brain()))
	run := sc.start("brain", `{"n":0}`, pawl.StartOptions{Traceparent: starter, Correlation: "chat-7", Labels: map[string]string{"plan": "a"}})
	if r := sc.work(run); r.Status != pawl.StatusWaiting {
		t.Fatalf("%+v", r)
	}
	sc.await(run)
	qs, err := sc.engine.As(all).Questions(context.Background(), pawl.QuestionFilter{Run: run}, "", 0)
	if err != nil || len(qs) != 1 {
		t.Fatal(qs, err)
	}
	if err := sc.engine.As(all).Answer(context.Background(), run, qs[0].ID, json.RawMessage(answer)); err != nil {
		t.Fatal(err)
	}
	sc.work(run)
	return sc, run, sc.await(run)
}

// TestSpans: a run's spans, with the names and attributes that docs/how-to/traces.md promises.
func TestSpans(t *testing.T) {
	t.Parallel()
	sc, run, got := played(t, false, "true")
	chat, whole, step := got["chat tiny"], got["invoke_workflow brain"], got["answer"]
	for _, name := range []string{"chat tiny", "execute_tool search", "invoke_workflow brain", "answer", "shaky retry", "shaky", "ask waiting", "ask", "answer ok"} {
		if got[name] == nil {
			t.Errorf("no span %q", name)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	for name, want := range map[string]map[string]any{
		"chat tiny": {
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "ollama", "gen_ai.request.model": "tiny", "gen_ai.response.model": "tiny:1",
			"gen_ai.usage.input_tokens": int64(12), "gen_ai.usage.output_tokens": int64(34), "gen_ai.conversation.id": "chat-7", "session.id": "chat-7",
			"langfuse.observation.type": "generation", "langfuse.observation.usage_details": `{"input":12,"output":34}`,
			"langfuse.observation.cost_details": `{"total":0.0125}`, "langfuse.observation.metadata.confidence": .85,
			"langfuse.observation.metadata.attempts": int64(2), "langfuse.observation.model.name": "tiny:1", "pawl.call.key": "reply", "pawl.node": "answer",
		},
		"execute_tool search":   {"gen_ai.tool.name": "search", "langfuse.observation.type": "tool"},
		"answer":                {"langfuse.observation.type": "span", "langfuse.observation.metadata.path": "short", "pawl.visit": int64(1), "pawl.step.to": "shaky"},
		"invoke_workflow brain": {"gen_ai.operation.name": "invoke_workflow", "langfuse.observation.type": "agent", "pawl.status": "succeeded", "langfuse.trace.metadata.plan": "a", "langfuse.trace.name": "brain"},
		"shaky retry":           {"error.type": "internal", "langfuse.observation.level": "ERROR"},
	} {
		at := plain(got[name].Attributes)
		for key, w := range want {
			if at[key] != w {
				t.Errorf("%s: %s is %#v, want %#v", name, key, at[key], w)
			}
		}
	}
	if reasons, _ := plain(chat.Attributes)["gen_ai.response.finish_reasons"].([]string); !slices.Equal(reasons, []string{"stop"}) || chat.Kind != tracepb.Span_SPAN_KIND_CLIENT {
		t.Error(reasons, chat.Kind)
	}
	for _, sp := range got { // one trace, which is the starter's
		if hex.EncodeToString(sp.TraceId) != starter[3:35] || sp.StartTimeUnixNano > sp.EndTimeUnixNano {
			t.Errorf("%+v", sp)
		}
	}
	if hex.EncodeToString(whole.ParentSpanId) != starter[36:52] || string(step.ParentSpanId) != string(whole.SpanId) || string(chat.ParentSpanId) != string(step.SpanId) {
		t.Error("the spans do not stand under each other")
	}
	for from, to := range map[string]string{"ask": "ask waiting", "shaky": "shaky retry"} {
		if l := got[from].Links; len(l) != 1 || string(l[0].SpanId) != string(got[to].SpanId) {
			t.Errorf("%s has the links %v, want one to %s", from, l, to)
		}
	}
	var first *tracepb.Span // of the call's two tries
	for _, sp := range sc.to.spans() {
		if sp.Name == "chat tiny" && idOf(sp) != idOf(chat) {
			first = sp
		}
	}
	if first == nil || first.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || len(chat.Links) != 1 || string(chat.Links[0].SpanId) != string(first.SpanId) {
		t.Errorf("the try that failed: %v, %v", first, chat.Links)
	}
	if notes := got["answer"].Events; len(notes) != 1 || notes[0].Name != "policy_applied" {
		t.Error(notes)
	}
	for _, private := range []string{"the question", "the answer", "secret reasons"} {
		if strings.Contains(string(sc.to.raw), private) {
			t.Errorf("%q was sent although nobody asked for it (run %s)", private, run)
		}
	}
	if sc.to.resource["service.name"] != "x" {
		t.Error(sc.to.resource)
	}
}

// TestContent: inputs and outputs go with the spans where that was asked for.
func TestContent(t *testing.T) {
	t.Parallel()
	_, _, got := played(t, true, "true")
	for name, want := range map[string][2]string{
		"chat tiny": {`"the question"`, `"the answer"`}, "invoke_workflow brain": {`{"n":0}`, `"the answer"`}, "answer": {`{"n":0}`, `{"n":0,"text":"the answer"}`},
	} {
		at := plain(got[name].Attributes)
		if at["langfuse.observation.input"] != want[0] || at["langfuse.observation.output"] != want[1] {
			t.Errorf("%s: %v and %v, want %v", name, at["langfuse.observation.input"], at["langfuse.observation.output"], want)
		}
	}
	if payload := plain(got["answer"].Events[0].Attributes)["pawl.payload"]; payload != `{"why":"secret reasons"}` {
		t.Error(payload)
	}
}

// TestPanicStack: a run that fails of a panic tells where, apart from the message.
func TestPanicStack(t *testing.T) {
	t.Parallel()
	_, _, got := played(t, false, "false")
	for _, name := range []string{"ask", "invoke_workflow brain"} {
		sp := got[name]
		at := plain(sp.Attributes)
		if sp.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || at["error.type"] != "internal" || at["langfuse.observation.level"] != "ERROR" {
			t.Fatalf("%s: %v %v", name, sp.Status, at)
		}
		e := plain(sp.Events[len(sp.Events)-1].Attributes)
		message, _ := e["exception.message"].(string)
		stack, _ := e["exception.stacktrace"].(string)
		if !strings.Contains(message, "as told") || strings.Contains(message, "goroutine") || !strings.Contains(stack, "scene_test.go") {
			t.Errorf("%s: message %q, stack %q", name, message, stack)
		}
	}
}

// TestAttemptsAndForks: each attempt of a run is a span that is linked to the one before, and a fork is linked to the step that
// it is of.
func TestAttemptsAndForks(t *testing.T) {
	t.Parallel()
	g := pawl.New[state, state, state]("weak", pawl.Options{Version: "1"})
	times := 0
	first := g.Node("first", func(_ context.Context, s state) (state, error) { return s, nil })
	node := g.Node("node", func(_ context.Context, s state) (state, error) {
		if times++; times == 1 {
			return s, &pawl.Error{Code: "weak", Text: "not yet"}
		}
		return s, nil
	})
	g.Start(first, func(s state) (state, error) { return s, nil })
	g.From(first).Otherwise(node)
	g.From(node).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s state, _ pawl.Ending) (state, error) { return s, nil })
	sc := newScene(t, nil, newReceiver(t), telemetry.Config{}, built(t, g))
	ctx, rs := context.Background(), sc.engine.As(all)
	run := sc.start("weak", `{"n":1}`, pawl.StartOptions{})
	if r := sc.work(run); r.Status != pawl.StatusFailed {
		t.Fatalf("%+v", r)
	}
	failed := sc.await(run)["invoke_workflow weak"]
	if _, err := rs.Retry(ctx, run); err != nil {
		t.Fatal(err)
	}
	sc.work(run)
	again := sc.await(run)["invoke_workflow weak"]
	if len(again.Links) != 1 || string(again.Links[0].SpanId) != string(failed.SpanId) || failed.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Error(again.Links, failed.Status)
	}
	steps, err := rs.Steps(ctx, run, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	fork, err := rs.Fork(ctx, run, steps[1].Seq, nil)
	if err != nil {
		t.Fatal(err)
	}
	sc.work(fork.ID)
	forked := sc.await(fork.ID)["invoke_workflow weak"]
	of := sc.await(run)["first"]
	for _, sp := range sc.to.spans() {
		if at := plain(sp.Attributes); at["pawl.run.id"] == run && at["pawl.step"] == steps[1].Seq {
			of = sp
		}
	}
	if len(forked.Links) != 1 || string(forked.Links[0].SpanId) != string(of.SpanId) || string(forked.Links[0].TraceId) != string(of.TraceId) || string(forked.TraceId) == string(of.TraceId) {
		t.Errorf("%v, want a link to %v", forked.Links, of)
	}
}

// TestChildren: a child's spans stand under the call of its parent, in one trace; background runs are linked.
func TestChildren(t *testing.T) {
	t.Parallel()
	leaf := func(name string) *pawl.Graph[state, state, state] {
		g := pawl.New[state, state, state](name, pawl.Options{Version: "1"})
		a := g.Node("leaf", func(_ context.Context, s state) (state, error) { return s, nil })
		g.Start(a, func(s state) (state, error) { return s, nil })
		g.From(a).Otherwise(g.Succeed("DONE"))
		g.Finish(func(s state, _ pawl.Ending) (state, error) { return s, nil })
		return g
	}
	child, behind := leaf("child"), leaf("behind")
	g := pawl.New[state, state, state]("parent", pawl.Options{Version: "1"})
	sub := pawl.Sub(g, "sub", child, func(s state) (state, error) { return s, nil }, func(_, out state) (state, error) { return out, nil })
	last := g.Node("last", func(ctx context.Context, s state) (state, error) {
		_, err := pawl.Enqueue(ctx, "later", behind, s)
		return s, err
	})
	g.Start(sub, func(s state) (state, error) { return s, nil })
	g.From(sub).Otherwise(last)
	g.From(last).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s state, _ pawl.Ending) (state, error) { return s, nil })
	sc := newScene(t, nil, newReceiver(t), telemetry.Config{}, built(t, g), built(t, behind))
	run := sc.start("parent", `{"n":1}`, pawl.StartOptions{})
	sc.work(run)
	up := sc.await(run)["invoke_workflow parent"]
	rs, err := sc.engine.As(all).List(context.Background(), pawl.RunFilter{}, "", 0)
	if err != nil || len(rs) != 3 {
		t.Fatal(rs, err)
	}
	for _, r := range rs {
		switch r.Workflow {
		case "child":
			whole := sc.await(r.ID)["invoke_workflow child"]
			var call *tracepb.Span
			for _, sp := range sc.to.spans() {
				if plain(sp.Attributes)["pawl.child"] == r.ID {
					call = sp
				}
			}
			if call == nil || string(whole.ParentSpanId) != string(call.SpanId) || string(whole.TraceId) != string(up.TraceId) {
				t.Errorf("%v is not under %v", whole, call)
			}
		case "behind":
			sc.work(r.ID)
			whole := sc.await(r.ID)["invoke_workflow behind"]
			if len(whole.Links) != 1 || string(whole.Links[0].SpanId) != string(up.SpanId) || string(whole.Links[0].TraceId) != string(up.TraceId) {
				t.Error(whole.Links)
			}
		}
	}
}

// TestParent: what a starter's traceparent is taken for. One that is not recorded is not told.
func TestParent(t *testing.T) {
	t.Parallel()
	sc := newScene(t, nil, newReceiver(t), telemetry.Config{}, built(t, brain()))
	var silent []string
	for text, told := range map[string]bool{
		strings.Replace(starter, "-01", "-00", 1): false, starter: true, starter + "-x": true, "00-xyz": true, "cc" + starter[2:] + "-later": true,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": true, strings.ToUpper(starter): true,
	} {
		run := sc.start("brain", `{"n":0}`, pawl.StartOptions{Traceparent: text})
		sc.work(run)
		if !told {
			silent = append(silent, run)
			continue
		}
		honored := text == starter || strings.HasPrefix(text, "cc")
		for _, sp := range sc.await(run) {
			if is := hex.EncodeToString(sp.TraceId) == starter[3:35]; is != honored {
				t.Errorf("%q: trace %x", text, sp.TraceId)
			}
		}
	}
	for _, run := range silent {
		if n := len(sc.to.of(run)); n > 0 {
			t.Errorf("%d spans of a run that its starter does not record", n)
		}
	}
}
