package sqlite

import (
	"errors"
	"os"
	"path/filepath"
)

// turnstile is a lock beside the database through which each process must go before it asks for the database's own lock.
// Who waits for the database holds it, so a saturated writer that comes back has to queue behind: turns alternate. The
// operating system frees it when a process dies.
type turnstile struct{ f *os.File }

// errTaken says that the turnstile is busy.
var errTaken = errors.New("somebody else is in the turnstile")

// openTurnstile opens the one turnstile of a database, whatever name that was opened by. It belongs to those to whom the
// database does: else whoever comes first would lock the others out.
func openTurnstile(path string) (turnstile, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return turnstile{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return turnstile{}, err
	}
	f, err := os.OpenFile(path+"-turn", os.O_RDWR|os.O_CREATE|noFollow, info.Mode().Perm())
	if err != nil {
		return turnstile{}, err
	}
	entrust(f, info)
	return turnstile{f}, nil
}

func (t turnstile) close() error {
	if t.f == nil {
		return errors.New("no turnstile")
	}
	return t.f.Close()
}
