package postgres

import (
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is where the processes on one schema notify each other; migrated is what a migration says there.
func channel(schema string) string { return schema }

const migrated = "migrated"

// listener has the only connection that waits for notices. While it has none, watchers are told every look that any run may have
// changed; while it has one, every now and then, for the notice of a process that died before it sent it.
type listener struct {
	s    *Store
	name string // the notices of this store begin with it: they have been told already
	conn *pgx.Conn
	up   atomic.Bool
	last atomic.Int64 // when the watchers were last told without a notice
}

// How long it waits before it looks whether the server is still there, and before it tries to reach it again.
const (
	quiet = 5 * time.Second
	pause = 250 * time.Millisecond
	slow  = 5 * time.Second // between two of the slow polls
)

func (l *listener) init(s *Store) {
	l.s, l.name = s, rand.Text()[:12]
	l.last.Store(time.Now().UnixNano())
}

// poll stands in for notices.
func (l *listener) poll() {
	every := look * 3 / 4
	if l.up.Load() {
		every = slow
	}
	now, last := time.Now().UnixNano(), l.last.Load()
	if now-last > int64(every) && l.last.CompareAndSwap(last, now) { // else another watcher has just done it
		l.s.hub.Tell("")
	}
}

func (l *listener) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cc := l.s.conf.pool.ConnConfig.Copy()
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return
	}
	if err = l.s.conf.greet(ctx, conn); err == nil {
		_, err = conn.Exec(ctx, `LISTEN "`+channel(l.s.conf.schema)+`"`)
	}
	if err != nil {
		_ = conn.Close(ctx)
		return
	}
	l.conn = conn
	l.up.Store(true)
	l.s.hub.Tell("") // who knows what was missed
}

// loop listens until the store is closed.
func (l *listener) loop() {
	for l.s.closing.Err() == nil {
		if l.conn == nil {
			select {
			case <-l.s.closing.Done():
				return
			case <-time.After(pause):
			}
			l.connect(l.s.closing)
			continue
		}
		if !l.listen() {
			l.up.Store(false)
			l.hangUp()
			l.s.pool.Reset() // the others will have gone with it
		}
	}
	l.hangUp()
}

func (l *listener) hangUp() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx)
	l.conn = nil
}

// listen waits for a notice. Where none comes for long it asks whether the server is there; false: it is not.
func (l *listener) listen() bool {
	ctx, cancel := context.WithTimeout(l.s.closing, quiet)
	defer cancel()
	n, err := l.conn.WaitForNotification(ctx)
	if err == nil {
		l.hear(n.Payload)
		return true
	}
	if l.conn.IsClosed() || l.s.closing.Err() != nil || ctx.Err() == nil {
		return false
	}
	ctx, cancel = context.WithTimeout(l.s.closing, quiet)
	defer cancel()
	return l.conn.Ping(ctx) == nil
}

func (l *listener) hear(text string) {
	if text == migrated { // connections that are made from now on refuse a newer database, and the others must not stay
		l.s.pool.Reset()
		l.s.hub.Tell("")
		return
	}
	from, ids, _ := strings.Cut(text, "\n")
	if from != l.name {
		l.s.hub.Tell(strings.Split(ids, "\n")...)
	}
}
