package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl/store"
)

const (
	// incomplete counts the runs that lack one of their rows: nothing finds them.
	incomplete = `SELECT (SELECT count(*) FROM run r WHERE NOT EXISTS (SELECT FROM state s WHERE s.n = r.n))
	+ (SELECT count(*) FROM state s WHERE NOT EXISTS (SELECT FROM run r WHERE r.n = s.n))`
	// gaps looks at the streams of the runs that were made last: as many rows as the last number says, and no more.
	gaps = `
SELECT count(*) FROM (SELECT * FROM state ORDER BY n DESC LIMIT 200) s, LATERAL (
	SELECT count(*) FILTER (WHERE stream = 0) AS steps, count(*) FILTER (WHERE stream = 1) + count(told) AS events,
		count(*) FILTER (WHERE stream = 2) AS calls, count(*) FILTER (WHERE stream = 3) AS inbox,
		count(*) FILTER (WHERE stream = 4) AS blobs, count(*) FILTER (WHERE stream = 5) AS audits FROM log WHERE run = s.n) l
WHERE (s.steps, s.events, s.calls, s.inbox, s.blobs, s.audits) IS DISTINCT FROM (l.steps, l.events, l.calls, l.inbox, l.blobs, l.audits)`
)

// oldest is how many transactions ago the oldest snapshot was taken that keeps dead rows from being removed: of a transaction that
// somebody leaves open, of a replica, or of one that was prepared and forgotten.
const oldest = `
SELECT coalesce(max(age(x)), 0) FROM (
	SELECT backend_xmin AS x FROM pg_stat_activity WHERE pid <> pg_backend_pid() UNION ALL
	SELECT xmin FROM pg_replication_slots UNION ALL
	SELECT transaction FROM pg_prepared_xacts) o`

// tooOld is what a busy queue writes in about a quarter of an hour.
const tooOld = 1_000_000

// check gathers findings on one connection.
type check struct {
	c        *pgxpool.Conn
	findings []store.Finding
}

func (k *check) note(name, value, fault string) {
	k.findings = append(k.findings, store.Finding{Name: name, Value: value, Fault: fault})
}

// ask notes the one value of a query. What cannot be read is a fault, and the rest examined all the same.
func (k *check) ask(ctx context.Context, name, query string, fault func(value string) string) {
	var value string
	err := k.c.QueryRow(ctx, "SELECT ("+query+")::text").Scan(&value)
	if coded(err, "57014") {
		k.note(name, "not known: there is too much to look through", "")
		return
	}
	if err != nil {
		k.note(name, "", explain(err).Error())
		return
	}
	k.note(name, value, fault(value))
}

// Check examines the schema, the server and its clock, whether what belongs together is there, and how long a commit takes.
func (s *Store) Check(ctx context.Context) ([]store.Finding, error) {
	k := &check{}
	err := s.ready(ctx)
	if err != nil {
		return nil, s.fault(ctx, "check", err)
	}
	err = s.look(ctx, patience, func(ctx context.Context, c *pgxpool.Conn) error {
		k.c = c
		s.examine(ctx, k)
		return nil
	})
	if err := s.ready(ctx); err != nil {
		return nil, s.fault(ctx, "check", err)
	}
	if err != nil {
		k.note("open", s.conf.where, explain(err).Error())
	}
	return k.findings, nil
}

func (s *Store) examine(ctx context.Context, k *check) {
	good := func(string) string { return "" }
	none := func(fault string) func(string) string {
		return func(v string) string {
			if v == "0" {
				return ""
			}
			return fault
		}
	}
	k.ask(ctx, "schema", "SELECT version FROM about", func(v string) string {
		n, err := strconv.Atoi(v)
		if err == nil {
			err = ours(n)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	k.ask(ctx, "incomplete", incomplete, none("runs without some of their rows cannot be found: restore a backup"))
	k.ask(ctx, "integrity", gaps, none("streams of runs have gaps: restore a backup"))
	k.ask(ctx, "runs", "SELECT count(*) FROM run", good)
	k.ask(ctx, "runs_live", "SELECT count(*) FROM state WHERE NOT ended", good)
	k.ask(ctx, "questions_open", "SELECT count(*) FROM question WHERE NOT closed", good)
	k.note("database", s.conf.where+", schema "+s.conf.schema, "")
	k.ask(ctx, "server_version", "SELECT current_setting('server_version')", good)
	k.ask(ctx, "server_number", "SELECT current_setting('server_version_num')", func(v string) string {
		if n, err := strconv.Atoi(v); err != nil || n < 130000 {
			return "Postgres 13 or later is needed"
		}
		return ""
	})
	k.ask(ctx, "synchronous_commit", "SELECT current_setting('synchronous_commit')", good) // of this connection: see greet
	k.ask(ctx, "encoding", "SELECT current_setting('server_encoding')", good)
	k.ask(ctx, "oldest_snapshot", oldest, func(v string) string {
		if n, err := strconv.Atoi(v); err == nil && n < tooOld {
			return ""
		}
		return "so many transactions ago: a transaction that stays open keeps dead rows, and all becomes slower: look in pg_stat_activity, pg_replication_slots and pg_prepared_xacts"
	})
	k.clock(ctx)
	k.commit(ctx)
	listening := ""
	if !s.listener.up.Load() {
		listening = "no connection listens: changes of other processes are noticed late"
	}
	k.note("listening", strconv.FormatBool(listening == ""), listening)
}

// clock compares the server's clock with this machine's. Nothing goes by the latter, so that a difference is no fault.
func (k *check) clock(ctx context.Context) {
	var ns int64
	from := time.Now()
	if err := k.c.QueryRow(ctx, readClock).Scan(&ns); err != nil {
		k.note("clock", "", explain(err).Error())
		return
	}
	middle := from.Add(time.Since(from) / 2)
	k.note("clock", fmt.Sprintf("%v ahead of this machine", time.Unix(0, ns).Sub(middle).Round(time.Millisecond)), "")
}

// commit is the shortest of a few commits that write: what each costs at the least.
func (k *check) commit(ctx context.Context) {
	var best time.Duration
	for i := range 5 {
		from := time.Now()
		err := pgx.BeginFunc(ctx, k.c, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE about SET version = version")
			return err
		})
		if err != nil {
			k.note("commit", "", explain(err).Error())
			return
		}
		if took := time.Since(from); i == 0 || took < best {
			best = took
		}
	}
	k.note("commit", best.Round(time.Microsecond).String(), "")
}
