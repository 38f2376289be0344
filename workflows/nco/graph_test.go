package nco

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/ports/index"
	"pawl/ports/index/indextest"
)

// asked runs the graph to its first question.
func asked(t *testing.T, a Agent, description string) pawl.Question {
	t.Helper()
	out, err := pawl.Execute(t.Context(), Graph(a), Input{Text: description}, pawl.Strict)
	q, ok := errors.AsType[*pawl.AskError](err)
	if !ok {
		t.Fatalf("%q: %+v, %v, want a question", description, out, err)
	}
	return q.Question
}

func matched(t *testing.T, a Agent, description string, code ...string) Output {
	t.Helper()
	out, err := pawl.Execute(t.Context(), Graph(a), Input{Text: description, Code: strings.Join(code, "")}, pawl.Strict)
	if err != nil {
		t.Fatalf("%q: %v", description, err)
	}
	if out.Status != MatchFound || len(out.Codes) == 0 {
		t.Fatalf("%q: %+v", description, out)
	}
	return out
}

func TestBuild(t *testing.T) {
	w, err := Graph(Agent{}).Build()
	if err != nil {
		t.Fatal(err)
	}
	if w.Version() != "2+"+Embedded().Hash()[:8] {
		t.Errorf("version %q", w.Version())
	}
	other, err := Graph(Agent{Catalog: small(t)}).Build()
	if err != nil || other.Version() == w.Version() {
		t.Errorf("another catalogue has the version %q (%v)", other.Version(), err)
	}
}

// The embedded catalogue does the real job.
func TestEmbeddedCatalog(t *testing.T) {
	a := agent(t, Embedded())
	out := matched(t, a, "I drive a lorry between cities for a transport company")
	c := out.Codes[0]
	if len(out.Codes) != 1 || c.Code != "8332" || c.Family != "8332" || c.FamilyTitle != "Heavy truck and lorry drivers" {
		t.Errorf("%+v", out.Codes)
	}
	if !slices.Contains(c.Evidence.Words, "lorry") || c.Evidence.Rank != 1 || c.Evidence.Score <= 0 || c.Evidence.Query == "" {
		t.Errorf("evidence %+v", c.Evidence)
	}
	if len(out.Assumptions) != 1 || out.Confidence > 6 || out.Confidence < 5 {
		t.Errorf("a match on assumptions is never sure: %v, %v", out.Assumptions, out.Confidence)
	}
	if q := asked(t, a, "teacher"); !strings.Contains(q.Text, "teach") || len(q.Choices) == 0 || len(q.Choices) > 5 || q.For != 72*time.Hour {
		t.Errorf("question %+v", q)
	}
}

func TestRealCatalogGivesOccupations(t *testing.T) {
	c, err := Load("nco2015", shared(t, "nco", "nco2015_occupations.csv"))
	if err != nil {
		t.Fatal(err)
	}
	a := agent(t, c)
	for description, want := range map[string]string{
		"truck driver": "8332.0100", "tailor": "7531.0100", "carpenter": "7115.0100", "auto rickshaw driver": "8321.0101",
		"I drive a lorry between cities for a transport company": "8332.0100",
	} {
		if out := matched(t, a, description); out.Codes[0].Code != want {
			t.Errorf("%q: %+v, want %s", description, out.Codes, want)
		}
	}
}

// R-003-01: it never loops for ever, whatever the analyzer says and however often a person answers.
func TestNeverLoops(t *testing.T) {
	for _, v := range []Verdict{{Status: ImprovedSearch, Directive: "other words", Confidence: 4}, {Status: MoreInfo, Message: "?"}, {}} {
		p := play{Agent: agent(t, small(t)), answers: slices.Repeat([]string{"I weld"}, 100)}
		p.Analyzer, p.Turns = always(v), 3
		out := p.run(t, "I sew clothes")
		if out.Status != MoreInfo || out.Turns != 3 || len(p.asked) != 3 || len(p.path) > 4*6 {
			t.Errorf("%v: %+v after %v", v, out, p.path)
		}
	}
}

// R-003-02, R-003-39: an ambiguous description is never matched, however sure the analyzer is.
func TestNeverMatchesAmbiguity(t *testing.T) {
	a := agent(t, small(t))
	a.Analyzer = always(Verdict{Status: MatchFound, Codes: []string{"8322.0100"}, Confidence: 10})
	for _, description := range []string{"driver", "I work in a hospital", "Pune", "majdoor"} {
		asked(t, a, description)
	}
	// Also where an expander has a doubt and a query.
	p := play{Agent: a, answers: nil}
	p.Expander = fixed(Expansion{Generated: true, Query: "Title: driver car", Question: "Car or bus?"})
	if out := p.run(t, "driver"); out.Status != MoreInfo || len(p.notes) == 0 {
		t.Errorf("%+v, notes %v", out, p.notes)
	}
}

