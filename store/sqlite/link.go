package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"pawl/store"
)

// link is a connection with its statements prepared: parsing them anew is most of what a small read costs. One goroutine at a
// time uses it.
type link struct {
	conn     *sql.Conn // nil when it had to be given up
	prepared map[string]*sql.Stmt
}

// stmt prepares each statement once.
func (l *link) stmt(text string) (*sql.Stmt, error) {
	if st := l.prepared[text]; st != nil {
		return st, nil
	}
	if l.conn == nil {
		return nil, sql.ErrConnDone
	}
	if len(l.prepared) >= statements {
		l.forget()
	}
	st, err := l.conn.PrepareContext(context.Background(), text)
	if err == nil {
		l.prepared[text] = st
	}
	return st, err
}

// statements is how many are kept prepared: all that there are, but for filters on lists of many lengths.
const statements = 128

func (l *link) forget() {
	for _, st := range l.prepared {
		_ = st.Close()
	}
	l.prepared = map[string]*sql.Stmt{}
}

func (l *link) exec(text string, args ...any) error {
	st, err := l.stmt(text)
	if err == nil {
		_, err = st.Exec(args...)
	}
	return err
}

// hangUp closes the connection.
func (l *link) hangUp() {
	if l.conn == nil {
		return
	}
	l.forget()
	// database/sql closes a connection that is called bad, rather than keep it for another time.
	_ = l.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = l.conn.Close()
	l.conn = nil
}

// readers is how many read at a time.
const readers = 4

// view is one snapshot of the database.
type view struct {
	ctx context.Context
	link
}

func (v *view) query(text string, args ...any) (*sql.Rows, error) {
	st, err := v.stmt(text)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(v.ctx, args...)
}

// row reads one row, or returns sql.ErrNoRows.
func (v *view) row(text string, args []any, to ...any) error {
	st, err := v.stmt(text)
	if err != nil {
		return err
	}
	return st.QueryRowContext(v.ctx, args...).Scan(to...)
}

// view reads in one snapshot of the database, as long as that is of this program's version.
func (s *Store) view(ctx context.Context, op string, f func(*view) error) error {
	return s.fault(ctx, op, s.snapshot(ctx, func(v *view) error {
		var version int
		err := v.row("PRAGMA user_version", nil, &version)
		if err == nil {
			err = ours(version)
		}
		if err != nil {
			return err
		}
		return f(v)
	}))
}

func (s *Store) snapshot(ctx context.Context, f func(*view) error) (err error) {
	if err := s.ready(ctx); err != nil {
		return err
	}
	var v *view
	select {
	case v = <-s.views:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return errClosed
	}
	v.ctx = ctx
	defer func() {
		if err != nil && !errors.Is(err, store.ErrNotFound) { // who knows in what state it is
			v.hangUp()
		}
		v.ctx = nil
		s.views <- v
	}()
	if v.conn == nil {
		if v.conn, err = s.reads.Conn(ctx); err != nil {
			return err
		}
	}
	if err := v.exec("BEGIN"); err != nil {
		return err
	}
	err = f(v)
	return errors.Join(err, v.exec("ROLLBACK"))
}

// closeReads waits for those who still read.
func (s *Store) closeReads() error {
	for range readers {
		v := <-s.views
		v.hangUp()
	}
	return s.reads.Close()
}
