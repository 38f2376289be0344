package delta_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pawl/internal/delta"
)

// TestMake: edits as a state has them, and how much of the new value their record may repeat.
func TestMake(t *testing.T) {
	long := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", 40)
	s := string(state(20_000))
	for _, c := range []struct {
		name, old, next string
		most            int
	}{
		{"nothing", "", "", 1},
		{"same", s, s, 8},
		{"first value", "", s, len(s) + 8},
		{"emptied", s, "", 1},
		{"append", s, s + "more", 16},
		{"append inside", s, string(appended([]byte(s))), 60},
		{"cut", s, s[:1000], 8},
		{"prepend", s, "more" + s, 16},
		{"one byte", s, s[:5000] + "X" + s[5001:], 16},
		{"two far edits", s, "X" + s[1:len(s)-1] + "Y", 100},
		{"halves swapped", s, s[len(s)/2:] + s[:len(s)/2], 100},
		{"doubled", s, s + s, len(s) + 8}, // what both ends share is not searched: an append to a large state stays cheap
		{"every message grows", s, string(renumbered([]byte(s))), len(s) * 2 / 3},
		{"repeats itself", "x" + long + "x", "y" + long + long + long + "y", 100},
		{"short and different", "abc", "xyz", 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			record := delta.Make([]byte(c.old), []byte(c.next))
			got, err := delta.Apply([]byte(c.old), record)
			if err != nil || string(got) != c.next {
				t.Fatalf("%v: another value", err)
			}
			if len(record) > c.most {
				t.Errorf("the record has %d bytes, at most %d are expected", len(record), c.most)
			}
		})
	}
}

// edited draws a value that comes of old by a few edits: bytes replaced, put in, cut out, moved and repeated.
func edited(t *rapid.T, old []byte) []byte {
	next := bytes.Clone(old)
	for range rapid.IntRange(0, 6).Draw(t, "edits") {
		from := rapid.IntRange(0, len(next)).Draw(t, "from")
		upto := rapid.IntRange(from, len(next)).Draw(t, "upto")
		piece := bytes.Clone(next[from:upto])
		text := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "text")
		switch rapid.IntRange(0, 3).Draw(t, "edit") {
		case 0:
			next = append(append(next[:from:from], text...), next[upto:]...)
		case 1:
			next = append(next, text...)
		case 2: // moved to the end
			next = append(append(next[:from:from], next[upto:]...), piece...)
		default: // repeated
			next = append(next, piece...)
		}
	}
	return next
}

// value draws bytes with and without repetition.
func value(t *rapid.T) []byte {
	part := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "value")
	return bytes.Repeat(part, rapid.IntRange(1, 8).Draw(t, "times"))
}

func TestAnyEdit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := value(t)
		next := edited(t, old)
		kept, record := bytes.Clone(old), delta.Make(old, next)
		got, err := delta.Apply(old, record)
		if err != nil || !bytes.Equal(got, next) {
			t.Fatalf("%v: %q made of %q by %q", err, got, old, record)
		}
		if !bytes.Equal(old, kept) {
			t.Fatal("the base was changed")
		}
		if len(record) > len(next)+len(next)/8+32 {
			t.Fatalf("a record of %d bytes for a value of %d", len(record), len(next))
		}
	})
}

// TestHistory: whatever a history of values looks like, each can be read from the last full copy on, and the differences
// after that copy weigh less than the value.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var old, read []byte
		var records [][]byte
		since := 0
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			next := edited(t, old)
			record, full := delta.Next(nil, old, next, since)
			if full != delta.IsFull(record) {
				t.Fatal("a full copy that is none")
			}
			if since += len(record); full {
				since = 0
			}
			if since > len(next) {
				t.Fatalf("%d bytes of differences for a value of %d", since, len(next))
			}
			var err error
			if read, err = delta.Apply(read, record); err != nil || !bytes.Equal(read, next) {
				t.Fatalf("%v: another value", err)
			}
			records, old = append(records, record), next
			if folded, err := delta.Fold(records...); err != nil || !bytes.Equal(folded, next) {
				t.Fatalf("folded, it is another value: %v", err)
			}
		}
	})
}

