package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"pawl/store"
)

// A file that cannot be used is refused with a clear error that names it, and is left as it is.
func TestOpenErrors(t *testing.T) {
	sqlite := func(script string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", dsn(path))
			must(t, err)
			_, err = db.Exec(script)
			must(t, err)
			must(t, db.Close())
		}
	}
	file := func(text string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte(text), 0o600)) }
	}
	for _, c := range []struct {
		name, want string
		make       func(t *testing.T, path string)
	}{
		{"text", "not a SQLite database", file(strings.Repeat("hello, world. ", 1000))},
		{"short text", "not a SQLite database", file("hello")},
		{"folder", "not a file", func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }},
		{"another program's", "another program", sqlite("CREATE TABLE x (y)")},
		{"newer", "version 99", sqlite("PRAGMA application_id = 1885435756; PRAGMA user_version = 99; CREATE TABLE x (y)")},
		{"damaged", "damaged", func(t *testing.T, path string) {
			s := open(t, path, Options{})
			must(t, s.Close())
			b, err := os.ReadFile(path)
			must(t, err)
			for i := 100; i < 4096; i++ {
				b[i] = 0x5a
			}
			must(t, os.WriteFile(path, b, 0o600))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			c.make(t, path)
			before, _ := os.ReadFile(path)
			for _, name := range []string{"sqlite", "sqlite3"} {
				s, err := Open(t.Context(), path, Options{Driver: name})
				if err == nil {
					_ = s.Close()
					t.Fatal("no error")
				}
				if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Fatal("the file was changed")
			}
		})
	}
	if _, err := Open(t.Context(), "", Options{}); !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
}

// A folder in which nothing may be made gives a clear error. Root may write anywhere, so a file stands in the folder's place.
func TestOpenWithoutPermission(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, err := Open(t.Context(), filepath.Join(dir, "file", "x.db"), Options{})
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "not a directory") {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		t.Skip("running as root, whom permissions do not bind")
	}
	must(t, os.Chmod(dir, 0o500))
	_, err = Open(t.Context(), filepath.Join(dir, "x.db"), Options{})
	if !errors.Is(err, os.ErrPermission) {
		t.Fatal(err)
	}
}

// The folder is made, and the path is only a path, whatever is in it.
func TestOpenMakesFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "x?mode=memory&a%20b#c.db")
	s := open(t, path, Options{})
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	must(t, s.Close())
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); err == nil {
		t.Fatal("a clean shutdown leaves no log behind")
	}
}

// The connection that writes is set up for durable commits, whichever driver there is, and again when another has taken its place.
func TestConnection(t *testing.T) {
	for _, name := range []string{"sqlite", "sqlite3"} {
		s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{Driver: name})
		for range 2 {
			must(t, s.do(t.Context(), "test", &op{run: func(tx *tx) error {
				for pragma, want := range map[string]int64{
					"synchronous": 2, "page_size": 4096, "cache_size": -16384, "temp_store": 2, "wal_autocheckpoint": 4000,
					"journal_size_limit": 64 << 20, "busy_timeout": 0, "application_id": applicationID,
				} {
					var got int64
					if err := tx.w.ask("PRAGMA "+pragma, &got); err != nil || got != want {
						t.Errorf("%s: %s is %d, want %d: %v", name, pragma, got, want, err)
					}
				}
				return nil
			}}))
			_ = s.do(t.Context(), "test", &op{run: func(tx *tx) error { tx.w.hangUp(); return errors.New("odd") }})
		}
	}
}

// plain hides what a driver can do beyond the least.
type plain struct{ driver.Driver }

func (p plain) Open(name string) (driver.Conn, error) {
	c, err := p.Driver.Open(name)
	return struct{ driver.Conn }{c}, err
}

// A driver that cannot be spoken to with contexts is refused by Open, which says why.
func TestPlainDriver(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	must(t, err)
	defer db.Close()
	sql.Register("plain", plain{db.Driver()})
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), Options{Driver: "plain"})
	if err == nil {
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), `the driver "plain" does not prepare statements with a context`) {
		t.Fatal(err)
	}
}

// When the disk is full a write is refused and leaves nothing; what was there stays readable, and writing goes on when
// there is room again. Its neighbours in the group are not harmed.
func TestDiskFull(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	ctx := t.Context()
	must(t, s.Create(ctx, store.NewRun{ID: "r", Row: []byte("row")}))
	pragma := func(text string) {
		must(t, s.do(ctx, "test", &op{run: func(tx *tx) error { return tx.w.exec(text) }}))
	}
	pragma("PRAGMA max_page_count = 50")
	big := store.Change{Run: "r", Add: []store.Row{{Stream: store.Step, Data: make([]byte, 1<<20)}}}
	results := make(chan error, 20)
	for i := range 20 {
		go func() {
			c := big
			if i%2 == 0 {
				c.Add = []store.Row{{Stream: store.Event, Data: []byte("small")}}
			}
			results <- s.Apply(ctx, c)
		}()
	}
	refused := 0
	for range 20 {
		if err := <-results; errors.Is(err, store.ErrUnavailable) && strings.Contains(err.Error(), "full") {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.Read(ctx, store.Scope{All: true}, "r", store.Query{Stream: store.Event})
	if err != nil || refused != 10 || len(rows) != 10 {
		t.Fatal(refused, len(rows), err)
	}
	pragma("PRAGMA max_page_count = 1000000")
	must(t, s.Apply(ctx, big))
	rows, err = s.Read(ctx, store.Scope{All: true}, "r", store.Query{Stream: store.Step})
	if err != nil || len(rows) != 1 || rows[0].Seq != 1 {
		t.Fatal(len(rows), err)
	}
}

// A process that holds the file's lock for too long is named, instead of waiting for ever; a caller may leave before.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, Options{Busy: 50 * time.Millisecond})
	db, err := sql.Open("sqlite", dsn(path))
	must(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.Exec("BEGIN IMMEDIATE")
	must(t, err)
	if err := s.Create(t.Context(), store.NewRun{ID: "r"}); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "another process") {
		t.Fatal(err)
	}
	s.writer.busy = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Create(ctx, store.NewRun{ID: "left"}); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
	_, err = db.Exec("ROLLBACK")
	must(t, err)
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	if _, err := s.Get(t.Context(), store.Scope{All: true}, "left"); !errors.Is(err, store.ErrNotFound) {
		t.Fatal("what its caller had left was written all the same")
	}
}

// Where no file can be made, the folder is named: that the file is not there is no cause.
func TestNoFileCanBeMade(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs linux: a folder in which not even root can make a file")
	}
	if s, err := Open(t.Context(), "/proc/pawl.db", Options{}); err == nil {
		s.Close()
		t.Error("made")
	} else if !strings.Contains(err.Error(), "no file can be made in the folder /proc") || !errors.Is(err, store.ErrUnavailable) {
		t.Error(err)
	}
}
