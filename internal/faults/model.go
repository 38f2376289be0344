package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"pawl/store"
)

var errRefused = errors.New("faults: the charge is refused")

// model holds a store against the oracle: the same calls to both, by chance, and the same answers (stateful property testing
// after Hughes, "QuickCheck testing for fun and profit", 2007). Each sequence has names of its own, so that one store serves
// many of them.
type model struct {
	*rapid.T
	s    store.Store
	o    *oracle
	ctx  context.Context
	name string // of the sequence: workflow, tenant and the beginning of all ids
}

// Model plays one sequence of calls.
func Model(t *rapid.T, s store.Store, name string) {
	m := &model{T: t, s: s, o: newOracle(), ctx: context.Background(), name: name}
	t.Repeat(map[string]func(*rapid.T){
		"create": func(t *rapid.T) { m.T = t; m.create() },
		"claim":  func(t *rapid.T) { m.T = t; m.claim() },
		"renew":  func(t *rapid.T) { m.T = t; m.renew() },
		"apply":  func(t *rapid.T) { m.T = t; m.apply() },
		"change": func(t *rapid.T) { m.T = t; m.apply() },
		"append": func(t *rapid.T) { m.T = t; m.append() },
		"expire": func(t *rapid.T) { m.T = t; m.expire() },
	})
	m.T = t
	m.compare()
	m.expire()
}

func draw[T any](m *model, of ...T) T { return rapid.SampledFrom(of).Draw(m.T, "one of") }

func (m *model) id() string   { return m.name + draw(m, "a", "b", "c", "d") }
func (m *model) ask() string  { return m.name + draw(m, "q1", "q2", "q3") }
func (m *model) text() []byte { return []byte(draw(m, "x", "y", "z")) }

func (m *model) kinds() []string { return []string{store.Kind(m.name, "1"), store.Kind(m.name, "2")} }

func (m *model) newRun() store.NewRun {
	return store.NewRun{
		ID: m.id(), Tenant: m.name, User: "u", Workflow: m.name, Version: draw(m, "1", "2"), Key: draw(m, "", "", "k", "l"),
		Status: "new", Node: "start", Priority: draw(m, 0, 0, 1), Head: m.text(), Row: m.text(), After: draw(m, 0, 0, far, -1),
		Caps: draw(m, nil, []store.Counter{{Meter: "m", Cap: 3}}), Add: m.rows(store.Step, store.Event, store.Blob),
	}
}

// rows are up to two rows of some streams.
func (m *model) rows(of ...store.Stream) (rows []store.Row) {
	for range draw(m, 0, 1, 2) {
		r := store.Row{Stream: draw(m, of...), Key: draw(m, "", "k"), Data: m.text()}
		r.Told = r.Stream == store.Step && draw(m, true, false)
		rows = append(rows, r)
	}
	return rows
}

// same compares errors as far as the contract names them.
func (m *model) same(what string, got, want error) {
	m.Helper()
	for _, e := range []error{store.ErrNotFound, store.ErrExists, store.ErrStale} {
		if errors.Is(got, e) != errors.Is(want, e) {
			m.Fatalf("%s: the store says %v, want %v", what, got, want)
		}
	}
	var a, b *store.Taken
	if errors.As(want, &b) && errors.As(got, &a) && a.Owner != b.Owner {
		m.Fatalf("%s: taken by %s, want %s", what, a.Owner, b.Owner)
	}
	if (got == nil) != (want == nil) {
		m.Fatalf("%s: the store says %v, want %v", what, got, want)
	}
}

func (m *model) create() {
	var rs []store.NewRun
	for range draw(m, 1, 1, 2) {
		rs = append(rs, m.newRun())
	}
	want := m.o.try(func(o *oracle) error {
		for _, n := range rs {
			if err := o.create(n); err != nil {
				return err
			}
		}
		return nil
	})
	m.same("create", m.s.Create(m.ctx, rs...), want)
	m.compare()
}

