package pgtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// program finds the folder with Postgres's programs. Debian keeps them off the path.
func program() (string, error) {
	places, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(places) // the newest first
	if found, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(found); err == nil { // beside it are the others
			found = real
		}
		places = append([]string{filepath.Dir(found)}, places...)
	}
	for _, dir := range places {
		whole := true
		for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				whole = false
			}
		}
		if whole {
			return dir, nil
		}
	}
	return "", ErrMissing
}

// New starts a server, which syncs what it commits if durable. Where no test sees to its end, Remove does.
func New(durable bool) (s *Server, err error) {
	s = &Server{durable: durable}
	if s.bin, err = program(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "pawl-pg-"); err != nil {
		return nil, err
	}
	if err := own(s.dir); err != nil {
		return nil, err
	}
	if err := s.guard(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Remove()
		}
	}()
	if err := s.run("initdb", "-D", s.data(), "-U", "pawl", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"); err != nil {
		return nil, err
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	err = s.Up()
	return s, err
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// freePort is a port that nobody listens on now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Up starts the server again at the same address.
func (s *Server) Up() error {
	sync := "off"
	if s.durable {
		sync = "on"
	}
	options := strings.Join([]string{
		fmt.Sprintf("-p %d -c listen_addresses=127.0.0.1 -c unix_socket_directories=", s.port), "-c fsync=" + sync,
		"-c max_connections=200 -c shared_buffers=64MB -c max_wal_size=1GB -c log_min_messages=fatal",
	}, " ")
	return s.run("pg_ctl", "-D", s.data(), "-l", filepath.Join(s.dir, "log"), "-w", "-t", "60", "-o", options, "start")
}

// Crash stops the server without a goodbye, as a cut of its power would for those who are connected.
func (s *Server) Crash() error {
	return s.run("pg_ctl", "-D", s.data(), "-m", "immediate", "-w", "stop")
}

// Remove stops the server and removes all that it has.
func (s *Server) Remove() { s.remove() }

// guard is a shell that removes the server when the tests have ended, also where they were killed: its input ends then.
func (s *Server) guard() error {
	cmd := exec.Command("sh", "-c", `cat >/dev/null; "$1/pg_ctl" -D "$2/data" -m immediate -w stop; cd / && rm -rf "$2"`, "sh", s.bin, s.dir)
	cmd.Dir = "/"
	if err := lower(cmd); err != nil {
		return err
	}
	apart(cmd)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	s.remove = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	return nil
}

// run runs one of Postgres's programs, as a user whom it accepts.
func (s *Server) run(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+s.dir, "TZ=UTC")
	if err := lower(cmd); err != nil {
		return err
	}
	out, err := os.CreateTemp(s.dir, "out-") // not a pipe: the server would keep it open
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("%s: %w: %s%s", name, err, said, log)
	}
	return nil
}

// Dump is a schema as SQL that makes it again in whatever schema the search path names.
func Dump(t testing.TB, address, schema string) string {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Skip(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Del("search_path") // the programs of Postgres do not know it
	u.RawQuery = q.Encode()
	out, err := exec.Command(filepath.Join(bin, "pg_dump"), "--schema", schema, "--inserts", "--no-owner", "--no-privileges", "-d", u.String()).Output()
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") && !strings.HasPrefix(line, `\`) && !strings.HasPrefix(line, "SET ") &&
			!strings.HasPrefix(line, "CREATE SCHEMA") && !strings.Contains(line, "set_config") {
			kept = append(kept, strings.ReplaceAll(line, schema+".", ""))
		}
	}
	return strings.Join(kept, "\n") + "\n"
}
