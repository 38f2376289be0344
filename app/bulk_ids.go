package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"pawl/internal/text"
)

// columnLook is what the cells of a column look like: a column of employee numbers, dates or amounts is never what
// somebody wants to be coded.
type columnLook struct {
	filled   int // cells with a letter or a digit
	ids      int // of them, those that look like ids or numbers
	letters  int
	examples []string
}

// add looks at one cell.
func (l *columnLook) add(cell string) {
	words, letters, digits := lettersOf(cell)
	if !utf8.ValidString(cell) || letters+digits == 0 {
		return
	}
	l.filled++
	l.letters += letters
	if idLike(strings.TrimSpace(cell), words, letters, digits) {
		l.ids++
		if shown := shortened(cell); len(l.examples) < 3 && !slices.Contains(l.examples, shown) {
			l.examples = append(l.examples, shown)
		}
	}
}

// wordy says whether most cells could be words that describe something.
func (l *columnLook) wordy() bool { return l.filled > 0 && 2*l.ids <= l.filled }

// refuseColumn refuses a column most of whose cells look like ids or numbers, and names better ones.
func refuseColumn(name string, f *bulkFile, looks []columnLook) error {
	l := looks[f.column]
	if l.filled == 0 || l.wordy() {
		return nil
	}
	better := "no other column looks as if it held them"
	if cs := f.better(looks); len(cs) > 0 {
		better = "they may be in: " + namesOf(cs)
	}
	return invalid("--column: the column %s of %s does not hold descriptions of work: %d of its %d cells that are not empty (%d %%) look like ids or numbers, such as %s; %s. To code it all the same: --any-column",
		shortened(f.header[f.column]), name, l.ids, l.filled, 100*l.ids/l.filled, strings.Join(l.examples, ", "), better)
}

// better are the other columns that may hold descriptions of work: those whose name says so, else those with most letters.
func (f *bulkFile) better(looks []columnLook) []string {
	said := map[string]bool{}
	for _, w := range []string{"job", "jobs", "title", "occupation", "description", "work", "role", "designation", "duties", "duty", "position", "profession", "task", "tasks", "trade"} {
		said[w] = true
	}
	var named, others []int
	for i, h := range f.header {
		switch {
		case i == f.column || !looks[i].wordy():
		case slices.ContainsFunc(text.Words(strings.ReplaceAll(h, "_", " ")), func(w string) bool { return said[w] }):
			named = append(named, i)
		default:
			others = append(others, i)
		}
	}
	if len(named) == 0 {
		named = others
	}
	slices.SortStableFunc(named, func(a, b int) int {
		return cmp.Compare(looks[b].letters/looks[b].filled, looks[a].letters/looks[a].filled)
	})
	var names []string
	for _, i := range named[:min(5, len(named))] {
		h := f.header[i]
		if text.Key(h) == "" {
			h = fmt.Sprintf("column %d", i+1)
		}
		names = append(names, h)
	}
	return names
}

// idLike says whether a cell looks like an id, a number, a date or an address: it has no word of three letters in a row,
// is one token of digits and few letters, or an e-mail or web address.
func idLike(cell string, words []string, letters, digits int) bool {
	one := !strings.ContainsFunc(cell, unicode.IsSpace)
	switch {
	case len(words) == 0:
		return true
	case one && (strings.Contains(cell, "@") || strings.Contains(cell, "://")):
		return true
	case digits == 0:
		return false
	case one && (letters <= 4 || letters <= digits):
		return true
	case digits >= 3 && letters <= 4:
		return true
	}
	return !slices.ContainsFunc(words, func(w string) bool { return !calendar(w) })
}

// lettersOf gives the words of a cell, and how many letters and digits it has. A word is three letters in a row, or two
// of a script whose letters are syllables or whole words.
func lettersOf(cell string) (words []string, letters, digits int) {
	var run []rune
	dense := false
	end := func() {
		if len(run) >= 3 || dense && len(run) == 2 {
			words = append(words, string(run))
		}
		run, dense = run[:0], false
	}
	for _, r := range cell {
		switch {
		case unicode.IsLetter(r) || unicode.IsMark(r):
			letters++
			run = append(run, r)
			dense = dense || !unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Mark)
		case r == '\u200C' || r == '\u200D': // joiners inside a word
		case unicode.IsDigit(r):
			digits++
			end()
		default:
			end()
		}
	}
	end()
	return words, letters, digits
}

// calendar says whether a word is a month or a day of the week, whole or shortened to three letters or more.
func calendar(word string) bool {
	word = strings.ToLower(word)
	for _, name := range []string{
		"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
		"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
	} {
		if strings.HasPrefix(name, word) {
			return true
		}
	}
	return false
}
