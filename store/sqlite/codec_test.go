package sqlite

import "testing"

// What was written is read again, the larger number wins, and odd bytes do no harm.
func FuzzTails(f *testing.F) {
	f.Add([]byte(nil), int64(1), int64(2))
	f.Add([]byte{0xff, 0xff, 1, 2, 3}, int64(1<<40), int64(1<<60))
	f.Fuzz(func(t *testing.T, odd []byte, seq, id int64) {
		if seq < 1 || id < 0 {
			return
		}
		want := tails{}
		want[2] = tail{seq, id}
		var got tails
		got.grow(want.bytes())
		got.grow(nil)
		got.grow((&tails{}).bytes())
		if got != want {
			t.Fatal(got, want)
		}
		got.grow(odd)
	})
}
