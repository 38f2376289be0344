// Package pgtest is a real Postgres for tests: the one that PAWL_TEST_POSTGRES names, or one of its own from the programs that
// are installed.
//
// It never stands in for Postgres, never touches what it has not made, and leaves no process and no file behind.
//
// Start reading at Main, for a server that the tests of a package share, and Start, for one that a test may stop and kill.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// given names a server by its URL; missing says why there is none.
const (
	given   = "PAWL_TEST_POSTGRES"
	missing = "PAWL_TEST_POSTGRES_MISSING"
)

// Main runs the tests of a package beside a server that they share, and returns what to exit with. It is for law tests: the
// server does not sync.
func Main(m *testing.M) int {
	if os.Getenv(given) == "" {
		s, err := New(false)
		if err != nil {
			_ = os.Setenv(missing, err.Error())
			return m.Run()
		}
		defer s.Remove()
		_ = os.Setenv(given, s.URL())
	}
	return m.Run()
}

// URL is the address of the shared server. Without one the test is skipped.
func URL(t testing.TB) string {
	t.Helper()
	address := os.Getenv(given)
	if address == "" {
		why := os.Getenv(missing)
		if why == "" {
			why = "no server was started for this package"
		}
		t.Skip(why)
	}
	return address
}

// Start starts a server of the test's own, which syncs what it commits if durable, and removes it after the test.
func Start(t testing.TB, durable bool) *Server {
	t.Helper()
	s, err := New(durable)
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Remove)
	return s
}

// Schema is a name that no other test uses; whatever is made under it is removed after the test.
func Schema(t testing.TB, address string) string {
	t.Helper()
	name := "pawl_" + strings.ToLower(rand.Text())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, address)
		if err != nil {
			return // its server is gone, and the schema with it
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, `DROP SCHEMA IF EXISTS "`+name+`" CASCADE`); err != nil {
			t.Error(err)
		}
	})
	return name
}

// In is the address of a schema on a server.
func In(address, schema string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// ErrMissing says that this machine has no Postgres.
var ErrMissing = errors.New("not installed: postgres")

// Server is a server of the tests' own.
type Server struct {
	dir, bin string
	port     int
	durable  bool
	remove   func()
}

// URL is the address of its only database.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://pawl@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}
