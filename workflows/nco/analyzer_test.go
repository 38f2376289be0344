package nco

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pawl"
	"pawl/ports/index"
	"pawl/ports/index/indextest"
)

// judged gives what the analyzer says of the candidates for a description, as the node would ask it.
func judged(t *testing.T, c *Catalog, description, query string, codes ...string) Verdict {
	t.Helper()
	a := Agent{Catalog: c}
	var hits []index.Hit
	for _, code := range codes {
		hits = append(hits, index.Hit{ID: code, Score: 1, Exact: true}) // a retrieval that is sure of everything
	}
	e := expand(t, user(description)...)
	if query != "" {
		e = Expansion{Generated: true, Query: query}
	}
	v, err := Margins(builtIn()).Analyze(t.Context(), Case{
		Messages: user(description), Expansion: e, Queries: []string{e.Query},
		Candidates: a.accept(e.Query, index.Result{Hits: hits}, perSearch).Candidates, Allowed: []Status{MatchFound, MoreInfo, ImprovedSearch},
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// R-003-39, S-003-04: no query, so it must ask; asking outranks searching again.
func TestUserAmbiguityAsks(t *testing.T) {
	if v := judged(t, small(t), "driver", "", "8322.0100", "8332.0100"); v.Status != MoreInfo || v.Message == "" || v.Confidence > 3 {
		t.Errorf("%+v", v)
	}
}

// R-003-40: retrieval noise gets one better search.
func TestRetrievalNoiseSearchesAgain(t *testing.T) {
	v := judged(t, small(t), "I stitch blouses for a garment company", "", "2341.0100", "8331.0100")
	if v.Status != ImprovedSearch || v.Message != "" || v.Confidence < 3 || v.Confidence > 5 || !strings.Contains(v.Directive, "garment") {
		t.Errorf("%+v", v)
	}
}

// R-003-41: a query that the person never said found what it asked for. The search goes back to the person's own words.
func TestExpanderHallucinationSearchesAgain(t *testing.T) {
	v := judged(t, small(t), "I stitch garments", "Title: lorry driver", "8332.0100", "8331.0100")
	if v.Status != ImprovedSearch || !strings.Contains(v.Directive, "stitch") || strings.Contains(v.Directive, "lorry") {
		t.Errorf("%+v", v)
	}
	p := play{Agent: agent(t, small(t))}
	p.Expander = fixed(Expansion{Generated: true, Query: "Title: lorry driver"})
	p.Index = &indextest.Script{Answer: func(q index.Query) (index.Result, error) {
		if strings.HasPrefix(q.Text, "lorry driver") {
			return index.Result{Hits: []index.Hit{{ID: "8332.0100", Score: 1, Exact: true}}}, nil
		}
		return index.Result{Hits: []index.Hit{{ID: "7531.0100", Score: 1}}}, nil
	}}
	out := p.run(t, "I tailor garments")
	if out.Status != MatchFound || Division(out.Codes[0].Code) != "7" || p.path[3] != "retrieve" {
		t.Errorf("%+v after %v", out, p.path)
	}
}

// R-003-42, R-003-45, Q-003-05: several codes of one division that bear out the same words stand together.
func TestFragmentedConvergenceMatches(t *testing.T) {
	v := judged(t, small(t), "welder", "", "7212.0100", "7212.0200", "8331.0100")
	if v.Status != MatchFound || !slices.Equal(v.Codes, []string{"7212.0100", "7212.0200"}) || v.Confidence < 7 {
		t.Errorf("%+v", v)
	}
}

// Never across divisions: that is a question, with the choices in it. Never more than three: of one family the first three
// stand for it.
func TestTooManyFits(t *testing.T) {
	c := load(t, "code,title\n7212.0100,Welder Alpha\n7212.0200,Welder Beta\n7212.0300,Welder Gamma\n7212.0400,Welder Delta\n7212.0500,Welder Epsilon\n7212.0600,Welder Zeta\n8212.0100,Welder Eta\n")
	v := judged(t, c, "welder", "", "7212.0100", "8212.0100")
	if v.Status != MoreInfo || !slices.Equal(v.Choices, []string{"Welder Alpha", "Welder Eta"}) || !strings.Contains(v.Message, "welder") {
		t.Errorf("%+v", v)
	}
	v = judged(t, c, "welder", "", "7212.0100", "7212.0200", "7212.0300", "7212.0400", "7212.0500")
	if v.Status != MatchFound || !slices.Equal(v.Codes, []string{"7212.0100", "7212.0200", "7212.0300"}) {
		t.Errorf("%+v", v)
	}
}

// R-003-43: uncertainty that stays is a question.
func TestRepeatedUncertaintyAsks(t *testing.T) {
	p := play{Agent: agent(t, small(t))}
	p.Index = lying(index.Hit{ID: "2341.0100", Score: 1})
	out := p.run(t, "I stitch blouses for a garment company")
	if out.Status != MoreInfo || out.Question == "" || !slices.Equal(p.path[:6], strings.Fields("expand retrieve analyze retrieve analyze user_info")) {
		t.Errorf("%+v after %v", out, p.path)
	}
}

// R-003-44: a place names no occupation, also where the index is sure of one.
func TestNeverGuessesFromLocation(t *testing.T) {
	a := agent(t, small(t))
	a.Index = lying(index.Hit{ID: "8322.0100", Score: 1, Exact: true})
	for _, place := range []string{"Pune", "I work in New Delhi", "Mumbai, Maharashtra, India"} {
		if q := asked(t, a, place); !strings.Contains(q.Text, "What work do you do there?") {
			t.Errorf("%q: %q", place, q.Text)
		}
	}
}

// R-003-46: what nothing bears out is not matched, though something was found.
func TestNoRecallAtTheCostOfCorrectness(t *testing.T) {
	for _, description := range []string{"xqzv blorp", "I collect stamps", "astronaut"} {
		asked(t, agent(t, small(t)), description)
	}
}

// R-003-47: see TestLongHostileVerdicts. Here: the analyzer's own verdict goes through the same policy.
func TestOwnVerdictsObeyThePolicy(t *testing.T) {
	for _, description := range []string{"welder", "truck driver", "tailor", "sews garments", "lorries", "teaches children", "xyz"} {
		p := play{Agent: agent(t, small(t))}
		p.run(t, description)
		if len(p.notes) > 0 {
			t.Errorf("%q: %+v", description, p.notes)
		}
	}
}

// What is left over is never the answer when a specific entry fits; it is when nothing else does.
func TestResidualOnlyAsALastResort(t *testing.T) {
	if v := judged(t, small(t), "truck driver", "", "8332.9900", "8332.0100"); v.Status != MatchFound || !slices.Equal(v.Codes, []string{"8332.0100"}) {
		t.Errorf("%+v", v)
	}
	if v := judged(t, small(t), "sundry elementary work", "", "9629.9900"); v.Status != MatchFound || v.Codes[0] != "9629.9900" {
		t.Errorf("%+v", v)
	}
}

// A title that stands twice is offered with more than the title.
func TestChoicesTellApart(t *testing.T) {
	c := load(t, "code,title,description\n2310.0100,\"College Teacher,\",teaches physics\n2310.0200,\"College Teacher,\",teaches law\n3310.0100,College Teacher,keeps accounts\n3310,Clerks of colleges,\n2310,Lecturers,\n")
	v := judged(t, c, "college teacher", "Title: college teacher", "2310.0100", "2310.0200", "3310.0100")
	if v.Status != MoreInfo || !slices.Equal(v.Choices, []string{"College Teacher (Lecturers)", "College Teacher (Clerks of colleges)"}) {
		t.Errorf("%+v", v)
	}
	own := []word{{form: "college", stem: "colleg", thing: 1}}
	got := choices(newLexicon(c).recount(own, Agent{Catalog: c}.accept("", index.Result{Hits: []index.Hit{{ID: "2310.0100"}, {ID: "2310.0200"}}}, perSearch).Candidates))
	if !slices.Equal(got, []string{"College Teacher (teaches physics)", "College Teacher (teaches law)"}) {
		t.Errorf("%q", got)
	}
}

func TestRewriteIsEightToEighteenWords(t *testing.T) {
	long := "polishing brass lamps bowls plates statues bells cups trays hinges locks chains"
	v := judged(t, small(t), long, "", "2341.0100")
	if v.Status == ImprovedSearch {
		t.Errorf("the same words again are no better search: %q", v.Directive)
	}
	v = judged(t, small(t), long, "Title: teacher", "2341.0100")
	if n := len(strings.Fields(v.Directive)); v.Status != ImprovedSearch || n < 8 || n > 18 {
		t.Errorf("%d words: %+v", n, v)
	}
}

// Q-003-07: without a query nothing is searched. Q-003-10: an index that fails is tried again, then the run fails.
func TestRetrievalFailures(t *testing.T) {
	a := agent(t, small(t))
	script := &indextest.Script{}
	a.Index = script
	asked(t, a, "Pune")
	if q := script.Queries(); len(q) != 0 {
		t.Errorf("searched %v", q)
	}
	down := errors.New("index is down")
	script.Answer = func(index.Query) (index.Result, error) { return index.Result{}, down }
	_, err := pawl.Execute(t.Context(), Graph(a), Input{Text: "I weld pipes"})
	if err == nil || !strings.Contains(err.Error(), "index is down") || len(script.Queries()) != 4 {
		t.Errorf("error %v after %d searches", err, len(script.Queries()))
	}
	a.Index = nil
	if _, err := pawl.Execute(t.Context(), Graph(a), Input{Text: "I weld pipes"}); err == nil || !strings.Contains(err.Error(), "no index") {
		t.Errorf("error %v", err)
	}
}

// Bad input is refused before anything is spent, with what is wrong and the limit.
func TestRefusedInput(t *testing.T) {
	for in, want := range map[string]string{
		"": "text: empty", " \u200b\u2060\n": "text: empty", "\x00": "NUL", "drive\x00r": "NUL", "\xff": "UTF-8",
		strings.Repeat("x", 1<<20): "text: 1048576 characters, the limit is 10000",
	} {
		_, err := pawl.Execute(t.Context(), Graph(Agent{}), Input{Text: in})
		e, ok := errors.AsType[*pawl.Error](err)
		if !ok || e.Code != pawl.CodeInvalid || !strings.Contains(e.Error(), want) {
			t.Errorf("%.20q: %v, want %q", in, err, want)
		}
	}
	if _, err := (Agent{}).begin(Input{Text: strings.Repeat("द", MaxText)}); err != nil {
		t.Error(err)
	}
}

// Every naughty string is answered, asked about or refused; nothing panics and nothing is matched by accident.
func TestLongNaughtyStrings(t *testing.T) {
	a := agent(t, Embedded())
	g := Graph(a)
	for i, s := range naughty(t) {
		out, err := pawl.Execute(t.Context(), g, Input{Text: s}, pawl.Strict)
		_, question := errors.AsType[*pawl.AskError](err)
		e, coded := errors.AsType[*pawl.Error](err)
		switch {
		case err == nil && out.Status == MatchFound, question:
		case coded && e.Code == pawl.CodeInvalid:
		default:
			t.Errorf("%d %q: %v", i, s, fmt.Sprint(err))
		}
		if !utf8.ValidString(out.Reason) {
			t.Errorf("%q: output is not UTF-8", s)
		}
	}
}
