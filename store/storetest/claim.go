package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"pawl/store"
)

var claimCases = []kase{
	// A claim is a lease: epoch, worker and end are set, and the run comes whole.
	{name: "lease", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		now, err := l.s.Now(l.ctx)
		l.ok(err)
		if r.Epoch != 1 || r.Worker != "worker" || r.Until.Before(now) || r.Until.Sub(now) > long {
			l.Fatalf("lease: %+v", r)
		}
		l.same("bytes", []string{string(r.Head), string(r.Row)}, []string{"head of r", "row of r"})
		l.same("stored", l.get("r"), r)
	}},
	// Not held: a live lease keeps everybody else away, also the same worker.
	{name: "held", run: func(l *law) {
		l.create(run("r"))
		l.claim("r")
		l.same("claims", l.claims(store.Claim{Max: 9}), []string{})
		l.same("claims of the run", l.claims(store.Claim{Max: 9, Run: "r"}), []string{})
	}},
	// A dead worker's run comes back by itself, with a higher epoch that fences the dead one (case 23).
	{name: "lease runs out", run: func(l *law) {
		l.create(run("r"))
		l.same("claims", l.claims(store.Claim{Max: 1, Hold: short}), []string{"r"})
		l.soon("the run comes back", func() bool { return len(l.claims(store.Claim{Worker: "other", Max: 1})) == 1 })
		r := l.get("r")
		l.same("epoch", r.Epoch, int64(2))
		l.same("worker", r.Worker, "other")
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Epoch: 1, Row: []byte("late")}), store.ErrStale)
	}},
	// Workers claim only what they have the code for.
	{name: "kinds", run: func(l *law) {
		a, b, c := run("a"), run("b"), run("c")
		b.Version, c.Workflow = "2", "x"
		l.create(a, b, c)
		l.same("other kinds", l.claims(store.Claim{Max: 9, Kinds: []string{"w@3", "y@1"}}), []string{})
		l.same("no kinds", l.claims(store.Claim{Max: 9, Kinds: []string{}}), []string{})
		l.same("one kind", l.claims(store.Claim{Max: 9, Kinds: []string{"w@2"}}), []string{"b"})
		l.same("every kind", len(l.claims(store.Claim{Max: 9})), 2)
	}},
	// `pawl run` works its own run and its children, not whatever else is waiting.
	{name: "one run, one root", run: func(l *law) {
		a, b, c, d := run("a"), run("b"), run("c"), run("d")
		b.Parent, b.Root, c.Parent, c.Root = "a", "a", "b", "a"
		l.create(a, b, c, d)
		l.same("run", l.claims(store.Claim{Max: 9, Run: "b"}), []string{"b"})
		l.same("other kind", l.claims(store.Claim{Max: 9, Root: "a", Kinds: []string{"x@1"}}), []string{})
		l.same("root", l.claims(store.Claim{Max: 9, Root: "a"}), []string{"a", "c"})
		l.same("not under the root", l.claims(store.Claim{Max: 9, Root: "a", Run: "d"}), []string{})
	}},
	// Higher priorities first, then what has been due longest: no run starves behind later ones.
	{name: "order", run: func(l *law) {
		for i, p := range []int{0, 5, 0, 5, -1} {
			r := run(string(rune('a' + i)))
			r.Priority = p
			l.create(r)
			l.o.Sleep(time.Millisecond)
		}
		l.same("first", l.claims(store.Claim{Max: 3}), []string{"b", "d", "a"})
		l.same("rest", l.claims(store.Claim{Max: 3}), []string{"c", "e"})
	}},
	// The order holds over several kinds, not kind by kind.
	{name: "order over kinds", run: func(l *law) {
		for i, p := range []int{0, 5, 3, 4} {
			r := run(string(rune('a' + i)))
			r.Priority, r.Workflow = p, []string{"x", "w"}[i%2]
			l.create(r)
		}
		l.same("order", l.claims(store.Claim{Max: 9, Kinds: []string{"x@1", "w@1"}}), []string{"b", "d", "c", "a"})
	}},
	// next lets a worker sleep exactly as long as it may: until a timer, or until a lease runs out.
	{name: "next", run: func(l *law) {
		look := func(c store.Claim) time.Duration {
			_, next, err := l.s.Claim(l.ctx, c)
			l.ok(err)
			return next
		}
		if next := look(store.Claim{Worker: "w", Max: 1, Hold: long}); next >= 0 {
			l.Fatalf("nothing is in sight, but next is %v", next)
		}
		a, b, c := run("a"), run("b"), run("c")
		a.After, b.After, c.After, c.Workflow = time.Hour, -1, time.Minute, "x"
		l.create(a, b, c)
		if next := look(store.Claim{Worker: "w", Max: 1, Hold: long, Kinds: []string{"w@1"}}); next <= 59*time.Minute || next > time.Hour {
			l.Fatalf("due in an hour, but next is %v", next)
		}
		l.create(run("d"))
		for _, c := range []store.Claim{{Kinds: []string{"w@1"}}, {Run: "d"}, {Root: "d"}} {
			c.Worker, c.Hold = "w", long
			if next := look(c); next != 0 {
				l.Fatalf("one is due now, but next is %v for %+v", next, c)
			}
		}
		if next := look(store.Claim{Worker: "w", Max: 9, Hold: 10 * time.Minute, Kinds: []string{"w@1"}}); next < 9*time.Minute || next > 10*time.Minute {
			l.Fatalf("a lease runs out in ten minutes, but next is %v", next)
		}
	}},
	// A timer of a high priority does not hide a run of a low one that is due now.
	{name: "next over priorities", run: func(l *law) {
		a, b, c := run("a"), run("b"), run("c")
		a.Priority, a.After, b.After, c.Priority = 9, time.Hour, time.Minute, -3
		l.create(a, b, c)
		_, next, err := l.s.Claim(l.ctx, store.Claim{Worker: "w", Hold: long})
		l.ok(err)
		l.same("next", next, time.Duration(0))
		rs, next, err := l.s.Claim(l.ctx, store.Claim{Worker: "w", Max: 2, Hold: time.Hour})
		l.ok(err)
		l.same("claims", ids(rs), []string{"c"})
		if next <= 0 || next > time.Minute {
			l.Fatalf("due in a minute, but next is %v", next)
		}
	}},
	// Many runs that move in one call are found again, each when it is due: a run that is lost from sight is never worked on.
	{name: "after many changes", run: func(l *law) {
		rnd := rand.New(rand.NewPCG(3, 10))
		epochs := map[string]int64{}
		due := map[string]time.Duration{}
		after := func() time.Duration { return time.Duration(1+rnd.IntN(1000)) * time.Hour }
		var ns []store.NewRun
		for i := range 30 {
			n := run(fmt.Sprintf("r%02d", i))
			n.After = after()
			due[n.ID] = n.After
			ns = append(ns, n)
		}
		l.create(ns...)
		for range 30 {
			var cs []store.Change
			for _, i := range rnd.Perm(len(ns))[:2+rnd.IntN(10)] {
				id := ns[i].ID
				due[id] = after()
				cs = append(cs, store.Change{Run: id, Epoch: epochs[id], Takeover: true, Row: []byte("x"), After: due[id]})
				epochs[id]++
			}
			l.apply(cs...)
			first := slices.Min(slices.Collect(maps.Values(due)))
			_, next, err := l.s.Claim(l.ctx, store.Claim{Worker: "w", Hold: long})
			l.ok(err)
			if next > first || next < first-time.Hour {
				l.Fatalf("the first is due in %v, but next is %v", first, next)
			}
		}
		var wake []store.Change
		for _, i := range rnd.Perm(len(ns))[:20] {
			wake = append(wake, store.Change{Run: ns[i].ID, Letters: []store.Letter{letter(ns[i].ID, "x")}})
		}
		l.apply(wake...)
		l.same("claims", len(l.claims(store.Claim{Max: 30})), 20)
	}},
	// Max 0 only looks and announces.
	{name: "max 0", run: func(l *law) {
		l.create(run("r"))
		l.same("claims", l.claims(store.Claim{Worker: "me", Kinds: []string{"w@1"}, Max: 0}), []string{})
		l.same("epoch", l.get("r").Epoch, int64(0))
		ws, err := l.s.Workers(l.ctx)
		l.ok(err)
		if len(ws) != 1 || ws[0].ID != "me" || len(ws[0].Kinds) != 1 || ws[0].Kinds[0] != "w@1" || ws[0].Runs != 0 {
			l.Fatalf("workers: %+v", ws)
		}
	}},
	// Counters come with the claim: the engine must know what is spent before the first call.
	{name: "counters", run: func(l *law) {
		r := run("r")
		r.Caps = []store.Counter{{Meter: "b", Cap: 2}, {Meter: "a", Used: 1, Cap: -1}}
		l.create(r)
		l.same("counters", l.claim("r").Counters, []store.Counter{{Meter: "a", Used: 1, Cap: -1}, {Meter: "b", Cap: 2}})
	}},
	// An ended run is never due again.
	{name: "ended", run: func(l *law) {
		l.create(run("r"))
		l.apply(end(l.claim("r")))
		l.same("claims", l.claims(store.Claim{Max: 9}), []string{})
		l.same("claims of the run", l.claims(store.Claim{Max: 9, Run: "r"}), []string{})
	}},
}

