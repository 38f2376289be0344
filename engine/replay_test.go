package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
)

// journey is a graph that does a little of everything; plant names what one node does in another way than it was recorded.
func journey(plant string, made *tally) *graph {
	is := func(name string) bool { return plant == name }
	pick := func(name string, usual, planted int) int {
		if is(name) {
			return planted
		}
		return usual
	}
	g := pawl.New[int, work, work]("journey", pawl.Options{Version: "1"})
	plan := g.Node("plan", func(ctx context.Context, w work) (work, error) {
		key := "plan"
		if is("another call") {
			key = "scheme"
		}
		if !is("no call") {
			n, err := do(ctx, key, made, pawl.CallOptions{For: map[string]int{"n": pick("request", w.N, 99)}})
			if err != nil {
				return w, err
			}
			w.N += min(n, 1) + pick("state", 0, 1) // a crash makes the call again
		} else {
			w.N++
		}
		if is("one more call") {
			if _, err := do(ctx, "more", made); err != nil {
				return w, err
			}
		}
		if !is("no event") {
			if err := pawl.Emit(ctx, "planned", map[string]int{"n": pick("event", w.N, 99)}); err != nil {
				return w, err
			}
		}
		if is("one more event") {
			if err := pawl.Emit(ctx, "planned", 7); err != nil {
				return w, err
			}
		}
		return w, pawl.Note(ctx, "policy", pick("note", 1, 2))
	})
	ask := g.Node("ask", func(ctx context.Context, w work) (work, error) {
		if is("no question") {
			return w, nil
		}
		text := "How many?"
		if is("question") {
			text = "How few?"
		}
		n, err := pawl.Ask[int](ctx, "many", pawl.Question{Text: text})
		w.N += n
		return w, err
	})
	flaky := g.Node("flaky", func(ctx context.Context, w work) (work, error) {
		switch {
		case pawl.Info(ctx).Try > 1 && !is("fails again"), is("no error"):
			return w.line("mended"), nil
		case is("another error"):
			return w, errors.New("it is broken in another way")
		}
		return w, errTransient()
	}, pawl.NodeOptions{Retry: pawl.Retry{Max: 1, First: time.Minute}})
	each := pawl.Each(g, "each", sleeper(sleeps), pawl.Fan[work, int, work]{
		Items: func(work) ([]int, error) {
			return []int{1, -2, pick("child", 3, 4)}[:pick("fewer children", 3, 2)], nil
		}, Collect: true,
		Join: func(w work, rs []pawl.Result[work]) (work, error) { return w.line(rs[1].Err.Error()), nil },
	})
	rest := g.Node("rest", func(ctx context.Context, w work) (work, error) {
		if err := pawl.Sleep(ctx, []string{"nap", "siesta"}[pick("timer", 0, 1)], time.Minute); err != nil {
			return w, err
		}
		return w, &pawl.Error{Code: "tired", Text: "it is late"}
	})
	g.Start(plan, func(n int) (work, error) { return work{N: n + pick("start", 0, 1)}, nil })
	end := g.Succeed("END")
	g.From(plan).When("big", func(w work) bool { return w.N > 3 && !is("edge") }, ask).Otherwise(end)
	g.From(ask).OnAnswer("answered", flaky).Otherwise(end)
	g.From(flaky).Otherwise(each)
	g.From(each).Otherwise(rest)
	g.From(rest).OnError("late", func(w work, err error) (work, bool) {
		return w.line(err.Error()), !is("no claim")
	}, end).Otherwise(end)
	g.Finish(func(w work, _ pawl.Ending) (work, error) { w.N += pick("output", 0, 1); return w, nil })
	g.Closing(func(w work, e pawl.Ending) []pawl.Event {
		return []pawl.Event{{Type: "bye", Data: pick("closing", len(e.Path()), 0)}}
	})
	return g
}

var operator = pawl.Caller{User: "op", Scopes: []string{pawl.ScopeAll}}

// replayed replays a run on an engine with these graphs.
func (r *rig) replayed(id string, ws ...*pawl.Workflow) engine.Replay {
	r.Helper()
	got, err := r.engine(r.store, engine.Config{}, ws...).Replay(r.ctx, operator, id)
	if err != nil {
		r.Fatal(err)
	}
	return got
}

// equal replays a run that must come to what was recorded.
func (r *rig) equal(id string, ws ...*pawl.Workflow) engine.Replay {
	r.Helper()
	got := r.replayed(id, ws...)
	if d := got.Diverged; d != nil || got.Steps != got.Of {
		text, _ := json.Marshal(got)
		r.Fatalf("the replay is not equal: %s", text)
	}
	return got
}

