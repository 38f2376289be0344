package storetest

import (
	"time"

	"pawl/store"
)

var applyCases = []kase{
	// Release gives the lease back and says when the run is due.
	{name: "release", run: func(l *law) {
		l.create(runs("now", "later", "letter")...)
		for id, after := range map[string]time.Duration{"now": 0, "later": time.Hour, "letter": -1} {
			r := l.claim(id)
			l.apply(store.Change{Run: id, Epoch: r.Epoch, Status: "waiting", Row: r.Row, Release: true, After: after})
			if g := l.get(id); !g.Until.IsZero() || g.Worker != "" {
				l.Fatalf("%s is still held: %+v", id, g)
			}
		}
		l.same("claims", l.claims(store.Claim{Max: 9}), []string{"now"})
		if l.get("later").Due.IsZero() || !l.get("letter").Due.IsZero() {
			l.Fatal("due times")
		}
	}},
	// A timer comes by itself.
	{name: "timer", run: func(l *law) {
		r := run("r")
		r.After = short
		l.create(r)
		l.soon("the timer", func() bool { return len(l.claims(store.Claim{Max: 1})) == 1 })
	}},
	// A letter that came before the release is not slept over: the lost wake-up that leaves runs stuck for days (case 23).
	{name: "release with an unread letter", run: func(l *law) {
		l.create(runs("unread", "read")...)
		for _, id := range []string{"unread", "read"} {
			r := l.claim(id)
			l.apply(store.Change{Run: id, Letters: []store.Letter{letter(id, "hello")}})
			c := store.Change{Run: id, Epoch: r.Epoch, Row: r.Row, Release: true, After: -1}
			if id == "read" {
				c.Seen = 1
			}
			l.apply(c)
		}
		l.same("claims", l.claims(store.Claim{Max: 9}), []string{"unread"})
	}},
	// Nor before a takeover, which gives the run free as well.
	{name: "takeover with an unread letter", run: func(l *law) {
		l.create(runs("unread", "read")...)
		for i, id := range []string{"unread", "read"} {
			l.apply(store.Change{Run: id, Letters: []store.Letter{letter(id, "hello")}})
			l.apply(store.Change{Run: id, Takeover: true, Row: []byte("x"), After: -1, Seen: int64(i)})
		}
		l.same("claims", l.claims(store.Claim{Max: 9}), []string{"unread"})
		l.is(l.s.Apply(l.ctx, store.Change{Run: "read", Epoch: 1, Takeover: true, End: true, Row: []byte("x")}), store.ErrStale)
	}},
	// An answer that came before the end is not swallowed by it (case 13).
	{name: "end with an unread letter", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		l.apply(store.Change{Run: "r", Letters: []store.Letter{letter("r", "hello")}})
		e := end(r)
		l.is(l.s.Apply(l.ctx, e), store.ErrStale)
		l.same("not ended", l.get("r").Ended, false)
		e.Seen = 1
		l.apply(e)
		l.same("ended", l.get("r").Ended, true)
	}},
	// End gives everything back and says how long the run is kept.
	{name: "end", run: func(l *law) {
		l.create(runs("kept", "short")...)
		l.apply(end(l.claim("kept")))
		e := end(l.claim("short"))
		e.Keep = time.Hour
		l.apply(e)
		for _, id := range []string{"kept", "short"} {
			g := l.get(id)
			if !g.Ended || !g.Until.IsZero() || !g.Due.IsZero() || g.Worker != "" || g.Expires.IsZero() != (id == "kept") {
				l.Fatalf("%s: %+v", id, g)
			}
		}
	}},
	// Children start if and only if the step commits, and a step that is committed again starts none twice.
	{name: "create", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		c := run("child")
		c.Parent, c.Root, c.Row = "r", "r", []byte("first")
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Epoch: 9, Create: []store.NewRun{c}}), store.ErrStale)
		l.gone("child")
		l.apply(store.Change{Run: "r", Epoch: r.Epoch, Create: []store.NewRun{c}})
		c.Row = []byte("second")
		l.apply(store.Change{Run: "r", Epoch: r.Epoch, Create: []store.NewRun{c}})
		l.same("child", string(l.get("child").Row), "first")
		l.same("claims", l.claims(store.Claim{Root: "r", Max: 9}), []string{"child"})
	}},
	// A background run whose key is owned is that other run; its creator goes on.
	{name: "create with a taken key", run: func(l *law) {
		o, c, d := run("owner"), run("c"), run("d")
		o.Key, c.Key, d.Key = "k", "k", "free"
		l.create(o, run("r"))
		l.apply(store.Change{Run: "r", Epoch: l.claim("r").Epoch, Row: []byte("x"), Create: []store.NewRun{c, d}})
		l.gone("c")
		l.same("created", l.get("d").Key, "free")
		l.same("row", string(l.get("r").Row), "x")
	}},
	// A run may bind its key in the middle of its work; who comes second learns the owner, and nothing of it is written.
	{name: "bind a key", run: func(l *law) {
		l.create(runs("a", "b")...)
		a, b := l.claim("a"), l.claim("b")
		l.apply(store.Change{Run: "a", Epoch: a.Epoch, Key: "k", Row: []byte("x")})
		l.same("key", l.get("a").Key, "k")
		l.taken(l.s.Apply(l.ctx, store.Change{Run: "b", Epoch: b.Epoch, Key: "k", Row: []byte("x"), Add: step("x")}), "a")
		l.same("b", l.get("b"), b)
		l.same("steps", len(l.read("b", store.Query{Stream: store.Step})), 0)
		l.apply(store.Change{Run: "a", Epoch: a.Epoch, Key: "k", Row: []byte("y")}) // its own key again
		n := run("n")
		n.Key = "k"
		l.taken(l.s.Create(l.ctx, n), "a")
	}},
	// A key stays with its run when the run ends: it is the cached result.
	{name: "key of an ended run", run: func(l *law) {
		r, n := run("r"), run("n")
		r.Key, n.Key = "k", "k"
		l.create(r)
		l.apply(end(l.claim("r")))
		l.taken(l.s.Create(l.ctx, n), "r")
	}},
	// A new attempt begins with new counters; nil keeps the old ones, so that a crash does not reset a budget (case 10).
	{name: "counters", run: func(l *law) {
		r := run("r")
		r.Caps = []store.Counter{{Meter: "llm", Used: 1, Cap: 5}}
		l.create(r)
		e := l.claim("r").Epoch
		l.apply(store.Change{Run: "r", Epoch: e, Row: []byte("x")})
		l.same("kept", l.get("r").Counters, []store.Counter{{Meter: "llm", Used: 1, Cap: 5}})
		l.apply(store.Change{Run: "r", Epoch: e, Counters: []store.Counter{{Meter: "usd", Cap: 3}, {Meter: "a", Used: 2, Cap: -1}}})
		l.same("replaced", l.get("r").Counters, []store.Counter{{Meter: "a", Used: 2, Cap: -1}, {Meter: "usd", Cap: 3}})
		l.apply(store.Change{Run: "r", Epoch: e, Counters: []store.Counter{}})
		l.same("none", len(l.get("r").Counters), 0)
	}},
	// All or none over several runs: merging one run into another moves both, or neither.
	{name: "several runs", run: func(l *law) {
		l.create(runs("a", "b")...)
		a, b := l.claim("a"), l.claim("b")
		ch := run("child")
		change := func(r store.Run, epoch int64) store.Change {
			return store.Change{
				Run: r.ID, Epoch: epoch, Status: "moved", Row: []byte("moved"), Add: step("moved"), Key: "key of " + r.ID,
				Ask: []store.Ask{{ID: "q" + r.ID}}, Create: []store.NewRun{ch}, Letters: []store.Letter{letter("b", "x")},
				Counters: []store.Counter{{Meter: "m", Cap: 1}},
			}
		}
		l.is(l.s.Apply(l.ctx, change(a, a.Epoch), change(b, 9)), store.ErrStale)
		l.same("a", l.get("a"), a)
		l.same("b", l.get("b"), b)
		l.gone("child")
		l.same("questions", len(l.questions(store.Filter{})), 0)
		for _, s := range []store.Stream{store.Step, store.Inbox} {
			l.same(string(s), len(l.read("a", store.Query{Stream: s}))+len(l.read("b", store.Query{Stream: s})), 0)
		}
		n := run("n")
		n.Key = "key of a"
		l.create(n) // the key was not left behind
		c := change(a, a.Epoch)
		c.Key = ""
		l.apply(c, change(b, b.Epoch))
		l.same("moved", []string{l.get("a").Status, l.get("b").Status}, []string{"moved", "moved"})
		l.same("steps", l.read("a", store.Query{Stream: store.Step})[0].Seq, int64(1))
	}},
	// A later change in one call sees what an earlier one did to the same run.
	{name: "two changes to one run", run: func(l *law) {
		l.create(run("r"))
		e := l.claim("r").Epoch
		l.apply(store.Change{Run: "r", Epoch: e, Row: []byte("1"), Add: step("1")}, store.Change{Run: "r", Epoch: e, Row: []byte("2"), Add: step("2")})
		l.same("row", string(l.get("r").Row), "2")
		l.same("steps", texts(l.read("r", store.Query{Stream: store.Step})), []string{"1", "2"})
		l.is(l.s.Apply(l.ctx,
			store.Change{Run: "r", Epoch: e, Row: []byte("3"), Add: step("3"), Release: true},
			store.Change{Run: "r", Epoch: e, Row: []byte("4")}), store.ErrStale)
		l.same("row", string(l.get("r").Row), "2")
		l.apply(store.Change{Run: "r", Epoch: e, Release: true}, store.Change{Run: "r", Epoch: e, Takeover: true, Row: []byte("5")})
		l.same("epoch", l.get("r").Epoch, e+1)
		l.apply()
	}},
	// Rows of all streams in one change are numbered each in its own stream.
	{name: "streams", run: func(l *law) {
		l.create(run("r"))
		e := l.claim("r").Epoch
		streams := []store.Stream{store.Step, store.Event, store.Call, store.Inbox, store.Blob, store.Audit}
		for i := range 3 {
			var rows []store.Row
			for _, s := range streams {
				rows = append(rows, store.Row{Stream: s, Key: string(rune('a' + i)), Data: []byte{byte(i)}})
			}
			l.apply(store.Change{Run: "r", Epoch: e, Add: append(rows, rows[0])})
		}
		for i, s := range streams {
			rows := l.read("r", store.Query{Stream: s})
			l.same(string(s), len(rows), map[bool]int{true: 6, false: 3}[i == 0])
			for j, row := range rows {
				l.same("seq", row.Seq, int64(j+1))
				l.same("stream", row.Stream, s)
			}
		}
	}},
}

