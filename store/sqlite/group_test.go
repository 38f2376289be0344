package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"pawl/store"
)

// What waits together is committed together, and one that is refused in the middle of its writes harms nobody.
func TestGroupCommit(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	ctx := t.Context()
	must(t, s.Create(ctx, store.NewRun{ID: "r"}))
	release, entered := make(chan struct{}), make(chan struct{})
	go func() { // holds the writer until everybody waits
		_ = s.do(ctx, "test", &op{run: func(*tx) error { close(entered); <-release; return nil }})
	}()
	<-entered
	before := s.writer.groups
	const n = 100
	results := make(chan error, n)
	for i := range n {
		go func() {
			c := store.Change{Run: "r", Add: []store.Row{{Stream: store.Step, Data: fmt.Append(nil, i)}}}
			if i%10 == 0 { // written, then refused
				c.Letters = []store.Letter{{Run: "gone", Live: true}}
			}
			results <- s.Apply(ctx, c)
		}()
	}
	for len(s.writer.ops) < n {
		runtime.Gosched()
	}
	close(release)
	stale := 0
	for range n {
		if err := <-results; errors.Is(err, store.ErrStale) {
			stale++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.Read(ctx, store.Scope{All: true}, "r", store.Query{Stream: store.Step})
	if err != nil || stale != n/10 || len(rows) != n-n/10 {
		t.Fatal(stale, len(rows), err)
	}
	must(t, s.Close())
	if got := s.writer.groups - before; got > 3 {
		t.Fatalf("%d commits for %d changes that waited together", got, n)
	}
}

// An operation that fails without a savepoint takes the group back; all of it is repeated, each alone.
func TestGroupRepeated(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	ctx := t.Context()
	must(t, s.Create(ctx, store.NewRun{ID: "r"}))
	release, entered, results := make(chan struct{}), make(chan struct{}), make(chan error, 3)
	go func() {
		results <- s.do(ctx, "test", &op{run: func(t *tx) error {
			select {
			case <-entered:
			default:
				close(entered)
			}
			<-release
			return t.letter(&store.Letter{Run: "r", Add: []store.Row{{Stream: store.Inbox}}})
		}})
	}()
	<-entered
	go func() {
		results <- s.do(ctx, "test", &op{run: func(t *tx) error {
			if err := t.letter(&store.Letter{Run: "r", Add: []store.Row{{Stream: store.Inbox}}}); err != nil {
				return err
			}
			return store.ErrStale
		}})
	}()
	for len(s.writer.ops) < 1 {
		runtime.Gosched()
	}
	close(release)
	a, b := <-results, <-results
	if err := errors.Join(a, b); !errors.Is(err, store.ErrStale) || a != nil && b != nil {
		t.Fatal(a, b)
	}
	r, err := s.Get(ctx, store.Scope{All: true}, "r")
	if err != nil || r.Inbox != 1 {
		t.Fatal(r.Inbox, err)
	}
}

// A stream of any length is read in pages from anywhere.
func TestLongStream(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	ctx := t.Context()
	var rows []store.Row
	for i := range 1000 {
		rows = append(rows, store.Row{Stream: store.Event, Data: fmt.Append(nil, i+1)})
	}
	must(t, s.Create(ctx, store.NewRun{ID: "r", Add: rows}))
	for _, limit := range []int{1, 7, 64, 100, 999, 0} {
		for after := int64(0); after < 1000; after += 61 {
			got, err := s.Read(ctx, store.Scope{All: true}, "r", store.Query{Stream: store.Event, After: after, Limit: limit})
			must(t, err)
			want := int(1000 - after)
			if limit > 0 {
				want = min(want, limit)
			}
			if len(got) != want || got[0].Seq != after+1 || string(got[want-1].Data) != fmt.Sprint(after+int64(want)) {
				t.Fatalf("after %d, limit %d: %d rows, want %d", after, limit, len(got), want)
			}
		}
	}
}

// A hundred thousand waiting runs cost no memory; that no claim looks at them one by one is TestPlans' business.
func TestLongManyWaiting(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	ctx := t.Context()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := 0; i < 100_000; i += 1000 {
		rs := make([]store.NewRun, 1000)
		for j := range rs {
			rs[j] = store.NewRun{ID: fmt.Sprintf("%06d", i+j), Workflow: "w", Version: "1", Row: []byte("x"), After: time.Hour}
		}
		must(t, s.Create(ctx, rs...))
	}
	must(t, s.Create(ctx, store.NewRun{ID: "due", Workflow: "w", Version: "1"}))
	start := time.Now()
	rs, next, err := s.Claim(ctx, store.Claim{Worker: "w", Kinds: []string{"w@1"}, Max: 10, Hold: 2 * time.Hour})
	took := time.Since(start)
	if err != nil || len(rs) != 1 || next < 50*time.Minute {
		t.Fatal(len(rs), next, err)
	}
	grown := int64(heap()) - int64(before)
	t.Logf("a claim took %v, the heap has grown by %d KB", took, grown>>10)
	if grown > 16<<20 {
		t.Fatal("too much memory")
	}
}

// Each query that runs often finds its rows by an index.
func TestPlans(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	for _, q := range []string{
		loadRun, nextPriority, firstReady, heldUntil, expired, sweep, underRoot, expiredRuns, selectKin, insertGrave, saveLease, saveProgress, owner, keyOwner,
		closeQuestion, questionRun, selectMark, selectBlob, selectRun + " WHERE r.n = ?", selectRun + " WHERE r.id = ? AND +r.tenant = ?",
		selectRun + " WHERE r.tenant = ? AND r.id < ? ORDER BY r.id DESC LIMIT ?", selectRun + " ORDER BY r.id DESC LIMIT ?",
		selectRun + " WHERE +r.tenant = ? AND " + underOrRoot + " ORDER BY r.id DESC LIMIT ?",
		selectRun + " WHERE r.tenant = ? AND r.workflow = ? AND r.key = ? AND r.key <> '' ORDER BY r.id DESC LIMIT ?",
		selectRun + " WHERE r.parent = ? AND r.parent <> ''",
		selectQuestion + " WHERE q.tenant = ? AND q.closed = 0 ORDER BY q.id DESC LIMIT ?",
		selectQuestion + " WHERE r.id = ? ORDER BY q.id DESC LIMIT ?",
		selectStream, deleteLog,
	} {
		args := make([]any, strings.Count(q, "?"))
		if strings.Contains(q, "?1") {
			args = args[:6]
		}
		rows, err := s.reads.Query("EXPLAIN QUERY PLAN "+q, args...)
		must(t, err)
		var plan []string
		for rows.Next() {
			var a, b, c int
			var text string
			must(t, rows.Scan(&a, &b, &c, &text))
			plan = append(plan, text)
		}
		must(t, rows.Close())
		text := strings.Join(plan, "\n\t")
		full := strings.Contains(text, "SCAN r\n") || strings.Contains(text, "SCAN l\n") || strings.Contains(text, "SCAN lease\n") ||
			strings.Contains(text, "SCAN o\n") || strings.Contains(text, "SCAN log")
		if testing.Verbose() || full {
			t.Log(strings.TrimSpace(q) + "\n\t" + text)
		}
		if full {
			t.Error("reads a whole table")
		}
	}
}

// When the commit itself fails in an odd way nobody can say whether it will be found on the disk: the answer says so, to
// everyone in the group, and nothing that was thought to be written is remembered.
func TestUnknownOutcome(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	ctx := t.Context()
	must(t, s.Create(ctx, store.NewRun{ID: "r"}))
	swap := func(text string) func(*tx) error {
		return func(tx *tx) error {
			delete(tx.w.prepared, "COMMIT")
			st, err := tx.w.conn.PrepareContext(ctx, text)
			tx.w.prepared["COMMIT"] = st
			return err
		}
	}
	letter := func(tx *tx) error {
		return tx.letter(&store.Letter{Run: "r", Add: []store.Row{{Stream: store.Inbox}}})
	}
	err := s.do(ctx, "test", &op{run: func(tx *tx) error {
		return errors.Join(letter(tx), swap("INSERT INTO kind (n, name) VALUES (1, '@')")(tx))
	}})
	if !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
	_ = s.do(ctx, "test", &op{run: swap("COMMIT")})
	must(t, s.do(ctx, "test", &op{run: letter}))
	r, err := s.Get(ctx, store.Scope{All: true}, "r")
	rows, _ := s.Read(ctx, store.Scope{All: true}, "r", store.Query{Stream: store.Inbox})
	if err != nil || r.Inbox != 1 || len(rows) != 1 {
		t.Fatal(r.Inbox, len(rows), err)
	}
}
