package storetest

import (
	"time"

	"pawl/store"
)

var fenceCases = []kase{
	// The holder writes the row; the names move with it, and Head stays.
	{name: "holder", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		l.apply(store.Change{
			Run: "r", Epoch: r.Epoch, Status: "running", Node: "n", Outcome: "o", Version: "2", Row: []byte("new"), Add: step("s"),
		})
		g := l.get("r")
		l.same("names", []string{g.Status, g.Node, g.Outcome, g.Version}, []string{"running", "n", "o", "2"})
		l.same("bytes", []string{string(g.Head), string(g.Row)}, []string{"head of r", "new"})
		l.same("steps", texts(l.read("r", store.Query{Stream: store.Step})), []string{"s"})
		if g.Updated.Before(r.Updated) || g.Epoch != 1 || g.Worker != "worker" || !g.Until.Equal(r.Until) {
			l.Fatalf("run: %+v", g)
		}
	}},
	// Without a Row the names stay as they are.
	{name: "no row", run: func(l *law) {
		l.create(run("r"))
		l.apply(store.Change{Run: "r", Epoch: l.claim("r").Epoch, Status: "x", Version: "9", Add: step("s")})
		g := l.get("r")
		l.same("unchanged", []string{g.Status, g.Version, string(g.Row)}, []string{"queued", "1", "row of r"})
	}},
	// A moved run is claimed by its new kind.
	{name: "new version", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		l.apply(store.Change{Run: "r", Epoch: r.Epoch, Version: "2", Row: r.Row, Release: true})
		l.same("old kind", l.claims(store.Claim{Kinds: []string{"w@1"}, Max: 1}), []string{})
		l.same("new kind", l.claims(store.Claim{Kinds: []string{"w@2"}, Max: 1}), []string{"r"})
	}},
	// Another epoch writes nothing, lower or higher: a worker that woke up late must not undo its successor's work.
	{name: "other epoch", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		for _, e := range []int64{r.Epoch - 1, r.Epoch + 1} {
			if e == 0 {
				continue
			}
			l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Epoch: e, Row: []byte("x"), Add: step("x")}), store.ErrStale)
		}
		l.same("run", l.get("r"), r)
		l.same("steps", len(l.read("r", store.Query{Stream: store.Step})), 0)
		l.is(l.s.Apply(l.ctx, store.Change{Run: "gone", Epoch: 1, Row: []byte("x")}), store.ErrStale)
	}},
	// A lease that has run out but that nobody took still writes: only a claim fences, not the clock (case 16).
	{name: "late but not replaced", run: func(l *law) {
		l.create(run("r"))
		l.claims(store.Claim{Max: 1, Hold: time.Millisecond})
		l.o.Sleep(5 * time.Millisecond)
		l.apply(store.Change{Run: "r", Epoch: 1, Row: []byte("late")})
		hs, err := l.s.Renew(l.ctx, "worker", []store.Lease{{Run: "r", Epoch: 1}}, long)
		l.ok(err)
		l.same("renewed", hs[0].Lost, false)
		l.same("claims", l.claims(store.Claim{Max: 1}), []string{})
	}},
	// A lease that was given back is lost at once, although nobody has claimed the run yet.
	{name: "given back", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		l.apply(store.Change{Run: "r", Epoch: r.Epoch, Release: true, After: -1})
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Epoch: r.Epoch, Row: []byte("x")}), store.ErrStale)
		_, err := l.s.Append(l.ctx, store.Lease{Run: "r", Epoch: r.Epoch}, store.Batch{Rows: step("x")})
		l.is(err, store.ErrStale)
	}},
	// An end is final for its holder: exactly one terminal state (case 16).
	{name: "after the end", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		l.apply(end(r))
		l.is(l.s.Apply(l.ctx, end(r)), store.ErrStale)
		_, err := l.s.Append(l.ctx, store.Lease{Run: "r", Epoch: r.Epoch}, store.Batch{Rows: step("x")})
		l.is(err, store.ErrStale)
	}},
	// Who does not hold the run may add to its streams, not write its row, whether or not somebody holds it.
	{name: "not the holder", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		l.apply(store.Change{Run: "r", Status: "x", Key: "k", End: true, Add: []store.Row{{Stream: store.Audit, Data: []byte("a")}}})
		l.same("audit", texts(l.read("r", store.Query{Stream: store.Audit})), []string{"a"})
		l.same("run", l.get("r"), r)
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Row: []byte("x")}), store.ErrStale)
		l.is(l.s.Apply(l.ctx, store.Change{Run: "gone", Add: step("x")}), store.ErrNotFound)
	}},
	// A takeover writes the row of a run that nobody holds, and raises the epoch so that a late holder is fenced.
	{name: "takeover", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		l.apply(store.Change{Run: "r", Epoch: 1, Release: true, Row: r.Row, After: -1})
		l.apply(store.Change{Run: "r", Epoch: 1, Takeover: true, Status: "cancelled", Row: []byte("mine"), Add: step("s"), After: -1})
		g := l.get("r")
		l.same("run", []any{g.Epoch, g.Status, string(g.Row), g.Worker, g.Until.IsZero(), g.Due.IsZero()}, []any{int64(2), "cancelled", "mine", "", true, true})
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Epoch: 1, Takeover: true, Row: []byte("x")}), store.ErrStale)
		l.is(l.s.Apply(l.ctx, store.Change{Run: "gone", Takeover: true, Row: []byte("x")}), store.ErrNotFound)
	}},
	// It is for runs that nobody holds: a live lease is not broken.
	{name: "takeover of a held run", run: func(l *law) {
		l.create(run("r"))
		r := l.claim("r")
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Epoch: r.Epoch, Takeover: true, Row: []byte("x")}), store.ErrStale)
		l.same("run", l.get("r"), r)
	}},
	// A lease that has run out is no obstacle, and its holder is fenced from then on.
	{name: "takeover after a lease", run: func(l *law) {
		l.create(run("r"))
		l.claims(store.Claim{Max: 1, Hold: time.Millisecond})
		l.o.Sleep(5 * time.Millisecond)
		l.apply(store.Change{Run: "r", Epoch: 1, Takeover: true, Row: []byte("mine")})
		l.is(l.s.Apply(l.ctx, store.Change{Run: "r", Epoch: 1, Row: []byte("x")}), store.ErrStale)
		l.same("claims", l.claims(store.Claim{Max: 1}), []string{"r"})
		l.same("epoch", l.get("r").Epoch, int64(3))
	}},
	// A run that was never claimed has epoch 0, and can be taken over like any other.
	{name: "takeover of a new run", run: func(l *law) {
		l.create(run("r"))
		l.apply(store.Change{Run: "r", Takeover: true, Row: []byte("x"), After: time.Hour})
		l.same("claims", l.claims(store.Claim{Max: 1}), []string{})
		l.same("epoch", l.get("r").Epoch, int64(1))
	}},
	// A failed run is started again by a takeover: same row, due again, no expiry any more.
	{name: "takeover of an ended run", run: func(l *law) {
		l.create(run("r"))
		e := end(l.claim("r"))
		e.Keep = time.Hour
		l.apply(e)
		l.apply(store.Change{Run: "r", Epoch: 1, Takeover: true, Status: "queued", Row: []byte("again")})
		g := l.get("r")
		l.same("run", []any{g.Ended, g.Expires.IsZero(), g.Epoch}, []any{false, true, int64(2)})
		l.same("claims", l.claims(store.Claim{Max: 1}), []string{"r"})
	}},
	// A takeover may end a run: that is how a parked one is cancelled.
	{name: "takeover that ends", run: func(l *law) {
		l.create(run("r"))
		l.apply(store.Change{Run: "r", Takeover: true, End: true, Keep: time.Hour, Row: []byte("x")})
		g := l.get("r")
		l.same("run", []any{g.Ended, g.Expires.IsZero(), g.Due.IsZero()}, []any{true, false, true})
		l.same("claims", l.claims(store.Claim{Max: 1}), []string{})
	}},
}
