package nco

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pawl/internal/text"
)

const (
	maxTitleWords = 12 // words of the query's title; the rest is its description
	maxQueryWords = 48
)

// Words is the expander that needs no model: it knows everyday language, no occupations and no codes.
type Words struct{ lexicon *lexicon }

var _ Expander = Words{}

// NewWords makes it.
func NewWords(c *Catalog) Words { return Words{newLexicon(c)} }

// Expand reads what the person said, newest first, and builds the query from the words that may name the work.
func (x Words) Expand(_ context.Context, turn Turn) (Expansion, error) {
	r, chosen := x.lexicon.understand(turn.Messages)
	e := Expansion{Assumptions: assumptions(r), Note: note(r)}
	if v := x.ambiguity(r, chosen); v != nil {
		e.Reasoning = "The words that are left name no single kind of work: " + shownWords(r.content)
		e.Question, e.Choices = v.Question.in(r.tongue), v.Choices
		if e.Generated = len(r.content) > 0; e.Generated { // what comes near is shown beside the question
			e.Query = query(r.content)
		}
		return e, nil
	}
	e.Generated, e.Query = true, query(r.content)
	e.Reasoning = "Words that may name the work: " + shownWords(r.content)
	e.TitleReason = "The person's own words, in their order; nothing was added."
	e.DivisionReason = "None is named: the division follows from what is found, not from the words alone."
	return e, nil
}

// understand reads what counts of what the person said. An answer that is what something is called stands for itself.
func (l *lexicon) understand(messages []Message) (r reading, chosen bool) {
	said, chosen := statement(messages)
	if !chosen && len(said) > 1 {
		if r := l.read(said[0]); l.known.named[stemsOf(formsOf(r.content))] && l.onlyVague(r.content) == nil {
			return r, false
		}
	}
	return l.read(said...), chosen
}

func formsOf(words []word) (forms []string) {
	for _, w := range words {
		forms = append(forms, w.form)
	}
	return forms
}

// statement is what counts of what the person said: the answers, newest first, then the first text. An answer that is one
// of the choices offered is a whole description and stands for itself.
func statement(messages []Message) (said []string, chosen bool) {
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role != RoleUser {
			continue
		}
		if i > 0 && messages[i-1].Role == RoleAI && offered(messages[i-1].Choices, m.Text) {
			return append(said, m.Text), true
		}
		said = append(said, m.Text)
	}
	return said, false
}

func offered(choices []string, answer string) bool {
	for _, c := range choices {
		if text.Key(c) == text.Key(answer) {
			return true
		}
	}
	return false
}

// ambiguity says what to ask if the words name no single kind of work.
func (x Words) ambiguity(r reading, chosen bool) *vague {
	l := x.lexicon
	if len(r.content) == 0 {
		return nothingSaid(r)
	}
	if chosen {
		return nil
	}
	var first *vague
	var workplaces []string
	for _, w := range r.content {
		switch v := l.vagueWord(w.form); {
		case v != nil && first == nil:
			first = v
		case v != nil:
		case l.workplaces[w.form]:
			workplaces = append(workplaces, w.form)
		default:
			return nil // a word of its own kind: enough to search with
		}
	}
	if first == nil {
		return &vague{Question: sayWorkplace.with(r.tongue, shownWords(r.content))}
	}
	for _, w := range workplaces {
		if !first.with[w] {
			return nil // "bank manager" says enough
		}
	}
	return first
}

// nothingSaid asks for the work where only a place, an employer, a number or nothing at all was said.
func nothingSaid(r reading) *vague {
	switch {
	case len(r.places) > 0:
		return &vague{Question: sayPlace.with(r.tongue, strings.Join(r.places, ", "))}
	case len(r.employers) > 0:
		return &vague{Question: sayEmployer.with(r.tongue, strings.Join(r.employers, ", "))}
	case len(r.foreign) > 0:
		return &vague{Question: sayScript}
	}
	return &vague{Question: sayNothing}
}

// query writes the words, normalized, in the form "Title: … | Description: …".
func query(words []word) string {
	words = words[:min(maxQueryWords, len(words))]
	head, rest := words[:min(maxTitleWords, len(words))], words[min(maxTitleWords, len(words)):]
	q := "Title: " + forms(head)
	if len(rest) > 0 {
		q += " | Description: " + forms(rest)
	}
	return q
}

func forms(words []word) string {
	f := make([]string, len(words))
	for i, w := range words {
		f[i] = w.form
	}
	return strings.Join(f, " ")
}

// searchText is a query without the names of its parts: what the index is asked.
func searchText(query string) string {
	var parts []string
	for part := range strings.SplitSeq(query, "|") {
		part = strings.TrimSpace(part)
		for _, label := range []string{"Division:", "Title:", "Description:"} {
			if len(part) >= len(label) && strings.EqualFold(part[:len(label)], label) {
				part = strings.TrimSpace(part[len(label):])
				break
			}
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

// assumptions are what was taken for granted: each of them could be wrong.
func assumptions(r reading) []string {
	a := slices.Clone(r.corrected)
	if len(r.employers) > 0 {
		a = append(a, fmt.Sprintf("%q names the employer, not the work.", strings.Join(r.employers, ", ")))
	}
	return a
}

// note tells the analyzer what was left out.
func note(r reading) string {
	var n []string
	if len(r.durations) > 0 {
		n = append(n, "numbers and durations: "+strings.Join(r.durations, ", "))
	}
	if len(r.places) > 0 {
		n = append(n, "places: "+strings.Join(r.places, ", "))
	}
	if len(r.employers) > 0 {
		n = append(n, "employers: "+strings.Join(r.employers, ", "))
	}
	if len(n) > 0 {
		n = []string{"Left out of the query: " + strings.Join(n, "; ") + "."}
	}
	if len(r.translated) > 0 {
		n = append(n, "Read as English: "+strings.Join(r.translated, ", ")+".")
	}
	return strings.Join(n, " ")
}

func shownWords(words []word) string {
	if len(words) == 0 {
		return "none"
	}
	s, cut := text.Clip(phrase(words), 120)
	if cut {
		s += "…"
	}
	return s
}
