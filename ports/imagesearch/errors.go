package imagesearch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pawl"
)

// The codes of this port's errors, beside pawl's own: CodeInvalid (the query cannot be searched so), CodeForbidden (the key is not
// taken, or not for this), CodeTimeout, CodeUnavailable (also where the connection broke, or a gateway answered) and CodeExhausted
// (the response is larger than anything that is read).
const (
	CodeRateLimited = "rate_limited"    // too many searches in a short time
	CodeQuota       = "quota_exhausted" // none are left for the day or the month: this run will find no more, and goes on with what it has
	CodeUnset       = "not_configured"  // a key, or whatever else the source needs, is missing
)

// Failure is what went wrong between this program and a source of pictures.
type Failure struct {
	Source string
	Code   string
	Status int           // of HTTP; 0: there was none
	Text   string        // the source's words, without secrets
	After  time.Duration // how long the source wants to be left alone; negative: it did not say
	Err    error
}

// Fault makes a failure the error that a Searcher returns: coded, and marked for the engine's retries. Tried again are rate limits,
// timeouts and what is unavailable; everything else would only fail again.
func (f Failure) Fault() error {
	text := f.Source + ": " + f.Text
	if f.Status != 0 {
		text = fmt.Sprintf("%s: %d: %s", f.Source, f.Status, f.Text)
	}
	var err error = &pawl.Error{Code: f.Code, Op: "search", Text: text, Err: f.Err}
	switch {
	case f.Code != CodeRateLimited && f.Code != pawl.CodeTimeout && f.Code != pawl.CodeUnavailable:
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
// its body says beside. A context that was cancelled stays what it is.
func FaultOf(source string, err error, explain func(f *Failure, body []byte)) error {
	f := Failure{Source: source, Code: pawl.CodeUnavailable, Text: err.Error(), After: -1}
	var a answer
	switch {
	case errors.As(err, &a):
		var body []byte
		f.Code, f.Status, body, f.After = a.Answer()
		f.Err = errors.Unwrap(a)
		if f.Code == "" {
			f.Code = statusCode(f.Status)
			explain(&f, body)
		}
	case errors.Is(err, context.DeadlineExceeded):
		f.Code, f.Err = pawl.CodeTimeout, err
	case errors.Is(err, context.Canceled):
		return err
	}
	return f.Fault()
}

// statusCode is the code of a refusal over HTTP, by its status: what holds where the body does not say more.
func statusCode(status int) string {
	switch status {
	case 401, 403, 407:
		return pawl.CodeForbidden
	case 402:
		return CodeQuota
	case 408, 504, 524:
		return pawl.CodeTimeout
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

// Strange is the failure of an answer that claims success and has not the form that the source describes.
func Strange(source, text string) error {
	return Failure{Source: source, Code: pawl.CodeUnavailable, Text: "the answer is not as described: " + text, After: -1}.Fault()
}

// Unset is the failure of a searcher that lacks what its source needs.
func Unset(source, text string) error {
	return Failure{Source: source, Code: CodeUnset, Text: text, After: -1}.Fault()
}

// Code is the code of an error of this port; empty: it is another's.
func Code(err error) string {
	var e *pawl.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
