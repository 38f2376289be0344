package nco

import (
	"cmp"
	"iter"
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
	name     string  // what it is called that the words come nearest to
	clear    bool    // the words are all in that name, or make it whole
	own      bool    // that name is its own, and not its family's
	whole    bool    // nothing else is in that name
}

// recount weighs every candidate by the person's own words: how many of them one of its names has, how many more its
// family's title and its description, and how much of the name they explain. Best first.
func (l *lexicon) recount(own []word, candidates []Candidate) []support {
	s := make([]support, len(candidates))
	for i, c := range candidates {
		s[i] = l.weigh(own, c)
	}
	slices.SortStableFunc(s, func(a, b support) int { return cmp.Compare(b.strength, a.strength) })
	return s
}

// A name of the family speaks for each of its entries, and a little less than an own one.
const kin = 0.97

func (l *lexicon) weigh(own []word, c Candidate) support {
	best := support{Candidate: c}
	if len(own) == 0 {
		return best
	}
	rest := restOf{l.telling(c.Metadata.FamilyTitle), l.telling(c.Document)}
	for _, n := range []struct {
		name   string
		weight float64
	}{{c.Metadata.Title, 1}, {c.Evidence.Name, 1}, {c.Evidence.Kin, kin}} {
		if n.name == "" {
			continue
		}
		s := l.fit(own, n.name, rest)
		if namedBy(own, n.name) {
			s.strength, s.clear, s.whole = 1, true, true
		}
		if s.strength = math.Round(n.weight*s.strength*100) / 100; s.strength > best.strength {
			s.Candidate, s.own = c, n.weight == 1
			best = s
		}
	}
	if best.strength < 0.9 && listedIn(own, c.Document) {
		best.strength, best.clear = 0.9, true
	}
	return best
}

// restOf is what else is said of an entry.
type restOf struct{ family, body []word }

// fit weighs one name of an entry.
func (l *lexicon) fit(own []word, name string, rest restOf) (s support) {
	title := l.telling(name)
	explained := map[string]bool{}
	var recall, inName, all float64
	for words := range things(own) {
		var fits, here []float64
		weight := 0.0
		for _, w := range words {
			weight = max(weight, l.weight(w))
			fit, named := 0.0, 0.0
			switch like, by := nearest(w, title); {
			case like >= likeEnough:
				fit, named = like, 1
				explained[by] = true
			case has(rest.family, w):
				fit = 0.9
			case has(rest.body, w):
				fit = 0.6
			}
			if fit > 0 {
				s.words = append(s.words, w)
			}
			fits, here = append(fits, fit), append(here, named)
		}
		all += weight
		recall += weight * betterHalf(fits)
		inName += weight * betterHalf(here)
	}
	whole, telling := 0.0, slices.DeleteFunc(slices.Clone(title), func(w word) bool { return saysNothing(w.form) && !explained[w.stem] })
	if len(telling) > 0 {
		whole = float64(len(explained)) / float64(len(telling))
	}
	s.name, s.strength = name, 0.7*recall/all+0.3*whole
	s.whole = whole > 0.99
	s.clear = inName/all > 0.99 || whole > 0.99 && inName/all >= 0.5
	return s
}

// saysNothing are words of titles that a person need not say.
func saysNothing(form string) bool {
	switch form {
	case "general", "other", "others", "related", "worker", "workers":
		return true
	}
	return false
}

// things parts words by what they stand for.
func things(words []word) iter.Seq[[]word] {
	return func(yield func([]word) bool) {
		for len(words) > 0 {
			n := 1
			for n < len(words) && words[n].thing == words[0].thing && words[0].thing != 0 {
				n++
			}
			if !yield(words[:n]) {
				return
			}
			words = words[n:]
		}
	}
}

// betterHalf is the mean of the better half of some numbers: of a translation's words not all have to fit.
func betterHalf(fits []float64) float64 {
	slices.Sort(fits)
	sum := 0.0
	better := fits[len(fits)/2:]
	for _, f := range better {
		sum += f
	}
	return sum / float64(len(better))
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
