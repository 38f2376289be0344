package engine_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
	"pawl/store/sqlite"
)

const inFlight = 64

// BenchmarkDurable compares, in one program, what the engine commits a second on SQLite with 64 runs in flight and what
// the driver alone does: the same bytes (a log row and the run's row a step) in groups of 64 a transaction.
func BenchmarkDurable(b *testing.B) {
	s := openSQLite(b)
	b.Run("engine", func(b *testing.B) { engineOn(b, s, inFlight, 500) })
	step, row := sizes(b, s)
	b.Run("driver", func(b *testing.B) { driverAlone(b, step, row) })
}

// TestLongDurableRate holds what the engine's commits cost beside the driver's own: half as many a second on a machine that
// does nothing else. Others may be busy on this one, so it is the best of three that counts, and a generous bound.
func TestLongDurableRate(t *testing.T) {
	best := 0.0
	for range 3 {
		var ours, theirs float64
		s := openSQLite(t)
		testing.Benchmark(func(b *testing.B) { ours = engineOn(b, s, inFlight, 500) })
		step, row := sizes(t, s)
		testing.Benchmark(func(b *testing.B) { theirs = driverAlone(b, step, row) })
		if best = max(best, ours/theirs); best > 0.5 {
			break
		}
	}
	t.Logf("the engine commits %.2f times as often as the driver alone", best)
	if best < 0.2 {
		t.Error("that is too little")
	}
}

// engineOn is how many commits a second the engine makes with so many runs in flight, each of so many nodes.
func engineOn(b *testing.B, s store.Store, flight, nodes int) float64 {
	ended := make(chan string, flight)
	e, err := engine.New(s, []*pawl.Workflow{build(b, ring())}, engine.Config{Slots: flight, Trace: engine.Trace{
		Ended: func(run string, _ pawl.Status, _ *pawl.Error) { ended <- run },
		Fault: func(op string, err error) { b.Error(op, err) },
	}})
	if err != nil {
		b.Fatal(err)
	}
	rs := e.As(pawl.Caller{})
	n, spent := 0, time.Duration(0)
	for b.Loop() {
		for range flight {
			if _, err := rs.Start(b.Context(), "ring", json.RawMessage(strconv.Itoa(nodes)), pawl.StartOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(b.Context())
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- e.Work(ctx) }()
		for range flight {
			<-ended
		}
		spent += time.Since(began)
		stop()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		n += flight * nodes
	}
	b.ReportMetric(float64(n)/spent.Seconds(), "commits/s")
	return float64(n) / spent.Seconds()
}

func openSQLite(b testing.TB) store.Store {
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "pawl.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// sizes are the mean sizes of what a step writes.
func sizes(b testing.TB, s store.Store) (step, row int) {
	all := store.Scope{All: true}
	rs, err := s.List(b.Context(), all, store.Filter{}, store.Page{Limit: 1})
	if err != nil || len(rs) == 0 {
		b.Fatal(rs, err)
	}
	rows, err := s.Read(b.Context(), all, rs[0].ID, store.Query{Stream: store.Step})
	if err != nil || len(rows) == 0 {
		b.Fatal(len(rows), err)
	}
	for _, r := range rows {
		step += len(r.Data)
	}
	return step / len(rows), len(rs[0].Row)
}

func driverAlone(b *testing.B, step, row int) float64 {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bare.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-16384)&_pragma=wal_autocheckpoint(4000)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	must := func(_ any, err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(db.Exec("CREATE TABLE run (n INTEGER PRIMARY KEY, status TEXT, row BLOB); CREATE TABLE log (n INTEGER PRIMARY KEY, run INTEGER, seq INTEGER, at INTEGER, data BLOB)"))
	for i := range inFlight {
		must(db.Exec("INSERT INTO run VALUES (?, 'running', ?)", i, make([]byte, row)))
	}
	insert, err := db.Prepare("INSERT INTO log (run, seq, at, data) VALUES (?, ?, ?, ?)")
	must(nil, err)
	update, err := db.Prepare("UPDATE run SET status = ?, row = ? WHERE n = ?")
	must(nil, err)
	a, r := make([]byte, step), make([]byte, row)
	began, n := time.Now(), 0
	for b.Loop() {
		tx, err := db.BeginTx(b.Context(), nil)
		must(nil, err)
		in, up := tx.Stmt(insert), tx.Stmt(update)
		for j := range inFlight {
			binary.LittleEndian.PutUint64(r, uint64(n)) // SQLite does not write a page that stays as it is
			must(in.Exec(j, n, n, a))
			must(up.Exec("running", r, j))
			n++
		}
		must(nil, tx.Commit())
	}
	rate := float64(n) / time.Since(began).Seconds()
	b.ReportMetric(rate, "commits/s")
	b.ReportMetric(float64(step+row), "bytes/commit")
	return rate
}

// BenchmarkWaiting is the heap and the goroutines that 100,000 waiting runs cost a working engine on SQLite.
func BenchmarkWaiting(b *testing.B) {
	const runs = 100_000
	for b.Loop() {
		s := openSQLite(b)
		var parked atomic.Int64
		e, err := engine.New(s, []*pawl.Workflow{build(b, asking())}, engine.Config{Trace: engine.Trace{
			Visit: func(engine.Visited) { parked.Add(1) },
		}})
		if err != nil {
			b.Fatal(err)
		}
		rs := e.As(pawl.Caller{})
		var wg sync.WaitGroup
		for i := range inFlight {
			wg.Go(func() {
				for range runs/inFlight + min(max(runs%inFlight-i, 0), 1) {
					if _, err := rs.Start(b.Context(), "asking", json.RawMessage("1"), pawl.StartOptions{}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		before := runtime.NumGoroutine()
		ctx, stop := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- e.Work(ctx) }()
		for parked.Load() < runs {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second) // the last ones are committed
		heap, after := heapMB(), runtime.NumGoroutine()
		stop()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(heap, "heap-MB")
		b.ReportMetric(float64(after-before), "goroutines")
	}
}

func asking() *pawl.Graph[int, counter, int] {
	g := pawl.New[int, counter, int]("asking", pawl.Options{Version: "1"})
	ask := g.Node("ask", func(ctx context.Context, s counter) (counter, error) {
		_, err := pawl.Ask[string](ctx, "q", pawl.Question{Text: "?"})
		return s, err
	})
	end := g.Succeed("DONE")
	g.Start(ask, func(int) (counter, error) { return counter{}, nil })
	g.From(ask).Otherwise(end)
	g.Finish(func(s counter, _ pawl.Ending) (int, error) { return s.N, nil })
	return g
}

func heapMB() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
