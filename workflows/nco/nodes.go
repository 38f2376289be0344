package nco

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"pawl"
	"pawl/internal/text"
	"pawl/ports/index"
)

// expand asks the expander and checks what it says. It begins with nothing but the messages.
func (a Agent) expand(ctx context.Context, s State) (State, error) {
	if s.Decided != "" {
		return s, nil
	}
	e, fell, err := a.expansion(ctx, Turn{Messages: slices.Clone(s.Messages)})
	if err != nil {
		return s, err
	}
	s.Expansion = e.Expansion
	if fell != "" {
		s.Expansion.Note = fell + "\n" + s.Expansion.Note
	}
	return s, applied(ctx, "expand", e.Applied)
}

// expanded is an expansion in a form that can be recorded, and what was put right in it.
type expanded struct {
	Expansion Expansion `json:"expansion"`
	Applied   []string  `json:"applied"`
}

// checked holds an expansion to its rules: bounded texts, a query that has words and no code in it, a question if there
// is no query.
func checked(e Expansion) expanded {
	var done []string
	for _, s := range []*string{&e.Reasoning, &e.DivisionReason, &e.TitleReason, &e.Query, &e.Note, &e.Question} {
		if plain, changed := plainText(*s, maxMessage); changed {
			*s = plain
			done = append(done, "a text was cut or cleaned")
		}
	}
	if q := withoutCodes(e.Query); q != e.Query {
		e.Query = q
		done = append(done, "a code was taken out of the query: an expander picks none")
	}
	if e.Generated && len(text.Words(searchText(e.Query))) == 0 {
		e.Generated = false
		done = append(done, "the query was empty")
	}
	if !e.Generated {
		e.Query = ""
	}
	if !e.Generated && text.Key(e.Question) == "" {
		e.Question = "What work do you do?"
		done = append(done, "there was neither a query nor a question")
	}
	e.Choices = slices.Clone(e.Choices[:min(maxChoices, len(e.Choices))])
	e.Assumptions = slices.Clone(e.Assumptions[:min(10, len(e.Assumptions))])
	for _, list := range [][]string{e.Choices, e.Assumptions} {
		for i, s := range list {
			list[i], _ = plainText(s, 200)
		}
	}
	return expanded{e, done}
}

// withoutCodes drops the words of a query that have the form of an entry's code.
func withoutCodes(q string) string {
	words := strings.Fields(q)
	kept := slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		code, _, ok := readCode(strings.Trim(w, ",;()"))
		return ok && len(code) >= 4
	})
	if len(kept) == len(words) {
		return q
	}
	return strings.Join(kept, " ")
}

// retrieve searches with the expander's query, or with the analyzer's if it asked for another search, and merges. Without
// a query it brings nothing: the analyzer will ask.
func (a Agent) retrieve(ctx context.Context, s State) (State, error) {
	if s.Decided != "" {
		s.Retrieved = Retrieved{Candidates: a.accept("", index.Result{Hits: []index.Hit{{ID: s.Decided}}}, 1).Candidates}
		return s, nil
	}
	query := s.Expansion.Query
	if wantsBetterSearch(s) {
		query = s.Verdict.Directive
		s.ImprovedSearchCount++
	}
	if query == "" {
		return s, nil
	}
	if a.Index == nil {
		return s, pawl.Permanent(errors.New("nco: the agent has no index"))
	}
	result, err := pawl.Do(ctx, "search", func(ctx context.Context) (found, error) {
		r, err := a.Index.Search(ctx, index.Query{Text: searchText(query), K: depth})
		return a.accept(query, r, perSearch), err
	})
	if err != nil {
		return s, err
	}
	s.Retrieved = s.Retrieved.merge(query, result)
	if err := applied(ctx, "retrieve", result.Applied); err != nil {
		return s, err
	}
	return s, pawl.Emit(ctx, "candidates", progress(query, s.Retrieved.Candidates))
}

// found is what one search brought, in a form that can be recorded.
type found struct {
	Candidates []Candidate `json:"candidates"`
	Rivals     []Candidate `json:"rivals"`
	Applied    []string    `json:"applied"`
}

