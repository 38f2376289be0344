package text

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestKeyEqualSpellings(t *testing.T) {
	for _, c := range []struct{ why, a, b string }{
		{"composed and decomposed", "Beyonc\u00e9", "Beyonce\u0301"},
		{"zero width space", "Lorry\u200b Driver", "lorry driver"},
		{"right-to-left override", "\u202edriver", "driver"},
		{"full width", "ＤＲＩＶＥＲ", "driver"},
		{"sharp s", "STRASSE", "straße"},
		{"control characters are spaces", "truck\x00driver\t\n", "truck driver"},
		{"variation selector", "driver\ufe0f", "driver"},
		{"hangul jamo", "\u1112\u1161\u11ab", "\ud55c"},
	} {
		if Key(c.a) != Key(c.b) {
			t.Errorf("%s: %q and %q differ", c.why, Key(c.a), Key(c.b))
		}
	}
	if Key("\u200b\u2060\ufeff \u3164\x00") != "" {
		t.Error("invisible text has a visible key")
	}
}

func TestWords(t *testing.T) {
	for in, want := range map[string][]string{
		"Chef's café, 2nd floor": {"chefs", "cafe", "2nd", "floor"},
		"दर्जी का काम":           {"दर्जी", "का", "काम"},
		"\"; DROP TABLE-x":       {"drop", "table", "x"},
		"🚚":                      {},
	} {
		if got := Words(in); !slices.Equal(got, want) {
			t.Errorf("Words(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestVisible(t *testing.T) {
	if got := Visible("ड्\u200dराइवर\u00ad tai\u200blor"); got != "ड्राइवर tailor" {
		t.Errorf("%q", got)
	}
}

func TestLatinDigits(t *testing.T) {
	if got := LatinDigits("a२ ٣ ９ 𝟡 x7"); got != "a2 3 9 9 x7" {
		t.Errorf("%q", got)
	}
	next := '0'
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.Is(unicode.Nd, r) {
			if got := LatinDigits(string(r)); got != string(next) {
				t.Errorf("%U is %q, want %q", r, got, next)
			}
			next = '0' + (next-'0'+1)%10
		}
	}
}

func TestStem(t *testing.T) {
	for _, family := range [][]string{
		{"drive", "drives", "driving", "driver", "drivers"},
		{"engineer", "engineers", "engineering"},
		{"teach", "teaches", "teaching", "teacher"},
		{"weld", "welder", "welding", "welded"},
		{"nurse", "nurses", "nursing"},
		{"lorry", "lorries"},
		{"run", "runner", "running"},
	} {
		for _, w := range family {
			if w != "run" && Stem(w) != Stem(family[0]) {
				t.Errorf("Stem(%q) = %q, Stem(%q) = %q", w, Stem(w), family[0], Stem(family[0]))
			}
		}
	}
	for _, apart := range [][2]string{{"engine", "engineer"}, {"king", "kin"}, {"bus", "bu"}} {
		if Stem(apart[0]) == Stem(apart[1]) {
			t.Errorf("%q and %q fall together", apart[0], apart[1])
		}
	}
}

func TestLikeness(t *testing.T) {
	for _, c := range []struct {
		a, b     string
		min, max float64
	}{{"plumber", "plumber", 1, 1}, {"plumer", "plumber", .6, .99}, {"tailor", "sailor", .4, .7}, {"nurse", "welder", 0, .2}, {"", "", 1, 1}, {"", "a", 0, 0}} {
		if l := Likeness(c.a, c.b); l < c.min || l > c.max || l != Likeness(c.b, c.a) {
			t.Errorf("Likeness(%q, %q) = %v, want %v to %v", c.a, c.b, l, c.min, c.max)
		}
	}
}

func TestClip(t *testing.T) {
	if s, cut := Clip("दर्जी", 2); s != "दर" || !cut {
		t.Errorf("Clip = %q, %v", s, cut)
	}
	if s, cut := Clip("दर्जी", 5); s != "दर्जी" || cut {
		t.Errorf("Clip = %q, %v", s, cut)
	}
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{"", "é\u0301\u200b", "ﬀ İ ß", "\xff\x00", strings.Repeat("\u0301", 40), "\u0345\u03b1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k := Key(s)
		if !utf8.ValidString(k) || Key(k) != k {
			t.Fatalf("Key(%q) = %q, again %q", s, k, Key(k))
		}
		for _, w := range Words(s) {
			if w == "" || (w != "" && Stem(w) == "") {
				t.Fatalf("Words(%q): empty word or stem of %q", s, w)
			}
		}
	})
}

// ASCII has a way of its own to the same words.
func FuzzPlainWords(f *testing.F) {
	for _, s := range []string{"Driver's mate, 2nd `class`", "a\x00b\tc", "--", "X-ray"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if ascii(s) && !slices.Equal(plainWords(s), anyWords(s)) {
			t.Errorf("%q: %q, want %q", s, plainWords(s), anyWords(s))
		}
	})
}
