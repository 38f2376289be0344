package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl/internal/pgtest"
	"pawl/store"
)

// BenchmarkApply shows, in one run, what a step costs through the store and through pgx with the same rows: one log row and one
// update of a state of 2 KB, in one round trip. The server syncs. The ratio of the two is what the store makes of pgx: below 1
// it costs, above 1 its commits in groups pay.
func BenchmarkApply(b *testing.B) {
	address := pgtest.Start(b, true).URL()
	for _, flight := range []int{1, 8, 32} {
		var bare float64
		b.Run(fmt.Sprint("pgx/", flight), func(b *testing.B) { bare = applyBare(b, address, flight) })
		b.Run(fmt.Sprint("store/", flight), func(b *testing.B) {
			if rate := applyStore(b, address, flight); bare > 0 {
				b.ReportMetric(rate/bare, "ratio")
			}
		})
	}
}

// inFlight does something b.N times from so many goroutines, and answers how often a second.
func inFlight(b *testing.B, flight int, do func(i int) error) float64 {
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range flight {
		wg.Go(func() {
			for range work {
				if err := do(i); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "steps/s")
	return rate
}

func held(b *testing.B, s *Store, count int) []store.Run {
	for i := range count {
		must(b, s.Create(b.Context(), store.NewRun{ID: fmt.Sprint(i)}))
	}
	rs, _, err := s.Claim(b.Context(), store.Claim{Worker: "w", Max: count, Hold: time.Hour})
	must(b, err)
	if len(rs) != count {
		b.Fatal(len(rs))
	}
	return rs
}

func applyStore(b *testing.B, address string, flight int) float64 {
	s := open(b, pgtest.In(address, pgtest.Schema(b, address)), Options{})
	ctx, row, log := context.Background(), state(), make([]byte, 200)
	rs := held(b, s, flight)
	return inFlight(b, flight, func(i int) error {
		return s.Apply(ctx, store.Change{
			Run: rs[i].ID, Epoch: rs[i].Epoch, Status: "running", Node: "n", Row: row, Add: []store.Row{{Stream: store.Step, Data: log}},
		})
	})
}

// state is 2 KB that do not compress to nothing.
func state() []byte {
	b := make([]byte, 2048)
	for i := range b {
		b[i] = byte('a' + i*i%23)
	}
	return b
}

func applyBare(b *testing.B, address string, flight int) float64 {
	schema := pgtest.Schema(b, address)
	conf, err := pgxpool.ParseConfig(pgtest.In(address, schema))
	must(b, err)
	conf.MaxConns = int32(flight)
	ctx := context.Background()
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	must(b, err)
	defer pool.Close()
	for _, text := range []string{
		"CREATE SCHEMA " + schema, "CREATE TABLE run (n bigint PRIMARY KEY, status text, row bytea) WITH (fillfactor = 40, toast_tuple_target = 4080)",
		"CREATE TABLE log (run bigint, stream smallint, seq bigint, at bigint, data bytea, PRIMARY KEY (run, stream, seq))",
		fmt.Sprintf("INSERT INTO run SELECT n, 'running', '' FROM generate_series(0, %d) n", flight-1),
	} {
		_, err := pool.Exec(ctx, text)
		must(b, err)
	}
	row, log, seqs := state(), make([]byte, 200), make([]int64, flight)
	return inFlight(b, flight, func(i int) error {
		seqs[i]++
		batch := &pgx.Batch{}
		batch.Queue("UPDATE run SET status = $2, row = $3 WHERE n = $1", i, "running", row)
		batch.Queue("INSERT INTO log (run, stream, seq, at, data) VALUES ($1, 0, $2, $3, $4)", i, seqs[i], seqs[i], log)
		return pool.SendBatch(ctx, batch).Close()
	})
}

// BenchmarkClaim claims and gives back, and asks where there is nothing to claim.
func BenchmarkClaim(b *testing.B) {
	s := open(b, empty(b), Options{})
	ctx := b.Context()
	must(b, s.Create(ctx, store.NewRun{ID: "r", Workflow: "w", Version: "1"}))
	for _, kinds := range [][]string{{"w@1"}, nil} {
		b.Run(fmt.Sprint("idle/", kinds), func(b *testing.B) {
			for b.Loop() {
				_, _, err := s.Claim(ctx, store.Claim{Worker: "w", Kinds: kinds, Hold: time.Minute})
				must(b, err)
			}
		})
		b.Run(fmt.Sprint("busy/", kinds), func(b *testing.B) {
			for b.Loop() {
				rs, _, err := s.Claim(ctx, store.Claim{Worker: "w", Kinds: kinds, Max: 5, Hold: time.Minute})
				must(b, err)
				must(b, s.Apply(ctx, store.Change{Run: "r", Epoch: rs[0].Epoch, Release: true}))
			}
		})
	}
}
