package parcel

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"pawl/store"
)

var day = time.Date(2026, 11, 28, 7, 0, 0, 123456789, time.UTC)

func sample() []Run {
	return []Run{
		{
			Run: store.Run{
				ID: "a", Tenant: "t", User: "u", Workflow: "w", Version: "1", Key: "k", Root: "a", Priority: 3, Created: day, Updated: day,
				Counters: []store.Counter{{Meter: "usd", Used: 5, Cap: -1}}, Head: []byte(`{"x":"<&>","X":1}`), Row: []byte(`{"s":"waiting"}`),
			},
			Rows: []store.Row{
				{Stream: store.Step, Told: true, At: day, Data: []byte("\x80\x01framed")},
				{Stream: store.Event, Key: "1/1/", At: day, Data: []byte(`{"t":"e","d":{"b":1,"a":"<\u2028>"}}`)},
				{Stream: store.Call, At: day, Data: []byte(`{"v": 1}`)}, // not as JSON would come back
				{Stream: store.Blob, Key: "h", At: day, Data: []byte("\xff\x00")},
				{Stream: store.Audit, At: day},
			},
			Questions: []store.Question{{ID: "q", Run: "a", Asked: day, Row: []byte(`{"key":"k"}`)}, {ID: "p", Run: "a", Asked: day, Due: day, Closed: true, Row: []byte(`1`)}},
		},
		{Run: store.Run{ID: "b", Workflow: "w", Version: "1", Parent: "a", Root: "a", Created: day, Updated: day, Head: []byte(`{}`), Row: []byte(`{}`)}},
	}
}

