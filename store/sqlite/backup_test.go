package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl/store"
)

// A copy that is taken while others write is one moment of the database: each run's row and its steps are of the same commit.
// It opens, and its runs go on, also on the other driver.
func TestBackupWhileWriting(t *testing.T) {
	for _, driver := range []string{"sqlite", "sqlite3"} {
		dir := t.TempDir()
		s := open(t, filepath.Join(dir, "x.db"), Options{Driver: driver})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 4 {
			id := fmt.Sprint("r", i)
			must(t, s.Create(ctx, store.NewRun{ID: id, Workflow: "w", Version: "1", Row: []byte("0")}))
			rs, _, err := s.Claim(ctx, store.Claim{Worker: "w", Run: id, Max: 1, Hold: time.Hour})
			must(t, err)
			wg.Go(func() {
				for n := 1; ctx.Err() == nil; n++ {
					err := s.Apply(ctx, store.Change{Run: id, Epoch: rs[0].Epoch, Row: fmt.Append(nil, n), Add: []store.Row{{Stream: store.Step}}})
					if err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for i := range 5 {
			must(t, s.Backup(ctx, filepath.Join(dir, "a b?#%41 copy.db"), i > 0))
		}
		cancel()
		wg.Wait()
		c := open(t, filepath.Join(dir, "a b?#%41 copy.db"), Options{})
		fs, err := c.Check(t.Context())
		must(t, err)
		for _, f := range fs {
			if f.Fault != "" {
				t.Errorf("%+v", f)
			}
		}
		rs, err := c.List(t.Context(), store.Scope{All: true}, store.Filter{}, store.Page{})
		if err != nil || len(rs) != 4 {
			t.Fatal(len(rs), err)
		}
		for _, r := range rs {
			rows, err := c.Read(t.Context(), store.Scope{All: true}, r.ID, store.Query{Stream: store.Step})
			if err != nil || fmt.Sprint(len(rows)) != string(r.Row) {
				t.Errorf("%d steps, row %s, %v", len(rows), r.Row, err)
			}
			must(t, c.Apply(t.Context(), store.Change{Run: r.ID, Epoch: r.Epoch, Row: []byte("on"), Add: []store.Row{{Stream: store.Step}}}))
		}
	}
}

// What is there stays as it is, whatever goes wrong; and nothing is left of a backup that was given up.
func TestBackupRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	s := open(t, path, Options{})
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		must(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	there := put("there", "mine")
	link := filepath.Join(dir, "link")
	must(t, os.Symlink(path, link))
	put("other-wal", "log")
	busy := put("busy.part", "")
	f, err := os.Open(busy)
	must(t, err)
	defer f.Close()
	must(t, (turnstile{f}).take())
	for file, overwrite := range map[string]bool{there: false, path: true, link: true, dir: true, filepath.Join(dir, "other"): true, filepath.Join(dir, "busy"): true} {
		if err := s.Backup(t.Context(), file, overwrite); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := s.Backup(t.Context(), filepath.Join(dir, "none", "x"), false); !errors.Is(err, store.ErrUnavailable) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Backup(ctx, filepath.Join(dir, "late"), false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	put("dead.part", strings.Repeat("half of a database", 1000)) // of a backup whose process was killed
	dead := filepath.Join(dir, "dead")
	must(t, s.Backup(t.Context(), dead, false))
	if info, err := os.Stat(dead); err != nil || info.Mode().Perm() != mode(t, path) {
		t.Error(info, err)
	}
	for _, name := range []string{"dead.part", "late", "late.part", "there.part"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left", name)
		}
	}
	if b, err := os.ReadFile(there); string(b) != "mine" {
		t.Error(string(b), err)
	}
	must(t, s.Backup(t.Context(), there, true))
	if r, err := open(t, there, Options{}).Get(t.Context(), store.Scope{All: true}, "r"); err != nil || r.ID != "r" {
		t.Error(r, err)
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Mode().Perm()
}
