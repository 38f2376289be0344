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
	if !(factor >= 1) { // NaN too
		factor = 2
	}
	d := float64(max(r.First, 0))
	for i := 1; i < n && 0 < d && d < float64(maxBackoff); i++ {
		d = min(d*factor, float64(maxBackoff))
	}
	spread := 0.8 + 0.4*float64(mix(seed+"/"+strconv.Itoa(n))>>11)/(1<<53)
	return max(time.Duration(min(d*spread, float64(maxBackoff))), min(atLeast, maxBackoff))
}

// mix is a hash in which each byte moves every bit. FNV alone moves few of the high ones for the last bytes, and those
// tell the repetitions of one call apart.
func mix(s string) uint64 {
	f := fnv.New64a()
	f.Write([]byte(s))
	h := f.Sum64()
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