// travel takes a run of the journey to its end.
func (r *rig) travel() pawl.Run {
	r.Helper()
	stop := r.worker(r.engine(r.store, engine.Config{}))
	defer stop()
	run := r.start("journey", 5)
	r.becomes(run.ID, pawl.StatusWaiting)
	r.reply(run.ID, "2")
	return r.ends(run.ID, pawl.StatusSucceeded)
}

func (r *rig) reply(id, answer string) {
	r.Helper()
	qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{Run: id}, "", 0)
	if err != nil || len(qs) != 1 {
		r.Fatal(qs, err)
	}
	if err := r.rs.Answer(r.ctx, id, qs[0].ID, json.RawMessage(answer)); err != nil {
		r.Fatal(err)
	}
}

func built(t *testing.T, g *graph) *pawl.Workflow {
	t.Helper()
	w, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestReplayFindsEachPlantedDivergence(t *testing.T) {
	made := &tally{}
	virtual(t, func(r *rig) {
		run := r.travel()
		before, calls := r.everything(run.ID), made.of("plan")
		got := r.equal(run.ID)
		if got.Executions != 6 || got.Events != 1 || got.Calls < 5 {
			t.Errorf("%+v", got)
		}
		for plant, want := range map[string]struct{ kind, node, key, path, names string }{
			"start":          {engine.DivergedStart, "plan", "", ".N", "another state"},
			"another call":   {engine.DivergedCall, "plan", "scheme", "", "not in the journal"},
			"no call":        {engine.DivergedUnmade, "plan", "plan", "", "is not made"},
			"one more call":  {engine.DivergedCall, "plan", "more", "", "not in the journal"},
			"request":        {engine.DivergedRequest, "plan", "plan", ".n", "another request"},
			"state":          {engine.DivergedEvent, "plan", "planned", ".n", "other data"}, // it is emitted before the step ends
			"event":          {engine.DivergedEvent, "plan", "planned", ".n", "other data"},
			"no event":       {engine.DivergedEvent, "plan", "planned", "", "not emitted"},
			"one more event": {engine.DivergedEvent, "plan", "planned", "", "recorded: it is not"},
			"note":           {engine.DivergedNote, "plan", "", "", "policy 2"},
			"edge":           {engine.DivergedNext, "plan", "", "", `recorded: edge "big" to "ask"`},
			"question":       {engine.DivergedRequest, "ask", "many", ".text", "another one"},
			"no question":    {engine.DivergedUnmade, "ask", "many", "", "is not made"},
			"no error":       {engine.DivergedNext, "flaky", "", "", "recorded: the next try"},
			"another error":  {engine.DivergedError, "flaky", "", "", "503"},
			"fails again":    {engine.DivergedError, "flaky", "", "", "recorded: it does not"},
			"child":          {engine.DivergedRequest, "each", "each[2]", "", "another input"},
			"fewer children": {engine.DivergedUnmade, "each", "each[2]", "", "is not made"},
			"timer":          {engine.DivergedCall, "rest", "siesta", "", "not in the journal"},
			"no claim":       {engine.DivergedNext, "rest", "", "", `the run fails (tired: it is late), recorded: edge "late"`},
			"output":         {engine.DivergedOutput, "", "", ".N", "something else"},
			"closing":        {engine.DivergedOutput, "", "bye", "", "closing event"},
		} {
			d := r.replayed(run.ID, built(t, journey(plant, made))).Diverged
			if d == nil {
				t.Errorf("%s: not found", plant)
				continue
			}
			if d.Kind != want.kind || want.node != "" && d.Node != want.node || d.Key != want.key || d.Path != want.path || !strings.Contains(d.Text, want.names) {
				t.Errorf("%s: %+v, want %+v", plant, *d, want)
			}
		}
		if after := r.everything(run.ID); after != before || made.of("plan") != calls || made.of("more")+made.of("scheme") > 0 {
			t.Errorf("a replay has made calls or changed the run")
		}
	}, built(t, journey("", made)))
}

// everything that is to be read of a run.
func (r *rig) everything(id string) string {
	r.Helper()
	steps, err := r.rs.Steps(r.ctx, id, 0, 0)
	if err != nil {
		r.Fatal(err)
	}
	b, err := json.Marshal([]any{r.get(id), steps, r.events(id)})
	if err != nil {
		r.Fatal(err)
	}
	return string(b)
}

func TestReplayShowsBothValues(t *testing.T) {
	virtual(t, func(r *rig) {
		run, question := r.waiting(built(t, poll("1", "ask", 1)))
		run = r.answered(run, question, built(t, poll("1", "ask", 1)))
		d := r.replayed(run.ID, built(t, poll("1", "ask", 2))).Diverged
		if d == nil || d.Kind != engine.DivergedState || d.Path != ".N" || string(d.Recorded) != "14" || string(d.Replayed) != "17" || d.Step != 4 {
			t.Errorf("%+v", d)
		}
	}, built(t, poll("1", "ask", 1)))
}

func TestReplayOfARunUnderWay(t *testing.T) {
	made := &tally{}
	virtual(t, func(r *rig) {
		run := r.start("journey", 5)
		r.equal(run.ID) // nobody has begun it
		stop := r.worker(r.engine(r.store, engine.Config{}))
		defer stop()
		r.becomes(run.ID, pawl.StatusWaiting)
		r.equal(run.ID)
		for plant, kind := range map[string]string{"question": engine.DivergedRequest, "no question": engine.DivergedWait} {
			if d := r.replayed(run.ID, built(t, journey(plant, made))).Diverged; d == nil || d.Kind != kind || d.Node != "ask" {
				t.Errorf("%s: %+v", plant, d)
			}
		}
		if err := r.rs.Cancel(r.ctx, run.ID, "enough"); err != nil {
			t.Fatal(err)
		}
		r.ends(run.ID, pawl.StatusCancelled)
		r.equal(run.ID)
		if _, err := r.rs.Retry(r.ctx, run.ID); err != nil { // the next attempt is replayed behind the first
			t.Fatal(err)
		}
		r.becomes(run.ID, pawl.StatusWaiting)
		r.reply(run.ID, "2")
		r.ends(run.ID, pawl.StatusSucceeded)
		if got := r.equal(run.ID); got.Executions != 7 {
			t.Errorf("%+v", got)
		}
	}, built(t, journey("", made)))
}

func TestReplayOfAForkAndOfChildren(t *testing.T) {
	made := &tally{}
	virtual(t, func(r *rig) {
		run := r.travel()
		stop := r.worker(r.engine(r.store, engine.Config{}))
		defer stop()
		fork, err := r.rs.Fork(r.ctx, run.ID, 2, json.RawMessage(`{"N":40,"Text":"edited","Log":null}`))
		if err != nil {
			t.Fatal(err)
		}
		r.becomes(fork.ID, pawl.StatusWaiting)
		r.reply(fork.ID, "1")
		r.ends(fork.ID, pawl.StatusSucceeded)
		r.equal(fork.ID)
		all, err := r.rs.List(r.ctx, pawl.RunFilter{Root: run.ID}, "", 0)
		if err != nil || len(all) != 4 {
			t.Fatal(all, err)
		}
		for _, c := range all {
			r.equal(c.ID)
		}
	}, built(t, journey("", made)))
}

func TestReplaySaysWhyItCannotBe(t *testing.T) {
	one, two := poll("1", "ask", 1), poll("2", "ask", 1)
	two.Migrate("1", func(m pawl.Migration) (pawl.Migration, error) { return m, nil })
	virtual(t, func(r *rig) {
		run, question := r.waiting(built(t, one))
		run = r.answered(run, question, built(t, two))
		r.ends(run.ID, pawl.StatusSucceeded)
		got := r.replayed(run.ID, built(t, one), built(t, two))
		if got.Diverged != nil || !strings.Contains(got.Stopped, "from version 1 to 2") || got.Steps == 0 || got.Steps == got.Of {
			t.Errorf("%+v", got)
		}
		for name, ws := range map[string][]*pawl.Workflow{
			"version 1 of asking is not registered":   {built(t, two)},
			"version 2 of asking is not registered":   {built(t, one)},
			"the graph of asking@2 changed without a": {built(t, poll("2", "other", 1))},
		} {
			_, err := r.engine(r.store, engine.Config{}, ws...).Replay(r.ctx, operator, run.ID)
			named(t, pawl.Coded(err), pawl.CodeConflict, name)
		}
		e := r.engine(r.store, engine.Config{}, built(t, one))
		_, err := e.Replay(r.ctx, pawl.Caller{User: "eve"}, run.ID)
		named(t, pawl.Coded(err), pawl.CodeNotFound)
		_, err = e.Replay(r.ctx, operator, "nothing")
		named(t, pawl.Coded(err), pawl.CodeNotFound)
	}, built(t, one))
}

func TestReplayWithCrashes(t *testing.T) {
	pawltest.EveryCrash(t, fan(sleeper(sleeps), []int{3, 1, 2}, 2, false), 1, pawltest.Script{Replay: true})
	pawltest.EveryCrash(t, journey("", &tally{}), 5, pawltest.Script{Replay: true, Answers: map[string][]any{"many": {2}}})
}
