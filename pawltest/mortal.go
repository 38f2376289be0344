package pawltest

import (
	"context"
	"iter"
	"sync"
	"time"

	"pawl/store"
)

// mortal is the store as one worker sees it. After so many durable writes the worker is dropped: nothing that it asks
// afterwards is answered, not even the write itself.
type mortal struct {
	s    store.Store
	last int // the write after which it dies; 0: none
	long time.Duration

	mu     sync.Mutex
	writes int
	dead   chan struct{}
	idle   chan time.Duration // nothing is due or held for longer than long
	gone   chan struct{}      // the run is over: what still hangs is let go
	once   sync.Once
}

var _ store.Store = (*mortal)(nil)

// newMortal makes one whose waits count as long above a lease: so long nothing is held.
func newMortal(s store.Store, last int, lease time.Duration) *mortal {
	return &mortal{s: s, last: last, long: lease, idle: make(chan time.Duration, 1), dead: make(chan struct{}), gone: make(chan struct{})}
}

func (m *mortal) die() { m.once.Do(func() { close(m.dead) }) }

// alive hangs where the worker is dead, as long as the run is played.
func (m *mortal) alive() error {
	select {
	case <-m.dead:
		<-m.gone
		return store.ErrUnavailable
	default:
		return nil
	}
}

// wrote counts a durable write.
func (m *mortal) wrote(err error) error {
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.writes++
	if m.writes == m.last {
		m.die()
	}
	m.mu.Unlock()
	return m.alive()
}

func (m *mortal) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

func (m *mortal) Create(ctx context.Context, rs ...store.NewRun) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.wrote(m.s.Create(ctx, rs...))
}

func (m *mortal) Claim(ctx context.Context, c store.Claim) ([]store.Run, time.Duration, error) {
	if err := m.alive(); err != nil {
		return nil, 0, err
	}
	rs, next, err := m.s.Claim(ctx, c)
	if len(rs) > 0 {
		err = m.wrote(err)
	}
	if err != nil {
		return nil, 0, err
	}
	if len(rs) == 0 && next > m.long {
		select {
		case m.idle <- next:
		default:
		}
	}
	return rs, next, nil
}

func (m *mortal) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) ([]store.Held, error) {
	if err := m.alive(); err != nil {
		return nil, err
	}
	return m.s.Renew(ctx, worker, ls, hold)
}

func (m *mortal) Apply(ctx context.Context, cs ...store.Change) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.wrote(m.s.Apply(ctx, cs...))
}

func (m *mortal) Append(ctx context.Context, l store.Lease, b store.Batch) (store.Receipt, error) {
	if err := m.alive(); err != nil {
		return store.Receipt{}, err
	}
	r, err := m.s.Append(ctx, l, b)
	return r, m.wrote(err)
}

func (m *mortal) Take(ctx context.Context, s store.Slot) (time.Duration, error) {
	if err := m.alive(); err != nil {
		return 0, err
	}
	return m.s.Take(ctx, s)
}

func (m *mortal) Give(ctx context.Context, limit, holder string) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.s.Give(ctx, limit, holder)
}

func (m *mortal) Expire(ctx context.Context, n int) (int, error) {
	if err := m.alive(); err != nil {
		return 0, err
	}
	return m.s.Expire(ctx, n)
}

func (m *mortal) Delete(ctx context.Context, run string, row []byte) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.wrote(m.s.Delete(ctx, run, row))
}

func (m *mortal) Get(ctx context.Context, s store.Scope, run string) (store.Run, error) {
	if err := m.alive(); err != nil {
		return store.Run{}, err
	}
	return m.s.Get(ctx, s, run)
}

func (m *mortal) List(ctx context.Context, s store.Scope, f store.Filter, p store.Page) ([]store.Run, error) {
	if err := m.alive(); err != nil {
		return nil, err
	}
	return m.s.List(ctx, s, f, p)
}

func (m *mortal) Read(ctx context.Context, s store.Scope, run string, q store.Query) ([]store.Row, error) {
	if err := m.alive(); err != nil {
		return nil, err
	}
	return m.s.Read(ctx, s, run, q)
}

func (m *mortal) Questions(ctx context.Context, s store.Scope, f store.Filter, p store.Page) ([]store.Question, error) {
	if err := m.alive(); err != nil {
		return nil, err
	}
	return m.s.Questions(ctx, s, f, p)
}

func (m *mortal) Workers(ctx context.Context) ([]store.Worker, error) {
	if err := m.alive(); err != nil {
		return nil, err
	}
	return m.s.Workers(ctx)
}

func (m *mortal) Watch(ctx context.Context) iter.Seq2[string, error] { return m.s.Watch(ctx) }

func (m *mortal) Now(ctx context.Context) (time.Time, error) {
	if err := m.alive(); err != nil {
		return time.Time{}, err
	}
	return m.s.Now(ctx)
}

func (m *mortal) Check(ctx context.Context) ([]store.Finding, error) { return m.s.Check(ctx) }
func (m *mortal) Close() error                                       { return nil }
