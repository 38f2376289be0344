package rules

import (
	"fmt"

	"pawl/store"
)

// Streams are the streams in the order of their stored numbers, which never change.
var Streams = [...]store.Stream{store.Step, store.Event, store.Call, store.Inbox, store.Blob, store.Audit}

// The numbers that stores look at.
const (
	Step  = 0
	Event = 1
	Inbox = 3
	Blob  = 4
)

// Number is the stored number of a stream.
func Number(s store.Stream) (int, error) {
	for i, name := range Streams {
		if s == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w: stream %q", store.ErrNotFound, s)
}

// Place is the stored number of the stream that a row goes to.
func Place(row *store.Row) (int, error) {
	n, err := Number(row.Stream)
	if err == nil && row.Told && n != Step {
		return 0, fmt.Errorf("%w: a row of stream %q cannot be told", store.ErrNotFound, row.Stream)
	}
	return n, err
}

// Sees tells whether a scope sees what belongs to a tenant and a user.
func Sees(s store.Scope, tenant, user string) bool {
	return s.All || s.Tenant == tenant && (s.AllUsers || s.User == user)
}

// Limit is the length of a page.
func Limit(p store.Page) int {
	if p.Limit <= 0 {
		return 100
	}
	return p.Limit
}
