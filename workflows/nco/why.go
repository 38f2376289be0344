package nco

import (
	"fmt"
	"slices"
	"strings"
)

// why says what a person wants to know of a verdict: which words fit what, why the runner-up lost, or between what it asks.
func (t *trial) why(s Status) (why []string) {
	switch {
	case s == ImprovedSearch:
	case s == MoreInfo && t.Expansion.Ambiguous():
		why = append(why, "It asks because the description names no single kind of work.")
	case s == MoreInfo && len(t.near) < 2:
		why = append(why, "It asks because nothing in the catalogue is borne out well enough by the description.")
		if len(t.ranked) > 0 && t.ranked[0].strength > 0 {
			why = append(why, "The nearest: "+t.fits(t.ranked[0]))
		}
	case s == MoreInfo:
		why = append(why, "It asks because these fit about equally well:")
		for _, n := range t.near[:min(maxChoices, len(t.near))] {
			why = append(why, t.fits(n))
		}
	default:
		for _, n := range t.near {
			why = append(why, t.fits(n))
		}
		if rest := t.behind(); len(rest) > 0 && rest[0].strength > 0 {
			why = append(why, "Runner-up: "+t.fits(rest[0])+t.lacks(rest[0]))
		}
	}
	return why
}

// fits says which words speak for a candidate, and by which of its names.
func (t *trial) fits(s support) string {
	what := "its title"
	switch {
	case !s.own:
		what = "a name of its family"
	case s.name != s.Metadata.Title:
		what = "one of its names"
	}
	words := unique(s.words)
	if words == "" || s.name == "" {
		return fmt.Sprintf("%s %s: only its description comes near (%.2f).", s.Code, s.Metadata.Title, s.strength)
	}
	return fmt.Sprintf("%s %s: %q fits %s, %q (%.2f).", s.Code, s.Metadata.Title, words, what, s.name, s.strength)
}

// lacks says what a candidate has that was not said, or does not have that was.
func (t *trial) lacks(s support) string {
	var unsaid, missing []word
	for _, w := range t.lexicon.telling(s.name) {
		if like, _ := nearest(w, t.own.content); like < likeEnough && !saysNothing(w.form) {
			unsaid = append(unsaid, w)
		}
	}
	for _, w := range t.foreign(s) {
		if !has(unsaid, w) {
			unsaid = append(unsaid, w)
		}
	}
	for _, w := range t.own.content {
		same := func(o word) bool { return o.thing == w.thing && w.thing != 0 } // they show one phrase
		if !has(s.words, w) && !slices.ContainsFunc(s.words, same) {
			missing = append(missing, w)
		}
	}
	var b strings.Builder
	if len(unsaid) > 0 {
		fmt.Fprintf(&b, " Nothing was said of %q.", unique(unsaid))
	}
	if len(missing) > 0 {
		fmt.Fprintf(&b, " It has nothing of %q.", unique(missing))
	}
	return b.String()
}

// unique are words as they were written, each once.
func unique(words []word) string {
	var shown []string
	seen := map[string]bool{}
	for _, w := range words {
		if !seen[w.shown] {
			seen[w.shown] = true
			shown = append(shown, w.shown)
		}
	}
	return strings.Join(shown, " ")
}
