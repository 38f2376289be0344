package pawltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pawl"
	"pawl/engine"
)

// letter is the state of the graph that these tests play.
type letter struct {
	Text   string
	Drafts int
	Said   string
}

// desk drafts, sleeps, asks, and drafts again until a person is content.
func desk(seen func(string)) *pawl.Graph[string, letter, string] {
	g := pawl.New[string, letter, string]("desk", pawl.Options{Version: "1", Budget: pawl.Budget{"llm": 10}})
	write := g.Node("write", func(ctx context.Context, l letter) (letter, error) {
		text, err := pawl.Do(ctx, "draft", func(context.Context) (string, error) {
			seen("draft")
			return fmt.Sprintf("draft %d", l.Drafts+1), nil
		}, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}, Retry: pawl.Retry{Max: 2, First: 2 * time.Second}})
		if err != nil {
			return l, err
		}
		if err := pawl.Sleep(ctx, "ink dries", time.Hour); err != nil {
			return l, err
		}
		l.Text, l.Drafts = text, l.Drafts+1
		return l, pawl.Emit(ctx, "drafted", l.Drafts)
	})
	person := g.Node("person", func(ctx context.Context, l letter) (letter, error) {
		var err error
		l.Said, err = pawl.Ask[string](ctx, "content", pawl.Question{Text: "Is " + l.Text + " good?", For: 24 * time.Hour})
		return l, err
	})
	sent, dropped := g.Succeed("SENT"), g.Fail("DROPPED")
	g.Start(write, func(string) (letter, error) { return letter{}, nil })
	g.From(write).Otherwise(person)
	g.From(person).
		When("good", func(l letter) bool { return l.Said == "yes" }, sent).
		OnAnswer("again", write).
		OnError("nobody", func(l letter, err error) (letter, bool) { return l, errors.Is(err, pawl.ErrDeadline) }, dropped).
		Otherwise(dropped)
	g.Finish(func(l letter, _ pawl.Ending) (string, error) { return l.Text, nil })
	g.Closing(func(_ letter, e pawl.Ending) []pawl.Event { return []pawl.Event{{Type: "closed", Data: e.Terminal}} })
	return g
}

func TestRunAnswersInOrderAndCountsVirtualTime(t *testing.T) {
	made := 0
	r := Run(t, desk(func(string) { made++ }), "hi", Script{
		Answers: map[string][]any{"content": {"no", func(q pawl.Open) any {
			if strings.Contains(q.Text, "draft 2") {
				return "yes"
			}
			return "no"
		}}},
		Think: time.Minute,
	})
	if r.Output != "draft 2" || r.Run.Status != pawl.StatusSucceeded || made != 2 || r.Meter("llm") != 2 {
		t.Errorf("output %q, run %+v, made %d", r.Output, r.Run, made)
	}
	if got := strings.Join(r.Path(), " "); got != "write person write person SENT" {
		t.Errorf("path %s", got)
	}
	if r.Took < 2*time.Hour+2*time.Minute || r.Took > 2*time.Hour+3*time.Minute {
		t.Errorf("took %s of virtual time", r.Took)
	}
	if len(r.Questions) != 2 || len(r.Emitted("drafted")) != 2 || len(r.Emitted("closed")) != 1 || len(r.Writes) != 1 {
		t.Errorf("questions %v, events %v, writes %v", r.Questions, r.Events, r.Writes)
	}
	calls := 0
	for _, c := range r.Calls {
		if c.Key == "draft" {
			calls++
		}
	}
	if calls != 2 {
		t.Errorf("calls %+v", r.Calls)
	}
}

func TestSilenceLetsTimePassToTheDeadline(t *testing.T) {
	r := Run(t, desk(func(string) {}), "hi", Script{Silence: []string{"content"}})
	if r.Run.Terminal != "DROPPED" || r.Took < 25*time.Hour {
		t.Errorf("terminal %s after %s", r.Run.Terminal, r.Took)
	}
}

func TestCancelReachesARunThatWaits(t *testing.T) {
	for _, after := range []time.Duration{time.Minute, 2 * time.Hour} { // asleep, and at the question
		r := EveryCrash(t, desk(func(string) {}), "hi", Script{Cancel: after})
		if r.Run.Status != pawl.StatusCancelled || len(r.Emitted("closed")) != 1 || r.Took < after || r.Took > after+time.Second {
			t.Errorf("status %s, events %v, took %s", r.Run.Status, r.Emitted("closed"), r.Took)
		}
	}
}

func TestEveryCrashComesToTheSameEnd(t *testing.T) {
	r := EveryCrash(t, desk(func(string) {}), "hi", Script{Answers: map[string][]any{"content": {"no", "yes"}}})
	if r.Output != "draft 2" || r.Writes[0] < 10 {
		t.Errorf("output %q, writes %v", r.Output, r.Writes)
	}
}