// R-003-03: retrieval is evidence. What is not in the catalogue, or is no number, does not get in; what the person's own
// words do not bear out is not matched.
func TestNeverTrustsRetrieval(t *testing.T) {
	a := agent(t, small(t))
	a.Index = lying(index.Hit{ID: "9999.0000", Title: "Invented", Score: 1, Exact: true}, index.Hit{ID: "8331.0100", Score: math.NaN(), Coverage: math.Inf(1)}, index.Hit{ID: "8331.0100", Score: 1})
	p := play{Agent: a}
	out := p.run(t, "I sew clothes")
	if out.Status != MoreInfo || len(p.state.Retrieved.Candidates) != 1 {
		t.Errorf("%+v, candidates %+v", out, p.state.Retrieved.Candidates)
	}
	if c := p.state.Retrieved.Candidates[0]; c.Metadata.Title != "Driver, Bus" || c.Distance != 1 || c.Evidence.Coverage != 1 {
		t.Errorf("candidate %+v", c)
	}
	if len(p.notes) == 0 || !strings.Contains(p.notes[0].Rules[0], "9999.0000") {
		t.Errorf("notes %+v", p.notes)
	}
}

// R-003-04, R-003-28, R-003-29: one correction a turn; then the status is taken off the list.
func TestOneCorrectionATurn(t *testing.T) {
	s := always(Verdict{Status: ImprovedSearch, Directive: "welder of metal", Confidence: 4})
	p := play{Agent: agent(t, small(t)), answers: []string{"with gas"}}
	p.Analyzer = s
	out := p.run(t, "I sew clothes")
	want := strings.Fields("expand retrieve analyze retrieve analyze user_info expand retrieve analyze retrieve analyze user_info")
	if !slices.Equal(p.path, want) {
		t.Errorf("path %v", p.path)
	}
	if out.Status != MoreInfo || len(p.notes) == 0 || !strings.Contains(p.notes[len(p.notes)-1].Rules[0], "coerced to MORE_INFO") {
		t.Errorf("%+v, notes %+v", out, p.notes)
	}
	// First, then after the search, then once more without the status: three a turn.
	if len(s.cases) != 6 {
		t.Fatalf("%d verdicts were asked for", len(s.cases))
	}
	for i, allowed := range []bool{true, false, false, true, false, false} {
		if slices.Contains(s.cases[i].Allowed, ImprovedSearch) != allowed {
			t.Errorf("verdict %d: allowed %v", i, s.cases[i].Allowed)
		}
	}
	if s.cases[2].Problem == "" || s.cases[1].Problem != "" {
		t.Errorf("problems %q, %q", s.cases[1].Problem, s.cases[2].Problem)
	}
	for _, state := range p.saved {
		if state.ImprovedSearchCount > 1 {
			t.Errorf("count %d", state.ImprovedSearchCount)
		}
	}
	// The counter is 1 after the correction and the flag is up; a new turn begins with neither.
	if after := p.saved[4]; after.ImprovedSearchCount != 1 || !after.ImprovedSearch {
		t.Errorf("after the correction: %v, %d", after.ImprovedSearch, after.ImprovedSearchCount)
	}
	if after := p.saved[5]; after.ImprovedSearchCount != 0 || after.ImprovedSearch {
		t.Errorf("after the answer: %v, %d", after.ImprovedSearch, after.ImprovedSearchCount)
	}
}

// The same through the graph's own edges: Execute ends in the question, not in a second search.
func TestGraphBoundsCorrection(t *testing.T) {
	a := agent(t, small(t))
	script := &indextest.Script{Answer: func(q index.Query) (index.Result, error) { return index.Result{}, nil }}
	a.Index, a.Analyzer = script, always(Verdict{Status: ImprovedSearch, Directive: "other words", Confidence: 4})
	asked(t, a, "I sew clothes")
	if q := script.Queries(); len(q) != 2 || q[0].Text != "sew clothes" || q[1].Text != "other words" || q[0].K != depth {
		t.Errorf("queries %+v", q)
	}
}

