package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pawl/store"
)

var raceCases = []kase{
	// Many claim the same runs: each epoch goes to one, and every number to one row.
	{name: "claims and appends", run: func(l *law) { race(l, []store.Store{l.s}) }},
	// Twenty answers to one question: exactly one wins (case 12).
	{name: "answers", run: func(l *law) {
		l.create(run("r"))
		l.apply(store.Change{Run: "r", Epoch: l.claim("r").Epoch, Ask: []store.Ask{{ID: "q"}}})
		var won, late atomic.Int32
		l.together(20, func(i int) error {
			err := l.s.Apply(l.ctx, store.Change{Run: "r", Answer: []store.Answer{{ID: "q", Row: fmt.Append(nil, i)}}, Letters: []store.Letter{letter("r", fmt.Sprint(i))}})
			if errors.Is(err, store.ErrStale) {
				late.Add(1)
				return nil
			}
			won.Add(1)
			return err
		})
		l.same("won, late", []int32{won.Load(), late.Load()}, []int32{1, 19})
		l.same("letters", texts(l.read("r", store.Query{Stream: store.Inbox})), []string{string(l.questions(store.Filter{})[0].Row)})
	}},
	// Twenty starts with one key: one run (case 22), and all the others learn which.
	{name: "one key", run: func(l *law) {
		var made atomic.Value
		var owners sync.Map
		l.together(20, func(i int) error {
			n := run(fmt.Sprintf("r%02d", i))
			n.Key = "k"
			err := l.s.Create(l.ctx, n)
			var k *store.Taken
			if errors.As(err, &k) {
				owners.Store(k.Owner, true)
				return nil
			}
			if err == nil && made.Swap(n.ID) != nil {
				return errors.New("two runs own the key")
			}
			return err
		})
		owners.Range(func(k, _ any) bool {
			l.same("owner", k, made.Load())
			return true
		})
	}},
	// Takeovers race with a claim: one of them has the run.
	{name: "takeovers", run: func(l *law) {
		l.create(run("r"))
		var won atomic.Int32
		l.together(10, func(i int) error {
			if i%2 == 0 {
				rs, _, err := l.s.Claim(l.ctx, store.Claim{Worker: "w", Run: "r", Max: 1, Hold: long})
				won.Add(int32(len(rs)))
				return err
			}
			err := l.s.Apply(l.ctx, store.Change{Run: "r", Takeover: true, Row: []byte("x"), After: -1})
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, store.ErrStale) {
				return err
			}
			return nil
		})
		l.same("won", won.Load(), int32(1))
	}},
	// Parallel charges never pass the cap, whatever their order.
	{name: "charges", run: func(l *law) {
		n := run("r")
		n.Caps = []store.Counter{{Meter: "llm", Cap: 12}}
		l.create(n)
		r := l.claim("r")
		var paid atomic.Int32
		l.together(20, func(int) error {
			rec, err := l.s.Append(l.ctx, store.Lease{Run: "r", Epoch: r.Epoch}, store.Batch{Rows: step("x"), Charges: []store.Charge{{Run: "r", Meter: "llm", N: 1}}})
			if err == nil && rec.Refused == nil {
				paid.Add(1)
			}
			return err
		})
		l.same("paid", []int{int(paid.Load()), int(l.get("r").Counters[0].Used), len(l.read("r", store.Query{Stream: store.Step}))}, []int{12, 12, 12})
	}},
	// A place of a limit goes to one at a time.
	{name: "places", run: func(l *law) {
		var got atomic.Int32
		l.together(20, func(i int) error {
			w, err := l.s.Take(l.ctx, store.Slot{Limit: "l", Holder: fmt.Sprint(i), Max: 3, Hold: long})
			if err == nil && w == 0 {
				got.Add(1)
			}
			return err
		})
		l.same("places", got.Load(), int32(3))
	}},
}

// together calls f n times at once.
func (l *law) together(n int, f func(i int) error) {
	l.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	l.ok(errors.Join(errs...))
}

// race lets workers over the given handles claim a few runs again and again, write and give them back.
func race(l *law, handles []store.Store) {
	const count, rounds = 3, 10
	for i := range count {
		l.create(run(fmt.Sprint("r", i)))
	}
	var seen sync.Map
	var left atomic.Int32
	left.Store(count * rounds)
	l.together(6, func(i int) error {
		s := handles[i%len(handles)]
		for left.Load() > 0 {
			rs, next, err := s.Claim(l.ctx, store.Claim{Worker: fmt.Sprint("w", i), Max: 2, Hold: long})
			if err != nil {
				return err
			}
			for _, r := range rs {
				left.Add(-1)
				if _, twice := seen.LoadOrStore(fmt.Sprint(r.ID, "/", r.Epoch), true); twice {
					return fmt.Errorf("epoch %d of %s went to two", r.Epoch, r.ID)
				}
				if _, err := s.Append(l.ctx, store.Lease{Run: r.ID, Epoch: r.Epoch}, store.Batch{Rows: step("a")}); err != nil {
					return err
				}
				if err := s.Apply(l.ctx, store.Change{Run: r.ID, Epoch: r.Epoch, Row: r.Row, Add: step("b"), Release: true}); err != nil {
					return err
				}
			}
			if len(rs) == 0 && next != 0 {
				l.o.Sleep(time.Millisecond)
			}
		}
		return nil
	})
	for i := range count {
		g := l.get(fmt.Sprint("r", i))
		rows := l.read(g.ID, store.Query{Stream: store.Step})
		l.same("rows", int64(len(rows)), 2*g.Epoch)
		for j, row := range rows {
			l.same("seq", row.Seq, int64(j+1))
		}
	}
}
