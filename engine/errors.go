package engine

import (
	"context"
	"errors"
	"fmt"

	"pawl"
	"pawl/store"
)

// coded is the form in which every error leaves the engine.
func coded(op, run string, err error) error {
	if err == nil {
		return nil
	}
	out := &pawl.Error{Op: op, Run: run, Err: err}
	var e *pawl.Error
	switch {
	case errors.As(err, &e):
		out.Code, out.Node, out.Text = e.Code, e.Node, e.Text
		if e.Run != "" {
			out.Run = e.Run
		}
	case errors.Is(err, store.ErrNotFound):
		out.Code, out.Text = pawl.CodeNotFound, fmt.Sprintf("there is no run %q", run)
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrStale):
		out.Code, out.Text = pawl.CodeConflict, err.Error()
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrUnknown):
		out.Code, out.Text = pawl.CodeUnavailable, err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		out.Code = pawl.CodeTimeout
	case errors.Is(err, context.Canceled):
		out.Code = pawl.CodeCancelled
	default:
		out.Code = pawl.Coded(err).Code
	}
	return out
}

func invalid(format string, a ...any) error {
	return &pawl.Error{Code: pawl.CodeInvalid, Text: fmt.Sprintf(format, a...)}
}

func conflict(format string, a ...any) error {
	return &pawl.Error{Code: pawl.CodeConflict, Text: fmt.Sprintf(format, a...)}
}

func exhausted(format string, a ...any) error {
	return pawl.Permanent(&pawl.Error{Code: pawl.CodeExhausted, Text: fmt.Sprintf(format, a...)})
}