// grown is the history of a list to which a message is added in every turn.
func grown(turns, size int) (records [][]byte, last []byte) {
	var old []byte
	since := 0
	for i := range turns {
		next := []byte(`{"messages":[`)
		for j := range i + 1 {
			next = fmt.Appendf(next, `{"n":%d,"text":"%s"},`, j, strings.Repeat(fmt.Sprintf("%08x", j*2654435761), size/8))
		}
		next = append(next, fmt.Sprintf(`{}],"round":%d}`, i)...)
		record, full := delta.Next(nil, old, next, since)
		if since += len(record); full {
			since = 0
		}
		records, old = append(records, record), next
	}
	return records, old
}

// TestCost: 400 turns of a list that grows by 1 KB each cost less than three times its final size, where 400 full copies
// would cost 200 times as much; reading never needs more than twice the size of what is read.
func TestCost(t *testing.T) {
	records, last := grown(400, 1000)
	all, since := 0, 0
	var value []byte
	for i, r := range records {
		all += len(r)
		if since += len(r); delta.IsFull(r) {
			since = len(r)
		}
		var err error
		if value, err = delta.Apply(value, r); err != nil {
			t.Fatal(err)
		}
		if since > 2*len(value)+1 {
			t.Fatalf("turn %d: %d bytes are read for a value of %d", i, since, len(value))
		}
	}
	folded, err := delta.Fold(records...)
	if err != nil || !bytes.Equal(value, last) || !bytes.Equal(folded, last) {
		t.Fatal("another value", err)
	}
	if all >= 3*len(last) {
		t.Errorf("%d bytes for a final size of %d", all, len(last))
	}
	t.Logf("%d turns: %d bytes stored for a final size of %d (%.2f times)", len(records), all, len(last), float64(all)/float64(len(last)))
}

// TestBroken: a record that does not fit is refused, also one that would fill the memory.
func TestBroken(t *testing.T) {
	old := bytes.Repeat([]byte("x"), 1<<20)
	all := binary.AppendUvarint([]byte(nil), uint64(len(old))<<1)
	all = append(all, 0)
	for name, record := range map[string][]byte{
		"empty":               {},
		"unknown kind":        {7, 1, 2},
		"cut length":          {1, 0x80},
		"length too long":     append([]byte{1}, bytes.Repeat([]byte{0xff}, 11)...),
		"no offset":           {1, 4},
		"cut offset":          {1, 4, 0x80},
		"text past the end":   {1, 9, 'a'},
		"piece past the end":  append(binary.AppendUvarint([]byte{1}, 4), 0xff, 0xff, 0xff, 0x7f),
		"piece that wraps":    append(binary.AppendUvarint(binary.AppendUvarint([]byte{1}, math.MaxUint64-1), 2), 1),
		"offset that wraps":   binary.AppendUvarint(binary.AppendUvarint([]byte{1}, 4), math.MaxUint64),
		"more than any value": append([]byte{1}, bytes.Repeat(all, 1000)...),
	} {
		if got, err := delta.Apply(old, record); err == nil {
			t.Errorf("%s: made a value of %d bytes", name, len(got))
		}
	}
}

// FuzzApply: no record makes Apply panic, and what Make makes of the result fits again.
func FuzzApply(f *testing.F) {
	f.Add([]byte("abc"), []byte{0, 'x'})
	f.Add([]byte("abcdefgh"), delta.Make([]byte("abcdefgh"), []byte("abcXefgh")))
	f.Add(state(500), delta.Make(state(500), appended(state(500))))
	f.Add([]byte("abc"), []byte{1, 6, 0, 3, 'x', 6, 0})
	f.Fuzz(func(t *testing.T, old, record []byte) {
		got, err := delta.Apply(old, record)
		if err != nil {
			return
		}
		again, err := delta.Apply(old, delta.Make(old, got))
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%v: %q is not %q", err, again, got)
		}
	})
}
