package runstest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pawl"
)

func answerLaws() []law {
	return []law{
		{"the run goes on", "an answer that was accepted is in the state", answerGoesOn},
		{"the question is shown", "a person sees text, choices, data and the schema of the answer", questionShown},
		{"fits the schema", "what a person sends is untrusted too", answerFits},
		{"the same again", "a client that repeats after a lost acknowledgement is told yes", answerSame},
		{"another one", "the first valid answer wins for ever, and the loser is shown it", answerOther},
		{"twenty at once", "exactly one of twenty different answers wins", answerParallel},
		{"unknown question", "an answer never goes to another question", answerUnknown},
		{"after the end", "an ended run takes no answers", answerEnded},
		{"after the deadline", "late is late", answerLate},
		{"two at once", "all open questions are listed, and each is answered by itself", answerTwo},
		{"of a child", "who asks at the root sees and answers what a child asks", answerChild},
		{"refusal", "an answer may lead to a Fail terminal, whose output is there all the same", answerRefuse},
		{"pages of questions", "questions of all runs can be read to their end", questionPages},
	}
}

func (l *lab) answer(run, question, a string) error {
	return l.rs.Answer(l.ctx, run, question, json.RawMessage(a))
}

func (l *lab) asked() (pawl.Run, pawl.Open) {
	l.Helper()
	r := l.worked(`{"text":"a","do":"ask"}`)
	l.is(r, pawl.StatusWaiting)
	return r, l.question(r.ID)
}

func answerGoesOn(l *lab) {
	r, q := l.asked()
	if len(r.Waits) != 1 || r.Waits[0].Kind != pawl.WaitsForAnswer || r.Waits[0].Question != q.ID || r.Worker != "" {
		l.Errorf("run %+v", r)
	}
	if err := l.answer(r.ID, q.ID, `{"yes":true,"note":"well"}`); err != nil {
		l.Fatal(err)
	}
	r = l.on(r.ID)
	l.is(r, pawl.StatusSucceeded)
	var out output
	if err := json.Unmarshal(r.Output, &out); err != nil || !out.Yes || r.Terminal != "DONE" || r.Outcome != "fine" {
		l.Errorf("run %+v, %v", r, err)
	}
}

func questionShown(l *lab) {
	r, q := l.asked()
	if q.Run != r.ID || q.Root != r.ID || q.Workflow != "desk" || q.Key != "content" || q.Text != "Is a good?" || len(q.Choices) != 2 ||
		q.Closed || q.Asked.IsZero() || q.Due != nil {
		l.Errorf("question %+v", q)
	}
	if !strings.Contains(string(q.Schema), `"yes"`) || !strings.Contains(string(q.Data), `"ask"`) {
		l.Errorf("schema %s, data %s", q.Schema, q.Data)
	}
}

func answerFits(l *lab) {
	r, q := l.asked()
	for a, name := range map[string]string{
		`{"yes":"perhaps"}`: "yes", `{"yes":true,"who":"me"}`: "who", `{"note":"x"}`: "yes", `true`: "", `null`: "", ``: "", `{"yes":true`: "",
		`{"yes":false,"yes":true}`: "yes", `{"yes":false,"YES":true}`: "YES", `{"yes":true} x`: "",
	} {
		l.refused(l.answer(r.ID, q.ID, a), pawl.CodeInvalid, name)
	}
	if q := l.question(r.ID); q.Closed {
		l.Error("a refused answer closed the question")
	}
	if err := l.answer(r.ID, q.ID, `{"yes":true}`); err != nil {
		l.Error(err)
	}
}

func answerSame(l *lab) {
	r, q := l.asked()
	for _, a := range []string{`{"yes":true,"note":"x"}`, `{"yes":true,"note":"x"}`, ` {"note":"\u0078", "yes":true}`} {
		if err := l.answer(r.ID, q.ID, a); err != nil {
			l.Errorf("%s: %v", a, err)
		}
	}
	l.is(l.on(r.ID), pawl.StatusSucceeded)
	if err := l.answer(r.ID, q.ID, `{"yes":true,"note":"x"}`); err != nil {
		l.Errorf("the same again after the end: %v", err)
	}
}

