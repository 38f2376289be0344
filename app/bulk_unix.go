//go:build unix

package app

import (
	"errors"
	"os"
	"syscall"
)

// bulkRenamesOpen says that a file can get its name while it is open, and so while it is locked.
const bulkRenamesOpen = true

// lockBulk locks a file for this process; false where another one has it. The operating system frees it when a process dies.
func lockBulk(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
