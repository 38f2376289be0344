//go:build unix

package sqlite

import (
	"errors"
	"syscall"
)

// take answers false while somebody else is in it.
func (t turnstile) take() (bool, error) {
	switch err := syscall.Flock(int(t.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case err == nil:
		return true, nil
	case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
		return false, nil
	default:
		return false, err
	}
}

func (t turnstile) pass() { _ = syscall.Flock(int(t.f.Fd()), syscall.LOCK_UN) }
