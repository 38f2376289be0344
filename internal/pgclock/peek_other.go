//go:build !unix

package pgclock

import (
	"errors"
	"net"
)

// peek is not to be had here: who listens breaks off, and the store polls.
func peek(net.Conn, []byte) (int, error) { return 0, errors.ErrUnsupported }
