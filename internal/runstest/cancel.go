package runstest

import (
	"errors"
	"strings"
	"time"

	"pawl"
)

func cancelLaws() []law {
	return []law{
		{"a waiting run", "who waits for a person can be stopped", cancelWaiting},
		{"a queued run", "what has not begun never begins", cancelQueued},
		{"a running run", "the node learns why its context ended, within a second", cancelRunning},
		{"the children too", "nothing of a cancelled run goes on", cancelChildren},
		{"not background runs", "a background run belongs to nobody", cancelBackground},
		{"an ended run", "an end is an end", cancelEnded},
		{"twice", "the second cancel is no fault while the first is carried out", cancelTwice},
	}
}

func (l *lab) cancel(run string) {
	l.Helper()
	if err := l.rs.Cancel(l.ctx, run, "changed my mind"); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) cancelled(r pawl.Run) {
	l.Helper()
	l.is(r, pawl.StatusCancelled)
	if r.Terminal != pawl.TerminalCancelled || r.Err == nil || r.Err.Code != pawl.CodeCancelled || !strings.Contains(r.Err.Text, "changed my mind") {
		l.Errorf("run %+v, error %+v", r, r.Err)
	}
	closed := 0
	es := l.ended(r.ID)
	for _, e := range es {
		if e.Type == "closed" {
			closed++
		}
	}
	if closed != 1 || es[len(es)-1].Type != "pawl.ended" {
		l.Errorf("%d closing events; the last one is %+v", closed, es[len(es)-1])
	}
}

func cancelWaiting(l *lab) {
	r, _ := l.asked()
	l.cancel(r.ID)
	l.cancelled(l.on(r.ID))
}

func cancelQueued(l *lab) {
	r := l.start(`{"text":"a","do":"block"}`)
	l.cancel(r.ID)
	l.cancelled(l.on(r.ID))
	if len(l.hook.inside) != 0 {
		l.Error("a node of the cancelled run was begun")
	}
}

// running starts a run that blocks in a node; the channel gives what work said.
func (l *lab) running(input string) (pawl.Run, <-chan error) {
	l.Helper()
	r := l.start(input)
	done := make(chan error, 1)
	go func() { done <- l.work(l.ctx, r.ID) }()
	select {
	case <-l.hook.inside:
	case <-l.ctx.Done():
		l.Fatal("the node is never begun")
	}
	return r, done
}

func cancelRunning(l *lab) {
	r, done := l.running(`{"text":"a","do":"block"}`)
	l.is(l.get(r.ID), pawl.StatusRunning)
	began := time.Now()
	l.cancel(r.ID)
	if err := <-done; err != nil {
		l.Fatal(err)
	}
	if took := time.Since(began); took > time.Second {
		l.Errorf("it took %s", took)
	}
	if causes := l.hook.seen(); len(causes) != 1 || !errors.Is(causes[0], pawl.ErrCancelled) {
		l.Errorf("causes %v", causes)
	}
	l.cancelled(l.get(r.ID))
}

func cancelChildren(l *lab) {
	r, done := l.running(`{"text":"a","do":"child","names":["block"]}`)
	l.cancel(r.ID)
	if err := <-done; err != nil {
		l.Fatal(err)
	}
	l.cancelled(l.on(r.ID))
	kids := l.all(ann(), pawl.RunFilter{Parent: r.ID})
	if len(kids) != 1 || kids[0].Status != pawl.StatusCancelled {
		l.Errorf("children %+v", kids)
	}
	if causes := l.hook.seen(); len(causes) != 1 || !errors.Is(causes[0], pawl.ErrCancelled) {
		l.Errorf("causes %v", causes)
	}
	waits := l.worked(`{"text":"a","do":"child","names":["ask"]}`)
	q := l.question(waits.ID)
	l.cancel(waits.ID)
	l.cancelled(l.on(waits.ID))
	l.refused(l.answer(waits.ID, q.ID, `{"yes":true}`), pawl.CodeConflict)
}

func cancelBackground(l *lab) {
	r := l.worked(`{"text":"a","do":"spawn"}`)
	l.is(r, pawl.StatusWaiting)
	bg := l.all(ann(), pawl.RunFilter{Workflow: "inner"})
	if len(bg) != 1 || bg[0].Parent != "" || bg[0].Root != bg[0].ID {
		l.Fatalf("background runs %+v", bg)
	}
	l.cancel(r.ID)
	l.cancelled(l.on(r.ID))
	close(l.hook.gate)
	l.is(l.on(bg[0].ID), pawl.StatusSucceeded)
}

func cancelEnded(l *lab) {
	for in, status := range map[string]pawl.Status{`{"text":"a"}`: pawl.StatusSucceeded, `{"text":"a","do":"fail"}`: pawl.StatusFailed} {
		r := l.worked(in)
		l.is(r, status)
		l.refused(l.rs.Cancel(l.ctx, r.ID, ""), pawl.CodeConflict, string(status))
		l.is(l.on(r.ID), status)
	}
	r, _ := l.asked()
	l.cancel(r.ID)
	l.on(r.ID)
	l.refused(l.rs.Cancel(l.ctx, r.ID, ""), pawl.CodeConflict)
}

func cancelTwice(l *lab) {
	r, _ := l.asked()
	l.cancel(r.ID)
	if err := l.rs.Cancel(l.ctx, r.ID, "once more"); err != nil {
		l.Errorf("the second cancel: %v", err)
	}
	l.cancelled(l.on(r.ID))
}
