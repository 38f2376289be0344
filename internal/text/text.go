// Package text brings text that people and machines wrote into forms that can be compared and searched: a key, its words, their stems.
//
// It may never change what is shown: forms are for comparing, the original is for people. It holds no vocabulary of a
// trade, no index and no I/O.
//
// Start reading at Key, then Words and Stem.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Key is the form in which two spellings of one text are equal: NFKC, case folded, without ignorable characters, every
// run of spaces and control characters one space. Accents stay: they tell words apart.
func Key(s string) string {
	if ascii(s) {
		return squeeze(strings.ToLower(s))
	}
	s = strings.Map(visible, strings.ToValidUTF8(s, "\uFFFD"))
	for range 3 { // folding can open a further composition; two rounds settle every known character
		t := strings.Map(visible, norm.NFKC.String(cases.Fold().String(norm.NFKC.String(s))))
		if t == s {
			break
		}
		s = t
	}
	return squeeze(s)
}

// Words are the words of s in search form: as Key, without accents, split at whatever is no letter, mark or digit.
// An apostrophe joins ("driver's" is one word).
func Words(s string) []string {
	if ascii(s) {
		return plainWords(s)
	}
	return anyWords(s)
}

func anyWords(s string) []string {
	return strings.FieldsFunc(unaccent(Key(s)), func(r rune) bool { return !InWord(r) })
}

// plainWords is the same for ASCII, in one go: most of what is read is.
func plainWords(s string) []string {
	words := []string{}
	var b []byte
	for i := range len(s) + 1 {
		c := byte(' ')
		if i < len(s) {
			c = s[i]
		}
		switch {
		case c >= 'A' && c <= 'Z':
			b = append(b, c+'a'-'A')
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b = append(b, c)
		case c == '\'', c == '`':
		case len(b) > 0:
			words = append(words, string(b))
			b = b[:0]
		}
	}
	return words
}

// InWord says whether a word can have r in it: a letter, a mark or a digit of any script.
func InWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N)
}

// LatinDigits is s with the decimal digits of every script as 0 to 9.
func LatinDigits(s string) string {
	if ascii(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf || !unicode.Is(unicode.Nd, r) {
			return r
		}
		for _, t := range unicode.Nd.R16 { // digits come in tens, each from its zero
			if lo, hi := rune(t.Lo), rune(t.Hi); lo <= r && r <= hi {
				return '0' + (r-lo)%10
			}
		}
		for _, t := range unicode.Nd.R32 {
			if lo, hi := rune(t.Lo), rune(t.Hi); lo <= r && r <= hi {
				return '0' + (r-lo)%10
			}
		}
		return r
	}, s)
}

// unaccent takes accents and apostrophes away. Vowel signs of other scripts are part of their words and stay, and so does a mark that makes
// another letter of a Cyrillic one (й, ї, ў): only ё is often written without.
func unaccent(s string) string {
	if !ascii(s) {
		s = norm.NFD.String(s)
	}
	before := rune(0)
	s = strings.Map(func(r rune) rune {
		accent := r >= 0x300 && r <= 0x36F
		if r == '\'' || r == '’' || r == '`' || accent && !letter(before, r) {
			return -1
		}
		before = r
		return r
	}, s)
	if ascii(s) {
		return s
	}
	return norm.NFC.String(s)
}

// letter reports whether a Cyrillic letter and a mark are another letter.
func letter(base, mark rune) bool {
	return unicode.Is(unicode.Cyrillic, base) && base != 'е' && utf8.RuneCountInString(norm.NFC.String(string([]rune{base, mark}))) == 1
}

// Clip returns at most n characters of s, and whether something was cut.
func Clip(s string, n int) (string, bool) {
	if len(s) <= n {
		return s, false
	}
	i := 0
	for at := range s {
		if i == n {
			return s[:at], true
		}
		i++
	}
	return s, false
}

// Visible is s without the characters that nobody sees, as Key and Words have it: joiners inside a word, which Devanagari
// is written with, soft hyphens, and spaces of no width, for these stand inside words far more often than between them.
func Visible(s string) string {
	if ascii(s) {
		return s
	}
	return strings.Map(visible, s)
}

// visible drops characters that nobody sees and makes a space of control characters.
func visible(r rune) rune {
	switch {
	case r == 0x034F, r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5, r == 0x3164, r == 0xFFA0,
		r >= 0x180B && r <= 0x180F, r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0000 && r <= 0xE0FFF,
		unicode.Is(unicode.Cf, r):
		return -1
	case unicode.IsControl(r):
		return ' '
	}
	return r
}

func squeeze(s string) string { return strings.Join(strings.FieldsFunc(s, blank), " ") }

func blank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
