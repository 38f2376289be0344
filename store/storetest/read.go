package storetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"pawl/store"
)

var readCases = []kase{
	// A reader goes on where it stopped: no gap and no row twice.
	{name: "stream", run: func(l *law) {
		l.create(run("r"))
		var rows []store.Row
		for i := range 10 {
			rows = append(rows, store.Row{Stream: store.Event, Key: fmt.Sprint("k", i%3), Data: fmt.Append(nil, i)})
		}
		l.append(l.claim("r"), store.Batch{Rows: rows})
		l.same("all", len(l.read("r", store.Query{Stream: store.Event})), 10)
		l.same("after", texts(l.read("r", store.Query{Stream: store.Event, After: 7})), []string{"7", "8", "9"})
		l.same("limit", texts(l.read("r", store.Query{Stream: store.Event, After: 2, Limit: 2})), []string{"2", "3"})
		l.same("past the end", len(l.read("r", store.Query{Stream: store.Event, After: 10})), 0)
		l.same("key", texts(l.read("r", store.Query{Stream: store.Event, Key: "k1", After: 2, Limit: 2})), []string{"4", "7"})
		l.same("other stream", len(l.read("r", store.Query{Stream: store.Step})), 0)
		_, err := l.s.Read(l.ctx, all, "gone", store.Query{Stream: store.Event})
		l.is(err, store.ErrNotFound)
	}},
	// Lists page by id, newest first, and no page depends on what was created meanwhile.
	{name: "pages", run: func(l *law) {
		for _, i := range []int{3, 1, 5, 2, 4} {
			l.create(run(fmt.Sprint("r", i)))
		}
		list := func(p store.Page) []string {
			rs, err := l.s.List(l.ctx, all, store.Filter{}, p)
			l.ok(err)
			return ids(rs)
		}
		l.same("first", list(store.Page{Limit: 2}), []string{"r5", "r4"})
		l.create(run("r9"))
		l.same("second", list(store.Page{Limit: 2, After: "r4"}), []string{"r3", "r2"})
		l.same("after one that is gone", list(store.Page{After: "r35"}), []string{"r3", "r2", "r1"})
		l.same("end", list(store.Page{After: "r1"}), []string{})
	}},
	// No limit is a hundred, so that a list never brings the whole store.
	{name: "page of 100", run: func(l *law) {
		var rs []store.NewRun
		for i := range 105 {
			rs = append(rs, run(fmt.Sprintf("r%03d", i)))
		}
		l.create(rs...)
		got, err := l.s.List(l.ctx, all, store.Filter{}, store.Page{})
		l.ok(err)
		l.same("count", len(got), 100)
	}},
	// Each filter narrows, and together they narrow further; Head and Row are there.
	{name: "filters", run: func(l *law) {
		a, b, c, d := run("a"), run("b"), run("c"), run("d")
		a.Key = "k"
		b.Parent, b.Root, b.Status = "a", "a", "waiting"
		c.Workflow, c.Status, c.Parent, c.Root = "x", "waiting", "b", "a"
		c.Version, d.Version = "2", "3"
		l.create(a, b, c, d)
		l.o.Sleep(2 * time.Millisecond)
		r := l.claim("d")
		l.apply(store.Change{Run: "d", Epoch: r.Epoch, Status: "running", Outcome: "hit", Row: r.Row})
		yes, no, moved := true, false, l.get("d").Updated
		for _, k := range []struct {
			f    store.Filter
			want []string
		}{
			{store.Filter{}, []string{"d", "c", "b", "a"}},
			{store.Filter{Workflow: "w"}, []string{"d", "b", "a"}},
			{store.Filter{Key: "k"}, []string{"a"}},
			{store.Filter{Parent: "a"}, []string{"b"}},
			{store.Filter{Root: "a"}, []string{"c", "b", "a"}},
			{store.Filter{Statuses: []string{"waiting"}}, []string{"c", "b"}},
			{store.Filter{Statuses: []string{"queued", "running"}}, []string{"d", "a"}},
			{store.Filter{Outcome: "hit"}, []string{"d"}},
			{store.Filter{NotVersions: []string{"2", "3"}}, []string{"b", "a"}},
			{store.Filter{Held: &yes}, []string{"d"}},
			{store.Filter{Held: &no}, []string{"c", "b", "a"}},
			{store.Filter{Root: "a", Statuses: []string{"waiting"}, Workflow: "x", Held: &no}, []string{"c"}},
			{store.Filter{Workflow: "none"}, []string{}},
			{store.Filter{Since: l.get("a").Updated}, []string{"d", "c", "b", "a"}},
			{store.Filter{Since: moved}, []string{"d"}},
			{store.Filter{Since: moved.Add(1)}, []string{}},
		} {
			rs, err := l.s.List(l.ctx, all, k.f, store.Page{})
			l.ok(err)
			l.same(fmt.Sprintf("%+v", k.f), ids(rs), k.want)
			for _, r := range rs {
				l.same("as Get", r, l.get(r.ID))
			}
		}
	}},
	// A lease that has run out holds nothing: the list must not show a dead worker's run as running.
	{name: "held means live", run: func(l *law) {
		l.create(run("r"))
		l.claims(store.Claim{Max: 1, Hold: short})
		no := false
		l.soon("not held any more", func() bool {
			rs, err := l.s.List(l.ctx, all, store.Filter{Held: &no}, store.Page{})
			l.ok(err)
			return len(rs) == 1
		})
	}},
}

