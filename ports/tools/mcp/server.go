package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/llm"
	"pawl/ports/tools"
)

// Config of one server: a program with its arguments, or an address.
type Config struct {
	Name string // see tools.New

	Command []string // the program and its arguments
	Env     []string // all of its environment, as NAME=VALUE
	Dir     string   // where it runs; empty: here

	URL    string
	Header http.Header // of every request

	Secrets []string // what no error and no line may tell; what a tool answers stays as it is

	Start     time.Duration // how long it may take to start; 0: 30 s
	Timeout   time.Duration // of a call or a list, a start before it included; 0: 60 s
	MaxResult int           // bytes of a result's text; 0: tools.MaxResult
	Revision  string        // of the protocol, to be asked for first; empty: the newest

	// Log is told what the server says on standard error, a line at a time, and Warn what it prints that is no message; nil:
	// nobody. They must not block.
	Log, Warn func(line string)
}

const (
	defaultStart   = 30 * time.Second
	defaultTimeout = 60 * time.Second
)

// Server is a tools.Server behind MCP. It is started when it is first needed.
type Server struct {
	conf Config
	life context.Context // of the server, until it is closed
	end  context.CancelFunc

	mu       sync.Mutex
	live     *session
	starting chan struct{} // closed when the start under way is over; nil: none is
	failed   int           // sessions in a row that have answered no call
	again    time.Time     // not to be started before
	last     error         // why the last session ended
	closed   bool
	ending   sync.WaitGroup // sessions that are being ended
}

var _ tools.Server = (*Server)(nil)

// Open prepares a server; nothing is started yet.
func Open(c Config) (*Server, error) {
	switch {
	case !tools.ServerName(c.Name):
		return nil, invalid("server %q: it cannot be called so", c.Name)
	case (len(c.Command) > 0) == (c.URL != ""):
		return nil, invalid("server %s: it has a command or a URL, and not both", c.Name)
	case c.Start < 0 || c.Timeout < 0 || c.MaxResult < 0:
		return nil, invalid("server %s: times and sizes are not below 0", c.Name)
	}
	if c.Start == 0 {
		c.Start = defaultStart
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.MaxResult == 0 {
		c.MaxResult = tools.MaxResult
	}
	if c.Log == nil {
		c.Log = func(string) {}
	}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	log, warn := c.Log, c.Warn
	c.Log, c.Warn = func(line string) { log(c.mask(line)) }, func(line string) { warn(c.mask(line)) }
	life, end := context.WithCancel(context.Background())
	return &Server{conf: c, life: life, end: end}, nil
}

func (c *Config) mask(text string) string { return rest.Mask(text, c.Secrets) }

func invalid(format string, a ...any) error {
	return &pawl.Error{Code: pawl.CodeInvalid, Op: "open", Text: fmt.Sprintf(format, a...)}
}

// Name is the configured one.
func (s *Server) Name() string { return s.conf.Name }

// Tools lists what the server offers. It is asked each time, but where it has promised to tell of changes.
func (s *Server) Tools(ctx context.Context) ([]tools.Tool, error) {
	var out []tools.Tool
	err := s.with(ctx, "list", func(ctx context.Context, l *session) (err error) {
		out, err = l.list(ctx)
		return err
	})
	return out, err
}

// Call calls a tool.
func (s *Server) Call(ctx context.Context, c llm.ToolCall) (out llm.ToolResult, err error) {
	params := &sdk.CallToolParams{Name: c.Name, Arguments: json.RawMessage(c.Arguments)}
	if len(c.Arguments) == 0 {
		params.Arguments = nil
	}
	if key := pawl.IdempotencyKey(ctx); key != "" {
		params.Meta = sdk.Meta{"pawl/idempotencyKey": key}
	}
	once := false // it must not be carried out twice, and may have been carried out
	err = s.with(ctx, "call "+c.Name, func(ctx context.Context, l *session) error {
		once = !l.repeatable(c.Name)
		r, err := l.cs.CallTool(ctx, params)
		if err == nil {
			l.answered.Add(1)
			l.called.Add(1)
			out = llm.ToolResult{ID: c.ID, Name: c.Name, Text: tools.Cut(text(r), s.conf.MaxResult), Failed: r.IsError}
		}
		return err
	})
	if err == nil {
		return out, nil
	}
	if said, ok := errors.AsType[*saying](err); ok {
		return tools.Failed(c, said.text), nil
	}
	if _, retryable := pawl.Retryable(err); retryable && once && !errors.Is(err, errUnread) {
		e := pawl.Coded(err)
		err = pawl.Permanent(&pawl.Error{Code: e.Code, Op: e.Op, Text: e.Text + "; it is not known whether the call was carried out", Err: e.Err})
	}
	return llm.ToolResult{}, err
}

// with does something with a session within the time of a call, and says what its error means.
func (s *Server) with(ctx context.Context, op string, do func(context.Context, *session) error) error {
	timed, stop := context.WithTimeout(ctx, s.conf.Timeout)
	defer stop()
	l, err := s.session(timed)
	if err != nil {
		return s.fault(ctx, timed, op, nil, err)
	}
	answered := l.answered.Load()
	m := &mark{}
	if err = do(context.WithValue(timed, markKey{}, m), l); err == nil {
		return nil
	}
	if answer(err) != nil {
		l.answered.Add(1)
	}
	lost := l.over() || ended(err)
	err = s.fault(ctx, timed, op, m, err)
	if lost || pawl.Coded(err).Code == pawl.CodeTimeout && l.answered.Load() == answered { // nothing comes from it any more
		s.drop(l, err)
	}
	return err
}

// Close ends the server and waits until it is gone.
func (s *Server) Close() error {
	s.end() // a start under way too
	s.mu.Lock()
	s.closed = true
	l := s.live
	s.mu.Unlock()
	if l != nil {
		s.drop(l, tools.ErrClosed)
	}
	s.ending.Wait()
	return nil
}
