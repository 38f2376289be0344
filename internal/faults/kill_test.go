package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
	"pawl/store/memory"
	"pawl/store/sqlite"
)

// TestMain makes this test binary the worker that is killed, where it is called as one.
func TestMain(m *testing.M) {
	if path := os.Getenv("FAULTS_WORKER"); path != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if err := Worker(ctx, path, path+".ledger", os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// site is one database and the processes on it.
type site struct {
	*testing.T
	path   string
	store  store.Store
	office *engine.Engine
	flows  []*pawl.Workflow
	want   *calm
	orders []*Order
}

// proc is a worker in a process of its own.
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

func newSite(t *testing.T, want *calm) *site {
	s := &site{T: t, path: filepath.Join(tempDir(t), "x.db"), want: want}
	st, err := sqlite.Open(context.Background(), s.path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	ledger, err := os.OpenFile(s.path+".ledger", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	s.store = st
	if s.office, s.flows, err = quickEngine(st, ledger); err != nil {
		t.Fatal(err)
	}
	return s
}

// worker starts one, and waits until it works.
func (s *site) worker() *proc {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	p := &proc{Cmd: exec.Command(self), done: make(chan struct{})}
	p.Env = append(os.Environ(), "FAULTS_WORKER="+s.path)
	p.Stdout, p.Stderr = p, p
	if err := p.Start(); err != nil {
		s.Fatal(err)
	}
	go func() { _ = p.Wait(); close(p.done) }()
	s.Cleanup(p.kill)
	s.soon("the worker works", func() bool { return strings.Contains(p.says(), "works") })
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
		o := &Order{Job: Job{Path: fmt.Sprint("run", len(s.orders)), Sum: 1}}
		in, err := json.Marshal(o.Job)
		if err != nil {
			s.Fatal(err)
		}
		begun, err := s.office.As(all).Start(context.Background(), "quick", in, pawl.StartOptions{Key: o.Job.Path})
		if err != nil {
			s.Fatal(err)
		}
		o.Run = begun.Run.ID
		s.orders = append(s.orders, o)
	}
}

// held is how many runs are in somebody's hands.
func (s *site) held() int {
	yes := true
	rs, err := s.store.List(context.Background(), everything, store.Filter{Held: &yes}, store.Page{})
	if err != nil {
		s.Fatal(err)
	}
	return len(rs)
}

// live reports whether runs have not ended.
func (s *site) live() bool {
	rs, err := s.store.List(context.Background(), everything, store.Filter{Statuses: []string{"queued", "running", "waiting"}}, store.Page{})
	if err != nil {
		s.Fatal(err)
	}
	return len(rs) > 0
}

// check holds what is left against the invariants, and each run against one of a calm day.
func (s *site) check() {
	s.Helper()
	w := NewWitness()
	tr := &Trial{Store: s.store, Seen: w, World: NewWorld(w), Flows: s.flows, Orders: s.orders, ctx: context.Background()}
	if err := tr.World.ReadLedger(s.path + ".ledger"); err != nil {
		s.Fatal(err)
	}
	want := &Result{Effects: map[string]int{}}
	for _, o := range s.orders {
		r := s.want.of(s.T, o.Job.Path)
		want.Ends = append(want.Ends, r.Ends...)
		maps.Copy(want.Effects, r.Effects)
	}
	slices.Sort(want.Ends)
	l, err := leftOf(tr)
	if err != nil {
		s.Fatal(err)
	}
	for _, b := range l.all(want) {
		s.Error(b)
	}
}

// TestFaultKilled kills workers with kill -9 at random times; the runs are gone on with by the same program in a new process,
// and by one that has been there all the while.
func TestFaultKilled(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	kills, invalid, cycles := 0, 0, number("FAULTS_KILLS", 50)
	want := &calm{}
	for kills < cycles && !t.Failed() {
		s := newSite(t, want)
		for range 10 {
			s.start(2)
			p := s.worker()
			s.soon("a run is held", func() bool { return s.held() > 0 || !s.live() })
			time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
			if s.held() == 0 {
				invalid++
			}
			p.kill()
			kills++
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		if kills%20 == 0 {
			go func() { done <- s.office.Work(ctx) }()
		} else {
			p := s.worker()
			go func() { <-ctx.Done(); p.kill(); done <- nil }()
		}
		s.soon("all runs end", func() bool { return !s.live() })
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.check()
	}
	t.Logf("seed %d: %d kills, %d of them with nothing in hand", seed, kills, invalid)
	if invalid*2 > kills {
		t.Error("too many kills of idle workers")
	}
}

// TestFaultTwoRecoverers: two processes go on with what a killed one has left, while a third starts more.
func TestFaultTwoRecoverers(t *testing.T) {
	t.Parallel()
	want := &calm{}
	for range number("FAULTS_RECOVERIES", 10) {
		s := newSite(t, want)
		s.start(6)
		p := s.worker()
		s.soon("a run is held", func() bool { return s.held() > 0 })
		p.kill()
		a, b := s.worker(), s.worker()
		for range 4 {
			s.start(1)
			time.Sleep(20 * time.Millisecond)
		}
		s.soon("all runs end", func() bool { return !s.live() })
		a.kill()
		b.kill()
		s.check()
	}
}
