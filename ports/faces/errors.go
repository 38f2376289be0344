package faces

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pawl"
)

// The codes of this port's errors, beside pawl's own: CodeInvalid (the request cannot be made so), CodeForbidden (the key is not taken),
// CodeTimeout and CodeUnavailable (also where the connection broke, or a gateway answered).
const (
	CodeRateLimited = "rate_limited"   // too many pictures in a time
	CodeUnset       = "not_configured" // no key or no region

	// What is wrong with one picture.
	CodeTooLarge = "too_large"        // more bytes or pixels than are taken
	CodeTooSmall = "too_small"        // fewer pixels
	CodeType     = "unsupported_type" // nothing that the recognizer can read
	CodeCorrupt  = "corrupt"          // it looks like a picture, and cannot be decoded
	CodePicture  = "bad_picture"      // the recognizer does not take it, for a reason of its own
)

// Remedy is what helps against a failure.
type Remedy string

// The remedies.
const (
	Skip  Remedy = "skip"  // the picture is the trouble: the next one may do
	Retry Remedy = "retry" // it may pass by itself
	Park  Remedy = "park"  // it is the same with every picture until a person mends it
)

// remedies is the table of all codes.
var remedies = map[string]Remedy{
	CodeTooLarge: Skip, CodeTooSmall: Skip, CodeType: Skip, CodeCorrupt: Skip, CodePicture: Skip,
	CodeRateLimited: Retry, pawl.CodeTimeout: Retry, pawl.CodeUnavailable: Retry,
	CodeUnset: Park, pawl.CodeForbidden: Park, pawl.CodeInvalid: Park,
}

// RemedyOf is what helps against an error of this port; empty: it is another's.
func RemedyOf(err error) Remedy { return remedies[Code(err)] }

// Failure is what went wrong between this program and a recognizer.
type Failure struct {
	Recognizer string // its name
	Code       string
	Status     int           // of HTTP; 0: there was none
	Text       string        // without secrets
	After      time.Duration // how long the recognizer wants to be left alone; negative: it did not say
	Err        error
}

// Fault makes a failure the error that a Recognizer returns: coded, and marked for the engine's retries. Tried again is what may pass
// by itself; everything else would only fail again.
func (f Failure) Fault() error {
	text := f.Recognizer + ": " + f.Text
	if f.Status != 0 {
		text = fmt.Sprintf("%s: %d: %s", f.Recognizer, f.Status, f.Text)
	}
	var err error = &pawl.Error{Code: f.Code, Op: "recognize", Text: text, Err: f.Err}
	switch {
	case remedies[f.Code] != Retry:
		return pawl.Permanent(err)
	case f.After >= 0:
		return pawl.RetryAfter(err, f.After)
	}
	return err
}

// FaultOf is an error of a call that has no answer, in this port's words. A call that was cancelled stays what it is.
func FaultOf(recognizer string, err error) error {
	f := Failure{Recognizer: recognizer, Code: pawl.CodeUnavailable, Text: err.Error(), After: -1, Err: err}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		f.Code, f.Text = pawl.CodeTimeout, "the time of the call is up"
	}
	return f.Fault()
}

// Code is the code of an error of this port; empty: it is another's.
func Code(err error) string {
	var e *pawl.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Fitter is a Recognizer that takes only some pictures. Fit makes one of them from any picture, or says why that cannot be. It asks
// nobody and costs nothing: a picture that is skipped for it is charged to no budget. Recognize does the same by itself.
type Fitter interface {
	Recognizer
	Fit(ctx context.Context, p Picture) (Picture, error)
}

// Fit is a picture as a recognizer takes it; one that is no Fitter takes them all.
func Fit(ctx context.Context, r Recognizer, p Picture) (Picture, error) {
	if f, ok := r.(Fitter); ok {
		return f.Fit(ctx, p)
	}
	return p, nil
}
