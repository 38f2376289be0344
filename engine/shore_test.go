package engine_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl/internal/pgtest"
	"pawl/store"
)

// shore is a store on a real Postgres for a bubble of virtual time. Its goroutines and connections stay outside, where calls are
// carried over to them; whoever waits for one is not at rest, so that the bubble's time stands still meanwhile. The server's
// clock, by which leases and timers go, shows the bubble's time.
type shore struct {
	real  store.Store
	lanes chan *lane
	admin *admin

	mu     sync.Mutex
	wakers map[chan struct{}]bool
}

// lane is a goroutine outside.
type lane struct {
	work chan func()
	done chan struct{}
}

// onShore opens one store, in a schema of its own.
func onShore(t *testing.T) func() store.Store { return shoreOf(t, pgtest.URL(t)) }

func shoreOf(t *testing.T, address string) func() store.Store {
	s, schema := openPostgres(t, address)
	admin := &admin{address: pgtest.In(address, schema)}
	t.Cleanup(admin.hangUp)
	if err := admin.exec(`CREATE SEQUENCE shown MINVALUE 0;
		CREATE OR REPLACE FUNCTION clock() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT last_value FROM shown'`); err != nil {
		t.Fatal(err)
	}
	lanes := make(chan *lane, 64)
	for range cap(lanes) {
		l := &lane{make(chan func()), make(chan struct{})}
		t.Cleanup(func() { close(l.work) })
		go func() {
			for f := range l.work {
				f()
				l.done <- struct{}{}
			}
		}()
		lanes <- l
	}
	return func() store.Store {
		return &shore{real: s, lanes: lanes, admin: admin, wakers: map[chan struct{}]bool{}}
	}
}

// outside has something done outside.
func (s *shore) outside(f func()) {
	l := <-s.lanes
	l.work <- f
	<-l.done
	s.lanes <- l
}

// over carries a call over.
func (s *shore) over(ctx context.Context, f func(context.Context) error) (err error) {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	now := time.Now().UnixNano()
	s.outside(func() {
		if err = s.admin.show(now); err == nil {
			err = f(context.Background())
		}
	})
	return err
}

// admin is a connection beside the store's, for its clock and for what a test does to the server.
type admin struct {
	address string

	mu    sync.Mutex
	conn  *pgx.Conn
	shows int64 // what the clock shows
}

// do has it used. One that was cut is made anew, also where the server reads only.
func (a *admin) do(f func(ctx context.Context, c *pgx.Conn) error) (err error) {
	ctx := context.Background()
	if a.conn == nil || a.conn.IsClosed() {
		if a.conn, err = pgx.Connect(ctx, a.address); err != nil {
			return err
		}
		if _, err := a.conn.Exec(ctx, "SET default_transaction_read_only = off"); err != nil {
			return err
		}
	}
	return f(ctx, a.conn)
}

func (a *admin) exec(sql ...string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.do(func(ctx context.Context, c *pgx.Conn) (err error) {
		for _, text := range sql {
			if _, err = c.Exec(ctx, text); err != nil {
				break
			}
		}
		return err
	})
}

func (a *admin) sum(query string) (n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err = a.do(func(ctx context.Context, c *pgx.Conn) error { return c.QueryRow(ctx, query).Scan(&n) })
	return n, err
}

// show sets the store's clock.
func (a *admin) show(now int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shows == now {
		return nil
	}
	err := a.do(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT setval('shown', $1)", now)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	a.shows = now
	return nil
}

func (a *admin) hangUp() {
	if a.conn != nil {
		_ = a.conn.Close(context.Background())
	}
}

// write carries a call over that changes runs, and tells the watchers.
func (s *shore) write(ctx context.Context, f func(context.Context) error) error {
	err := s.over(ctx, f)
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.wakers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
	return err
}

func (s *shore) Watch(ctx context.Context) iter.Seq2[string, error] {
	w := make(chan struct{}, 1)
	s.mu.Lock()
	s.wakers[w] = true
	s.mu.Unlock()
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.wakers, w)
	})
	return func(yield func(string, error) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-w:
				if !yield("", nil) {
					return
				}
			}
		}
	}
}