func (m *model) claim() {
	m.o.tick++
	c := store.Claim{Worker: m.name + draw(m, "v", "w"), Kinds: m.kinds(), Max: draw(m, 0, 1, 2, 9), Hold: draw(m, far, over)}
	ready := m.o.ready(c.Kinds)
	rs, _, err := m.s.Claim(m.ctx, c)
	if err != nil || len(rs) != min(c.Max, len(ready)) {
		m.Fatalf("claim of %d: %d runs came (%v), %d are ready", c.Max, len(rs), err, len(ready))
	}
	for i, got := range rs {
		if !slices.Contains(ready, got.ID) || m.o.place(got.ID, ready[i]) != 0 {
			m.Fatalf("claim: %s came in place of %s", got.ID, ready[i])
		}
		r := m.o.runs[got.ID]
		r.epoch, r.worker, r.owned, r.live = r.epoch+1, c.Worker, true, c.Hold == far
		m.look(got)
	}
}

func (m *model) epoch(id string) int64 {
	r := m.o.runs[id]
	if r == nil {
		return 1
	}
	return max(r.epoch-draw(m, int64(0), 0, 0, 0, 1), 0)
}

func (m *model) renew() {
	m.o.tick++
	id, hold := m.id(), draw(m, far, over)
	l := store.Lease{Run: id, Epoch: m.epoch(id)}
	held, err := m.s.Renew(m.ctx, m.name+"w", []store.Lease{l}, hold)
	r := m.o.runs[id]
	lost := !r.owns(l.Epoch)
	if err != nil || len(held) != 1 || held[0].Run != id || held[0].Lost != lost || r != nil && held[0].Inbox != r.inbox {
		m.Fatalf("renew: %+v, %v; want lost %v", held, err, lost)
	}
	if !lost {
		r.live = hold == far
	}
}

func (m *model) change() store.Change {
	c := store.Change{Run: m.id()}
	switch draw(m, "holder", "holder", "holder", "stranger", "takeover") {
	case "holder":
		c.Epoch = max(m.epoch(c.Run), 1)
	case "takeover":
		c.Epoch, c.Takeover = m.epoch(c.Run), true
	case "stranger":
		c.Add = m.rows(store.Inbox, store.Audit)
		c.Answer = m.answers()
		c.Letters = m.letters()
		return c
	}
	if c.Takeover || draw(m, true, true, false) {
		c.Row, c.Status, c.Node, c.Outcome, c.Version = m.text(), draw(m, "s", "t"), "n", draw(m, "", "o"), draw(m, "", "2")
	}
	if r := m.o.runs[c.Run]; r != nil {
		c.Seen = max(r.inbox-draw(m, int64(0), 0, 1), 0)
	}
	c.Add, c.Key = m.rows(store.Step, store.Event, store.Call, store.Blob), draw(m, "", "", "", "k", "l")
	c.Counters = draw(m, nil, nil, []store.Counter{{Meter: "m", Cap: 2}})
	switch draw(m, "go on", "release", "end") {
	case "release":
		c.Release, c.After = true, draw(m, 0, far, -1)
	case "end":
		c.End, c.Keep = true, draw(m, 0, over, far)
	}
	if draw(m, true, false, false) {
		c.Ask = []store.Ask{{ID: m.ask(), Row: m.text(), After: draw(m, 0, over, far)}}
		c.Drop = draw(m, nil, []string{m.ask()})
		c.Create = draw(m, nil, []store.NewRun{m.newRun()})
	}
	c.Letters, c.Answer = m.letters(), m.answers()
	return c
}

func (m *model) letters() []store.Letter {
	if draw(m, true, false, false) {
		return []store.Letter{{Run: m.id(), Add: []store.Row{{Stream: store.Inbox, Data: m.text()}}, Live: draw(m, true, false)}}
	}
	return nil
}

func (m *model) answers() []store.Answer {
	if draw(m, true, false, false, false) {
		return []store.Answer{{ID: m.ask(), Row: m.text()}}
	}
	return nil
}

func (m *model) apply() {
	var cs []store.Change
	for range draw(m, 1, 1, 1, 2) {
		cs = append(cs, m.change())
	}
	want := m.o.try(func(o *oracle) error {
		for _, c := range cs {
			if err := o.apply(c); err != nil {
				return err
			}
		}
		return nil
	})
	m.same(fmt.Sprintf("apply %+v", cs), m.s.Apply(m.ctx, cs...), want)
	m.compare()
}

