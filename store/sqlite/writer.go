package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"pawl/store"
)

// A group is at most this many operations, so that the first in it does not wait long for its commit.
const most = 256

// op is one operation on its way through the writer.
type op struct {
	run   func(*tx) error
	guard bool // it may be refused after its first write, so it needs a savepoint
	look  bool // only look whether other processes have written
	done  chan error
	err   error
	state atomic.Int32
}

// An op is left by its caller or taken by the writer, whichever comes first.
const (
	waiting = iota
	taken
	left
)

// writer owns the only connection that writes. Its goroutine starts in Open and ends in Close.
type writer struct {
	s    *Store
	db   *sql.DB
	conn *sql.Conn
	turn turnstile
	busy time.Duration
	ops  chan *op
	gone chan struct{}
	tx   tx

	prepared map[string]*sql.Stmt
	groups   int   // committed so far
	version  int64 // PRAGMA data_version: it moves when another connection has written
}

// loop turns operations into commits until the channel is closed.
func (w *writer) loop() {
	defer close(w.gone)
	for o := range w.ops {
		if o.look {
			o.done <- w.foreign()
			continue
		}
		w.group(o)
	}
}

// group commits the first operation and all that are waiting behind it.
func (w *writer) group(first *op) {
	if err := w.begin(); err != nil {
		failed := []*op{first} // and all that have waited behind it: each on its own would wait as long again
		for range len(w.ops) {
			if o := <-w.ops; o != nil {
				failed = append(failed, o)
			}
		}
		for _, o := range failed {
			if o.state.CompareAndSwap(waiting, taken) {
				o.done <- err
			}
		}
		return
	}
	group, fatal := []*op{}, error(nil)
	for o := first; o != nil; o = w.next(len(group)) {
		if o.look {
			o.done <- nil // begin has looked
			continue
		}
		if !o.state.CompareAndSwap(waiting, taken) {
			continue
		}
		group = append(group, o)
		if fatal = w.tx.carryOut(o); fatal != nil {
			break
		}
	}
	if fatal == nil {
		fatal = w.commit()
	}
	switch {
	case fatal == nil:
		w.groups++
		w.finish(group)
	case errors.Is(fatal, store.ErrUnknown):
		w.fail(group, fatal)
	case len(group) == 1 && !errors.Is(fatal, errMixed):
		w.rollback()
		w.fail(group, fatal)
	default:
		w.rollback()
		for _, o := range group {
			w.alone(o)
		}
	}
}

// next is the next operation of a group. Callers that have just been answered get one chance to hand in another.
func (w *writer) next(count int) *op {
	if count >= most {
		return nil
	}
	for range 2 {
		select {
		case o := <-w.ops:
			return o // nil when the channel is closed
		default:
			runtime.Gosched()
		}
	}
	return nil
}

// alone repeats one operation of a group that could not be committed as a whole.
func (w *writer) alone(o *op) {
	err := w.begin()
	if err == nil {
		o.guard, o.err = true, nil
		err = w.tx.carryOut(o)
	}
	if err == nil {
		err = w.commit()
	}
	if err == nil {
		w.finish([]*op{o})
		return
	}
	w.rollback()
	o.done <- err
}

func (w *writer) finish(group []*op) {
	w.s.hub.Tell(w.tx.changed...)
	for _, o := range group {
		o.done <- o.err
	}
}

func (w *writer) fail(group []*op, err error) {
	for _, o := range group {
		o.done <- err
	}
}

// begin waits for its turn among the processes, then for the lock of the file.
func (w *writer) begin() error {
	deadline := time.Now().Add(w.busy)
	if err := w.patiently(deadline, w.turn.take); err != nil {
		return err
	}
	defer w.turn.pass()
	err := w.patiently(deadline, func() (bool, error) {
		err := w.exec("BEGIN IMMEDIATE")
		if isBusy(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	if err := w.foreign(); err != nil {
		w.rollback()
		return err
	}
	w.tx.begin(w.s.clock.now())
	return nil
}

// patiently repeats try until it works or fails. SQLite's own busy handler sleeps ever longer and starves beside a busy
// writer, so this one asks every millisecond; and it goes on looking for changes, for those who watch.
func (w *writer) patiently(deadline time.Time, try func() (bool, error)) error {
	for i := 1; ; i++ {
		if ok, err := try(); ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("another process has been writing for %v", w.busy)
		}
		if i%50 == 0 {
			if err := w.foreign(); err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// foreign notices that another connection has written: what is remembered here may be old, and any run may have changed.
func (w *writer) foreign() error {
	st, err := w.stmt("PRAGMA data_version")
	if err != nil {
		return err
	}
	var v int64
	if err := st.QueryRow().Scan(&v); err != nil {
		return err
	}
	if v != w.version {
		w.version = v
		w.tx.forget()
		w.s.hub.Tell("")
	}
	return nil
}

// commit makes the group durable. Where it fails for want of room or of a lock nothing is written; after any other fault
// the commit may or may not be found when the file is opened again.
func (w *writer) commit() error {
	err := w.exec("COMMIT")
	if err == nil {
		return nil
	}
	if isBusy(err) || isFull(err) {
		return err
	}
	w.rollback()
	return fmt.Errorf("%w: %s: %w", store.ErrUnknown, w.s.path, explain(w.s.path, err))
}

// rollback also forgets what the group had brought into memory. SQLite may have rolled back by itself: no error then.
func (w *writer) rollback() {
	_ = w.exec("ROLLBACK")
	w.tx.forget()
}

// stmt prepares each statement once.
func (w *writer) stmt(text string) (*sql.Stmt, error) {
	if st := w.prepared[text]; st != nil {
		return st, nil
	}
	st, err := w.conn.PrepareContext(context.Background(), text)
	if err == nil {
		w.prepared[text] = st
	}
	return st, err
}

func (w *writer) exec(text string, args ...any) error {
	st, err := w.stmt(text)
	if err == nil {
		_, err = st.Exec(args...)
	}
	return err
}

// close is for after the loop. A checkpoint that cannot be made now is made by whoever opens the file next.
func (w *writer) close() error {
	_, _ = w.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	for _, st := range w.prepared {
		_ = st.Close()
	}
	return errors.Join(w.conn.Close(), w.db.Close(), w.turn.close())
}

// The drivers have no error type in common, but SQLite's own words.
func isBusy(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "database is locked") || strings.Contains(err.Error(), "table is locked"))
}

func isFull(err error) bool { return err != nil && strings.Contains(err.Error(), "disk is full") }
