//go:build unix

package pgclock

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// peek reads what is there; 0: nothing is.
func peek(c net.Conn, b []byte) (n int, err error) {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	rerr := raw.Read(func(fd uintptr) bool {
		n, err = syscall.Read(int(fd), b)
		return true
	})
	switch {
	case rerr != nil: // its deadline, or it is closed
		return 0, rerr
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		return 0, nil
	case n == 0 && err == nil:
		return 0, io.EOF
	}
	return max(n, 0), err
}
