package postgres

import (
	"sync"
	"time"

	"pawl/store/internal/rules"
)

// horizon is from when on there is anything in the queues of some kinds, and among the leases. What has been claimed before leaves
// dead rows behind, which Postgres cannot take away while a transaction of somebody else's stays open: claims that looked through
// all of them each time would become slower and slower.
//
// It is a hint, and used only where a look has become slow while there is such a transaction. Most of what becomes due is due at
// the time at which it is written or later; but a commit may take longer than the margin, and a lease that ran out may go back to
// an earlier place by way of somebody who looks everywhere. So everything is looked through again every now and then.
type horizon struct {
	mu sync.Mutex
	by map[string]sight
}

// sight is what a claim has seen.
type sight struct {
	ready  int64         // nothing is due since before
	lapsed int64         // no lease that ended before was left
	ends   int64         // no lease that is left ends before
	now    int64         // the server's clock
	whole  time.Time     // when everything was last looked through
	took   time.Duration // how long that took
}

const (
	margin   = int64(2 * time.Second)
	slowLook = 2 * time.Millisecond
	keeps    = int64(1000) // transactions since a snapshot was taken: from then on it counts as one that stays open
	oftenest = 20          // looking through everything takes at most one part in so many of the time
	seldom   = 10 * time.Second
)

// rest is how long a sight may be gone by before everything is looked through again.
func (s sight) rest() time.Duration { return min(oftenest*s.took, seldom) - time.Since(s.whole) }

// of is where to look from for what is due of some kinds; the zero sight: everywhere.
func (h *horizon) of(kinds []string) sight {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.by[among(kinds)]; s.took >= slowLook && s.rest() > 0 {
		return s
	}
	return sight{}
}

// saw notes what is left behind a look that was made from some sight on and took so long: what is first in the queues and which
// lease is the first to end, nil: none. It answers when to look again all the same, below zero: no need.
func (h *horizon) saw(kinds []string, from sight, took time.Duration, now int64, ready, ends *int64) (again time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := among(kinds)
	if now < from.now { // the clock was set back: there may be more than was seen
		delete(h.by, key)
		return 0
	}
	if h.by == nil || len(h.by) > remembered {
		h.by = map[string]sight{}
	}
	is, again := from, max(from.rest(), 0)
	if from.whole.IsZero() {
		is.whole, is.took, again = time.Now(), took, -1
	}
	is.now, is.ready, is.lapsed, is.ends = now, now-margin, now-margin, now
	if ready != nil {
		is.ready = min(is.ready, *ready)
	}
	if ends != nil {
		is.ends = *ends
	}
	h.by[key] = is
	return again
}

// among tells the kinds that are looked for apart: nil are all, which is something else than none.
func among(kinds []string) string {
	if kinds == nil {
		return "all"
	}
	return rules.JoinKinds(kinds)
}
