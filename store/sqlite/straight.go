package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
)

// straight are the statements that write, without database/sql between: locking, copying and looking up what is known here costs it about a
// tenth of a small commit. The set of their texts is fixed.
type straight struct {
	prepared map[string]driver.StmtExecContext
	values   []driver.NamedValue // room for what is bound
}

// write executes a statement that changes something.
func (w *writer) write(text string, args ...any) (res driver.Result, err error) {
	if w.conn == nil {
		return nil, sql.ErrConnDone
	}
	vs := w.straight.values[:0]
	defer func() {
		clear(vs) // large states shall not be kept alive
		w.straight.values = vs
	}()
	for i, a := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(a)
		if err != nil {
			return nil, err
		}
		vs = append(vs, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	err = w.conn.Raw(func(conn any) (err error) {
		st := w.straight.prepared[text]
		if st == nil {
			if st, err = w.prepares(conn, text); err != nil {
				return err
			}
			w.straight.prepared[text] = st
		}
		res, err = st.ExecContext(context.Background(), vs)
		return err
	})
	return res, err
}

// prepares prepares a statement on a connection of the driver.
func (w *writer) prepares(conn any, text string) (driver.StmtExecContext, error) {
	c, ok := conn.(driver.ConnPrepareContext)
	if !ok {
		return nil, fmt.Errorf("the driver %q does not prepare statements with a context", w.s.driver)
	}
	st, err := c.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	x, ok := st.(driver.StmtExecContext)
	if !ok {
		_ = st.Close()
		return nil, fmt.Errorf("the driver %q does not execute statements with a context", w.s.driver)
	}
	return x, nil
}

// fits refuses a driver that cannot write in this way, before anything is written.
func (w *writer) fits() error {
	return w.conn.Raw(func(conn any) error {
		st, err := w.prepares(conn, "SELECT 1")
		if err == nil {
			err = st.(driver.Stmt).Close()
		}
		return err
	})
}

// close closes the statements; the next ones are prepared anew.
func (x *straight) close(conn *sql.Conn) {
	_ = conn.Raw(func(any) error {
		for _, st := range x.prepared {
			_ = st.(driver.Stmt).Close()
		}
		return nil
	})
	clear(x.prepared)
}
