package engine

import (
	"sync"

	"pawl"
)

// hub hands deltas, which no store keeps, to the live watchers of a run in this process. A watcher that does not keep up
// misses some.
type hub struct {
	mu   sync.Mutex
	subs map[string]map[chan pawl.Logged]bool
}

func (h *hub) subscribe(run string) (<-chan pawl.Logged, func()) {
	c := make(chan pawl.Logged, 256)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[string]map[chan pawl.Logged]bool{}
	}
	if h.subs[run] == nil {
		h.subs[run] = map[chan pawl.Logged]bool{}
	}
	h.subs[run][c] = true
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs[run], c)
		if len(h.subs[run]) == 0 {
			delete(h.subs, run)
		}
	}
}

func (h *hub) publish(l pawl.Logged) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.subs[l.Run] {
		select {
		case c <- l:
		default:
		}
	}
}
