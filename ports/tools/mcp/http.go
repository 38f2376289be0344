package mcp

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// dial is the way to the server that is configured.
func (s *Server) dial() link {
	if len(s.conf.Command) > 0 {
		return newProgram(&s.conf)
	}
	return newAddress(&s.conf)
}

// address is a server behind HTTP. Retries are the engine's; the connection on which a server could speak first is not opened.
type address struct {
	*sdk.StreamableClientTransport
	stop context.CancelFunc
}

func newAddress(c *Config) *address {
	ctx, stop := context.WithCancel(context.Background())
	return &address{stop: stop, StreamableClientTransport: &sdk.StreamableClientTransport{
		Endpoint: c.URL, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: maxMessage,
		HTTPClient: &http.Client{
			Transport: guard{header: c.Header, until: ctx},
			// A server that sends us elsewhere would have the headers, and the secrets in them, go along.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}}
}

func (a *address) end()        { a.stop() }
func (a *address) why() string { return "" }

// guard puts our headers on requests, bounds the answers, and notes for each request what becomes of it.
type guard struct {
	header http.Header
	until  context.Context // the end of the session
}

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, stop := context.WithCancel(r.Context())
	release := context.AfterFunc(g.until, stop)
	r = r.Clone(ctx)
	for name, values := range g.header {
		r.Header[name] = values
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		release()
		stop()
		return nil, err
	}
	m := markOf(ctx)
	if m != nil && resp.StatusCode >= 300 {
		m.status.Store(int64(resp.StatusCode))
	}
	b := &bounded{ReadCloser: resp.Body, m: m, done: func() { release(); stop() }}
	b.left.Store(maxMessage)
	resp.Body = b
	return resp, nil
}

// bounded is an answer that ends with an error where it is too large.
type bounded struct {
	io.ReadCloser
	m    *mark
	left atomic.Int64
	done func()
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left.Add(-int64(n)) < 0 {
		if b.m != nil {
			b.m.tooLong.Store(true)
		}
		return 0, errTooLarge
	}
	return n, err
}

func (b *bounded) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
