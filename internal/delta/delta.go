// Package delta writes a byte string as its difference to another one, for the history of a run's state.
//
// It may never guess: Apply refuses a difference that does not fit. No I/O, no clock.
//
// Start reading at Make; the rule when to write a full copy is Next.
package delta

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

// The first byte of a record: a full copy, or a list of pieces of the old string and new text.
const (
	full  = 0
	patch = 1
)

// most is how long a value can be that a difference makes: a broken record, which may repeat its base any number of times,
// must not fill the memory.
const most = 64 << 20

var errBroken = errors.New("delta: the record is broken or does not fit its base")

// Full makes a record that needs no base.
func Full(next []byte) []byte { return append([]byte{full}, next...) }

// IsFull reports whether a record needs no base.
func IsFull(record []byte) bool { return len(record) > 0 && record[0] == full }

// Next appends to b the record for the next value of a history whose last full copy is followed by so many bytes of differences.
// It is a full copy as soon as the differences would weigh as much as the value: then reading a value costs its full copy
// and differences of at most its own size, and a value that only grows costs less than three times its final size in all.
func Next(b, old, next []byte, since int) (record []byte, isFull bool) {
	d := appendTo(b, old, next)
	if since+len(d)-len(b) >= len(next)+1 {
		return append(append(d[:len(b)], full), next...), true
	}
	return d, false
}

// Make makes the difference from old to next: what they share at both ends is not repeated, and in between blocks of old
// are found again wherever they stand.
func Make(old, next []byte) []byte { return appendTo(nil, old, next) }

func appendTo(out, old, next []byte) []byte {
	if len(next) > most {
		return append(append(out, full), next...)
	}
	p := prefix(old, next)
	s := suffix(old[p:], next[p:])
	mid, from := next[p:len(next)-s], old[p:len(old)-s]
	out = append(slices.Grow(out, len(mid)+32), patch)
	out = piece(out, 0, p)
	if len(mid) < 4*block || len(from) < 2*block {
		out = text(out, mid)
	} else {
		out = blocks(out, from, p, mid)
	}
	return piece(out, len(old)-s, s)
}

// piece says: copy n bytes of old from at.
func piece(out []byte, at, n int) []byte {
	if n == 0 {
		return out
	}
	out = binary.AppendUvarint(out, uint64(n)<<1)
	return binary.AppendUvarint(out, uint64(at))
}

// text says: these bytes.
func text(out, b []byte) []byte {
	if len(b) == 0 {
		return out
	}
	out = binary.AppendUvarint(out, uint64(len(b))<<1|1)
	return append(out, b...)
}

const block = 32

// blocks finds the blocks of from (which begins at offset base of old) in mid, and extends each match to the right.
func blocks(out, from []byte, base int, mid []byte) []byte {
	index := make(map[[block]byte]int, len(from)/block)
	for i := len(from)/block - 1; i >= 0; i-- {
		index[[block]byte(from[i*block:])] = i * block
	}
	start := 0
	for i := 0; i+block <= len(mid); {
		at, ok := index[[block]byte(mid[i:])]
		if !ok {
			i++
			continue
		}
		n := block + prefix(from[at+block:], mid[i+block:])
		for at > 0 && i > start && from[at-1] == mid[i-1] {
			at, i, n = at-1, i-1, n+1
		}
		out = text(out, mid[start:i])
		out = piece(out, base+at, n)
		i += n
		start = i
	}
	return text(out, mid[start:])
}

// Apply makes the value of a record from its base; a full copy needs none.
func Apply(old, record []byte) ([]byte, error) {
	return apply(nil, old, record)
}

// Fold makes the last value of a history from its records, of which the first is a full copy. It is Apply for each of them,
// without a copy for each.
func Fold(records ...[]byte) (value []byte, err error) {
	var spare []byte
	for _, record := range records {
		next, err := apply(spare[:0], value, record)
		if err != nil {
			return nil, err
		}
		value, spare = next, value
	}
	return value, nil
}

// apply appends the value of a record to out, which shares nothing with old.
func apply(out, old, record []byte) ([]byte, error) {
	if len(record) == 0 || record[0] > patch {
		return nil, errBroken
	}
	if record[0] == full {
		return append(out, record[1:]...), nil
	}
	out = slices.Grow(out, len(old)+len(record))
	for r := record[1:]; len(r) > 0; {
		n, w := binary.Uvarint(r)
		if w <= 0 {
			return nil, errBroken
		}
		r = r[w:]
		if n&1 == 1 {
			if n >>= 1; n > uint64(len(r)) {
				return nil, errBroken
			}
			out, r = append(out, r[:n]...), r[n:]
			continue
		}
		n >>= 1
		at, w := binary.Uvarint(r)
		if w <= 0 || at > uint64(len(old)) || n > uint64(len(old))-at || uint64(len(out))+n > most {
			return nil, errBroken
		}
		out, r = append(out, old[at:at+n]...), r[w:]
	}
	return out, nil
}

func prefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i+stretch <= n && bytes.Equal(a[i:i+stretch], b[i:i+stretch]) {
		i += stretch
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

func suffix(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[len(a)-n:], b[len(b)-n:]
	for n >= stretch && bytes.Equal(a[n-stretch:n], b[n-stretch:n]) {
		n -= stretch
	}
	for n > 0 && a[n-1] == b[n-1] {
		n--
	}
	return len(a) - n
}

// stretch is how many bytes are compared at once.
const stretch = 32
