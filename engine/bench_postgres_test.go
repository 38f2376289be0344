package engine_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl/internal/pgtest"
	"pawl/store/postgres"
)

// BenchmarkDurablePostgres compares, in one program and on one server that syncs, what the engine commits a second with 1, 8 and
// 32 runs in flight and what pgx alone does: the same bytes (a log row and the run's row a step) in one round trip a step.
func BenchmarkDurablePostgres(b *testing.B) {
	address := pgtest.Start(b, true).URL()
	for _, flight := range []int{1, 8, 32} {
		var ours float64
		var step, row int
		b.Run(fmt.Sprint("engine/", flight), func(b *testing.B) {
			s, err := postgres.Open(context.Background(), pgtest.In(address, pgtest.Schema(b, address)), postgres.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			ours = engineOn(b, s, flight, 200)
			step, row = sizes(b, s)
		})
		b.Run(fmt.Sprint("pgx/", flight), func(b *testing.B) {
			if theirs := pgxAlone(b, address, flight, step, row); ours > 0 {
				b.ReportMetric(ours/theirs, "engine/pgx")
			}
		})
	}
}

// pgxAlone is how many commits a second pgx makes from so many connections.
func pgxAlone(b *testing.B, address string, flight, step, row int) float64 {
	ctx, schema := context.Background(), pgtest.Schema(b, address)
	conf, err := pgxpool.ParseConfig(pgtest.In(address, schema))
	if err != nil {
		b.Fatal(err)
	}
	conf.MaxConns = int32(flight)
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	for _, text := range []string{
		"CREATE SCHEMA " + schema, "CREATE TABLE run (n bigint PRIMARY KEY, status text, row bytea) WITH (fillfactor = 40)",
		"CREATE TABLE log (run bigint, stream smallint, seq bigint, at bigint, data bytea, PRIMARY KEY (run, stream, seq))",
		fmt.Sprintf("INSERT INTO run SELECT n, 'running', '' FROM generate_series(0, %d) n", flight-1),
	} {
		if _, err := pool.Exec(ctx, text); err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	for b.Loop() {
		const each = 100
		var wg sync.WaitGroup
		for i := range flight {
			wg.Go(func() {
				a, r := make([]byte, step), make([]byte, row)
				for j := range each {
					seq := n + j
					binary.LittleEndian.PutUint64(r, uint64(seq))
					batch := &pgx.Batch{}
					batch.Queue("UPDATE run SET status = $2, row = $3 WHERE n = $1", i, "running", r)
					batch.Queue("INSERT INTO log (run, stream, seq, at, data) VALUES ($1, 0, $2, $3, $4)", i, seq, seq, a)
					if err := pool.SendBatch(ctx, batch).Close(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		n += each
	}
	rate := float64(n*flight) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "commits/s")
	return rate
}