// accept takes over what the index says: only entries of the catalogue, each once, with what the catalogue says of them. What
// comes behind the first few, at most so many, counts only where it is the first of its family.
func (a Agent) accept(query string, r index.Result, most int) found {
	var f found
	if r.Partial {
		f.Applied = append(f.Applied, "only the beginning of the query was searched")
	}
	for rank, h := range r.Hits {
		e, ok := a.Catalog.Entry(h.ID)
		twice := slices.ContainsFunc(f.Candidates, func(c Candidate) bool { return c.Code == h.ID })
		if !ok || twice {
			shown, _ := text.Clip(h.ID, 40)
			f.Applied = append(f.Applied, fmt.Sprintf("hit %q was dropped: not in the catalogue, or twice", shown))
			continue
		}
		to := &f.Candidates
		if len(f.Candidates) >= most {
			of := func(c Candidate) bool { return c.Metadata.Family == prefix(e.Code, 4) }
			if len(f.Rivals) == maxRivals || slices.ContainsFunc(f.Candidates, of) || slices.ContainsFunc(f.Rivals, of) {
				continue
			}
			to = &f.Rivals
		}
		family, familyTitle := a.Catalog.Family(e.Code)
		document, _ := text.Clip(e.Description, maxDocument)
		*to = append(*to, Candidate{
			Code: e.Code, Distance: 1 - share(h.Score), Document: document,
			Metadata: Metadata{e.Title, family, familyTitle, a.Catalog.Heading(Division(e.Code)), e.Residual()},
			Evidence: Evidence{
				Query: searchText(query), Rank: rank + 1, Words: h.Words, Score: share(h.Score), Coverage: share(h.Coverage),
				Similarity: share(h.Similarity), Name: h.Name, Kinship: share(h.Kinship), Kin: h.Kin, Exact: h.Exact,
			},
		})
	}
	return f
}

// share is a number from 0 to 1, rounded so that it reads well; what is no number is 0.
func share(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return math.Round(min(1, max(0, v))*1000) / 1000
}

// merge adds what another search brought: the earlier first, every entry once, all that belongs to it together.
func (r Retrieved) merge(query string, more found) Retrieved {
	all := Retrieved{Queries: append(slices.Clone(r.Queries), query), Candidates: slices.Clone(r.Candidates)}
	for _, c := range more.Candidates {
		known := slices.ContainsFunc(all.Candidates, func(o Candidate) bool { return o.Code == c.Code })
		if !known && len(all.Candidates) < maxEvidence {
			all.Candidates = append(all.Candidates, c)
		}
	}
	for _, c := range slices.Concat(r.Rivals, more.Rivals) {
		of := func(o Candidate) bool { return o.Metadata.Family == c.Metadata.Family }
		if len(all.Rivals) < maxRivals && !slices.ContainsFunc(all.Candidates, of) && !slices.ContainsFunc(all.Rivals, of) {
			all.Rivals = append(all.Rivals, c)
		}
	}
	return all
}

// Progress is the event "candidates": what is known while the run goes on.
type Progress struct {
	Query      string   `json:"query"`
	Candidates []string `json:"candidates"` // code and title
}

func progress(query string, candidates []Candidate) Progress {
	p := Progress{Query: searchText(query), Candidates: []string{}}
	for _, c := range candidates {
		p.Candidates = append(p.Candidates, c.Code+" "+c.Metadata.Title)
	}
	return p
}

// analyze lets the analyzer decide and holds it to the policy. A verdict that cannot stand is asked for once more, with
// the reason and without what is not allowed; one that cannot stand then becomes MORE_INFO.
func (a Agent) analyze(ctx context.Context, s State) (State, error) {
	if s.Decided != "" {
		s.Verdict = Verdict{Status: MatchFound, Codes: []string{s.Decided}, Confidence: 10, Directive: "Decided by a person.",
			Message: "Decided: " + s.Retrieved.Candidates[0].Metadata.Title}
		return s, nil
	}
	c := Case{
		Messages: s.Messages, Expansion: s.Expansion, Queries: s.Retrieved.Queries, Candidates: s.Retrieved.Candidates,
		Rivals: s.Retrieved.Rivals, Allowed: []Status{MatchFound, MoreInfo, ImprovedSearch},
	}
	if s.ImprovedSearchCount > 0 {
		c.Allowed = []Status{MatchFound, MoreInfo}
	}
	if s.Expansion.Ambiguous() {
		c.Allowed = []Status{MoreInfo}
	}
	before := fallbacks(s.Verdict.Why) // of the verdict that asked for this search
	v, fell, err := a.verdict(ctx, c)
	if err != nil {
		return s, err
	}
	s.Verdict = v
	if fell != "" && !slices.Contains(before, fell) {
		before = append(before, fell)
	}
	s.Verdict.Why = append(before, v.Why...)
	s.completeQuestion()
	if why := a.misheard(s.Messages, s.Verdict.Message); s.Verdict.Status == MoreInfo && why != "" {
		s.Verdict.Message = why + " " + s.Verdict.Message
	}
	s.ImprovedSearch = s.ImprovedSearch || s.Verdict.Status == ImprovedSearch
	return s, nil
}