var letterCases = []kase{
	// A letter wakes the run at once, whatever it was waiting for, and is numbered.
	{name: "wakes", run: func(l *law) {
		a, b := run("a"), run("b")
		a.After, b.After = -1, time.Hour
		l.create(a, b, run("sender"))
		l.apply(store.Change{Run: "sender", Epoch: l.claim("sender").Epoch, Letters: []store.Letter{letter("a", "1"), letter("b", "2"), letter("a", "3")}})
		l.same("inbox", []int64{l.get("a").Inbox, l.get("b").Inbox}, []int64{2, 1})
		l.same("letters", texts(l.read("a", store.Query{Stream: store.Inbox})), []string{"1", "3"})
		l.same("claims", len(l.claims(store.Claim{Max: 9})), 2)
	}},
	// An Inbox row in the change of someone who does not hold the run is a letter too.
	{name: "own inbox", run: func(l *law) {
		a := run("a")
		a.After = -1
		l.create(a)
		l.apply(store.Change{Run: "a", Add: []store.Row{{Stream: store.Audit, Data: []byte("x")}}})
		l.same("not due", l.claims(store.Claim{Max: 9}), []string{})
		l.apply(store.Change{Run: "a", Add: []store.Row{{Stream: store.Inbox, Data: []byte("x")}}})
		l.same("due", l.claims(store.Claim{Max: 9}), []string{"a"})
	}},
	// It needs no lease, and does not break the one there is.
	{name: "to a held run", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		l.apply(store.Change{Run: "r", Letters: []store.Letter{letter("r", "x")}})
		l.same("claims", l.claims(store.Claim{Max: 9}), []string{})
		g := l.get("r")
		l.same("lease", []any{g.Epoch, g.Until, g.Inbox}, []any{r.Epoch, r.Until, int64(1)})
	}},
	// Who has ended or is gone is left alone: a child's last word to a cancelled parent is no fault.
	{name: "to nobody", run: func(l *law) {
		l.create(runs("ended", "r")...)
		l.apply(end(l.claim("ended")))
		l.apply(store.Change{Run: "r", Add: step("s"), Letters: []store.Letter{letter("ended", "x"), letter("gone", "x")}})
		l.same("inbox", len(l.read("ended", store.Query{Stream: store.Inbox})), 0)
		l.same("steps", len(l.read("r", store.Query{Stream: store.Step})), 1)
	}},
	// With Live the sender wants to know: an answer to a run that has just ended must not be acknowledged.
	{name: "live", run: func(l *law) {
		l.create(runs("ended", "r", "live")...)
		l.apply(end(l.claim("ended")))
		for _, to := range []string{"ended", "gone"} {
			x, y := letter("live", "x"), letter(to, "x")
			y.Live = true
			l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Add: step("s"), Letters: []store.Letter{x, y}}), store.ErrStale)
		}
		l.same("steps", len(l.read("r", store.Query{Stream: store.Step})), 0)
		l.same("inbox", []any{l.get("live").Inbox, len(l.read("live", store.Query{Stream: store.Inbox}))}, []any{int64(0), 0})
		x := letter("live", "x")
		x.Live = true
		l.apply(store.Change{Run: "r", Letters: []store.Letter{x}})
		l.same("inbox", l.get("live").Inbox, int64(1))
	}},
}

