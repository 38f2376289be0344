package llm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pawl"
)

// The codes of this port's errors, beside pawl's own: CodeInvalid (the request cannot be made so), CodeForbidden (the key is not
// taken), CodeTimeout, CodeUnavailable (also where the connection broke, or a gateway answered) and CodeExhausted (the response
// is larger than anything that is read).
const (
	CodeRateLimited = "rate_limited"    // too many requests or tokens in a time
	CodeQuota       = "quota_exhausted" // the account has no more; waiting does not help
	CodeRetired     = "model_retired"   // there is no such model, or no longer
	CodeRefused     = "refused"         // the model or the provider's filter will not answer
	CodeTruncated   = "truncated"       // the response was cut at its limit of tokens
	CodeTooLong     = "too_long"        // the request is longer than the model reads
	CodeFormat      = "format"          // no attempt had the form that was asked for
	CodeUnset       = "not_configured"  // no model is configured
)

// Failure is what went wrong between this program and a provider.
type Failure struct {
	Ref    Ref
	Code   string
	Status int           // of HTTP; 0: there was none
	Text   string        // the provider's words, without secrets
	After  time.Duration // how long the provider wants to be left alone; negative: it did not say
	Err    error
}

// Fault makes a failure the error that a Model returns: coded, and marked for the engine's retries. Tried again are rate limits,
// timeouts and what is unavailable; everything else would only fail again.
func (f Failure) Fault() error {
	text := f.Ref.String() + ": " + f.Text
	if f.Status != 0 {
		text = fmt.Sprintf("%s: %d: %s", f.Ref, f.Status, f.Text)
	}
	var err error = &pawl.Error{Code: f.Code, Op: "generate", Text: text, Err: f.Err}
	switch {
	case !passing(f.Code):
		return pawl.Permanent(err)
	case f.After >= 0:
		return pawl.RetryAfter(err, f.After)
	}
	return err
}

// answer is an error of internal/rest: what a service said instead of a response.
type answer interface {
	error
	Answer() (code string, status int, body []byte, after time.Duration)
}

// FaultOf is an error that a vendor's client has met, in this port's words. A refusal is told by its status, and explain reads what
// its body says beside; status 0: it stands in the middle of a stream. A context that was cancelled stays what it is.
func FaultOf(ref Ref, err error, explain func(f *Failure, body []byte)) error {
	f := Failure{Ref: ref, Code: pawl.CodeUnavailable, Text: err.Error(), After: -1}
	var a answer
	switch {
	case errors.As(err, &a):
		var body []byte
		f.Code, f.Status, body, f.After = a.Answer()
		f.Err = errors.Unwrap(a)
		if f.Code == "" {
			f.Code = StatusCode(f.Status)
			explain(&f, body)
		}
	case errors.Is(err, context.Canceled):
		return err
	}
	return f.Fault()
}

// StatusCode is the code of a refusal over HTTP, by its status: what holds where the body does not say more.
func StatusCode(status int) string {
	switch status {
	case 401, 403:
		return pawl.CodeForbidden
	case 402:
		return CodeQuota
	case 404, 410:
		return CodeRetired
	case 408, 504, 524:
		return pawl.CodeTimeout
	case 413:
		return CodeTooLong
	case 429:
		return CodeRateLimited
	case 409, 425:
		return pawl.CodeUnavailable
	}
	if status >= 400 && status < 500 {
		return pawl.CodeInvalid
	}
	return pawl.CodeUnavailable
}

// passing says whether another attempt could have another end.
func passing(code string) bool {
	return code == CodeRateLimited || code == pawl.CodeTimeout || code == pawl.CodeUnavailable
}

// Code is the code of an error of this port; empty: it is another's.
func Code(err error) string {
	var e *pawl.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
