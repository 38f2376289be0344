package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl/store"
)

// A deleted run is gone with its descendants and all that they left, but for the row that says who did it.
func TestDelete(t *testing.T) {
	s := open(t, empty(t), Options{})
	ctx := t.Context()
	kin := func(id, parent string) store.NewRun {
		return store.NewRun{
			ID: id, Tenant: "t", User: "u", Workflow: "w", Version: "1", Key: "k" + id, Parent: parent, Root: "a",
			Caps: []store.Counter{{Meter: "m", Cap: 3}}, Add: []store.Row{{Stream: store.Audit, Data: []byte("old")}},
		}
	}
	must(t, s.Create(ctx, kin("a", ""), kin("b", "a"), kin("c", "b"), kin("other", "")))
	is := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	is(s.Delete(ctx, "none", nil), store.ErrNotFound)
	for _, id := range []string{"a", "b", "c"} {
		is(s.Delete(ctx, "a", []byte("ann")), store.ErrStale)
		r := claim(t, s, id)
		must(t, s.Apply(ctx, store.Change{Run: id, Epoch: r.Epoch, Row: []byte("x"), End: true, Ask: []store.Ask{{ID: "q" + id}}}))
	}
	must(t, s.Delete(ctx, "a", []byte("ann")))
	for _, id := range []string{"a", "b", "c"} {
		_, err := s.Get(ctx, all, id)
		is(err, store.ErrNotFound)
		_, err = s.Read(ctx, all, id, store.Query{Stream: store.Step})
		is(err, store.ErrNotFound)
		if id != "a" {
			_, err = s.Read(ctx, all, id, store.Query{Stream: store.Audit})
			is(err, store.ErrNotFound)
		}
	}
	for _, sc := range []store.Scope{all, {Tenant: "t", User: "u"}, {Tenant: "t", AllUsers: true}} {
		rows, err := s.Read(ctx, sc, "a", store.Query{Stream: store.Audit})
		if err != nil || len(rows) != 1 || rows[0].Seq != 1 || string(rows[0].Data) != "ann" || rows[0].At.IsZero() {
			t.Fatal(rows, err)
		}
	}
	_, err := s.Read(ctx, store.Scope{Tenant: "t", User: "eve"}, "a", store.Query{Stream: store.Audit})
	is(err, store.ErrNotFound)
	is(s.Delete(ctx, "a", nil), store.ErrNotFound)
	_, err = s.Get(ctx, all, "other")
	must(t, err)
	for table, want := range map[string]int{"run": 1, "state": 1, "log": 1, "counter": 1, "question": 0} {
		if n := s.count(t, table); n != want {
			t.Errorf("%d rows in %s, want %d", n, table, want)
		}
	}
}

