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

	"pawl/store"
)

// Open opens the store in the file at path and makes file and folder where there are none. It starts the writer's goroutine,
// which Close ends.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	o = o.withDefaults()
	abs, err := filepath.Abs(path)
	if err == nil && path == "" {
		err = errors.New("no path given")
	}
	if err != nil {
		return nil, fmt.Errorf("sqlite: open: %w: %w", store.ErrUnavailable, err)
	}
	s := &Store{path: abs}
	if err := s.open(ctx, o); err != nil {
		return nil, fmt.Errorf("sqlite: open: %w: %s: %w", store.ErrUnavailable, abs, explain(abs, err))
	}
	go s.writer.loop()
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) (err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	if info, err := os.Stat(s.path); err == nil && !info.Mode().IsRegular() {
		return errors.New("not a file")
	}
	w := &writer{s: s, busy: o.Busy, ops: make(chan *op, most), gone: make(chan struct{}), prepared: map[string]*sql.Stmt{}}
	w.tx.w = w
	s.writer = w
	defer func() {
		if err != nil {
			s.drop()
		}
	}()
	if w.turn, err = openTurnstile(s.path + "-turn"); err != nil {
		return err
	}
	if w.db, err = sql.Open(o.Driver, dsn(s.path, "busy_timeout(5000)")); err != nil {
		return err
	}
	w.db.SetMaxOpenConns(1)
	if w.conn, err = w.db.Conn(ctx); err != nil {
		return err
	}
	if s.reads, err = sql.Open(o.Driver, dsn(s.path, "busy_timeout(5000)", "query_only(1)", "cache_size(-4096)")); err != nil {
		return err
	}
	s.reads.SetMaxOpenConns(4)
	s.reads.SetMaxIdleConns(4)
	return w.prepare(ctx)
}

// prepare brings the file into shape, alone among the processes that open it at the same time.
func (w *writer) prepare(ctx context.Context) error {
	deadline := time.Now().Add(w.busy)
	for {
		if ok, err := w.turn.take(); err != nil {
			return err
		} else if ok {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("another process has been writing for too long")
		}
		time.Sleep(time.Millisecond)
	}
	defer w.turn.pass()
	version, err := w.known(ctx)
	if err != nil {
		return err
	}
	for _, p := range []string{
		"page_size = 4096",          // takes two step rows, or one state with its names; larger pages cost more per commit
		"journal_mode = WAL",        // readers do not wait for the writer
		"synchronous = FULL",        // NORMAL loses acknowledged commits when the power goes
		"cache_size = -16384",       // 16 MiB: the pages that a few thousand live runs write to
		"temp_store = MEMORY",       //
		"wal_autocheckpoint = 4000", // 16 MB: larger groups of checkpointed pages, fewer syncs
		"journal_size_limit = 67108864",
	} {
		if _, err := w.conn.ExecContext(ctx, "PRAGMA "+p); err != nil {
			return err
		}
	}
	var mode string
	if err := w.conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		return errors.Join(err, fmt.Errorf("the file system does not allow a write-ahead log (journal mode is %q)", mode))
	}
	for ; version < len(migrations); version++ {
		if err := w.migrate(ctx, version); err != nil {
			return fmt.Errorf("migration %d: %w", version+1, err)
		}
	}
	if _, err := w.conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil { // from here on begin waits in its own way
		return err
	}
	return w.foreign()
}

// known reads the file's version and refuses one that is another program's or from a later time.
func (w *writer) known(ctx context.Context) (int, error) {
	var app, version, tables int
	for q, to := range map[string]*int{
		"PRAGMA application_id": &app, "PRAGMA user_version": &version, "SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := w.conn.QueryRowContext(ctx, q).Scan(to); err != nil {
			return 0, err
		}
	}
	switch {
	case app == 0 && version == 0 && tables == 0:
		return 0, nil
	case app != applicationID:
		return 0, errors.New("the database belongs to another program")
	case version > len(migrations):
		return 0, fmt.Errorf("the database has version %d, this program knows %d: use a newer program", version, len(migrations))
	}
	return version, nil
}

func (w *writer) migrate(ctx context.Context, version int) error {
	tx, err := w.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, q := range []string{
		migrations[version],
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", version+1),
	} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// drop lets go of whatever a failed Open had.
func (s *Store) drop() {
	w := s.writer
	if w.conn != nil {
		_ = w.conn.Close()
	}
	if w.db != nil {
		_ = w.db.Close()
	}
	if s.reads != nil {
		_ = s.reads.Close()
	}
	_ = w.turn.close()
}

// dsn is a file: URI, so that no character of a path is taken for something else.
func dsn(path string, pragmas ...string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	return u.String()
}

// explain adds the cause where SQLite names only the effect.
func explain(path string, err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "not a database"):
		return fmt.Errorf("the file is not a SQLite database: %w", err)
	case strings.Contains(text, "malformed"):
		return fmt.Errorf("the database is damaged: restore a backup, or try the sqlite3 program's .recover: %w", err)
	case strings.Contains(text, "I/O error"):
		if free, ok := freeDisk(filepath.Dir(path)); ok && free < 256<<10 {
			return fmt.Errorf("the disk is full: %w", err)
		}
	case strings.Contains(text, "unable to open"), strings.Contains(text, "readonly"):
		if f, cause := os.OpenFile(path, os.O_RDWR, 0); cause != nil {
			return fmt.Errorf("%w (%w)", err, cause)
		} else if f.Close(); true {
			return fmt.Errorf("the file and its folder must be writable: %w", err)
		}
	}
	return err
}
