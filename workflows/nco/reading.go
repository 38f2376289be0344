package nco

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"pawl/internal/text"
)

// reading is what a text says of somebody's work, with what was set aside.
type reading struct {
	content    []word   // what may name the work, in order, each stem once
	things     int      // that content speaks of
	places     []string // set aside, as written
	durations  []string
	employers  []string
	translated []string // how words of India were read
	corrected  []string // how misspelled words were read
	foreign    []string // in a script that is not read here
	tongue     tongue   // of the newest text
}

// parts says where words end. Hyphens and slashes part them, apostrophes do not.
func parts(r rune) bool {
	return r != '\'' && r != '’' && !text.InWord(r)
}

// read sets aside what does not name the work: numbers with their units, places, the phrase that names an employer, and
// words that say nothing. What is left, in order, is the content: in the English of the catalogue, and spelled as there.
func (l *lexicon) read(texts ...string) reading {
	var r reading
	for i, t := range texts {
		words := wordsOf(t)
		if i == 0 {
			r.tongue = l.tongue(words)
		}
		known := slices.ContainsFunc(words, func(w word) bool { return !l.fillers[w.form] && (l.known.has(w.form) || l.plain(w.form)) })
		indian := slices.ContainsFunc(words, l.indian) || !slices.ContainsFunc(words, l.english)
		for i := 0; i < len(words); {
			n := l.aside(&r, words[i:])
			if n == 0 {
				n = l.take(&r, words[i:], indian, known || indian)
			}
			i += n
		}
	}
	return r
}

// tongue is the language of a text.
func (l *lexicon) tongue(words []word) tongue {
	switch {
	case slices.ContainsFunc(words, func(w word) bool { return devanagari(w.form) }):
		return hindi
	case slices.ContainsFunc(words, l.indian):
		return hinglish
	}
	return english
}

// indian says whether a word can only be Hindi: "driver" and "hospital" are said in both languages.
func (l *lexicon) indian(w word) bool {
	if devanagari(w.form) {
		return true
	}
	s := l.lore.forms[w.form]
	if s == nil && !l.known.knows(w.form) {
		s = l.lore.derived[w.form]
	}
	switch {
	case s == nil || !s.hindi || l.fillers[w.form] || slices.Contains(s.english, w.form) || l.known.titles[w.stem]:
		return false
	case s.kind == sayFiller:
		return !l.known.knows(w.form)
	}
	return true
}

// english says whether a word is known that is not only grammar.
func (l *lexicon) english(w word) bool {
	return !l.fillers[w.form] && (l.known.knows(w.form) || l.plain(w.form) || len(l.known.correct(w.form, 2)) > 0 && l.lore.says(w.form, true) == nil)
}

// take adds what the first words say, and says how many it took. indian: others of the text are Hindi. known: some are known.
func (l *lexicon) take(r *reading, words []word, indian, known bool) int {
	w := words[0]
	if s := l.lore.capital[w.shown]; s != nil {
		l.means(r, words[:1], s)
		return 1
	}
	find := func(form string) *saying { return l.says(form, indian) }
	if s, n := l.lore.longest(words, find); s != nil {
		l.means(r, words[:n], s)
		return n
	}
	s := find(w.form)
	switch {
	case l.fillers[w.form] || s != nil && s.kind == sayFiller:
	case s != nil:
		l.means(r, words[:1], s)
	case l.plain(w.form) || l.known.knows(w.form) && len(l.known.correct(w.form, 1)) == 0:
		r.keep(w)
	case foreign(w.form):
		r.foreign = append(r.foreign, w.shown)
	default:
		l.guess(r, w, known)
	}
	return 1
}

// says is what a word says in India; nil if the catalogue has that very word, or it is English where English is spoken.
func (l *lexicon) says(form string, indian bool) *saying {
	s := l.lore.says(form, indian)
	if s != nil && !s.hindi && l.known.titles[text.Stem(form)] {
		return nil
	}
	return s
}

// plain says whether a word is known whatever the catalogue has.
func (l *lexicon) plain(form string) bool {
	return l.fillers[form] || l.workplaces[form] || l.vagueWord(form) != nil || l.employers[form]
}

// foreign says whether a word is in a script that nothing is known of here.
func foreign(form string) bool {
	return strings.ContainsFunc(form, func(r rune) bool { return unicode.IsLetter(r) && !unicode.In(r, unicode.Latin, unicode.Devanagari) })
}

// guess keeps a word that nobody knows, spelled as it may have been meant.
func (l *lexicon) guess(r *reading, w word, known bool) {
	slips := 2 // among words that are known, the one that is not is less likely to be a misspelled one
	if known {
		slips = 1
	}
	meant := l.known.correct(w.form, slips)
	if len(meant) == 0 {
		r.keep(w)
		return
	}
	r.corrected = append(r.corrected, fmt.Sprintf("%q was read as %q.", w.shown, strings.Join(meant, " ")))
	for _, form := range meant {
		if !l.fillers[form] {
			r.keep(word{shown: w.shown, form: form, stem: text.Stem(form)})
		}
	}
}

// means adds what a saying means. A word that the catalogue itself uses stays beside its meaning.
func (l *lexicon) means(r *reading, said []word, s *saying) {
	shown := phrase(said)
	r.things++
	add := func(form string) {
		w := word{shown: shown, form: form, stem: text.Stem(form), thing: r.things}
		if !l.fillers[form] && !has(r.content, w) {
			r.content = append(r.content, w)
		}
	}
	meaning := l.known.called(s.english)
	for _, form := range meaning {
		add(form)
	}
	if len(said) == 1 && l.known.knows(said[0].form) {
		add(said[0].form)
	}
	if in := strings.Join(meaning, " "); text.Key(in) != text.Key(shown) {
		if s.kind == saySpelling {
			r.corrected = append(r.corrected, fmt.Sprintf("%q was read as %q.", shown, in))
			return
		}
		r.translated = append(r.translated, fmt.Sprintf("%s (%s)", shown, in))
	}
}

// keep adds a word that stands for itself.
func (r *reading) keep(w word) {
	if !has(r.content, w) {
		r.things++
		w.thing = r.things
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
