package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl/store"
)

// tries is how often something is done again that others got in the way of.
const tries = 8

// write is one writer: it turns operations into commits until the store is closed and nothing is left.
func (s *Store) write() {
	for g := s.queue.take(); g != nil; g = s.queue.take() {
		s.commit(g)
		s.queue.over(g)
	}
}

// commit carries out operations together: by what is remembered of their runs, else by what the database says. If they cannot be
// committed as a whole, each is tried alone.
func (s *Store) commit(ops []*op) {
	err := s.quickly(ops)
	if err == nil {
		return
	}
	for i := 0; i < 2 && err != nil && (i == 0 || lost(err)) && !errors.Is(err, store.ErrUnknown); i++ {
		if lost(err) { // nothing was written: the server may have been started anew
			s.pool.Reset()
		}
		err = s.attempt(ops, nil)
	}
	switch {
	case err == nil:
	case errors.Is(err, store.ErrUnknown), len(ops) == 1 && !again(err):
		answer(ops, err)
	case gone(err): // nor would it work for the others, or for those who wait
		answer(ops, err)
		s.queue.fails(err)
	default:
		for _, o := range ops {
			s.alone(o)
		}
	}
}

func answer(ops []*op, err error) {
	for _, o := range ops {
		o.done <- err
	}
}

// alone repeats one operation of a group, also where others are in its way.
func (s *Store) alone(o *op) {
	var err error
	for i := range tries {
		if err = s.attempt([]*op{o}, nil); err == nil {
			return
		}
		if !again(err) {
			break
		}
		time.Sleep(time.Duration(i) * time.Millisecond)
	}
	o.done <- err
}

var errSlow = errors.New("it has to be read first")

// quickly commits in one round trip what needs nothing but what is remembered. The database compares rev.
func (s *Store) quickly(ops []*op) error {
	g := newGroup()
	for _, o := range ops {
		if !o.quick {
			return errSlow
		}
		for _, id := range o.needs.runs {
			if g.runs[id] != nil {
				continue
			}
			r := s.queue.recall(id)
			if r == nil {
				return errSlow
			}
			g.runs[id] = r
		}
	}
	return s.attempt(ops, g)
}

func newGroup() *group {
	return &group{
		runs: map[string]*run{}, graves: map[string]bool{}, counters: map[string]map[string]store.Counter{}, blobs: map[pair]int64{},
		questions: map[string]*question{}, owners: map[ownedKey]string{},
	}
}

// attempt carries out operations in one transaction and answers them, or says why it could not. It goes by g if there is one.
func (s *Store) attempt(ops []*op, g *group) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	known := g != nil
	if !known {
		g = newGroup()
		var n needs
		for _, o := range ops {
			n.add(&o.needs)
		}
		if err := g.load(ctx, c, &n); err != nil {
			rollback(ctx, c)
			return err
		}
	}
	for _, o := range ops {
		if g.carryOut(o); o.err != nil && known {
			return errSlow // what is remembered refuses nothing
		}
	}
	b := &pgx.Batch{}
	if !g.save(b) {
		if !known {
			rollback(ctx, c)
		}
	} else if err := send(ctx, c, b, !known); err != nil {
		ids := make([]string, 0, len(g.runs))
		for id := range g.runs {
			ids = append(ids, id)
		}
		s.queue.forget(ids...)
		return err
	}
	g.settle(s)
	s.tell(g.told...)
	for _, o := range ops {
		o.done <- o.err
	}
	return nil
}

// send has the decisions written and committed.
func send(ctx context.Context, c *pgxpool.Conn, b *pgx.Batch, begun bool) error {
	if begun {
		b.Queue("COMMIT")
	}
	err := sendAll(ctx, c, b, begun)
	if err != nil && begun {
		rollback(ctx, c)
	}
	return err
}

