package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pawl/store"
)

// lockFile holds the lock of a database as another process would; the function that it returns lets go of it.
func lockFile(t *testing.T, path string) (db *sql.DB, unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	_, err = db.Exec("BEGIN IMMEDIATE")
	must(t, err)
	return db, func() {
		t.Helper()
		_, err := db.Exec("COMMIT")
		must(t, err)
	}
}

// within is for what must not wait for a lock that others hold for an hour.
func within(t *testing.T, what string, do func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not end", what)
	}
}

// When the callers have left, the writer does not go on waiting for a lock that nobody needs: it would stand before what comes
// later. Nor is one who comes later told that they have left.
func TestNobodyWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, Options{Busy: time.Hour})
	_, unlock := lockFile(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	results := make(chan error)
	for range 3 {
		go func() { results <- s.Create(ctx, store.NewRun{ID: "left"}) }()
	}
	for range 3 {
		if err := <-results; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	within(t, "the wait", func() error { return s.do(t.Context(), "test", &op{look: true}) })
	go func() { results <- s.Create(t.Context(), store.NewRun{ID: "r"}) }()
	for s.writer.callers.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	unlock()
	must(t, <-results)
	rs, err := s.List(t.Context(), store.Scope{All: true}, store.Filter{}, store.Page{})
	if err != nil || len(rs) != 1 || rs[0].ID != "r" {
		t.Fatal(rs, err)
	}
}

// Close waits for no other process: what has been handed in is refused, all of it, and nobody waits for the answer for ever.
// Meanwhile and afterwards reads are answered at once.
func TestCloseBehindALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, Options{Busy: time.Hour})
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	lockFile(t, path)
	const n = most + 20 // more than can be handed in
	results := make(chan error, n)
	for range n {
		go func() { results <- s.Create(context.Background(), store.NewRun{ID: "x"}) }()
	}
	for len(s.writer.ops) < most {
		time.Sleep(time.Millisecond)
	}
	get := func() error {
		_, err := s.Get(t.Context(), store.Scope{All: true}, "r")
		return err
	}
	within(t, "Get", get)
	within(t, "Close", s.Close)
	within(t, "Create", func() (odd error) {
		for range n {
			if err := <-results; !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, errClosed) {
				odd = fmt.Errorf("the answer is %w", err)
			}
		}
		return odd
	})
	if err := get(); !errors.Is(err, errClosed) {
		t.Fatal(err)
	}
}

// While it waits for the lock the writer looks for others' changes; that it finds the file busy there too ends no wait.
func TestLookBehindALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, Options{})
	must(t, s.do(t.Context(), "test", &op{run: func(tx *tx) (err error) {
		_ = tx.w.prepared["PRAGMA data_version"].Close()
		tx.w.prepared["PRAGMA data_version"], err = tx.w.conn.PrepareContext(t.Context(), "INSERT INTO kind (name) VALUES ('x') RETURNING 1")
		return err
	}}))
	lockFile(t, path)
	must(t, s.do(t.Context(), "test", &op{look: true}))
}

// Open waits as long as its context says for those who bring the file into shape. One that is in shape is opened at once,
// whoever is writing: otherwise a look at the runs would have to queue behind the writers.
func TestOpenBehindALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	unpack(t, "testdata/version1.db.gz", path)
	must(t, open(t, path, Options{}).Close()) // is in shape now
	older := filepath.Join(t.TempDir(), "older.db")
	unpack(t, "testdata/version1.db.gz", older)
	for _, p := range []string{path, older} {
		turn, err := openTurnstile(p)
		must(t, err)
		defer func() { _ = turn.close() }()
		must(t, turn.take())
		lockFile(t, p)
	}
	within(t, "Open", func() error {
		s, err := Open(t.Context(), path, Options{Busy: time.Hour})
		if err == nil {
			err = s.Close()
		}
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for _, c := range []struct {
		ctx  context.Context
		busy time.Duration
		want string
	}{{ctx, time.Hour, context.DeadlineExceeded.Error()}, {t.Context(), time.Millisecond, "another process"}} {
		within(t, "Open", func() error {
			_, err := Open(c.ctx, older, Options{Busy: c.busy})
			if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
				return fmt.Errorf("the error is %w, want %s", err, c.want)
			}
			return nil
		})
	}
}