var questionCases = []kase{
	// A question carries its run's names, so that it can be listed and seen by the right people only.
	{name: "ask", run: func(l *law) {
		r := run("r")
		r.Parent, r.Root = "p", "o"
		l.create(r)
		c := store.Change{Run: "r", Epoch: l.claim("r").Epoch, Ask: []store.Ask{{ID: "q1", Row: []byte("?")}, {ID: "q2", After: time.Hour}}}
		l.apply(c)
		qs := l.questions(store.Filter{})
		l.same("count", len(qs), 2)
		q1, q2 := qs[1], qs[0]
		l.same("due", q2.Due.Sub(q2.Asked), time.Hour)
		if q1.Asked.IsZero() {
			l.Fatal("no time")
		}
		q1.Asked = time.Time{}
		l.same("question", q1, store.Question{ID: "q1", Run: "r", Tenant: "t", User: "u", Workflow: "w", Root: "o", Row: []byte("?")})
		c.Ask[0].Row = []byte("changed")
		l.apply(c) // asked again by a repeated commit: stays as it is
		l.same("unchanged", string(l.questions(store.Filter{Question: "q1"})[0].Row), "?")
	}},
	// Exactly one answer wins; the second one learns that it came too late (case 12).
	{name: "answer", run: func(l *law) {
		l.create(run("r"))
		l.apply(store.Change{Run: "r", Epoch: l.claim("r").Epoch, Ask: []store.Ask{{ID: "q"}}})
		answer := func(text string) error {
			return l.s.Apply(l.ctx, store.Change{Run: "r", Answer: []store.Answer{{ID: "q", Row: []byte(text)}}, Letters: []store.Letter{letter("r", text)}})
		}
		l.ok(answer("yes"))
		l.is(answer("no"), store.ErrStale)
		q := l.questions(store.Filter{})[0]
		l.same("question", []any{q.Closed, string(q.Row)}, []any{true, "yes"})
		l.same("letters", texts(l.read("r", store.Query{Stream: store.Inbox})), []string{"yes"})
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Answer: []store.Answer{{ID: "none"}}}), store.ErrStale)
	}},
	// Who was told that time is up must stay right: an answer that comes later is refused, by the clock that said so.
	{name: "answer after its time", run: func(l *law) {
		l.create(run("r"))
		l.apply(store.Change{Run: "r", Epoch: l.claim("r").Epoch, Ask: []store.Ask{{ID: "q", After: 20 * time.Millisecond}, {ID: "p", After: time.Hour}}})
		l.o.Sleep(40 * time.Millisecond)
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Answer: []store.Answer{{ID: "q"}}}), store.ErrStale)
		l.ok(l.s.Apply(l.ctx, store.Change{Run: "r", Answer: []store.Answer{{ID: "p"}}}))
	}},
	// A refused change closes no question: the person can answer again (case 13).
	{name: "answer of a refused change", run: func(l *law) {
		l.create(run("r"))
		l.apply(store.Change{Run: "r", Epoch: l.claim("r").Epoch, Ask: []store.Ask{{ID: "q", Row: []byte("?")}}})
		x := letter("gone", "x")
		x.Live = true
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Answer: []store.Answer{{ID: "q", Row: []byte("yes")}}, Letters: []store.Letter{x}}), store.ErrStale)
		q := l.questions(store.Filter{Open: true})
		l.same("open", len(q), 1)
		l.same("row", string(q[0].Row), "?")
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Answer: []store.Answer{{ID: "q"}, {ID: "q"}}}), store.ErrStale)
		l.same("open", len(l.questions(store.Filter{Open: true})), 1)
	}},
	// A dropped question is closed as it is; dropping one that is closed or gone is nothing.
	{name: "drop", run: func(l *law) {
		l.create(run("r"))
		e := l.claim("r").Epoch
		l.apply(store.Change{Run: "r", Epoch: e, Ask: []store.Ask{{ID: "q", Row: []byte("?")}, {ID: "a", Row: []byte("?")}}})
		l.apply(store.Change{Run: "r", Answer: []store.Answer{{ID: "a", Row: []byte("yes")}}})
		l.apply(store.Change{Run: "r", Epoch: e, Drop: []string{"q", "a", "none"}})
		l.same("open", len(l.questions(store.Filter{Open: true})), 0)
		l.same("row", string(l.questions(store.Filter{Question: "q"})[0].Row), "?")
		l.same("answered", string(l.questions(store.Filter{Question: "a"})[0].Row), "yes")
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Answer: []store.Answer{{ID: "q"}}}), store.ErrStale)
	}},
	// All open questions are listed, not only the last (case 13), by each of the filters and page by page, newest first.
	{name: "list", run: func(l *law) {
		a, b := run("a"), run("b")
		b.Parent, b.Root, b.Workflow = "a", "a", "x"
		l.create(a, b)
		l.apply(store.Change{Run: "a", Epoch: l.claim("a").Epoch, Ask: []store.Ask{{ID: "q1"}, {ID: "q3"}}})
		l.apply(store.Change{Run: "b", Epoch: l.claim("b").Epoch, Ask: []store.Ask{{ID: "q2"}, {ID: "q4"}}})
		l.apply(store.Change{Run: "a", Answer: []store.Answer{{ID: "q3"}}})
		list := func(f store.Filter, p store.Page) []string {
			qs, err := l.s.Questions(l.ctx, all, f, p)
			l.ok(err)
			out := []string{}
			for _, q := range qs {
				out = append(out, q.ID)
			}
			return out
		}
		l.same("all", list(store.Filter{}, store.Page{}), []string{"q4", "q3", "q2", "q1"})
		l.same("open", list(store.Filter{Open: true}, store.Page{}), []string{"q4", "q2", "q1"})
		l.same("run", list(store.Filter{Run: "a"}, store.Page{}), []string{"q3", "q1"})
		l.same("root", list(store.Filter{Root: "a", Open: true}, store.Page{}), []string{"q4", "q2", "q1"})
		l.same("workflow", list(store.Filter{Workflow: "x"}, store.Page{}), []string{"q4", "q2"})
		l.same("one", list(store.Filter{Question: "q2"}, store.Page{}), []string{"q2"})
		l.same("page", list(store.Filter{}, store.Page{After: "q4", Limit: 2}), []string{"q3", "q2"})
		l.same("last page", list(store.Filter{}, store.Page{After: "q2", Limit: 2}), []string{"q1"})
	}},
}
