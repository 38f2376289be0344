package brain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/pawltest"
	"pawl/ports/index"
	"pawl/ports/index/fts"
	"pawl/ports/llm"
	"pawl/ports/tools"
)

// shelf is a source that always finds the same.
type shelf struct{}

func (shelf) Look(_ context.Context, q SourceSpec) ([]Piece, error) {
	return []Piece{{Source: q.SourceType, ID: "atlas#1", Title: "Atlas", Text: "France: Paris", Score: 1}}, nil
}

// counted counts looks, and fails where it is told to.
type counted struct {
	n    int
	fail error
}

func (c *counted) Look(ctx context.Context, q SourceSpec) ([]Piece, error) {
	c.n++
	if c.fail != nil {
		return nil, c.fail
	}
	return shelf{}.Look(ctx, q)
}

// desk is a server of tools.
type desk struct {
	called []llm.ToolCall
	broken error
}

func (d *desk) box() Tools {
	box, err := tools.New(d)
	if err != nil {
		panic(err)
	}
	return box
}

func (d *desk) Name() string { return "desk" }
func (d *desk) Close() error { return nil }

func (d *desk) Tools(context.Context) ([]tools.Tool, error) {
	tool := func(name, schema string, reads bool) tools.Tool {
		return tools.Tool{Tool: llm.Tool{Name: name, Schema: json.RawMessage(schema)}, ReadOnly: reads}
	}
	return []tools.Tool{
		tool("clock", `{"type":"object"}`, true), tool("broken", `{"type":"object"}`, true), tool("failing", `{"type":"object"}`, true), tool("mail", `{"type":"object"}`, false),
		tool("search", `{"type":"object","required":["query"],"properties":{"query":{"type":"string"},"max_results":{"type":"integer"}}}`, true),
	}, d.broken
}

func (d *desk) Call(_ context.Context, c llm.ToolCall) (llm.ToolResult, error) {
	d.called = append(d.called, c)
	switch c.Name {
	case "broken":
		return llm.ToolResult{}, errors.New("the server is gone")
	case "failing":
		return llm.ToolResult{ID: c.ID, Name: c.Name, Text: "no such city", Failed: true}, nil
	}
	return llm.ToolResult{ID: c.ID, Name: c.Name, Text: "it is noon"}, nil
}

