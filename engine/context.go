package engine

import (
	"context"
	"sync"
	"time"

	"pawl/internal/host"
)

// nodeContext is a visit as the context of its node. Few nodes ask whether it has ended; what the library needs for that is
// made when the first question comes that is not for the host.
type nodeContext visit

var _ context.Context = (*nodeContext)(nil)

// ending is the context that ends with a visit, once it was asked for. It has a lock of its own: the host's methods look into
// the contexts that they are given while they have the visit's.
type ending struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelCauseFunc
	cause  error // why it has ended
}

// context is the context, below the hand's.
func (e *ending) context(base context.Context) context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil {
		e.ctx, e.cancel = context.WithCancelCause(base)
		if e.cause != nil {
			e.cancel(e.cause)
		}
	}
	return e.ctx
}

func (e *ending) end(cause error) {
	e.mu.Lock()
	if e.cause == nil {
		e.cause = cause
	}
	cancel := e.cancel
	e.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// context is the node's.
func (v *visit) context() context.Context { return (*nodeContext)(v) }

func (c *nodeContext) real() context.Context { return c.ending.context(c.base) }

func (c *nodeContext) Deadline() (time.Time, bool) { return c.base.Deadline() }
func (c *nodeContext) Done() <-chan struct{}       { return c.real().Done() }
func (c *nodeContext) Err() error                  { return c.real().Err() }

// String is there for those who print contexts, such as mocks with their arguments: package fmt would look into a visit that
// others are changing.
func (c *nodeContext) String() string { return "pawl.node" }

// Value is the host, or what the hand's context has. The library asks it too, for what a child is hung on.
func (c *nodeContext) Value(k any) any {
	if k == (host.Key{}) {
		return c.seen
	}
	return c.real().Value(k)
}
