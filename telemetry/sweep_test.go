package telemetry_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"pawl"
	"pawl/engine"
	"pawl/store"
	"pawl/store/memory"
	"pawl/store/sqlite"
	"pawl/telemetry"
)

// leave makes runs whose process dies before it tells of them. It returns the last worker, too.
func leave(t *testing.T, s store.Store, n int) (runs []string, worker string) {
	t.Helper()
	dead, err := engine.New(s, []*pawl.Workflow{built(t, laps())}, engine.Config{}) // tells nobody
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		st, err := dead.As(all).Start(t.Context(), "laps", json.RawMessage(`{"n":1}`), pawl.StartOptions{})
		if err == nil {
			err = dead.WorkRun(t.Context(), st.Run.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, st.Run.ID)
	}
	r, err := dead.Report(t.Context(), runs[n-1], 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	return runs, r.Steps[len(r.Steps)-1].Worker
}

// TestLeftMoreThanTheQueue: a queue with little room delays what others have left, and loses none of it.
func TestLeftMoreThanTheQueue(t *testing.T) {
	t.Parallel()
	s := memory.New()
	runs, _ := leave(t, s, 60)
	sc := newScene(t, s, newReceiver(t), telemetry.Config{Queue: 6, Delay: 5 * time.Millisecond, Grace: 50 * time.Millisecond}, built(t, laps()))
	for _, run := range runs {
		sc.await(run)
	}
}

// TestLeftByOneWhoCountsAsAlive: a worker that was killed is there until its hold ends. Until then its steps are its own.
func TestLeftByOneWhoCountsAsAlive(t *testing.T) {
	t.Parallel()
	s := memory.New()
	runs, worker := leave(t, s, 1)
	if _, err := s.Renew(t.Context(), worker, nil, 2*time.Second); err != nil {
		t.Fatal(err)
	}
	sc := newScene(t, s, newReceiver(t), telemetry.Config{}, built(t, laps()))
	time.Sleep(time.Second) // half of the time for which it counts so
	if n := len(sc.to.of(runs[0])); n > 0 {
		t.Errorf("%d spans were told for one who counts as alive", n)
	}
	sc.await(runs[0])
}

// shaken is a store that cannot be read now and then.
type shaken struct {
	store.Store
	reads atomic.Int64
}

func (s *shaken) Read(ctx context.Context, sc store.Scope, id string, q store.Query) ([]store.Row, error) {
	if q.Stream == store.Audit && s.reads.Add(1) < 4 {
		return nil, fmt.Errorf("%w: for a moment", store.ErrUnavailable)
	}
	return s.Store.Read(ctx, sc, id, q)
}

// TestLeftAndNotReadable: a run that cannot be read now is read later.
func TestLeftAndNotReadable(t *testing.T) {
	t.Parallel()
	s := memory.New()
	runs, _ := leave(t, s, 3)
	sc := newScene(t, &shaken{Store: s}, newReceiver(t), telemetry.Config{}, built(t, laps()))
	for _, run := range runs {
		sc.await(run)
	}
	if len(sc.faults) == 0 {
		t.Error("nothing was said")
	}
}

// TestOwnMoreThanTheQueue: a process whose queue was full finds its runs again, also where another process looks for all: to that
// one they are the steps of somebody who lives.
func TestOwnMoreThanTheQueue(t *testing.T) {
	t.Parallel()
	s := memory.New()
	if busy, err := s.Take(t.Context(), store.Slot{Limit: "pawl.traces", Holder: "other", Burst: 1, Max: 1, Hold: time.Hour}); err != nil || busy > 0 {
		t.Fatal(busy, err)
	}
	sc := newScene(t, s, newReceiver(t), telemetry.Config{Queue: 4, Delay: 300 * time.Millisecond, Grace: 50 * time.Millisecond}, built(t, laps()))
	var runs []string
	for range 30 {
		runs = append(runs, sc.start("laps", `{"n":1}`, pawl.StartOptions{}))
		sc.work(runs[len(runs)-1])
	}
	if sc.traces.Count().Late == 0 {
		t.Fatal("the queue was never full")
	}
	for _, run := range runs {
		sc.await(run)
	}
}

// asks asks n times.
func asks() *pawl.Graph[state, state, state] {
	g := pawl.New[state, state, state]("asks", pawl.Options{Version: "1"})
	ask := g.Node("ask", func(ctx context.Context, s state) (state, error) {
		_, err := pawl.Ask[bool](ctx, fmt.Sprint("ok", s.N), pawl.Question{Text: "Go on?"})
		s.N--
		return s, err
	})
	g.Start(ask, func(s state) (state, error) { return s, nil })
	g.From(ask).When("again", func(s state) bool { return s.N > 0 }, ask).AtMost(100).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s state, _ pawl.Ending) (state, error) { return s, nil })
	return g
}

