package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Compact writes the file anew: smaller, and without the copies of removed rows that SQLite leaves in gaps where it moves rows
// together. All who write wait meanwhile, some seconds for each gigabyte, and it takes as much room on the disk again.
func (s *Store) Compact(ctx context.Context) error {
	return s.fault(ctx, "compact", s.compact(ctx))
}

func (s *Store) compact(ctx context.Context) error {
	db, conn, err := s.apart(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(conn.Close(), db.Close()) }()
	turn, err := openTurnstile(s.path)
	if err != nil {
		return err
	}
	defer func() { _ = turn.close() }()
	patiently := func(try func() error) error {
		return s.writer.patiently(time.Now().Add(s.writer.busy), func(int) error { return s.ready(ctx) }, try)
	}
	if err := patiently(turn.take); err != nil {
		return err
	}
	defer turn.pass()
	if err := patiently(func() error { _, err := conn.ExecContext(ctx, "VACUUM"); return err }); err != nil {
		return err
	}
	return patiently(func() error { return cut(ctx, conn) })
}

// apart opens a connection besides the writer's and the readers'.
func (s *Store) apart(ctx context.Context) (*sql.DB, *sql.Conn, error) {
	if err := s.ready(ctx); err != nil {
		return nil, nil, err
	}
	db, err := sql.Open(s.driver, dsn(s.path, "busy_timeout(0)", "synchronous(FULL)", "secure_delete(1)"))
	if err != nil {
		return nil, nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, conn, nil
}

// errRead says that a reader is in the way.
var errRead = errors.New("somebody reads in the log")

// cut brings the log into the file and cuts it off.
func cut(ctx context.Context, conn *sql.Conn) error {
	var busy, log, done int
	err := conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done)
	if err == nil && busy != 0 {
		return errRead
	}
	return err
}
