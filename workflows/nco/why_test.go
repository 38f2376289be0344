package nco

import (
	"strings"
	"testing"

	"pawl"
)

// The result says which words fit what, why the runner-up lost, what was assumed and why it asked.
func TestWhy(t *testing.T) {
	a := agent(t, Embedded())
	a.Turns = -1
	for text, says := range map[string][]string{
		"truck chalata hoon":    {"Read as English: truck chalata hoon (truck lorry driver)", "8332 Heavy truck and lorry drivers", "Runner-up: "},
		"I drive a big lorry":   {`"drive lorry" fits one of its names, "lorry driver"`, `Nothing was said of "instructor"`},
		"tailor and plumber":    {"It asks because these fit about equally well", "7531", "7126"},
		"engineer":              {"It asks because the description names no single kind of work"},
		"xyzzyq":                {"It asks because nothing in the catalogue is borne out"},
		"welder 10 yrs in Pune": {"Left out of the query: numbers and durations: 10 yrs; places: Pune"},
	} {
		out, err := pawl.Execute(t.Context(), Graph(a), Input{Text: text})
		if err != nil {
			t.Fatal(err)
		}
		why := strings.Join(out.Why, "\n")
		for _, s := range says {
			if !strings.Contains(why, s) {
				t.Errorf("%q: %q is not in:\n%s", text, s, why)
			}
		}
	}
}

// An entry of a trade that was not said is no answer beside one without a trade, and is one where the trade was said.
func TestTradeNotSaid(t *testing.T) {
	c := load(t, "code,title,description\n8332.0100,Lorry Driver,drives lorries\n8332.0200,Lorry Driver (Mines),drives lorries\n")
	a := agent(t, c)
	a.Turns = -1
	for text, code := range map[string]string{"lorry driver": "8332.0100", "lorry driver in the mines": "8332.0200"} {
		if out := matched(t, a, text); len(out.Codes) != 1 || out.Codes[0].Code != code {
			t.Errorf("%q: %+v", text, out.Codes)
		}
	}
	a = agent(t, load(t, "code,title\n8332.0200,Tram Car Driver (Mines)\n8332.0100,Driver Truck\n"))
	a.Turns = -1
	out := matched(t, a, "I drive a lorry")
	if why := strings.Join(out.Why, "\n"); len(out.Codes) != 1 || !strings.Contains(why, `Nothing was said of "Mines"`) {
		t.Errorf("%+v", out)
	}
}

// A person overrules: with the code from the start, or as an answer. The code is checked, recorded as decided, and nothing is
// judged.
func TestPersonDecides(t *testing.T) {
	a := agent(t, small(t))
	a.Analyzer = &script{say: func(Case, int) Verdict {
		t.Error("a decision was judged")
		return Verdict{}
	}}
	out := matched(t, a, "I stitch", "8332.0100")
	if out.Codes[0].Code != "8332.0100" || len(out.Codes) != 1 || !out.Decided || out.Confidence != 10 || !strings.Contains(out.Reason, "person") {
		t.Errorf("%+v", out)
	}
	for _, code := range []string{"9999.0100", "83", "tailor", "8332.0100 "} {
		_, err := pawl.Execute(t.Context(), Graph(a), Input{Text: "I stitch", Code: code})
		if bad := code != "8332.0100 "; bad != (err != nil) || bad && !strings.Contains(err.Error(), "no entry of the catalogue") {
			t.Errorf("%q: %v", code, err)
		}
	}
	p := play{Agent: agent(t, small(t)), answers: []string{"7531.02"}} // as a spreadsheet writes it
	answered := p.run(t, "driver")
	if answered.Status != MatchFound || answered.Codes[0].Code != "7531.0200" || !answered.Decided || answered.Turns != 1 {
		t.Errorf("%+v", answered)
	}
}