// R-003-05, R-003-26, R-003-33: the state is committed with its verdict before the person is asked, and asking changes
// nothing: user_info only passes what Ask says on.
func TestCheckpointsBeforeInterruption(t *testing.T) {
	p := play{Agent: agent(t, small(t))}
	p.run(t, "driver")
	before := p.saved[len(p.saved)-2]
	if p.path[len(p.path)-1] != "user_info" || before.Verdict.Status != MoreInfo || before.Verdict.Message != p.asked[0].Text {
		t.Errorf("path %v, verdict %+v", p.path, before.Verdict)
	}
}

// R-003-31, R-003-36, R-003-37, Q-003-04: after an answer nothing but the messages is left, and the expander is next.
func TestOnlyMessagesSurvive(t *testing.T) {
	p := play{Agent: agent(t, small(t)), answers: []string{"truck"}}
	out := p.run(t, "driver")
	i := slices.Index(p.path, "user_info")
	after := p.saved[i]
	var roles []string
	for _, m := range after.Messages {
		roles = append(roles, m.Role)
	}
	if !slices.Equal(roles, []string{RoleUser, RoleAI, RoleUser}) || after.Messages[2].Text != "truck" {
		t.Errorf("messages %+v", after.Messages)
	}
	after.Messages = nil
	rest, _ := json.Marshal(after)
	empty, _ := json.Marshal(State{})
	if string(rest) != string(empty) || p.path[i+1] != "expand" {
		t.Errorf("left over: %s; then %s", rest, p.path[i+1])
	}
	if out.Status != MatchFound || out.Codes[0].Code != "8332.0100" || out.Turns != 1 {
		t.Errorf("%+v", out)
	}
}

// R-003-07: the messages only grow, on every way.
func TestMessagesAreAppendOnly(t *testing.T) {
	p := play{Agent: agent(t, small(t)), answers: []string{"hm", "2", "…"}}
	p.run(t, "driver")
	var last []Message
	for _, s := range p.saved {
		for i, m := range last {
			if m.Text != s.Messages[i].Text || m.Role != s.Messages[i].Role {
				t.Fatalf("message %d changed: %+v, %+v", i, m, s.Messages[i])
			}
		}
		last = s.Messages
	}
}

// An answer that says nothing makes an ambiguous description no clearer (R-003-02).
func TestEmptyAnswerDoesNotMatch(t *testing.T) {
	for _, answer := range []string{"hm", "", "…", "ok yes", "qwertz", "12"} {
		p := play{Agent: agent(t, small(t)), answers: []string{answer}}
		if out := p.run(t, "driver"); out.Status != MoreInfo || len(p.asked) != 2 {
			t.Errorf("%q: %+v", answer, out)
		}
	}
}

// The cap of turns: the last question is not asked when nobody could use its answer any more.
func TestTurnCap(t *testing.T) {
	ends := map[bool]string{true: "Nobody could be asked.", false: "The turns are spent."}
	for turns, want := range map[int]int{-1: 0, 1: 1, 2: 2, 0: 5} {
		p := play{Agent: agent(t, small(t)), answers: slices.Repeat([]string{"hm"}, 20)}
		p.Turns = turns
		out := p.run(t, "driver")
		if len(p.asked) != want || out.Turns != want || out.Status != MoreInfo || out.Question == "" || !strings.Contains(out.Reason, ends[turns < 0]) {
			t.Errorf("Turns %d: %d questions, %+v", turns, len(p.asked), out)
		}
	}
	a := agent(t, small(t))
	a.Turns = -1
	if out, err := pawl.Execute(t.Context(), Graph(a), Input{Text: "driver"}, pawl.Strict); err != nil || out.Status != MoreInfo {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	p := play{Agent: agent(t, small(t))}
	p.Patience = time.Hour
	out := p.run(t, "driver")
	if out.Status != MoreInfo || out.Turns != 0 || out.Question == "" || !strings.Contains(out.Reason, "Nobody answered") || p.asked[0].For != time.Hour {
		t.Errorf("%+v, asked %+v", out, p.asked)
	}
	if m := p.state.Messages; len(m) != 2 || m[1].Role != RoleAI {
		t.Errorf("messages %+v", m)
	}
}

func TestAnswers(t *testing.T) {
	choices := []string{"Car driver", "Bus driver"}
	for in, want := range map[string]string{"2": "Bus driver", " ２ ": "Bus driver", "3": "3", "0": "0", "bus": "bus", "a\x00b": "a b"} {
		if got, _ := heard(in, choices); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got, rules := heard(strings.Repeat("x", 1<<20), nil); len(got) != MaxText || len(rules) != 1 {
		t.Errorf("%d characters, %v", len(got), rules)
	}
}
