package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"

	"pawl/store"
	"pawl/store/storetest"
)

func open(t testing.TB, path string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func law(t *testing.T, o Options) {
	path := filepath.Join(t.TempDir(), "empty.db")
	if err := open(t, path, o).Close(); err != nil {
		t.Fatal(err)
	}
	empty, err := os.ReadFile(path) // copied for each case: making the tables anew each time would be most of the work
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, func(t *testing.T) store.Store {
		path := filepath.Join(t.TempDir(), "a b?#%41.db")
		if err := os.WriteFile(path, empty, 0o600); err != nil {
			t.Fatal(err)
		}
		return open(t, path, o)
	}, storetest.Options{
		Parallel: true,
		Reopen: func(t *testing.T, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, s.(*Store).path, o)
		},
		Second: func(t *testing.T, s store.Store) store.Store { return open(t, s.(*Store).path, o) },
	})
}

// The clock goes on when the wall clock is set back, follows it when that is ahead, and never goes back itself: timers and
// leases stood still for an hour otherwise, or came back to life.
func TestClock(t *testing.T) {
	var c clock
	const hour = int64(time.Hour)
	for i, step := range []struct{ wall, passed, want int64 }{
		{100 * hour, 0, 100 * hour},
		{101 * hour, hour, 101 * hour},
		{99 * hour, hour + 1, 101*hour + 1}, // set back
		{100 * hour, 2*hour + 1, 102*hour + 1},
		{100 * hour, 2*hour + 1, 102*hour + 1},
		{110 * hour, 3 * hour, 110 * hour}, // set forward, or the machine has slept
		{104 * hour, 4 * hour, 111 * hour},
	} {
		if got := c.read(step.wall, step.passed); got != step.want {
			t.Errorf("step %d: %v, want %v", i, time.Duration(got), time.Duration(step.want))
		}
	}
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	s.clock.now()
	s.clock.ahead.Add(hour) // as if the wall clock had been set back by an hour since it was read
	a := s.clock.now()
	for s.clock.now() == a {
		runtime.Gosched()
	}
	if ahead := time.Duration(a - time.Now().UnixNano()); ahead > time.Hour || ahead < 50*time.Minute {
		t.Error(ahead)
	}
}

// What is of no run goes when it has long run out: each start of a program is another worker, and the tables would grow for ever.
func TestSweepUp(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	ctx := t.Context()
	for i := range 20 {
		name := fmt.Sprint(i)
		_, _, err := s.Claim(ctx, store.Claim{Worker: name, Kinds: []string{"w@1"}, Hold: time.Minute})
		must(t, err)
		_, err = s.Take(ctx, store.Slot{Limit: name, Holder: "h", Every: time.Minute, Max: 1, Hold: time.Minute})
		must(t, err)
	}
	for _, c := range []struct {
		later         time.Duration
		workers, rest int
	}{
		{0, 20, 20},
		{time.Hour, 20, 0}, // a worker that was only held up is still known
		{2 * time.Minute, 0, 0},
	} {
		s.clock.ahead.Add(int64(c.later))
		_, err := s.Expire(ctx, 10)
		must(t, err)
		for table, want := range map[string]int{"worker": c.workers, "holder": c.rest, "rate": c.rest} {
			var n int
			must(t, s.reads.QueryRow("SELECT count(*) FROM "+table).Scan(&n))
			if n != want {
				t.Errorf("%v later: %d rows in %s, want %d", c.later, n, table, want)
			}
		}
	}
}

// Where much has expired it is not removed in one commit: nobody else could write meanwhile, and leases would run out.
func TestExpireLetsOthersWrite(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	ctx := t.Context()
	const count = 5
	for i := range count {
		id := fmt.Sprint(i)
		must(t, s.Create(ctx, store.NewRun{ID: id, Workflow: "w", Version: "1"}))
		rs, _, err := s.Claim(ctx, store.Claim{Worker: "w", Run: id, Max: 1, Hold: time.Hour})
		if err != nil || len(rs) != 1 {
			t.Fatal(len(rs), err)
		}
		must(t, s.Apply(ctx, store.Change{Run: id, Epoch: rs[0].Epoch, Row: []byte("x"), End: true, Keep: time.Nanosecond}))
	}
	var n int
	var more bool
	must(t, s.do(ctx, "expire", &op{run: func(tx *tx) (err error) {
		s.clock.ahead.Add(2 * int64(slice)) // as if so much time had passed since the commit was begun
		n, more, err = tx.expire(count)
		return err
	}}))
	if n != 1 || !more {
		t.Errorf("%d were removed in one commit, more: %v", n, more)
	}
	if n, err := s.Expire(ctx, count); n != count-1 || err != nil {
		t.Error(n, err)
	}
}

func TestLaw(t *testing.T) { law(t, Options{}) }

// The second driver is the same SQLite compiled in another way: what passes on both does not hang on one driver's manners.
func TestLawSecondDriver(t *testing.T) { law(t, Options{Driver: "sqlite3"}) }
