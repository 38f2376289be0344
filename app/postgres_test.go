package app

import (
	"strings"
	"testing"

	"pawl/internal/pgtest"
)

// A run is started by one command and found by others on a Postgres; whatever is printed keeps the password.
func TestPostgres(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t, false).URL()
	name := strings.Replace(pgtest.In(address, pgtest.Schema(t, address)), "pawl@", "pawl:secret@", 1)
	s := newShell(t)
	for _, c := range []struct {
		says string
		args []string
	}{
		{"waits for an answer", []string{"run", "nco", "teacher"}},
		{"waiting", []string{"runs", "ls"}},
		{"synchronous_commit  on", []string{"doctor"}},
	} {
		got := s.run(append(c.args, "--store", name)...)
		if all := got.out + got.err; !strings.Contains(all, c.says) || strings.Contains(all, "secret") {
			t.Errorf("%v: exit %d\n%s", c.args, got.code, all)
		}
	}
}
