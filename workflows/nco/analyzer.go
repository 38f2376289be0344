package nco

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"pawl/internal/text"
)

// Where evidence ends being enough. They are about strength, the share of the person's own words that a candidate bears out.
const (
	noise  = 0.30 // below it a candidate is chance
	enough = 0.50 // from here on it can be the answer
	margin = 0.10 // candidates this close to the best are as good as it
)

const (
	maxCodes   = 3
	maxChoices = 5
)

// Margins is the analyzer that needs no model: it decides by how well the person's own words bear a candidate out, and by
// how far the best is ahead.
type Margins struct{ lexicon *lexicon }

var _ Analyzer = Margins{}

// NewMargins makes it.
func NewMargins(c *Catalog) Margins { return Margins{newLexicon(c)} }

// Analyze goes through the phases; the first that can decide does.
func (a Margins) Analyze(_ context.Context, c Case) (Verdict, error) {
	own, chosen := a.lexicon.understand(c.Messages)
	t := trial{Case: c, lexicon: a.lexicon, own: own, chosen: chosen}
	t.ranked = a.lexicon.recount(t.own.content, c.Candidates)
	t.rivals = a.lexicon.recount(t.own.content, c.Rivals)
	for _, phase := range []func() *Verdict{t.sufficiency, t.audit, t.anchor, t.margins} {
		if v := phase(); v != nil {
			v.Reasoning, v.Why = strings.Join(t.thoughts, " "), t.why(v.Status)
			return *v, nil
		}
	}
	v := t.decide()
	v.Why = t.why(MatchFound)
	return v, nil
}

// trial is one case under judgment.
type trial struct {
	Case
	lexicon  *lexicon
	own      reading
	chosen   bool      // the last answer is one of the choices that were offered
	ranked   []support // by the person's own words, best first
	rivals   []support // of other families, that cannot be the answer
	near     []support // those that are as good as the best
	thoughts []string
}

func (t *trial) think(f string, args ...any) {
	t.thoughts = append(t.thoughts, fmt.Sprintf(f, args...))
}

// sufficiency: what was not said cannot be found. It comes first, so asking outranks searching again.
func (t *trial) sufficiency() *Verdict {
	if !t.Expansion.Ambiguous() {
		return nil
	}
	t.think("Sufficiency: the description names no single kind of work.")
	return &Verdict{
		Status: MoreInfo, Confidence: 1, Directive: "Ambiguous description.",
		Message: t.Expansion.Question, Choices: t.Expansion.Choices,
	}
}

// audit: retrieval is evidence, not truth. If nothing of it is borne out by the person's own words, it is noise.
func (t *trial) audit() *Verdict {
	t.specific()
	if len(t.ranked) > 0 && t.ranked[0].strength >= noise {
		t.think("Retrieval audit: %d candidates, the best bears out %.2f of the description.", len(t.ranked), t.ranked[0].strength)
		return nil
	}
	t.think("Retrieval audit: nothing retrieved is borne out by the description.")
	if v := t.searchAgain(); v != nil {
		return v
	}
	return t.ask("Nothing retrieved fits.")
}

// specific takes what is left over ("n.e.c.") off the list wherever something specific of its family is borne out.
func (t *trial) specific() {
	t.ranked = slices.DeleteFunc(slices.Clone(t.ranked), func(s support) bool {
		return s.Metadata.Residual && slices.ContainsFunc(t.ranked, func(o support) bool {
			return !o.Metadata.Residual && o.strength >= noise && (o.Metadata.Family == s.Metadata.Family || o.strength >= s.strength)
		})
	})
}

// anchor: the query has to be the person's own. One that strayed found what it asked for, not what was said.
func (t *trial) anchor() *Verdict {
	strayed := t.strayed()
	if len(strayed) == 0 || t.ranked[0].strength >= enough {
		return nil
	}
	t.think("Expander audit: %q was never said.", strings.Join(strayed, " "))
	return t.searchAgain()
}

// strayed are the words of the query that the person did not say.
func (t *trial) strayed() []string {
	var said []word
	for _, m := range t.Messages {
		if m.Role == RoleUser {
			said = append(said, t.lexicon.telling(m.Text)...)
		}
	}
	var strayed []string
	for _, w := range wordsOf(searchText(t.Expansion.Query)) {
		if like, _ := nearest(w, said); !t.lexicon.fillers[w.form] && like < likeEnough {
			strayed = append(strayed, w.shown)
		}
	}
	return strayed
}

