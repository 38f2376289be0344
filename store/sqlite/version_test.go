package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pawl/store"
)

// What a program of version 1 does with a run, to read it, to claim it or to write to it.
var version1 = []string{
	`INSERT INTO state (n, status, node, outcome, updated, tails, row) VALUES (99, '', '', '', 0, NULL, NULL)`,
	`UPDATE state SET status = 'x' WHERE n = 99`,
	`SELECT l.epoch, l.tails, s.tails FROM run r JOIN lease l ON l.n = r.n JOIN state s ON s.n = r.n WHERE r.id = ''`,
	`SELECT s.row, h.data FROM run r JOIN lease l ON l.n = r.n JOIN state s ON s.n = r.n JOIN head h ON h.n = r.n WHERE r.n = 1`,
}

// A program of version 1 that has the file open when this one brings it up to date fails from then on, whatever it does with a
// run: it would show steps as events, and remove runs in part.
func TestOlderProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	unpack(t, "testdata/version1.db.gz", path)
	db, err := sql.Open("sqlite", dsn(path))
	must(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	var old []*sql.Stmt
	for _, q := range version1 {
		st, err := db.Prepare(q)
		must(t, err)
		_, err = st.Exec()
		must(t, err)
		old = append(old, st)
	}
	open(t, path, Options{})
	for i, st := range old {
		if _, err := st.Exec(); err == nil || !strings.Contains(err.Error(), "no such table: state") {
			t.Errorf("%s: %v", version1[i], err)
		}
	}
}

// A newer program makes another database of the file that this one has open: this one says so, rather than read or write by
// rules that do not hold any more, and Check names it.
func TestNewerProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, Options{})
	ctx, all := t.Context(), store.Scope{All: true}
	must(t, s.Create(ctx, store.NewRun{ID: "r"}))
	db, err := sql.Open("sqlite", dsn(path))
	must(t, err)
	defer db.Close()
	version := func(n int) {
		_, err := db.Exec(fmt.Sprintf("PRAGMA user_version = %d", n))
		must(t, err)
	}
	version(99)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "version 99") || !strings.Contains(err.Error(), "newer program") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for range 2 {
		refused("Create", s.Create(ctx, store.NewRun{ID: "x"}))
		_, _, err := s.Claim(ctx, store.Claim{Worker: "w", Max: 1, Hold: time.Minute})
		refused("Claim", err)
		_, err = s.List(ctx, all, store.Filter{}, store.Page{})
		refused("List", err)
		_, err = s.Read(ctx, all, "r", store.Query{Stream: store.Event})
		refused("Read", err)
		_, err = s.Workers(ctx)
		refused("Workers", err)
	}
	if f := finding(t, s, "schema"); f.Value != "99" || !strings.Contains(f.Fault, "newer program") {
		t.Errorf("%+v", f)
	}
	version(len(migrations))
	must(t, s.Create(ctx, store.NewRun{ID: "again"}))
	if rs, err := s.List(ctx, all, store.Filter{}, store.Page{}); err != nil || len(rs) != 2 {
		t.Fatal(len(rs), err)
	}
}

func finding(t *testing.T, s *Store, name string) store.Finding {
	t.Helper()
	fs, err := s.Check(t.Context())
	must(t, err)
	for _, f := range fs {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no finding %s: %+v", name, fs)
	return store.Finding{}
}

// Another process brings the file up to date after this one has read its version: nothing is done twice.
func TestMigratedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	unpack(t, "testdata/version1.db.gz", path)
	other, unlock := lockFile(t, path)
	opened := make(chan error, 1)
	go func() {
		s, err := Open(t.Context(), path, Options{})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	for { // it has read the version by then
		if _, err := os.Stat(path + "-turn"); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	_, err := other.Exec(strings.Join(migrations[1:], ";") + fmt.Sprintf("; PRAGMA user_version = %d", len(migrations)))
	must(t, err)
	unlock()
	must(t, <-opened)
}

// Many open a file at once that is not there yet, or an older one: all of them can, with either driver.
func TestOpenedTogether(t *testing.T) {
	for _, from := range []string{"", "testdata/version1.db.gz"} {
		for round := range 4 {
			path := filepath.Join(t.TempDir(), "x.db")
			if from != "" {
				unpack(t, from, path)
			}
			errs := make(chan error)
			const n = 8
			for i := range n {
				go func() {
					s, err := Open(t.Context(), path, Options{Driver: []string{"sqlite", "sqlite3"}[round%2]})
					if err == nil {
						err = errors.Join(s.Create(t.Context(), store.NewRun{ID: fmt.Sprint(i)}), s.Close())
					}
					errs <- err
				}()
			}
			for range n {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// What was written by a clock that was ahead is a fault that says what to do: timers stand still meanwhile, which nobody would guess.
func TestCheckClock(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	if f := finding(t, s, "clock"); f.Fault != "" {
		t.Errorf("%+v", f)
	}
	s.clock.ahead.Add(int64(time.Hour))
	must(t, s.Create(t.Context(), store.NewRun{ID: "later"}))
	s.clock.ahead.Add(-int64(time.Hour))
	if f := finding(t, s, "clock"); !strings.Contains(f.Fault, "1h0m0s ahead") || !strings.Contains(f.Fault, "set it right") {
		t.Errorf("%+v", f)
	}
}
