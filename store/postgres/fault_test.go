package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"pawl/internal/pgtest"
	"pawl/store"
)

var all = store.Scope{All: true}

// soon repeats until it holds.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 3000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("does not come: %s", what)
}

func claim(t *testing.T, s *Store, run string) store.Run {
	t.Helper()
	rs, _, err := s.Claim(t.Context(), store.Claim{Worker: "w", Run: run, Max: 1, Hold: time.Hour})
	if err != nil || len(rs) != 1 {
		t.Fatal(len(rs), err)
	}
	return rs[0]
}

// tally counts what became of appends to one run.
type tally struct{ acknowledged, unknown, unavailable atomic.Int64 }

// appends writes to a run from several goroutines until stop is closed, and says what became of it.
func appends(t *testing.T, s *Store, r store.Run, stop <-chan struct{}) (*tally, *sync.WaitGroup) {
	n, wg := &tally{}, &sync.WaitGroup{}
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, err := s.Append(context.Background(), store.Lease{Run: r.ID, Epoch: r.Epoch}, store.Batch{Rows: []store.Row{{Stream: store.Step, Data: make([]byte, 100)}}})
				switch {
				case err == nil:
					n.acknowledged.Add(1)
				case errors.Is(err, store.ErrUnknown):
					n.unknown.Add(1)
				case errors.Is(err, store.ErrUnavailable):
					n.unavailable.Add(1)
					time.Sleep(10 * time.Millisecond)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	return n, wg
}

// agree checks that what was acknowledged is there, what was refused is not, and that no number is missing.
func (n *tally) agree(t *testing.T, s *Store, run string) {
	t.Helper()
	rows, err := s.Read(t.Context(), all, run, store.Query{Stream: store.Step})
	must(t, err)
	for i, r := range rows {
		if r.Seq != int64(i+1) {
			t.Fatalf("row %d has number %d", i+1, r.Seq)
		}
	}
	sure, perhaps := n.acknowledged.Load(), n.unknown.Load()
	t.Logf("%d acknowledged, %d unknown, %d refused, %d rows", sure, perhaps, n.unavailable.Load(), len(rows))
	if count := int64(len(rows)); count < sure || count > sure+perhaps {
		t.Fatalf("%d rows", count)
	}
}

// The server dies in the middle of commits and comes back: nothing that was acknowledged is lost, nothing that was refused is
// there, and the store goes on by itself, watchers too.
func TestFaultServerCrash(t *testing.T) {
	server := pgtest.Start(t, true)
	s, other := open(t, server.URL(), Options{}), open(t, server.URL(), Options{})
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	r := claim(t, s, "r")
	stop := make(chan struct{})
	n, wg := appends(t, s, r, stop)
	for range 2 {
		before := n.acknowledged.Load()
		soon(t, "writes", func() bool { return n.acknowledged.Load() > before+200 })
		must(t, server.Crash())
		soon(t, "a refusal", func() bool { return n.unavailable.Load() > 0 })
		if _, err := s.Get(t.Context(), all, "r"); !errors.Is(err, store.ErrUnavailable) {
			t.Error(err)
		}
		must(t, server.Up())
	}
	before := n.acknowledged.Load()
	soon(t, "writes after the crash", func() bool { return n.acknowledged.Load() > before+100 })
	close(stop)
	wg.Wait()
	n.agree(t, s, "r")
	if n.acknowledged.Load() == 0 {
		t.Fatal("nothing was written")
	}
	soon(t, "both listen again", func() bool { return s.listener.up.Load() && other.listener.up.Load() })
	for range 3 { // one that is not told by a notice takes 5 seconds at times
		if took := wake(t, s, other, "r"); took > 2*time.Second {
			t.Errorf("woken after %v", took)
		}
	}
	healthy(t, s)
}

// The server's processes are killed one by one, as an administrator or a failing network would: each call has a clear outcome, and
// the next one works.
func TestFaultKilledConnections(t *testing.T) {
	address := empty(t)
	s := open(t, address+"&application_name=fault", Options{}) // so that the test kills no others
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	stop := make(chan struct{})
	n, wg := appends(t, s, claim(t, s, "r"), stop)
	admin, err := pgx.Connect(t.Context(), address)
	must(t, err)
	defer admin.Close(context.Background())
	for i := range 30 {
		before := n.acknowledged.Load()
		soon(t, "writes", func() bool { return n.acknowledged.Load() > before+20 })
		_, err := admin.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = 'fault' AND ($1 OR query NOT LIKE 'LISTEN%')", i%3 == 0)
		must(t, err)
		_, err = s.Get(t.Context(), all, "r")
		must(t, err) // reads are read again
	}
	close(stop)
	wg.Wait()
	n.agree(t, s, "r")
	healthy(t, s)
}

func healthy(t *testing.T, s *Store) {
	t.Helper()
	soon(t, "it listens", s.listener.up.Load)
	fs, err := s.Check(t.Context())
	must(t, err)
	for _, f := range fs {
		if f.Fault != "" {
			t.Errorf("%+v", f)
		}
	}
}

// wake is how long a change of one store takes to be told by the other, by its name or as one that any run may have had: a notice
// that could not be sent a moment ago makes that of the next.
func wake(t *testing.T, from, to *Store, run string) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	seq := to.Watch(ctx)
	start := time.Now()
	must(t, from.Apply(ctx, store.Change{Run: run, Add: []store.Row{{Stream: store.Audit}}}))
	for id, err := range seq {
		must(t, err)
		if id == run || id == "" {
			return time.Since(start)
		}
	}
	t.Fatal("not woken")
	return 0
}