// R-002-14: a vector_db is searched for the query of the plan, or for the question, as far as its limit and its filter go.
func TestR00214DataSources(t *testing.T) {
	var docs []index.Document
	docs = append(docs, Documents("geo/france.md", "# France\n\nThe capital of France is Paris.\n\n# Rivers\n\nThe Seine flows through Paris.")...)
	docs = append(docs, Documents("geo/peru.txt", "Lima is the capital of Peru.")...)
	docs = append(docs, Documents("geology.md", "The capital of a column is made of stone.")...)
	ix, err := fts.Open(t.Context(), docs)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	for name, c := range map[string]struct {
		spec SourceSpec
		ids  []string
	}{
		"the question":  {SourceSpec{Limit: 1}, []string{"geo/france.md#1"}},
		"its own query": {SourceSpec{Query: "river Seine", Limit: 1}, []string{"geo/france.md#2"}},
		"one document":  {SourceSpec{Filters: map[string]string{"path": "geology.md"}}, []string{"geology.md#1"}},
		"a folder":      {SourceSpec{Filters: map[string]string{"path": "geo/"}, Query: "capital Peru"}, []string{"geo/peru.txt#1", "geo/france.md#1"}},
		"nothing fits":  {SourceSpec{Filters: map[string]string{"path": "geo/f"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := &actor{}
			a := m.agent()
			a.Knowledge = Knowledge{ix}
			c.spec.SourceType = SourceVectorDB
			o, err := pawl.Execute(t.Context(), Graph(a), Plan{Question: question, OptimizedSpecs: &Specs{DataSources: []SourceSpec{c.spec}}}, pawl.Strict)
			if err != nil || len(o.Metadata.Errors) > 0 {
				t.Fatal(o, err)
			}
			var ids []string
			for l := range strings.Lines(m.asked[0].Messages[0].Text()) {
				var p Piece
				if json.Unmarshal([]byte(l), &p) == nil {
					ids = append(ids, p.ID)
				}
			}
			same(t, ids, c.ids)
		})
	}
}

// S-002-07: of a conversation, the last ten turns are told as they were said, or as many as the plan wants.
func TestS00207TheLastTenTurns(t *testing.T) {
	var history []Turn
	for i := range 24 {
		history = append(history, Turn{[]string{"user", "assistant"}[i%2], string(rune('a' + i))})
	}
	for limit, first := range map[int]string{0: "o", 4: "u", 50: "a"} {
		m := &actor{}
		p := Plan{Question: question, History: history, OptimizedSpecs: &Specs{DataSources: []SourceSpec{{SourceType: SourceHistory, Limit: limit}}}}
		if _, err := pawl.Execute(t.Context(), Graph(m.agent()), p, pawl.Strict); err != nil {
			t.Fatal(err)
		}
		said := m.asked[0].Messages
		if n := len(said); said[0].Text() != first || said[n-2].Text() != "x" || said[n-2].Role != llm.RoleAssistant || said[n-1].Text() != question {
			t.Errorf("limit %d: %+v", limit, said)
		}
	}
	m := &actor{} // a plan that does not name the conversation does not get it
	if _, err := pawl.Execute(t.Context(), Graph(m.agent()), Plan{Question: question, History: history, OptimizedSpecs: &Specs{}}); err != nil || len(m.asked[0].Messages) != 1 {
		t.Errorf("%+v %v", m.asked, err)
	}
}

// R-002-15: the tools of the plan are called with its arguments, or with the question where a tool requires one text.
func TestR00215Tools(t *testing.T) {
	m, d := &actor{}, &desk{}
	a := m.agent()
	a.Tools = d.box()
	r := play(t, a, Plan{OptimizedSpecs: &Specs{Tools: []ToolSpec{
		{Name: "desk_search"}, {Name: "desk_clock"}, {Name: "desk_search", Arguments: map[string]json.RawMessage{"query": json.RawMessage(`"Paris"`), "max_results": json.RawMessage(`5`)}},
	}}})
	var got []string
	for _, c := range d.called {
		got = append(got, c.Name+" "+string(c.Arguments))
	}
	same(t, got, []string{`search {"query":"What is the capital of France?"}`, `clock {}`, `search {"max_results":5,"query":"Paris"}`})
	if said := m.asked[0].Messages[0].Text(); strings.Count(said, "it is noon") != 3 || len(r.Output.Metadata.Errors) != 0 {
		t.Errorf("%s\n%+v", said, r.Output)
	}
}

// A tool that may change something parks the run until a person has approved this very call; refused, it is not called, and the run
// goes on.
func TestToolsAreApproved(t *testing.T) {
	hash := sha256.Sum256([]byte("desk\x00mail\x00{}"))
	for yes, calls := range map[bool]int{true: 2, false: 1} {
		m, d := &actor{}, &desk{}
		a := m.agent()
		a.Tools = d.box()
		r := play(t, a, Plan{OptimizedSpecs: &Specs{Tools: []ToolSpec{{Name: "desk_clock"}, {Name: "desk_mail"}}}},
			pawltest.Script{Answers: map[string][]any{"tool 2: desk_mail/approve/" + hex.EncodeToString(hash[:]): {tools.Verdict{Approve: yes}}}})
		if len(d.called) != calls || len(r.Output.Metadata.Errors) != 2-calls || r.Output.Status != "completed" || len(r.Questions) != 1 {
			t.Errorf("%v: %d calls, %+v", yes, len(d.called), r.Output)
		}
	}
}

// Q-002-11: a source or a tool that fails is an entry of the errors, and the run goes on; one that is switched off is not asked.
func TestQ00211WhatFailsIsRecorded(t *testing.T) {
	off := false
	broken := &counted{fail: errors.New("the index is gone")}
	for name, c := range map[string]struct {
		source Source
		tools  Tools
		specs  Specs
		errors []string
		data   int
	}{
		"a source":       {broken, nil, Specs{DataSources: []SourceSpec{{SourceType: SourceVectorDB}}}, []string{"query_data_sources: vector_db: the index is gone"}, 0},
		"no source":      {nil, nil, Specs{DataSources: []SourceSpec{{SourceType: SourceVectorDB}}}, []string{"query_data_sources: vector_db: no knowledge is configured"}, 0},
		"no tools":       {nil, nil, Specs{Tools: []ToolSpec{{Name: "desk_clock"}}}, []string{"execute_tools: no tools are configured"}, 0},
		"tools unlisted": {nil, (&desk{broken: errors.New("no route")}).box(), Specs{Tools: []ToolSpec{{Name: "desk_clock"}}}, []string{"execute_tools: no route"}, 0},
		"some tools": {nil, (&desk{}).box(), Specs{Tools: []ToolSpec{{Name: "desk_broken"}, {Name: "desk_missing"}, {Name: "desk_failing"}, {Name: "desk_clock"}}},
			[]string{"execute_tools: desk_broken: the server is gone", "execute_tools: desk_missing: there is no such tool", "execute_tools: desk_failing: it failed: no such city"}, 2},
		"switched off": {broken, (&desk{broken: errors.New("x")}).box(), Specs{DataSources: []SourceSpec{{SourceType: SourceVectorDB, Enabled: &off}}, Tools: []ToolSpec{{Name: "desk_broken", Enabled: &off}}}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := &actor{}
			a := m.agent()
			a.Knowledge, a.Tools = c.source, c.tools
			r := play(t, a, Plan{OptimizedSpecs: &c.specs})
			same(t, r.Output.Metadata.Errors, append([]string{}, c.errors...))
			if r.Output.Status != "completed" || r.Output.Content != goodReply {
				t.Errorf("%+v", r.Output)
			}
			if s := state(t, r); len(s.ToolResults) != c.data || len(s.DataResults) != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestDocuments: a text is cut at its headings and between its paragraphs, loses nothing, and every piece has a name of its own.
func TestDocuments(t *testing.T) {
	long := strings.Repeat("word ", 1000)
	docs := Documents("a.md", "intro\r\n\r\n# One\nfirst\n\nsecond\n\n## Two\n\n"+long+"\n\nend\xff")
	var all strings.Builder
	for i, d := range docs {
		all.WriteString(d.Text + " ")
		if n := len([]rune(d.Text)); n > pieceLength || n == 0 {
			t.Errorf("%s has %d characters", d.ID, n)
		}
		if i > 0 && d.ID == docs[i-1].ID {
			t.Errorf("%s twice", d.ID)
		}
	}
	if got := strings.Count(all.String(), "word"); got != 1000 {
		t.Errorf("%d words", got)
	}
	if docs[0].Title != "a.md" || docs[1].Title != "One" || docs[1].Text != "# One\nfirst\n\nsecond" || docs[2].Title != "Two" || docs[2].ID != "a.md#3" {
		t.Errorf("%+v", docs[:3])
	}
	if last := docs[len(docs)-1].Text; !strings.HasSuffix(last, "end\uFFFD") {
		t.Errorf("%q", last)
	}
	if got := Documents("empty", " \n\n \n"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// found is a source that finds one text.
type found struct{ text string }

func (f found) Look(context.Context, SourceSpec) ([]Piece, error) {
	return []Piece{{Source: SourceVectorDB, Text: f.text}}, nil
}

// slow is a source that takes its time.
type slow struct{}

func (slow) Look(ctx context.Context, q SourceSpec) ([]Piece, error) {
	time.Sleep(time.Second)
	return shelf{}.Look(ctx, q)
}

// flood is a source that finds too much.
type flood struct{}

func (flood) Look(context.Context, SourceSpec) (out []Piece, err error) {
	for range 100 {
		out = append(out, Piece{Source: SourceVectorDB, Text: strings.Repeat("é", 9000)})
	}
	return out, nil
}
