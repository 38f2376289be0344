package sqlite

import (
	"errors"
	"os"
)

// turnstile is a lock beside the database through which each process must go before it asks for the database's own lock.
// Who waits for the database holds it, so a saturated writer that comes back has to queue behind: turns alternate. The
// operating system frees it when a process dies.
type turnstile struct{ f *os.File }

func openTurnstile(path string) (turnstile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	return turnstile{f}, err
}

func (t turnstile) close() error {
	if t.f == nil {
		return errors.New("no turnstile")
	}
	return t.f.Close()
}