// Where nobody listens any more, watchers are told all the same that any run may have changed, until somebody does again.
func TestWakes(t *testing.T) {
	address := empty(t)
	s, other := open(t, address, Options{}), open(t, address, Options{})
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	var longest, sum time.Duration
	const count = 20
	for range count {
		took := wake(t, s, other, "r")
		longest, sum = max(longest, took), sum+took
	}
	t.Logf("woken after %v in the mean, %v at the most", sum/count, longest)
	if mean := sum / count; mean > 250*time.Millisecond {
		t.Errorf("woken after %v", mean)
	}
	other.listener.up.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for id, err := range other.Watch(ctx) {
		must(t, err)
		if id != "" {
			t.Fatalf("told of %q, and nothing has changed", id)
		}
		return
	}
	t.Fatal("nobody polls")
}

// A server that speaks another language is understood all the same: that it goes away, and that it has refused a commit.
func TestServerOfAnotherLanguage(t *testing.T) {
	away := &pgconn.PgError{Severity: "ВАЖНО", SeverityUnlocalized: "FATAL", Code: "57P01"}
	if err := outcome(away, false); !lost(err) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("gone before the commit: %v", err)
	}
	if err := outcome(away, true); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("gone at the commit: %v", err)
	}
	refused := &pgconn.PgError{Severity: "ОШИБКА", SeverityUnlocalized: "ERROR", Code: "40P01"}
	if err := outcome(refused, true); !again(err) || lost(err) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("refused at the commit: %v", err)
	}
}

// Whoever hands in too many ids, or odd ones, for one notice has the others look at all.
func TestPayload(t *testing.T) {
	long := make([]string, 300)
	for i := range long {
		long[i] = fmt.Sprintf("%036d", i)
	}
	if got := payload("me", []string{"a", "b"}); got != "me\na\nb" {
		t.Errorf("%q", got)
	}
	for _, ids := range [][]string{{"a", ""}, {"a\x00"}, {"\xff"}, {"a\nb"}, long} {
		if got := payload("me", ids); got != "me\n" {
			t.Errorf("%.40q for %.40q", got, ids)
		}
	}
}