// sendAll has statements carried out in one round trip. They are one transaction: of its own, unless one was begun, which the last
// one of them then commits. It tells apart what was not written, and what may or may not have been.
func sendAll(ctx context.Context, c sender, b *pgx.Batch, begun bool) error {
	results := c.SendBatch(ctx, b)
	count, last := b.Len(), false
	var err error
	for i := 0; i < count && err == nil; i++ {
		last = begun && i == count-1
		_, err = results.Exec()
	}
	if err == nil { // all were carried out; where none was a COMMIT, that comes now
		last = true
		if err = results.Close(); err == nil {
			return nil
		}
	} else {
		_ = results.Close()
	}
	return outcome(err, last)
}

// outcome tells apart what was not written, and what may or may not have been: whatever went wrong when the last statement, with
// which the transaction is committed, was under way or the connection broke off. What the server says comes in order; how bad it
// is, it says in its own language too, which is not looked at.
func outcome(err error, last bool) error {
	var pg *pgconn.PgError
	switch {
	case err == nil, pgconn.SafeToRetry(err), errors.As(err, &pg) && (!last || pg.SeverityUnlocalized == "ERROR"):
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnknown, err)
}

// rollback ends a transaction. Where that fails the pool gives the connection up.
func rollback(ctx context.Context, c *pgxpool.Conn) {
	if !c.Conn().IsClosed() && c.Conn().PgConn().TxStatus() != 'I' {
		_, _ = c.Exec(ctx, "ROLLBACK")
	}
}

// settle remembers what was written.
func (g *group) settle(s *Store) {
	rs := make([]*run, 0, len(g.runs))
	for _, r := range g.runs {
		switch {
		case r.made != nil:
			r.rev = 1
		case r.touched:
			r.rev++
		}
		if r.Until == 0 { // nobody holds it: whoever comes next reads it anyway
			s.queue.forget(r.id)
			continue
		}
		r.made, r.wrote, r.touched, r.moved, r.recounted, r.bound = nil, nil, false, false, false, false
		rs = append(rs, r)
	}
	s.queue.remember(rs...)
}

func coded(err error, codes ...string) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	for _, code := range codes {
		if pg.Code == code {
			return true
		}
	}
	return false
}

// again tells whether others were in the way, and it may work when they are gone: a serialization failure, a deadlock, a key or an
// id that somebody has just taken, or what was remembered was old.
func again(err error) bool {
	return coded(err, "40001", "40P01", "23505", "22012") || errors.Is(err, errSlow)
}

// gone tells whether there is no server to speak to, or not any more.
func gone(err error) bool {
	for _, other := range []error{store.ErrNotFound, store.ErrExists, store.ErrStale, store.ErrUnknown, errSlow} {
		if errors.Is(err, other) {
			return false
		}
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true
	}
	return pg.SeverityUnlocalized != "ERROR" || pg.Code == readOnly
}

// readOnly is what a server says that is not the primary any more. Its connections are of no use.
const readOnly = "25006"

// lost tells whether a connection has gone that there was; not that there is no server.
func lost(err error) bool {
	var connect *pgconn.ConnectError
	return err != nil && gone(err) && !errors.As(err, &connect)
}

// change writes in a way of its own, beside the writers. It is tried again where others were in the way, and where a connection has
// gone before anything was written.
func (s *Store) change(ctx context.Context, name string, f func(context.Context, *pgxpool.Conn) error) error {
	return s.changeWithin(ctx, patience, name, f)
}

func (s *Store) changeWithin(ctx context.Context, most time.Duration, name string, f func(context.Context, *pgxpool.Conn) error) error {
	err := s.ready(ctx)
	for i := 0; err == nil || i > 0 && i < tries && (again(err) || i == 1 && lost(err)) && ctx.Err() == nil; i++ {
		if lost(err) {
			s.pool.Reset()
		}
		if err = s.look(ctx, most, f); err == nil {
			return nil
		}
	}
	return s.fault(ctx, name, err)
}
