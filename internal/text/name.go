package text

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the number of characters that a name may have. The longest names of people that catalogs hold have about 100.
const MaxName = 200

// Name is a person's name in the forms in which names are compared.
type Name struct {
	Shown string // as given, without what nobody sees, every run of spaces one
	Key   string // equal for two spellings of one name: see Key
	Loose string // its words without accents and punctuation: equal for two names that are likely one person's

	Flags []string // why a person should look at it; nil: nothing is odd
}

// What is odd about a name.
const (
	FlagDirection = "direction_control" // a character that turns the direction of text was taken out
	FlagSymbol    = "symbol"            // an emoji, or a sign of money, of mathematics or another: it is more than punctuation
	FlagScripts   = "mixed_scripts"     // letters of several scripts in one word, which look alike
)

// NameOf reads a name. An error says what is wrong with it: it is empty, has nothing that is seen, or is too long.
func NameOf(s string) (Name, error) {
	switch key := Key(s); {
	case strings.TrimSpace(s) == "":
		return Name{}, errors.New("a name is needed")
	case key == "":
		return Name{}, errors.New("the name has no character that is seen")
	case utf8.RuneCountInString(s) > MaxName:
		return Name{}, fmt.Errorf("the name has %d characters, at most %d are read", utf8.RuneCountInString(s), MaxName)
	default:
		n := Name{Shown: squeeze(strings.Map(visible, strings.ToValidUTF8(s, "\uFFFD"))), Key: key, Flags: oddities(s)}
		if n.Loose = Loose(s); n.Loose == "" {
			n.Loose = key
		}
		return n, nil
	}
}

// Kinship is how two names are to each other.
type Kinship int

// Whoever has another name by birth, by stage or in another script is Different here: no alias is invented.
const (
	Different Kinship = iota
	Doubtful          // equal but for what is odd in one of them: for a person to decide, and no match
	Likely            // equal but for accents, punctuation, ligatures, or a taken out control: a match that is noted
	Same              // two spellings of one name
)

// Match reports whether two names are taken for one person's.
func (k Kinship) Match() bool { return k >= Likely }

// Kin compares two names.
func (n Name) Kin(o Name) Kinship {
	switch {
	case n.Key == o.Key && !n.flagged(FlagDirection) && !o.flagged(FlagDirection):
		return Same
	case n.Key == o.Key:
		return Likely
	case n.Loose != o.Loose:
		return Different
	case n.flagged(FlagSymbol) || o.flagged(FlagSymbol):
		return Doubtful
	}
	return Likely
}

func (n Name) flagged(flag string) bool {
	for _, f := range n.Flags {
		if f == flag {
			return true
		}
	}
	return false
}

// Loose is the words of a name, or of a text in which names stand, in which letters that are no composition of a letter and an accent are
// spelled out, and Devanagari's nukta, which many leave out, is dropped. Empty: it has no words.
func Loose(s string) string {
	s = strings.Join(Words(s), " ")
	if ascii(s) {
		return s
	}
	return spelled.Replace(s)
}

var spelled = strings.NewReplacer("æ", "ae", "œ", "oe", "ø", "o", "đ", "d", "ð", "d", "ł", "l", "ı", "i", "þ", "th", "ħ", "h", "ŧ", "t", "ŋ", "n", "\u093C", "")

// oddities are a name's flags.
func oddities(s string) (flags []string) {
	turned, symbol := false, false
	for _, r := range s {
		turned = turned || unicode.Is(unicode.Bidi_Control, r)
		symbol = symbol || unicode.In(r, unicode.So, unicode.Sc, unicode.Sm) || r == utf8.RuneError
	}
	if turned {
		flags = append(flags, FlagDirection)
	}
	if symbol {
		flags = append(flags, FlagSymbol)
	}
	for _, w := range strings.FieldsFunc(Key(s), func(r rune) bool { return !InWord(r) }) {
		if mixed(w) {
			return append(flags, FlagScripts)
		}
	}
	return flags
}

// mixed reports whether a word has letters of several of the scripts whose letters look alike.
func mixed(word string) bool {
	found := 0
	for _, script := range []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee} {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.Is(script, r) }) {
			found++
		}
	}
	return found > 1
}
