package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
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
	s := &Store{path: abs, driver: o.Driver, clock: clock{start: time.Now()}, closing: make(chan struct{}), views: make(chan *view, readers)}
	s.answers.New = func() any { return make(chan error, 1) }
	for range readers {
		s.views <- &view{link: link{prepared: map[string]*sql.Stmt{}}}
	}
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
	w := &writer{s: s, busy: o.Busy, ops: make(chan *op, most), gone: make(chan struct{}), version: -1}
	w.prepared, w.straight.prepared = map[string]*sql.Stmt{}, map[string]driver.StmtExecContext{}
	w.tx.w, w.tx.damaged = w, map[int64]bool{}
	s.writer = w
	defer func() {
		if err != nil {
			s.drop()
		}
	}()
	w.db, err = sql.Open(o.Driver, dsn(s.path,
		"busy_timeout(0)",          // the writer waits in its own way: see patiently
		"synchronous(FULL)",        // NORMAL loses acknowledged commits when the power goes
		"cache_size(-16384)",       // 16 MiB: the pages that a few thousand live runs write to
		"temp_store(MEMORY)",       //
		"secure_delete(1)",         // what is removed, or replaced, is overwritten and not only let go
		"wal_autocheckpoint(4000)", // 16 MB: larger groups of checkpointed pages, fewer syncs
		"journal_size_limit(67108864)",
	))
	if err != nil {
		return err
	}
	w.db.SetMaxOpenConns(1)
	if s.reads, err = sql.Open(o.Driver, dsn(s.path, "busy_timeout(5000)", "query_only(1)", "cache_size(-4096)")); err != nil {
		return err
	}
	return w.prepare(ctx)
}

// prepare connects, and brings the file into shape if it is not, alone among the processes that open it at the same time.
func (w *writer) prepare(ctx context.Context) error {
	deadline := time.Now().Add(w.busy)
	patiently := func(try func() error) error {
		return w.patiently(deadline, func(int) error { return ctx.Err() }, try)
	}
	if err := patiently(func() error { return w.connect(ctx) }); err != nil {
		return err
	}
	shaped := false
	err := patiently(func() (err error) {
		shaped, err = w.shaped(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if w.turn, err = openTurnstile(w.s.path); err != nil { // now that there is a file
		return err
	}
	if !shaped {
		if err := patiently(w.turn.take); err != nil {
			return err
		}
		defer w.turn.pass()
		if err := patiently(func() error { return w.shape(ctx) }); err != nil {
			return err
		}
	}
	return patiently(w.foreign)
}

// shaped tells whether the file is in shape, and refuses one that can never be.
func (w *writer) shaped(ctx context.Context) (bool, error) {
	if err := w.run(ctx, "BEGIN"); err != nil { // else it may be half of what another process makes of it
		return false, err
	}
	defer func() { _ = w.run(context.WithoutCancel(ctx), "ROLLBACK") }() // also when ctx has ended: the next transaction could not begin
	version, err := w.known(ctx)
	if err != nil || version < len(migrations) {
		return false, err
	}
	var mode string
	err = w.conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
	return mode == "wal", err
}

// shape makes a database of this version of what there is.
func (w *writer) shape(ctx context.Context) (err error) {
	// A page of 4096 takes two step rows, or one state with its names; larger ones cost more per commit.
	if err := w.run(ctx, "PRAGMA page_size = 4096"); err != nil {
		return err
	}
	var mode string
	if err := w.conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil { // readers do not wait for the writer
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the file system does not allow a write-ahead log (journal mode is %q)", mode)
	}
	if err := w.run(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.run(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	version, err := w.known(ctx) // another process may have been faster
	if err != nil {
		return err
	}
	for ; version < len(migrations); version++ {
		if err := w.run(ctx, migrations[version]); err != nil {
			return fmt.Errorf("migration %d: %w", version+1, err)
		}
	}
	if err := w.run(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version)); err != nil {
		return err
	}
	return w.run(ctx, "COMMIT")
}

func (w *writer) run(ctx context.Context, text string) error {
	_, err := w.conn.ExecContext(ctx, text)
	return err
}

// known reads the file's version, within a transaction, and refuses one that is another program's or from a later time.
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
		return 0, ours(version)
	}
	return version, nil
}

// ours refuses a database of another version than this program's.
func ours(version int) error {
	switch {
	case version > len(migrations):
		return fmt.Errorf("the database has version %d, this program knows %d: use a newer program", version, len(migrations))
	case version < len(migrations):
		return fmt.Errorf("the database has version %d now, this program needs %d: open it again", version, len(migrations))
	}
	return nil
}

// drop lets go of whatever a failed Open had.
func (s *Store) drop() {
	w := s.writer
	w.hangUp()
	if w.db != nil {
		_ = w.db.Close()
	}
	if s.reads != nil {
		_ = s.closeReads()
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
		if f, cause := os.OpenFile(path, os.O_RDWR, 0); errors.Is(cause, fs.ErrNotExist) {
			return fmt.Errorf("no file can be made in the folder %s: it must be writable: %w", filepath.Dir(path), err)
		} else if cause != nil {
			return fmt.Errorf("%w (%w)", err, cause)
		} else if f.Close(); true {
			return fmt.Errorf("the file and its folder must be writable: %w", err)
		}
	}
	return err
}
