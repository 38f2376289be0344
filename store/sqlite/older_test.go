package sqlite

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pawl/store"
)

// A database that an earlier version of this package has written is brought up to date, read, and written on. Its file holds
// three runs: one of them waits for an answer.
func TestOlderDatabases(t *testing.T) {
	files, err := filepath.Glob("testdata/version*.db.gz")
	if err != nil || len(files) != len(migrations)-1 {
		t.Fatalf("%d files (%v): there is one for each version before this one", len(files), err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			unpack(t, f, path)
			s := open(t, path, Options{})
			ctx, all := t.Context(), store.Scope{All: true}
			rs, err := s.List(ctx, all, store.Filter{}, store.Page{})
			must(t, err)
			states := map[string]int{}
			for _, r := range rs {
				states[r.Status]++
				for _, stream := range []store.Stream{store.Step, store.Event} {
					rows, err := s.Read(ctx, all, r.ID, store.Query{Stream: stream})
					if err != nil || len(rows) < 4 || rows[len(rows)-1].Seq != int64(len(rows)) {
						t.Fatal(stream, len(rows), err)
					}
				}
			}
			if states["succeeded"] != 2 || states["waiting"] != 1 {
				t.Fatal(states)
			}
			qs, err := s.Questions(ctx, all, store.Filter{Open: true}, store.Page{})
			if err != nil || len(qs) != 1 {
				t.Fatal(len(qs), err)
			}
			for _, r := range rs {
				if r.Status == "succeeded" {
					must(t, s.Delete(ctx, r.ID, []byte("gone")))
					rows, err := s.Read(ctx, all, r.ID, store.Query{Stream: store.Audit})
					if err != nil || len(rows) != 1 || string(rows[0].Data) != "gone" {
						t.Fatal(rows, err)
					}
				}
			}
			goOnWith(t, s, qs[0].Run)
		})
	}
}

// goOnWith writes to a run what this version writes, and removes it.
func goOnWith(t *testing.T, s *Store, run string) {
	ctx, all := t.Context(), store.Scope{All: true}
	before, err := s.Read(ctx, all, run, store.Query{Stream: store.Event})
	must(t, err)
	must(t, s.Apply(ctx, store.Change{Run: run, Letters: []store.Letter{{Run: run, Add: []store.Row{{Stream: store.Inbox, Data: []byte("{}")}}}}}))
	rs, _, err := s.Claim(ctx, store.Claim{Worker: "w", Run: run, Max: 1, Hold: time.Minute})
	if err != nil || len(rs) != 1 {
		t.Fatal(len(rs), err)
	}
	must(t, s.Apply(ctx, store.Change{
		Run: run, Epoch: rs[0].Epoch, Row: rs[0].Row, Seen: rs[0].Inbox, End: true, Keep: time.Nanosecond,
		Add: []store.Row{{Stream: store.Step, Data: []byte("told"), Told: true}, {Stream: store.Event, Data: []byte("{}")}},
	}))
	after, err := s.Read(ctx, all, run, store.Query{Stream: store.Event})
	if err != nil || len(after) != len(before)+2 || string(after[len(before)].Data) != "told" || string(after[0].Data) != string(before[0].Data) {
		t.Fatal(len(before), len(after), err)
	}
	if n, err := s.Expire(ctx, 10); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	var left int
	must(t, s.reads.QueryRow("SELECT count(*) FROM log WHERE run NOT IN (SELECT n FROM run)").Scan(&left))
	if left != 0 {
		t.Fatalf("%d rows of the removed run are left", left)
	}
}

func unpack(t *testing.T, from, to string) {
	f, err := os.Open(from)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	out, err := os.Create(to)
	must(t, err)
	_, err = io.Copy(out, z)
	must(t, err)
	must(t, out.Close())
}
