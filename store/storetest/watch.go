package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pawl/store"
)

var watchCases = []kase{
	// Whoever waits for a run is woken by each kind of change; a missed one would cost a poll interval, or for ever.
	{name: "sees", run: func(l *law) {
		w := l.watch(l.s)
		l.create(runs("a", "b")...)
		w.wait("a")
		w.wait("b")
		r := l.claim("a")
		l.apply(store.Change{Run: "a", Epoch: r.Epoch, Row: []byte("x")})
		w.wait("a")
		l.append(r, store.Batch{Rows: []store.Row{{Stream: store.Event}}})
		w.wait("a")
		l.apply(store.Change{Run: "a", Letters: []store.Letter{letter("b", "x")}, Create: runs("c")})
		w.wait("b")
		l.apply(store.Change{Run: "a", Add: step("x")})
		w.wait("a")
		l.apply(store.Change{Run: "c", Takeover: true, End: true, Row: []byte("x")})
		w.wait("c")
	}},
	// What happens between the call of Watch and the loop is not missed: one can watch first, then read.
	{name: "from the call", run: func(l *law) {
		seq := l.s.Watch(l.ctx)
		l.create(run("r"))
		for id, err := range seq {
			l.ok(err)
			l.same("id", id == "r" || id == "", true)
			break
		}
	}},
	// A slow reader is told in short: many changes come as few, and the last one is never lost.
	{name: "coalesced", run: func(l *law) {
		ctx, cancel := context.WithCancel(l.ctx)
		defer cancel()
		l.create(run("r"), run("last"))
		r := l.claim("r")
		n := 0
		seq := l.s.Watch(ctx)
		l.apply(store.Change{Run: "r", Add: step("x")})
		for id, err := range seq {
			l.ok(err)
			if n++; n == 1 {
				for range 100 {
					l.append(r, store.Batch{Rows: []store.Row{{Stream: store.Event}}})
				}
				l.apply(store.Change{Run: "last", Add: step("x")})
			} else if id == "last" || id == "" {
				break
			}
			if n > 20 {
				l.Fatalf("%d words for 100 changes of one run", n)
			}
		}
	}},
	// Watch ends with its context, without an error: that is how a reader leaves.
	{name: "ends", run: func(l *law) {
		ctx, cancel := context.WithCancel(l.ctx)
		done := make(chan error, 1)
		go func() {
			for _, err := range l.s.Watch(ctx) {
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		cancel()
		l.ok(<-done)
	}},
	// A closed store says so, rather than leave its readers waiting.
	{name: "closed", run: func(l *law) {
		seq := l.s.Watch(l.ctx)
		l.ok(l.s.Close())
		for id, err := range seq {
			if err != nil {
				l.is(err, store.ErrUnavailable)
				return
			}
			l.same("id", id, "")
		}
		l.Fatal("no error")
	}},
}

// watcher collects what Watch yields.
type watcher struct {
	l   *law
	ids chan string
}

func (l *law) watch(s store.Store) *watcher {
	ctx, cancel := context.WithCancel(l.ctx)
	w := &watcher{l: l, ids: make(chan string, 1000)}
	seq := s.Watch(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for id, err := range seq {
			if err != nil {
				return
			}
			w.ids <- id
		}
	}()
	l.Cleanup(func() { cancel(); <-done })
	return w
}

// wait waits until the run was named, or any run was.
func (w *watcher) wait(id string) {
	w.l.Helper()
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	for {
		select {
		case got := <-w.ids:
			if got == id || got == "" {
				return
			}
		case <-late.C:
			w.l.Fatalf("no word of %s", id)
		}
	}
}

var lifeCases = []kase{
	// Calls after Close are refused as unavailable, each of them, and closing twice is no fault.
	{name: "closed", run: func(l *law) {
		l.create(run("r"))
		l.ok(l.s.Close())
		l.ok(l.s.Close())
		for name, err := range l.every(l.ctx) {
			if !errors.Is(err, store.ErrUnavailable) {
				l.Errorf("%s: %v", name, err)
			}
		}
	}},
	// A cancelled caller gets a clear answer: nothing was written, and why.
	{name: "cancelled", run: func(l *law) {
		l.create(run("r"))
		ctx, cancel := context.WithCancel(l.ctx)
		cancel()
		for name, err := range l.every(ctx) {
			if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.Canceled) {
				l.Errorf("%s: %v", name, err)
			}
		}
		l.gone("new")
		l.same("epoch", l.get("r").Epoch, int64(0))
	}},
	// Acknowledged is durable: everything is there after closing and opening again.
	{name: "reopen", needs: func(o Options) bool { return o.Reopen != nil }, run: func(l *law) {
		n := run("r")
		n.Key, n.Caps = "k", []store.Counter{{Meter: "m", Used: 1, Cap: 5}}
		l.create(n, run("due"))
		r := l.claim("r")
		l.append(r, store.Batch{Rows: []store.Row{{Stream: store.Blob, Key: "b", Data: []byte("x")}}, Charges: []store.Charge{{Run: "r", Meter: "m", N: 2}}})
		l.apply(store.Change{Run: "r", Epoch: r.Epoch, Status: "s", Row: []byte("row"), Add: step("1"), Ask: []store.Ask{{ID: "q"}}})
		was := l.get("r")
		l.s = l.o.Reopen(l.T, l.s)
		l.Cleanup(func() { _ = l.s.Close() })
		l.same("run", l.get("r"), was)
		l.same("steps", texts(l.read("r", store.Query{Stream: store.Step})), []string{"1"})
		l.same("questions", len(l.questions(store.Filter{})), 1)
		l.same("claims", l.claims(store.Claim{Max: 9}), []string{"due"}) // the lease still stands
		l.apply(store.Change{Run: "r", Epoch: r.Epoch, Row: []byte("row"), Add: step("2")})
		l.same("seq", l.append(r, store.Batch{Rows: append(step("3"), store.Row{Stream: store.Blob, Key: "b"})}).Seqs, []int64{3, 1})
		n.ID = "n"
		l.taken(l.s.Create(l.ctx, n), "r")
	}},
	// Closing cuts no write in half and leaves no caller without an answer: what was acknowledged is there, what was refused is not.
	{name: "closed while writing", needs: func(o Options) bool { return o.Reopen != nil }, run: func(l *law) {
		l.create(run("r"))
		lease, s := store.Lease{Run: "r", Epoch: l.claim("r").Epoch}, l.s
		var written atomic.Int64
		var writers sync.WaitGroup
		for range 20 {
			writers.Go(func() {
				for {
					if _, err := s.Append(l.ctx, lease, store.Batch{Rows: step("x")}); errors.Is(err, store.ErrUnavailable) {
						return
					} else if err != nil {
						l.Error(err)
						return
					}
					written.Add(1)
				}
			})
		}
		l.soon("writes", func() bool { return written.Load() > 50 || l.Failed() })
		l.s = l.o.Reopen(l.T, s)
		l.Cleanup(func() { _ = l.s.Close() })
		writers.Wait()
		l.same("rows", int64(len(l.read("r", store.Query{Stream: store.Step}))), written.Load())
	}},
	// Check finds nothing wrong with a healthy store, and has something to say.
	{name: "check", run: func(l *law) {
		fs, err := l.s.Check(l.ctx)
		l.ok(err)
		for _, f := range fs {
			if f.Fault != "" {
				l.Errorf("%s: %s", f.Name, f.Fault)
			}
		}
		l.same("findings", len(fs) > 0, true)
	}},
}

// every calls each method and answers its error.
func (l *law) every(ctx context.Context) map[string]error {
	s, out := l.s, map[string]error{}
	out["Create"] = s.Create(ctx, run("new"))
	_, _, out["Claim"] = s.Claim(ctx, store.Claim{Worker: "w", Max: 1, Hold: long})
	_, out["Renew"] = s.Renew(ctx, "w", nil, long)
	out["Apply"] = s.Apply(ctx, store.Change{Run: "r", Add: step("x")})
	_, out["Append"] = s.Append(ctx, store.Lease{Run: "r"}, store.Batch{})
	_, out["Take"] = s.Take(ctx, store.Slot{Limit: "l", Holder: "h"})
	out["Give"] = s.Give(ctx, "l", "h")
	_, out["Expire"] = s.Expire(ctx, 1)
	out["Delete"] = s.Delete(ctx, "r", nil)
	_, out["Get"] = s.Get(ctx, all, "r")
	_, out["List"] = s.List(ctx, all, store.Filter{}, store.Page{})
	_, out["Read"] = s.Read(ctx, all, "r", store.Query{Stream: store.Step})
	_, out["Questions"] = s.Questions(ctx, all, store.Filter{}, store.Page{})
	_, out["Workers"] = s.Workers(ctx)
	_, out["Now"] = s.Now(ctx)
	_, out["Check"] = s.Check(ctx)
	return out
}

var handleCases = []kase{
	// Leases and fences hold between processes, and a change of one wakes the other.
	{name: "two handles", needs: func(o Options) bool { return o.Second != nil }, run: func(l *law) {
		other := &law{T: l.T, s: l.o.Second(l.T, l.s), o: l.o, ctx: l.ctx}
		w := other.watch(other.s)
		l.create(runs("a", "b")...)
		w.wait("a")
		r := l.claim("a")
		other.same("claims", other.claims(store.Claim{Max: 9}), []string{"b"})
		for i := range 3 { // each writes between the other's writes, so that neither works on what it remembers
			l.apply(store.Change{Run: "a", Epoch: r.Epoch, Row: []byte("x"), Add: step(fmt.Sprint("l", i))})
			other.same("seq", other.append(r, store.Batch{Rows: step(fmt.Sprint("o", i))}).Seqs, []int64{int64(2*i + 2)})
		}
		w.wait("a")
		l.apply(store.Change{Run: "a", Epoch: r.Epoch, Row: []byte("x"), Release: true})
		r2 := other.claim("a")
		l.is(l.s.Apply(l.ctx, store.Change{Run: "a", Epoch: r.Epoch, Row: []byte("late")}), store.ErrStale)
		other.apply(end(r2))
		l.same("ended", l.get("a").Ended, true)
		l.same("steps", len(l.read("a", store.Query{Stream: store.Step})), 6)
	}},
	// Neither handle loses or repeats a number, nor claims a run twice, when both write at once.
	{name: "both at once", needs: func(o Options) bool { return o.Second != nil }, run: func(l *law) {
		race(l, []store.Store{l.s, l.o.Second(l.T, l.s)})
	}},
	// A change of another process comes within a quarter of a second; the case grants a busy machine more.
	{name: "watch", needs: func(o Options) bool { return o.Second != nil }, run: func(l *law) {
		other := l.o.Second(l.T, l.s)
		l.create(run("a"))
		w := l.watch(l.s)
		start := time.Now()
		l.ok(other.Apply(l.ctx, store.Change{Run: "a", Letters: []store.Letter{letter("a", "x")}}))
		w.wait("a")
		if d := time.Since(start); d > 2*time.Second {
			l.Fatalf("noticed after %v", d)
		}
	}},
}
