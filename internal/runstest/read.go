package runstest

import (
	"encoding/json"
	"strings"

	"pawl"
)

func readLaws() []law {
	return []law{
		{"steps", "the step log has no hole and says where each step came from and went", readSteps},
		{"state", "the state after every step can be read", readState},
		{"calls", "every call can be read with its request, result and attributes", readCalls},
		{"notes", "a decision that a node noted stands in the step log", readNotes},
		{"meters", "what was spent is shown against its cap", readMeters},
		{"workflows", "what can be started is listed with its schemas", readWorkflows},
		{"a child's failure", "the parent's error says which child failed and why", readChildFailure},
		{"eta", "who asks again learns how long it may take", readETA},
	}
}

func readSteps(l *lab) {
	r := l.worked(`{"text":"a","do":"write","n":1}`)
	steps, err := l.rs.Steps(l.ctx, r.ID, 0, 0)
	if err != nil {
		l.Fatal(err)
	}
	at := ""
	for i, s := range steps {
		if s.Seq != int64(i)+1 || s.Run != r.ID || s.Workflow != "desk" || s.Version != "1" || s.Attempt != 1 || s.OccurredAt.IsZero() || s.Hash == "" {
			l.Errorf("step %d: %+v", i, s)
		}
		if s.Edge != "" && s.StateBefore != at {
			l.Errorf("step %d begins at %q, the one before ended at %q", i, s.StateBefore, at)
		}
		if s.StateAfter != "" && (s.Edge != "" || i == 0) {
			at = s.StateAfter
		}
	}
	if int64(len(steps)) != r.Steps || at != "DONE" {
		l.Errorf("%d steps to %q, the run has %d", len(steps), at, r.Steps)
	}
	page, err := l.rs.Steps(l.ctx, r.ID, 1, 1)
	if err != nil || len(page) != 1 || page[0].Seq != 2 {
		l.Errorf("page %+v, %v", page, err)
	}
}

func readState(l *lab) {
	r := l.worked(`{"text":"a","do":"write","n":2}`)
	lines := func(step int64) string {
		l.Helper()
		b, err := l.rs.State(l.ctx, r.ID, step)
		var p paper
		if err == nil {
			err = json.Unmarshal(b, &p)
		}
		if err != nil {
			l.Fatal(err)
		}
		return strings.Join(p.Lines, ",")
	}
	for step, want := range map[int64]string{1: "", l.stepOf(r.ID, "sort"): "sorted", l.stepOf(r.ID, "write"): "sorted,a 0,a 1", 0: "sorted,a 0,a 1"} {
		if got := lines(step); got != want {
			l.Errorf("step %d: %q, want %q", step, got, want)
		}
	}
	for _, step := range []int64{-1, 99} {
		_, err := l.rs.State(l.ctx, r.ID, step)
		l.refused(err, pawl.CodeNotFound)
	}
}

func readCalls(l *lab) {
	r := l.worked(`{"text":"a","do":"write","n":2}`)
	made, err := l.rs.Calls(l.ctx, r.ID, l.stepOf(r.ID, "write"))
	if err != nil || len(made) != 2 {
		l.Fatalf("calls %+v, %v", made, err)
	}
	if m := made[1]; m.Key != "line 1" || m.Kind != "call" || string(m.For) != "1" || string(m.Result) != `"a 1"` || m.Attrs["model"] != "pen" || m.Physical != 1 || m.At.IsZero() {
		l.Errorf("call %+v", m)
	}
	if made, err := l.rs.Calls(l.ctx, r.ID, l.stepOf(r.ID, "sort")); err != nil || len(made) != 0 {
		l.Errorf("of another step: %+v, %v", made, err)
	}
	failed := l.worked(`{"text":"a","do":"write","n":9}`)
	made, err = l.rs.Calls(l.ctx, failed.ID, l.stepOf(failed.ID, "write"))
	if err != nil || len(made) != 6 || made[5].Err == nil || made[5].Err.Code != pawl.CodeExhausted {
		l.Errorf("of a step that failed: %+v, %v", made, err)
	}
	_, err = l.rs.Calls(l.ctx, r.ID, 99)
	l.refused(err, pawl.CodeNotFound)
}

func readNotes(l *lab) {
	r := l.worked(`{"text":"a","do":"write","n":2}`)
	steps, err := l.rs.Steps(l.ctx, r.ID, 0, 0)
	if err != nil {
		l.Fatal(err)
	}
	for _, s := range steps {
		if s.Name == "policy_applied" {
			if string(s.Payload) != `{"n":2}` {
				l.Errorf("payload %s", s.Payload)
			}
			return
		}
	}
	l.Errorf("steps %+v", steps)
}

func readMeters(l *lab) {
	r := l.worked(`{"text":"a","do":"write","n":2}`)
	if m := meter(r, "llm"); m.Used != 2 || m.Cap != 5 {
		l.Errorf("meter %+v", m)
	}
}

func readWorkflows(l *lab) {
	ws, err := l.rs.Workflows(l.ctx)
	if err != nil {
		l.Fatal(err)
	}
	found := map[string]pawl.WorkflowInfo{}
	for _, w := range ws {
		found[w.Name] = w
	}
	w := found["desk"]
	if len(ws) != 2 || w.Version != "1" || w.Fingerprint == "" || len(w.Positional) != 1 || w.Positional[0] != "text" ||
		!strings.Contains(string(w.Input), `"text"`) || !strings.Contains(string(w.Output), `"lines"`) {
		l.Errorf("workflows %+v", ws)
	}
}

func readChildFailure(l *lab) {
	r := l.worked(`{"text":"a","do":"child","names":["fail"]}`)
	l.is(r, pawl.StatusFailed)
	kids := l.all(ann(), pawl.RunFilter{Parent: r.ID})
	if len(kids) != 1 || r.Err == nil || r.Err.Code != "broken" || !strings.Contains(r.Err.Error(), "attempt 1 is broken") || r.Err.Node != "child" {
		l.Errorf("error %+v, children %+v", r.Err, kids)
	}
}

func readETA(l *lab) {
	close(l.hook.gate)
	in := `{"text":"a","do":"write","n":1}`
	l.worked(in)
	s := l.begin("desk", in, pawl.StartOptions{Key: "k"})
	again := l.begin("desk", in, pawl.StartOptions{Key: "k"})
	if again.Existing != pawl.ExistingRunning || again.Run.ID != s.Run.ID || again.Run.ETA < 0 {
		l.Errorf("%+v", again)
	}
}
