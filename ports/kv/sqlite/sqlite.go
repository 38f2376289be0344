// Package sqlite keeps values in a file of their own, for as many processes as open it.
//
// It may never share a file with anything else, or be synced as carefully as a store of runs: what a power cut takes is taken, the
// file stays whole. Time is this machine's clock, or the one that is handed in.
//
// Start reading at Open.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite" // the driver, without cgo

	"pawl"
	"pawl/ports/kv"
)

// Config is how a file is used. Its zero value works.
type Config struct {
	Busy time.Duration    // how long to wait for other processes; 0: 10 s
	Now  func() time.Time // nil: this machine's clock
}

// Store is a kv.Store.
type Store struct {
	write, read *sql.DB
	now         func() time.Time
}

var _ kv.Store = (*Store)(nil)

const (
	name = "sqlite"
	mark = 0x70_77_6b_76 // the application_id of files of this package, "pwkv"
)

// Open opens the file at path, and makes file and folder where there are none.
func Open(ctx context.Context, path string, c Config) (*Store, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Busy == 0 {
		c.Busy = 10 * time.Second
	}
	path, err := filepath.Abs(path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return nil, fault("open", err)
	}
	s := &Store{now: c.Now}
	busy := fmt.Sprintf("busy_timeout(%d)", c.Busy.Milliseconds())
	if s.write, err = sql.Open("sqlite", dsn(path, busy, "synchronous(NORMAL)", "secure_delete(1)")); err != nil {
		return nil, fault("open", err)
	}
	s.write.SetMaxOpenConns(1) // whoever waits for a turn waits here, and not at the file
	if s.read, err = sql.Open("sqlite", dsn(path, busy)); err == nil {
		s.read.SetMaxOpenConns(4)
		err = s.shape(ctx)
	}
	if err != nil {
		_ = s.Close()
		return nil, fault("open", fmt.Errorf("%s: %w", path, err))
	}
	return s, nil
}

func dsn(path string, pragmas ...string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas, "_txlock": {"immediate"}}.Encode()}
	return u.String()
}

// errForeign says that a file is somebody else's.
var errForeign = errors.New("the file is another program's")

// shape makes the table where there is none. A file that is not of this package stays as it is.
func (s *Store) shape(ctx context.Context) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var id, tables int
	if err := tx.QueryRowContext(ctx, `SELECT application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id`).Scan(&id, &tables); err != nil {
		return err
	}
	switch {
	case id == mark:
		return nil
	case id != 0 || tables > 0:
		return errForeign
	}
	for _, q := range []string{
		fmt.Sprintf(`PRAGMA application_id = %d`, mark),
		`CREATE TABLE kv (key BLOB PRIMARY KEY, value BLOB NOT NULL, until INTEGER NOT NULL)`, // keys are BLOBs: as text they would end at a NUL
		`CREATE INDEX kv_until ON kv (until)`,
	} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	_, err = s.write.ExecContext(ctx, `PRAGMA journal_mode = WAL`)
	return err
}

// Name is "sqlite".
func (s *Store) Name() string { return name }

// mostSwept is how many values that are over one Put takes along: more than it adds, and few enough not to be felt.
const mostSwept = 100

// Put keeps a value, and takes some away that are over.
func (s *Store) Put(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := kv.Check(name, key, value, ttl); err != nil {
		return err
	}
	return s.change(ctx, "put", func(tx *sql.Tx) error {
		now := s.now()
		if _, err := tx.ExecContext(ctx, `DELETE FROM kv WHERE key IN (SELECT key FROM kv WHERE until <= ? LIMIT ?)`, now.UnixMilli(), mostSwept); err != nil {
			return err
		}
		until := now.Add(ttl + time.Millisecond - 1).UnixMilli() // never shorter than it was said
		_, err := tx.ExecContext(ctx, `INSERT INTO kv (key, value, until) VALUES (?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET value = excluded.value, until = excluded.until`, []byte(key), append([]byte{}, value...), until)
		return err
	})
}

// Delete takes a value away.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := kv.CheckKey(name, "delete", key); err != nil {
		return err
	}
	return s.change(ctx, "delete", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM kv WHERE key = ?`, []byte(key))
		return err
	})
}

func (s *Store) change(ctx context.Context, op string, do func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return fault(op, err)
	}
	defer tx.Rollback()
	if err = do(tx); err == nil {
		err = tx.Commit()
	}
	if ctx.Err() != nil && err != nil {
		err = ctx.Err() // whatever it has led to
	}
	return fault(op, err)
}

// Get gives a value.
func (s *Store) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if err := kv.CheckKey(name, "get", key); err != nil {
		return nil, false, err
	}
	value := []byte{}
	err := s.read.QueryRowContext(ctx, `SELECT value FROM kv WHERE key = ? AND until > ?`, []byte(key), s.now().UnixMilli()).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fault("get", err)
	}
	return value, true, nil
}

// Keys are those that begin so.
func (s *Store) Keys(ctx context.Context, prefix string) ([]string, error) {
	if err := kv.CheckPrefix(name, prefix); err != nil {
		return nil, err
	}
	rows, err := s.read.QueryContext(ctx, `SELECT key FROM kv WHERE key >= ?1 AND substr(key, 1, length(?1)) = ?1 AND until > ?2 ORDER BY key`,
		[]byte(prefix), s.now().UnixMilli())
	if err != nil {
		return nil, fault("keys", err)
	}
	defer rows.Close()
	var keys []string
	for rows.Next() {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return nil, fault("keys", err)
		}
		keys = append(keys, string(key))
	}
	return keys, fault("keys", rows.Err())
}

// Close lets go of the file. Calls that are under way end first.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// codes are what SQLite's primary codes mean (https://www.sqlite.org/rescode.html). What is not here may be over in a moment.
var codes = map[int]string{
	3: pawl.CodeForbidden, 8: pawl.CodeForbidden, 14: pawl.CodeForbidden, 23: pawl.CodeForbidden, // PERM, READONLY, CANTOPEN, AUTH
	11: pawl.CodeInternal, 26: pawl.CodeInternal, // CORRUPT, NOTADB
	13: kv.CodeFull,
}

func fault(op string, err error) error {
	if err == nil {
		return nil
	}
	return kv.FaultOf(name, op, err, func(f *kv.Failure, _ []byte) {
		var e *sqlite3.Error
		switch {
		case errors.As(err, &e) && codes[e.Code()&0xff] != "":
			f.Code = codes[e.Code()&0xff]
		case errors.Is(err, errForeign):
			f.Code = pawl.CodeConflict
		case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrExist):
			f.Code = pawl.CodeForbidden
		}
	})
}
