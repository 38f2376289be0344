package delta_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"pawl/internal/delta"
)

// state is a JSON state of about n bytes: a list of messages.
func state(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := []byte(`{"messages":[`)
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, `{"id":%d,"role":"user","text":"%x %x %x"},`, i, r.Uint64(), r.Uint64(), r.Uint64())
	}
	return append(b, `{}],"round":7}`...)
}

// scattered changes one byte in every thousand.
func scattered(b []byte) []byte {
	out := bytes.Clone(b)
	for i := 500; i < len(out); i += 1000 {
		out[i] ^= 1
	}
	return out
}

// renumbered changes the length of a number in every message, so that nothing stays where it was.
func renumbered(b []byte) []byte {
	return bytes.ReplaceAll(b, []byte(`"role":"user"`), []byte(`"role":"assistant"`))
}

func appended(b []byte) []byte {
	return append(bytes.TrimSuffix(bytes.Clone(b), []byte(`],"round":7}`)), `,{"text":"one more message"}],"round":8}`...)
}

func rewritten(b []byte) []byte {
	out := make([]byte, len(b))
	r := rand.New(rand.NewPCG(3, 4))
	for i := range out {
		out[i] = 'a' + byte(r.IntN(26))
	}
	return out
}

func BenchmarkMake(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20} {
		old := state(size)
		for _, edit := range []struct {
			name string
			of   func([]byte) []byte
		}{{"same", bytes.Clone}, {"append", appended}, {"scattered", scattered}, {"renumbered", renumbered}, {"rewritten", rewritten}} {
			next := edit.of(old)
			b.Run(fmt.Sprintf("%dKB/%s", size>>10, edit.name), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(next)))
				n := 0
				for b.Loop() {
					n = len(delta.Make(old, next))
				}
				b.ReportMetric(float64(n)/float64(len(next)), "record/state")
			})
		}
	}
}

// BenchmarkFold reads a state back over a chain of 400 records, as after every claim.
func BenchmarkFold(b *testing.B) {
	records, _ := grown(400, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := delta.Fold(records...); err != nil {
			b.Fatal(err)
		}
	}
}