var scopeCases = []kase{
	// Every read is scoped: 404 for what is somebody else's, as if it did not exist. Random tenants and users, so that no
	// method forgets one half of the scope.
	{name: "every read", run: func(l *law) {
		rnd := rand.New(rand.NewPCG(1, 2))
		names := []string{"", "a", "b"}
		var rs []store.NewRun
		for i := range 30 {
			r := run(fmt.Sprintf("r%02d", i))
			r.Tenant, r.User = names[rnd.IntN(3)], names[rnd.IntN(3)]
			rs = append(rs, r)
		}
		l.create(rs...)
		var ask []store.Change
		for _, r := range rs {
			ask = append(ask, store.Change{Run: r.ID, Takeover: true, Row: []byte("x"), Ask: []store.Ask{{ID: "q" + r.ID}}})
		}
		l.apply(ask...)
		for _, tenant := range names {
			for _, user := range names {
				sc := store.Scope{Tenant: tenant, User: user}
				l.sees(sc, rs, func(r store.NewRun) bool { return r.Tenant == tenant && r.User == user })
			}
			l.sees(store.Scope{Tenant: tenant, AllUsers: true}, rs, func(r store.NewRun) bool { return r.Tenant == tenant })
		}
		l.sees(all, rs, func(store.NewRun) bool { return true })
	}},
}

// sees checks that a scope sees exactly the wanted runs, by every method that reads.
func (l *law) sees(sc store.Scope, rs []store.NewRun, want func(store.NewRun) bool) {
	l.Helper()
	var visible []string
	for i := len(rs) - 1; i >= 0; i-- {
		if r := rs[i]; want(r) {
			visible = append(visible, r.ID)
		} else {
			_, err := l.s.Get(l.ctx, sc, r.ID)
			l.is(err, store.ErrNotFound)
			_, err = l.s.Read(l.ctx, sc, r.ID, store.Query{Stream: store.Step})
			l.is(err, store.ErrNotFound)
			continue
		}
		_, err := l.s.Get(l.ctx, sc, rs[i].ID)
		l.ok(err)
		_, err = l.s.Read(l.ctx, sc, rs[i].ID, store.Query{Stream: store.Step})
		l.ok(err)
	}
	list, err := l.s.List(l.ctx, sc, store.Filter{}, store.Page{})
	l.ok(err)
	qs, err := l.s.Questions(l.ctx, sc, store.Filter{}, store.Page{})
	l.ok(err)
	if len(list) != len(visible) || len(qs) != len(visible) {
		l.Fatalf("%+v sees %d runs and %d questions, want %d", sc, len(list), len(qs), len(visible))
	}
	for i, id := range visible {
		if list[i].ID != id || qs[i].Run != id {
			l.Fatalf("%+v sees %s and %s, want %s", sc, list[i].ID, qs[i].Run, id)
		}
	}
}
