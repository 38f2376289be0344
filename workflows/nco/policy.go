package nco

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"pawl/internal/text"
)

// An analyzer is not trusted: this file is what every verdict must obey, whoever gave it. Nothing is put right silently;
// each rule that was applied is a line for the step log.

const (
	maxDirective = 600 // characters of what an analyzer writes
	maxMessage   = 1000
	maxWhy       = 8
)

// band is where the confidence of a status lies. What rests on assumptions is never sure.
func band(s Status, assumed bool) (low, high float64) {
	switch {
	case s == MatchFound && assumed:
		return 5, 6
	case s == MatchFound:
		return 7, 10
	case s == ImprovedSearch:
		return 3, 5
	}
	return 0, 3
}

// ruling is a verdict in a form that can be recorded, and what is wrong with it.
type ruling struct {
	Verdict Verdict  `json:"verdict"`
	Faults  []string `json:"faults"`  // it cannot stand: ask once more, then coerce
	Applied []string `json:"applied"` // put right, the verdict stands
}

func (r *ruling) fault(f string, args ...any) { r.Faults = append(r.Faults, fmt.Sprintf(f, args...)) }
func (r *ruling) apply(f string, args ...any) { r.Applied = append(r.Applied, fmt.Sprintf(f, args...)) }

// rule holds a verdict to the policy. The result can always be recorded: its numbers are finite, its texts bounded.
func rule(c Case, v Verdict) ruling {
	r := ruling{Verdict: v}
	r.texts()
	r.status(c)
	r.confidence(c)
	switch r.Verdict.Status {
	case MatchFound:
		r.codes(c)
	case ImprovedSearch:
		r.refined()
	}
	if r.Verdict.Status != MatchFound && len(r.Verdict.Codes) > 0 {
		r.apply("codes without a match were dropped")
		r.Verdict.Codes, r.Verdict.Titles = nil, nil
	}
	return r
}

// status: exactly one of the three, in any letter case, and one that is allowed.
func (r *ruling) status(c Case) {
	given := r.Verdict.Status
	r.Verdict.Status = ""
	for _, s := range []Status{MatchFound, MoreInfo, ImprovedSearch} {
		if text.Key(string(given)) == text.Key(string(s)) {
			r.Verdict.Status = s
		}
	}
	switch s := r.Verdict.Status; {
	case s == "":
		shown, _ := text.Clip(string(given), 40)
		r.fault("status %q is none of %s", strings.ToValidUTF8(shown, "?"), list(c.Allowed))
	case !slices.Contains(c.Allowed, s):
		r.fault("status %s is not allowed here, choose one of %s", s, list(c.Allowed))
	case s != MoreInfo && c.Expansion.Ambiguous():
		r.fault("the description is ambiguous: the status must be %s", MoreInfo)
	case s != given:
		r.apply("status %q was read as %s", given, s)
	}
}

func list(allowed []Status) string {
	names := make([]string, len(allowed))
	for i, s := range allowed {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// confidence: a number from 0 to 10 in the band of its status. A match below its band is none.
func (r *ruling) confidence(c Case) {
	low, high := band(r.Verdict.Status, len(c.Expansion.Assumptions) > 0)
	given := r.Verdict.Confidence
	if math.IsNaN(given) || given < 0 || given > 10 {
		r.fault("confidence_score %v is no number from 0 to 10", given)
		r.Verdict.Confidence = low
		return
	}
	switch {
	case r.Verdict.Status == "":
	case given < low && r.Verdict.Status == MatchFound:
		r.fault("confidence_score %v is too low for %s, which needs %v to %v", given, MatchFound, low, high)
	case given < low:
		r.apply("confidence %v was raised to %v, the least for %s", given, low, r.Verdict.Status)
		r.Verdict.Confidence = low
	case given > high:
		r.apply("confidence %v was lowered to %v, the most for %s here", given, high, r.Verdict.Status)
		r.Verdict.Confidence = high
	}
}

// codes: one to three, all retrieved, of one division, none of them what is left over beside a specific one.
func (r *ruling) codes(c Case) {
	v := &r.Verdict
	var kept []Candidate
	for _, code := range v.Codes {
		i := slices.IndexFunc(c.Candidates, func(x Candidate) bool { return x.Code == strings.TrimSpace(code) })
		switch {
		case i < 0:
			shown, _ := text.Clip(code, 40)
			r.apply("code %q was dropped: it was not retrieved", strings.ToValidUTF8(shown, "?"))
		case slices.ContainsFunc(kept, func(k Candidate) bool { return k.Code == c.Candidates[i].Code }):
		default:
			kept = append(kept, c.Candidates[i])
		}
	}
	specific := slices.DeleteFunc(slices.Clone(kept), func(k Candidate) bool { return k.Metadata.Residual })
	if len(specific) > 0 && len(specific) < len(kept) {
		r.apply("codes for what is left over were dropped: a specific one was selected")
		kept = specific
	}
	v.Codes, v.Titles = nil, nil
	switch {
	case len(kept) == 0:
		r.fault("%s without a retrieved code", MatchFound)
	case slices.ContainsFunc(kept, func(k Candidate) bool { return Division(k.Code) != Division(kept[0].Code) }):
		r.fault("the codes are of several divisions")
	case len(kept) > maxCodes:
		r.fault("%d codes, at most %d may share an answer", len(kept), maxCodes)
	}
	for _, k := range kept[:min(maxCodes, len(kept))] {
		v.Codes, v.Titles = append(v.Codes, k.Code), append(v.Titles, k.Metadata.Title)
	}
}

// refined: a search again needs something to search for.
func (r *ruling) refined() {
	if len(text.Words(searchText(r.Verdict.Directive))) == 0 {
		r.fault("%s without a refined query in system_directive", ImprovedSearch)
	}
}

// texts: bounded, valid and visible.
func (r *ruling) texts() {
	v := &r.Verdict
	for _, s := range []struct {
		text *string
		most int
	}{{&v.Reasoning, maxMessage}, {&v.Directive, maxDirective}, {&v.Message, maxMessage}} {
		if plain, changed := plainText(*s.text, s.most); changed {
			*s.text = plain
			r.apply("a text was cut to %d characters or cleaned", s.most)
		}
	}
	var why []string
	for _, s := range v.Why[:min(maxWhy, len(v.Why))] {
		plain, _ := plainText(s, maxDirective)
		why = append(why, plain)
	}
	v.Why = why
	var offers []string
	for _, c := range v.Choices {
		if plain, _ := plainText(c, 200); text.Key(plain) != "" && len(offers) < maxChoices && !slices.Contains(offers, plain) {
			offers = append(offers, plain)
		}
	}
	if len(offers) != len(v.Choices) {
		r.apply("choices were cut to %d", len(offers))
	}
	v.Choices = offers
}

// plainText is a text without control characters and without those that turn its direction, of at most n characters.
func plainText(s string, n int) (plain string, changed bool) {
	plain = strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		case unicode.IsControl(r) && r != '\n' && r != '\t':
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	plain, _ = text.Clip(plain, n)
	return plain, plain != s
}

// coerced is what a verdict becomes that cannot stand, asked twice: the question, never a guess.
func coerced(r ruling) Verdict {
	v := Verdict{
		Reasoning: r.Verdict.Reasoning, Status: MoreInfo,
		Directive: "Coerced: " + strings.Join(r.Faults, "; "),
		Message:   "I could not tell the occupation for certain. What do you do on a usual working day, and with which tools, materials or people?",
	}
	v.Directive, _ = text.Clip(v.Directive, maxDirective)
	return v
}
