package engine

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"pawl"
)

// errPanic is in every error that guard has made of a panic.
var errPanic = errors.New("panic")

// guard turns a panic of a graph's own code into an error with its stack, which no retry is spent on.
func guard(what string, f func() error) error { return guardIn(what, "", f) }

// guardIn also names the node; the text is made only if it is needed.
func guardIn(what, name string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = pawl.Permanent(&pawl.Error{Code: pawl.CodeInternal, Text: fmt.Sprintf("panic in %s: %v\n%s", strings.TrimSpace(what+" "+name), r, debug.Stack()), Err: errPanic})
		}
	}()
	return f()
}