func (s *Store) count(t *testing.T, table string) (n int) {
	t.Helper()
	must(t, s.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// What is of no run goes when it has long run out: each start of a program is another worker, and the tables would grow for ever.
func TestSweepUp(t *testing.T) {
	s := open(t, empty(t), Options{})
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
	}{{0, 20, 20}, {30 * time.Minute, 20, 0}, {time.Hour, 0, 0}} {
		for _, set := range []string{"worker SET until = until - $1", "holder SET until = until - $1", "rate SET tat = tat - $1"} {
			_, err := s.pool.Exec(ctx, "UPDATE "+set, int64(c.later)) // as if so much time had passed
			must(t, err)
		}
		_, err := s.Expire(ctx, 10)
		must(t, err)
		for table, want := range map[string]int{"worker": c.workers, "holder": c.rest, "rate": c.rest} {
			if n := s.count(t, table); n != want {
				t.Errorf("%v later: %d rows in %s, want %d", c.later, n, table, want)
			}
		}
	}
}

// Some that remove what has expired at the same time say that there is no more only when there is none.
func TestExpireTogether(t *testing.T) {
	address := empty(t)
	stores := []*Store{open(t, address, Options{}), open(t, address, Options{}), open(t, address, Options{})}
	ctx := t.Context()
	var ns []store.NewRun
	const count, pass = 300, 50
	for i := range count {
		ns = append(ns, store.NewRun{ID: fmt.Sprint(i), Workflow: "w", Version: "1"})
	}
	must(t, stores[0].Create(ctx, ns...))
	_, err := stores[0].pool.Exec(ctx, "UPDATE state SET ended = true, due = 0, ready = NULL, expires = 1")
	must(t, err)
	var removed atomic.Int64
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() {
			for n := pass; n == pass; removed.Add(int64(n)) {
				var err error
				if n, err = s.Expire(ctx, pass); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if left := stores[0].count(t, "run"); left != 0 || removed.Load() != count {
		t.Errorf("%d were removed, %d are left", removed.Load(), left)
	}
}

// What takes longer to be erased than a statement may take otherwise is erased all the same: it would never be.
func TestErasesWhatTakesLong(t *testing.T) {
	address := empty(t)
	s := open(t, address+"&statement_timeout=500ms", Options{})
	ctx := t.Context()
	for _, id := range []string{"deleted", "expired"} {
		must(t, s.Create(ctx, store.NewRun{ID: id, Add: []store.Row{{Stream: store.Audit}}}))
		must(t, s.Apply(ctx, store.Change{Run: id, Epoch: claim(t, s, id).Epoch, Row: []byte("x"), End: true, Keep: time.Nanosecond}))
	}
	_, err := s.pool.Exec(ctx, `
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END';
CREATE TRIGGER linger AFTER DELETE ON log EXECUTE FUNCTION linger()`, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	must(t, s.Delete(ctx, "deleted", nil))
	if n, err := s.Expire(ctx, 10); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := s.pool.Exec(ctx, "SELECT pg_sleep(1)"); !coded(err, "57014") {
		t.Errorf("and whoever uses the connection next may take long: %v", err)
	}
}

// Many workers of two processes claim from one queue: none waits for another, each run goes to one, and none is left.
func TestContention(t *testing.T) {
	address := empty(t)
	stores := []*Store{open(t, address, Options{}), open(t, address, Options{})}
	const count = 400
	var ns []store.NewRun
	for i := range count {
		ns = append(ns, store.NewRun{ID: fmt.Sprintf("r%03d", i), Workflow: "w", Version: "1", Priority: i % 3})
	}
	must(t, stores[0].Create(t.Context(), ns...))
	var owner sync.Map
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for {
				rs, next, err := stores[i%2].Claim(t.Context(), store.Claim{Worker: fmt.Sprint(i), Kinds: []string{"w@1"}, Max: 7, Hold: time.Hour})
				if err != nil {
					t.Error(err)
					return
				}
				for _, r := range rs {
					if _, twice := owner.LoadOrStore(r.ID, i); twice {
						t.Errorf("%s went to two", r.ID)
					}
				}
				if len(rs) == 0 && next != 0 {
					return
				}
			}
		})
	}
	wg.Wait()
	got := 0
	owner.Range(func(any, any) bool { got++; return true })
	if got != count {
		t.Fatalf("%d of %d were claimed", got, count)
	}
}

// What one process remembers of a run is old when another has written to it: its write is decided anew, and refused where the run
// has gone to the other one.
func TestRemembersNothingOld(t *testing.T) {
	address := empty(t)
	s, other := open(t, address, Options{}), open(t, address, Options{})
	ctx := t.Context()
	must(t, s.Create(ctx, store.NewRun{ID: "r", Workflow: "w"}))
	r := claim(t, s, "r")
	step := func(s *Store, epoch int64) error {
		return s.Apply(ctx, store.Change{Run: "r", Epoch: epoch, Row: []byte("x"), Add: []store.Row{{Stream: store.Step}}})
	}
	for range 3 {
		must(t, step(s, r.Epoch))
		must(t, other.Apply(ctx, store.Change{Run: "r", Letters: []store.Letter{{Run: "r", Add: []store.Row{{Stream: store.Inbox}, {Stream: store.Step}}}}}))
		_, err := s.Append(ctx, store.Lease{Run: "r", Epoch: r.Epoch}, store.Batch{Rows: []store.Row{{Stream: store.Event}}})
		must(t, err)
	}
	_, err := s.pool.Exec(ctx, "UPDATE state SET until = 1") // the lease runs out
	must(t, err)
	r2 := claim(t, other, "r")
	if _, err := s.Append(ctx, store.Lease{Run: "r", Epoch: r.Epoch}, store.Batch{}); !errors.Is(err, store.ErrStale) {
		t.Fatalf("a batch of nothing: %v", err)
	}
	if err := step(s, r.Epoch); !errors.Is(err, store.ErrStale) {
		t.Fatal(err)
	}
	must(t, step(other, r2.Epoch))
	rows, err := s.Read(ctx, all, "r", store.Query{Stream: store.Step})
	if err != nil || len(rows) != 7 || rows[6].Seq != 7 {
		t.Fatal(len(rows), err)
	}
}

// Claims that go by a horizon, because looking through everything has become slow, find what others do not have to look for: what
// becomes due, of a new priority too, and leases that run out. A clock that was set back has them look through everything.
func TestHorizon(t *testing.T) {
	s := open(t, empty(t), Options{})
	ctx := t.Context()
	kinds := []string{"w@1"}
	claims := func(want string, hold time.Duration) (next time.Duration) {
		t.Helper()
		rs, next, err := s.Claim(ctx, store.Claim{Worker: "w", Kinds: kinds, Max: 1, Hold: hold})
		must(t, err)
		got := ""
		for _, r := range rs {
			got += r.ID
		}
		if got != want {
			t.Fatalf("claimed %q, want %q", got, want)
		}
		if seen, ok := s.horizon.by[among(kinds)]; ok {
			seen.took = time.Hour
			s.horizon.by[among(kinds)] = seen
		}
		return next
	}
	create := func(id string, priority int) {
		t.Helper()
		must(t, s.Create(ctx, store.NewRun{ID: id, Workflow: "w", Version: "1", Priority: priority}))
	}
	create("a", 0)
	claims("a", time.Hour)
	create("b", 0)
	create("c", 7)
	claims("c", time.Millisecond)
	time.Sleep(5 * time.Millisecond)
	claims("c", time.Hour)
	claims("b", time.Hour)
	if next := claims("", time.Hour); next < 0 || next > seldom {
		t.Errorf("everything is looked through again after %v", next)
	}
	seen := s.horizon.by[among(kinds)]
	seen.now, seen.ready = seen.now+int64(time.Hour), seen.now+int64(time.Hour)
	s.horizon.by[among(kinds)] = seen
	create("d", 0)
	if next := claims("", time.Hour); next != 0 {
		t.Errorf("a clock that was set back is looked at again after %v", next)
	}
	claims("d", time.Hour)
}

// Two processes that write to each other's runs crosswise do not lock each other out.
func TestCrosswise(t *testing.T) {
	address := empty(t)
	stores := []*Store{open(t, address, Options{}), open(t, address, Options{})}
	const count = 6
	for i := range count {
		must(t, stores[0].Create(t.Context(), store.NewRun{ID: fmt.Sprint(i)}))
	}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for k := range 20 {
				var ls []store.Letter
				for j := range count {
					ls = append(ls, store.Letter{Run: fmt.Sprint((i*j + k + j) % count), Add: []store.Row{{Stream: store.Inbox}}})
				}
				n := []store.NewRun{{ID: fmt.Sprint("n", k, i%3)}, {ID: fmt.Sprint("n", k, (i+1)%3)}}
				if err := stores[i%2].Apply(t.Context(), store.Change{Run: fmt.Sprint(k % count), Letters: ls, Create: n}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var letters int
	must(t, stores[0].pool.QueryRow(t.Context(), "SELECT sum(inbox) FROM state").Scan(&letters))
	if letters != 12*20*count {
		t.Fatalf("%d letters", letters)
	}
	healthy(t, stores[0])
}

// An address is never told with its password, whatever is wrong with it.
func TestAddresses(t *testing.T) {
	for _, address := range []string{
		"postgres://u:secret@127.0.0.1:1/d", "postgres://%zz:secret@h", "postgres://u:secret@h:port/d", "postgres://u:secret@h/d?sslmode=secret",
		"postgres://u:secret@127.0.0.1:1/d?search_path=a,b", "postgres://127.0.0.1:1/d?password=secret&user=u",
	} {
		_, err := Open(t.Context(), address, Options{})
		if !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
		if _, err = Pending(t.Context(), address, Options{}); !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
}

// Where there is a way of one's own to the server, every connection takes it, to a host whose name only that knows.
func TestDial(t *testing.T) {
	u, err := url.Parse(empty(t))
	must(t, err)
	at, dials := u.Host, atomic.Int64{}
	u.Host = "far.invalid:1"
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1); address != u.Host {
			t.Errorf("%s is dialed", address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, at)
	}
	s := open(t, u.String(), Options{Dial: dial})
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	if n := dials.Load(); n < 3 || !s.listener.up.Load() {
		t.Errorf("%d dials, want one each for what migrates, what works and what listens", n)
	}
	dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("the tunnel is closed")
	}
	if _, err := Open(t.Context(), u.String(), Options{Dial: dial}); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "the tunnel is closed") {
		t.Error(err)
	}
}
