package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pawl/store"
)

// exec writes past the rules, as a fault would.
func (s *Store) exec(t *testing.T, text string) {
	t.Helper()
	must(t, s.do(t.Context(), "test", &op{run: func(tx *tx) error { return tx.w.exec(text) }}))
}

// Runs that lack a row keep no others from being worked on, however many stand before them; Check counts them, and they expire
// like others.
func TestIncompleteRuns(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	ctx := t.Context()
	tables := []string{"head", "progress", "run"}
	for i := range 9 {
		must(t, s.Create(ctx, store.NewRun{ID: fmt.Sprint("damaged", i), Workflow: "w", Version: "1", Add: []store.Row{{Stream: store.Step}}}))
	}
	must(t, s.Create(ctx, store.NewRun{ID: "good", Workflow: "w", Version: "1"}, store.NewRun{ID: "better", Workflow: "w", Version: "1"}))
	if f := finding(t, s, "incomplete"); f.Fault != "" {
		t.Fatal(f)
	}
	for i := range 9 {
		s.exec(t, fmt.Sprintf("DELETE FROM %s WHERE n = %d", tables[i%3], i+1))
	}
	s.writer.tx.forget()
	claim := store.Claim{Worker: "w", Kinds: []string{"w@1"}, Max: 1, Hold: time.Hour}
	for _, want := range []string{"good", "better"} {
		rs, next, err := s.Claim(ctx, claim)
		for len(rs) == 0 && next == 0 && err == nil { // each call may pass by some
			rs, next, err = s.Claim(ctx, claim)
		}
		if err != nil || len(rs) != 1 || rs[0].ID != want {
			t.Fatal(rs, err)
		}
	}
	if rs, next, err := s.Claim(ctx, claim); err != nil || len(rs) != 0 || next < 59*time.Minute {
		t.Fatal(rs, next, err)
	}
	if f := finding(t, s, "incomplete"); f.Value != "9" || f.Fault == "" {
		t.Fatalf("%+v", f)
	}
	s.exec(t, "UPDATE lease SET expires = 1 WHERE n <= 9")
	if n, err := s.Expire(ctx, 100); n != 9 || err != nil {
		t.Fatal(n, err)
	}
	if f := finding(t, s, "incomplete"); f.Fault != "" {
		t.Fatalf("%+v", f)
	}
}

// A log row that points to itself, or to a row of another run, leads a removal neither in a circle nor astray.
func TestExpireDamagedLog(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	ctx := t.Context()
	rows := []store.Row{{Stream: store.Step}, {Stream: store.Event}, {Stream: store.Step, Told: true}}
	must(t, s.Create(ctx, store.NewRun{ID: "other", Add: rows}, store.NewRun{ID: "a", Add: rows}, store.NewRun{ID: "b", Add: rows}))
	must(t, s.Apply(ctx,
		store.Change{Run: "a", Takeover: true, Row: []byte("x"), End: true, Keep: time.Nanosecond},
		store.Change{Run: "b", Takeover: true, Row: []byte("x"), End: true, Keep: time.Nanosecond},
	))
	s.exec(t, "UPDATE log SET prev = id, told = id WHERE run = 2")
	s.exec(t, "UPDATE log SET prev = 3, told = 3 WHERE run = 3")
	within(t, "Expire", func() error {
		n, err := s.Expire(ctx, 10)
		if n != 2 {
			return fmt.Errorf("%d runs: %w", n, err)
		}
		return err
	})
	for stream, want := range map[store.Stream]int{store.Step: 2, store.Event: 2} {
		if got, err := s.Read(ctx, store.Scope{All: true}, "other", store.Query{Stream: stream}); err != nil || len(got) != want {
			t.Fatal(stream, len(got), err)
		}
	}
}

// Check says of a damaged file what it can: a list of findings with the fault among them is what its reader needs then.
func TestCheckDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, Options{})
	for i := range 200 {
		must(t, s.Create(t.Context(), store.NewRun{ID: fmt.Sprint(i), Row: make([]byte, 500)}))
	}
	must(t, s.Close())
	b, err := os.ReadFile(path)
	must(t, err)
	for page := 40 * 4096; page < len(b); page += 4096 {
		for i := range 200 {
			b[page+i] = 0x5a
		}
	}
	must(t, os.WriteFile(path, b, 0o600))
	s = open(t, path, Options{})
	if f := finding(t, s, "integrity"); !strings.Contains(f.Fault, "damaged") {
		t.Errorf("%+v", f)
	}
	if f := finding(t, s, "schema"); f.Value != fmt.Sprint(len(migrations)) || f.Fault != "" {
		t.Errorf("%+v", f)
	}
	finding(t, s, "fsync")
}

// Where a transaction cannot be taken back, the connection is given up: it would keep the lock for ever, and begin nothing any more.
func TestRollbackFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s, other := open(t, path, Options{}), open(t, path, Options{})
	ctx := t.Context()
	must(t, s.Create(ctx, store.NewRun{ID: "r"}))
	odd := errors.New("odd")
	err := s.do(ctx, "test", &op{run: func(tx *tx) (err error) {
		if st := tx.w.prepared["ROLLBACK"]; st != nil {
			must(t, st.Close()) // one that stays open would keep the connection
		}
		if tx.w.prepared["ROLLBACK"], err = tx.w.conn.PrepareContext(ctx, "INSERT INTO kind (n, name) VALUES (1, '@')"); err != nil {
			return err
		}
		return errors.Join(tx.letter(&store.Letter{Run: "r", Add: []store.Row{{Stream: store.Inbox}}}), odd)
	}})
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, odd) {
		t.Fatal(err)
	}
	within(t, "Create", func() error { return other.Create(ctx, store.NewRun{ID: "other"}) })
	must(t, s.Create(ctx, store.NewRun{ID: "again"}))
	if r, err := s.Get(ctx, store.Scope{All: true}, "r"); err != nil || r.Inbox != 0 {
		t.Fatal(r.Inbox, err)
	}
}
