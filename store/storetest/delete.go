package storetest

import (
	"fmt"
	"time"

	"pawl/store"
)

var deleteCases = []kase{
	// Erased is erased: no row, blob, question, key or counter is left to be read, by whatever way one asks.
	{name: "leaves nothing but its row", run: func(l *law) {
		old := run("old")
		old.Key, old.Caps = "k", []store.Counter{{Meter: "m", Cap: 1}}
		l.create(old, run("other"))
		e := end(l.claim("old"))
		e.Ask = []store.Ask{{ID: "q"}}
		e.Add = append(step("s"), store.Row{Stream: store.Blob, Key: "b"}, store.Row{Stream: store.Step, Told: true}, store.Row{Stream: store.Audit})
		l.apply(e)
		l.delete("old", "by ann")
		l.gone("old")
		for _, stream := range []store.Stream{store.Step, store.Event, store.Call, store.Inbox, store.Blob} {
			_, err := l.s.Read(l.ctx, all, "old", store.Query{Stream: stream})
			l.is(err, store.ErrNotFound)
		}
		l.same("questions", len(l.questions(store.Filter{})), 0)
		l.same("claims", l.claims(store.Claim{Max: 9}), []string{"other"})
		for _, f := range []store.Filter{{}, {Workflow: "w"}} {
			rs, err := l.s.List(l.ctx, all, f, store.Page{})
			l.ok(err)
			l.same("list", ids(rs), []string{"other"})
		}
		heir := run("heir")
		heir.Key = "k"
		l.create(heir) // the key is free
	}},
	// Who deleted what, and when, can be asked for ever after, by those who could see the run and by nobody else.
	{name: "its row", run: func(l *law) {
		l.create(run("r"))
		l.apply(end(l.claim("r")))
		before, err := l.s.Now(l.ctx)
		l.ok(err)
		l.delete("r", "by ann")
		rows := l.read("r", store.Query{Stream: store.Audit})
		l.same("rows", len(rows), 1)
		l.same("row", rows[0], store.Row{Stream: store.Audit, Seq: 1, Data: []byte("by ann"), At: rows[0].At})
		if now, err := l.s.Now(l.ctx); err != nil || rows[0].At.Before(before) || rows[0].At.After(now) {
			l.Fatalf("at %v, deleted between %v and %v", rows[0].At, before, now)
		}
		for after, want := range []int{1, 0, 0} {
			l.same("after", len(l.read("r", store.Query{Stream: store.Audit, After: int64(after), Limit: 5})), want)
		}
		l.same("by key", len(l.read("r", store.Query{Stream: store.Audit, Key: "x"})), 0)
		for _, s := range []store.Scope{{Tenant: "t", User: "u"}, {Tenant: "t", AllUsers: true}} {
			rows, err := l.s.Read(l.ctx, s, "r", store.Query{Stream: store.Audit})
			l.ok(err)
			l.same("seen", texts(rows), []string{"by ann"})
		}
		for _, s := range []store.Scope{{}, {Tenant: "t"}, {Tenant: "t", User: "x"}, {Tenant: "x", AllUsers: true}, {Tenant: "x", User: "u"}} {
			_, err := l.s.Read(l.ctx, s, "r", store.Query{Stream: store.Audit})
			l.is(err, store.ErrNotFound)
		}
		rows[0].Data[0] = 'X'
		l.same("nothing is shared", texts(l.read("r", store.Query{Stream: store.Audit})), []string{"by ann"})
		n, err := l.s.Expire(l.ctx, 10)
		l.ok(err)
		l.same("expired", n, 0)
		l.same("stays", len(l.read("r", store.Query{Stream: store.Audit})), 1)
	}},
	// A program that repeats what it did not see the end of must not bring an erased run back, nor lend its id to another.
	{name: "its id stays taken", run: func(l *law) {
		l.create(run("r"), run("p"))
		l.apply(end(l.claim("r")))
		l.delete("r", "x")
		l.taken(l.s.Create(l.ctx, run("r")), "r")
		p := l.claim("p")
		l.apply(store.Change{Run: "p", Epoch: p.Epoch, Row: []byte("x"), Create: runs("r", "new")})
		l.gone("r")
		l.get("new")
		l.same("row", texts(l.read("r", store.Query{Stream: store.Audit})), []string{"x"})
	}},
	// Deleting twice is found out, so that nobody takes another's deletion for their own; the first row stays.
	{name: "not found", run: func(l *law) {
		l.is(l.s.Delete(l.ctx, "none", nil), store.ErrNotFound)
		l.is(l.s.Delete(l.ctx, "", nil), store.ErrNotFound)
		l.create(run("r"))
		l.apply(end(l.claim("r")))
		l.delete("r", "first")
		l.is(l.s.Delete(l.ctx, "r", []byte("second")), store.ErrNotFound)
		l.same("row", texts(l.read("r", store.Query{Stream: store.Audit})), []string{"first"})
	}},
	// What goes on is not torn from under whoever works at it: neither the run nor a descendant, and then nothing goes.
	{name: "not ended", run: func(l *law) {
		child, grand := run("child"), run("grandchild")
		child.Parent, child.Root, grand.Parent, grand.Root = "root", "root", "child", "root"
		l.create(run("root"), child, grand)
		for _, id := range []string{"root", "child", "grandchild"} {
			l.is(l.s.Delete(l.ctx, "root", nil), store.ErrStale)
			l.apply(end(l.claim(id)))
		}
		l.same("kept", len(l.read("root", store.Query{Stream: store.Audit})), 0)
		l.delete("root", "x")
	}},
	// A child is part of its parent's doing: it and all that is below goes too, and leaves no row. Others stay.
	{name: "descendants", run: func(l *law) {
		l.family(0, 0, 0)
		sibling := run("background")
		l.create(sibling)
		l.delete("root", "x")
		for _, id := range []string{"root", "child", "grandchild"} {
			l.gone(id)
		}
		_, err := l.s.Read(l.ctx, all, "child", store.Query{Stream: store.Audit})
		l.is(err, store.ErrNotFound)
		l.get("background")
		l.create(run("child")) // nobody who could bring it back is left: its id is free
	}},
	// A child that is deleted alone leaves its parent and its siblings as they are.
	{name: "a child alone", run: func(l *law) {
		l.family(0, 0, 0)
		l.delete("child", "x")
		l.get("root")
		l.gone("grandchild")
		rs, err := l.s.List(l.ctx, all, store.Filter{Parent: "root"}, store.Page{})
		l.ok(err)
		l.same("children", ids(rs), []string{})
	}},
	// A holder who was late learns that the run is gone as any other who lost it does; others, that there is none.
	{name: "late writers", run: func(l *law) {
		l.create(run("r"), run("o"))
		r := l.claim("r")
		l.apply(end(r))
		l.delete("r", "x")
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Epoch: r.Epoch, Row: []byte("x")}), store.ErrStale)
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Epoch: r.Epoch, Takeover: true, Row: []byte("x")}), store.ErrNotFound)
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Add: []store.Row{{Stream: store.Audit}}}), store.ErrNotFound)
		_, err := l.s.Append(l.ctx, store.Lease{Run: "r", Epoch: r.Epoch}, store.Batch{Rows: step("x")})
		l.is(err, store.ErrStale)
		l.apply(store.Change{Run: "o", Letters: []store.Letter{letter("r", "x")}})
		dead := letter("r", "x")
		dead.Live = true
		l.is(l.s.Apply(l.ctx, store.Change{Run: "o", Letters: []store.Letter{dead}}), store.ErrStale)
		l.same("row", len(l.read("r", store.Query{Stream: store.Audit})), 1)
	}},
	// Who watches a run is told, and then does not find it: they would wait for its next event for ever.
	{name: "watchers are told", run: func(l *law) {
		l.family(0, 0, 0)
		a, b := l.watch(l.s), l.watch(l.s)
		l.delete("root", "x")
		a.wait("root")
		b.wait("child")
	}},
	// A large family goes as a whole: half of one would be found neither by its parent nor by whoever deletes.
	{name: "a large family", run: func(l *law) {
		rs := []store.NewRun{run("root")}
		for i := range 300 {
			c := run(fmt.Sprint("c", i))
			c.Parent, c.Root = "root", "root"
			rs = append(rs, c)
		}
		l.create(rs...)
		var ends []store.Change
		for _, n := range rs {
			ends = append(ends, store.Change{Run: n.ID, Takeover: true, Row: []byte("x"), End: true})
		}
		l.apply(ends...)
		l.delete("root", "x")
		left, err := l.s.List(l.ctx, all, store.Filter{}, store.Page{})
		l.ok(err)
		l.same("left", ids(left), []string{})
	}},
	// Acknowledged is durable, here too: what was erased is not back after a restart, and its row is there.
	{name: "outlives a restart", needs: func(o Options) bool { return o.Reopen != nil }, run: func(l *law) {
		l.family(time.Hour, 0, 0)
		l.delete("root", "x")
		l.s = l.o.Reopen(l.T, l.s)
		defer func() { _ = l.s.Close() }()
		l.gone("root")
		l.gone("child")
		l.taken(l.s.Create(l.ctx, run("root")), "root")
		l.same("row", texts(l.read("root", store.Query{Stream: store.Audit})), []string{"x"})
	}},
	// Another process's deletion holds at once: what one remembers of a run is no reason to find it.
	{name: "by another process", needs: func(o Options) bool { return o.Second != nil }, run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		l.apply(end(r))
		other := l.o.Second(l.T, l.s)
		l.ok(other.Delete(l.ctx, "r", []byte("x")))
		l.gone("r")
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Add: step("x")}), store.ErrNotFound)
		l.taken(l.s.Create(l.ctx, run("r")), "r")
	}},
}

func (l *law) delete(id, row string) {
	l.Helper()
	l.ok(l.s.Delete(l.ctx, id, []byte(row)))
}
