package runstest

import (
	"encoding/json"
	"strings"
	"time"

	"pawl"
)

func startLaws() []law {
	return []law{
		{"input fits the schema", "a wrong input is refused before it costs anything, and says which field is wrong", inputFits},
		{"nothing exists after a refusal", "a refused start leaves no run behind that somebody would find", refusedLeavesNothing},
		{"input is kept", "what was asked for can be read for as long as the run is there", inputKept},
		{"unknown workflow", "a typing error is told at once", unknownWorkflow},
		{"budget only lowers", "nobody raises the ceiling that the graph's author set", budgetLowers},
		{"labels go down", "children belong to whom the run belongs", labelsGoDown},
		{"a new run is queued", "Start does not wait for a worker", newIsQueued},
		{"options are checked", "what is refused later would be lost work", optionsChecked},
	}
}

func inputFits(l *lab) {
	for _, c := range []struct {
		name, input string
		names       []string
	}{
		{"unknown field", `{"text":"a","colour":"red"}`, []string{"colour"}},
		{"wrong type", `{"text":"a","n":"three"}`, []string{"n"}},
		{"wrong type inside", `{"text":"a","names":["x",7]}`, []string{"names"}},
		{"missing field", `{"n":1}`, []string{"text"}},
		{"duplicate key", `{"text":"a","text":"b"}`, []string{"text"}},
		{"case equal key", `{"text":"a","Text":"b"}`, []string{"Text"}},
		{"only in another case", `{"TEXT":"a"}`, []string{"TEXT"}},
		{"no object", `"a"`, nil},
		{"null", `null`, nil},
		{"no JSON", `{"text":`, nil},
		{"nothing", ``, nil},
		{"two values", `{"text":"a"} {"text":"b"}`, nil},
		{"fraction", `{"text":"a","n":1.5}`, []string{"n"}},
		{"too large a number", `{"text":"a","n":1e400}`, nil},
		{"invalid UTF-8", "{\"text\":\"a\xff\"}", nil},
	} {
		_, err := l.rs.Start(l.ctx, "desk", json.RawMessage(c.input), pawl.StartOptions{})
		if err == nil {
			l.Errorf("%s: accepted %s", c.name, c.input)
			continue
		}
		l.refused(err, pawl.CodeInvalid, c.names...)
	}
	if rs := l.all(ann(), pawl.RunFilter{}); len(rs) != 0 {
		l.Errorf("runs exist: %+v", rs)
	}
}

func refusedLeavesNothing(l *lab) {
	_, err := l.rs.Start(l.ctx, "desk", json.RawMessage(`{"text":""}`), pawl.StartOptions{Key: "k"})
	l.refused(err, pawl.CodeInvalid, "text is empty")
	if rs := l.all(ann(), pawl.RunFilter{}); len(rs) != 0 {
		l.Errorf("runs exist: %+v", rs)
	}
	if s := l.begin("desk", `{"text":"a"}`, pawl.StartOptions{Key: "k"}); s.Existing != "" {
		l.Errorf("the refused start owns the key: %+v", s)
	}
}

func inputKept(l *lab) {
	for _, text := range []string{`plain`, `ключ ☃ 𝄞`, `a\u0000b`, `\\u0000`, `<script>&amp;`, `line\nbreak`, strings.Repeat("x", 100_000)} {
		r := l.worked(`{"text":"` + text + `"}`)
		l.is(r, pawl.StatusSucceeded)
		var in, want order
		var out output
		if err := json.Unmarshal(r.Input, &in); err != nil {
			l.Fatal(err)
		}
		if err := json.Unmarshal([]byte(`{"text":"`+text+`"}`), &want); err != nil {
			l.Fatal(err)
		}
		if err := json.Unmarshal(r.Output, &out); err != nil {
			l.Fatal(err)
		}
		if in.Text != want.Text || out.Text != want.Text {
			l.Errorf("%.40q: input %.40q, output %.40q", want.Text, in.Text, out.Text)
		}
	}
}

func unknownWorkflow(l *lab) {
	_, err := l.rs.Start(l.ctx, "dask", json.RawMessage(`{"text":"a"}`), pawl.StartOptions{})
	l.refused(err, pawl.CodeNotFound, "dask")
}

func meter(r pawl.Run, name string) pawl.Meter {
	for _, m := range r.Meters {
		if m.Name == name {
			return m
		}
	}
	return pawl.Meter{Name: name, Cap: -1}
}

func budgetLowers(l *lab) {
	r := l.worked(`{"text":"a","do":"write","n":4}`, pawl.StartOptions{Budget: pawl.Budget{"llm": 3}})
	l.is(r, pawl.StatusFailed)
	if m := meter(r, "llm"); m.Used != 3 || m.Cap != 3 || r.Err == nil || r.Err.Code != pawl.CodeExhausted {
		l.Errorf("lowered: meter %+v, error %v", m, r.Err)
	}
	r = l.worked(`{"text":"a","do":"write","n":6}`, pawl.StartOptions{Budget: pawl.Budget{"llm": 100}})
	l.is(r, pawl.StatusFailed)
	if m := meter(r, "llm"); m.Used != 5 || m.Cap != 5 {
		l.Errorf("raised: %+v", m)
	}
	r = l.start(`{"text":"a"}`, pawl.StartOptions{Budget: pawl.Budget{"search": 2}})
	if m := meter(r, "search"); m.Cap != 2 {
		l.Errorf("a meter that the graph does not cap: %+v", m)
	}
}

func labelsGoDown(l *lab) {
	r := l.worked(`{"text":"a","do":"child","names":["ask"]}`, pawl.StartOptions{Labels: map[string]string{"team": "blue"}})
	kids := l.all(ann(), pawl.RunFilter{Parent: r.ID})
	if r.Labels["team"] != "blue" || len(kids) != 1 || kids[0].Labels["team"] != "blue" {
		l.Fatalf("run %v, children %+v", r.Labels, kids)
	}
	if k := kids[0]; k.Tenant != "acme" || k.User != "ann" || k.Root != r.ID || k.Parent != r.ID {
		l.Errorf("child %+v", k)
	}
}

func newIsQueued(l *lab) {
	r := l.start(`{"text":"a","do":"ask"}`)
	l.is(r, pawl.StatusQueued)
	if r.ID == "" || r.Workflow != "desk" || r.Version != "1" || r.Attempt != 1 || r.Node != "sort" || r.Tenant != "acme" || r.User != "ann" {
		l.Errorf("run %+v", r)
	}
	if r.Created.IsZero() || r.Created.Location() != time.UTC {
		l.Errorf("created %v", r.Created)
	}
}

func optionsChecked(l *lab) {
	in := json.RawMessage(`{"text":"a"}`)
	for _, o := range []pawl.StartOptions{
		{Budget: pawl.Budget{"llm": -1}}, {Key: strings.Repeat("k", 501)}, {Key: "a\xff"}, {Labels: map[string]string{"a": "\xff"}},
	} {
		_, err := l.rs.Start(l.ctx, "desk", in, o)
		l.refused(err, pawl.CodeInvalid)
	}
	big := json.RawMessage(`{"text":"` + strings.Repeat("x", 9<<20) + `"}`)
	_, err := l.rs.Start(l.ctx, "desk", big, pawl.StartOptions{})
	l.refused(err, pawl.CodeInvalid, "bytes")
}
