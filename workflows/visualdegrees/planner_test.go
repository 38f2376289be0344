package visualdegrees

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pawl"
	"pawl/pawltest"
	"pawl/ports/llm/llmtest"
)

// fan is a world in which the planner matters: of those beside A only the last by rank leads to B.
func fan(t *testing.T) *scene {
	return newScene(t,
		photo("1", "A", "P:99"), photo("2", "A", "Q:98"), photo("3", "A", "R:90"), photo("4", "R", "S"), photo("5", "S", "B"),
		photo("6", "P", "P2"), photo("7", "Q", "Q2"),
	)
}

func decisions(o Output, state string) (out []string) {
	for _, d := range o.Decisions {
		if d.State == state {
			out = append(out, d.By+": "+strings.Join(d.Chosen, ","))
		}
	}
	return out
}

// TestR00032Planner: the model is shown what it may use and nothing else, and who it chooses is tried, in its order, the second before it is
// asked again (R-000-32, R-000-33, R-000-36, Q-000-15).
func TestR00032Planner(t *testing.T) {
	s := fan(t)
	var first brief
	m := s.planner(func(n int, b brief) llmtest.Turn {
		if n == 0 {
			first = b
			return plans(Plan{NextCandidates: []string{"R", "q"}, SearchQueries: []string{"A R", "R B event"}, Narration: "Trying R next.", Reason: "seen with others"})
		}
		return plans(Plan{NextCandidates: []string{b.Candidates[0].Name}, SearchQueries: []string{b.Frontier + " " + b.Candidates[0].Name}, Narration: "Going on."})
	})
	r := s.plays(t, with(ask("A", "B"), oneSided), pawltest.Script{})
	same(t, "path", r.Output.Path, []string{"A", "R", "S", "B"})
	same(t, "decision", decisions(r.Output, "S3")[0], "model: R,Q")
	if !slices.Contains(messages(r), "Trying R next.") {
		t.Errorf("nobody was told who is tried: %q", messages(r))
	}
	same(t, "brief", fmt.Sprintf("%s %s %s %d %v", first.Task, first.Frontier, first.Target, first.HopLimit, first.ConfidenceThreshold), "select_next_expansion A B 6 80")
	var names []string
	for _, c := range first.Candidates {
		names = append(names, c.Name)
	}
	same(t, "candidates, best first", names, []string{"P", "Q", "R"})
	if int64(len(m.Requests())) != r.Meter(MeterModel) || r.Output.Meta.Budgets.Model != r.Meter(MeterModel) {
		t.Errorf("%d calls, %d charged, %d told", len(m.Requests()), r.Meter(MeterModel), r.Output.Meta.Budgets.Model)
	}
}

