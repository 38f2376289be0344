package nco

import (
	"slices"
	"strings"
	"unicode"

	"pawl/internal/text"
)

// vocabulary is the words of a catalogue, and how often each is used in what things are called there.
type vocabulary struct {
	titles map[string]bool // stems in its own titles
	names  map[string]int  // search forms in titles and all names, and in how many
	forms  map[string]bool // of all its words
	stems  map[string]bool
	by     map[byte][]string
	whole  map[string]bool // what its entries are called, as stems
	named  map[string]bool // what its entries and families are called
}

// newVocabulary gathers the words of a catalogue; those of the names that are Hindi are known elsewhere.
func newVocabulary(c *Catalog, hindi func(string) bool) *vocabulary {
	v := &vocabulary{titles: map[string]bool{}, forms: map[string]bool{}, names: map[string]int{}, stems: map[string]bool{}, by: map[byte][]string{}, whole: map[string]bool{}, named: map[string]bool{}}
	name := func(s string) {
		words := text.Words(s)
		v.named[stemsOf(words)] = true
		for _, w := range words {
			if hindi(w) {
				continue
			}
			if v.names[w]++; v.names[w] == 1 && len(w) > 3 {
				v.by[w[0]] = append(v.by[w[0]], w)
			}
			v.forms[w], v.stems[text.Stem(w)] = true, true
		}
	}
	for e := range c.All() {
		for _, w := range text.Words(e.Title) {
			v.titles[text.Stem(w)] = true
		}
		for _, n := range append(e.Names(), e.Title) {
			v.whole[stemsOf(text.Words(n))] = true
		}
	}
	for _, d := range c.Documents() {
		name(d.Title)
		for _, n := range d.Names {
			name(n)
		}
		for _, w := range text.Words(d.Text) {
			v.forms[w], v.stems[text.Stem(w)] = true, true
		}
	}
	for _, g := range c.Groups() {
		for _, n := range g.Names {
			name(n)
		}
	}
	return v
}

// stemsOf joins the stems of words; that something is general says nothing.
func stemsOf(words []string) string {
	var stems []string
	for _, w := range words {
		if w != "general" {
			stems = append(stems, text.Stem(w))
		}
	}
	return strings.Join(stems, " ")
}

// called is the beginning of a meaning that something in the catalogue is called: what follows are only other ways to say it.
// It is the whole meaning where nothing is called so.
func (v *vocabulary) called(meaning []string) []string {
	for n := len(meaning); n > 0; n-- {
		if v.whole[stemsOf(meaning[:n])] {
			return meaning[:n]
		}
	}
	return meaning
}

// has says whether a word is written somewhere, in one or in many.
func (v *vocabulary) has(form string) bool {
	return v.forms[form] || v.forms[form+"s"] || v.forms[strings.TrimSuffix(form, "s")]
}

func (v *vocabulary) knows(form string) bool { return v.stems[text.Stem(form)] }

// correct finds the word that a misspelled one was meant to be: at most one slip in a short word and two in a long one, and
// of several the nearest, then the one that names more. Two words written as one are parted. Nil: nothing comes near.
func (v *vocabulary) correct(form string, slips int) []string {
	if len(form) < 5 || v.has(form) || strings.ContainsFunc(form, func(r rune) bool { return r > 'z' || unicode.IsDigit(r) }) {
		return nil
	}
	most, known := 1, v.knows(form) // that stem, at least: it may be a form that nobody wrote so far, or a letter was not doubled
	switch {
	case len(form) > 7:
		most = 2
	case len(form) > 5:
		most = slips
	}
	best, fewest := "", most+1
	for _, w := range v.by[form[0]] {
		d := distance(form, w, most)
		if d > most || known && squeezed(w) != squeezed(form) || d > 1 && w[1] != form[1] { // slips seldom come at the beginning
			continue
		}
		if d < fewest || d == fewest && v.likelier(w, best) {
			best, fewest = w, d
		}
	}
	if best != "" || known {
		return slices.DeleteFunc([]string{best}, func(w string) bool { return w == "" || text.Stem(w) == text.Stem(form) })
	}
	for i := 4; i <= len(form)-4; i++ {
		if a, b := form[:i], form[i:]; v.names[a] > 0 && v.names[b] > 0 {
			return []string{a, b}
		}
	}
	return nil
}

// squeezed makes one of each letter that stands twice.
func squeezed(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if i == 0 || s[i] != s[i-1] {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// likelier prefers a word that by itself is what something is called, and then the one that names more.
func (v *vocabulary) likelier(a, b string) bool {
	x, y := v.whole[text.Stem(a)], v.whole[text.Stem(b)]
	return x && !y || x == y && v.names[a] > v.names[b]
}

// distance counts the slips between two words: a letter left out, put in, mistaken, or two in the wrong order (optimal string
// alignment). Beyond most it is most+1.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	var rows [3][]int
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row := rows[(i-1)%3], rows[i%3], rows[(i+1)%3]
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			d := above[j-1]
			if a[i-1] != b[j-1] {
				d++
			}
			d = min(d, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, before[j-2]+1)
			}
			row[j] = d
			least = min(least, d)
		}
		if least > most {
			return most + 1
		}
	}
	return min(rows[(len(a)+1)%3][len(b)], most+1)
}
