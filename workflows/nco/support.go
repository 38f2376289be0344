package nco

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"pawl/internal/text"
)

// A word that is misspelled still supports a candidate when it is this like one of its words.
const likeEnough = 0.55

// support is how far a candidate is borne out by the person's own words, recounted without trusting the index.
type support struct {
	Candidate
	strength float64 // 0 to 1
	words    []word  // the person's words that speak for it
}

// recount weighs every candidate by the person's own words: how many of them its title has, how many more its family's
// title and its description, and how much of the title they explain. Best first.
func (l *lexicon) recount(own []word, candidates []Candidate) []support {
	s := make([]support, len(candidates))
	for i, c := range candidates {
		s[i] = l.weigh(own, c)
	}
	slices.SortStableFunc(s, func(a, b support) int { return cmp.Compare(b.strength, a.strength) })
	return s
}

func (l *lexicon) weigh(own []word, c Candidate) support {
	s := support{Candidate: c}
	title, family, body := l.telling(c.Metadata.Title), l.telling(c.Metadata.FamilyTitle), l.telling(c.Document)
	explained := map[string]bool{}
	var recall, all float64
	for _, w := range own {
		weight := l.weight(w)
		all += weight
		switch like, by := nearest(w, title); {
		case like >= likeEnough:
			recall += weight * like
			explained[by] = true
		case has(family, w):
			recall += weight * 0.9
		case has(body, w):
			recall += weight * 0.6
		default:
			continue
		}
		s.words = append(s.words, w)
	}
	if all == 0 {
		return s
	}
	s.strength = 0.7 * recall / all
	if len(title) > 0 {
		s.strength += 0.3 * float64(len(explained)) / float64(len(title))
	}
	switch {
	case namedBy(own, c.Metadata.Title):
		s.strength = 1
	case listedIn(own, c.Document):
		s.strength = max(s.strength, 0.9)
	}
	s.strength = math.Round(s.strength*100) / 100
	return s
}

func has(words []word, w word) bool {
	return slices.ContainsFunc(words, func(o word) bool { return o.stem == w.stem })
}

// weight is what a word of the person's counts: where somebody works says less than what is done.
func (l *lexicon) weight(w word) float64 {
	if l.workplaces[w.form] {
		return 0.3
	}
	return 1
}

// telling are the words of a text that are no fillers, each stem once.
func (l *lexicon) telling(s string) []word {
	var words []word
	for _, w := range wordsOf(s) {
		if !l.fillers[w.form] && !has(words, w) {
			words = append(words, w)
		}
	}
	return words
}

// nearest is the word most like w, by its stem: the same, or a slip of the pen where both are long enough to have one.
func nearest(w word, words []word) (like float64, stem string) {
	for _, o := range words {
		if o.stem == w.stem {
			return 1, o.stem
		}
		if len(w.form) < 5 || len(o.form) < 5 {
			continue
		}
		if l := max(text.Likeness(w.form, o.form), text.Likeness(w.stem, o.stem)); l > like {
			like, stem = l, o.stem
		}
	}
	return like, stem
}

// listedIn says whether a description names the words as one item of a list: "…: barber, hair cutter, nai".
func listedIn(own []word, document string) bool {
	for item := range strings.FieldsFuncSeq(document, func(r rune) bool { return strings.ContainsRune(",;:.", r) }) {
		if len(item) < 60 && namedBy(own, item) {
			return true
		}
	}
	return false
}

// namedBy says whether the words are a title or one of its forms: "car driver" and "Driver, Car"; "General" is no more than that.
func namedBy(own []word, title string) bool {
	said := map[string]bool{}
	for _, w := range own {
		said[w.stem] = true
	}
	for _, name := range append(Entry{Title: title}.Names(), title) {
		named := map[string]bool{}
		for _, w := range wordsOf(name) {
			if w.form != "general" && w.form != "and" && w.form != "or" && w.form != "the" && w.form != "of" {
				named[w.stem] = true
			}
		}
		if len(named) == len(said) && !slices.ContainsFunc(own, func(w word) bool { return !named[w.stem] }) {
			return true
		}
	}
	return false
}
