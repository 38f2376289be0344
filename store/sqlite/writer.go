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
	s  *Store
	db *sql.DB
	link
	straight straight
	turn     turnstile
	busy     time.Duration
	ops      chan *op
	callers  atomic.Int64 // who want the answer to an operation
	gone     chan struct{}
	tx       tx
	room     []*op // for a group

	groups  int   // committed so far
	erased  bool  // runs were removed, and the log may still show them
	rewipe  int64 // when to try again to cut the log off
	version int64 // PRAGMA data_version: it moves when another connection has written
}

// loop turns operations into commits until the store is closed, and then those that have been handed in.
func (w *writer) loop() {
	defer close(w.gone)
	for {
		select {
		case o := <-w.ops:
			w.group(o)
		case <-w.s.closing:
			for len(w.ops) > 0 {
				w.group(<-w.ops)
			}
			return
		}
	}
}

// group commits the first operation and all that are waiting behind it.
func (w *writer) group(first *op) {
	if first.look {
		first.done <- w.look()
		return
	}
	switch err := w.begin(); {
	case errors.Is(err, errLeft): // the first by its caller; who comes now is not told so
		return
	case err != nil:
		failed := []*op{first} // and all that have waited behind it: each on its own would wait as long again
		for range len(w.ops) {
			failed = append(failed, <-w.ops)
		}
		for _, o := range failed {
			if o.state.CompareAndSwap(waiting, taken) {
				o.done <- err
			}
		}
		return
	}
	group, fatal := w.room[:0], error(nil)
	defer func() { clear(group); w.room = group }()
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
		for i, o := range group {
			if err := w.begin(); err != nil { // nor would it work for the others
				w.fail(group[i:], err)
				return
			}
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
			return o
		default:
			runtime.Gosched()
		}
	}
	return nil
}

// alone repeats one operation of a group that could not be committed as a whole.
func (w *writer) alone(o *op) {
	o.guard, o.err = true, nil
	err := w.tx.carryOut(o)
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
	w.wipe()
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
	err := w.lock()
	if err == nil {
		err = w.foreign()
	}
	if err != nil {
		w.rollback()
		return err
	}
	w.tx.begin(w.s.clock.now())
	return nil
}

func (w *writer) lock() error {
	deadline := time.Now().Add(w.busy)
	if err := w.patiently(deadline, w.wanted, w.turn.take); err != nil {
		return err
	}
	defer w.turn.pass()
	return w.patiently(deadline, w.wanted, func() error {
		if err := w.connect(context.Background()); err != nil {
			return err
		}
		return w.exec("BEGIN IMMEDIATE")
	})
}

// connect opens the connection if there is none.
func (w *writer) connect(ctx context.Context) (err error) {
	if w.conn != nil {
		return nil
	}
	if w.conn, err = w.db.Conn(ctx); err != nil {
		return err
	}
	if err = w.fits(); err != nil {
		w.hangUp()
	}
	return err
}

// patiently repeats try while others are busy, as long as it is wanted. SQLite's own busy handler sleeps ever longer and
// starves beside a busy writer, so this one asks every millisecond.
func (w *writer) patiently(deadline time.Time, wanted func(tries int) error, try func() error) error {
	for i := 1; ; i++ {
		if err := try(); !isBusy(err) {
			return err
		}
		if err := wanted(i); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("another process has been writing for %v", w.busy)
		}
		time.Sleep(time.Millisecond)
	}
}

// errLeft ends the wait for a lock that nobody needs any more.
var errLeft = errors.New("the callers have left")

// wanted tells why not to wait any longer. The writer goes on looking for changes meanwhile, for those who watch.
func (w *writer) wanted(tries int) error {
	if w.s.closed() {
		return errClosed
	}
	if w.callers.Load() == 0 {
		return errLeft
	}
	if tries%50 == 0 {
		return w.look()
	}
	return nil
}

// look is foreign outside of a transaction, where it may find the file busy: then the next look will see.
func (w *writer) look() error {
	if w.conn == nil {
		return nil
	}
	w.wipe()
	if err := w.foreign(); !isBusy(err) {
		return err
	}
	return nil
}

// foreign notices that another connection has written: what is remembered here may be old, any run may have changed, and
// a newer program may have made another database of it.
func (w *writer) foreign() error {
	var v, version int64
	if err := w.ask("PRAGMA data_version", &v); err != nil || v == w.version {
		return err
	}
	if err := w.ask("PRAGMA user_version", &version); err != nil {
		return err
	}
	if err := ours(int(version)); err != nil {
		return err // w.version stays, so that the next one is refused too
	}
	w.version = v
	w.tx.forget()
	w.s.hub.Tell("")
	return nil
}

// ask reads one number.
func (w *writer) ask(text string, to *int64) error {
	st, err := w.stmt(text)
	if err != nil {
		return err
	}
	return st.QueryRow().Scan(to)
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

// rollback also forgets what the group had brought into memory. Where it fails, and not because SQLite has rolled back by
// itself, the connection is given up: it would keep the lock, and begin nothing any more.
func (w *writer) rollback() {
	if err := w.exec("ROLLBACK"); err != nil && !strings.Contains(err.Error(), "no transaction is active") {
		w.hangUp()
	}
	w.tx.forget()
}

// hangUp closes the connection; the next begin opens another.
func (w *writer) hangUp() {
	if w.conn != nil {
		w.straight.close(w.conn)
	}
	w.link.hangUp()
	w.version = -1
}

// wipe brings the log into the file and cuts it off after runs were removed: what they were shall not be read there. A reader
// who is in the middle of something is in the way: then it is tried again a second later, with the next group or look.
func (w *writer) wipe() {
	now := w.s.clock.now()
	if !w.erased || now < w.rewipe {
		return
	}
	var busy, log, done int
	st, err := w.stmt("PRAGMA wal_checkpoint(TRUNCATE)")
	if err == nil {
		err = st.QueryRow().Scan(&busy, &log, &done)
	}
	if w.erased = err != nil || busy != 0; w.erased {
		w.rewipe = now + int64(time.Second)
	}
}

// close is for after the loop. A checkpoint that cannot be made now is made by whoever opens the file next.
func (w *writer) close() error {
	_ = w.exec("PRAGMA wal_checkpoint(TRUNCATE)")
	w.hangUp()
	return errors.Join(w.db.Close(), w.turn.close())
}

// The drivers have no error type in common, but SQLite's own words.
func isBusy(err error) bool {
	return err != nil && (errors.Is(err, errTaken) || errors.Is(err, errRead) || strings.Contains(err.Error(), "database is locked") || strings.Contains(err.Error(), "table is locked"))
}

func isDamage(err error) bool { return err != nil && strings.Contains(err.Error(), "malformed") }

func isFull(err error) bool { return err != nil && strings.Contains(err.Error(), "disk is full") }
