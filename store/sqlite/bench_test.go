package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pawl/store"
)

const appliers = 64

// BenchmarkApply shows, in one run, what a step costs through the store and through a bare loop that commits groups of the
// same rows on the same driver: one log row and one update of a 2 KB state. The ratio of the two is the store's own cost.
func BenchmarkApply(b *testing.B) {
	for _, driver := range []string{"sqlite", "sqlite3"} {
		b.Run(driver+"/bare", func(b *testing.B) { bare(b, driver) })
		b.Run(driver+"/store", func(b *testing.B) { applies(b, driver) })
	}
}

func applies(b *testing.B, driver string) {
	s := open(b, filepath.Join(b.TempDir(), "x.db"), Options{Driver: driver})
	ctx, row, log := context.Background(), make([]byte, 2048), make([]byte, 200)
	var leases []store.Run
	for i := range appliers {
		if err := s.Create(ctx, store.NewRun{ID: fmt.Sprint(i)}); err != nil {
			b.Fatal(err)
		}
	}
	leases, _, err := s.Claim(ctx, store.Claim{Worker: "w", Max: appliers, Hold: time.Hour})
	if err != nil || len(leases) != appliers {
		b.Fatal(len(leases), err)
	}
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, r := range leases {
		wg.Go(func() {
			for range work {
				err := s.Apply(ctx, store.Change{
					Run: r.ID, Epoch: r.Epoch, Status: "running", Node: "n", Row: row, Add: []store.Row{{Stream: store.Step, Data: log}},
				})
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	_ = s.Close()
	b.ReportMetric(float64(b.N)/float64(s.writer.groups), "steps/commit")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}

func bare(b *testing.B, driver string) {
	db, err := sql.Open(driver, dsn(filepath.Join(b.TempDir(), "x.db"), "journal_mode(WAL)", "synchronous(FULL)", "cache_size(-16384)", "wal_autocheckpoint(4000)"))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx, row, log := context.Background(), make([]byte, 2048), make([]byte, 200)
	must := func(_ sql.Result, err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(db.Exec("CREATE TABLE run (n INTEGER PRIMARY KEY, status TEXT, row BLOB); CREATE TABLE log (n INTEGER PRIMARY KEY, run INTEGER, seq INTEGER, at INTEGER, data BLOB)"))
	for i := range appliers {
		must(db.Exec("INSERT INTO run (n, status, row) VALUES (?, 'running', ?)", i, row))
	}
	insert, err := db.Prepare("INSERT INTO log (run, seq, at, data) VALUES (?, ?, ?, ?)")
	must(nil, err)
	update, err := db.Prepare("UPDATE run SET status = ?, row = ? WHERE n = ?")
	must(nil, err)
	b.ResetTimer()
	for i := 0; i < b.N; {
		tx, err := db.BeginTx(ctx, nil)
		must(nil, err)
		in, up := tx.Stmt(insert), tx.Stmt(update)
		for j := 0; j < appliers && i < b.N; j++ {
			binary.LittleEndian.PutUint64(row, uint64(i)) // SQLite does not write a page that stays as it is
			must(in.Exec(j, i, i, log))
			must(up.Exec("running", row, j))
			i++
		}
		must(nil, tx.Commit())
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}
