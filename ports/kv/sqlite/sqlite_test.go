package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/ports/kv"
	"pawl/ports/kv/kvtest"
	"pawl/ports/kv/sqlite"
)

// The tests start themselves again as other processes, which write to the file that PAWL_TEST_KV names.
func TestMain(m *testing.M) {
	if path := os.Getenv("PAWL_TEST_KV"); path != "" {
		if err := writeOn(path, os.Getenv("PAWL_TEST_KV_WHO")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const turns = 100

func writeOn(path, who string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return err
	}
	for i := range turns {
		for _, key := range []string{"shared", who + ":" + fmt.Sprint(i)} {
			if err := s.Put(ctx, key, []byte(strings.Repeat(who, 1000)), time.Hour); err != nil {
				return err
			}
		}
		got, ok, err := s.Get(ctx, "shared")
		if err != nil || !ok || len(got) != 1000 || strings.Trim(string(got), string(got[:1])) != "" {
			return errors.Join(err, fmt.Errorf("%d bytes, %v", len(got), ok))
		}
	}
	return s.Close()
}

func open(t *testing.T, path string, c sqlite.Config) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestLaw(t *testing.T) {
	var passed atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	kvtest.Run(t, kvtest.Bench{
		Open: func(t *testing.T) kv.Store {
			return open(t, filepath.Join(t.TempDir(), "new folder", "k v?#.db"), sqlite.Config{Now: now})
		},
		Pass: func(_ *testing.T, d time.Duration) { passed.Add(int64(d)) },
	})
}

// TestBusy: who waits too long for another process may come again; readers need not wait.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	s := open(t, path, sqlite.Config{Busy: time.Millisecond})
	if err := s.Put(t.Context(), "k", []byte("v"), time.Hour); err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetMaxOpenConns(1)
	if _, err := other.Exec(`BEGIN EXCLUSIVE`); err != nil {
		t.Fatal(err)
	}
	for op, err := range map[string]error{"put": s.Put(t.Context(), "k", nil, time.Hour), "delete": s.Delete(t.Context(), "k")} {
		if _, again := pawl.Retryable(err); kv.Code(err) != pawl.CodeUnavailable || !again {
			t.Errorf("%s: %v, tried again: %v", op, err, again)
		}
	}
	if got, ok, err := s.Get(t.Context(), "k"); err != nil || !ok || string(got) != "v" {
		t.Errorf("%q, %v, %v", got, ok, err)
	}
	if _, err := other.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Error(err)
	}
}

// TestSeveralProcesses: no write of one is lost or refused because of another, and no value is a mix of two.
func TestSeveralProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	var all []*exec.Cmd
	for _, who := range []string{"a", "b", "c"} { // they also make the file at the same time
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "PAWL_TEST_KV="+path, "PAWL_TEST_KV_WHO="+who)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	s := open(t, path, sqlite.Config{})
	for _, who := range []string{"a", "b", "c"} {
		if keys, err := s.Keys(t.Context(), who+":"); err != nil || len(keys) != turns {
			t.Errorf("%s: %d keys, %v", who, len(keys), err)
		}
	}
}

// TestReopened: values outlive the process, and their time goes on without it; what is over does not stay in the file.
func TestReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	var passed time.Duration
	c := sqlite.Config{Now: func() time.Time { return time.Now().Add(passed) }}
	for range 3 {
		s := open(t, path, c)
		for i := range 50 {
			if err := s.Put(t.Context(), fmt.Sprintf("%s:%d", passed, i), []byte("secret of somebody"), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := open(t, path, c)
		if keys, err := again.Keys(t.Context(), ""); err != nil || len(keys) != 50 {
			t.Errorf("%d keys, %v", len(keys), err)
		}
		passed += time.Minute
	}
	s := open(t, path, c)
	if err := s.Put(t.Context(), "last", nil, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var n int
	if err := raw.QueryRow(`SELECT count(*) FROM kv`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// TestForeign: a file of another program is neither used nor changed.
func TestForeign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(`CREATE TABLE kv (a); INSERT INTO kv VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	if _, err := sqlite.Open(t.Context(), path, sqlite.Config{}); kv.Code(err) != pawl.CodeConflict {
		t.Error(err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("it was changed")
	}
	text := filepath.Join(t.TempDir(), "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]string{text: pawl.CodeInternal, t.TempDir(): pawl.CodeForbidden, filepath.Join(text, "x"): pawl.CodeUnavailable} {
		_, err := sqlite.Open(t.Context(), path, sqlite.Config{})
		if err == nil || code != pawl.CodeUnavailable && kv.Code(err) != code {
			t.Errorf("%v is %s, want %s", err, kv.Code(err), code)
		}
	}
}
