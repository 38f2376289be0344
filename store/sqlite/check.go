package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pawl/store"
	"pawl/store/internal/rules"
)

// incomplete counts the runs that lack one of their rows: nothing finds them.
const incomplete = `
SELECT (SELECT count(*) FROM (SELECT n FROM run UNION SELECT n FROM head UNION SELECT n FROM progress UNION SELECT n FROM lease))
	- (SELECT count(*) FROM run JOIN head USING (n) JOIN progress USING (n) JOIN lease USING (n))`

// Check examines the file: version, integrity, room on the disk, how long a sync takes, and what is in it. What cannot be read
// is a fault, and the rest examined all the same.
func (s *Store) Check(ctx context.Context) ([]store.Finding, error) {
	var fs []store.Finding
	note := func(name, value, fault string) {
		fs = append(fs, store.Finding{Name: name, Value: value, Fault: fault})
	}
	ask := func(v *view, name, query string, fault func(value string) string) {
		var value string
		if err := v.row(query, nil, &value); err != nil {
			note(name, "", explain(s.path, err).Error())
		} else {
			note(name, strings.Join(strings.Fields(value), " "), fault(value))
		}
	}
	err := s.snapshot(ctx, func(v *view) error {
		ask(v, "schema", "PRAGMA user_version", func(v string) string {
			if n, err := strconv.Atoi(v); err != nil || ours(n) != nil {
				return errors.Join(err, ours(n)).Error()
			}
			return ""
		})
		ask(v, "integrity", "PRAGMA quick_check(1)", func(v string) string {
			if v != "ok" {
				return "the database is damaged: restore a backup, or try the sqlite3 program's .recover"
			}
			return ""
		})
		ask(v, "incomplete", incomplete, func(v string) string {
			if v != "0" {
				return "runs without some of their rows cannot be found: restore a backup"
			}
			return ""
		})
		good := func(string) string { return "" }
		ask(v, "runs", "SELECT count(*) FROM run", good)
		ask(v, "runs_live", "SELECT count(*) FROM lease WHERE ended = 0", good)
		ask(v, "questions_open", "SELECT count(*) FROM question WHERE closed = 0", good)
		var at int64
		if err := v.row(newest, nil, &at); err != nil {
			note("clock", "", explain(s.path, err).Error())
		} else if at != 0 {
			note("clock", "newest entry "+rules.Time(at).Format(time.RFC3339), ahead(at, s.clock.now()))
		}
		return nil
	})
	if err := s.ready(ctx); err != nil {
		return nil, s.fault(ctx, "check", err)
	}
	if err != nil {
		note("open", "", explain(s.path, err).Error())
	}
	note("file", s.path+", "+size(s.path)+", log "+size(s.path+"-wal"), "")
	if free, ok := freeDisk(filepath.Dir(s.path)); ok {
		fault := ""
		if free < 64<<20 {
			fault = "the disk is nearly full: make room, without it no step can be recorded"
		}
		note("free_disk", fmt.Sprintf("%d MB", free>>20), fault)
	}
	took, err := syncTime(filepath.Dir(s.path))
	if err != nil {
		note("fsync", "", err.Error())
	} else {
		fault := ""
		if took > slowSync {
			fault = "the disk takes so long to make a commit durable: put the database on a local disk, or find out who else writes to it"
		}
		note("fsync", took.Round(time.Microsecond).String(), fault)
	}
	return fs, nil
}

// newest is when something was last written.
const newest = `
SELECT max(coalesce((SELECT max(updated) FROM progress), 0), coalesce((SELECT at FROM log ORDER BY id DESC LIMIT 1), 0))`

// slowSync is a sync of which a few eat up a lease.
const slowSync = 2 * time.Second

// ahead is the fault of a clock that stands before what was last written.
func ahead(newest, now int64) string {
	d := time.Duration(newest - now)
	if d <= time.Second {
		return ""
	}
	return fmt.Sprintf("that is %v ahead of this machine's clock, which was set back, or another machine's is wrong: timers and leases wait until it "+
		"has caught up, so set it right", d.Round(time.Second))
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
