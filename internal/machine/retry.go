package machine

import (
	"hash/fnv"
	"strconv"
	"time"

	"pawl/internal/host"
)

const maxBackoff = 24 * time.Hour

// Backoff is how long to wait before repetition n (1 is the first one): First·Factor^(n-1), spread by ±20 % of a hash of
// seed, so that equal runs do not come back together and a replay waits the same. At least is a server's own word.
func Backoff(r host.Retry, n int, seed string, atLeast time.Duration) time.Duration {
	factor := r.Factor
	if factor < 1 {
		factor = 2
	}
	d := float64(r.First)
	for range n - 1 {
		d = min(d*factor, float64(maxBackoff))
	}
	h := fnv.New64a()
	h.Write([]byte(seed + "/" + strconv.Itoa(n)))
	spread := 0.8 + 0.4*float64(h.Sum64()>>11)/(1<<53)
	return max(time.Duration(min(d*spread, float64(maxBackoff))), min(atLeast, maxBackoff))
}
