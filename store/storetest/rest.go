package storetest

import (
	"fmt"
	"time"

	"pawl/store"
)

var limitCases = []kase{
	// A rate lets Burst through at once, then one every Every, and says how long to wait.
	{name: "rate", run: func(l *law) {
		s := store.Slot{Limit: "brave", Every: time.Hour, Burst: 3}
		for i := range 3 {
			s.Holder = fmt.Sprint("h", i)
			l.same("wait", l.take(s), time.Duration(0))
		}
		s.Holder = "h3"
		if w := l.take(s); w <= 50*time.Minute || w > time.Hour {
			l.Fatalf("wait %v, want an hour", w)
		}
		l.ok(l.s.Give(l.ctx, "brave", "h0"))
		if w := l.take(s); w <= 50*time.Minute {
			l.Fatalf("giving back freed the rate: %v", w)
		}
		s.Limit = "other"
		l.same("another limit", l.take(s), time.Duration(0))
	}},
	// The rate comes back with time, and having waited as told is enough.
	{name: "rate comes back", run: func(l *law) {
		s := store.Slot{Limit: "l", Holder: "h", Every: short, Burst: 1}
		l.take(s)
		if w := l.take(s); w > short {
			l.Fatalf("wait %v", w)
		}
		l.o.Sleep(short)
		l.same("wait", l.take(s), time.Duration(0))
	}},
	// At most Max together; a place that is given back is free at once.
	{name: "places", run: func(l *law) {
		s := store.Slot{Limit: "l", Max: 2, Hold: long}
		hold := func(h string) time.Duration { s.Holder = h; return l.take(s) }
		l.same("a, b", []time.Duration{hold("a"), hold("b")}, []time.Duration{0, 0})
		if hold("c") <= 0 {
			l.Fatal("three of two")
		}
		l.same("a again", hold("a"), time.Duration(0)) // renews its own place
		l.ok(l.s.Give(l.ctx, "l", "b"))
		l.same("c", hold("c"), time.Duration(0))
		l.ok(l.s.Give(l.ctx, "l", "nobody"))
		l.ok(l.s.Give(l.ctx, "none", "nobody"))
	}},
	// A holder that died does not keep its place for ever (case 23).
	{name: "a dead holder", run: func(l *law) {
		l.take(store.Slot{Limit: "l", Holder: "dead", Max: 1, Hold: short})
		l.soon("the place is free", func() bool { return l.take(store.Slot{Limit: "l", Holder: "b", Max: 1, Hold: long}) == 0 })
	}},
	// Renewing a place is no new use: a long call that renews would otherwise eat the rate.
	{name: "renewing uses no rate", run: func(l *law) {
		s := store.Slot{Limit: "l", Holder: "h", Every: time.Hour, Burst: 2, Max: 5, Hold: long}
		for range 5 {
			l.same("wait", l.take(s), time.Duration(0))
		}
		s.Holder = "i"
		l.same("wait", l.take(s), time.Duration(0))
	}},
	// Waiting for a place uses no rate.
	{name: "refused uses nothing", run: func(l *law) {
		s := store.Slot{Limit: "l", Holder: "a", Every: time.Hour, Burst: 2, Max: 1, Hold: long}
		l.take(s)
		s.Holder = "b"
		for range 3 {
			if l.take(s) <= 0 {
				l.Fatal("two of one")
			}
		}
		l.ok(l.s.Give(l.ctx, "l", "a"))
		l.same("wait", l.take(s), time.Duration(0))
	}},
	// Neither rate nor places: no limit.
	{name: "no limit", run: func(l *law) {
		for range 5 {
			l.same("wait", l.take(store.Slot{Limit: "l", Holder: "h"}), time.Duration(0))
		}
	}},
}

func (l *law) take(s store.Slot) time.Duration {
	l.Helper()
	w, err := l.s.Take(l.ctx, s)
	l.ok(err)
	return w
}
