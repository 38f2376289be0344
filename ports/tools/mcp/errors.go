package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pawl"
	"pawl/ports/tools"
)

// saying is an error that the model can do something about: it becomes the call's result.
type saying struct{ text string }

func (s *saying) Error() string { return s.text }

// errUnread is in the error of a request that the server has not begun to carry out.
var errUnread = errors.New("not carried out")

// errTooLarge is the end of a message that is larger than maxMessage.
var errTooLarge = errors.New("too large")

// maxMessage bounds what is kept of a server's message. An answer that is larger is told to the model.
const maxMessage = 8 << 20

func broken(format string, a ...any) error {
	return pawl.Permanent(&pawl.Error{Code: tools.CodeProtocol, Text: fmt.Sprintf(format, a...)})
}

// mark is what the transport notes about one request.
type mark struct {
	status  atomic.Int64 // of HTTP, where it was none of success
	tooLong atomic.Bool  // the answer was cut off
}

type markKey struct{}

func markOf(ctx context.Context) *mark { m, _ := ctx.Value(markKey{}).(*mark); return m }

// The codes with which the SDK says that the transport, and not the server, has refused a request.
const (
	codeClientClosing = -32003
	codeServerClosing = -32004
	codeRejected      = -32005
)

// answer is the server's own error, nil if it is another's.
func answer(err error) *jsonrpc.Error {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code == codeClientClosing || e.Code == codeServerClosing || e.Code == codeRejected {
		return nil
	}
	return e
}

// ended says whether an error is the end of the connection.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, sdk.ErrSessionMissing)
}

// fault gives an error its code. ctx is the caller's, timed the one of the request.
func (s *Server) fault(ctx, timed context.Context, op string, m *mark, err error) error {
	if m == nil {
		m = &mark{}
	}
	coded := func(code, text string, err error) error {
		return &pawl.Error{Code: code, Op: op, Text: "server " + s.conf.Name + ": " + op + ": " + text, Err: err}
	}
	status := int(m.status.Load())
	reply := answer(err)
	var own *pawl.Error
	switch {
	case errors.Is(err, tools.ErrClosed):
		return pawl.Permanent(coded(pawl.CodeUnavailable, "it is closed", err))
	case ctx.Err() != nil: // the caller's end, not the server's
		return ctx.Err()
	case timed.Err() != nil:
		return coded(pawl.CodeTimeout, fmt.Sprintf("no answer within %s", s.conf.Timeout), nil)
	case errors.Is(err, errTooLarge) || m.tooLong.Load():
		return &saying{fmt.Sprintf("the answer is larger than %d MB and was thrown away: ask for less", maxMessage>>20)}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return pawl.Permanent(coded(pawl.CodeForbidden, fmt.Sprintf("it does not let us in (%d)", status), nil))
	case reply != nil && reply.Code == jsonrpc.CodeInvalidParams: // no such tool, or arguments that it does not take
		return &saying{tools.Cut(s.conf.mask(reply.Message), s.conf.MaxResult)}
	case reply != nil:
		return pawl.Permanent(coded(tools.CodeProtocol, tools.Cut(s.conf.mask(fmt.Sprintf("error %d: %s", reply.Code, reply.Message)), 1000), nil))
	case errors.As(err, &own):
		return err
	case errors.Is(err, sdk.ErrSessionMissing), status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return coded(pawl.CodeUnavailable, s.plain(err), errUnread)
	}
	return coded(pawl.CodeUnavailable, s.plain(err)+s.why(), nil)
}

// plain is an error's text without secrets, and so without the address, which may have one in it.
func (s *Server) plain(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return tools.Cut(s.conf.mask(err.Error()), 1000)
}

// why is what is known of the end of the session that there is.
func (s *Server) why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		return ""
	}
	return s.live.link.why()
}

// startFault is the error of a server that could not be started. Nothing was asked of it.
func (s *Server) startFault(ctx context.Context, m *mark, l link, err error) error {
	text := s.plain(err)
	code := pawl.CodeUnavailable
	switch status := m.status.Load(); {
	case ctx.Err() != nil:
		text = fmt.Sprintf("no answer within %s", s.conf.Start)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		code, text = pawl.CodeForbidden, fmt.Sprintf("it does not let us in (%d)", status)
	}
	return &pawl.Error{Code: code, Op: "start", Text: "server " + s.conf.Name + ": start: " + text + l.why(), Err: errUnread}
}
