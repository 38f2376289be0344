package runstest

import (
	"encoding/json"
	"slices"

	"pawl"
)

func seeLaws() []law {
	return []law{
		{"not found", "an id that is not there is told apart from every other error", notFound},
		{"a stranger sees nothing", "tenant and owner are in every query: what is not yours does not exist for you", strangers},
		{"scopes", "an operator sees the tenant, the house sees all", scopes},
		{"list newest first in pages", "a list can be read to its end while runs are started", listPages},
		{"list by status and more", "operators look for what waits and what failed", listFilters},
		{"limits of a page", "a page has an end", pageLimits},
	}
}

// everyCall is each method on one run.
func everyCall(l *lab, rs pawl.Runs, run, question string) map[string]error {
	out := map[string]error{}
	_, out["get"] = rs.Get(l.ctx, run)
	out["answer"] = rs.Answer(l.ctx, run, question, json.RawMessage(`{"yes":true}`))
	out["cancel"] = rs.Cancel(l.ctx, run, "")
	_, out["fork"] = rs.Fork(l.ctx, run, 1, nil)
	_, out["retry"] = rs.Retry(l.ctx, run)
	_, out["steps"] = rs.Steps(l.ctx, run, 0, 0)
	_, out["state"] = rs.State(l.ctx, run, 0)
	_, out["calls"] = rs.Calls(l.ctx, run, 0)
	_, out["questions"] = rs.Questions(l.ctx, pawl.QuestionFilter{Run: run}, "", 0)
	for _, err := range rs.Events(l.ctx, run, 0) {
		out["events"] = err
		break
	}
	out["remove"] = rs.Remove(l.ctx, run)
	return out
}

func notFound(l *lab) {
	for _, id := range []string{"nobody", "", "../etc", "00000000-0000-0000-0000-000000000000", "a\x00b"} {
		for name, err := range everyCall(l, l.rs, id, "q") {
			if name == "questions" && id == "" {
				continue // no filter
			}
			if coded(err) != pawl.CodeNotFound {
				l.Errorf("%s of %q: %v", name, id, err)
			}
		}
	}
}

func strangers(l *lab) {
	r := l.worked(`{"text":"a","do":"ask"}`)
	q := l.question(r.ID)
	for _, c := range []pawl.Caller{bob(), eve(), {}, {User: "ann"}, {Tenant: "acme"}, {Tenant: "evil", Scopes: []string{pawl.ScopeTenant}}} {
		rs := l.as(c)
		for name, err := range everyCall(l, rs, r.ID, q.ID) {
			if coded(err) != pawl.CodeNotFound {
				l.Errorf("%+v: %s: %v", c, name, err)
			}
		}
		if got := l.all(c, pawl.RunFilter{}); len(got) != 0 {
			l.Errorf("%+v lists %+v", c, got)
		}
		if got, err := rs.Questions(l.ctx, pawl.QuestionFilter{}, "", 0); err != nil || len(got) != 0 {
			l.Errorf("%+v: questions %+v, %v", c, got, err)
		}
		if got, err := rs.Questions(l.ctx, pawl.QuestionFilter{ID: q.ID}, "", 0); err != nil || len(got) != 0 {
			l.Errorf("%+v: question %+v, %v", c, got, err)
		}
	}
	l.is(l.get(r.ID), pawl.StatusWaiting)
}

func scopes(l *lab) {
	r := l.worked(`{"text":"a","do":"ask"}`)
	for _, c := range []pawl.Caller{
		{Tenant: "acme", User: "bob", Scopes: []string{pawl.ScopeTenant}}, {Tenant: "other", Scopes: []string{pawl.ScopeAll}},
	} {
		if got, err := l.as(c).Get(l.ctx, r.ID); err != nil || got.User != "ann" {
			l.Errorf("%+v: %+v, %v", c, got, err)
		}
		if got := l.all(c, pawl.RunFilter{}); len(got) != 1 {
			l.Errorf("%+v lists %+v", c, got)
		}
	}
	boss := pawl.Caller{Tenant: "acme", User: "bob", Scopes: []string{pawl.ScopeTenant}}
	if err := l.as(boss).Answer(l.ctx, r.ID, l.question(r.ID).ID, json.RawMessage(`{"yes":true}`)); err != nil {
		l.Error(err)
	}
	qs, err := l.rs.Questions(l.ctx, pawl.QuestionFilter{Run: r.ID, Closed: true}, "", 0)
	if err != nil || len(qs) != 1 || qs[0].By != "bob" {
		l.Errorf("questions %+v, %v", qs, err)
	}
}

func listPages(l *lab) {
	var want []string
	for range 7 {
		want = append(want, l.start(`{"text":"a"}`).ID)
	}
	slices.Reverse(want)
	var got []string
	for after := ""; ; {
		rs, err := l.rs.List(l.ctx, pawl.RunFilter{}, after, 3)
		if err != nil {
			l.Fatal(err)
		}
		if len(rs) == 0 {
			break
		}
		for _, r := range rs {
			got = append(got, r.ID)
		}
		after = rs[len(rs)-1].ID
		l.start(`{"text":"newer"}`) // is not seen on the pages that follow
	}
	if !slices.Equal(got, want) {
		l.Errorf("got %v, want %v", got, want)
	}
}

func listFilters(l *lab) {
	waits := l.worked(`{"text":"a","do":"child","names":["ask"]}`, pawl.StartOptions{Key: "k"})
	failed, done := l.worked(`{"text":"a","do":"fail"}`), l.worked(`{"text":"a"}`)
	queued := l.start(`{"text":"a"}`)
	for name, c := range map[string]struct {
		f    pawl.RunFilter
		want []string
	}{
		"waiting":  {pawl.RunFilter{Status: pawl.StatusWaiting, Workflow: "desk"}, []string{waits.ID}},
		"failed":   {pawl.RunFilter{Status: pawl.StatusFailed}, []string{failed.ID}},
		"done":     {pawl.RunFilter{Status: pawl.StatusSucceeded}, []string{done.ID}},
		"outcome":  {pawl.RunFilter{Outcome: "fine"}, []string{done.ID}},
		"queued":   {pawl.RunFilter{Status: pawl.StatusQueued}, []string{queued.ID}},
		"running":  {pawl.RunFilter{Status: pawl.StatusRunning}, nil},
		"key":      {pawl.RunFilter{Key: "k"}, []string{waits.ID}},
		"other":    {pawl.RunFilter{Workflow: "none"}, nil},
		"no child": {pawl.RunFilter{Parent: done.ID}, nil},
	} {
		var got []string
		for _, r := range l.all(ann(), c.f) {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, c.want) {
			l.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if kids := l.all(ann(), pawl.RunFilter{Parent: waits.ID}); len(kids) != 1 || kids[0].Workflow != "inner" {
		l.Errorf("children %+v", kids)
	}
	if tree := l.all(ann(), pawl.RunFilter{Root: waits.ID}); len(tree) != 2 {
		l.Errorf("tree %+v", tree)
	}
	_, err := l.rs.List(l.ctx, pawl.RunFilter{Status: "sleepy"}, "", 0)
	l.refused(err, pawl.CodeInvalid, "sleepy")
}

func pageLimits(l *lab) {
	for _, n := range []int{-1, 1_000_000} {
		_, err := l.rs.List(l.ctx, pawl.RunFilter{}, "", n)
		l.refused(err, pawl.CodeInvalid)
		_, err = l.rs.Questions(l.ctx, pawl.QuestionFilter{}, "", n)
		l.refused(err, pawl.CodeInvalid)
	}
}