func answerOther(l *lab) {
	r, q := l.asked()
	if err := l.answer(r.ID, q.ID, `{"yes":true,"note":"first"}`); err != nil {
		l.Fatal(err)
	}
	l.refused(l.answer(r.ID, q.ID, `{"yes":false}`), pawl.CodeConflict, "first")
	l.is(l.on(r.ID), pawl.StatusSucceeded)
	l.refused(l.answer(r.ID, q.ID, `{"yes":false}`), pawl.CodeConflict, "first")
}

func answerParallel(l *lab) {
	r, q := l.asked()
	won := -1
	for i, err := range parallel(20, func(i int) error {
		return l.as(ann()).Answer(l.ctx, r.ID, q.ID, fmt.Appendf(nil, `{"yes":true,"note":"%d"}`, i))
	}) {
		switch {
		case err == nil && won < 0:
			won = i
		case err == nil:
			l.Errorf("answers %d and %d were both accepted", won, i)
		case coded(err) != pawl.CodeConflict:
			l.Errorf("answer %d: %v", i, err)
		}
	}
	l.is(l.on(r.ID), pawl.StatusSucceeded)
	var p paper
	state, err := l.rs.State(l.ctx, r.ID, 0)
	if err := json.Unmarshal(state, &p); err != nil {
		l.Fatal(err)
	}
	if err != nil || won < 0 || p.Reply.Note != fmt.Sprint(won) {
		l.Errorf("answer %d won, the run has %q: %v", won, p.Reply.Note, err)
	}
}

func answerUnknown(l *lab) {
	r, q := l.asked()
	other, _ := l.asked()
	l.refused(l.answer(r.ID, "nothing", `{"yes":true}`), pawl.CodeNotFound, "nothing")
	l.refused(l.answer(r.ID, "", `{"yes":true}`), pawl.CodeNotFound)
	l.refused(l.answer(other.ID, q.ID, `{"yes":true}`), pawl.CodeNotFound)
	l.is(l.on(r.ID), pawl.StatusWaiting)
}

func answerEnded(l *lab) {
	r, q := l.asked()
	if err := l.rs.Cancel(l.ctx, r.ID, "changed my mind"); err != nil {
		l.Fatal(err)
	}
	l.is(l.on(r.ID), pawl.StatusCancelled)
	l.refused(l.answer(r.ID, q.ID, `{"yes":true}`), pawl.CodeConflict)
	qs, err := l.rs.Questions(l.ctx, pawl.QuestionFilter{}, "", 0)
	if err != nil || len(qs) != 0 {
		l.Errorf("open questions %+v, %v", qs, err)
	}
}

func answerLate(l *lab) {
	r := l.start(`{"text":"a","do":"deadline"}`)
	var q pawl.Open
	for r = l.on(r.ID); !r.Status.Ended(); r = l.on(r.ID) { // its deadline needs nobody, so it may be over already
		if qs, err := l.rs.Questions(l.ctx, pawl.QuestionFilter{Run: r.ID}, "", 0); err == nil && len(qs) == 1 && q.ID == "" {
			q = qs[0]
		}
		if q.Due != nil && time.Until(*q.Due) < 0 {
			l.refused(l.answer(r.ID, q.ID, `{"yes":true}`), pawl.CodeConflict)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-l.ctx.Done():
			l.Fatal("it waits for ever")
		}
	}
	l.is(r, pawl.StatusSucceeded)
	if !strings.Contains(string(r.Output), "nobody answered") {
		l.Errorf("output %s", r.Output)
	}
	qs, err := l.rs.Questions(l.ctx, pawl.QuestionFilter{Run: r.ID, Closed: true}, "", 0)
	if err != nil || len(qs) != 1 || !qs[0].Closed || qs[0].Answer != nil {
		l.Fatalf("questions %+v, %v", qs, err)
	}
	l.refused(l.answer(r.ID, qs[0].ID, `{"yes":true}`), pawl.CodeConflict)
}

