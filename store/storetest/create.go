package storetest

import (
	"time"

	"pawl/store"
)

var createCases = []kase{
	// What is created comes back in every field; a field that gets lost shows only weeks later, in a list.
	{name: "every field", run: func(l *law) {
		n := store.NewRun{
			ID: "r", Tenant: "t", User: "u", Workflow: "w", Version: "2", Key: "k", Parent: "p", Root: "o",
			Status: "queued", Node: "start", Priority: 3, Head: []byte("h"), Row: []byte("r"),
			Caps: []store.Counter{{Meter: "usd", Used: 2, Cap: 9}, {Meter: "llm", Cap: -1}},
			Add:  []store.Row{{Stream: store.Audit, Key: "who", Data: []byte("me")}, {Stream: store.Inbox, Data: []byte("in")}},
		}
		before, err := l.s.Now(l.ctx)
		l.ok(err)
		l.create(n)
		r := l.get("r")
		if r.Created.Before(before) || r.Created.Location() != time.UTC || r.Due.Before(before) || !r.Until.IsZero() || !r.Expires.IsZero() {
			l.Fatalf("times: %+v", r)
		}
		l.same("Updated", r.Updated, r.Created)
		r.Created, r.Updated, r.Due = time.Time{}, time.Time{}, time.Time{}
		l.same("run", r, store.Run{
			ID: "r", Tenant: "t", User: "u", Workflow: "w", Version: "2", Key: "k", Parent: "p", Root: "o",
			Status: "queued", Node: "start", Priority: 3, Inbox: 1, Head: []byte("h"), Row: []byte("r"),
			Counters: []store.Counter{{Meter: "llm", Cap: -1}, {Meter: "usd", Used: 2, Cap: 9}},
		})
		rows := l.read("r", store.Query{Stream: store.Audit})
		l.same("rows", len(rows), 1)
		l.same("row", rows[0], store.Row{Stream: store.Audit, Seq: 1, Key: "who", Data: []byte("me"), At: rows[0].At})
		if rows[0].At.Before(before) || rows[0].At.Location() != time.UTC {
			l.Fatalf("the row is of %v, the store's clock was at %v", rows[0].At, before)
		}
	}},
	// A run without a parent is its own root: whatever asks for the runs under a root gets the root as well.
	{name: "own root", run: func(l *law) {
		l.create(run("r"))
		l.same("root", l.get("r").Root, "r")
	}},
	// All or none: half a group of runs would be started again, and then twice.
	{name: "all or none", run: func(l *law) {
		l.create(run("b"))
		l.taken(l.s.Create(l.ctx, runs("a", "b", "c")...), "b")
		l.gone("a")
		l.gone("c")
		l.same("claims", l.claims(store.Claim{Max: 9}), []string{"b"})
		l.create(run("a")) // and the id is still free
	}},
	// Two of one id in one call are two all the same.
	{name: "twice in one call", run: func(l *law) {
		l.taken(l.s.Create(l.ctx, runs("a", "a")...), "a")
		l.gone("a")
	}},
	// Double submit: the second start is told who owns the key, so that it can join that run.
	{name: "key taken", run: func(l *law) {
		a, b := run("a"), run("b")
		a.Key, b.Key = "k", "k"
		l.create(a)
		l.taken(l.s.Create(l.ctx, b), "a")
		l.gone("b")
	}},
	// A key belongs to one tenant and workflow: another tenant's equal key must neither collide nor be found out.
	{name: "key per tenant and workflow", run: func(l *law) {
		a, b, c := run("a"), run("b"), run("c")
		a.Key, b.Key, c.Key = "k", "k", "k"
		b.Tenant, c.Workflow = "other", "other"
		l.create(a, b, c)
	}},
	// The version is no part of it: a new version of a graph must not run finished work again.
	{name: "key over versions", run: func(l *law) {
		a, b := run("a"), run("b")
		a.Key, b.Key, b.Version = "k", "k", "2"
		l.create(a)
		l.taken(l.s.Create(l.ctx, b), "a")
	}},
	// No key is no key: runs without one never meet.
	{name: "empty key", run: func(l *law) { l.create(runs("a", "b")...) }},
	// After puts the due time off, below zero it waits for a letter.
	{name: "due after", run: func(l *law) {
		a, b, c := run("a"), run("b"), run("c")
		a.After, b.After = time.Hour, -1
		l.create(a, b, c)
		l.same("claims", l.claims(store.Claim{Max: 9}), []string{"c"})
		if d := l.get("a").Due.Sub(l.get("a").Created); d != time.Hour {
			l.Fatalf("due after %v", d)
		}
		if d := l.get("b").Due; !d.IsZero() {
			l.Fatalf("due at %v, want only after a letter", d)
		}
	}},
	// A copy of a run that was made elsewhere is what it was, and nobody can work it: else a bug report would be carried out.
	{name: "past", run: func(l *law) {
		at := func(n int) time.Time { return time.Date(2020, 1, n, 0, 0, 0, 7, time.UTC) }
		n := run("r")
		n.Status, n.Root = "waiting", "top"
		n.Add = []store.Row{
			{Stream: store.Step, Data: []byte("s"), At: at(3), Told: true}, {Stream: store.Inbox, Data: []byte("in"), At: at(4)},
			{Stream: store.Event, Key: "k", Data: []byte("e"), At: at(5)}, {Stream: store.Call, Data: []byte("now")},
		}
		n.Past = &store.Past{Outcome: "odd", Created: at(1), Updated: at(9), Questions: []store.Question{
			{ID: "q1", Asked: at(5), Due: at(6), Row: []byte("open")}, {ID: "q2", Asked: at(7), Closed: true, Row: []byte("closed")},
		}}
		l.create(n)
		r := l.get("r")
		if !r.Ended || !r.Due.IsZero() || !r.Until.IsZero() || r.Status != "waiting" || r.Outcome != "odd" || r.Inbox != 1 {
			l.Fatalf("the copy is %+v", r)
		}
		l.same("created", r.Created, at(1))
		l.same("updated", r.Updated, at(9))
		l.same("step", l.read("r", store.Query{Stream: store.Step}), []store.Row{{Stream: store.Step, Seq: 1, Data: []byte("s"), At: at(3)}})
		l.same("events", l.read("r", store.Query{Stream: store.Event}), []store.Row{
			{Stream: store.Event, Seq: 1, Data: []byte("s"), At: at(3)}, {Stream: store.Event, Seq: 2, Key: "k", Data: []byte("e"), At: at(5)}})
		if got := l.read("r", store.Query{Stream: store.Call}); len(got) != 1 || got[0].At.Before(at(9)) {
			l.Fatalf("a row without a time: %+v", got)
		}
		q := store.Question{Run: "r", Tenant: "t", User: "u", Workflow: "w", Root: "top"}
		first, second := q, q
		first.ID, first.Asked, first.Due, first.Row = "q1", at(5), at(6), []byte("open")
		second.ID, second.Asked, second.Closed, second.Row = "q2", at(7), true, []byte("closed")
		l.same("questions", l.questions(store.Filter{Run: "r"}), []store.Question{second, first})

		l.same("claims", l.claims(store.Claim{Max: 9}), []string{})
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Letters: []store.Letter{{Run: "r", Live: true}}}), store.ErrStale)
		l.apply(store.Change{Run: "r", Letters: []store.Letter{letter("r", "wake")}})
		l.same("claims after a letter", l.claims(store.Claim{Max: 9}), []string{})
	}},
	// A file that is refused in the middle has left nothing: a question belongs to one run, and all of it is one transaction.
	{name: "past of a question that exists", run: func(l *law) {
		a, b, c := run("a"), run("b"), run("c")
		a.Past = &store.Past{Questions: []store.Question{{ID: "q", Row: []byte("a's")}}}
		l.create(a)
		b.Past = &store.Past{Questions: []store.Question{{ID: "p"}}}
		c.Past = &store.Past{Questions: []store.Question{{ID: "new"}, {ID: "q", Row: []byte("c's")}}}
		l.taken(l.s.Create(l.ctx, b, c), "a")
		l.gone("b")
		l.gone("c")
		l.taken(l.s.Create(l.ctx, c), "a")
		l.gone("c")
		if qs := l.questions(store.Filter{}); len(qs) != 1 || qs[0].Run != "a" || string(qs[0].Row) != "a's" {
			l.Fatalf("questions: %+v", qs)
		}
		c.Past = nil
		l.create(c)
		l.same("claims", l.claims(store.Claim{Max: 9}), []string{"c"})
	}},
	// None is nothing to do, not a fault.
	{name: "none", run: func(l *law) { l.create() }},
}