// margins: which candidates are as good as the best, and may they stand together.
func (t *trial) margins() *Verdict {
	best := t.ranked[0]
	if v := t.lexicon.onlyVague(best.words); v != nil {
		t.think("Margins: only %q speaks for the best, and many occupations share it.", phrase(best.words))
		return &Verdict{Status: MoreInfo, Confidence: 1, Directive: "Ambiguous description.", Message: t.say(v.Question), Choices: v.Choices}
	}
	if t.chosen {
		return t.confirmed()
	}
	exact := best.own && best.strength == 1 // then no name of a family stands against it
	close := func(s support) bool {
		return s.strength >= noise && s.strength > best.strength-margin && (s.own || !exact) && (s.clear || !best.clear)
	}
	for _, s := range t.ranked {
		if close(s) {
			t.near = append(t.near, s)
		}
	}
	var others []support
	for _, s := range t.rivals {
		if close(s) {
			others = append(others, s)
		}
	}
	t.think("Margins: %d of %d candidates are within %.2f of the best, and %d other families.", len(t.near), len(t.ranked), margin, len(others))
	if best.strength < enough || !best.clear {
		if v := t.searchAgain(); v != nil {
			return v
		}
		t.near = append(t.near, others...)
		return t.ask("The best candidate is weak.")
	}
	if len(others) > 0 {
		t.near = append(t.near, others...)
		return t.ask("Candidates of several families fit equally well.")
	}
	return t.together()
}

// confirmed takes the family of what the person has chosen from what was offered: that was the answer.
func (t *trial) confirmed() *Verdict {
	best := t.ranked[0]
	for _, s := range t.ranked {
		if s.Metadata.Family == best.Metadata.Family && s.strength > best.strength-margin && len(t.near) < maxCodes {
			t.near = append(t.near, s)
		}
	}
	t.think("Margins: the person chose %q.", phrase(t.own.content))
	return nil
}

// together asks where the candidates that are as good as the best may not share an answer. Those of one family may: where
// there are more than three, it is the family that is clear.
func (t *trial) together() *Verdict {
	best := t.near[0]
	families := map[string]bool{}
	for _, s := range t.near {
		families[s.Metadata.Family] = true
		if Division(s.Code) != Division(best.Code) {
			return t.ask("Candidates of several divisions fit equally well.")
		}
	}
	if len(families) == 1 {
		t.general()
		if n := len(t.near); n > maxCodes {
			t.think("Margins: all %d are of the family %s; the description does not tell them apart.", n, best.Metadata.FamilyTitle)
			t.near = t.near[:maxCodes]
		}
		return nil
	}
	for _, s := range t.near {
		if !slices.Equal(s.words, best.words) {
			return t.ask("Candidates that bear out different words fit equally well.")
		}
	}
	if len(t.near) > maxCodes {
		return t.ask("Too many candidates fit equally well.")
	}
	return nil
}

// general takes entries of a trade that was never said off the list, "(Mines)" for example, wherever one without a trade is
// as good.
func (t *trial) general() {
	foreign := func(s support) bool { return len(t.foreign(s)) > 0 }
	if !slices.ContainsFunc(t.near, func(s support) bool { return !foreign(s) }) {
		return
	}
	t.near = slices.DeleteFunc(slices.Clone(t.near), foreign)
}

// foreign are the words of the trade in a title, "(Mines)" for example, where nothing was said of it.
func (t *trial) foreign(s support) []word {
	_, trade, _ := strings.Cut(s.Metadata.Title, "(")
	words := t.lexicon.telling(trade)
	if slices.ContainsFunc(words, func(w word) bool { return has(t.own.content, w) }) {
		return nil
	}
	return words
}

// decide: one clear winner, or up to three that stand together in one division.
func (t *trial) decide() Verdict {
	best := t.near[0]
	v := Verdict{Status: MatchFound, Message: "Matched: " + best.Metadata.Title}
	for _, s := range t.near {
		v.Codes, v.Titles = append(v.Codes, s.Code), append(v.Titles, s.Metadata.Title)
	}
	lead := best.strength
	if rest := t.behind(); len(rest) > 0 {
		lead -= rest[0].strength
		t.think("Decision: the runner-up %q is %.2f behind.", rest[0].Metadata.Title, lead)
	}
	v.Confidence = confidence(best.strength, lead, len(t.near), t.Expansion.Assumptions)
	codes := "1 code"
	if len(v.Codes) > 1 {
		codes = fmt.Sprintf("%d codes", len(v.Codes))
	}
	v.Directive = fmt.Sprintf("%s, strength %.2f, words: %s.", codes, best.strength, unique(best.words))
	v.Reasoning = strings.Join(t.thoughts, " ")
	return v
}

// behind are the candidates that were not chosen, best first.
func (t *trial) behind() []support {
	rest := slices.DeleteFunc(slices.Concat(t.ranked, t.rivals), func(s support) bool {
		return slices.ContainsFunc(t.near, func(n support) bool { return n.Code == s.Code })
	})
	slices.SortStableFunc(rest, func(a, b support) int { return cmp.Compare(b.strength, a.strength) })
	return rest
}

// confidence lies in the band of a match, lower where codes share the answer and where something was assumed.
func confidence(strength, lead float64, codes int, assumptions []string) float64 {
	c := 7 + 2*(strength-enough)/(1-enough) + min(1, 2*lead) - 0.5*float64(codes-1)
	low, high := band(MatchFound, len(assumptions) > 0)
	return min(high, max(low, float64(int(c*10))/10))
}

