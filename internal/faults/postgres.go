package faults

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl/store"
	"pawl/store/postgres"
)

// sequences are the time and whether COMMITs are cut: what is put into a sequence is seen at once by every transaction.
const sequences = `
CREATE SCHEMA %[1]s;
CREATE SEQUENCE %[1]s.hands MINVALUE 0;
CREATE SEQUENCE %[1]s.shears MINVALUE 0`

// rigging puts the time in place of the server's clock, and a trigger on each table that fails its COMMIT while that is cut.
const rigging = `
CREATE OR REPLACE FUNCTION clock() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT pg_sequence_last_value(''hands'')';
CREATE FUNCTION shear() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_sequence_last_value('shears') > 0 THEN RAISE 'cut before the commit'; END IF;
	RETURN NULL;
END $$;
DO $$
DECLARE name text;
BEGIN
	FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
		EXECUTE format('CREATE CONSTRAINT TRIGGER shear AFTER INSERT OR UPDATE OR DELETE ON %I
			DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION shear()', name);
	END LOOP;
END $$`

// onPostgres is a store in a schema of its own, which goes when it is closed.
type onPostgres struct {
	*postgres.Store
	schema string

	mu  sync.Mutex
	own *pgx.Conn // for the clock and the cuts
	set time.Time // what the clock says
}

// OpenPostgres opens a fresh store in the database at an address, whose clock is that of the process: where it is opened in a
// bubble of testing/synctest, time stands still while the server works.
func OpenPostgres(ctx context.Context, address string) (s store.Store, cut func(on bool), err error) {
	o := &onPostgres{schema: "pawl_" + strings.ToLower(rand.Text())}
	cc, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, nil, err
	}
	if cc.TLSConfig != nil {
		return nil, nil, errors.New("faults: who listens cannot be told apart on an encrypted line: the address must say sslmode=disable")
	}
	cc.RuntimeParams["search_path"] = o.schema
	cc.RuntimeParams["synchronous_commit"] = "off" // of the clock
	if o.own, err = pgx.ConnectConfig(ctx, cc); err != nil {
		return nil, nil, err
	}
	if err = o.open(ctx, address); err != nil {
		return nil, nil, errors.Join(err, o.Close())
	}
	return o, o.cut, nil
}

func (o *onPostgres) open(ctx context.Context, address string) error {
	_, err := o.own.Exec(ctx, fmt.Sprintf(sequences, o.schema), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
	}
	// Few connections: each one plans all statements anew, which takes longer than a trial does.
	if o.Store, err = postgres.Open(ctx, address, postgres.Options{Schema: o.schema, Conns: 4, Dial: o.dial}); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err = o.own.Exec(ctx, rigging, pgx.QueryExecModeSimpleProtocol)
	return err
}

// Close closes the store and removes its schema.
func (o *onPostgres) Close() (err error) {
	if o.Store != nil {
		err = o.Store.Close()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.own.IsClosed() {
		return err
	}
	ctx := context.Background()
	_, drop := o.own.Exec(ctx, `DROP SCHEMA IF EXISTS "`+o.schema+`" CASCADE`)
	return errors.Join(err, drop, o.own.Close(ctx))
}

// cut makes the server refuse each COMMIT while it is on, with all of its transaction carried out.
func (o *onPostgres) cut(on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.put("shears", map[bool]int64{true: 1}[on]); err != nil {
		panic(fmt.Errorf("faults: %w", err)) // a trial that does not break what it says it breaks must not pass
	}
}

func (o *onPostgres) put(sequence string, n int64) error {
	_, err := o.own.Exec(context.Background(), "SELECT setval($1::text::regclass, $2)", sequence, n)
	return err
}

// tick sets the clock to the time of the process.
func (o *onPostgres) tick() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now().Truncate(time.Microsecond) // no finer than the server's own
	if now.Equal(o.set) {
		return nil
	}
	o.set = now
	return o.put("hands", now.UnixNano())
}

func (o *onPostgres) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c, store: o}, nil
}

// wire is a connection for which the clock is set before each request. Whoever waits for an answer keeps the time of a bubble from
// passing, as it should be. Whoever waits for a notice must not: nobody may ever send one.
type wire struct {
	net.Conn
	store   *onPostgres
	listens bool
	idle    bool // it listens, and all that was asked has been answered
}

// Write sends a request.
func (w *wire) Write(b []byte) (int, error) {
	if err := w.store.tick(); err != nil {
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
		time.Sleep(glance)
	}
}
