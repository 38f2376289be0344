package postgres

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// notifier tells other processes which runs have changed, soon after the commit that changed them. Not within that commit, since
// Postgres lets only one transaction at a time commit that notifies: all syncs of all processes would wait for each other. What is
// lost where a process dies in between, the slow poll of the others makes up for.
type notifier struct {
	mu   sync.Mutex
	ids  []string
	seen map[string]struct{}
	wake chan struct{}
}

// gather is how long it waits for more to tell: fewer notices wake fewer processes.
const gather = 3 * time.Millisecond

const notify = `SELECT pg_notify($1, $2)`

func (n *notifier) init() { n.wake, n.seen = make(chan struct{}, 1), map[string]struct{}{} }

// tell tells of runs that have changed, here and elsewhere.
func (s *Store) tell(ids ...string) {
	if len(ids) == 0 {
		return
	}
	s.hub.Tell(ids...)
	s.notifier.add(ids)
}

func (n *notifier) add(ids []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		if _, there := n.seen[id]; !there && len(n.ids) < remembered { // more than fit into a notice are any
			n.seen[id] = struct{}{}
			n.ids = append(n.ids, id)
		}
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *notifier) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids := n.ids
	n.ids = nil
	clear(n.seen)
	return ids
}

// notices sends until the store is closed and nothing more is written, then what is left.
func (s *Store) notices(done <-chan struct{}) {
	for {
		select {
		case <-done:
			s.notice()
			return
		case <-s.notifier.wake:
		}
		select {
		case <-done:
		case <-time.After(gather):
		}
		if !s.notice() {
			select {
			case <-done:
			case <-time.After(pause):
			}
		}
	}
}

// notice sends one; false: it could not, and will say next time that any run may have changed.
func (s *Store) notice() bool {
	ids := s.notifier.take()
	if len(ids) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := s.pool.Exec(ctx, notify, channel(s.conf.schema), payload(s.listener.name, ids))
	if err != nil {
		s.notifier.add([]string{""})
	}
	return err == nil
}

// payload is what a notice says: whose it is and which runs have changed, or that any may have. A notice may not be longer than
// 8000 bytes, and must be text.
func payload(from string, ids []string) string {
	var b strings.Builder
	b.WriteString(from)
	for _, id := range ids {
		if id == "" || !utf8.ValidString(id) || strings.ContainsAny(id, "\x00\n") || b.Len()+len(id) > 7900 {
			return from + "\n"
		}
		b.WriteByte('\n')
		b.WriteString(id)
	}
	return b.String()
}
