package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	"code.dny.dev/ssrf"

	"pawl"
	"pawl/ports/fetch"
)

func refuse(code, format string, args ...any) error {
	return &failure{Code: code, Text: fmt.Sprintf(format, args...), After: -1}
}

// blocked says that an address is refused. Whoever names one learns what is wrong with how it is written, and nothing of where it
// leads: a name that nobody knows and one that leads inside are told alike.
func blocked(text string) error { return refuse(fetch.CodeBlocked, "%s", text) }

const notPublic = "nothing public stands there"

// failed is an error of a fetch, as the port has it. A context that was cancelled stays what it is.
func failed(ctx context.Context, url string, err error) error {
	var f *failure
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.As(err, &f):
	case errors.Is(err, context.DeadlineExceeded):
		f = &failure{Code: pawl.CodeTimeout, Text: "the time of the call is up", After: -1}
	default:
		f = &failure{Code: pawl.CodeUnavailable, Text: "the connection failed", After: -1}
	}
	out := fetch.Failure(*f)
	out.URL = url
	return out.Fault()
}

var errSlow = errors.New("web: too slow")

// broken is what net/http has met, in words that tell nothing of a network.
func broken(ctx context.Context, err error) error {
	var (
		f       *failure
		name    *net.DNSError
		network net.Error
		badCert *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(context.Cause(ctx), errSlow):
		return refuse(pawl.CodeTimeout, "it comes too slowly")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return refuse(pawl.CodeTimeout, "it takes too long")
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedPort), errors.Is(err, ssrf.ErrProhibitedNetwork),
		errors.Is(err, ssrf.ErrInvalidHostPort), errors.As(err, &name) && name.IsNotFound:
		return blocked(notPublic)
	case errors.As(err, &badCert):
		return refuse(pawl.CodeInvalid, "its certificate does not hold")
	case errors.As(err, &network) && network.Timeout():
		return refuse(pawl.CodeTimeout, "nobody answers")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(pawl.CodeUnavailable, "the connection broke")
	}
	return refuse(pawl.CodeUnavailable, "the connection failed")
}
