package nco

import (
	"encoding/csv"
	"slices"
	"strings"

	"pawl/internal/text"
)

// lore is what the words that people in India use for their work mean in the English of the catalogue. It never changes.
type lore struct {
	english func(string) bool
	forms   map[string]*saying // by search form of one word
	derived map[string]*saying // by the forms that verbs have
	sounds  map[string]*saying // by sound of one word, Hindi only
	capital map[string]*saying // by the word as it is written
	phrases map[string][]compound
	long    []long
}

// saying is an entry of the files hindi.csv and english.csv: ways to say one thing, and what they mean.
type saying struct {
	english []string // words
	kind    string
	name    string // the first way to say it: by this, phrases know it
	hindi   bool
}

// The kinds of sayings. The others need no difference made.
const (
	sayFiller   = "filler"
	sayAct      = "act"
	sayCapitals = "capitals" // an abbreviation that is another word in small letters
	saySpelling = "spelling"
)

// compound is a saying of several words.
type compound struct {
	words   []string // names of sayings, or sounds
	fillers []string // sounds of the forms of the last word that is left out
	means   *saying
}

// newLore reads the words of the embedded files. They are part of the binary and tested: a fault in them is a fault of the
// program. Phrases follow with compile.
func newLore() *lore {
	l := &lore{forms: map[string]*saying{}, derived: map[string]*saying{}, sounds: map[string]*saying{}, capital: map[string]*saying{}, phrases: map[string][]compound{}}
	for _, file := range []string{"hindi.csv", "english.csv"} {
		rows, err := csv.NewReader(strings.NewReader(lexiconFile(file))).ReadAll()
		if err != nil {
			panic("nco: lexicon: " + err.Error())
		}
		for _, row := range rows[1:] {
			says := strings.Split(row[0], "|")
			s := &saying{english: text.Words(row[1]), kind: row[2], name: says[0], hindi: file == "hindi.csv"}
			for _, way := range says {
				if s.kind == sayCapitals {
					l.capital[way] = s
				} else if words := wordsOf(way); len(words) > 1 {
					l.long = append(l.long, long{words, s})
				} else if len(words) == 1 {
					l.add(words[0].form, s)
				}
			}
		}
	}
	return l
}

// hindi says whether a word is a Hindi one that English does not have.
func (l *lore) hindi(form string) bool {
	s := l.forms[form]
	if s == nil {
		s = l.derived[form]
	}
	return s != nil && s.hindi && !slices.Contains(s.english, form)
}

// compile reads the phrases. english says which words are known that are not of India.
func (l *lore) compile(english func(string) bool) {
	l.english = english
	for form, s := range l.derived { // a verb of which one form says nothing says nothing
		if f := l.forms[form]; s.kind == sayAct && f != nil && f.kind == sayFiller {
			s.kind = sayFiller
		}
	}
	for _, p := range l.long {
		c := compound{means: p.means}
		for _, w := range p.words {
			switch s := l.says(w.form, p.means.hindi); {
			case s == nil:
				c.words = append(c.words, sound(w.form))
			case s.kind == sayFiller:
				c.fillers = nil // the last one counts
				for _, f := range inflected(w.form) {
					c.fillers = append(c.fillers, sound(f))
				}
			default:
				c.words = append(c.words, s.name)
			}
		}
		if len(c.words) > 0 {
			l.phrases[c.words[0]] = append(l.phrases[c.words[0]], c)
		}
	}
	for _, ps := range l.phrases {
		slices.SortStableFunc(ps, func(a, b compound) int { return len(b.words) - len(a.words) })
	}
	l.long = nil
}

// long is a saying of several words that is not compiled yet.
type long struct {
	words []word
	means *saying
}

// How long a sound has to be to tell one word: one more where people have written by ear.
const (
	leastSound = 3
	leastByEar = 4
)

func (l *lore) add(form string, s *saying) {
	forms := []string{form}
	if s.kind == sayAct {
		forms = inflected(form)
	}
	if l.forms[form] == nil {
		l.forms[form] = s
	}
	for _, f := range forms {
		for _, spelling := range []string{f, short.Replace(f)} {
			if l.derived[spelling] == nil {
				l.derived[spelling] = s
			}
		}
		if k := sound(f); s.hindi && len(k) >= leastSound && l.sounds[k] == nil {
			l.sounds[k] = s
		}
	}
}

// short writes long vowels as most people do.
var short = strings.NewReplacer("aa", "a", "ee", "i", "oo", "u")

// inflected are the forms in which an infinitive stands: chalana, chalane, chalata, chalakar.
func inflected(infinitive string) []string {
	for end, others := range map[string][]string{
		"na": {"ne", "ni", "ta", "te", "ti", "kar", "ke", "un", "unga"},
		"ना": {"ने", "नी", "ता", "ते", "ती", "कर", "के", "ूं", "ूंगा"},
	} {
		if root, ok := strings.CutSuffix(infinitive, end); ok && root != "" {
			forms := []string{infinitive}
			for _, o := range others {
				forms = append(forms, root+o)
			}
			return forms
		}
	}
	return []string{infinitive}
}

// says is what a word says in India, nil if it is English where English is spoken. indian: others of the text are Hindi.
func (l *lore) says(form string, indian bool) *saying {
	s := l.forms[form]
	switch {
	case s != nil && s.hindi && !indian && s.kind == sayFiller:
		return nil
	case s != nil || !indian:
		return s
	case l.derived[form] != nil:
		return l.derived[form]
	case l.english(form):
		return nil
	}
	k := sound(form)
	if len(k) < leastByEar && !devanagari(form) {
		return nil
	}
	return l.sounds[k]
}

// longest is the longest phrase at the beginning of words, fillers between its words left out, and how many words it took. find
// is what single words say here. Where a phrase has one word beside fillers ("machine wala"), the last of these has to follow.
func (l *lore) longest(words []word, find func(string) *saying) (means *saying, took int) {
	const reach = 8
	var ids []string
	var at []int           // behind each id
	var fillers [][]string // behind each id
	for i, w := range words[:min(reach, len(words))] {
		s := find(w.form)
		if s != nil && s.kind == sayFiller && i > 0 {
			n := len(at) - 1
			at[n], fillers[n] = i+1, append(fillers[n], sound(w.form))
			continue
		}
		id := sound(w.form)
		if s != nil {
			id = s.name
		}
		ids, at, fillers = append(ids, id), append(at, i+1), append(fillers, nil)
	}
	for _, p := range l.phrases[ids[0]] {
		n := len(p.words)
		if n > len(ids) || !slices.Equal(p.words, ids[:n]) || n == 1 && !slices.ContainsFunc(p.fillers, func(f string) bool { return slices.Contains(fillers[0], f) }) {
			continue
		}
		return p.means, at[n-1]
	}
	return nil, 0
}
