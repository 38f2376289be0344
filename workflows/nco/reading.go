package nco

import (
	"slices"
	"strings"
	"unicode"

	"pawl/internal/text"
)

// reading is what a text says of somebody's work, with what was set aside.
type reading struct {
	content   []word   // what may name the work, in order, each stem once
	places    []string // set aside, as written
	durations []string
	employers []string
}

// parts says where words end. Hyphens and slashes part them, apostrophes do not.
func parts(r rune) bool {
	return r != '\'' && r != '’' && !text.InWord(r)
}

// read sets aside what does not name the work: numbers with their units, places, the phrase that names an employer, and
// words that say nothing. What is left, in order, is the content.
func (l *lexicon) read(texts ...string) reading {
	var r reading
	for _, t := range texts {
		words := wordsOf(t)
		for i := 0; i < len(words); {
			n := l.aside(&r, words[i:])
			if n == 0 {
				l.keep(&r, words[i])
				n = 1
			}
			i += n
		}
	}
	return r
}

func (l *lexicon) keep(r *reading, w word) {
	known := slices.ContainsFunc(r.content, func(c word) bool { return c.stem == w.stem })
	if !l.fillers[w.form] && !known {
		r.content = append(r.content, w)
	}
}

// aside sets aside a phrase at the beginning of words and says how many it took.
func (l *lexicon) aside(r *reading, words []word) int {
	lead := 0 // a preposition goes with its phrase
	if preposition(words[0].form) {
		lead = 1
	}
	rest := words[lead:]
	if n := l.duration(rest); n > 0 {
		r.durations = append(r.durations, phrase(words[:lead+n]))
		return lead + n
	}
	if n := l.place(rest); n > 0 {
		r.places = append(r.places, phrase(rest[:n]))
		return lead + n
	}
	if lead == 1 {
		if n := l.employer(words[0].form, rest); n > 0 {
			r.employers = append(r.employers, phrase(rest[:n]))
			return lead + n
		}
	}
	return 0
}

func preposition(form string) bool {
	switch form {
	case "in", "at", "for", "from", "with", "since", "near", "of", "by", "under", "to":
		return true
	}
	return false
}

// duration is a number, with its unit if there is one.
func (l *lexicon) duration(words []word) int {
	if len(words) == 0 || words[0].form == "" {
		return 0
	}
	digits := strings.TrimRightFunc(words[0].form, func(r rune) bool { return !unicode.IsDigit(r) })
	tail := strings.TrimPrefix(words[0].form, digits)
	if digits == "" || strings.ContainsFunc(digits, func(r rune) bool { return !unicode.IsDigit(r) }) || (tail != "" && !l.units[tail]) {
		return 0
	}
	if len(words) > 1 && l.units[words[1].form] {
		return 2
	}
	return 1
}

// place is a name of the gazetteer, of one or two words.
func (l *lexicon) place(words []word) int {
	if len(words) > 1 && l.places[words[0].form+" "+words[1].form] {
		return 2
	}
	if len(words) > 0 && l.places[words[0].form] {
		return 1
	}
	return 0
}

// employer is what stands behind "for", "at", "with", "in" or "by" up to a word such as "company" within five words, or
// a name behind "at" and "with": "at Infosys".
func (l *lexicon) employer(lead string, words []word) int {
	if lead != "for" && lead != "at" && lead != "with" && lead != "in" && lead != "by" {
		return 0
	}
	for i, w := range words[:min(5, len(words))] {
		if i > 0 && preposition(w.form) {
			break
		}
		if l.employers[w.form] {
			return i + 1
		}
	}
	if lead != "at" && lead != "with" {
		return 0
	}
	n := 0
	for n < len(words) && capitalized(words[n].shown) && !l.workplaces[words[n].form] {
		n++
	}
	if n < len(words) && n > 0 && l.workplaces[words[n].form] {
		return 0 // "at Apollo Hospital": the kind of workplace is worth keeping
	}
	return n
}

// capitalized is Name, not NAME: whoever writes in capitals throughout marks no names by it.
func capitalized(s string) bool {
	up, low := false, false
	for i, r := range s {
		up = up || (i == 0 && unicode.IsUpper(r))
		low = low || unicode.IsLower(r)
	}
	return up && low
}

func phrase(words []word) string {
	shown := make([]string, len(words))
	for i, w := range words {
		shown[i] = w.shown
	}
	return strings.Join(shown, " ")
}
