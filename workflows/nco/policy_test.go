package nco

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
)

// fixed is an expander that always says the same.
func fixed(e Expansion) Expander { return said{e} }

type said struct{ e Expansion }

func (s said) Expand(context.Context, Turn) (Expansion, error) { return s.e, nil }

// A scripted analyzer that breaks one rule each. It is asked once more with the reason; what stands at last is allowed,
// and what was done is in the step log.
func TestLongHostileVerdicts(t *testing.T) {
	match := func(confidence float64, codes ...string) Verdict {
		return Verdict{Status: MatchFound, Codes: codes, Confidence: confidence}
	}
	for _, c := range []struct {
		name   string
		v      Verdict
		status Status
		codes  string
		note   string
	}{
		{"a code that was not retrieved", match(9, "1111.0100"), MoreInfo, "", "it was not retrieved"},
		{"one of two was retrieved", match(9, "1111.0100", "7531.0100"), MatchFound, "7531.0100", "it was not retrieved"},
		{"no code", match(9), MoreInfo, "", "without a retrieved code"},
		{"the same code twice", match(9, "7531.0100", "7531.0100"), MatchFound, "7531.0100", ""},
		{"two divisions", match(9, "7531.0100", "8332.0100"), MoreInfo, "", "several divisions"},
		{"five codes of two divisions", match(9, "7531.0100", "7531.0200", "8322.0100", "8331.0100", "8332.0100"), MoreInfo, "", "several divisions"},
		{"what is left over beside a specific one", match(9, "8332.9900", "8332.0100"), MatchFound, "8332.0100", "left over"},
		{"confidence is no number", match(math.NaN(), "7531.0100"), MoreInfo, "", "no number from 0 to 10"},
		{"confidence is infinite", match(math.Inf(1), "7531.0100"), MoreInfo, "", "no number from 0 to 10"},
		{"confidence 11", match(11, "7531.0100"), MoreInfo, "", "no number from 0 to 10"},
		{"confidence below nothing", match(-1, "7531.0100"), MoreInfo, "", "no number from 0 to 10"},
		{"a match that it does not believe", match(2, "7531.0100"), MoreInfo, "", "too low"},
		{"another letter case", Verdict{Status: " match_Found ", Codes: []string{"7531.0100"}, Confidence: 8}, MatchFound, "7531.0100", "was read as MATCH_FOUND"},
		{"full width", Verdict{Status: "ＭＡＴＣＨ_FOUND", Codes: []string{"7531.0100"}, Confidence: 8}, MatchFound, "7531.0100", "was read as MATCH_FOUND"},
		{"a Cyrillic letter", Verdict{Status: "МATCH_FOUND", Codes: []string{"7531.0100"}, Confidence: 8}, MoreInfo, "", "none of MATCH_FOUND, MORE_INFO, IMPROVED_SEARCH"},
		{"an unknown status", Verdict{Status: "MAYBE", Confidence: 8}, MoreInfo, "", `status "MAYBE" is none of`},
		{"no status", Verdict{}, MoreInfo, "", "is none of"},
		{"an empty refined query", Verdict{Status: ImprovedSearch, Confidence: 4, Directive: " \u200b "}, MoreInfo, "", "without a refined query"},
		{"a refined query of labels", Verdict{Status: ImprovedSearch, Confidence: 4, Directive: "Title: | Description:"}, MoreInfo, "", "without a refined query"},
		{"a question without words", Verdict{Status: MoreInfo, Confidence: 1}, MoreInfo, "", ""},
		{"codes without a match", Verdict{Status: MoreInfo, Codes: []string{"7531.0100"}, Message: "?"}, MoreInfo, "", "codes without a match"},
		{"sure and asking", Verdict{Status: MoreInfo, Confidence: 9, Message: "?"}, MoreInfo, "", "lowered to 3"},
		{"text that cannot be stored", Verdict{Status: MoreInfo, Message: "a\x00b\xff", Choices: []string{"\x00", "x", "x"}}, MoreInfo, "", "cleaned"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := play{Agent: agent(t, small(t))}
			p.Analyzer = always(c.v)
			p.Expander = fixed(Expansion{Generated: true, Query: "tailor general truck car lorries driver bus ladies garments"})
			out := p.run(t, "tailor, truck driver")
			var codes []string
			for _, x := range out.Codes {
				codes = append(codes, x.Code)
			}
			if out.Status != c.status || strings.Join(codes, " ") != c.codes {
				t.Errorf("%s %v, want %s %s", out.Status, codes, c.status, c.codes)
			}
			if math.IsNaN(out.Confidence) || out.Confidence < 0 || out.Confidence > 10 {
				t.Errorf("confidence %v", out.Confidence)
			}
			if out.Status == MoreInfo && strings.TrimSpace(out.Question) == "" {
				t.Error("no question")
			}
			var rules []string
			for _, n := range p.notes {
				rules = append(rules, n.Rules...)
			}
			if c.note == "" != (len(rules) == 0) || !strings.Contains(strings.Join(rules, "\n"), c.note) {
				t.Errorf("notes %q, want %q", rules, c.note)
			}
		})
	}
}

