package engine

import (
	"fmt"
	"runtime/debug"

	"pawl"
)

// guard turns a panic of a graph's own code into an error with its stack, which no retry is spent on.
func guard(what string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = pawl.Permanent(&pawl.Error{Code: pawl.CodeInternal, Text: fmt.Sprintf("panic in %s: %v\n%s", what, r, debug.Stack())})
		}
	}()
	return f()
}