// answer answers the open question of a run, and works it on.
func (sc *scene) answer(run string) {
	sc.Helper()
	qs, err := sc.engine.As(all).Questions(context.Background(), pawl.QuestionFilter{Run: run}, "", 0)
	if err != nil || len(qs) != 1 {
		sc.Fatal(qs, err)
	}
	if err := sc.engine.As(all).Answer(context.Background(), run, qs[0].ID, json.RawMessage("true")); err != nil {
		sc.Fatal(err)
	}
	sc.work(run)
}

// TestRunInManyHands: what another process has told meanwhile is not told again, also by one that had told before it, and after
// that other one is gone.
func TestRunInManyHands(t *testing.T) {
	t.Parallel()
	s, to := memory.New(), newReceiver(t)
	a := newScene(t, s, to, telemetry.Config{}, built(t, asks()))
	b := newScene(t, s, to, telemetry.Config{}, built(t, asks()))
	run := a.start("asks", `{"n":9}`, pawl.StartOptions{})
	a.work(run)
	a.await(run)
	for range 3 {
		b.answer(run)
		b.await(run)
		a.answer(run)
		a.await(run)
	}
	b.answer(run)
	b.await(run)
	b.stop()
	time.Sleep(2 * time.Second) // until its worker is forgotten
	a.answer(run)
	a.await(run)
}

// TestOneRunIsDamaged: a run whose log cannot be read, or misses rows, is said to be so, and holds up no other.
func TestOneRunIsDamaged(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"UPDATE log SET at = 'x' WHERE run = 1", "DELETE FROM log WHERE run = 1"} {
		path := filepath.Join(t.TempDir(), "x.db")
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		leave(t, s, 1)
		db, err := sql.Open("sqlite", path)
		if err == nil {
			_, err = db.Exec(damage)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = db.Close()
		sc := newScene(t, s, newReceiver(t), telemetry.Config{}, built(t, laps()))
		sc.soon("a word about it", func() bool { return len(sc.faults) > 0 })
		for range 3 {
			run := sc.start("laps", `{"n":1}`, pawl.StartOptions{})
			sc.work(run)
			sc.await(run)
		}
	}
}

// faulty is a store that refuses marks, or places, now and then.
type faulty struct {
	store.Store
	marks, takes atomic.Int64 // that are still refused; places after the first
	taken        atomic.Bool
}

func (f *faulty) Apply(ctx context.Context, cs ...store.Change) error {
	if len(cs) > 0 && len(cs[0].Add) > 0 && cs[0].Add[0].Key == "traced" && f.marks.Add(-1) >= 0 {
		return fmt.Errorf("%w: for a moment", store.ErrUnavailable)
	}
	return f.Store.Apply(ctx, cs...)
}

func (f *faulty) Take(ctx context.Context, sl store.Slot) (time.Duration, error) {
	if f.taken.Swap(true) && f.takes.Add(-1) >= 0 {
		return 0, fmt.Errorf("%w: for a moment", store.ErrUnavailable)
	}
	return f.Store.Take(ctx, sl)
}