// A verdict that is put right on the second try is taken, and nothing is coerced.
func TestSecondTryCounts(t *testing.T) {
	s := &script{say: func(c Case, call int) Verdict {
		if call == 1 {
			return Verdict{Status: "found it", Confidence: 8}
		}
		return Verdict{Status: MatchFound, Codes: []string{"7531.0100"}, Confidence: 8}
	}}
	p := play{Agent: agent(t, small(t))}
	p.Analyzer = s
	out := p.run(t, "I stitch garments")
	if out.Status != MatchFound || len(s.cases) != 2 || !strings.Contains(s.cases[1].Problem, "MATCH_FOUND, MORE_INFO, IMPROVED_SEARCH") {
		t.Errorf("%+v after %d verdicts", out, len(s.cases))
	}
	if len(p.notes) != 1 || p.notes[0].At != "analyze" || !strings.Contains(p.notes[0].Rules[0], "was not accepted") {
		t.Errorf("notes %+v", p.notes)
	}
}

// R-003-17, R-003-18: an expander cannot smuggle in a code, and what it returns is bounded.
func TestHostileExpansions(t *testing.T) {
	for _, c := range []struct {
		name string
		e    Expansion
		want func(Expansion) bool
	}{
		{"a code in the query", Expansion{Generated: true, Query: "Title: 7531.0100 tailor (8332)"}, func(e Expansion) bool { return e.Query == "Title: tailor" }},
		{"nothing but a code", Expansion{Generated: true, Query: "7531.0100"}, func(e Expansion) bool { return !e.Generated && e.Question != "" }},
		{"a query that is none", Expansion{Generated: true, Query: " \u200b|"}, func(e Expansion) bool { return !e.Generated && e.Query == "" && e.Question != "" }},
		{"a query that it did not make", Expansion{Query: "tailor", Question: "?"}, func(e Expansion) bool { return e.Query == "" }},
		{"neither", Expansion{}, func(e Expansion) bool { return e.Question != "" }},
		{"too much", Expansion{Generated: true, Query: strings.Repeat("tailor ", 1e5), Choices: make([]string, 99), Assumptions: make([]string, 99)},
			func(e Expansion) bool {
				return len(e.Query) <= maxMessage && len(e.Choices) == maxChoices && len(e.Assumptions) == 10
			}},
	} {
		if got := checked(c.e); !c.want(got.Expansion) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// Q-003-09: the earlier first, each once, ten at most, all of a candidate together; an empty earlier result merges cleanly.
func TestMerge(t *testing.T) {
	hits := func(query string, codes ...string) (f found) {
		for i, c := range codes {
			f.Candidates = append(f.Candidates, Candidate{Code: c, Distance: float64(i), Document: c + " by " + query, Evidence: Evidence{Query: query}})
		}
		return f
	}
	var r Retrieved
	r = r.merge("one", hits("one", "a", "b"))
	before := slices.Clone(r.Candidates)
	r2 := r.merge("two", hits("two", "b", "c"))
	var codes []string
	for _, c := range r2.Candidates {
		codes = append(codes, c.Code+" "+c.Document)
	}
	if want := []string{"a a by one", "b b by one", "c c by two"}; !slices.Equal(codes, want) || !slices.Equal(r2.Queries, []string{"one", "two"}) {
		t.Errorf("%v, %v", codes, r2.Queries)
	}
	if len(r.Candidates) != 2 || r.Candidates[0].Document != before[0].Document {
		t.Error("merging changed what was there")
	}
	full := r.merge("many", hits("many", strings.Fields("c d e f g h i j k l m n")...))
	if len(full.Candidates) != maxEvidence || full.Candidates[0].Code != "a" || full.Candidates[9].Code != "j" {
		t.Errorf("%d candidates", len(full.Candidates))
	}
}
