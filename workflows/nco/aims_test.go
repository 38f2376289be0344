package nco

import (
	"errors"
	"slices"
	"testing"

	"pawl"
)

// measure evaluates real queries against a real catalogue. Neither is in the project, and nothing of the queries is in the
// lexicon: they are answers.
func measure(t *testing.T, dir, catalog, queries string) (Agent, Evaluation) {
	t.Helper()
	c, err := Load(catalog, shared(t, dir, catalog))
	if err != nil {
		t.Fatal(err)
	}
	gold, err := LoadGold(queries, shared(t, dir, queries))
	if err != nil {
		t.Fatal(err)
	}
	a := agent(t, c).settled()
	v, err := a.Evaluate(t.Context(), gold)
	if err != nil {
		t.Fatal(err)
	}
	return a, v
}

// share is the share of the rows for which it holds, of those that it concerns.
func shareOf(rows []Measured, concerns, holds func(Measured) bool) float64 {
	n, yes := 0, 0
	for _, m := range rows {
		if concerns(m) {
			n++
			if holds(m) {
				yes++
			}
		}
	}
	return float64(yes) / float64(n)
}

// What the agent is worth without a model, on the reviewed queries: a plain lexical search has 80 % of the English ones among
// the first five, and 1 of 18 in Hindi and Hinglish.
func TestLongAimsOfQueries(t *testing.T) {
	_, v := measure(t, "nco", "nco2015_occupations.csv", "nco_gold_queries_reviewed.csv")
	if v.All.N != 54 || len(v.ByLanguage) == 0 || len(v.ByCategory) == 0 {
		t.Fatalf("%+v", v.All)
	}
	indian := func(m Measured) bool { return m.Language == "Hinglish" || m.Language == "Hindi" }
	read := func(m Measured) bool { return m.Language == "English" || indian(m) }
	among := func(m Measured) bool {
		return slices.ContainsFunc(m.Candidates, func(c Candidate) bool { return slices.Contains(m.Codes, c.Code) })
	}
	coded := func(of func(Measured) bool) func(Measured) bool {
		return func(m Measured) bool { return of(m) && len(m.Codes) > 0 }
	}
	for _, c := range []struct {
		what        string
		got         float64
		least, most float64
	}{
		{"basic English", shareOf(v.Rows, coded(func(m Measured) bool { return m.Language == "English" && m.Category == "basic" }), among), 0.95, 1},
		{"English", shareOf(v.Rows, coded(func(m Measured) bool { return m.Language == "English" }), among), 0.88, 1},
		{"Hinglish and Hindi", shareOf(v.Rows, coded(indian), among), 0.45, 1},
		{"asked when unclear", shareOf(v.Rows, func(m Measured) bool { return read(m) && m.Needs == NeedsYes }, Measured.Asked), 0.8, 1},
		{"asked when clear", shareOf(v.Rows, func(m Measured) bool { return read(m) && m.Needs == NeedsNo }, Measured.Asked), 0, 0.2},
	} {
		t.Logf("%s: %.3f", c.what, c.got)
		if c.got < c.least || c.got > c.most {
			t.Errorf("%s: want %.2f to %.2f", c.what, c.least, c.most)
		}
	}
}

// The same on job titles of the international index: plain character n-grams have 55 % right, and 81 % among the first five.
func TestLongAimsOfTitles(t *testing.T) {
	_, v := measure(t, "isco", "isco08_groups_en.csv", "isco08_title_eval_1000.csv")
	if v.All.N != 490 || v.All.Top1Code != nil || v.All.AskedWhenClear != nil || len(v.ByLanguage)+len(v.ByCategory) > 0 {
		t.Fatalf("%+v", v.All)
	}
	t.Logf("top 1: %.3f, top 5: %.3f", *v.All.Top1Family, *v.All.Top5Family)
	if *v.All.Top1Family < 0.6 || *v.All.Top5Family < 0.85 {
		t.Error("want 0.60 and 0.85")
	}
}

// One answer is enough: the person picks the choice that leads to a right code, or says what that is called.
func TestLongOneAnswerSuffices(t *testing.T) {
	a, v := measure(t, "nco", "nco2015_occupations.csv", "nco_gold_queries_reviewed.csv")
	a.Turns = 5
	n, enough := 0, 0
	for _, m := range v.Rows {
		if m.Needs != NeedsYes || len(m.Codes) == 0 {
			continue
		}
		n++
		right := func(c Code) bool { return slices.Contains(m.Codes, c.Code) }
		p := play{Agent: a, answers: []string{picks(t, a, m)}}
		out := p.run(t, m.Text)
		if out.Status == MatchFound && out.Turns == 1 && slices.ContainsFunc(out.Codes, right) {
			enough++
		} else {
			t.Logf("%q: %s %v after %d answers: %q %q", m.Text, out.Status, out.Codes, out.Turns, out.Question, out.Choices)
		}
	}
	t.Logf("one answer was enough for %d of %d", enough, n)
	if 10*enough < 8*n {
		t.Error("want 80 %")
	}
}

// picks is what the scripted person says to the first question.
func picks(t *testing.T, a Agent, m Measured) string {
	t.Helper()
	_, err := pawl.Execute(t.Context(), Graph(a), Input{Text: m.Text})
	if q, ok := errors.AsType[*pawl.AskError](err); ok {
		for _, choice := range q.Question.Choices {
			first, err := a.Rank(t.Context(), choice, 1)
			if err == nil && len(first) > 0 && slices.Contains(m.Codes, first[0].Code) {
				return choice
			}
		}
	}
	e, _ := a.Catalog.Entry(m.Codes[0])
	return e.Title
}
