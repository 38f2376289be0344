package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pawl/store"
)

// Check examines the file: version, integrity, room on the disk, how long a sync takes, and what is in it.
func (s *Store) Check(ctx context.Context) ([]store.Finding, error) {
	var fs []store.Finding
	note := func(name, value, fault string) {
		fs = append(fs, store.Finding{Name: name, Value: value, Fault: fault})
	}
	err := s.view(ctx, "check", func(tx *sql.Tx) error {
		ask := func(q string) (v string, err error) { return v, tx.QueryRowContext(ctx, q).Scan(&v) }
		version, err := ask("PRAGMA user_version")
		if err != nil {
			return err
		}
		note("schema", version, "")
		sound, err := ask("PRAGMA quick_check(1)")
		if err != nil || sound != "ok" {
			note("integrity", "damaged", fmt.Sprint(sound, err))
		} else {
			note("integrity", sound, "")
		}
		for _, c := range [][2]string{
			{"runs", "SELECT count(*) FROM run"},
			{"runs_live", "SELECT count(*) FROM lease WHERE ended = 0"},
			{"questions_open", "SELECT count(*) FROM question WHERE closed = 0"},
		} {
			n, err := ask(c[1])
			if err != nil {
				return err
			}
			note(c[0], n, "")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	note("file", s.path+", "+size(s.path)+", log "+size(s.path+"-wal"), "")
	if free, ok := freeDisk(filepath.Dir(s.path)); ok {
		fault := ""
		if free < 64<<20 {
			fault = "the disk is nearly full"
		}
		note("free_disk", fmt.Sprintf("%d MB", free>>20), fault)
	}
	took, err := syncTime(filepath.Dir(s.path))
	if err != nil {
		note("fsync", "", err.Error())
	} else {
		note("fsync", took.Round(time.Microsecond).String(), "")
	}
	return fs, nil
}

func size(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "none"
	}
	return fmt.Sprintf("%d KB", (info.Size()+1023)>>10)
}

// syncTime is the shortest of a few syncs of a small file beside the database: what each commit costs at the least.
func syncTime(dir string) (best time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".pawl-sync-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}()
	for i := range 5 {
		start := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		if took := time.Since(start); i == 0 || took < best {
			best = took
		}
	}
	return best, nil
}
