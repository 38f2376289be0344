package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
	"pawl/store/sqlite"
	"pawl/telemetry"
)

// TestMain makes this test binary the worker that is killed, where it is called as one.
func TestMain(m *testing.M) {
	if path := os.Getenv("TELEMETRY_WORKER"); path != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if err := worker(ctx, path, os.Getenv("TELEMETRY_URL")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// worker works the runs of a file and tells of them until it is told to stop.
func worker(ctx context.Context, path, url string) error {
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	traces, err := telemetry.NewTraces(telemetry.Config{URL: url, Delay: 40 * time.Millisecond, Grace: 300 * time.Millisecond})
	if err != nil {
		return err
	}
	ws, err := trips()
	if err != nil {
		return err
	}
	e, err := engine.New(s, ws, engine.Config{Lease: 700 * time.Millisecond, Trace: traces.Trace()})
	if err != nil {
		return err
	}
	var told sync.WaitGroup
	telling, end := context.WithCancel(context.WithoutCancel(ctx))
	told.Go(func() { err = errors.Join(err, traces.Work(telling, s)) })
	worked := e.Work(ctx)
	end()
	told.Wait()
	return errors.Join(worked, err)
}

// trips is a graph that is on its way for a while, with calls, tries and children.
func trips() ([]*pawl.Workflow, error) {
	child := pawl.New[state, state, state]("side", pawl.Options{Version: "1"})
	a := child.Node("side", func(ctx context.Context, s state) (state, error) { return s, rest(ctx, 5) })
	child.Start(a, func(s state) (state, error) { return s, nil })
	child.From(a).Otherwise(child.Succeed("DONE"))
	child.Finish(func(s state, _ pawl.Ending) (state, error) { return s, nil })

	g := pawl.New[state, state, state]("trip", pawl.Options{Version: "1"})
	walk := g.Node("walk", func(ctx context.Context, s state) (state, error) {
		for i := range 3 {
			if _, err := pawl.Do(ctx, fmt.Sprint("call", i), func(ctx context.Context) (int, error) {
				pawl.Annotate(ctx, "gen_ai.operation.name", "chat", "gen_ai.request.model", "tiny")
				return i, rest(ctx, 4)
			}); err != nil {
				return s, err
			}
		}
		if s.N%5 == 0 && pawl.Info(ctx).Try == 1 {
			return s, errors.New("once more")
		}
		if s.N%7 == 0 {
			if _, err := pawl.Call(ctx, "side", child, s); err != nil {
				return s, err
			}
		}
		s.N--
		return s, nil
	}, pawl.NodeOptions{Retry: pawl.Retry{Max: 1, First: time.Millisecond}})
	g.Start(walk, func(s state) (state, error) { return s, nil })
	g.From(walk).When("on", func(s state) bool { return s.N > 0 }, walk).AtMost(9000).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s state, _ pawl.Ending) (state, error) { return s, nil })
	w, err := g.Build()
	if err != nil {
		return nil, err
	}
	side, err := child.Build()
	return []*pawl.Workflow{w, side}, err
}

func rest(ctx context.Context, ms int) error {
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// site is a file with runs, and the receiver of what the workers on it do.
type site struct {
	*testing.T
	path   string
	to     *receiver
	store  store.Store
	office *engine.Engine
	runs   []string
}

func newSite(t *testing.T, runs, steps int) *site {
	s := &site{T: t, path: filepath.Join(t.TempDir(), "x.db"), to: newReceiver(t)}
	var err error
	if s.store, err = sqlite.Open(context.Background(), s.path, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.store.Close() })
	ws, err := trips()
	if err != nil {
		t.Fatal(err)
	}
	if s.office, err = engine.New(s.store, ws, engine.Config{}); err != nil {
		t.Fatal(err)
	}
	for range runs {
		st, err := s.office.As(all).Start(context.Background(), "trip", json.RawMessage(fmt.Sprintf(`{"n":%d}`, steps)), pawl.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.runs = append(s.runs, st.Run.ID)
	}
	return s
}

// proc is a worker in a process of its own.
type proc struct {
	*exec.Cmd
	says bytes.Buffer
	done chan struct{}
}

func (s *site) worker() *proc {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	p := &proc{Cmd: exec.Command(self), done: make(chan struct{})}
	p.Env = append(os.Environ(), "TELEMETRY_WORKER="+s.path, "TELEMETRY_URL="+s.to.URL+"/v1/traces")
	p.Stdout, p.Stderr = &p.says, &p.says
	if err := p.Start(); err != nil {
		s.Fatal(err)
	}
	go func() { _ = p.Wait(); close(p.done) }()
	s.Cleanup(p.kill)
	return p
}

func (p *proc) kill() { _ = p.Process.Kill(); <-p.done }

func (s *site) soon(what string, is func() bool) {
	s.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("does not come: %s", what)
		}
	}
}

