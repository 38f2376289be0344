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
	"pawl/internal/pgtest"
	"pawl/store"
	"pawl/store/memory"
)

// TestMain makes this test binary the worker that is killed, where it is called as one.
func TestMain(m *testing.M) {
	address, work := os.Getenv("FAULTS_WORKER"), Worker
	if os.Getenv("FAULTS_ERRANDS") != "" {
		work = errandWorker
	}
	if address != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if err := work(ctx, address, os.Getenv("FAULTS_EFFECTS"), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Main(m))
}

// addresses give each kind of database that several processes can work on, made anew for a test.
func addresses() map[string]func(t *testing.T) string {
	return map[string]func(*testing.T) string{
		"sqlite": func(t *testing.T) string { return filepath.Join(tempDir(t), "x.db") },
		"postgres": func(t *testing.T) string {
			server := pgtest.URL(t)
			return pgtest.In(server, pgtest.Schema(t, server))
		},
	}
}

// onDatabases checks something on each of them.
func onDatabases(t *testing.T, check func(t *testing.T, address func(*testing.T) string)) {
	for name, address := range addresses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, address)
		})
	}
}

// site is one database and the processes on it.
type site struct {
	*testing.T
	address string
	effects string // where its workers tell what they do: the name of a file, or an address
	errands bool   // whether they run errands
	store   store.Store
	office  *engine.Engine
	flows   []*pawl.Workflow
	want    *calm
	begun   int
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
		tr := &Trial{Store: memory.New(), Seen: NewWitness(), Workers: Calm{}, Client: Calm{}, Job: Job{Path: path, Sum: 1}}
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

// database makes a site with nothing to do yet.
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
	s := database(t, address)
	s.want, s.effects = want, filepath.Join(tempDir(t), "ledger")
	ledger, err := os.OpenFile(s.effects, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	if s.office, s.flows, err = quickEngine(s.store, ledger); err != nil {
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
	p.Env = append(os.Environ(), "FAULTS_WORKER="+s.address, "FAULTS_EFFECTS="+s.effects)
	if s.errands {
		p.Env = append(p.Env, "FAULTS_ERRANDS=1")
	}
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
		in, err := json.Marshal(Job{Path: fmt.Sprint("run", s.begun), Sum: 1})
		if err == nil {
			_, err = s.office.As(all).Start(context.Background(), "quick", in, pawl.StartOptions{Key: fmt.Sprint(s.begun)})
		}
		if err != nil {
			s.Fatal(err)
		}
		s.begun++
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
	tr := &Trial{Store: s.store, Seen: w, World: NewWorld(w), Flows: s.flows, ctx: context.Background()}
	if err := tr.World.ReadLedger(s.effects); err != nil {
		s.Fatal(err)
	}
	want := &Result{Effects: map[string]int{}}
	for i := range s.begun {
		r := s.want.of(s.T, fmt.Sprint("run", i))
		want.Ends = append(want.Ends, r.Ends...)
		maps.Copy(want.Effects, r.Effects)
	}
	slices.Sort(want.Ends)
	rs, err := s.store.List(context.Background(), everything, store.Filter{Key: "0"}, store.Page{})
	if err != nil || len(rs) != 1 {
		s.Fatal(rs, err)
	}
	tr.Run = rs[0].ID
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
	want := &calm{}
	onDatabases(t, func(t *testing.T, address func(*testing.T) string) {
		seed := uint64(time.Now().UnixNano())
		rng := rand.New(rand.NewPCG(seed, 0))
		kills, invalid, cycles := 0, 0, number("FAULTS_KILLS", 50)
		for kills < cycles && !t.Failed() {
			s := newSite(t, address(t), want)
			for i := range 10 {
				s.start(2)
				p := s.worker()
				if i%3 == 2 { // a visit in which one worker after the other dies would be a crash loop
					s.soon("all runs end", func() bool { return !s.live() })
					s.start(2)
				}
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
	})
}

// TestFaultTwoRecoverers: two processes go on with what a killed one has left, while a third starts more.
func TestFaultTwoRecoverers(t *testing.T) {
	t.Parallel()
	want := &calm{}
	onDatabases(t, func(t *testing.T, address func(*testing.T) string) {
		for range number("FAULTS_RECOVERIES", 10) {
			s := newSite(t, address(t), want)
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
	})
}
