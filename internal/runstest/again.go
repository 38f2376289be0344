package runstest

import (
	"bytes"
	"encoding/json"
	"strings"

	"pawl"
)

func againLaws() []law {
	return []law{
		{"retry", "a run that failed begins its next attempt from its start, on the same row", retryFailed},
		{"retry of a live or good run", "only what failed or was cancelled is tried again", retryRefused},
		{"retry at once", "two operators who press the button begin one attempt", retryParallel},
		{"fork", "a new run goes on from a step of another one, which does not change", forkPlain},
		{"fork with another state", "the state may be edited, and is checked", forkEdited},
		{"fork of a bad step", "there is nothing to go on from", forkRefused},
	}
}

func retryFailed(l *lab) {
	r := l.worked(`{"text":"a","do":"flaky"}`)
	l.is(r, pawl.StatusFailed)
	if r.Err == nil || r.Err.Code != "broken" || r.Terminal != pawl.TerminalFailed {
		l.Errorf("run %+v", r)
	}
	again, err := l.rs.Retry(l.ctx, r.ID)
	if err != nil || again.ID != r.ID || again.Attempt != 2 || again.Status.Ended() || again.Err != nil || again.Node != "sort" {
		l.Fatalf("%+v, %v", again, err)
	}
	r = l.on(r.ID)
	l.is(r, pawl.StatusSucceeded)
	if !strings.Contains(string(r.Output), "mended") || r.Err != nil {
		l.Errorf("run %+v", r)
	}
}

func retryRefused(l *lab) {
	waits, _ := l.asked()
	for _, r := range []pawl.Run{waits, l.worked(`{"text":"a"}`), l.start(`{"text":"a"}`)} {
		_, err := l.rs.Retry(l.ctx, r.ID)
		l.refused(err, pawl.CodeConflict)
	}
	l.cancel(waits.ID)
	l.on(waits.ID)
	if r, err := l.rs.Retry(l.ctx, waits.ID); err != nil || r.Attempt != 2 {
		l.Errorf("a cancelled one: %+v, %v", r, err)
	}
	l.is(l.on(waits.ID), pawl.StatusWaiting)
}

func retryParallel(l *lab) {
	r := l.worked(`{"text":"a","do":"flaky"}`)
	for _, err := range parallel(10, func(int) error { _, err := l.as(ann()).Retry(l.ctx, r.ID); return err }) {
		if err != nil {
			l.refused(err, pawl.CodeConflict)
		}
	}
	if r := l.get(r.ID); r.Attempt != 2 {
		l.Errorf("attempt %d", r.Attempt)
	}
}

// everything that is to be read of a run.
func (l *lab) everything(run string) string {
	l.Helper()
	steps, err := l.rs.Steps(l.ctx, run, 0, 0)
	if err != nil {
		l.Fatal(err)
	}
	state, err := l.rs.State(l.ctx, run, 0)
	if err != nil {
		l.Fatal(err)
	}
	b, err := json.Marshal([]any{l.get(run), steps, state, l.ended(run)})
	if err != nil {
		l.Fatal(err)
	}
	return string(b)
}

// stepOf is the number of the step by which a node was left.
func (l *lab) stepOf(run, node string) int64 {
	l.Helper()
	steps, err := l.rs.Steps(l.ctx, run, 0, 0)
	if err != nil {
		l.Fatal(err)
	}
	for _, s := range steps {
		if s.Name == node {
			return s.Seq
		}
	}
	l.Fatalf("no step %s in %+v", node, steps)
	return 0
}

func forkPlain(l *lab) {
	r := l.worked(`{"text":"a","do":"write","n":2}`)
	before := l.everything(r.ID)
	step := l.stepOf(r.ID, "sort")
	f, err := l.rs.Fork(l.ctx, r.ID, step, nil)
	if err != nil {
		l.Fatal(err)
	}
	if f.ID == r.ID || f.ForkOf != r.ID || f.ForkStep != step || f.Node != "write" || f.Attempt != 1 || f.Key != "" {
		l.Errorf("fork %+v", f)
	}
	f = l.on(f.ID)
	l.is(f, pawl.StatusSucceeded)
	if !bytes.Equal(f.Output, r.Output) {
		l.Errorf("output %s, want %s", f.Output, r.Output)
	}
	if after := l.everything(r.ID); after != before {
		l.Errorf("the source has changed from\n%s\nto\n%s", before, after)
	}
}

func forkEdited(l *lab) {
	r, _ := l.asked() // also of a run that is under way
	step := l.stepOf(r.ID, "sort")
	for state, name := range map[string]string{
		`{"order":{"text":7},"reply":{"yes":true},"lines":null}`:                  "text",
		`{"order":{"text":"b"},"reply":{"yes":true},"lines":null,"colour":"red"}`: "colour",
		`{"order":`: "",
		`[]`:        "",
	} {
		_, err := l.rs.Fork(l.ctx, r.ID, step, json.RawMessage(state))
		l.refused(err, pawl.CodeInvalid, name)
	}
	f, err := l.rs.Fork(l.ctx, r.ID, step, json.RawMessage(`{"order":{"text":"edited","do":"ask"},"reply":{"yes":false},"lines":["by hand"]}`))
	if err != nil {
		l.Fatal(err)
	}
	f = l.on(f.ID)
	l.is(f, pawl.StatusWaiting)
	q := l.question(f.ID)
	if q.Text != "Is edited good?" {
		l.Errorf("question %+v", q)
	}
	if err := l.answer(f.ID, q.ID, `{"yes":true}`); err != nil {
		l.Fatal(err)
	}
	if f = l.on(f.ID); !strings.Contains(string(f.Output), `"by hand"`) {
		l.Errorf("output %s", f.Output)
	}
	l.is(l.get(r.ID), pawl.StatusWaiting)
}

func forkRefused(l *lab) {
	r := l.worked(`{"text":"a"}`)
	for _, step := range []int64{-1, 99} {
		_, err := l.rs.Fork(l.ctx, r.ID, step, nil)
		l.refused(err, pawl.CodeNotFound)
	}
	_, err := l.rs.Fork(l.ctx, r.ID, r.Steps, nil) // the terminal
	l.refused(err, pawl.CodeConflict)
}
