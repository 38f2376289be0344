// Package storetest is the law of stores: a store is whatever passes Run.
//
// It never looks inside a store, never asserts that something is fast, and sleeps only where a hold has to run out.
// Nothing outside of tests may import it.
//
// Start reading at Run, then any case: its comment says which sentence of the contract it stands for, and why that matters.
package storetest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"pawl/store"
)

// Options says what else a store can do. The zero value fits a store that lives in memory.
type Options struct {
	// Sleep lets time pass for the store; nil: time.Sleep.
	Sleep func(time.Duration)
	// Reopen closes the store and opens it again on the same data; nil: nothing outlives Close.
	Reopen func(t *testing.T, s store.Store) store.Store
	// Second opens another handle on the same data, as another process would; nil: there are no others.
	Second func(t *testing.T, s store.Store) store.Store
	// Parallel runs cases side by side; open must allow it.
	Parallel bool
}

// Run holds the stores that open makes, each one empty, against the law.
func Run(t *testing.T, open func(t *testing.T) store.Store, o Options) {
	if o.Sleep == nil {
		o.Sleep = time.Sleep
	}
	for _, group := range []struct {
		name  string
		cases []kase
	}{
		{"create", createCases}, {"claim", claimCases}, {"renew", renewCases}, {"fence", fenceCases}, {"apply", applyCases},
		{"letter", letterCases}, {"question", questionCases}, {"append", appendCases}, {"read", readCases}, {"scope", scopeCases},
		{"limit", limitCases}, {"expire", expireCases}, {"delete", deleteCases}, {"watch", watchCases}, {"bytes", bytesCases}, {"race", raceCases},
		{"life", lifeCases}, {"handles", handleCases},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					if o.Parallel {
						t.Parallel()
					}
					if c.needs != nil && !c.needs(o) {
						t.Skip("this store has no such thing")
					}
					s := open(t)
					t.Cleanup(func() { _ = s.Close() })
					c.run(&law{T: t, s: s, o: o, ctx: t.Context()})
				})
			}
		})
	}
}

type kase struct {
	name  string
	run   func(l *law)
	needs func(Options) bool
}

// law is one case at work.
type law struct {
	*testing.T
	s   store.Store
	o   Options
	ctx context.Context
}

// long is a hold that does not run out during a case, short one that does soon.
const (
	long  = time.Minute
	short = 30 * time.Millisecond
)

var all = store.Scope{All: true}

// run is a new run that is due at once.
func run(id string) store.NewRun {
	return store.NewRun{
		ID: id, Tenant: "t", User: "u", Workflow: "w", Version: "1", Status: "queued", Node: "start",
		Head: []byte("head of " + id), Row: []byte("row of " + id),
	}
}

func runs(ids ...string) []store.NewRun {
	var rs []store.NewRun
	for _, id := range ids {
		rs = append(rs, run(id))
	}
	return rs
}

func (l *law) ok(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *law) is(err, want error) {
	l.Helper()
	if !errors.Is(err, want) {
		l.Fatalf("the error is %v, want %v", err, want)
	}
}

// taken checks that the error names the owner.
func (l *law) taken(err error, owner string) {
	l.Helper()
	l.is(err, store.ErrExists)
	var k *store.Taken
	if !errors.As(err, &k) || k.Owner != owner {
		l.Fatalf("the error is %v, want the owner %s", err, owner)
	}
}

func (l *law) create(rs ...store.NewRun) {
	l.Helper()
	l.ok(l.s.Create(l.ctx, rs...))
}

func (l *law) apply(cs ...store.Change) {
	l.Helper()
	l.ok(l.s.Apply(l.ctx, cs...))
}

// claim leases one run for long, which must work.
func (l *law) claim(id string) store.Run {
	l.Helper()
	rs, _, err := l.s.Claim(l.ctx, store.Claim{Worker: "worker", Run: id, Max: 1, Hold: long})
	l.ok(err)
	if len(rs) != 1 {
		l.Fatalf("run %s cannot be claimed", id)
	}
	return rs[0]
}

// claims asks with the given claim and answers the ids.
func (l *law) claims(c store.Claim) []string {
	l.Helper()
	if c.Worker == "" {
		c.Worker = "worker"
	}
	if c.Hold == 0 {
		c.Hold = long
	}
	rs, _, err := l.s.Claim(l.ctx, c)
	l.ok(err)
	return ids(rs)
}

func (l *law) get(id string) store.Run {
	l.Helper()
	r, err := l.s.Get(l.ctx, all, id)
	l.ok(err)
	return r
}

func (l *law) gone(id string) {
	l.Helper()
	_, err := l.s.Get(l.ctx, all, id)
	l.is(err, store.ErrNotFound)
}

func (l *law) read(id string, q store.Query) []store.Row {
	l.Helper()
	rows, err := l.s.Read(l.ctx, all, id, q)
	l.ok(err)
	return rows
}

func (l *law) append(r store.Run, b store.Batch) store.Receipt {
	l.Helper()
	rec, err := l.s.Append(l.ctx, store.Lease{Run: r.ID, Epoch: r.Epoch}, b)
	l.ok(err)
	return rec
}

func (l *law) questions(f store.Filter) []store.Question {
	l.Helper()
	qs, err := l.s.Questions(l.ctx, all, f, store.Page{})
	l.ok(err)
	return qs
}

// soon repeats until it holds; for what comes after a hold has run out or another handle has noticed.
func (l *law) soon(what string, holds func() bool) {
	l.Helper()
	for range 500 {
		if holds() {
			return
		}
		l.o.Sleep(10 * time.Millisecond)
	}
	l.Fatalf("does not come: %s", what)
}

func (l *law) same(what string, got, want any) {
	l.Helper()
	if !reflect.DeepEqual(plain(got), plain(want)) {
		l.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// plain makes nil of what is empty in a run: the contract does not tell the two apart.
func plain(v any) any {
	r, ok := v.(store.Run)
	if !ok {
		return v
	}
	if len(r.Head) == 0 {
		r.Head = nil
	}
	if len(r.Row) == 0 {
		r.Row = nil
	}
	if len(r.Counters) == 0 {
		r.Counters = nil
	}
	return r
}

func ids(rs []store.Run) []string {
	out := []string{}
	for _, r := range rs {
		out = append(out, r.ID)
	}
	return out
}

func step(data string) []store.Row { return []store.Row{{Stream: store.Step, Data: []byte(data)}} }

func letter(run, text string) store.Letter {
	return store.Letter{Run: run, Add: []store.Row{{Stream: store.Inbox, Data: []byte(text)}}}
}

// texts are the data of rows, in order.
func texts(rows []store.Row) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, string(r.Data))
	}
	return out
}

// end ends a held run.
func end(r store.Run) store.Change {
	return store.Change{Run: r.ID, Epoch: r.Epoch, Status: "done", Row: []byte("end"), End: true, Seen: r.Inbox}
}