func answerTwo(l *lab) {
	r := l.worked(`{"text":"a","do":"two"}`)
	qs, err := l.rs.Questions(l.ctx, pawl.QuestionFilter{Run: r.ID}, "", 0)
	if err != nil || len(qs) != 2 || len(r.Waits) != 2 {
		l.Fatalf("questions %+v, waits %+v, %v", qs, r.Waits, err)
	}
	if err := l.answer(r.ID, qs[0].ID, `{"yes":true}`); err != nil {
		l.Fatal(err)
	}
	l.is(l.on(r.ID), pawl.StatusWaiting)
	if q := l.question(r.ID); q.ID != qs[1].ID {
		l.Errorf("question %+v", q)
	}
	if err := l.answer(r.ID, qs[1].ID, `{"yes":true}`); err != nil {
		l.Fatal(err)
	}
	if r := l.on(r.ID); r.Status != pawl.StatusSucceeded || !strings.Contains(string(r.Output), `"yes":true`) {
		l.Errorf("run %+v", r)
	}
}

func answerChild(l *lab) {
	r := l.worked(`{"text":"a","do":"child","names":["ask"]}`)
	q := l.question(r.ID)
	kids := l.all(ann(), pawl.RunFilter{Parent: r.ID})
	if len(kids) != 1 || q.Run != kids[0].ID || q.Root != r.ID || q.Workflow != "inner" {
		l.Fatalf("question %+v, children %+v", q, kids)
	}
	if len(r.Waits) != 1 || r.Waits[0].Kind != pawl.WaitsForChild || r.Waits[0].Run != kids[0].ID {
		l.Errorf("waits %+v", r.Waits)
	}
	if err := l.answer(r.ID, q.ID, `{"yes":true}`); err != nil {
		l.Fatal(err)
	}
	r = l.on(r.ID)
	l.is(r, pawl.StatusSucceeded)
	if !strings.Contains(string(r.Output), "child: inner a") {
		l.Errorf("output %s", r.Output)
	}
}

func answerRefuse(l *lab) {
	r, q := l.asked()
	if err := l.answer(r.ID, q.ID, `{"yes":false,"note":"refuse"}`); err != nil {
		l.Fatal(err)
	}
	r = l.on(r.ID)
	l.is(r, pawl.StatusFailed)
	if r.Terminal != "REFUSED" || r.Err == nil || r.Err.Code != "refused" || !strings.Contains(string(r.Output), `"text":"a"`) {
		l.Errorf("run %+v", r)
	}
}

func questionPages(l *lab) {
	want := map[string]bool{}
	for range 5 {
		_, q := l.asked()
		want[q.ID] = true
	}
	got := map[string]bool{}
	pages := 0
	for after := ""; ; pages++ {
		qs, err := l.rs.Questions(l.ctx, pawl.QuestionFilter{Workflow: "desk"}, after, 2)
		if err != nil {
			l.Fatal(err)
		}
		if len(qs) == 0 {
			break
		}
		for _, q := range qs {
			if got[q.ID] || !want[q.ID] {
				l.Errorf("question %s comes twice or from nowhere", q.ID)
			}
			got[q.ID] = true
		}
		after = qs[len(qs)-1].ID
	}
	if len(got) != 5 || pages != 3 {
		l.Errorf("%d questions on %d pages", len(got), pages)
	}
	if qs, err := l.rs.Questions(l.ctx, pawl.QuestionFilter{Workflow: "inner"}, "", 0); err != nil || len(qs) != 0 {
		l.Errorf("of another workflow: %v, %v", qs, err)
	}
}
