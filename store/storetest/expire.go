package storetest

import (
	"fmt"
	"slices"
	"time"

	"pawl/store"
)

var expireCases = []kase{
	// An expired run leaves nothing: no row, no question, no key. One that has not expired, or never does, stays.
	{name: "leaves nothing", run: func(l *law) {
		old := run("old")
		old.Key, old.Caps = "k", []store.Counter{{Meter: "m", Cap: 1}}
		l.create(old, run("kept"), run("later"))
		r := l.claim("old")
		e := end(r)
		e.Keep, e.Ask = time.Millisecond, []store.Ask{{ID: "q"}}
		e.Add = append(step("s"), store.Row{Stream: store.Blob, Key: "b"}, store.Row{Stream: store.Step, Told: true}, store.Row{Stream: store.Event})
		l.apply(e)
		l.apply(end(l.claim("kept")))
		e = end(l.claim("later"))
		e.Keep = time.Hour
		l.apply(e)
		l.o.Sleep(5 * time.Millisecond)
		n, err := l.s.Expire(l.ctx, 10)
		l.ok(err)
		l.same("removed", n, 1)
		l.gone("old")
		l.same("questions", len(l.questions(store.Filter{})), 0)
		_, err = l.s.Read(l.ctx, all, "old", store.Query{Stream: store.Step})
		l.is(err, store.ErrNotFound)
		l.get("kept")
		l.get("later")
		old.Caps, old.Add = nil, nil
		l.create(old) // id and key are free, and the new run begins empty
		l.same("steps", len(l.read("old", store.Query{Stream: store.Step})), 0)
		l.same("blobs", len(l.read("old", store.Query{Stream: store.Blob})), 0)
		l.same("counters", len(l.get("old").Counters), 0)
		rs, err := l.s.List(l.ctx, all, store.Filter{}, store.Page{})
		l.ok(err)
		l.same("list", ids(rs), []string{"old", "later", "kept"})
	}},
	// Bounded, so that clearing up a million runs does not stop the others.
	{name: "bounded", run: func(l *law) {
		for i := range 5 {
			id := fmt.Sprint("r", i)
			l.create(run(id))
			e := end(l.claim(id))
			e.Keep = time.Millisecond
			l.apply(e)
		}
		l.o.Sleep(5 * time.Millisecond)
		for _, want := range []int{0, 2, 2, 1, 0} {
			n, err := l.s.Expire(l.ctx, min(2, want+want))
			l.ok(err)
			l.same("removed", n, want)
		}
	}},
	// Whoever comes after a pass that was cut off goes on: by small passes the whole family goes, children before their parents.
	{name: "a family in passes", run: func(l *law) {
		l.family(time.Millisecond, 0, 0)
		l.o.Sleep(5 * time.Millisecond)
		for _, want := range [][]string{{"child", "root"}, {"root"}, {}} {
			n, err := l.s.Expire(l.ctx, 1)
			l.ok(err)
			l.same("removed", n, 1)
			rs, err := l.s.List(l.ctx, all, store.Filter{}, store.Page{})
			l.ok(err)
			left := ids(rs)
			slices.Sort(left)
			l.same("left", left, want)
		}
		n, err := l.s.Expire(l.ctx, 1)
		l.ok(err)
		l.same("removed", n, 0)
	}},
	// A child that is kept for longer than its parent, or for ever, would be an orphan that nobody finds and nothing removes.
	{name: "children go with their parent", run: func(l *law) {
		l.family(time.Millisecond, time.Hour, 0)
		l.create(run("other"))
		l.o.Sleep(5 * time.Millisecond)
		n, err := l.s.Expire(l.ctx, 10)
		l.ok(err)
		l.same("removed", n, 3)
		for _, id := range []string{"root", "child", "grandchild"} {
			l.gone(id)
		}
		l.get("other")
	}},
	// A child may expire sooner than its parent, which has what it needs of it: with it goes what is below it.
	{name: "a child alone", run: func(l *law) {
		l.family(time.Hour, time.Millisecond, 0)
		early := run("early")
		early.Parent, early.Root = "late", "late"
		l.create(run("late"), early)
		e := end(l.claim("early"))
		e.Keep = time.Millisecond
		l.apply(e)
		l.o.Sleep(5 * time.Millisecond)
		n, err := l.s.Expire(l.ctx, 10)
		l.ok(err)
		l.same("removed", n, 3)
		rs, err := l.s.List(l.ctx, all, store.Filter{}, store.Page{})
		l.ok(err)
		l.same("left", ids(rs), []string{"root", "late"})
	}},
	// What goes on below an expired run would be an orphan: the run waits for it, and does not stand in the way of others.
	{name: "not before its descendants have ended", run: func(l *law) {
		root, child, grand := run("root"), run("child"), run("grandchild")
		child.Parent, child.Root, grand.Parent, grand.Root = "root", "root", "child", "root"
		l.create(root, child, grand, run("other"))
		ends := func(id string, most, want int) {
			l.Helper()
			e := end(l.claim(id))
			e.Keep = time.Millisecond
			l.apply(e)
			l.o.Sleep(5 * time.Millisecond)
			n, err := l.s.Expire(l.ctx, most)
			l.ok(err)
			l.same("removed", n, want)
		}
		ends("root", 10, 0)
		ends("child", 10, 0)
		ends("other", 1, 1)
		l.gone("other")
		ends("grandchild", 10, 3)
	}},
}

// family makes a root with a child and a grandchild, all of them ended and kept for so long.
func (l *law) family(keeps ...time.Duration) {
	l.Helper()
	root, child, grand := run("root"), run("child"), run("grandchild")
	child.Parent, child.Root, grand.Parent, grand.Root = "root", "root", "child", "root"
	for i, n := range []store.NewRun{root, child, grand} {
		l.create(n)
		e := end(l.claim(n.ID))
		e.Keep = keeps[i]
		l.apply(e)
	}
}