// searchAgain asks for one more search in other words, if that is allowed and there are other words.
func (t *trial) searchAgain() *Verdict {
	if !slices.Contains(t.Allowed, ImprovedSearch) {
		return nil
	}
	q := t.rewrite()
	if q == "" {
		return nil
	}
	return &Verdict{Status: ImprovedSearch, Confidence: 4, Directive: q}
}

// rewrite makes a query of 8 to 18 words, where there are as many: the person's own words, those that the expander set
// aside as an employer's, then the titles that come nearest to them. It is empty if that is no other query.
func (t *trial) rewrite() string {
	const least, most = 8, 18
	var words []string
	add := func(text string, limit int) {
		for _, w := range wordsOf(text) {
			if len(words) < limit && !t.lexicon.fillers[w.form] && !slices.Contains(words, w.form) {
				words = append(words, w.form)
			}
		}
	}
	add(phrase(t.own.content), most)
	for _, e := range t.own.employers {
		add(e, most)
	}
	for _, s := range t.ranked {
		if s.strength > 0 && len(words) < least {
			add(s.Metadata.Title+" "+s.Metadata.FamilyTitle, most)
		}
	}
	q := strings.Join(words, " ")
	for _, before := range t.Queries {
		if sameWords(q, searchText(before)) {
			return ""
		}
	}
	return q
}

func sameWords(a, b string) bool {
	x, y := text.Words(a), text.Words(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(slices.Compact(x), slices.Compact(y))
}

// ask makes the question whose answer would decide: it offers what is near, or asks for more where nothing is.
func (t *trial) ask(why string) *Verdict {
	t.think("Decision: ask. %s", why)
	v := Verdict{Status: MoreInfo, Confidence: 2, Directive: why}
	near := t.near
	for _, s := range slices.Concat(t.ranked, t.rivals) {
		if len(near) < 2 && s.strength >= noise && !slices.ContainsFunc(near, func(n support) bool { return n.Code == s.Code }) {
			near = append(near, s)
		}
	}
	several := t.several()
	if several != nil {
		near = several
	}
	v.Choices = choices(near)
	switch {
	case len(v.Choices) < 2:
		v.Choices = nil
		v.Message = t.say(sayMore)
	case several != nil:
		v.Message = t.say(saySeveral)
	case t.own.things == 1:
		v.Message = fmt.Sprintf(t.say(sayKinds), t.own.content[0].shown)
	default:
		v.Message = t.say(sayWhich)
	}
	return &v
}

// several are candidates whose names are borne out by different things that were said: more than one kind of work was named.
// Nil where there are none.
func (t *trial) several() (several []support) {
	used := map[int]bool{}
	for _, s := range slices.Concat(t.ranked, t.rivals) {
		taken := slices.ContainsFunc(s.words, func(w word) bool { return used[w.thing] })
		if !s.whole || s.strength < noise || taken || len(s.words) == 0 || len(several) == maxChoices {
			continue
		}
		for _, w := range s.words {
			used[w.thing] = true
		}
		several = append(several, s)
	}
	if len(several) < 2 {
		return nil
	}
	return several
}

// choices are what people call the work, at most five; one a family where there are several families, and never what is left
// over beside something specific. Where two read the same, more is said of each.
func choices(near []support) []string {
	families := map[string]bool{}
	for _, s := range near {
		families[s.Metadata.Family] = true
	}
	var picked []support
	seen := map[string]bool{}
	for _, residual := range []bool{false, true} {
		for _, s := range near {
			key := s.Metadata.Family
			if len(families) == 1 {
				key = s.Code
			}
			if s.Metadata.Residual == residual && !seen[key] && (!residual || len(families) > 1 || len(picked) == 0) {
				seen[key] = true
				picked = append(picked, s)
			}
		}
	}
	count := map[string]int{}
	for _, s := range picked {
		count[text.Key(label(s))]++
	}
	var c []string
	for _, s := range picked[:min(maxChoices, len(picked))] {
		l := label(s)
		if count[text.Key(l)] > 1 {
			more := s.Metadata.FamilyTitle
			if len(families) == 1 || more == "" {
				more, _ = text.Clip(s.Document, 80)
			}
			l = fmt.Sprintf("%s (%s)", l, strings.TrimSpace(more))
		}
		if !slices.Contains(c, l) {
			c = append(c, l)
		}
	}
	return c
}

// label is what a person would call the work: the name that comes nearest, in the order in which one says it.
func label(s support) string {
	name := s.name
	if name == "" || s.Metadata.Residual && name == s.Metadata.Title {
		name = s.Metadata.Title
		if s.Evidence.Kin != "" && s.Evidence.Kinship > 0 {
			name = s.Evidence.Kin
		}
	}
	name = strings.TrimRight(name, ", ")
	if noun, kind, ok := strings.Cut(name, ", "); ok && !strings.ContainsAny(kind, ",/(") && !strings.ContainsAny(noun, "/(") {
		switch text.Key(kind) {
		case "general", "other", "others":
			name = noun
		default:
			name = kind + " " + noun
		}
	}
	r, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(r)) + name[size:]
}