func file(t testing.TB, runs []Run) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{Root: runs[0].ID, Runs: len(runs), Made: day})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if err := w.Run(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAFileComesBackAsItWas(t *testing.T) {
	want := sample()
	h, got, err := Read(bytes.NewReader(file(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	if h.Root != "a" || h.Runs != 2 || h.Format != Format || !h.Made.Equal(day) {
		t.Errorf("%+v", h)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// lines unpacks a file.
func lines(t testing.TB, file []byte) []string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.SplitAfter(string(b), "\n")
	return all[:len(all)-1]
}

func packed(parts ...string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(strings.Join(parts, "")))
	_ = z.Close()
	return b.Bytes()
}

func TestEveryCutAndEveryFlippedByteIsFound(t *testing.T) {
	whole := file(t, sample())
	for n := range whole {
		if _, _, err := Read(bytes.NewReader(whole[:n])); !errors.Is(err, ErrCut) && !errors.Is(err, ErrForeign) {
			t.Fatalf("cut at %d of %d: %v", n, len(whole), err)
		}
		bad := bytes.Clone(whole)
		bad[n] ^= 0x41
		if _, got, err := Read(bytes.NewReader(bad)); err == nil && !reflect.DeepEqual(got, sample()) { // the header of gzip has bytes that mean nothing
			t.Fatalf("byte %d flipped: taken", n)
		}
	}
}

func TestWhatIsNoFileOfRuns(t *testing.T) {
	whole := file(t, sample())
	ls := lines(t, whole)
	join := func(with ...string) []byte { return packed(with...) }
	without := func(i int) []string { return append(append([]string{}, ls[:i]...), ls[i+1:]...) }
	for name, c := range map[string]struct {
		file []byte
		want error
		text string
	}{
		"nothing":           {nil, ErrForeign, ""},
		"text":              {[]byte("hello, this is a note"), ErrForeign, ""},
		"other gzip":        {packed("a note\n"), ErrForeign, ""},
		"empty gzip":        {packed(), ErrCut, ""},
		"other JSON":        {packed(`{"pawl":"catalog","format":1}` + "\n"), ErrForeign, ""},
		"newer":             {packed(strings.Replace(ls[0], `"format":1`, `"format":2,"new":true`, 1)), ErrNewer, "format 2"},
		"only a header":     {packed(ls[0]), ErrCut, ""},
		"no end":            {join(ls[:len(ls)-1]...), ErrCut, ""},
		"a line less":       {join(without(3)...), ErrDamaged, ""},
		"a run less":        {join(without(len(ls) - 2)...), ErrDamaged, ""},
		"two lines swapped": {join(append(append([]string{}, ls[0], ls[2], ls[1]), ls[3:]...)...), ErrDamaged, "line 2"},
		"a line more":       {join(append(append([]string{}, ls...), ls[2])...), ErrDamaged, "behind its end"},
		"a second member":   {append(bytes.Clone(whole), whole...), ErrDamaged, "behind its end"},
		"bytes behind":      {append(bytes.Clone(whole), 'x'), ErrDamaged, "behind its end"},
		"an unknown field":  {join(append([]string{ls[0], strings.Replace(ls[1], `"id":`, `"colour":1,"id":`, 1)}, ls[2:]...)...), ErrDamaged, "colour"},
		"a name with NUL":   {join(append([]string{ls[0], strings.Replace(ls[1], `"id":"a"`, `"id":"a\u0000"`, 1)}, ls[2:]...)...), ErrDamaged, "id"},
		"a bad stream":      {join(append([]string{ls[0], ls[1], strings.Replace(ls[2], `"step"`, `"stairs"`, 1)}, ls[3:]...)...), ErrDamaged, "stairs"},
		"a time of 1600":    {join(append([]string{ls[0], ls[1], strings.Replace(ls[2], `2026-11`, `1600-11`, 1)}, ls[3:]...)...), ErrDamaged, "1600"},
		"an endless line":   {packed(ls[0], strings.Repeat(" ", MaxLine+1)), ErrLarge, "line 2"},
	} {
		_, runs, err := Read(bytes.NewReader(c.file))
		if !errors.Is(err, c.want) || runs != nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v naming %q", name, err, c.want, c.text)
		}
	}
}

// TestLongABombIsNotUnpacked: the file unpacks for ever, and is let go of at its bound.
func TestLongABombIsNotUnpacked(t *testing.T) {
	ls := lines(t, file(t, sample()))
	r, w := io.Pipe()
	go func() {
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		_, _ = z.Write([]byte(ls[0]))
		_, _ = z.Write([]byte(`{"run":{"id":"a","workflow":"w","version":"1","created":"2026-11-28T07:00:00Z","updated":"2026-11-28T07:00:00Z","head":{},"record":{},"rows":2000000,"asked":0}}` + "\n"))
		row := []byte(`{"row":{"stream":"audit","at":"2026-11-28T07:00:00Z","data":"` + strings.Repeat("x", 8<<20) + `"}}` + "\n")
		for {
			if _, err := z.Write(row); err != nil {
				return
			}
		}
	}()
	_, _, err := Read(r)
	_ = r.Close()
	if !errors.Is(err, ErrLarge) {
		t.Errorf("%v", err)
	}
}

func FuzzRead(f *testing.F) {
	whole := file(f, sample())
	ls := lines(f, whole)
	f.Add([]byte(strings.Join(ls, "")))
	f.Add([]byte(ls[0]))
	f.Add([]byte(strings.Join(ls[:3], "")))
	f.Add([]byte(strings.Replace(strings.Join(ls, ""), "waiting", "running", 1)))
	f.Add([]byte(`{"pawl":"runs","format":1,"root":"a","runs":1}` + "\n" + `{"end":{"lines":1,"sha256":""}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, runs, err := Read(bytes.NewReader(packed(string(text))))
		if err != nil {
			if runs != nil {
				t.Fatal("runs beside an error")
			}
			return
		}
		if h.Runs != len(runs) {
			t.Fatalf("%d runs, the header says %d", len(runs), h.Runs)
		}
		_, again, err := Read(bytes.NewReader(file(t, runs)))
		if err != nil || len(again) != len(runs) {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}

func FuzzReadRaw(f *testing.F) {
	f.Add(file(f, sample()))
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, runs, err := Read(bytes.NewReader(raw)); err != nil && runs != nil {
			t.Fatal("runs beside an error")
		}
	})
}
