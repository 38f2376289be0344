package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"pawl"
)

// The codes of this port's errors, beside pawl's own: CodeInvalid (no store takes such a key, value or time), CodeForbidden (the key
// to the store is not taken), CodeNotFound (there is no such store), CodeTimeout and CodeUnavailable (also where the connection broke).
const (
	CodeRateLimited = "rate_limited"    // too much in a time, or to one key
	CodeQuota       = "quota_exhausted" // no more today; waiting a little does not help
	CodeFull        = "full"            // there is no room before something goes away
)

// Failure is what went wrong between this program and a store.
type Failure struct {
	Store  string // its name
	Op     string // put, get, delete, keys
	Code   string
	Text   string        // without secrets and values
	Status int           // of HTTP; 0: there was none
	After  time.Duration // how long the store wants to be left alone; negative: it did not say
	Err    error
}

// Fault makes a failure the error that a Store returns: coded, and marked for the engine's retries. Tried again are rate limits,
// timeouts and what is unavailable; everything else would only fail again.
func (f Failure) Fault() error {
	text := fmt.Sprintf("%s: %s: %s", f.Store, f.Op, f.Text)
	if f.Status != 0 {
		text = fmt.Sprintf("%s: %s: %d: %s", f.Store, f.Op, f.Status, f.Text)
	}
	var err error = &pawl.Error{Code: f.Code, Op: f.Op, Text: text, Err: f.Err}
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

// FaultOf is an error that a vendor has met, in this port's words; explain says more of one that is neither a timeout nor without
// an answer, and may be nil. A call that was cancelled stays what it is.
func FaultOf(store, op string, err error, explain func(f *Failure, body []byte)) error {
	f := Failure{Store: store, Op: op, Code: pawl.CodeUnavailable, Text: err.Error(), After: -1, Err: err}
	var body []byte
	var a answer
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		f.Code, f.Text = pawl.CodeTimeout, "the time of the call is up"
		return f.Fault()
	case errors.As(err, &a):
		f.Err = errors.Unwrap(a)
		if f.Code, f.Status, body, f.After = a.Answer(); f.Code != "" {
			return f.Fault()
		}
		f.Code = StatusCode(f.Status)
	}
	if explain != nil {
		explain(&f, body)
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
		return pawl.CodeNotFound
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

// Code is the code of an error of this port; empty: it is another's.
func Code(err error) string {
	var e *pawl.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Check refuses what not every store takes; nil: it may be put.
func Check(store, key string, value []byte, ttl time.Duration) error {
	refuse := func(format string, a ...any) error {
		return Failure{Store: store, Op: "put", Code: pawl.CodeInvalid, Text: fmt.Sprintf(format, a...), After: -1}.Fault()
	}
	if err := CheckKey(store, "put", key); err != nil {
		return err
	}
	switch {
	case len(value) > MaxValue:
		return refuse("a value of %d bytes; %d are the most", len(value), MaxValue)
	case ttl < MinTTL:
		return refuse("a value for %s; %s is the least", ttl, MinTTL)
	case ttl > MaxTTL:
		return refuse("a value for %s; %s is the most", ttl, MaxTTL)
	}
	return nil
}

// CheckKey refuses what not every store takes as a key.
func CheckKey(store, op, key string) error {
	text := ""
	switch {
	case key == "", key == ".", key == "..":
		text = fmt.Sprintf("%q is no key", key)
	case len(key) > MaxKey:
		text = fmt.Sprintf("a key of %d bytes; %d are the most", len(key), MaxKey)
	case !utf8.ValidString(key):
		text = "a key that is not UTF-8"
	case strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }):
		text = fmt.Sprintf("%.100q is no key: it has white space, or what cannot be printed", key)
	default:
		return nil
	}
	return Failure{Store: store, Op: op, Code: pawl.CodeInvalid, Text: text, After: -1}.Fault()
}

// CheckPrefix refuses what no key begins with.
func CheckPrefix(store, prefix string) error {
	if prefix == "" || prefix == "." || prefix == ".." {
		return nil
	}
	return CheckKey(store, "keys", prefix)
}
