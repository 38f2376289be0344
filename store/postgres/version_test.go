package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl/internal/pgtest"
	"pawl/store"
)

// sql runs statements beside the store.
func sql(t *testing.T, address, text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	must(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), text, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
}

func schemaOf(t *testing.T, address string) string {
	c, err := configure(address, Options{})
	must(t, err)
	return c.schema
}

// Many open a schema at once that is not there yet: all of them can, and it is made once.
func TestOpenedTogether(t *testing.T) {
	address := empty(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, err := Open(t.Context(), address, Options{})
			if err == nil {
				err = errors.Join(s.Create(t.Context(), store.NewRun{ID: fmt.Sprint(i)}), s.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	rs, err := open(t, address, Options{}).List(t.Context(), all, store.Filter{}, store.Page{})
	if err != nil || len(rs) != 8 {
		t.Fatal(len(rs), err)
	}
}

// What Open would do can be read before, and run by somebody who may; a program that must not change the database says so.
func TestPending(t *testing.T) {
	address := empty(t)
	texts, err := Pending(t.Context(), address, Options{})
	if err != nil || len(texts) < len(migrations) {
		t.Fatal(len(texts), err)
	}
	_, err = Open(t.Context(), address, Options{Unmigrated: true})
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "have it migrated") {
		t.Fatal(err)
	}
	sql(t, address, "BEGIN;"+strings.Join(texts, ";\n")+"; COMMIT")
	if texts, err = Pending(t.Context(), address, Options{}); len(texts) != 0 || err != nil {
		t.Fatal(texts, err)
	}
	s := open(t, address, Options{Unmigrated: true})
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
}

// A newer program has made another database of it: this one refuses it when it opens it, and says so when that happens meanwhile,
// rather than read or write by rules that do not hold any more.
func TestNewerProgram(t *testing.T) {
	address := empty(t)
	s := open(t, address, Options{})
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	schema := s.conf.schema
	sql(t, address, fmt.Sprintf("UPDATE about SET version = 99; SELECT pg_notify('%s', '%s')", channel(schema), migrated))
	refused := func(what string, err error) bool {
		return errors.Is(err, store.ErrUnavailable) && strings.Contains(err.Error(), "version 99") && strings.Contains(err.Error(), "newer program")
	}
	soon(t, "it notices", func() bool {
		return refused("Create", s.Create(t.Context(), store.NewRun{ID: fmt.Sprint(time.Now().UnixNano())}))
	})
	_, err := s.Get(t.Context(), all, "r")
	if !refused("Get", err) {
		t.Error(err)
	}
	if _, err := Open(t.Context(), address, Options{}); !refused("Open", err) {
		t.Error(err)
	}
	if _, err := Pending(t.Context(), address, Options{}); !refused("Pending", err) {
		t.Error(err)
	}
	sql(t, address, fmt.Sprintf("UPDATE about SET version = %d", len(migrations)))
	must(t, s.Create(t.Context(), store.NewRun{ID: "again"}))
}

// A schema that another program uses is left alone.
func TestOthersSchema(t *testing.T) {
	address := empty(t)
	schema := schemaOf(t, address)
	sql(t, address, "CREATE SCHEMA "+schema+"; CREATE TABLE "+schema+".run (n int)")
	if _, err := Open(t.Context(), address, Options{}); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Fatal(err)
	}
}

// Who may not come in reads why, and no more than that: not that the server has no TLS, nor that the schema is somebody else's.
func TestRefusalNamesItsCause(t *testing.T) {
	address := pgtest.Start(t, false).URL()
	must(t, open(t, address, Options{}).Close())
	sql(t, address, "CREATE ROLE guest LOGIN")
	u, err := url.Parse(address)
	must(t, err)
	u.RawQuery = "" // with TLS if the server has it, as people have it
	elsewhere, guest := *u, *u
	elsewhere.Path, guest.User = "/nosuch", url.User("guest")
	for _, c := range []struct{ address, says string }{
		{elsewhere.String(), "there is no such database: make it with createdb"},
		{guest.String(), "the account may not do that"},
	} {
		_, err := Open(t.Context(), c.address, Options{})
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "TLS") || strings.Contains(err.Error(), "another program") {
			t.Errorf("%s: %v", c.address, err)
		}
	}
}

