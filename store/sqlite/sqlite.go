// Package sqlite is a store in one SQLite file: durable, without another service, shared by the processes of one machine.
//
// All writes go through one goroutine that commits whatever is waiting in one transaction (group commit); reads have a few
// connections of their own. It may never write past that goroutine, hold the file's lock while it waits, keep in memory what
// grows with the number of runs, or know what a state, a graph or a row's bytes mean.
//
// Start reading at Open, then writer in writer.go (how operations become commits) and tx in tx.go (what one may do).
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the default driver, without cgo

	"pawl/store"
	"pawl/store/internal/notice"
	"pawl/store/internal/rules"
)

var _ store.Store = (*Store)(nil)

// Options tune a store; the zero value is right.
type Options struct {
	// Driver is the database/sql driver; empty: "sqlite" (modernc.org/sqlite). It takes _pragma in its addresses, and its connections and
	// statements take contexts (driver.ConnPrepareContext, driver.StmtExecContext); Open refuses another one.
	Driver string
	// Busy is how long to wait for another process's write before giving up; 0: 30 seconds, as a disk may stall for that long.
	Busy time.Duration
}

func (o Options) withDefaults() Options {
	if o.Driver == "" {
		o.Driver = "sqlite"
	}
	if o.Busy == 0 {
		o.Busy = 30 * time.Second
	}
	return o
}

// Store is a store in a SQLite file.
type Store struct {
	path    string
	driver  string
	reads   *sql.DB
	views   chan *view // those that nobody reads with
	writer  *writer
	answers sync.Pool // of channels for the writer's answers
	hub     notice.Hub
	clock   clock
	looked  atomic.Int64 // when other processes' changes were last looked for

	closing chan struct{} // closed by Close: nothing more is handed in, and the writer waits for no other process
	once    sync.Once
}

// clock is the wall clock in UTC, since several processes go by the stored times. Within a process it neither goes back nor
// stands still: where the wall clock is set back it goes on by the time that passes, where it is set forward it follows.
type clock struct {
	start time.Time
	ahead atomic.Int64 // the most that the wall clock has been ahead of the time since start
}

func (c *clock) now() int64 {
	t := time.Now()
	return c.read(t.UnixNano(), int64(t.Sub(c.start)))
}

func (c *clock) read(wall, passed int64) int64 {
	for {
		ahead := c.ahead.Load()
		if wall-passed <= ahead {
			return passed + ahead
		}
		if c.ahead.CompareAndSwap(ahead, wall-passed) {
			return wall
		}
	}
}

var errClosed = errors.New("the store is closed")

// fault makes an error of an operation one of the five: what is not one is the database's, and then nothing was written.
func (s *Store) fault(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{store.ErrNotFound, store.ErrExists, store.ErrStale, store.ErrUnavailable, store.ErrUnknown} {
		if errors.Is(err, known) {
			return fmt.Errorf("sqlite: %s: %w", op, err)
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("sqlite: %s: %w: %s: %w", op, store.ErrUnavailable, s.path, explain(s.path, err))
}

// ready refuses a read on a closed store or for a caller who has gone.
func (s *Store) ready(ctx context.Context) error {
	if s.closed() {
		return errClosed
	}
	return ctx.Err()
}

func (s *Store) closed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// do has the writer carry out an operation, and waits until it is committed.
func (s *Store) do(ctx context.Context, name string, o *op) error {
	o.done = s.answers.Get().(chan error)
	answered, err := s.hand(ctx, o)
	if !answered && !o.state.CompareAndSwap(waiting, left) {
		answered, err = true, <-o.done // it is being written: the outcome comes soon
	}
	if answered { // nobody sends on it any more
		s.answers.Put(o.done)
	}
	return s.fault(ctx, name, err)
}

// hand gives an operation to the writer and waits for the answer; there is none when the caller leaves or the store is closed
// before it has come.
func (s *Store) hand(ctx context.Context, o *op) (answered bool, err error) {
	if !o.look {
		s.writer.callers.Add(1)
		defer s.writer.callers.Add(-1)
	}
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	select {
	case s.writer.ops <- o:
	default: // many are waiting
		select {
		case s.writer.ops <- o:
		case <-ctx.Done():
			return false, ctx.Err()
		case <-s.closing:
			return false, errClosed
		}
	}
	var gone chan struct{}
	if s.closed() { // only then the writer may have gone without it
		gone = s.writer.gone
	}
	select {
	case err := <-o.done:
		return true, err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-gone:
		return false, errClosed
	}
}

// Now is the machine's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.ready(ctx); err != nil {
		return time.Time{}, s.fault(ctx, "now", err)
	}
	return rules.Time(s.clock.now()), nil
}

// How often a watcher looks for other processes' changes.
const look = 100 * time.Millisecond

// Watch tells of this process's changes by run, and that another process has changed something.
func (s *Store) Watch(ctx context.Context) iter.Seq2[string, error] {
	return s.hub.Watch(ctx, look, func(ctx context.Context) error {
		last, now := s.looked.Load(), s.clock.now()
		if now-last < int64(look)*3/4 || !s.looked.CompareAndSwap(last, now) {
			return nil // another watcher has just looked
		}
		return s.do(ctx, "watch", &op{look: true})
	})
}

// Close has what was handed in written, unless another process is writing, brings the log into the file and lets go of it.
func (s *Store) Close() (err error) {
	s.once.Do(func() {
		close(s.closing)
		<-s.writer.gone
		s.hub.Close(s.fault(context.Background(), "watch", errClosed))
		err = errors.Join(s.closeReads(), s.writer.close())
	})
	return err
}