// TestR00034Heuristic: whatever a model says that may not be used, the rule of S3 chooses: confidence, then number (R-000-33, R-000-34,
// R-000-80 to R-000-82). No name, query or word of it gets into the run.
func TestR00034Heuristic(t *testing.T) {
	good := Plan{NextCandidates: []string{"R"}, SearchQueries: []string{"A R"}, Narration: "Trying R next."}
	change := func(f func(*Plan)) llmtest.Turn { p := good; f(&p); return plans(p) }
	for name, turn := range map[string]llmtest.Turn{
		"prose":                   llmtest.Say("I would try Madonna next."),
		"nothing":                 llmtest.Say(""),
		"endless":                 llmtest.Say(strings.Repeat("and then ", 50000)),
		"a refusal":               llmtest.Fail("refused"),
		"an error":                llmtest.Fail(pawl.CodeUnavailable),
		"too slow":                llmtest.Fail(pawl.CodeTimeout),
		"cut":                     llmtest.Fail("truncated"),
		"a name from outside":     change(func(p *Plan) { p.NextCandidates = []string{"Madonna"} }),
		"the target":              change(func(p *Plan) { p.NextCandidates = []string{"B"} }),
		"the frontier":            change(func(p *Plan) { p.NextCandidates = []string{"A"} }),
		"nobody":                  change(func(p *Plan) { p.NextCandidates = nil }),
		"three":                   change(func(p *Plan) { p.NextCandidates = []string{"P", "Q", "R"} }),
		"one twice":               change(func(p *Plan) { p.NextCandidates = []string{"R", "r "} }),
		"no query":                change(func(p *Plan) { p.SearchQueries = nil }),
		"five queries":            change(func(p *Plan) { p.SearchQueries = []string{"A R", "A R", "A R", "A R", "A R"} }),
		"a query of its own":      change(func(p *Plan) { p.SearchQueries = []string{"A R wedding"} }),
		"a query for others":      change(func(p *Plan) { p.SearchQueries = []string{"Madonna R"} }),
		"a discovery":             change(func(p *Plan) { p.SearchQueries = []string{"A with celebrities"} }),
		"a relationship":          change(func(p *Plan) { p.Narration = "R and A are old friends." }),
		"a relationship, hidden":  change(func(p *Plan) { p.Narration = "R collabo\u200brated with A." }),
		"no narration":            change(func(p *Plan) { p.Narration = " " }),
		"a lecture":               change(func(p *Plan) { p.Narration = "One. Two. Three. Four." }),
		"two sentences":           change(func(p *Plan) { p.Narration = "R is tried next! Others wait." }),
		"a hyphen":                change(func(p *Plan) { p.Narration = "R, a co-star of many, is next." }),
		"an end":                  change(func(p *Plan) { p.Stop = true }),
		"a long one":              change(func(p *Plan) { p.Narration = strings.Repeat("x", 241) }),
		"something else entirely": llmtest.Say(`{"path": ["A", "B"], "edges": [{"from": "A", "to": "B"}]}`),
		"a tool":                  llmtest.Ask("1", "edge", "{}"),
	} {
		t.Run(name, func(t *testing.T) {
			s := fan(t)
			s.planner(func(int, brief) llmtest.Turn { return turn })
			r := s.plays(t, ask("A", "B"), pawltest.Script{})
			if ds := decisions(r.Output, "S3"); len(ds) > 0 && ds[0] != "rules: P,Q" || strings.Contains(strings.Join(ds, " "), "model") {
				t.Errorf("decided %q", ds)
			}
			for _, q := range s.searched {
				if strings.Contains(q, "Madonna") || strings.Contains(q, "wedding") {
					t.Errorf("searched %q", q)
				}
			}
			for _, m := range messages(r) {
				if strings.Contains(m, "friends") || strings.Contains(m, "One. Two.") {
					t.Errorf("told %q", m)
				}
			}
		})
	}
}

// TestR00036Narration: a model's sentence is what people read of its choice, where it claims nothing but what photographs show; else the
// program says who is tried (R-000-36, S-000-01).
func TestR00036Narration(t *testing.T) {
	for say, shown := range map[string]bool{
		"Trying R next.": true,
		"  Trying\tan expansion via R, who appears often with A… ": true,
		"Next, exploring R because R was seen most often with A.":  true,
		"R appears with A in several photographs.":                 true,
		"going on with R and Q toward B":                           true,
		"Going on.":                                                true,
		"Trying Madonna next.":                                     false,
		"Trying RQ next.":                                          false,
		"Trying R. next":                                           false,
		"Trying R's next.":                                         false,
		"R and A are together now.":                                false,
		"R is into A.":                                             false,
		"R is a has-been.":                                         false,
		"R is no good.":                                            false,
		"R and A were in Paris in 1921.":                           false,
		"Trying R, see http://example.com/":                        false,
		"Trying R next <b>now</b>.":                                false,
		"Trying \u202eR next.":                                     false,
		"T\u0336rying R next.":                                     false,
		"𝐓𝐫𝐲𝐢𝐧𝐠 R next.":                                           false,
		"Loo\u212aing at R next.":                                  false,
		"Trying \x00 next.":                                        false,
		"R 知道 A":                                                   false,
		"Trying R 👑 next.":                                         false,
	} {
		s := fan(t)
		s.planner(func(n int, b brief) llmtest.Turn {
			return plans(Plan{NextCandidates: []string{"R"}, SearchQueries: []string{"A R"}, Narration: say})
		})
		told := messages(s.plays(t, with(ask("A", "B"), oneSided), pawltest.Script{}))
		own := slices.Contains(told, "Trying an expansion via R…")
		if said := slices.Contains(told, strings.Join(strings.Fields(say), " ")); said != shown || own == shown {
			t.Errorf("%q: %q", say, told)
		}
	}
}

