package nco

import (
	"strings"
	"unicode"
)

// sound is the form in which the spellings of one Hindi word are the same, whether it is written in Devanagari or, by ear,
// in Latin letters: दर्ज़ी, darzi, darjee; मछली, machhli, machli. It keeps the consonants, with what is often mixed up made
// one, and the vowels but for a, which is written or left out at will. It is coarse: use it only to look words up in a list.
func sound(form string) string {
	if devanagari(form) {
		form = romanized(form)
	}
	return skeleton(form)
}

func devanagari(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r >= 0x900 && r <= 0x97F })
}

// skeleton reduces a romanization.
func skeleton(s string) string {
	s = alike.Replace(s)
	var b strings.Builder
	var last rune
	for i, r := range s {
		switch {
		case r == 'h' && i > 0 && consonant(last): // an aspirate, or c and s, whose h is gone already
			continue
		case r == 'a' && i > 0:
			last = r
			continue
		case r == 'e' || r == 'y':
			r = 'i'
		case r == 'o':
			r = 'u'
		}
		if r != last || !unicode.IsLetter(r) {
			b.WriteRune(r)
		}
		last = r
	}
	return b.String()
}

// alike are spellings of one sound.
var alike = strings.NewReplacer(
	"chh", "c", "ch", "c", "sh", "s", "ph", "f", "w", "v", "z", "j", "q", "k", "x", "ks", "ck", "k",
	"ee", "i", "oo", "u", "ou", "u", "ai", "e", "ei", "e", "ay", "e", "au", "o", "ow", "o", "aa", "a",
)

func consonant(r rune) bool { return r != 0 && !strings.ContainsRune("aeiou", r) }

// The letters of Devanagari as they are written in Latin ones.
var (
	letters = map[rune]string{
		'क': "k", 'ख': "kh", 'ग': "g", 'घ': "gh", 'ङ': "n", 'च': "ch", 'छ': "ch", 'ज': "j", 'झ': "jh", 'ञ': "n",
		'ट': "t", 'ठ': "th", 'ड': "d", 'ढ': "dh", 'ण': "n", 'त': "t", 'थ': "th", 'द': "d", 'ध': "dh", 'न': "n",
		'प': "p", 'फ': "f", 'ब': "b", 'भ': "bh", 'म': "m", 'य': "y", 'र': "r", 'ल': "l", 'ळ': "l", 'व': "v",
		'श': "s", 'ष': "s", 'स': "s", 'ह': "h",
	}
	vowels = map[rune]string{
		'अ': "a", 'आ': "a", 'इ': "i", 'ई': "i", 'उ': "u", 'ऊ': "u", 'ऋ': "ri", 'ए': "e", 'ऐ': "e", 'ऑ': "o", 'ओ': "o", 'औ': "o",
	}
	signs = map[rune]string{
		'ा': "a", 'ि': "i", 'ी': "i", 'ु': "u", 'ू': "u", 'ृ': "ri", 'े': "e", 'ै': "e", 'ॉ': "o", 'ो': "o", 'ौ': "o", 'ॅ': "e",
	}
)

const (
	virama      = '्'
	nukta       = '़'
	anusvara    = 'ं'
	candrabindu = 'ँ'
)

// romanized writes Devanagari in Latin letters, sound by sound. What is no letter of it stays.
func romanized(s string) string {
	var b strings.Builder
	rs := []rune(s)
	for i, r := range rs {
		next := rune(0)
		if i+1 < len(rs) {
			next = rs[i+1]
		}
		switch {
		case letters[r] != "":
			b.WriteString(letters[r])
			if next == nukta && i+2 < len(rs) {
				next = rs[i+2]
			}
			if next != virama && signs[next] == "" && next != 0 {
				b.WriteByte('a')
			}
		case vowels[r] != "":
			b.WriteString(vowels[r])
		case signs[r] != "":
			b.WriteString(signs[r])
		case r == anusvara || r == candrabindu:
			b.WriteByte('n')
		case r == virama || r == nukta:
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
