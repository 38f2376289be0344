//go:build unix

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// take answers errTaken while somebody else is in it.
func (t turnstile) take() error {
	err := syscall.Flock(int(t.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return errTaken
	}
	return err
}

func (t turnstile) pass() { _ = syscall.Flock(int(t.f.Fd()), syscall.LOCK_UN) }

// noFollow refuses a link in the place of the turnstile: root would give away what it leads to.
const noFollow = syscall.O_NOFOLLOW

// renamesOpen says that a file can get its name while it is open, and so while it is locked.
const renamesOpen = true

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// entrust gives a file the mode and the owner of another, as far as we may: only its owner may change the one, only root the
// other. A file that has another name too may be somebody else's.
func entrust(f *os.File, like os.FileInfo) {
	info, err := f.Stat()
	if err != nil {
		return
	}
	if own, ok := info.Sys().(*syscall.Stat_t); !ok || own.Nlink != 1 {
		return
	}
	_ = f.Chmod(like.Mode().Perm())
	if owner, ok := like.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(owner.Uid), int(owner.Gid))
	}
}