func (m *model) append() {
	l := store.Lease{Run: m.id()}
	l.Epoch = m.epoch(l.Run)
	b := store.Batch{Rows: m.rows(store.Call, store.Event, store.Step, store.Blob)}
	for range draw(m, 0, 0, 1, 2) {
		b.Charges = append(b.Charges, store.Charge{Run: draw(m, l.Run, l.Run, m.id()), Meter: draw(m, "m", "n"), N: draw(m, int64(1), 2, -1)})
	}
	b.Caps = draw(m, nil, nil, []store.Counter{{Meter: "m", Cap: 1}})
	var rec store.Receipt
	var refused string
	want := m.o.try(func(o *oracle) (err error) { rec, refused, err = o.append(l, b); return err })
	got, err := m.s.Append(m.ctx, l, b)
	if errors.Is(want, errRefused) {
		if err != nil || got.Refused == nil || got.Refused.Run+" "+got.Refused.Meter != refused {
			m.Fatalf("append %+v: %+v, %v; want %s refused", b, got, err, refused)
		}
		m.compare()
		return
	}
	m.same(fmt.Sprintf("append %+v", b), err, want)
	if want == nil && (got.Refused != nil || !slices.Equal(got.Seqs, rec.Seqs)) {
		m.Fatalf("append %+v: %+v, want %v", b, got, rec.Seqs)
	}
	m.compare()
}

func (m *model) expire() {
	m.o.tick++
	want := m.o.expire()
	if got, err := m.s.Expire(m.ctx, 1000); err != nil || got != want {
		m.Fatalf("expire: %d, %v; want %d", got, err, want)
	}
}

// compare looks at everything that the sequence has made.
func (m *model) compare() {
	rs, err := m.s.List(m.ctx, everything, store.Filter{Workflow: m.name}, store.Page{})
	if err != nil || len(rs) != len(m.o.runs) {
		m.Fatalf("%d runs (%v), want %d", len(rs), err, len(m.o.runs))
	}
	for _, r := range rs {
		m.look(r)
	}
	qs, err := m.s.Questions(m.ctx, everything, store.Filter{Workflow: m.name}, store.Page{})
	if err != nil || len(qs) != len(m.o.asks) {
		m.Fatalf("%d questions (%v), want %d", len(qs), err, len(m.o.asks))
	}
	for _, q := range qs {
		w := m.o.asks[q.ID]
		if w == nil || w.run != q.Run || w.closed != q.Closed || w.row != string(q.Row) || w.due.set == q.Due.IsZero() {
			m.Fatalf("question %+v, want %+v", q, w)
		}
	}
}

// look compares a run, and one of its streams.
func (m *model) look(got store.Run) {
	w := m.o.runs[got.ID]
	if w == nil {
		m.Fatalf("run %s is there", got.ID)
	}
	a := fmt.Sprint(got.Status, got.Node, got.Outcome, got.Version, got.Key, string(got.Row), got.Ended, got.Epoch, got.Inbox, got.Worker,
		!got.Until.IsZero(), got.Until.After(time.Now().Add(far/2)), !got.Due.IsZero(), got.Due.After(time.Now().Add(far/2)), !got.Expires.IsZero())
	b := fmt.Sprint(w.status, w.node, w.outcome, w.version, w.key, w.row, w.ended, w.epoch, w.inbox, w.worker,
		w.owned, w.live, w.due.set, w.due.set && w.due.far, w.expires.set)
	if a != b {
		m.Fatalf("run %s is %s, want %s", got.ID, a, b)
	}
	for _, c := range got.Counters {
		if w.counters[c.Meter] != c {
			m.Fatalf("run %s: counter %+v, want %+v", got.ID, c, w.counters[c.Meter])
		}
	}
	if len(got.Counters) != len(w.counters) {
		m.Fatalf("run %s has %d counters, want %d", got.ID, len(got.Counters), len(w.counters))
	}
	s := draw(m, store.Step, store.Event, store.Call, store.Inbox, store.Blob, store.Audit)
	rows, err := m.s.Read(m.ctx, everything, got.ID, store.Query{Stream: s})
	if err != nil || len(rows) != len(w.streams[s]) {
		m.Fatalf("run %s has %d rows of %s (%v), want %d", got.ID, len(rows), s, err, len(w.streams[s]))
	}
	for i, r := range rows {
		if x := w.streams[s][i]; r.Seq != int64(i+1) || r.Key != x.Key || string(r.Data) != string(x.Data) {
			m.Fatalf("run %s: row %+v, want %+v", got.ID, r, x)
		}
	}
}
