package nco

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pawl"
	"pawl/ports/index"
	"pawl/ports/index/indextest"
)

const reviewed = "query,extra,language,category,accept_codes,accept_family4,needs_clarification\n"

func loadGold(t *testing.T, csv string) []Gold {
	t.Helper()
	all, err := LoadGold("gold.csv", strings.NewReader(csv))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLoadGold(t *testing.T) {
	all := loadGold(t, "\xEF\xBB\xBF"+reviewed+"truck driver,x,English,basic, 8332.0100  8332.9900,8332 8331,no\n\"दर्जी,\nगाँव\",x,Hindi,,,,YES\nteacher,x,,,,,optional\n")
	if len(all) != 3 || !slices.Equal(all[0].Codes, []string{"8332.0100", "8332.9900"}) || !slices.Equal(all[0].Families, []string{"8332", "8331"}) {
		t.Fatalf("%+v", all)
	}
	if q := all[1]; q.Text != "दर्जी,\nगाँव" || q.Language != "Hindi" || q.Needs != NeedsYes || q.Line != 3 || len(q.Codes) > 0 {
		t.Errorf("%+v", q)
	}
	if q := all[2]; q.Line != 5 || q.Needs != NeedsOptional {
		t.Errorf("%+v", q)
	}
	all = loadGold(t, "Job_Title,isco08_gold,query\n\"Driver, lorry\",8332,x\nwelder,,y\n")
	if len(all) != 2 || all[0].Text != "Driver, lorry" || !slices.Equal(all[0].Families, []string{"8332"}) || len(all[1].Families) > 0 || all[0].Needs != "" {
		t.Errorf("%+v", all)
	}
}

func TestLoadGoldRefuses(t *testing.T) {
	many := reviewed + strings.Repeat("a,,,,,,maybe\n", 25)
	for name, c := range map[string]struct {
		csv  string
		says []string
	}{
		"empty":          {"", []string{"gold.csv: empty file"}},
		"no rows":        {reviewed, []string{"gold.csv: no rows"}},
		"UTF-16":         {"\xFF\xFEq\x00", []string{"UTF-16"}},
		"unknown layout": {"text,code\na,b\n", []string{"no column query", "text, code", "job_title, isco08_gold"}},
		"one is missing": {strings.Replace(reviewed, "accept_codes", "accept_code", 1), []string{"no column accept_codes (", "accept_code, accept_family4"}},
		"no title":       {"title,isco08_gold\n", []string{"no column job_title ("}},
		"twice":          {"query," + reviewed, []string{"two columns query"}},
		"bad header":     {"a\"b\n", []string{"header"}},
		"code":           {reviewed + "a,,,,8332.01,8332,no\n", []string{"line 2", `code "8332.01"`, "NNNN.NNNN"}},
		"code, family":   {reviewed + "a,,,,8332,8332,no\n", []string{`code "8332"`}},
		"family":         {reviewed + "a,,,,,833,no\n", []string{"line 2", `family "833"`}},
		"group":          {"job_title,isco08_gold\na,83320\n", []string{"line 2", `"83320"`}},
		"needs":          {reviewed + "ok,,,,,,no\na,,,,,,maybe\nb,,,,,,\n", []string{"bad rows: 2", "line 3", `"maybe"`, "line 4", `""`}},
		"no text":        {reviewed + " ,,,,,,no\n", []string{"line 2", "empty"}},
		"bytes":          {reviewed + "\xff,,,,,,no\n", []string{"line 2", "UTF-8"}},
		"ragged":         {reviewed + "a,b\n", []string{"line 2: 2 fields, the header has 7"}},
		"a quote":        {reviewed + "a\"b,,,,,,no\n", []string{"line 2"}},
		"many":           {many, []string{"bad rows: 25", "line 21", "and 5 more"}},
	} {
		_, err := LoadGold("gold.csv", strings.NewReader(c.csv))
		for _, says := range c.says {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %q is not in: %v", name, says, err)
			}
		}
	}
}

