// Package postgres is a store in one schema of a Postgres database: durable, and shared by the processes of many machines.
//
// A few writers take what is waiting and commit it together, each run in one of them at a time; the server's clock is the only
// one. It may never hold a lock while it waits for a caller, decide by what it remembers without the database's consent, or
// know what a state, a graph or a row's bytes mean.
//
// Start reading at Open, then commit in writer.go (how operations become commits) and group in group.go (what one may do).
package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"pawl/store"
	"pawl/store/internal/notice"
	"pawl/store/internal/rules"
)

var _ store.Store = (*Store)(nil)

// Store is a store in a Postgres database.
type Store struct {
	conf     *config
	pool     *pgxpool.Pool
	queue    queue
	hub      notice.Hub
	listener listener
	notifier notifier
	present  presence
	horizon  horizon

	closing context.Context // ends with Close
	close   context.CancelFunc
	writers sync.WaitGroup
	others  sync.WaitGroup // listener and notifier
	written chan struct{}  // closed when the last writer has gone
	once    sync.Once
}

// Open opens the store in the database at an address like postgres://user:password@host:5432/database, brings it up to date
// and starts the writers and the listener, which Close ends.
func Open(ctx context.Context, address string, o Options) (*Store, error) {
	c, err := configure(address, o)
	if err == nil && !o.Unmigrated {
		err = c.migrate(ctx)
	}
	if err != nil {
		return nil, c.fault("open", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, c.pool)
	if err == nil {
		if err = pool.Ping(ctx); err != nil {
			pool.Close()
		}
	}
	if err != nil {
		return nil, c.fault("open", err)
	}
	s := &Store{conf: c, pool: pool, written: make(chan struct{})}
	s.closing, s.close = context.WithCancel(context.Background())
	s.queue.open()
	s.listener.init(s)
	s.listener.connect(ctx) // before Open returns, so that nothing is missed from then on; if it cannot, it goes on trying
	s.notifier.init()
	s.others.Go(s.listener.loop)
	s.others.Go(func() { s.notices(s.written) })
	for range c.writers {
		s.writers.Go(s.write)
	}
	return s, nil
}

var errClosed = errors.New("the store is closed")

// fault makes an error of an operation one of the five: what is not one is the database's, and then nothing was written.
func (s *Store) fault(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{store.ErrNotFound, store.ErrExists, store.ErrStale, store.ErrUnavailable, store.ErrUnknown} {
		if errors.Is(err, known) {
			return fmt.Errorf("postgres: %s: %w", op, err)
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("postgres: %s: %w: %s: %w", op, store.ErrUnavailable, s.conf.where, explain(err))
}

// ready refuses an operation on a closed store or for a caller who has gone.
func (s *Store) ready(ctx context.Context) error {
	if s.closing.Err() != nil {
		return errClosed
	}
	return ctx.Err()
}

// do has an operation carried out, and waits until it is committed.
func (s *Store) do(ctx context.Context, name string, o *op) error {
	if err := s.ready(ctx); err != nil {
		return s.fault(ctx, name, err)
	}
	o.done = make(chan error, 1)
	if !s.queue.put(o) {
		return s.fault(ctx, name, errClosed)
	}
	select {
	case err := <-o.done:
		return s.fault(ctx, name, err)
	case <-ctx.Done():
	}
	if o.state.CompareAndSwap(waiting, left) {
		return s.fault(ctx, name, ctx.Err())
	}
	return s.fault(ctx, name, <-o.done) // it is being written: the outcome comes soon
}

// Now is the server's clock.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.view(ctx, "now", func(ctx context.Context, c *pgxpool.Conn) error {
		var ns int64
		err := c.QueryRow(ctx, "SELECT clock()").Scan(&ns)
		now = rules.Time(ns)
		return err
	})
	return now, err
}

// How often a watcher is told that any run may have changed while nobody listens to the database.
const look = 200 * time.Millisecond

// Watch tells of changed runs: of this process's at once, of others' as the database notifies.
func (s *Store) Watch(ctx context.Context) iter.Seq2[string, error] {
	return s.hub.Watch(ctx, look, func(context.Context) error {
		s.listener.poll()
		return nil
	})
}

// Close has what was handed in written and lets go of the database.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.close()
		s.queue.close()
		s.writers.Wait()
		close(s.written)
		s.others.Wait()
		s.hub.Close(s.fault(context.Background(), "watch", errClosed))
		s.pool.Close()
	})
	return nil
}
