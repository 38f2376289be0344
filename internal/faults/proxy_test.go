package faults

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"pawl/internal/pgtest"
)

// TestProxyKnowsCommits: of a commit whose answer is lost everything is there, of one that is lost on its way nothing is, and its
// client is told neither; also where the commit is the end of a batch that begins no transaction. What is no commit passes.
func TestProxyKnowsCommits(t *testing.T) {
	server := pgtest.URL(t)
	p, err := NewProxy(pgtest.In(server, pgtest.Schema(t, server)))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	connect := func() *pgx.Conn {
		t.Helper()
		c, err := pgx.Connect(t.Context(), p.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(t.Context()) })
		return c
	}
	look := connect()
	schema := look.Config().RuntimeParams["search_path"]
	for _, text := range []string{`CREATE SCHEMA "` + schema + `"`, "CREATE TABLE x (n int)"} {
		if _, err := look.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	ways := map[string]func(*pgx.Conn, int) error{
		"a transaction": func(c *pgx.Conn, n int) error {
			tx, err := c.Begin(t.Context())
			if err == nil {
				_, err = tx.Exec(t.Context(), "INSERT INTO x VALUES ($1)", n)
			}
			if err != nil {
				t.Error(err)
				return nil
			}
			return tx.Commit(t.Context())
		},
		"a batch of its own": func(c *pgx.Conn, n int) error {
			b := &pgx.Batch{}
			b.Queue("INSERT INTO x VALUES ($1)", n)
			b.Queue("SELECT 1")
			return c.SendBatch(t.Context(), b).Close()
		},
		"a batch that ends one": func(c *pgx.Conn, n int) error {
			if _, err := c.Exec(t.Context(), "BEGIN"); err != nil {
				t.Error(err)
				return nil
			}
			b := &pgx.Batch{}
			b.Queue("INSERT INTO x VALUES ($1)", n)
			b.Queue("COMMIT")
			return c.SendBatch(t.Context(), b).Close()
		},
		"a statement": func(c *pgx.Conn, n int) error {
			_, err := c.Exec(t.Context(), "INSERT INTO x VALUES ($1)", pgx.QueryExecModeSimpleProtocol, n)
			return err
		},
	}
	n := 0
	for name, way := range ways {
		for _, h := range []Harm{AnswerLost, CommitLost} {
			n++
			c, done := connect(), make(chan outcome, 1)
			takeBack := p.strike(h, done)
			var one int
			if err := look.QueryRow(t.Context(), "SELECT 1").Scan(&one); err != nil {
				t.Fatalf("%s, %s: what is no commit is lost: %v", name, h, err)
			}
			if err := way(c, n); err == nil {
				t.Errorf("%s, %s: the client was told that it is committed", name, h)
			}
			if takeBack() {
				t.Errorf("%s, %s: no commit was seen", name, h)
				continue
			}
			if o := <-done; o.committed != (h == AnswerLost) {
				t.Errorf("%s, %s: committed %v", name, h, o.committed)
			}
			var count int
			if err := look.QueryRow(t.Context(), "SELECT count(*) FROM x WHERE n = $1", n).Scan(&count); err != nil {
				t.Fatal(err)
			}
			if want := map[Harm]int{AnswerLost: 1}[h]; count != want {
				t.Errorf("%s, %s: %d rows, want %d", name, h, count, want)
			}
		}
	}
}
