package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/pawltest"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
	"pawl/store/sqlite"
	"pgregory.net/rapid"
)

// moods are the turns that a model takes in an order that a seed gives.
var moods = []llmtest.Turn{
	llmtest.Say("no JSON"), llmtest.Say(`{"category":"PAPER","confidence":7}`), llmtest.Say(`{"category":"JIRA","confidence":1}`), llmtest.Say("<html>"),
	llmtest.Say("half").Ends(llm.FinishLength), llmtest.Say("").Ends(llm.FinishRefused), llmtest.Ask("1", "add", `{"n":1}`), llmtest.Ask("1", "fly", `{`),
	llmtest.Ask("1", "add", `{"n":2}`).And("2", "hang", `{}`), llmtest.Fail(llm.CodeRateLimited), llmtest.Fail(pawl.CodeUnavailable, "a", "b"), llmtest.Fail(pawl.CodeTimeout),
	llmtest.Fail(llm.CodeQuota), {Hang: true}, {Err: errors.New("a bug")},
}

// moody is a model of such turns that tells how often it was really asked.
func moody(seed uint64, asked func()) *llmtest.Script {
	return llmtest.Func(func(n int, _ llm.Request) llmtest.Turn {
		asked()
		return moods[rand.New(rand.NewPCG(seed, uint64(n))).IntN(len(moods))]
	})
}

// greedy is a graph that uses a model in every way that there is, one after the other and at once, whatever comes of it.
func greedy(limit int64, model llm.Model) *pawl.Graph[string, string, string] {
	m := llm.Chain(llm.Metered(model, llm.Price{Output: 1}), llm.Metered(model, llm.Price{}))
	o := llm.Options{Timeout: 5 * time.Second, Deltas: "text", Retry: pawl.Retry{Max: 2, First: 10 * time.Millisecond}}
	return single(func(ctx context.Context, _ string) (string, error) {
		_, _ = pawl.Map(ctx, "map", []int{1, 2, 3, 4, 5}, 3, func(ctx context.Context, _ int) (llm.Response, error) { return m.Generate(ctx, question) },
			pawl.CallOptions{Timeout: o.Timeout})
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() { _, _ = llm.Generate(ctx, fmt.Sprint("at once ", i), m, question, o) })
		}
		all.Wait()
		_, _ = llm.Structured[verdict](ctx, "structured", m, question, llm.StructuredOptions{Options: o, Narrow: narrow})
		_, _ = llm.Loop(ctx, "loop", m, question, standard, llm.LoopOptions{Options: o, Tool: pawl.CallOptions{Timeout: time.Second},
			History: llm.Compression{Above: 3, Keep: 1, Summarize: m, Options: o}})
		for i := range 4 {
			_, _ = llm.Generate(ctx, fmt.Sprint("after ", i), m, question, o)
		}
		return "", nil
	}, pawl.Options{Budget: pawl.Budget{llm.MeterCalls: limit}, Cost: pawl.Dollars(100)})
}

// TestACapOfCallsHolds: a model is asked as often as the cap says and never once more, by whatever asks.
func TestACapOfCallsHolds(t *testing.T) {
	for _, limit := range []int64{0, 1, 3, 8, 12} {
		for seed := range uint64(2) {
			var asked atomic.Int64
			r := pawltest.Run(t, greedy(limit, moody(seed, func() { asked.Add(1) })), "", pawltest.Script{})
			if asked.Load() != limit || r.Meter(llm.MeterCalls) != limit || r.Run.Status != pawl.StatusSucceeded {
				t.Errorf("cap %d, seed %d: asked %d times, %d charged; %s %v", limit, seed, asked.Load(), r.Meter(llm.MeterCalls), r.Run.Status, r.Run.Err)
			}
		}
	}
}