// judged is the analyzer's verdict. One that cannot stand is asked for once more, and then coerced.
func (a Agent) judged(ctx context.Context, c Case) (Verdict, error) {
	r, err := a.judge(ctx, "analyze", c)
	if err == nil && len(r.Faults) > 0 {
		c.Problem = strings.Join(r.Faults, "; ")
		if r.Verdict.Status == ImprovedSearch {
			c.Allowed = slices.DeleteFunc(slices.Clone(c.Allowed), func(s Status) bool { return s == ImprovedSearch })
		}
		r, err = a.judge(ctx, "analyze again", c)
	}
	if err != nil || len(r.Faults) == 0 {
		return r.Verdict, err
	}
	return coerced(r), applied(ctx, "analyze", []string{"the verdict was coerced to MORE_INFO: " + strings.Join(r.Faults, "; ")})
}

// judge is one verdict, recorded with what the policy says to it.
func (a Agent) judge(ctx context.Context, key string, c Case) (ruling, error) {
	r, err := pawl.Do(ctx, key, func(ctx context.Context) (ruling, error) {
		v, err := a.Analyzer.Analyze(ctx, c)
		return rule(c, v), err
	})
	if err != nil {
		return r, err
	}
	lines := r.Applied
	if len(r.Faults) > 0 {
		lines = append(slices.Clone(lines), "the verdict was not accepted: "+strings.Join(r.Faults, "; "))
	}
	return r, applied(ctx, key, lines)
}

// completeQuestion gives a MORE_INFO that asks nothing the expander's question, or a plain one.
func (s *State) completeQuestion() {
	v := &s.Verdict
	if v.Status != MoreInfo || text.Key(v.Message) != "" {
		return
	}
	v.Message, v.Choices = s.Expansion.Question, s.Expansion.Choices
	if text.Key(v.Message) == "" {
		v.Message = "Please say more about what you do in your work."
	}
}

// Applied is the payload of the step "policy_applied": where something was put right, and what.
type Applied struct {
	At    string   `json:"at"`
	Rules []string `json:"rules"`
}

func applied(ctx context.Context, at string, rules []string) error {
	if len(rules) == 0 {
		return nil
	}
	return pawl.Note(ctx, "policy_applied", Applied{at, rules})
}

// userInfo passes a match through. Otherwise it asks, unless the answer could no longer be used; the answer joins the
// messages, and nothing else survives it.
func (a Agent) userInfo(ctx context.Context, s State) (State, error) {
	if isMatch(s) {
		return s.say(s.Verdict.Message), nil
	}
	v := s.Verdict
	if turns(s) >= a.Turns || pawl.Info(ctx).Left(clarified) == 0 {
		return s.say(v.Message, v.Choices...), nil
	}
	reply, err := pawl.Ask[Answer](ctx, "clarify", pawl.Question{Text: v.Message, Choices: v.Choices, For: a.Patience})
	if errors.Is(err, pawl.ErrDeadline) {
		s = s.say(v.Message, v.Choices...)
		s.Unanswered = true
		return s, nil
	}
	if err != nil {
		return s, err
	}
	said, rules := heard(reply.Text, v.Choices)
	s = s.say(v.Message, v.Choices...)
	next := State{Messages: append(s.Messages, Message{Role: RoleUser, Text: said})}
	if e, ok := a.decision(said); ok { // a code is no description: the person has decided
		next.Decided = e.Code
	} else if why := a.misheard(next.Messages, ""); why != "" {
		rules = append(rules, "the answer was of no use: "+why)
	}
	return next, applied(ctx, "user_info", rules)
}

// say appends a reply to the messages. What was there is not touched: others may hold the same slice.
func (s State) say(text string, choices ...string) State {
	s.Messages = append(slices.Clone(s.Messages), Message{Role: RoleAI, Text: text, Choices: choices})
	return s
}

// unreadable says why a text cannot be taken, empty if it can.
func unreadable(s string) string {
	if !utf8.ValidString(s) {
		return "not valid UTF-8"
	}
	if strings.ContainsRune(s, 0) {
		return "holds a NUL character"
	}
	if n := utf8.RuneCountInString(s); n > MaxText {
		return fmt.Sprintf("%d characters, the limit is %d", n, MaxText)
	}
	return ""
}
