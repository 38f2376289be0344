package nco

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"pawl"
	"pawl/internal/text"
	"pawl/ports/llm"
)

// Where a model is configured it reads what was said and judges what was found, each in a call of its own. What it says is held
// to the same rules as the words of everybody else. Whatever keeps it from an answer that can be used, the expander or the
// analyzer does its part, and that is recorded.

// EventFallback is the type of the step and of the event that say that the rules did a model's part, a Fallback.
const EventFallback = "fallback"

// Fallback says where the rules did a model's part, and why.
type Fallback struct {
	At  string `json:"at"` // expand or analyze
	Why string `json:"why"`
}

// How lines of the explanation begin. What a model wrote always has the second, so that it cannot claim the first.
const (
	withoutModel = "Without the model: "
	byModel      = "The model: "
)

func isFallback(line string) bool { return strings.HasPrefix(line, withoutModel) }

// fallbacks are the lines of an explanation that say so.
func fallbacks(why []string) (out []string) {
	for _, line := range why {
		if isFallback(line) {
			out = append(out, line)
		}
	}
	return out
}

// fallBack records that the rules do a model's part. A run that ends or waits is no reason for it.
func fallBack(ctx context.Context, at string, err error) (line string, _ error) {
	if ctx.Err() != nil || errors.Is(err, pawl.ErrParked) {
		return "", err
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	why, _ := plainText(first, 300)
	f := Fallback{At: at, Why: why}
	if err := pawl.Note(ctx, EventFallback, f); err != nil {
		return "", err
	}
	did := "the description was read"
	if at == "analyze" {
		did = "it was decided"
	}
	return withoutModel + did + " by the built-in rules, because of this: " + why, pawl.Emit(ctx, EventFallback, f)
}

// expansion is the model's reading, or the expander's where there is no model or it cannot be used: then fell says why.
func (a Agent) expansion(ctx context.Context, turn Turn) (e expanded, fell string, err error) {
	if a.Model != nil {
		said, err := ask[Expansion](ctx, a, "expand", aboutReading, turn, llm.StructuredOptions{})
		if err == nil {
			return a.sober(said, turn), "", nil
		}
		if fell, err = fallBack(ctx, "expand", err); err != nil {
			return e, "", err
		}
	}
	e, err = pawl.Do(ctx, "expand", func(ctx context.Context) (expanded, error) {
		e, err := a.Expander.Expand(ctx, turn)
		return checked(e), err
	})
	return e, fell, err
}

// verdict is the model's, or the analyzer's where there is no model or it cannot be used: then fell says why. No model is asked
// about a description that is ambiguous: there is only one thing to decide.
func (a Agent) verdict(ctx context.Context, c Case) (v Verdict, fell string, err error) {
	if a.Model != nil && !c.Expansion.Ambiguous() {
		r, err := a.askVerdict(ctx, c)
		if err == nil {
			return r.Verdict, "", applied(ctx, "analyze", r.Applied)
		}
		if fell, err = fallBack(ctx, "analyze", err); err != nil {
			return v, "", err
		}
	}
	v, err = a.judged(ctx, c)
	return v, fell, err
}

// How a model is asked: once, and once more with what was wrong.
const (
	modelAttempts = 2
	modelTokens   = 2000
)

// ask asks the model for a value. What people and the catalogue say is one line of JSON, which no text can end from within.
func ask[T any](ctx context.Context, a Agent, key, system string, material any, o llm.StructuredOptions) (t T, err error) {
	m, err := a.Model()
	if err != nil {
		return t, err
	}
	raw, err := json.Marshal(material)
	if err != nil {
		return t, err
	}
	cool := 0.0
	o.Attempts = modelAttempts
	return llm.Structured[T](ctx, key, m, llm.Request{
		System: system, Messages: []llm.Message{llm.Text(llm.RoleUser, string(raw))}, Temperature: &cool, MaxTokens: modelTokens,
	}, o)
}

// sober holds a model's reading to what the built-in one knows for certain: numbers, places and employers name no work, and are
// not guessed from; a word that many occupations share is asked about, however sure the model is.
func (a Agent) sober(e Expansion, turn Turn) expanded {
	r, chosen := a.lexicon.understand(turn.Messages)
	var done []string
	if q := a.lexicon.withoutAside(e.Query, r); q != e.Query {
		e.Query = q
		done = append(done, "numbers, places and employers were taken out of the query")
	}
	if v := (Words{a.lexicon}).ambiguity(r, chosen); v != nil && len(r.foreign) == 0 {
		if e.Generated && len(r.content) == 0 {
			e.Generated = false
			done = append(done, "the query was dropped: nothing was said that names work")
		}
		if text.Key(e.Question) == "" {
			e.Question, e.Choices = v.Question.in(r.tongue), v.Choices
			done = append(done, "what was said names no single kind of work: it is asked about")
		}
	}
	r.corrected, r.translated = nil, nil // that is how the built-in reading has it
	e.Assumptions = append(assumptions(r), e.Assumptions...)
	if own := strings.TrimSpace(strings.ReplaceAll(e.Note, "\n", " ")); own != "" {
		e.Note = byModel + own
	}
	e.Note = strings.TrimSpace(note(r) + " " + e.Note)
	out := checked(e)
	out.Applied = append(done, out.Applied...)
	return out
}

// withoutAside drops the words of a query that a reading has set aside, and whatever else are numbers and places.
func (l *lexicon) withoutAside(q string, r reading) string {
	aside := map[string]bool{}
	for _, w := range wordsOf(strings.Join(slices.Concat(r.places, r.durations, r.employers), " ")) {
		aside[w.form] = !has(r.content, w)
	}
	fields := strings.Fields(q)
	var kept []string
	for i := 0; i < len(fields); {
		words := wordsOf(fields[i])
		n := 0
		if i+1 < len(fields) && len(words) == 1 {
			if two := append(words, wordsOf(fields[i+1])...); len(two) == 2 {
				n = max(l.duration(two), l.place(two))
			}
		}
		switch {
		case n > 0:
		case len(words) > 0 && !slices.ContainsFunc(words, func(w word) bool {
			one := []word{w}
			return !aside[w.form] && l.duration(one) == 0 && l.place(one) == 0
		}):
			n = 1
		default:
			kept = append(kept, fields[i])
			n = 1
		}
		i += n
	}
	if len(kept) == len(fields) {
		return q
	}
	return strings.Join(kept, " ")
}

// material is what a model is shown of a case. It sees the codes of candidates and no others.
type material struct {
	Said       []Message `json:"said"`
	Queries    []string  `json:"queries"`
	Note       string    `json:"note,omitempty"`
	Assumed    []string  `json:"assumptions,omitempty"`
	Candidates []shown   `json:"candidates"`
	Nearby     []string  `json:"families_nearby,omitempty"`
	Allowed    []Status  `json:"allowed_status"`
}

type shown struct {
	Code        string `json:"code"`
	Title       string `json:"title"`
	Family      string `json:"family"`
	Division    string `json:"division"`
	Description string `json:"description,omitempty"`
	Residual    bool   `json:"left_over,omitempty"`
}

func shownCase(c Case) (m material) {
	m = material{Said: c.Messages, Queries: c.Queries, Note: c.Expansion.Note, Assumed: c.Expansion.Assumptions, Allowed: c.Allowed, Candidates: []shown{}}
	for _, k := range c.Candidates {
		m.Candidates = append(m.Candidates, shown{k.Code, k.Metadata.Title, k.Metadata.FamilyTitle, k.Metadata.Division, k.Document, k.Metadata.Residual})
	}
	for _, k := range c.Rivals {
		m.Nearby = append(m.Nearby, cmp.Or(k.Metadata.FamilyTitle, k.Metadata.Title))
	}
	return m
}

// askVerdict is the model's verdict. It can only choose what it was shown, and what the policy does not let stand is told to it.
func (a Agent) askVerdict(ctx context.Context, c Case) (ruling, error) {
	if len(c.Candidates) == 0 {
		c.Allowed = slices.DeleteFunc(slices.Clone(c.Allowed), func(s Status) bool { return s == MatchFound })
	}
	narrow := map[string]map[string]any{
		"status":           {"enum": c.Allowed},
		"confidence_score": {"minimum": 0, "maximum": 10},
	}
	if len(c.Candidates) > 0 {
		var codes []string
		for _, k := range c.Candidates {
			codes = append(codes, k.Code)
		}
		narrow["selected_codes"] = map[string]any{"enum": codes}
	}
	v, err := ask[Verdict](ctx, a, "analyze", aboutJudging, shownCase(c), llm.StructuredOptions{Narrow: narrow, Check: func(raw json.RawMessage) error {
		var v Verdict
		err := json.Unmarshal(raw, &v)
		if r := a.ruled(c, v); err == nil && len(r.Faults) > 0 {
			err = errors.New(strings.Join(r.Faults, "; "))
		}
		return err
	}})
	if err != nil {
		return ruling{}, err
	}
	return a.ruled(c, v), nil
}

// ruled is a model's verdict as the policy has it. Its explanation says whose it is.
func (a Agent) ruled(c Case, v Verdict) ruling {
	why := v.Why
	if len(why) == 0 && v.Reasoning != "" {
		why = []string{v.Reasoning}
	}
	v.Why = nil
	for _, line := range why {
		if line = strings.Join(strings.Fields(line), " "); line != "" && v.Status != ImprovedSearch {
			v.Why = append(v.Why, byModel+line)
		}
	}
	if v.Status == MatchFound {
		v.Directive = cmp.Or(strings.TrimSpace(v.Directive), "Decided by the model.")
	}
	given := v.Directive
	if v.Status == ImprovedSearch {
		r, _ := a.lexicon.understand(c.Messages)
		v.Directive, v.Message = a.lexicon.withoutAside(withoutCodes(given), r), ""
	}
	r := rule(c, v)
	if v.Directive != given {
		r.apply("codes, numbers, places and employers were taken out of the refined query")
	}
	return r
}
