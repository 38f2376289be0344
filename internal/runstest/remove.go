package runstest

import (
	"encoding/json"

	"pawl"
)

func removeLaws() []law {
	return []law{
		{"an ended run", "what was removed is not there any more, however one asks", removeEnded},
		{"one that goes on", "nothing is torn from under a worker or a person; the error says what to do", removeLive},
		{"the children too", "what a child left is what its parent left", removeChildren},
		{"not a child alone", "the next attempt of its parent would wait for it", removeChild},
		{"not background runs", "a background run belongs to nobody", removeBackground},
		{"its key", "the same key starts a new run, not the next attempt of one that is gone", removeKey},
		{"only what is yours", "removing is for its owner, and for an operator", removeScopes},
		{"twice", "who comes second learns that there is nothing left to do", removeTwice},
		{"who follows it", "a reader of its events is not left waiting", removeFollowed},
	}
}

func (l *lab) remove(run string) {
	l.Helper()
	if err := l.rs.Remove(l.ctx, run); err != nil {
		l.Fatal(err)
	}
}

// gone checks that nothing answers for a run.
func (l *lab) gone(run string) {
	l.Helper()
	for name, err := range everyCall(l, l.rs, run, "q") {
		if coded(err) != pawl.CodeNotFound {
			l.Errorf("%s: %v", name, err)
		}
	}
	boss := pawl.Caller{Tenant: "acme", Scopes: []string{pawl.ScopeAll}}
	for _, r := range l.all(boss, pawl.RunFilter{}) {
		if r.ID == run {
			l.Errorf("listed: %+v", r)
		}
	}
	qs, err := l.as(boss).Questions(l.ctx, pawl.QuestionFilter{Closed: true}, "", 0)
	if err != nil {
		l.Fatal(err)
	}
	for _, q := range qs {
		if q.Run == run {
			l.Errorf("a question is left: %+v", q)
		}
	}
}

func removeEnded(l *lab) {
	for in, status := range map[string]pawl.Status{`{"text":"a"}`: pawl.StatusSucceeded, `{"text":"a","do":"fail"}`: pawl.StatusFailed} {
		r := l.worked(in)
		l.is(r, status)
		l.remove(r.ID)
		l.gone(r.ID)
	}
	asked, _ := l.asked()
	l.cancel(asked.ID)
	l.is(l.on(asked.ID), pawl.StatusCancelled)
	l.remove(asked.ID)
	l.gone(asked.ID)
}

func removeLive(l *lab) {
	waits, q := l.asked()
	for _, r := range []pawl.Run{waits, l.start(`{"text":"a"}`)} {
		l.refused(l.rs.Remove(l.ctx, r.ID), pawl.CodeConflict, r.ID, "cancel it first")
	}
	running, done := l.running(`{"text":"a","do":"block"}`)
	l.refused(l.rs.Remove(l.ctx, running.ID), pawl.CodeConflict, running.ID, "cancel it first")
	close(l.hook.gate)
	if err := <-done; err != nil {
		l.Fatal(err)
	}
	if err := l.answer(waits.ID, q.ID, `{"yes":true}`); err != nil {
		l.Fatal(err)
	}
	l.is(l.on(waits.ID), pawl.StatusSucceeded)
}

func removeChildren(l *lab) {
	r := l.worked(`{"text":"a","do":"child","names":["write"]}`)
	l.is(r, pawl.StatusSucceeded)
	kids := l.all(ann(), pawl.RunFilter{Parent: r.ID})
	if len(kids) != 1 {
		l.Fatalf("children %+v", kids)
	}
	l.remove(r.ID)
	l.gone(r.ID)
	l.gone(kids[0].ID)
}

func removeChild(l *lab) {
	r := l.worked(`{"text":"a","do":"child","names":["write"]}`)
	kid := l.all(ann(), pawl.RunFilter{Parent: r.ID})[0]
	l.refused(l.rs.Remove(l.ctx, kid.ID), pawl.CodeConflict, kid.ID, r.ID)
	l.get(kid.ID)
}

func removeBackground(l *lab) {
	r := l.worked(`{"text":"a","do":"spawn"}`)
	l.cancel(r.ID)
	l.on(r.ID)
	l.remove(r.ID)
	bg := l.all(ann(), pawl.RunFilter{Workflow: "inner"})
	if len(bg) != 1 {
		l.Fatalf("background runs %+v", bg)
	}
	close(l.hook.gate)
	l.is(l.on(bg[0].ID), pawl.StatusSucceeded)
}

func removeKey(l *lab) {
	in := `{"text":"a","do":"flaky"}`
	s := l.key(in, "k")
	l.is(l.on(s.Run.ID), pawl.StatusFailed)
	l.remove(s.Run.ID)
	again := l.key(in, "k")
	if again.Existing != "" || again.Run.ID == s.Run.ID || again.Run.Attempt != 1 {
		l.Errorf("%+v", again)
	}
}

func removeScopes(l *lab) {
	r := l.worked(`{"text":"a"}`)
	for _, c := range []pawl.Caller{bob(), eve(), {}, {User: "ann"}, {Tenant: "evil", Scopes: []string{pawl.ScopeTenant}}} {
		l.refused(l.as(c).Remove(l.ctx, r.ID), pawl.CodeNotFound, r.ID)
	}
	l.get(r.ID)
	for _, c := range []pawl.Caller{
		{Tenant: "acme", User: "bob", Scopes: []string{pawl.ScopeTenant}}, {Tenant: "other", Scopes: []string{pawl.ScopeAll}},
	} {
		r := l.worked(`{"text":"a"}`)
		if err := l.as(c).Remove(l.ctx, r.ID); err != nil {
			l.Errorf("%+v: %v", c, err)
		}
		l.gone(r.ID)
	}
}

func removeTwice(l *lab) {
	r := l.worked(`{"text":"a"}`)
	won := 0
	for i, err := range parallel(8, func(int) error { return l.as(ann()).Remove(l.ctx, r.ID) }) {
		switch {
		case err == nil:
			won++
		case coded(err) != pawl.CodeNotFound:
			l.Errorf("%d: %v", i, err)
		}
	}
	if won != 1 {
		l.Errorf("%d of 8 have removed it", won)
	}
	l.refused(l.rs.Remove(l.ctx, r.ID), pawl.CodeNotFound, r.ID)
}

func removeFollowed(l *lab) {
	r, _ := l.asked()
	end := make(chan error, 1)
	seen := make(chan json.RawMessage, 100)
	go func() {
		for e, err := range l.as(ann()).Events(l.ctx, r.ID, 0) {
			if err != nil {
				end <- err
				return
			}
			seen <- e.Data
		}
		end <- nil
	}()
	<-seen
	l.cancel(r.ID)
	l.on(r.ID)
	l.remove(r.ID)
	if err := <-end; err != nil && coded(err) != pawl.CodeNotFound {
		l.Error(err)
	}
}
