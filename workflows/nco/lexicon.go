package nco

import (
	"embed"
	"encoding/csv"
	"strings"

	"pawl/internal/text"
)

//go:embed lexicon
var lexiconFiles embed.FS

// lexicon is what is known of everyday language, from the files of the folder lexicon. It never changes.
type lexicon struct {
	fillers, units, employers, workplaces, places map[string]bool
	vague                                         map[string]*vague // by search form
	lore                                          *lore
	known                                         *vocabulary
}

// vague is a word that many occupations share: what to ask when it stands alone.
type vague struct {
	Question utterance
	Choices  []string
	with     map[string]bool // workplaces that do not make it clearer
}

// newLexicon reads the embedded files, and the words of the catalogue. The files are part of the binary and tested: a fault in
// them is a fault of the program.
func newLexicon(c *Catalog) *lexicon {
	l := &lexicon{vague: map[string]*vague{}, lore: newLore()}
	l.known = newVocabulary(c, l.lore.hindi)
	sections := map[string]map[string]bool{}
	var section map[string]bool
	for line := range strings.Lines(lexiconFile("words.txt")) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = map[string]bool{}
			sections[strings.TrimSuffix(name, "]")] = section
		} else if line != "" && !strings.HasPrefix(line, "#") {
			addForms(section, line)
		}
	}
	l.fillers, l.units, l.employers = sections["filler"], sections["unit"], sections["employer"]
	l.workplaces, l.places = sections["workplace"], sections["place"]
	l.readVague()
	l.lore.compile(func(form string) bool { return l.known.knows(form) || l.plain(form) })
	return l
}

func (l *lexicon) readVague() {
	rows, err := csv.NewReader(strings.NewReader(lexiconFile("vague.csv"))).ReadAll()
	if err != nil {
		panic("nco: lexicon: " + err.Error())
	}
	for _, row := range rows[1:] {
		v := &vague{Question: utterance{row[1], row[2], row[3]}, with: map[string]bool{}}
		if row[4] != "" {
			v.Choices = strings.Split(row[4], "|")
		}
		addForms(v.with, row[5])
		forms := map[string]bool{}
		addForms(forms, row[0])
		for f := range forms {
			l.vague[f] = v
			if s := text.Stem(f); len(s) > 3 && l.vague[s] == nil {
				l.vague[s] = v
			}
		}
	}
}

func lexiconFile(name string) string {
	b, err := lexiconFiles.ReadFile("lexicon/" + name)
	if err != nil {
		panic("nco: " + err.Error())
	}
	return string(b)
}

// addForms adds the words of a line in search form; a name of several words is joined by spaces.
func addForms(set map[string]bool, line string) {
	for field := range strings.FieldsSeq(line) {
		set[strings.Join(text.Words(field), " ")] = true
	}
}

// word is one word of a text: as it was written, in search form, and its stem. Words that stand for one thing that was said,
// as a translation's do, have its number: it is borne out if the better half of them is.
type word struct {
	shown, form, stem string
	thing             int
}

// wordsOf are the words of a text in order. A hyphen parts words, what nobody sees does not: the index has it so too.
func wordsOf(s string) []word {
	var words []word
	for _, shown := range strings.FieldsFunc(text.Visible(s), parts) {
		for _, form := range text.Words(shown) {
			words = append(words, word{shown: strings.Trim(shown, "'’"), form: form, stem: text.Stem(form)})
		}
	}
	return words
}

// vagueWord is what to ask about a word that many occupations share, nil if it is none.
func (l *lexicon) vagueWord(form string) *vague {
	if v := l.vague[form]; v != nil {
		return v
	}
	return l.vague[text.Stem(form)]
}

// onlyVague is the vague word that words consist of, nil if there is any other among them.
func (l *lexicon) onlyVague(words []word) *vague {
	var first *vague
	for _, w := range words {
		v := l.vagueWord(w.form)
		if v == nil {
			return nil
		}
		if first == nil {
			first = v
		}
	}
	return first
}
