package storetest

import (
	"fmt"
	"math"

	"pawl/store"
)

var appendCases = []kase{
	// Rows are numbered from 1 without a gap, in each stream for itself, and the receipt says how.
	{name: "numbers", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		rec := l.append(r, store.Batch{Rows: []store.Row{{Stream: store.Event, Data: []byte("a")}, {Stream: store.Call, Key: "k", Data: []byte("b")}, {Stream: store.Event, Data: []byte("c")}}})
		l.same("seqs", rec.Seqs, []int64{1, 1, 2})
		l.apply(store.Change{Run: "r", Epoch: r.Epoch, Add: []store.Row{{Stream: store.Event, Data: []byte("d")}}})
		l.same("seqs", l.append(r, store.Batch{Rows: []store.Row{{Stream: store.Event}}}).Seqs, []int64{4})
		l.same("empty", len(l.append(r, store.Batch{}).Seqs), 0)
		l.same("events", texts(l.read("r", store.Query{Stream: store.Event})), []string{"a", "c", "d", ""})
	}},
	// A row that tells of its step is in both streams, under the next number of each, and between other rows of each.
	{name: "told", run: func(l *law) {
		told := func(text string) store.Row { return store.Row{Stream: store.Step, Data: []byte(text), Told: true} }
		event := func(text string) store.Row { return store.Row{Stream: store.Event, Key: "k", Data: []byte(text)} }
		n := run("r")
		n.Add = []store.Row{{Stream: store.Step, Data: []byte("s1")}, event("e1")}
		l.create(n)
		r := l.claim("r")
		var steps, events []string
		steps, events = append(steps, "s1"), append(events, "e1")
		for i := range 100 {
			s, e := fmt.Sprint("told", i), fmt.Sprint("event", i)
			rows := []store.Row{told(s), event(e), {Stream: store.Step, Data: []byte("note")}}
			if i%3 == 0 {
				rows = []store.Row{event(e), told(s)}
				events = append(events, e, s)
				steps = append(steps, s)
			} else {
				events = append(events, s, e)
				steps = append(steps, s, "note")
			}
			l.apply(store.Change{Run: "r", Epoch: r.Epoch, Add: rows})
		}
		l.same("steps", texts(l.read("r", store.Query{Stream: store.Step})), steps)
		l.same("events", texts(l.read("r", store.Query{Stream: store.Event})), events)
		for after := range 20 {
			q := store.Query{After: int64(after * 7), Limit: 5}
			for stream, all := range map[store.Stream][]string{store.Step: steps, store.Event: events} {
				q.Stream = stream
				rows := l.read("r", q)
				l.same("page", texts(rows), all[q.After:q.After+5])
				l.same("stream", rows[0].Stream, stream)
				l.same("number", rows[0].Seq, q.After+1)
			}
		}
		l.same("by key", len(l.read("r", store.Query{Stream: store.Event, Key: "k"})), 101)
		l.same("receipt", l.append(r, store.Batch{Rows: []store.Row{told("x"), event("y")}}).Seqs, []int64{int64(len(steps)) + 1, int64(len(events)) + 2})
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Epoch: r.Epoch + 1, Add: []store.Row{told("stale")}}), store.ErrStale)
		l.same("nothing more", len(l.read("r", store.Query{Stream: store.Event})), len(events)+2)
	}},
	// Only a step is told, and a stream that there is not takes nothing, by whichever way a row comes: watchers would be shown
	// what is none of theirs. All that came with such a row is refused with it.
	{name: "rows that go nowhere", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		for _, odd := range []store.Row{{Stream: store.Call, Told: true}, {Stream: store.Event, Told: true}, {Stream: "none"}} {
			rows := append(step("good"), odd)
			n := run("n")
			n.Add = rows
			l.is(l.s.Create(l.ctx, n), store.ErrNotFound)
			l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Epoch: r.Epoch, Add: rows}), store.ErrNotFound)
			l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Create: []store.NewRun{n}}), store.ErrNotFound)
			l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Letters: []store.Letter{{Run: "r", Add: rows}}}), store.ErrNotFound)
			rec, err := l.s.Append(l.ctx, store.Lease{Run: "r", Epoch: r.Epoch}, store.Batch{Rows: rows})
			l.is(err, store.ErrNotFound)
			l.same("receipt", len(rec.Seqs), 0)
		}
		l.gone("n")
		for _, stream := range []store.Stream{store.Step, store.Event, store.Call} {
			l.same(string(stream), len(l.read("r", store.Query{Stream: stream})), 0)
		}
	}},
	// Fenced like everything else of the holder.
	{name: "fence", run: func(l *law) {
		l.create(run("r"))
		l.claim("r")
		for _, lease := range []store.Lease{{Run: "r", Epoch: 2}, {Run: "r", Epoch: 0}, {Run: "gone", Epoch: 1}} {
			_, err := l.s.Append(l.ctx, lease, store.Batch{Rows: step("x")})
			l.is(err, store.ErrStale)
		}
		l.same("steps", len(l.read("r", store.Query{Stream: store.Step})), 0)
	}},
	// A blob that the run has is not written again: a re-run of a node costs no space.
	{name: "blobs", run: func(l *law) {
		l.create(run("r"), run("s"))
		r, s := l.claim("r"), l.claim("s")
		blob := func(k, v string) store.Row { return store.Row{Stream: store.Blob, Key: k, Data: []byte(v)} }
		l.same("first", l.append(r, store.Batch{Rows: []store.Row{blob("a", "1"), blob("b", "2"), blob("a", "x")}}).Seqs, []int64{1, 2, 1})
		l.same("again", l.append(r, store.Batch{Rows: []store.Row{blob("b", "x"), blob("c", "3")}}).Seqs, []int64{2, 3})
		l.apply(store.Change{Run: "r", Epoch: r.Epoch, Add: []store.Row{blob("c", "x"), blob("d", "4")}})
		l.same("another run", l.append(s, store.Batch{Rows: []store.Row{blob("b", "own")}}).Seqs, []int64{1})
		l.same("stored", texts(l.read("r", store.Query{Stream: store.Blob})), []string{"1", "2", "3", "4"})
		l.same("by key", texts(l.read("r", store.Query{Stream: store.Blob, Key: "b"})), []string{"2"})
		l.same("not there", len(l.read("r", store.Query{Stream: store.Blob, Key: "z"})), 0)
	}},
	// A charge is refused before it passes the cap, with the numbers, and then nothing of the batch is written.
	{name: "cap", run: func(l *law) {
		n := run("r")
		n.Caps = []store.Counter{{Meter: "llm", Used: 1, Cap: 3}}
		l.create(n)
		r := l.claim("r")
		charge := func(k int64) store.Batch {
			return store.Batch{Rows: step("s"), Charges: []store.Charge{{Run: "r", Meter: "llm", N: k}}, Caps: []store.Counter{{Meter: "new", Cap: 1}}}
		}
		rec := l.append(r, charge(3))
		if rec.Refused == nil {
			l.Fatal("not refused")
		}
		l.same("refusal", *rec.Refused, store.Refusal{Run: "r", Counter: store.Counter{Meter: "llm", Used: 1, Cap: 3}})
		l.same("counters", l.get("r").Counters, n.Caps)
		l.same("steps", len(l.read("r", store.Query{Stream: store.Step})), 0)
		if rec := l.append(r, charge(2)); rec.Refused != nil { // exactly the cap is allowed
			l.Fatalf("refused: %+v", rec.Refused)
		}
		l.same("counters", l.get("r").Counters, []store.Counter{{Meter: "llm", Used: 3, Cap: 3}, {Meter: "new", Cap: 1}})
	}},
	// A child spends its ancestors' budget too: all of them, or none.
	{name: "ancestors", run: func(l *law) {
		p, c := run("p"), run("c")
		p.Caps, c.Caps, c.Parent = []store.Counter{{Meter: "llm", Cap: 2}}, []store.Counter{{Meter: "llm", Cap: 5}}, "p"
		l.create(p, c)
		r := l.claim("c")
		batch := store.Batch{Charges: []store.Charge{{Run: "c", Meter: "llm", N: 2}, {Run: "p", Meter: "llm", N: 2}}}
		l.append(r, batch)
		rec := l.append(r, batch)
		if rec.Refused == nil || rec.Refused.Run != "p" || rec.Refused.Used != 2 || rec.Refused.Cap != 2 {
			l.Fatalf("refusal: %+v", rec.Refused)
		}
		l.same("child", l.get("c").Counters, []store.Counter{{Meter: "llm", Used: 2, Cap: 5}})
		_, err := l.s.Append(l.ctx, store.Lease{Run: "c", Epoch: r.Epoch}, store.Batch{Charges: []store.Charge{{Run: "c", Meter: "llm", N: 1}, {Run: "gone", Meter: "llm", N: 1}}})
		l.is(err, store.ErrNotFound)
		l.same("child", l.get("c").Counters, []store.Counter{{Meter: "llm", Used: 2, Cap: 5}})
	}},
	// Two charges of one batch add up.
	{name: "twice in a batch", run: func(l *law) {
		n := run("r")
		n.Caps = []store.Counter{{Meter: "m", Cap: 3}}
		l.create(n)
		r := l.claim("r")
		twice := func(k int64) *store.Refusal {
			return l.append(r, store.Batch{Charges: []store.Charge{{Run: "r", Meter: "m", N: k}, {Run: "r", Meter: "m", N: k}}}).Refused
		}
		if twice(2) == nil || twice(1) != nil {
			l.Fatal("2+2 is over 3 and 1+1 is not")
		}
		l.same("used", l.get("r").Counters[0].Used, int64(2))
	}},
	// Giving back is never refused, also over a cap that was lowered meanwhile.
	{name: "give back", run: func(l *law) {
		n := run("r")
		n.Caps = []store.Counter{{Meter: "usd", Used: 8, Cap: 9}}
		l.create(n)
		r := l.claim("r")
		l.append(r, store.Batch{Caps: []store.Counter{{Meter: "usd", Cap: 5}}})
		if rec := l.append(r, store.Batch{Charges: []store.Charge{{Run: "r", Meter: "usd", N: -2}}}); rec.Refused != nil {
			l.Fatalf("refused: %+v", rec.Refused)
		}
		l.same("counters", l.get("r").Counters, []store.Counter{{Meter: "usd", Used: 6, Cap: 5}})
	}},
	// Caps are only ever lowered; below zero is none, and lowers nothing. A meter that is new begins here.
	{name: "caps", run: func(l *law) {
		n := run("r")
		n.Caps = []store.Counter{{Meter: "a", Cap: 3}, {Meter: "b", Cap: -1}}
		l.create(n)
		r := l.claim("r")
		lower := func(m string, limit int64) {
			l.append(r, store.Batch{Caps: []store.Counter{{Meter: m, Used: 99, Cap: limit}}})
		}
		lower("a", 5)
		lower("a", 2)
		lower("a", -1)
		lower("b", 0)
		lower("c", 7)
		l.same("counters", l.get("r").Counters, []store.Counter{{Meter: "a", Cap: 2}, {Meter: "b", Cap: 0}, {Meter: "c", Cap: 7}})
	}},
	// A meter without a cap is counted all the same, and no sum runs over into "plenty left".
	{name: "no cap", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		charge := func(n int64) *store.Refusal {
			return l.append(r, store.Batch{Charges: []store.Charge{{Run: "r", Meter: "m", N: n}}}).Refused
		}
		if charge(5) != nil || charge(math.MaxInt64) == nil {
			l.Fatal("5 is allowed, running over is not")
		}
		l.same("counters", l.get("r").Counters, []store.Counter{{Meter: "m", Used: 5, Cap: -1}})
	}},
}