func FuzzLoadGold(f *testing.F) {
	f.Add(reviewed + "a,b,c,d,8332.0100,8332,no\n")
	f.Add("job_title,isco08_gold\n\"a\nb\",8332\n")
	f.Fuzz(func(t *testing.T, csv string) {
		all, err := LoadGold("fuzz.csv", strings.NewReader(csv))
		if (len(all) == 0) == (err == nil) {
			t.Fatalf("%d queries, error %v", len(all), err)
		}
	})
}

// TestEvaluate: what is counted, and of which rows.
func TestEvaluate(t *testing.T) {
	a := agent(t, small(t))
	a.Analyzer = &script{say: func(c Case, _ int) Verdict {
		if strings.HasPrefix(c.Messages[0].Text, "tailor") {
			return Verdict{Status: MatchFound, Confidence: 9, Codes: []string{c.Candidates[0].Code}}
		}
		return Verdict{Status: MoreInfo, Confidence: 1, Message: "Which?"}
	}}
	v, err := a.Evaluate(t.Context(), loadGold(t, reviewed+
		"tailor of garments,,English,basic,7531.0100 7531.0200,7531,no\n"+ // right, not asked
		"drives buses,,English,basic,7212.0100,8331,no\n"+ // the family is right, asked although clear
		"welder gas,,English,typo,7212.0200,7212,yes\n"+ // the code is among the five, asked
		"tailor ladies,,Hindi,typo,,1111,yes\n"+ // wrong, not asked although unclear
		"zzzz,,Hindi,typo,7212.0200,,optional\n")) // nothing is found
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][7]float64{ // n and the shares, -1 for none
		"all": {5, 0.25, 0.5, 0.75, 0.75, 0.5, 0.5}, "English": {3, 1. / 3, 2. / 3, 1, 1, 1, 0.5}, "Hindi": {2, 0, 0, 0, 0, 0, -1},
		"basic": {2, 0.5, 0.5, 1, 1, -1, 0.5}, "typo": {3, 0, 0.5, 0.5, 0.5, 0.5, -1},
	}
	got := map[string]Score{"all": v.All}
	for _, m := range []map[string]Score{v.ByLanguage, v.ByCategory} {
		for k, s := range m {
			got[k] = s
		}
	}
	if len(got) != len(want) {
		t.Errorf("groups: %v", got)
	}
	for k, s := range got {
		shares := [7]float64{float64(s.N)}
		for i, p := range []*float64{s.Top1Code, s.Top5Code, s.Top1Family, s.Top5Family, s.AskedWhenUnclear, s.AskedWhenClear} {
			shares[i+1] = -1
			if p != nil {
				shares[i+1] = *p
			}
			if math.Abs(shares[i+1]-want[k][i+1]) > 1e-9 {
				t.Errorf("%s: share %d is %v, want %v", k, i+1, shares[i+1], want[k][i+1])
			}
		}
		if s.N != int(want[k][0]) {
			t.Errorf("%s: %d rows", k, s.N)
		}
	}
	faults := [][]string{nil, {"no right code", "asked although"}, nil, {"no right family", "not asked"}, {"no right code"}}
	for i, m := range v.Rows {
		if !slices.EqualFunc(m.Faults(), faults[i], strings.Contains) {
			t.Errorf("%q: %q, want %q", m.Text, m.Faults(), faults[i])
		}
		if m.Asked() != (m.Question != "") || len(m.Candidates) > 5 {
			t.Errorf("%+v", m)
		}
	}
}

func TestEvaluateFails(t *testing.T) {
	broken := errors.New("no disk")
	a := agent(t, small(t))
	a.Index = &indextest.Script{Answer: func(index.Query) (index.Result, error) { return index.Result{}, pawl.Permanent(broken) }}
	_, err := a.Evaluate(t.Context(), loadGold(t, reviewed+"\"truck\ndriver\",,,,,,no\n"))
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 2") {
		t.Error(err)
	}
}
