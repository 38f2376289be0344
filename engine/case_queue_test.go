package engine_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl/internal/pgtest"
	"pawl/store"
	"pawl/store/postgres"
)

// jobs are runs that are claimed and ended, so many at once, on a store that has them made before; the time of a claim is the median.
func jobs(t *testing.T, s store.Store, from, count, at int) time.Duration {
	t.Helper()
	var took []time.Duration
	for n := from; n < from+count; n += at {
		var rs []store.NewRun
		for i := range at {
			rs = append(rs, store.NewRun{ID: fmt.Sprintf("r%06d", n+i), Workflow: "w", Version: "1"})
		}
		if err := s.Create(t.Context(), rs...); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got, _, err := s.Claim(t.Context(), store.Claim{Worker: "w", Kinds: []string{"w@1"}, Max: at, Hold: time.Minute})
		took = append(took, time.Since(began))
		if err != nil || len(got) != at {
			t.Fatal(len(got), err)
		}
		var cs []store.Change
		for _, r := range got {
			cs = append(cs, store.Change{Run: r.ID, Epoch: r.Epoch, Row: []byte("x"), End: true})
		}
		if err := s.Apply(t.Context(), cs...); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// TestCase28ALongTransactionOnSQLite: claims are as fast beside a snapshot that somebody keeps open.
func TestCase28ALongTransactionOnSQLite(t *testing.T) {
	s := onSQLite(t)()
	defer s.Close()
	before := jobs(t, s, 0, 200, 1)
	db, err := sql.Open("sqlite", s.(*filed).path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN; SELECT count(*) FROM run"); err != nil {
		t.Fatal(err)
	}
	jobs(t, s, 200, 6000, 100)
	after := jobs(t, s, 6200, 200, 1)
	t.Logf("a claim takes %s, and %s with 6000 jobs behind the snapshot", before, after)
	if after > 10*before+time.Millisecond {
		t.Error("claims have become slow")
	}
}

// TestCase28ALongTransactionOnPostgres keeps the dead rows of 6000 jobs: a claim must not look through all of them again and
// again. Entries of the indexes that were read are counted, which are the same on a busy machine. doctor tells of the transaction.
func TestCase28ALongTransactionOnPostgres(t *testing.T) {
	server := pgtest.URL(t)
	address := pgtest.In(server, pgtest.Schema(t, server))
	open := func() store.Store {
		s, err := postgres.Open(t.Context(), address, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var conns [2]*pgx.Conn
	for i := range conns {
		c, err := pgx.Connect(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		conns[i] = c
	}
	counts, other := conns[0], conns[1]
	read := func() (n int) { // a connection tells its counts when it is closed at the latest
		const sum = "SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE schemaname = current_schema() AND relname = 'state'"
		if err := counts.QueryRow(t.Context(), sum).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	s := open()
	if _, err := other.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"); err != nil {
		t.Fatal(err)
	}
	const dead, then = 6000, 200
	jobs(t, s, 0, dead, 10)
	s.Close()
	time.Sleep(2 * time.Second) // so long a claim looks back in any case
	before := read()
	s = open()
	median := jobs(t, s, dead, then, 1)
	findings, err := s.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	each := (read() - before) / then
	t.Logf("a claim reads %d entries of the indexes beside %d dead jobs, and takes %s", each, dead, median)
	if each > 2*dead { // once is as designed where looks are quick, or rare beside what they take
		t.Error("a claim looks through all that is dead again and again")
	}
	if i := slices.IndexFunc(findings, func(f store.Finding) bool { return f.Name == "oldest_snapshot" }); i < 0 {
		t.Error("doctor does not know of the transaction")
	} else if n, err := strconv.Atoi(findings[i].Value); err != nil || n < 1000 {
		t.Errorf("%+v, %v", findings[i], err)
	}
}
