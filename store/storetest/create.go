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
	// None is nothing to do, not a fault.
	{name: "none", run: func(l *law) { l.create() }},
}
