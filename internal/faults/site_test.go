package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/internal/pgtest"
	"pawl/store"
	"pawl/store/memory"
)

// ground is what a site can stand on.
type ground struct {
	name    string
	address func(t *testing.T) string // of a fresh store, for openAt
}

func grounds() []ground {
	return []ground{
		{"sqlite", func(t *testing.T) string { return filepath.Join(tempDir(t), "x.db") }},
		{"postgres", func(t *testing.T) string {
			server := pgtest.URL(t)
			return pgtest.In(server, pgtest.Schema(t, server))
		}},
	}
}

// onGrounds checks something on each of them.
func onGrounds(t *testing.T, check func(t *testing.T, address func(*testing.T) string)) {
	for _, g := range grounds() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			check(t, g.address)
		})
	}
}

// site is one store and the processes on it.
type site struct {
	*testing.T
	address string
	ledger  string
	store   store.Store
	office  *engine.Engine
	flows   []*pawl.Workflow
	want    *calm
	orders  []*Order
	lease   time.Duration
}

// proc is a program in a process of its own.
type proc struct {
	*exec.Cmd
	mu   sync.Mutex
	out  bytes.Buffer
	done chan struct{}
}

func (p *proc) Write(b []byte) (int, error) { p.mu.Lock(); defer p.mu.Unlock(); return p.out.Write(b) }
func (p *proc) says() string                { p.mu.Lock(); defer p.mu.Unlock(); return p.out.String() }

func (p *proc) kill() { _ = p.Process.Kill(); <-p.done }

// quickly is the end of a run of the quick graph on a calm day.
func quickly(t *testing.T, path string) (want *Result) {
	t.Helper()
	bubble(t, func() {
		tr := &Trial{Store: memory.New(), Seen: NewWitness(), Workers: Calm{}, Client: Calm{}, Orders: []*Order{{Job: Job{Path: path, Sum: 1}}}}
		tr.World = NewWorld(tr.Seen)
		var err error
		if tr.Flows, err = quickPlan().Workflows(tr.World); err == nil {
			if err = tr.Play(); err == nil {
				want, err = ResultOf(tr)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
	return want
}

// calm gives the ends of a calm day's runs, each played once.
type calm struct {
	mu   sync.Mutex
	ends map[string]*Result
}

func (c *calm) of(t *testing.T, path string) *Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends == nil {
		c.ends = map[string]*Result{}
	}
	if c.ends[path] == nil {
		c.ends[path] = quickly(t, path)
	}
	return c.ends[path]
}

// database makes a site where nothing is known of what is to be done.
func database(t *testing.T, address string) *site {
	t.Helper()
	st, err := openAt(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return &site{T: t, address: address, store: st}
}

func newSite(t *testing.T, address string, want *calm) *site {
	return newSiteOf(t, address, want, Short)
}

// newSiteOf has leases of some length.
func newSiteOf(t *testing.T, address string, want *calm, lease time.Duration) *site {
	t.Helper()
	s := database(t, address)
	s.ledger, s.want, s.lease = filepath.Join(tempDir(t), "ledger"), want, lease
	ledger, err := openLedger(s.ledger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	if s.flows, err = Quick(ledger); err == nil {
		s.office, err = engine.New(s.store, s.flows, shortly(lease))
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// worker starts one with the site's leases, which reaches the store at an address, and waits until it works.
func (s *site) worker(address string) *proc {
	s.Helper()
	return s.process("works", []string{"FAULTS_WORKER=" + address, "FAULTS_LEASE=" + s.lease.String()})
}

// program starts the program as people do: a worker with the leases that it has by itself.
func (s *site) program() *proc {
	s.Helper()
	address := s.address
	if !strings.HasPrefix(address, "postgres:") {
		address = "sqlite:" + address
	}
	return s.process("working quick@1", []string{"FAULTS_PROGRAM=1"}, "work", "--store", address)
}

// process starts this test binary as another one, and waits until it says something.
func (s *site) process(says string, env []string, args ...string) *proc {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	p := &proc{Cmd: exec.Command(self, args...), done: make(chan struct{})}
	p.Env = append(append(os.Environ(), "FAULTS_LEDGER="+s.ledger), env...)
	p.Stdout, p.Stderr = p, p
	if err := p.Start(); err != nil {
		s.Fatal(err)
	}
	go func() { _ = p.Wait(); close(p.done) }()
	s.Cleanup(p.kill)
	s.soon(says, func() bool { return strings.Contains(p.says(), says) })
	return p
}

func (s *site) soon(what string, is func() bool) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("does not come: %s", what)
		}
	}
}

// start starts runs; each has a path of its own.
func (s *site) start(n int) {
	s.Helper()
	for range n {
		if err := s.begin(); err != nil {
			s.Fatal(err)
		}
	}
}

// begin starts a run, however often it takes until that is acknowledged.
func (s *site) begin() error {
	o := &Order{Job: Job{Path: fmt.Sprint("run", len(s.orders)), Sum: 1}}
	in, err := json.Marshal(o.Job)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		begun, err := s.office.As(all).Start(context.Background(), "quick", in, pawl.StartOptions{Key: o.Job.Path})
		if err == nil {
			o.Run = begun.Run.ID
			break
		}
		if pawl.Coded(err).Code != pawl.CodeUnavailable || time.Now().After(deadline) {
			return err
		}
	}
	s.orders = append(s.orders, o)
	return nil
}

// held is how many runs are in somebody's hands.
func (s *site) held() int {
	n, err := held(s.store)
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// live is how many runs have not ended.
func live(s store.Store) (int, error) {
	rs, err := s.List(context.Background(), everything, store.Filter{Statuses: []string{"queued", "running", "waiting"}}, store.Page{})
	return len(rs), err
}

// live reports whether there are some.
func (s *site) live() bool {
	n, err := live(s.store)
	if err != nil {
		s.Fatal(err)
	}
	return n > 0
}

// check holds what is left against the invariants, and each run against one of a calm day.
func (s *site) check() {
	s.Helper()
	if worn := s.judge(); worn*2 > len(s.orders) {
		s.Errorf("%d of %d runs were begun too often", worn, len(s.orders))
	}
}

// judge checks as much, and gives the number of runs that were begun too often, whose ends are their own.
func (s *site) judge() (worn int) {
	s.Helper()
	w := NewWitness()
	tr := &Trial{Store: s.store, Seen: w, World: NewWorld(w), Flows: s.flows, Orders: s.orders, ctx: context.Background()}
	if err := tr.World.ReadLedger(s.ledger); err != nil {
		s.Fatal(err)
	}
	l, err := leftOf(tr)
	if err != nil {
		s.Fatal(err)
	}
	l.wear()
	want := &Result{Effects: map[string]int{}}
	for _, o := range s.orders {
		if o.worn { // struck too often: on a slow machine each kill may hit the same run
			worn++
			continue
		}
		r := s.want.of(s.T, o.Job.Path)
		want.Ends = append(want.Ends, r.Ends...)
		maps.Copy(want.Effects, r.Effects)
	}
	slices.Sort(want.Ends)
	for _, b := range l.all(want) {
		s.Error(b)
	}
	return worn
}