// A database that an earlier version of this package has written is brought up to date, read, and written on. Its dump holds a run
// that has ended, one that waits for an answer and one that is held.
func TestOlderDatabases(t *testing.T) {
	files, err := filepath.Glob("testdata/version*.sql")
	if err != nil || len(files) != len(migrations) {
		t.Fatalf("%d files (%v): there is one for each version", len(files), err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			address := empty(t)
			text, err := os.ReadFile(f)
			must(t, err)
			sql(t, address, "CREATE SCHEMA "+schemaOf(t, address)+";"+string(text))
			older(t, open(t, address, Options{}))
		})
	}
}

func older(t *testing.T, s *Store) {
	ctx := t.Context()
	rs, err := s.List(ctx, all, store.Filter{}, store.Page{})
	if err != nil || len(rs) != 3 {
		t.Fatal(len(rs), err)
	}
	held, waits, ended := rs[0], rs[2], rs[1]
	if held.Worker != "w" || waits.Status != "waiting" || !ended.Ended || string(ended.Head) != "head\x00" || ended.Counters[0] != (store.Counter{Meter: "llm", Used: 2, Cap: 5}) {
		t.Fatalf("%+v", rs)
	}
	rows, err := s.Read(ctx, all, "ended", store.Query{Stream: store.Event})
	if err != nil || len(rows) != 2 || string(rows[0].Data) != "told" || string(rows[1].Data) != "event" {
		t.Fatal(rows, err)
	}
	qs, err := s.Questions(ctx, all, store.Filter{Open: true}, store.Page{})
	if err != nil || len(qs) != 1 || qs[0].Run != "asks" {
		t.Fatal(qs, err)
	}
	must(t, s.Apply(ctx, store.Change{Run: "asks", Answer: []store.Answer{{ID: qs[0].ID, Row: []byte("yes")}}, Letters: []store.Letter{{Run: "asks", Live: true, Add: []store.Row{{Stream: store.Inbox}}}}}))
	must(t, s.Apply(ctx, store.Change{Run: "held", Epoch: held.Epoch, Row: []byte("on"), Add: []store.Row{{Stream: store.Step, Told: true}}}))
	r := claim(t, s, "asks")
	must(t, s.Apply(ctx, store.Change{Run: "asks", Epoch: r.Epoch, Row: []byte("end"), Seen: r.Inbox, End: true, Keep: time.Nanosecond}))
	soon(t, "it expires", func() bool {
		n, err := s.Expire(ctx, 10)
		must(t, err)
		return n == 1
	})
	healthy(t, s)
}

// TestDumpVersion writes the dump of this version, when PAWL_TEST_DUMP names a file: before a release that has a new one.
func TestDumpVersion(t *testing.T) {
	file := os.Getenv("PAWL_TEST_DUMP")
	if file == "" {
		return
	}
	address := empty(t)
	s := open(t, address, Options{})
	ctx := t.Context()
	for _, id := range []string{"asks", "ended", "held"} {
		must(t, s.Create(ctx, store.NewRun{ID: id, Tenant: "t", User: "u", Workflow: "w", Version: "1", Key: "key of " + id, Head: []byte("head\x00"), Row: []byte("row"), Caps: []store.Counter{{Meter: "llm", Cap: 5}}}))
		r := claim(t, s, id)
		_, err := s.Append(ctx, store.Lease{Run: id, Epoch: r.Epoch}, store.Batch{
			Charges: []store.Charge{{Run: id, Meter: "llm", N: 2}},
			Rows:    []store.Row{{Stream: store.Step, Data: []byte("told"), Told: true}, {Stream: store.Event, Data: []byte("event")}, {Stream: store.Blob, Key: "b"}},
		})
		must(t, err)
		c := store.Change{Run: id, Epoch: r.Epoch, Row: []byte("row"), Status: "running"}
		switch id {
		case "asks":
			c.Status, c.Release, c.After, c.Ask = "waiting", true, -1, []store.Ask{{ID: "q", Row: []byte("?")}}
		case "ended":
			c.Status, c.End = "done", true
		}
		must(t, s.Apply(ctx, c))
	}
	must(t, os.WriteFile(file, []byte(pgtest.Dump(t, address, s.conf.schema)), 0o644))
}
