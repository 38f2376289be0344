package web

import (
	"errors"
	"syscall"
)

// Stop has every connection that the guard lets through end where it would go out, and tells its address.
func (f *Fetcher) Stop(at func(address string)) {
	guard := f.dialer.Control
	f.dialer.Control = func(network, address string, c syscall.RawConn) error {
		if err := guard(network, address, c); err != nil {
			return err
		}
		at(address)
		return errors.New("stopped")
	}
}

// Address is an address as it will be asked for.
func (f *Fetcher) Address(raw string) (at, review string, err error) {
	u, review, err := f.address(raw)
	if err != nil {
		return "", "", err
	}
	return u.String(), review, nil
}
