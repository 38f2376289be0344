package sqlite

import (
	"encoding/binary"

	"pawl/store/internal/rules"
)

// stride is how many rows lie between two marks of a stream.
const stride = 64

// tail is where a stream ends: its last number, and that row's id.
type tail struct{ seq, id int64 }

// tails are the ends of a run's streams. A step writes them with the state and everything else with the lease, so that
// neither has to touch the other's page; numbers only grow, so the larger one of the two is right.
type tails [len(rules.Streams)]tail

func (ts *tails) bytes() []byte { return ts.append(make([]byte, 0, 64)) }

// append is bytes behind what b holds.
func (ts *tails) append(b []byte) []byte {
	for _, t := range ts {
		b = binary.AppendUvarint(b, uint64(t.seq))
		b = binary.AppendUvarint(b, uint64(t.id))
	}
	return b
}

// grow takes over what the stored bytes know better.
func (ts *tails) grow(b []byte) {
	for i := range ts {
		seq, n := binary.Uvarint(b)
		if n <= 0 {
			return
		}
		id, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return
		}
		if b = b[n+m:]; int64(seq) > ts[i].seq {
			ts[i] = tail{int64(seq), int64(id)}
		}
	}
}
