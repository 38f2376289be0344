package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
	"pawl/store/postgres"
	"pawl/store/sqlite"
)

// Short is the lease of processes that are killed or stopped in real time, where a machine is not too slow for it.
const Short = 600 * time.Millisecond

func shortly(lease time.Duration) engine.Config {
	return engine.Config{Lease: lease, Poll: 50 * time.Millisecond}
}

// quickPlan is a graph whose runs take some tens of milliseconds in real time and stand in the middle of something all the while.
func quickPlan() *GraphPlan {
	g := &GraphPlan{name: "quick", fuel: 100}
	child := &GraphPlan{name: "quick-4", fuel: 10, nodes: []nodePlan{{kind: kindCalls, n: 1, back: -1, takes: 4 * time.Millisecond}}}
	for i, n := range []nodePlan{
		{kind: kindCalls, n: 2, takes: 5 * time.Millisecond}, {kind: kindEmit, n: 2, takes: 20 * time.Millisecond}, {kind: kindMap, n: 2, limit: 2, takes: 5 * time.Millisecond},
		{kind: kindCosts, n: 1, takes: 5 * time.Millisecond}, {kind: kindEach, n: 2, limit: 2, child: child}, {kind: kindCalls, n: 3, takes: 5 * time.Millisecond},
	} {
		if n.back = -1; i == 5 {
			n.back, n.bound = 2, 1
		}
		g.nodes = append(g.nodes, n)
	}
	return g
}

// Worker is the whole of a process that is killed or stopped: it works what is due in a store until it is told to stop, notes
// effects in a file, and says on out when the store refuses one of its writes as stale, or it throws away itself what it did.
func Worker(ctx context.Context, address, ledger string, lease time.Duration, out io.Writer) error {
	f, err := openLedger(ledger)
	if err != nil {
		return err
	}
	defer f.Close()
	ws, err := Quick(f)
	if err != nil {
		return err
	}
	return workOn(ctx, address, lease, out, ws...)
}

// workOn works what is due in the store at an address.
func workOn(ctx context.Context, address string, lease time.Duration, out io.Writer, ws ...*pawl.Workflow) error {
	s, err := openAt(ctx, address)
	if err != nil {
		return err
	}
	defer s.Close()
	conf := shortly(lease)
	conf.Trace.Fault = func(_ string, err error) {
		if errors.Is(err, pawl.ErrFenced) { // it has seen for itself, and threw away what it did
			_, _ = fmt.Fprintln(out, "refused")
		}
	}
	e, err := engine.New(&refusals{Store: s, out: out}, ws, conf)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, "works")
	return e.Work(ctx)
}

func openLedger(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// openAt opens a store at the address of a Postgres, or at a path of SQLite's.
func openAt(ctx context.Context, address string) (store.Store, error) {
	if strings.HasPrefix(address, "postgres:") {
		return postgres.Open(ctx, address, postgres.Options{Conns: 6})
	}
	return sqlite.Open(ctx, address, sqlite.Options{})
}

// Quick are the workflows of a process that is killed: quick is what is started of them. Effects are noted on ledger.
func Quick(ledger io.Writer) ([]*pawl.Workflow, error) {
	w := NewWorld(NewWitness())
	w.ledger = ledger
	return quickPlan().Workflows(w)
}

// refusals says when a write is refused as stale.
type refusals struct {
	store.Store
	out io.Writer
}

func (r *refusals) said(err error) error {
	if errors.Is(err, store.ErrStale) {
		_, _ = fmt.Fprintln(r.out, "refused")
	}
	return err
}

// Apply makes changes.
func (r *refusals) Apply(ctx context.Context, cs ...store.Change) error {
	return r.said(r.Store.Apply(ctx, cs...))
}

// Append records a batch.
func (r *refusals) Append(ctx context.Context, l store.Lease, b store.Batch) (store.Receipt, error) {
	got, err := r.Store.Append(ctx, l, b)
	return got, r.said(err)
}

// ReadLedger gives both receivers what a file says that was done.
func (w *World) ReadLedger(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		key, label, _ := strings.Cut(in.Text(), " ")
		for _, r := range []*Receiver{w.Once, w.Many} {
			if err := r.receive(key, label); err != nil {
				return err
			}
		}
	}
	return nil
}