func (s *shore) Create(ctx context.Context, rs ...store.NewRun) error {
	return s.write(ctx, func(ctx context.Context) error { return s.real.Create(ctx, rs...) })
}

func (s *shore) Apply(ctx context.Context, cs ...store.Change) error {
	return s.write(ctx, func(ctx context.Context) error { return s.real.Apply(ctx, cs...) })
}

func (s *shore) Append(ctx context.Context, l store.Lease, b store.Batch) (r store.Receipt, err error) {
	err = s.write(ctx, func(ctx context.Context) (err error) { r, err = s.real.Append(ctx, l, b); return err })
	return r, err
}

func (s *shore) Expire(ctx context.Context, n int) (done int, err error) {
	err = s.write(ctx, func(ctx context.Context) (err error) { done, err = s.real.Expire(ctx, n); return err })
	return done, err
}

func (s *shore) Delete(ctx context.Context, run string, row []byte) error {
	return s.write(ctx, func(ctx context.Context) error { return s.real.Delete(ctx, run, row) })
}

func (s *shore) Claim(ctx context.Context, c store.Claim) (rs []store.Run, next time.Duration, err error) {
	err = s.over(ctx, func(ctx context.Context) (err error) { rs, next, err = s.real.Claim(ctx, c); return err })
	return rs, next, err
}

func (s *shore) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) (held []store.Held, err error) {
	err = s.over(ctx, func(ctx context.Context) (err error) { held, err = s.real.Renew(ctx, worker, ls, hold); return err })
	return held, err
}

func (s *shore) Take(ctx context.Context, slot store.Slot) (wait time.Duration, err error) {
	err = s.over(ctx, func(ctx context.Context) (err error) { wait, err = s.real.Take(ctx, slot); return err })
	return wait, err
}

func (s *shore) Give(ctx context.Context, limit, holder string) error {
	return s.over(ctx, func(ctx context.Context) error { return s.real.Give(ctx, limit, holder) })
}

func (s *shore) Get(ctx context.Context, sc store.Scope, run string) (r store.Run, err error) {
	err = s.over(ctx, func(ctx context.Context) (err error) { r, err = s.real.Get(ctx, sc, run); return err })
	return r, err
}

func (s *shore) List(ctx context.Context, sc store.Scope, f store.Filter, p store.Page) (rs []store.Run, err error) {
	err = s.over(ctx, func(ctx context.Context) (err error) { rs, err = s.real.List(ctx, sc, f, p); return err })
	return rs, err
}

func (s *shore) Read(ctx context.Context, sc store.Scope, run string, q store.Query) (rows []store.Row, err error) {
	err = s.over(ctx, func(ctx context.Context) (err error) { rows, err = s.real.Read(ctx, sc, run, q); return err })
	return rows, err
}

func (s *shore) Questions(ctx context.Context, sc store.Scope, f store.Filter, p store.Page) (qs []store.Question, err error) {
	err = s.over(ctx, func(ctx context.Context) (err error) { qs, err = s.real.Questions(ctx, sc, f, p); return err })
	return qs, err
}

func (s *shore) Workers(ctx context.Context) (ws []store.Worker, err error) {
	err = s.over(ctx, func(ctx context.Context) (err error) { ws, err = s.real.Workers(ctx); return err })
	return ws, err
}

func (s *shore) Now(ctx context.Context) (now time.Time, err error) {
	err = s.over(ctx, func(ctx context.Context) (err error) { now, err = s.real.Now(ctx); return err })
	return now, err
}

func (s *shore) Check(ctx context.Context) (fs []store.Finding, err error) {
	err = s.over(ctx, func(ctx context.Context) (err error) { fs, err = s.real.Check(ctx); return err })
	return fs, err
}

// Close leaves the real one open: it is outside, and closed when the test has ended.
func (s *shore) Close() error { return nil }