// TestMarkIsRefused: what was sent and could not be marked is not sent again by the process that knows, also after it has forgotten
// what it had read; it is marked when that can be done.
func TestMarkIsRefused(t *testing.T) {
	t.Parallel()
	f := &faulty{Store: memory.New()}
	f.marks.Store(3)
	sc := newScene(t, f, newReceiver(t), telemetry.Config{}, built(t, asks()))
	run := sc.start("asks", `{"n":9}`, pawl.StartOptions{})
	sc.work(run)
	sc.await(run)
	time.Sleep(6 * time.Second) // what was read is forgotten after five
	sc.answer(run)
	sc.await(run)
	sc.stop()
	again := newScene(t, f, sc.to, telemetry.Config{}, built(t, asks()))
	time.Sleep(2 * time.Second) // many rounds, for one too many
	again.await(run)
}

// TestPlaceCannotBeKept: that the place cannot be asked for does not make what was left forgotten.
func TestPlaceCannotBeKept(t *testing.T) {
	t.Parallel()
	f := &faulty{Store: memory.New()}
	f.takes.Store(2)
	runs, worker := leave(t, f.Store, 2)
	if _, err := f.Renew(t.Context(), worker, nil, 8*time.Second); err != nil {
		t.Fatal(err)
	}
	sc := newScene(t, f, newReceiver(t), telemetry.Config{}, built(t, laps()))
	for _, run := range runs {
		sc.await(run)
	}
}

// TestPartOfARequestIsTaken: of a request that is sent by halves, the half that was taken is not sent again when the other fails.
func TestPartOfARequestIsTaken(t *testing.T) {
	t.Parallel()
	sc := newScene(t, nil, newReceiver(t), telemetry.Config{}, built(t, laps()))
	var fails atomic.Int64
	sc.to.set(func(spans []*tracepb.Span) int {
		switch {
		case len(spans) > 20:
			return http.StatusRequestEntityTooLarge
		case fails.Add(1) == 2: // the second part
			return http.StatusServiceUnavailable
		}
		return 0
	})
	run := sc.start("laps", `{"n":40}`, pawl.StartOptions{})
	sc.work(run)
	sc.await(run)
}

// TestOnlyOneTellsWhatWasLeft: a run that its dead worker has left is taken up by another process while a slow receiver is being told
// of it: nothing comes twice.
func TestOnlyOneTellsWhatWasLeft(t *testing.T) {
	t.Parallel()
	s, to := memory.New(), newReceiver(t)
	dead, err := engine.New(s, []*pawl.Workflow{built(t, asks())}, engine.Config{}) // tells nobody
	if err != nil {
		t.Fatal(err)
	}
	st, err := dead.As(all).Start(t.Context(), "asks", json.RawMessage(`{"n":3}`), pawl.StartOptions{})
	if err == nil {
		err = dead.WorkRun(t.Context(), st.Run.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	to.set(func([]*tracepb.Span) int { time.Sleep(100 * time.Millisecond); return 0 })
	c := telemetry.Config{Delay: 10 * time.Millisecond, Grace: time.Second} // longer than requests take, as ever
	a := newScene(t, s, to, c, built(t, asks()))
	b := newScene(t, s, to, c, built(t, asks()))
	for range 3 {
		b.answer(st.Run.ID)
		time.Sleep(400 * time.Millisecond)
	}
	a.await(st.Run.ID)
	time.Sleep(2 * time.Second) // for one too many, twice the grace
	a.await(st.Run.ID)
}

// TestNothingIsMarkedInVain: while a receiver is down the log grows by no marks.
func TestNothingIsMarkedInVain(t *testing.T) {
	t.Parallel()
	sc := newScene(t, nil, newReceiver(t), telemetry.Config{}, built(t, laps()))
	var asked atomic.Int64
	sc.to.set(func([]*tracepb.Span) int { asked.Add(1); return http.StatusServiceUnavailable })
	run := sc.start("laps", `{"n":3}`, pawl.StartOptions{})
	sc.work(run)
	marks := func() int {
		rows, err := sc.store.Read(context.Background(), store.Scope{All: true}, run, store.Query{Stream: store.Audit, Key: "traced"})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	sc.soon("some attempts", func() bool { return asked.Load() > 4 })
	if n := marks(); n != 0 {
		t.Errorf("%d marks of nothing", n)
	}
	sc.to.set(nil)
	sc.await(run)
	sc.soon("a mark", func() bool { return marks() > 0 })
}
