package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pawl/store"
)

// marks counts how often a text stands in the files of a database.
func marks(t *testing.T, path, text string) (n int) {
	t.Helper()
	for _, f := range []string{path, path + "-wal", path + "-journal"} {
		b, err := os.ReadFile(f)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		n += bytes.Count(b, []byte(text))
	}
	return n
}

// marked makes a run whose every byte that can be chosen is the mark, and ends it. It is written as an engine writes: its row
// grows and shrinks from step to step, between the steps of others.
func marked(t *testing.T, s *Store, id, mark string, more int) store.NewRun {
	t.Helper()
	fill := func(n int) []byte { return bytes.Repeat([]byte(mark), 1+n/len(mark)) }
	n := store.NewRun{
		ID: id, Tenant: "t", User: "u", Workflow: "w", Version: "1", Key: mark + id, Node: mark, Head: fill(more / 2), Row: fill(more),
		Caps: []store.Counter{{Meter: mark, Cap: 1}},
		Add:  []store.Row{{Stream: store.Blob, Key: mark, Data: fill(more * 3)}, {Stream: store.Inbox, Key: mark, Data: fill(10)}},
	}
	must(t, s.Create(t.Context(), n))
	return n
}

func advance(t *testing.T, s *Store, id, mark string, step, size int) {
	t.Helper()
	ctx := t.Context()
	fill := func(n int) []byte { return bytes.Repeat([]byte(mark), 1+n/len(mark)) }
	r, err := s.Get(ctx, store.Scope{All: true}, id)
	must(t, err)
	must(t, s.Apply(ctx, store.Change{
		Run: id, Epoch: r.Epoch, Takeover: true, Status: "s", Node: mark, Outcome: mark, Row: fill(size), Seen: r.Inbox, After: time.Hour,
		Add: []store.Row{{Stream: store.Step, Key: mark, Data: fill(size / 3), Told: true}, {Stream: store.Call, Data: fill(size / 5)}},
		Ask: []store.Ask{{ID: fmt.Sprint(id, "q", step), Row: fill(size / 4)}},
	}))
}

// crowd makes marked runs among others, all of which take steps in turn, and ends the marked ones.
func crowd(t *testing.T, s *Store, mark string, count int) (ids []string) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		if i < count {
			ids = append(ids, fmt.Sprint("m", i))
			marked(t, s, ids[i], mark, rnd.IntN(9000))
		}
		marked(t, s, fmt.Sprint("o", i), "other", rnd.IntN(9000))
	}
	for step := range 15 {
		for i := range 40 {
			if i < count {
				advance(t, s, ids[i], mark, step, rnd.IntN(6000))
			}
			advance(t, s, fmt.Sprint("o", i), "other", step, rnd.IntN(6000))
		}
	}
	for _, id := range ids {
		r, err := s.Get(t.Context(), store.Scope{All: true}, id)
		must(t, err)
		must(t, s.Apply(t.Context(), store.Change{Run: id, Epoch: r.Epoch, Takeover: true, Row: []byte("end"), Seen: r.Inbox, End: true, Keep: time.Nanosecond}))
	}
	if marks(t, s.path, mark) == 0 {
		t.Fatal("nothing is marked")
	}
	return ids
}

// What was deleted, or has expired, is overwritten in the file and cut off from the log, with what the run was before its last
// step. Where many go, SQLite may have left a few copies in gaps when it moved rows: Compact leaves none, nor does a backup.
func TestLongErased(t *testing.T) {
	const mark = "d3adb33f"
	for _, count := range []int{1, 40} {
		for name, gone := range map[string]func(*Store, []string) error{
			"deleted": func(s *Store, ids []string) (err error) {
				for _, id := range ids {
					err = errors.Join(err, s.Delete(t.Context(), id, []byte("by ann")))
				}
				return err
			},
			"expired": func(s *Store, ids []string) error {
				n, err := s.Expire(t.Context(), 1000)
				if n != len(ids) {
					return fmt.Errorf("%d of %d: %w", n, len(ids), err)
				}
				return err
			},
		} {
			t.Run(fmt.Sprint(count, " ", name), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "x.db")
				s := open(t, path, Options{})
				ids := crowd(t, s, mark, count)
				before := marks(t, path, mark)
				must(t, gone(s, ids))
				n := marks(t, path, mark)
				t.Logf("%d marks of %d are left", n, before)
				if count == 1 && n != 0 || n*1000 > before {
					t.Errorf("%d marks of %d are left", n, before)
				}
				backup := filepath.Join(t.TempDir(), "copy.db")
				must(t, s.Backup(t.Context(), backup, false))
				if n := marks(t, backup, mark); n != 0 {
					t.Errorf("%d marks are in a backup", n)
				}
				must(t, s.Compact(t.Context()))
				if n := marks(t, path, mark); n != 0 {
					t.Errorf("%d marks are left by Compact", n)
				}
				if rs, err := s.List(t.Context(), store.Scope{All: true}, store.Filter{}, store.Page{}); err != nil || len(rs) != 40 {
					t.Error(len(rs), err)
				}
				advance(t, s, "o1", "other", 99, 100)
			})
		}
	}
}

// A reader in the middle of something keeps the log from being cut off: nobody waits for it, and it is done when the reader has gone.
func TestErasedLater(t *testing.T) {
	const mark = "d3adb33f"
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, Options{})
	marked(t, s, "r", mark, 100)
	must(t, s.Apply(t.Context(), store.Change{Run: "r", Takeover: true, Row: []byte("end"), Seen: 1, End: true}))
	tx, err := s.reads.Begin()
	must(t, err)
	var n int
	must(t, tx.QueryRow("SELECT count(*) FROM run").Scan(&n))
	must(t, s.Delete(t.Context(), "r", nil))
	if marks(t, path, mark) == 0 {
		t.Fatal("the reader was not in the way")
	}
	must(t, tx.Rollback())
	s.clock.ahead.Add(int64(2 * time.Second))
	must(t, s.do(t.Context(), "watch", &op{look: true}))
	if n := marks(t, path, mark); n != 0 {
		t.Errorf("%d marks are left", n)
	}
}
