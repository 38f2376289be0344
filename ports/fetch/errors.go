package fetch

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"pawl"
)

// The codes of this port's errors, beside pawl's own: CodeInvalid (the source did not take the request), CodeForbidden (it does not
// give what stands there), CodeNotFound (nothing does), CodeTimeout and CodeUnavailable (also where the connection broke).
const (
	CodeBlocked     = "blocked"               // the address is none, or leads where nothing may be fetched
	CodeRedirects   = "too_many_redirects"    //
	CodeRateLimited = "rate_limited"          //
	CodeTooLarge    = "too_large"             // more bytes than are taken, also unpacked
	CodePixels      = "too_many_pixels"       //
	CodeTooSmall    = "too_small"             // fewer pixels than can show anything
	CodePage        = "html_instead_of_image" //
	CodeType        = "unsupported_type"      // nothing that can be decoded here
	CodeEmpty       = "empty"                 // no bytes
	CodeCorrupt     = "corrupt"               // it looks like a picture, and cannot be decoded
)

// Failure is why something was not fetched.
type Failure struct {
	URL    string // as it was asked for, never where it led to
	Code   string
	Text   string        // without the address, and without anything of the inside of a network
	Status int           // of HTTP; 0: there was none, or it does not matter
	After  time.Duration // how long the source wants to be left alone; negative: it did not say
}

// Fault makes a failure the error that a Fetcher returns: coded, and marked for the engine's retries. Tried again are rate limits,
// timeouts and what is unavailable; everything else would only fail again.
func (f Failure) Fault() error {
	text := Shown(f.URL) + ": " + f.Text
	if f.Status != 0 {
		text = fmt.Sprintf("%s: %d: %s", Shown(f.URL), f.Status, f.Text)
	}
	err := error(&pawl.Error{Code: f.Code, Op: "fetch", Text: text})
	switch {
	case f.Code != CodeRateLimited && f.Code != pawl.CodeTimeout && f.Code != pawl.CodeUnavailable:
		return pawl.Permanent(err)
	case f.After > 0:
		return pawl.RetryAfter(err, f.After)
	}
	return err
}

// StatusCode is the code of an answer that is no success, by its status.
func StatusCode(status int) string {
	switch status {
	case 401, 402, 403, 407, 451:
		return pawl.CodeForbidden
	case 404, 410:
		return pawl.CodeNotFound
	case 408, 504, 522, 524:
		return pawl.CodeTimeout
	case 429:
		return CodeRateLimited
	case 409, 425:
		return pawl.CodeUnavailable
	}
	if status >= 500 {
		return pawl.CodeUnavailable
	}
	return pawl.CodeInvalid
}

// Code is the code of an error of this port; empty: it is another's.
func Code(err error) string {
	var e *pawl.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

const mostShown = 200 // runes

// Shown is an address fit for an error or a log (R-000-78): the host alone, for credentials and tokens may stand in every other part of an
// address, and in one that is malformed anywhere behind the scheme. An album is no host, and its ids are no secrets.
func Shown(raw string) string {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme == "":
		return "an address that is none"
	case u.Host == "" && u.Scheme == "album":
		return cut("album:"+u.Opaque, mostShown)
	case u.Host == "":
		return cut(u.Scheme, mostShown) + ":…"
	case u.Path == "" || u.Path == "/":
		return cut(u.Scheme+"://"+u.Host+u.Path, mostShown)
	}
	return cut(u.Scheme+"://"+u.Host, mostShown) + "/…"
}

func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