// TestR00036WholeNames: names are whole ones of those who were offered; the first name of one and the last of another are somebody else.
func TestR00036WholeNames(t *testing.T) {
	b := brief{PersonA: "Tom Hanks", PersonB: "Angela Merkel", Frontier: "Tom Hanks", Target: "Angela Merkel"}
	for _, n := range []string{"Michael Jordan", "Janet Jackson", "Theresa Palmer", "Jack Black"} {
		b.Candidates = append(b.Candidates, proposal{Name: n})
	}
	for say, shown := range map[string]bool{
		"Trying Michael Jordan next.": true, "Trying Michael Jackson next.": false, "Trying Theresa May next.": false,
		"Michael Jordan is Black.": false, "Trying Janet Jackson, who was seen with Tom Hanks.": true, "Tom Hanks has had Janet Jackson.": false,
		"Trying michael jordan next.": false, "Trying Jack Black toward Angela Merkel.": true, "Trying Jack Blacks next.": false,
	} {
		if got := b.shown(say); (got == say) != shown || got != "" && !shown {
			t.Errorf("%q: %q", say, got)
		}
	}
}

// TestR00059ModelsWords: of what else a model writes nothing goes out: no claim, no reason, no query (R-000-59, Q-000-14, S-000-01).
func TestR00059ModelsWords(t *testing.T) {
	s := fan(t)
	s.planner(func(_ int, b brief) llmtest.Turn {
		c := b.Candidates[len(b.Candidates)-1].Name
		return plans(Plan{NextCandidates: []string{" " + strings.ToLower(c)}, SearchQueries: []string{strings.ToUpper(b.Frontier + " " + c + " EVENT")},
			Narration: "Perhaps Madonna connects them all", Reason: "old friends, maybe connected via Madonna"})
	})
	r := s.plays(t, with(ask("A", "B"), func(c *Choices) { oneSided(c); c.Reverify = true }), pawltest.Script{})
	same(t, "path", r.Output.Path, []string{"A", "R", "S", "B"})
	same(t, "decision", decisions(r.Output, "S3")[0], "model: R")
	raw, err := json.Marshal(r.Output)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range r.Events {
		if !strings.HasPrefix(e.Type, "pawl.") {
			raw = append(raw, e.Data...)
		}
	}
	if strings.Contains(string(raw), "Madonna") || strings.Contains(string(raw), "friends") {
		t.Errorf("a model's words went out: %s", raw)
	}
	for _, q := range s.searched {
		if strings.Contains(q, "EVENT") {
			t.Errorf("searched %q", q)
		}
	}
}

// TestQ00009ModelSpent: literally the search ends; with planWithoutModel the rules go on.
func TestQ00009ModelSpent(t *testing.T) {
	plan := func(_ int, b brief) llmtest.Turn {
		c := b.Candidates[0].Name
		return plans(Plan{NextCandidates: []string{c}, SearchQueries: []string{b.Frontier + " " + c}, Narration: "Going on."})
	}
	s := fan(t)
	m := s.planner(plan)
	r := s.plays(t, with(ask("A", "B"), oneSided), budget(50, 75, 1))
	same(t, "reason", r.Output.Reason, "budget:llm")
	same(t, "calls", len(m.Requests()), 1)
	s = fan(t)
	s.planner(plan)
	r = s.plays(t, with(ask("A", "B"), func(c *Choices) { oneSided(c); c.PlanWithoutModel = true }), budget(50, 75, 1))
	same(t, "path", r.Output.Path, []string{"A", "R", "S", "B"})
}

// TestR00083Decisions are in the output, and each call in the record: nothing was decided that cannot be read again.
func TestR00083Decisions(t *testing.T) {
	s := fan(t)
	r := s.plays(t, ask("A", "B"), pawltest.Script{Replay: true})
	if len(r.Output.Decisions) == 0 || len(r.Calls) == 0 {
		t.Fatalf("%d decisions, %d calls", len(r.Output.Decisions), len(r.Calls))
	}
	for _, d := range r.Output.Decisions {
		if d.State == "" || d.By == "" || d.Side == "" {
			t.Errorf("%+v", d)
		}
	}
	raw, err := json.Marshal(r.Calls)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range s.searched {
		if !strings.Contains(string(raw), q) {
			t.Errorf("no call is recorded of %q", q)
		}
	}
}