func TestCrashDropsOneWorkerAfterAnother(t *testing.T) {
	r := Run(t, desk(func(string) {}), "hi", Script{Answers: map[string][]any{"content": {"yes"}}, Crash: []int{2, 1, 3}})
	if len(r.Writes) != 4 || r.Output != "draft 1" {
		t.Errorf("writes %v, output %q", r.Writes, r.Output)
	}
	if r.Took < time.Hour+30*time.Second {
		t.Errorf("three leases have to run out: %s", r.Took)
	}
}

func TestFailInjectsErrorsPanicsAndCrashes(t *testing.T) {
	made := 0
	g := desk(func(string) { made++ })
	yes := map[string][]any{"content": {"yes"}}
	r := Run(t, g, "hi", Script{Answers: yes, Fail: map[string][]error{"draft": {errors.New("503"), nil}}})
	if r.Output != "draft 1" || made != 1 || r.Meter("llm") != 2 {
		t.Errorf("after an error: %q, made %d, llm %d", r.Output, made, r.Meter("llm"))
	}
	r = Run(t, g, "hi", Script{Answers: yes, Fail: map[string][]error{"draft": {Panic("boom")}}})
	if r.Run.Status != pawl.StatusFailed || !strings.Contains(r.Run.Err.Text, "boom") || r.Run.Err.Code != pawl.CodeInternal {
		t.Errorf("after a panic: %+v", r.Run)
	}
	made = 0
	r = Run(t, g, "hi", Script{Answers: yes, Fail: map[string][]error{"draft": {ErrCrash}}})
	if r.Output != "draft 1" || made != 1 || len(r.Writes) != 2 {
		t.Errorf("after a crash before: %q, made %d, %v", r.Output, made, r.Writes)
	}
	made = 0
	r = Run(t, g, "hi", Script{Answers: yes, Fail: map[string][]error{"draft": {ErrLost}}})
	if r.Output != "draft 1" || made != 2 || r.Meter("llm") != 2 {
		t.Errorf("after a crash behind it: %q, made %d, llm %d", r.Output, made, r.Meter("llm"))
	}
}

func TestAStuckRunSaysWhatItWaitsFor(t *testing.T) {
	forever := pawl.New[int, int, int]("forever", pawl.Options{Version: "1"})
	a := forever.Node("ask", func(ctx context.Context, _ int) (int, error) {
		return pawl.Ask[int](ctx, "how many", pawl.Question{Text: "How many?"})
	})
	end := forever.Succeed("END")
	forever.Start(a, func(n int) (int, error) { return n, nil })
	forever.From(a).Otherwise(end)
	forever.Finish(func(n int, _ pawl.Ending) (int, error) { return n, nil })

	slow := pawl.New[int, int, int]("slow", pawl.Options{Version: "1"})
	b := slow.Node("sleep", func(ctx context.Context, n int) (int, error) { return n, pawl.Sleep(ctx, "long", 100*24*time.Hour) })
	last := slow.Succeed("END")
	slow.Start(b, func(n int) (int, error) { return n, nil })
	slow.From(b).Otherwise(last)
	slow.Finish(func(n int, _ pawl.Ending) (int, error) { return n, nil })

	synctest.Test(t, func(t *testing.T) {
		_, err := play(forever, 1, Script{})
		for _, want := range []string{"stuck", `"ask"`, `question "how many"`, "How many?", "0 answers"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in: %v", want, err)
			}
		}
		_, err = play(slow, 1, Script{Within: 24 * time.Hour})
		for _, want := range []string{"stuck", `timer "long"`, "due in"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in: %v", want, err)
			}
		}
		if _, err = play(forever, 1, Script{Answers: map[string][]any{"how many": {"three"}}}); err == nil || !strings.Contains(err.Error(), "how many") {
			t.Errorf("a bad answer: %v", err)
		}
	})
}

func TestEveryCrashSeesANodeThatIsNotDeterministic(t *testing.T) {
	n := 0
	g := pawl.New[int, int, int]("dice", pawl.Options{Version: "1"})
	a := g.Node("throw", func(ctx context.Context, _ int) (int, error) {
		n++ // not recorded
		_, err := pawl.Do(ctx, "call", func(context.Context) (int, error) { return 1, nil })
		return n, err
	})
	end := g.Succeed("END")
	g.Start(a, func(n int) (int, error) { return n, nil })
	g.From(a).Otherwise(end)
	g.Finish(func(n int, _ pawl.Ending) (int, error) { return n, nil })
	f := &told{}
	EveryCrash(f, g, 0, Script{Engine: engine.Config{Lease: 50 * time.Millisecond}}) // in real time
	if !strings.Contains(f.text, "another end") {
		t.Errorf("told %q", f.text)
	}
}

// told is a T that keeps what it was told.
type told struct{ text string }

func (*told) Helper()                          {}
func (f *told) Fatalf(format string, a ...any) { f.text = fmt.Sprintf(format, a...) }
