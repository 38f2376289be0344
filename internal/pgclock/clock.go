// Package pgclock gives a real Postgres the time of a process, so that tests and the fault harness may play on it in virtual time.
//
// It may never know of runs: it is a clock, a dialer and a schema.
//
// Start reading at Clock.
package pgclock

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// Clock is a schema on a real server whose clock is that of the process. A store that is opened there, through Dial and in a
// bubble of testing/synctest, lives in the bubble's time, which stands still while the server works.
type Clock struct {
	Schema string

	config *pgx.ConnConfig
	mu     sync.Mutex
	conn   *pgx.Conn // beside the store's
	set    time.Time // what the clock says
}

// New makes the schema. Close removes it.
func New(address string) (*Clock, error) {
	c := &Clock{Schema: "pawl_" + strings.ToLower(rand.Text())}
	var err error
	if c.config, err = pgx.ParseConfig(address); err != nil {
		return nil, err
	}
	if c.config.TLSConfig != nil {
		return nil, errors.New("who listens cannot be told apart on an encrypted line: the address must say sslmode=disable")
	}
	c.config.RuntimeParams["search_path"] = c.Schema
	c.config.RuntimeParams["synchronous_commit"] = "off"            // of the clock
	c.config.RuntimeParams["default_transaction_read_only"] = "off" // also where a test has the server only read
	// What is put into a sequence is seen at once by every transaction.
	if err := c.Exec("CREATE SCHEMA " + c.Schema + "; CREATE SEQUENCE " + c.Schema + ".hands MINVALUE 0"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Rule puts the clock in place of the store's, once that has made its tables.
func (c *Clock) Rule() error {
	return c.Exec(`CREATE OR REPLACE FUNCTION clock() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT pg_sequence_last_value(''hands'')'`)
}

// Exec carries statements out on the clock's own connection.
func (c *Clock) Exec(sql string) error {
	return c.use(func(ctx context.Context) error {
		_, err := c.conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// Sum asks for a number on the clock's own connection.
func (c *Clock) Sum(query string) (n int, err error) {
	err = c.use(func(ctx context.Context) error { return c.conn.QueryRow(ctx, query).Scan(&n) })
	return n, err
}

// use has the clock's own connection used. One that was cut is made anew: who knows what the clock says then.
func (c *Clock) use(f func(ctx context.Context) error) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx := context.Background()
	if c.conn == nil || c.conn.IsClosed() {
		if c.conn, err = pgx.ConnectConfig(ctx, c.config); err != nil {
			return err
		}
		c.set = time.Time{}
	}
	return f(ctx)
}

// tick sets the clock to the time of the process.
func (c *Clock) tick() error {
	return c.use(func(ctx context.Context) error {
		now := time.Now().Truncate(time.Microsecond) // no finer than the server's own
		if now.Equal(c.set) {
			return nil
		}
		_, err := c.conn.Exec(ctx, "SELECT setval('hands', $1)", now.UnixNano())
		if err == nil {
			c.set = now
		}
		return err
	})
}

// Close removes the schema with all that is in it.
func (c *Clock) Close() error {
	return c.use(func(ctx context.Context) error {
		_, err := c.conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+c.Schema+" CASCADE")
		return errors.Join(err, c.conn.Close(ctx))
	})
}

// Dial reaches the server for a store.
func (c *Clock) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn, clock: c}, nil
}

// wire is a connection for which the clock is set before each request. Whoever waits for an answer keeps the time of a bubble from
// passing, as it should be. Whoever waits for a notice must not: nobody may ever send one.
type wire struct {
	net.Conn
	clock   *Clock
	listens bool
	idle    bool         // it listens, and all that was asked has been answered
	until   atomic.Int64 // nanoseconds since 1970: when a read ends; 0: when something comes
}

// SetDeadline bounds reads and writes. An idle line keeps to it in the time of the process.
func (w *wire) SetDeadline(t time.Time) error {
	w.bound(t)
	return w.Conn.SetDeadline(t)
}

// SetReadDeadline bounds reads.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.bound(t)
	return w.Conn.SetReadDeadline(t)
}

func (w *wire) bound(t time.Time) {
	if t.IsZero() {
		w.until.Store(0)
	} else {
		w.until.Store(t.UnixNano())
	}
}

// Write sends a request.
func (w *wire) Write(b []byte) (int, error) {
	if err := w.clock.tick(); err != nil {
		return 0, err
	}
	w.listens, w.idle = w.listens || bytes.Contains(b, []byte("LISTEN ")), false
	return w.Conn.Write(b)
}

// How often an idle line looks for notices. A notice takes a moment of real time, in which a bubble may go far: to the store it is a
// slow one, as all notices may be.
const glance = 100 * time.Millisecond

// readyForQuery is how each answer ends, but for a byte with the state of the transaction.
var readyForQuery = []byte{'Z', 0, 0, 0, 5}

// Read waits for an answer, or looks at times whether there is a notice.
func (w *wire) Read(b []byte) (n int, err error) {
	if !w.idle {
		n, err = w.Conn.Read(b)
		w.idle = w.listens && n > len(readyForQuery) && bytes.HasPrefix(b[n-len(readyForQuery)-1:n], readyForQuery)
		return n, err
	}
	for {
		if n, err = peek(w.Conn, b); n != 0 || err != nil {
			return n, err
		}
		if at := w.until.Load(); at != 0 && time.Now().UnixNano() >= at {
			return 0, os.ErrDeadlineExceeded
		}
		time.Sleep(glance)
	}
}