// TestLongACapOfCallsHoldsOverCrashes: nor over crashes, after any durable write and before and after any attempt.
func TestLongACapOfCallsHoldsOverCrashes(t *testing.T) {
	crashed := 0
	rapid.Check(t, func(r *rapid.T) {
		limit := rapid.Int64Range(0, 25).Draw(r, "cap")
		seed := rapid.Uint64().Draw(r, "seed")
		script := pawltest.Script{Crash: rapid.SliceOfN(rapid.IntRange(1, 30), 0, 4).Draw(r, "crash"), Fail: map[string][]error{}}
		for _, key := range []string{"map[1]", "at once 2", "structured/1", "loop/1", "loop/2", "after 0"} {
			if n := rapid.IntRange(0, 5).Draw(r, key); n < 2 {
				script.Fail[key] = []error{[]error{pawltest.ErrLost, pawltest.ErrCrash}[n]}
			}
		}
		var asked atomic.Int64
		got := pawltest.Run(t, greedy(limit, moody(seed, func() { asked.Add(1) })), "", script)
		crashed += len(got.Writes) - 1
		if n := asked.Load(); n > limit || got.Meter(llm.MeterCalls) > limit || n > got.Meter(llm.MeterCalls) {
			r.Fatalf("cap %d: asked %d times, %d charged, %d workers", limit, n, got.Meter(llm.MeterCalls), len(got.Writes))
		}
	})
	if crashed == 0 {
		t.Error("no worker was lost")
	}
}

const workerEnv = "PAWL_LLM_TEST_WORKER" // the folder of the worker that is killed

// TestMain makes this test binary that worker, where it is called as one.
func TestMain(m *testing.M) {
	if dir := os.Getenv(workerEnv); dir != "" {
		if err := work(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const killedCap = 20

// killed is the engine over a file, whose model writes a line for each time that it is asked.
func killed(dir string) (*engine.Engine, func() error, error) {
	lines, err := os.OpenFile(filepath.Join(dir, "asked"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	w, err := greedy(killedCap, moody(uint64(os.Getpid()), func() {
		_, _ = lines.WriteString("asked\n")
		time.Sleep(20 * time.Millisecond)
	})).Build()
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlite.Open(context.Background(), filepath.Join(dir, "x.db"), sqlite.Options{})
	if err != nil {
		return nil, nil, err
	}
	e, err := engine.New(s, []*pawl.Workflow{w}, engine.Config{Lease: 600 * time.Millisecond, Poll: 50 * time.Millisecond})
	return e, s.Close, err
}

func work(dir string) error {
	e, _, err := killed(dir)
	if err != nil {
		return err
	}
	return e.Work(context.Background())
}

// TestFaultACapOfCallsHoldsOverKills: nor where the process is killed, again and again, on a real disk.
func TestFaultACapOfCallsHoldsOverKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, closeStore, err := killed(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closeStore() }()
	runs := e.As(pawl.Caller{User: "ann"})
	started, err := runs.Start(t.Context(), "single", json.RawMessage(`""`), pawl.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	processes := 0
	var run pawl.Run
	for end := time.Now().Add(2 * time.Minute); !run.Status.Ended(); processes++ {
		if time.Now().After(end) {
			t.Fatalf("the run has not ended after %d processes: %+v", processes, run)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"="+dir)
		var says strings.Builder
		cmd.Stdout, cmd.Stderr = &says, &says
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(time.Duration(500+rand.IntN(1000)) * time.Millisecond); time.Now().Before(until) && !run.Status.Ended(); time.Sleep(20 * time.Millisecond) {
			if run, err = runs.Get(t.Context(), started.Run.ID); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Process.Kill()
		if err := cmd.Wait(); err == nil || says.Len() > 0 {
			t.Fatalf("the worker ended by itself: %s", says.String())
		}
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	n, charged := strings.Count(string(asked), "\n"), (&pawltest.Result[string]{Run: run}).Meter(llm.MeterCalls)
	t.Logf("%d processes, asked %d times, %d charged of %d", processes, n, charged, killedCap)
	if n > killedCap || charged > killedCap || int64(n) > charged || n < 10 {
		t.Errorf("asked %d times, %d charged, at most %d", n, charged, killedCap)
	}
	if run.Status != pawl.StatusSucceeded && (run.Err == nil || run.Err.Code != pawl.CodeCrashLoop) {
		t.Errorf("the run is %s: %v", run.Status, run.Err)
	}
}
