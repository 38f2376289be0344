package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pawl"
	"pawl/ports/llm"
	"pawl/ports/tools"
)

// session is one life of a server: a process, or a connection.
type session struct {
	cs       *sdk.ClientSession
	link     link
	answered atomic.Int64  // requests, since it was connected
	called   atomic.Int64  // calls among them
	gone     chan struct{} // closed when the connection is

	mu     sync.Mutex
	told   bool // the server tells when its list changes
	listed []tools.Tool
	fresh  bool                  // listed is what the server offers
	hints  map[string]tools.Tool // by name, of the last list
}

// link is how a session reaches its server.
type link interface {
	sdk.Transport
	end()        // ends it, and whatever the server has started, at once
	why() string // what is known of why it ended
}

func (l *session) over() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// The waits before a server is started again that answers nothing.
const (
	firstWait = 500 * time.Millisecond
	mostWait  = 30 * time.Second
)

// wait is how long to wait after so many sessions in a row that have answered no call: the second start is at once.
func wait(failed int) time.Duration {
	if failed < 2 {
		return 0
	}
	return min(firstWait<<min(failed-2, 10), mostWait)
}

// session is the one there is, or a new one. A start goes on when its caller gives up: the next one finds it.
func (s *Server) session(ctx context.Context) (*session, error) {
	tried := false
	for {
		s.mu.Lock()
		switch left := time.Until(s.again); {
		case s.closed:
			s.mu.Unlock()
			return nil, tools.ErrClosed
		case s.live != nil && !s.live.over():
			defer s.mu.Unlock()
			return s.live, nil
		case s.live != nil: // it ended while nobody looked
			l := s.live
			s.mu.Unlock()
			s.drop(l, fmt.Errorf("it has ended%s", l.link.why()))
			continue
		case s.starting == nil && (tried || left > 0):
			defer s.mu.Unlock()
			return nil, pawl.RetryAfter(s.last, max(left, 0))
		case s.starting == nil:
			s.starting = make(chan struct{})
			s.ending.Add(1)
			go s.start(s.starting)
		}
		starting := s.starting
		tried = true
		s.mu.Unlock()
		select {
		case <-starting:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// start makes a session.
func (s *Server) start(done chan struct{}) {
	defer s.ending.Done()
	defer close(done)
	ctx, stop := context.WithTimeout(context.Background(), s.conf.Start)
	defer stop()
	l, err := s.connect(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = nil
	switch {
	case err != nil:
		s.count(err)
	case s.closed:
		l.link.end()
	default:
		s.live = l
	}
}

// count notes the end of a session that has answered no call. s.mu is held.
func (s *Server) count(err error) {
	s.failed++
	s.last, s.again = err, time.Now().Add(wait(s.failed))
}

func (s *Server) connect(ctx context.Context) (*session, error) {
	l := &session{gone: make(chan struct{})}
	l.link = s.dial()
	o := &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}, Logger: slog.New(slog.DiscardHandler)}
	if len(s.conf.Command) > 0 { // over HTTP, what a server tells by itself would need a connection of its own
		o.ToolListChangedHandler = func(context.Context, *sdk.ToolListChangedRequest) { l.forget() }
	}
	m := &mark{}
	client := sdk.NewClient(&sdk.Implementation{Name: "pawl", Version: "1"}, o)
	var err error
	connected := make(chan struct{})
	go func() { // a server that does not read could keep the first message from being written
		defer close(connected)
		l.cs, err = client.Connect(context.WithValue(ctx, markKey{}, m), l.link, &sdk.ClientSessionOptions{ProtocolVersion: s.conf.Revision})
	}()
	select {
	case <-connected:
	case <-ctx.Done():
		l.link.end()
		<-connected
	}
	if err != nil {
		l.link.end()
		return nil, s.startFault(ctx, m, l.link, err)
	}
	if caps := l.cs.InitializeResult().Capabilities; o.ToolListChangedHandler != nil && caps != nil && caps.Tools != nil {
		l.told = caps.Tools.ListChanged
	}
	go func() {
		_ = l.cs.Wait()
		close(l.gone)
	}()
	return l, nil
}

// drop ends a session: the next call makes another one.
func (s *Server) drop(l *session, why error) {
	s.mu.Lock()
	if s.live != l {
		s.mu.Unlock()
		return
	}
	s.live = nil
	if l.called.Load() > 0 {
		s.failed, s.again = 0, time.Time{}
	}
	s.count(why)
	s.ending.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.ending.Done()
		l.link.end()
		_ = l.cs.Close()
	}()
}

// list is what the server offers.
func (l *session) list(ctx context.Context) ([]tools.Tool, error) {
	l.mu.Lock()
	if l.told && l.fresh {
		defer l.mu.Unlock()
		return l.listed, nil
	}
	l.fresh = true // a change that is told from now on is a later one
	l.mu.Unlock()
	var out []tools.Tool
	for t, err := range l.cs.Tools(ctx, nil) {
		if err == nil && len(out) == tools.MaxTools {
			err = broken("it lists more than %d tools", tools.MaxTools)
		}
		if err != nil {
			l.forget()
			return nil, err
		}
		schema, err := json.Marshal(t.InputSchema)
		if err != nil {
			l.forget()
			return nil, broken("tool %s: schema: %v", t.Name, err)
		}
		out = append(out, tools.Tool{
			Tool:       llm.Tool{Name: t.Name, Description: t.Description, Schema: schema},
			ReadOnly:   t.Annotations != nil && t.Annotations.ReadOnlyHint,
			Idempotent: t.Annotations != nil && t.Annotations.IdempotentHint,
		})
	}
	l.answered.Add(1)
	hints := map[string]tools.Tool{}
	for _, t := range out {
		hints[t.Name] = t
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed, l.hints = out, hints
	return out, nil
}

func (l *session) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fresh = false
}

// repeatable says whether a call may be made twice.
func (l *session) repeatable(tool string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.hints[tool]
	return t.ReadOnly || t.Idempotent
}
