package nco

import (
	"slices"
	"testing"
	"time"

	"pawl"
	"pawl/pawltest"
)

func reply(text string) any { return map[string]string{"text": text} }

// R-003-05, R-003-32…38: the state is stored at user_info before the question is put, execution halts there, and the answer
// begins at the expander again; wherever the worker crashes, the end is the same.
func TestR00305EveryCrashComesToTheSameEnd(t *testing.T) {
	g := Graph(agent(t, Embedded()))
	r := pawltest.EveryCrash(t, g, Input{Text: "teacher"}, pawltest.Script{Replay: true, Answers: map[string][]any{"clarify": {reply("I teach chemistry in a secondary school")}}})
	if r.Output.Status != MatchFound || len(r.Output.Codes) == 0 || r.Output.Codes[0].Family != "2330" {
		t.Fatalf("%+v", r.Output)
	}
	want := []string{"expand", "retrieve", "analyze", "user_info", "expand", "retrieve", "analyze", "user_info", "MATCH_FOUND"}
	if got := r.Path(); !slices.Equal(got, want) {
		t.Errorf("path %v", got)
	}
	asked := slices.IndexFunc(r.Steps, func(s pawl.Step) bool { return s.Name == "waiting" })
	if asked < 0 || r.Steps[asked].StateBefore != "user_info" || r.Steps[asked].Hash == "" {
		t.Errorf("no checkpoint at user_info before the question: %+v", r.Steps)
	}
}

// R-003-43: nobody answers, so the run ends with what it knows and its question, three days later.
func TestNobodyAnswersDurably(t *testing.T) {
	r := pawltest.Run(t, Graph(agent(t, Embedded())), Input{Text: "teacher"}, pawltest.Script{Replay: true, Silence: []string{"clarify"}})
	if r.Output.Status != MoreInfo || r.Output.Question == "" || len(r.Output.Codes) != 0 {
		t.Errorf("%+v", r.Output)
	}
	if r.Took < 72*time.Hour {
		t.Errorf("it waited %s", r.Took)
	}
}
