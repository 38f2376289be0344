package faults

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// Line is the line to one database file, which can be cut.
type Line struct {
	Normal bool   // synchronous(NORMAL) in the place of FULL
	VFS    string // the file system of ncruces/go-sqlite3 to open it on
	Pages  int    // after how many pages of the log it is brought into the file; 0: as the store wants

	cut atomic.Bool
}

// Cut makes each COMMIT fail while it is on, before SQLite hears of it: what was done in the transaction is rolled back.
func (l *Line) Cut(on bool) { l.cut.Store(on) }

// Driver is a database/sql driver around another one of SQLite's, in which the lines to files can be cut.
type Driver struct {
	base driver.Driver

	mu    sync.Mutex
	lines map[string]*Line // by path
}

// Wired gives the driver around a registered one, and its name for sqlite.Options.
func Wired(base string) (name string, d *Driver, err error) {
	name = "faults-" + base
	db, err := sql.Open(base, "file::memory:")
	if err != nil {
		return "", nil, err
	}
	defer db.Close()
	register(name, &Driver{base: db.Driver(), lines: map[string]*Line{}})
	mine, err := sql.Open(name, "")
	if err != nil {
		return "", nil, err
	}
	defer mine.Close()
	return name, mine.Driver().(*Driver), nil
}

// register keeps the first driver of a name.
func register(name string, d driver.Driver) {
	defer func() { _ = recover() }() // it is there
	sql.Register(name, d)
}

// Lay lays a line to the file at an absolute path.
func (d *Driver) Lay(path string, l *Line) *Line {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines[path] = l
	return l
}

// Open connects.
func (d *Driver) Open(dsn string) (driver.Conn, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	l := d.lines[u.Path]
	d.mu.Unlock()
	if l == nil {
		l = &Line{}
	}
	if l.Normal {
		dsn = strings.ReplaceAll(dsn, "synchronous%28FULL%29", "synchronous%28NORMAL%29")
	}
	if l.Pages > 0 {
		dsn = strings.ReplaceAll(dsn, "wal_autocheckpoint%284000%29", fmt.Sprintf("wal_autocheckpoint%%28%d%%29", l.Pages))
	}
	if l.VFS != "" {
		dsn += "&vfs=" + l.VFS
	}
	c, err := d.base.Open(dsn)
	if err != nil {
		return nil, err
	}
	return &conn{c, l}, nil
}

// conn is a connection over a line. What the other driver can do beside the least, it can do too.
type conn struct {
	driver.Conn
	line *Line
}

func (c *conn) PrepareContext(ctx context.Context, text string) (st driver.Stmt, err error) {
	if p, ok := c.Conn.(driver.ConnPrepareContext); ok {
		st, err = p.PrepareContext(ctx, text)
	} else {
		st, err = c.Conn.Prepare(text)
	}
	if err == nil && text == "COMMIT" {
		st = &commit{st, c.line}
	}
	return st, err
}

func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := c.Conn.(driver.ExecerContext); ok {
		return e.ExecContext(ctx, text, args)
	}
	return nil, driver.ErrSkip
}

func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := c.Conn.(driver.QueryerContext); ok {
		return q.QueryContext(ctx, text, args)
	}
	return nil, driver.ErrSkip
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := c.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if b, ok := c.Conn.(driver.ConnBeginTx); ok {
		return b.BeginTx(ctx, o)
	}
	return nil, errors.New("faults: the driver begins no transactions")
}

func (c *conn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	if v, ok := c.Conn.(driver.Validator); ok {
		return v.IsValid()
	}
	return true
}

// commit is the prepared COMMIT.
type commit struct {
	driver.Stmt
	line *Line
}

var errCut = errors.New("faults: the line was cut before the commit")

func (c *commit) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if c.line.cut.Load() {
		return nil, errCut
	}
	if e, ok := c.Stmt.(driver.StmtExecContext); ok {
		return e.ExecContext(ctx, args)
	}
	return nil, errors.New("faults: the driver's statements take no context")
}