// held says how many runs are in somebody's hands, and live how many have not ended.
func (s *site) held() (n int) {
	yes := true
	rs, err := s.store.List(context.Background(), store.Scope{All: true}, store.Filter{Held: &yes}, store.Page{})
	if err != nil {
		s.Fatal(err)
	}
	return len(rs)
}

func (s *site) live() (n int) {
	rs, err := s.store.List(context.Background(), store.Scope{All: true}, store.Filter{Statuses: []string{"queued", "running", "waiting"}}, store.Page{})
	if err != nil {
		s.Fatal(err)
	}
	return len(rs)
}

// missing is how many spans the receiver does not have yet, and more how often it has one more than once.
func (s *site) missing() (missing, total int, more map[string]int) {
	s.Helper()
	rs, err := s.store.List(context.Background(), store.Scope{All: true}, store.Filter{}, store.Page{Limit: 1000})
	if err != nil {
		s.Fatal(err)
	}
	more = map[string]int{}
	for _, r := range rs {
		steps, calls, attempts := want(s, s.office, r.ID)
		got := s.to.of(r.ID)
		missing += steps + calls + attempts - len(got)
		total += steps + calls + attempts
		for id, n := range got {
			if n > 1 {
				more[id] = n
			}
		}
	}
	return missing, total, more
}

// lastRequest are the spans of the request that was taken last.
func (r *receiver) lastRequest() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := map[string]bool{}
	if len(r.requests) > 0 {
		for _, sp := range r.requests[len(r.requests)-1] {
			ids[idOf(sp)] = true
		}
	}
	return ids
}

// TestFaultKilledWorkers: workers are killed at random while nodes run. In the end the receiver has exactly one span for each
// step, call and attempt. Only the request that a kill has cut off between its receipt and its mark may come again, once for each kill.
func TestFaultKilledWorkers(t *testing.T) {
	s := newSite(t, 6, 180)
	seed := uint64(time.Now().UnixNano())
	chance := rand.New(rand.NewPCG(seed, 1))
	allowed, kills := map[string]int{}, 0
	for s.live() > 0 && kills < 12 {
		p := s.worker()
		s.soon("runs in hand", func() bool { return s.held() >= 3 || s.live() == 0 })
		time.Sleep(time.Duration(100+chance.IntN(500)) * time.Millisecond)
		if s.held() == 0 {
			p.kill()
			break
		}
		p.kill()
		kills++
		for id := range s.to.lastRequest() {
			allowed[id]++
		}
	}
	if kills < 4 {
		t.Fatalf("only %d kills while runs were in hand: this shows nothing", kills)
	}
	last := s.worker()
	s.soon("the ends", func() bool { return s.live() == 0 })
	s.soon("all spans", func() bool { time.Sleep(200 * time.Millisecond); n, _, _ := s.missing(); return n <= 0 })
	time.Sleep(300 * time.Millisecond)
	missing, total, more := s.missing()
	if missing != 0 {
		t.Errorf("seed %d: %d spans too many", seed, -missing)
	}
	for id, n := range more {
		if n > 1+allowed[id] {
			t.Errorf("seed %d: span %s came %d times", seed, id, n)
		}
	}
	t.Logf("kills %d, spans %d, sent twice %d, seed %d", kills, total, len(more), seed)
	if err := last.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-last.done
	if !last.ProcessState.Success() {
		t.Errorf("the last worker: %s", last.says.String())
	}
}

// TestFaultKilledInExport: a worker that is killed when the receiver has taken a request and not answered yet sends its spans
// once more, under the same ids, and no others.
func TestFaultKilledInExport(t *testing.T) {
	s := newSite(t, 1, 30)
	taken := make(chan struct{})
	var once sync.Once
	hold := make(chan struct{})
	s.to.taken = func() { once.Do(func() { close(taken); <-hold }) }
	p := s.worker()
	<-taken
	p.kill()
	close(hold)
	cut := s.to.lastRequest()
	s.worker()
	s.soon("the ends", func() bool { return s.live() == 0 })
	s.soon("all spans, and those again", func() bool {
		time.Sleep(200 * time.Millisecond)
		n, _, more := s.missing()
		return n <= 0 && len(more) >= len(cut)
	})
	time.Sleep(300 * time.Millisecond)
	missing, total, more := s.missing()
	if missing != 0 || len(more) != len(cut) || len(cut) == 0 {
		t.Errorf("%d spans missing, %d came more than once, want the %d of the request that was cut off", missing, len(more), len(cut))
	}
	for id, n := range more {
		if n != 2 || !cut[id] {
			t.Errorf("span %s came %d times", id, n)
		}
	}
	t.Logf("spans %d, of the request that was cut off %d, sent twice %d", total, len(cut), len(more))
}