var renewCases = []kase{
	// A renewed lease does not run out (case 15), and renewing shows letters without reading the run.
	{name: "extends", run: func(l *law) {
		l.create(run("r"))
		l.same("claims", l.claims(store.Claim{Max: 1, Hold: 2 * time.Second}), []string{"r"})
		l.apply(store.Change{Run: "r", Add: []store.Row{{Stream: store.Inbox, Data: []byte("x")}}})
		was := l.get("r").Until
		hs, err := l.s.Renew(l.ctx, "worker", []store.Lease{{Run: "r", Epoch: 1}}, long)
		l.ok(err)
		l.same("held", hs, []store.Held{{Run: "r", Inbox: 1}})
		if now := l.get("r").Until; !now.After(was) {
			l.Fatalf("until %v, was %v", now, was)
		}
		l.same("epoch", l.get("r").Epoch, int64(1))
	}},
	// Lost: another epoch, gone, ended; and given back, else a late renewal would hold a run that nobody works on.
	{name: "lost", run: func(l *law) {
		l.create(runs("other", "ended", "released", "mine")...)
		l.claim("other")
		l.apply(end(l.claim("ended")))
		l.claim("mine")
		l.apply(store.Change{Run: "released", Epoch: l.claim("released").Epoch, Release: true})
		var ls []store.Lease
		for _, id := range []string{"other", "ended", "released", "gone", "mine"} {
			ls = append(ls, store.Lease{Run: id, Epoch: 1})
		}
		ls[0].Epoch = 7
		hs, err := l.s.Renew(l.ctx, "worker", ls, long)
		l.ok(err)
		for i, h := range hs {
			if h.Run != ls[i].Run || h.Lost != (i < 4) {
				l.Fatalf("%d: %+v", i, h)
			}
		}
		l.same("claims", l.claims(store.Claim{Max: 9}), []string{"released"})
	}},
	// A worker is alive as long as it claims or renews, and Kinds stays what it said.
	{name: "presence", run: func(l *law) {
		l.create(run("r"))
		l.claims(store.Claim{Worker: "a", Kinds: []string{"w@1"}, Max: 1})
		_, err := l.s.Renew(l.ctx, "a", nil, long)
		l.ok(err)
		l.claims(store.Claim{Worker: "b", Kinds: []string{"x@1", "y@1"}, Hold: short})
		var ws []store.Worker
		l.soon("b is forgotten", func() bool {
			ws, err = l.s.Workers(l.ctx)
			l.ok(err)
			return len(ws) == 1
		})
		l.claims(store.Claim{Worker: "c", Kinds: []string{}, Serves: []string{"z@1"}})
		with, err := l.s.Workers(l.ctx)
		l.ok(err)
		if len(with) != 2 || len(with[1].Kinds) != 1 || with[1].Kinds[0] != "z@1" { // it looked for less than it serves
			l.Fatalf("workers: %+v", with)
		}
		if w := ws[0]; w.ID != "a" || w.Runs != 1 || len(w.Kinds) != 1 || w.Kinds[0] != "w@1" || w.Until.IsZero() {
			l.Fatalf("worker: %+v", w)
		}
	}},
}
