package engine_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"
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
// the driver alone does: the same bytes (a log row and the run's row a step) in groups of 64 a transaction. They take turns of a
// fraction of a second, since machines that others share change their speed meanwhile; the ratio is the middle one of all turns.
func BenchmarkDurable(b *testing.B) {
	var ratio, ours, theirs float64
	for b.Loop() {
		ratio, ours, theirs = durableRates(b, 15)
	}
	b.ReportMetric(ours, "engine-commits/s")
	b.ReportMetric(theirs, "driver-commits/s")
	b.ReportMetric(ratio, "engine/driver")
}

// TestLongDurableRate holds what the engine's commits cost beside the driver's own: half as many a second on a machine that
// does nothing else. Others may be busy on this one, so it is the best of up to three that counts, and a generous bound.
func TestLongDurableRate(t *testing.T) {
	const enough = 0.25
	best := 0.0
	for range 3 {
		ratio, _, _ := durableRates(t, 5)
		if best = max(best, ratio); best > enough {
			break
		}
	}
	t.Logf("the engine commits %.2f times as often as the driver alone", best)
	if best < enough {
		t.Error("that is too little")
	}
}

// durableRates lets engine and driver take turns, and gives the middle of their ratios and of their commits a second.
func durableRates(tb testing.TB, turns int) (ratio, ours, theirs float64) {
	const nodes = 500
	s := openSQLite(tb)
	f := newFleet(tb, s, inFlight)
	f.turn(tb.Context(), tb, nodes)
	step, row := sizes(tb, s)
	d := newDriver(tb, step, row)
	defer func() { _, _ = s.Close(), d.db.Close() }()
	var os, ts, ratios []float64
	for range turns {
		o, t := f.turn(tb.Context(), tb, nodes), d.turn(nodes)
		os, ts, ratios = append(os, o), append(ts, t), append(ratios, o/t)
	}
	return middle(ratios), middle(os), middle(ts)
}

func middle(fs []float64) float64 {
	slices.Sort(fs)
	return fs[len(fs)/2]
}

// engineOn is how many commits a second the engine makes with so many runs in flight, each of so many nodes.
func engineOn(b *testing.B, s store.Store, flight, nodes int) float64 {
	f := newFleet(b, s, flight)
	turns, sum := 0, 0.0
	for b.Loop() {
		turns, sum = turns+1, sum+1/f.turn(b.Context(), b, nodes)
	}
	b.ReportMetric(float64(turns)/sum, "commits/s")
	return float64(turns) / sum
}

// fleet is so many runs at a time on one engine.
type fleet struct {
	e     *engine.Engine
	runs  int
	ended chan string
}

func newFleet(tb testing.TB, s store.Store, runs int) *fleet {
	f := &fleet{runs: runs, ended: make(chan string, runs)}
	var err error
	f.e, err = engine.New(s, []*pawl.Workflow{build(tb, ring())}, engine.Config{Slots: runs, Trace: engine.Trace{
		Ended: func(run string, _ pawl.Status, _ *pawl.Error) { f.ended <- run },
		Fault: func(op string, err error) { tb.Error(op, err) },
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// turn starts the runs, each of so many nodes, and gives the commits a second until all have ended.
func (f *fleet) turn(ctx context.Context, tb testing.TB, nodes int) float64 {
	rs := f.e.As(pawl.Caller{})
	for range f.runs {
		if _, err := rs.Start(ctx, "ring", json.RawMessage(strconv.Itoa(nodes)), pawl.StartOptions{}); err != nil {
			tb.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- f.e.Work(ctx) }()
	for range f.runs {
		select {
		case <-f.ended:
		case err := <-done:
			tb.Fatal("the engine has stopped: ", err)
		}
	}
	spent := time.Since(began)
	stop()
	if err := <-done; err != nil {
		tb.Fatal(err)
	}
	return float64(f.runs*nodes) / spent.Seconds()
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

// bareDriver writes what the engine's steps write, without the engine and its store.
type bareDriver struct {
	tb             testing.TB
	db             *sql.DB
	insert, update *sql.Stmt
	log, row       []byte
	n              int
}

func newDriver(tb testing.TB, step, row int) *bareDriver {
	d := &bareDriver{tb: tb, log: make([]byte, step), row: make([]byte, row)}
	var err error
	d.db, err = sql.Open("sqlite", "file:"+filepath.Join(tb.TempDir(), "bare.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-16384)&_pragma=wal_autocheckpoint(4000)")
	d.must(nil, err)
	tb.Cleanup(func() { _ = d.db.Close() })
	d.db.SetMaxOpenConns(1)
	d.must(d.db.Exec("CREATE TABLE run (n INTEGER PRIMARY KEY, status TEXT, row BLOB); CREATE TABLE log (n INTEGER PRIMARY KEY, run INTEGER, seq INTEGER, at INTEGER, data BLOB)"))
	for i := range inFlight {
		d.must(d.db.Exec("INSERT INTO run VALUES (?, 'running', ?)", i, d.row))
	}
	d.insert, err = d.db.Prepare("INSERT INTO log (run, seq, at, data) VALUES (?, ?, ?, ?)")
	d.must(nil, err)
	d.update, err = d.db.Prepare("UPDATE run SET status = ?, row = ? WHERE n = ?")
	d.must(nil, err)
	return d
}

func (d *bareDriver) must(_ any, err error) {
	if err != nil {
		d.tb.Fatal(err)
	}
}

// turn commits so many groups, and gives the steps a second.
func (d *bareDriver) turn(groups int) float64 {
	began := time.Now()
	for range groups {
		tx, err := d.db.Begin()
		d.must(nil, err)
		in, up := tx.Stmt(d.insert), tx.Stmt(d.update)
		for j := range inFlight {
			binary.LittleEndian.PutUint64(d.row, uint64(d.n)) // SQLite does not write a page that stays as it is
			d.must(in.Exec(j, d.n, d.n, d.log))
			d.must(up.Exec("running", d.row, j))
			d.n++
		}
		d.must(nil, tx.Commit())
	}
	return float64(groups*inFlight) / time.Since(began).Seconds()
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
