//go:build unix

package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"pawl/store"
)

// Where a group is taken back and repeated, and the lock cannot be had any more, all wait for it together and not each in turn.
func TestRepeatBehindALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, Options{Busy: 50 * time.Millisecond})
	must(t, s.Create(t.Context(), store.NewRun{ID: "r"}))
	entered, release, results := make(chan struct{}), make(chan struct{}), make(chan error)
	letter := func(tx *tx) error {
		return tx.letter(&store.Letter{Run: "r", Add: []store.Row{{Stream: store.Inbox}}})
	}
	do := func(run func(*tx) error) {
		go func() { results <- s.do(t.Context(), "test", &op{run: run}) }()
	}
	other, err := openTurnstile(path)
	must(t, err)
	defer func() { _ = other.close() }()
	do(func(tx *tx) error { close(entered); <-release; return letter(tx) })
	<-entered
	const n = 20
	for range n {
		do(letter)
	}
	do(func(tx *tx) error {
		return errors.Join(other.take(), letter(tx), store.ErrStale) // from now on the turn is another's
	})
	for len(s.writer.ops) < n+1 {
		time.Sleep(time.Millisecond)
	}
	start := time.Now()
	close(release)
	for range n + 2 {
		if err := <-results; !errors.Is(err, store.ErrUnavailable) {
			t.Error(err)
		}
	}
	if took := time.Since(start); took > n*50*time.Millisecond {
		t.Errorf("that took %v", took)
	}
}

// One file has one turnstile, by whatever name it is opened: else two would go through at once.
func TestTurnstileOfALink(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "x.db"), filepath.Join(dir, "link.db")
	must(t, os.Symlink(path, link))
	for _, p := range []string{link, path} {
		must(t, open(t, p, Options{}).Close())
	}
	names, err := filepath.Glob(filepath.Join(dir, "*-turn"))
	if err != nil || len(names) != 1 || names[0] != path+"-turn" {
		t.Fatal(names, err)
	}
}

// Whoever may write to the folder must not get another's file by it: root gives the turnstile away, but nothing that a link in
// its place leads to, and nothing that goes by another name too.
func TestTurnstileIsALink(t *testing.T) {
	for name, link := range map[string]func(from, to string) error{"symbolic": os.Symlink, "hard": os.Link} {
		dir := t.TempDir()
		path, secret := filepath.Join(dir, "x.db"), filepath.Join(dir, "secret")
		must(t, open(t, path, Options{}).Close())
		must(t, os.WriteFile(secret, nil, 0o600))
		must(t, os.Chmod(path, 0o666))
		must(t, os.Remove(path+"-turn"))
		must(t, link(secret, path+"-turn"))
		if s, err := Open(t.Context(), path, Options{}); err == nil {
			must(t, s.Close())
		}
		if info, err := os.Stat(secret); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// The turnstile belongs to those to whom the database does. If it were its maker's alone, root, who has looked at it once, would
// lock its owner out.
func TestTurnstileOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	must(t, open(t, path, Options{}).Close())
	for _, mode := range []os.FileMode{0o666, 0o600} {
		must(t, os.Remove(path+"-turn"))
		must(t, os.Chmod(path, mode))
		if os.Geteuid() == 0 {
			must(t, os.Chown(path, 65534, 65533))
		}
		must(t, open(t, path, Options{}).Close())
		a, err := os.Stat(path)
		must(t, err)
		b, err := os.Stat(path + "-turn")
		must(t, err)
		x, y := a.Sys().(*syscall.Stat_t), b.Sys().(*syscall.Stat_t)
		if b.Mode() != mode || x.Uid != y.Uid || x.Gid != y.Gid {
			t.Errorf("%v of %d:%d, the database is %v of %d:%d", b.Mode(), y.Uid, y.Gid, a.Mode(), x.Uid, x.Gid)
		}
	}
}
