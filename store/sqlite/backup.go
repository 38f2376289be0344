package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Backup copies the database as it stands at one moment into a file, while others go on writing. It is written beside the file,
// examined, and only then gets its name: what has the name is whole. A file that is there is fs.ErrExist, unless it may be
// overwritten. The copy holds no byte of what was removed.
func (s *Store) Backup(ctx context.Context, file string, overwrite bool) error {
	err := s.backup(ctx, file, overwrite)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("sqlite: backup: %w", err)
	}
	return s.fault(ctx, "backup", err)
}

func (s *Store) backup(ctx context.Context, file string, overwrite bool) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	own, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	if err := vacant(file, own, overwrite); err != nil {
		return err
	}
	part, err := openPart(file+".part", own)
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	if err := s.fill(ctx, part); err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	if !renamesOpen {
		_ = part.Close()
	}
	if err := os.Rename(part.Name(), file); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(file))
}

// vacant refuses a place where a copy would do harm: over the database itself, or beside the log of another one, which would be
// taken for the copy's own.
func vacant(file string, own os.FileInfo, overwrite bool) error {
	switch info, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case os.SameFile(info, own):
		return fmt.Errorf("%s is the database itself: %w", file, fs.ErrExist)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file: %w", file, fs.ErrExist)
	case !overwrite:
		return fmt.Errorf("%s: %w", file, fs.ErrExist)
	}
	for _, rest := range []string{"-wal", "-journal"} {
		if info, err := os.Lstat(file + rest); err == nil && info.Size() > 0 {
			return fmt.Errorf("%s is there: %s is a database in use, or one that was not closed: %w", file+rest, file, fs.ErrExist)
		}
	}
	return nil
}

// openPart makes an empty file for this process alone, or takes over what a backup that died has left. It belongs to those to
// whom the database does.
func openPart(path string, own os.FileInfo) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, own.Mode().Perm())
	if err != nil {
		return nil, err
	}
	if err := (turnstile{f}).take(); err != nil {
		_ = f.Close()
		if errors.Is(err, errTaken) {
			return nil, fmt.Errorf("%s: another backup is under way: %w", path, fs.ErrExist)
		}
		return nil, err
	}
	mine, err := f.Stat()
	if err == nil {
		var named os.FileInfo
		if named, err = os.Lstat(path); err == nil && !os.SameFile(mine, named) {
			err = fmt.Errorf("%s: another backup has just ended: %w", path, fs.ErrExist)
		}
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	entrust(f, own)
	return f, nil
}

// fill copies, examines the copy and makes it durable.
func (s *Store) fill(ctx context.Context, part *os.File) error {
	db, conn, err := s.apart(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(conn.Close(), db.Close()) }()
	err = s.writer.patiently(time.Now().Add(s.writer.busy), func(int) error { return s.ready(ctx) }, func() error {
		_, err := conn.ExecContext(ctx, "VACUUM INTO ?", part.Name())
		return err
	})
	if err != nil {
		return err
	}
	if err := s.examine(ctx, part.Name()); err != nil {
		return fmt.Errorf("the copy is not as it should be: %w", err)
	}
	return part.Sync()
}

// examine tells whether a file is a whole database of this version.
func (s *Store) examine(ctx context.Context, path string) error {
	db, err := sql.Open(s.driver, dsn(path, "query_only(1)"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for _, ask := range []struct{ query, want string }{
		{"PRAGMA application_id", strconv.Itoa(applicationID)},
		{"PRAGMA user_version", strconv.Itoa(len(migrations))},
		{"PRAGMA integrity_check(1)", "ok"},
		{incomplete, "0"},
	} {
		var got string
		if err := db.QueryRowContext(ctx, ask.query).Scan(&got); err != nil {
			return err
		}
		if got != ask.want {
			return fmt.Errorf("%s: %s, want %s", ask.query, got, ask.want)
		}
	}
	return nil
}
