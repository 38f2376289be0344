package nco

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"pawl"
	"pawl/internal/host"
	"pawl/ports/index"
	"pawl/ports/index/fts"
	"pawl/ports/index/indextest"
)

// play drives the nodes as the graph's edges do, with a person who answers by script: what Execute cannot do, because
// there nobody can be asked. The edges themselves are tested through Execute and Build.
type play struct {
	host.Host
	Agent
	answers []string // empty: nobody answers

	state State
	path  []string
	notes []Applied
	asked []host.Ask
	saved []State // after every node, as it would be stored
	taken int     // of the edge "clarified"
}

func (p *play) Call(ctx context.Context, _ host.Call, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	return fn(ctx)
}
func (p *play) Emit(context.Context, string, []byte, bool) error { return nil }
func (p *play) Info(context.Context) host.Info                   { return host.Info{Run: "r"} }
func (p *play) Left(string) (int, bool)                          { return max(1, p.Turns) - p.taken, true }

func (p *play) Note(_ context.Context, step string, payload []byte) error {
	var a Applied
	if step != "policy_applied" {
		return errors.New("note " + step)
	}
	p.notes = append(p.notes, a)
	return json.Unmarshal(payload, &p.notes[len(p.notes)-1])
}

func (p *play) Ask(_ context.Context, a host.Ask) ([]byte, error) {
	p.asked = append(p.asked, a)
	if len(p.answers) == 0 {
		return nil, pawl.ErrDeadline
	}
	answer := p.answers[0]
	p.answers = p.answers[1:]
	return json.Marshal(Answer{answer})
}

// run plays a whole run and returns its output.
func (p *play) run(t *testing.T, description string) Output {
	t.Helper()
	p.Agent = p.Agent.settled()
	ctx := host.With(t.Context(), p)
	s, err := p.Agent.begin(Input{Text: description})
	if err != nil {
		t.Fatal(err)
	}
	p.state = s
	visit := func(name string, node func(context.Context, State) (State, error)) {
		t.Helper()
		p.path = append(p.path, name)
		next, err := node(ctx, p.state)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b, err := json.Marshal(next) // every state has to survive being stored
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p.state = State{}
		if err := json.Unmarshal(b, &p.state); err != nil {
			t.Fatal(err)
		}
		p.saved = append(p.saved, p.state)
	}
	for len(p.path) < 1000 {
		visit("expand", p.expand)
		visit("retrieve", p.retrieve)
		visit("analyze", p.analyze)
		for turn := 0; wantsBetterSearch(p.state) && turn < 1; turn++ {
			visit("retrieve", p.retrieve)
			visit("analyze", p.analyze)
		}
		before := len(p.asked)
		visit("user_info", p.userInfo)
		answered := len(p.asked) > before && !p.state.Unanswered
		if isMatch(p.state) || !answered || p.taken == max(1, p.Turns) {
			break
		}
		p.taken++
	}
	terminal := MoreInfo
	if isMatch(p.state) {
		terminal = MatchFound
	}
	out, err := p.finish(p.state, pawl.Ending{Terminal: string(terminal)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// script is an analyzer that says what it is told, and remembers what it was asked.
type script struct {
	say   func(c Case, call int) Verdict
	cases []Case
}

func (s *script) Analyze(_ context.Context, c Case) (Verdict, error) {
	s.cases = append(s.cases, c)
	return s.say(c, len(s.cases)), nil
}

func always(v Verdict) *script { return &script{say: func(Case, int) Verdict { return v }} }

// small is a catalogue in which everything of these tests can be found.
func small(t testing.TB) *Catalog {
	return load(t, `code,title,description
8332.0100,"Driver, Truck",drives lorries with goods between towns
8332.9900,"Heavy Truck and Lorry Drivers, Other",other drivers of lorries
8331.0100,"Driver, Bus",drives buses with passengers
8322.0100,"Driver, Car",drives cars
7531.0100,"Tailor, General",sews and stitches garments
7531.0200,"Tailor, Ladies",sews garments of women
7212.0100,"Welder, Gas",joins metal with a flame
7212.0200,"Welder, Electric",joins metal with current
2341.0100,Primary School Teacher,teaches children
2330.0100,Secondary School Teacher,teaches pupils
9629.9900,"Elementary Workers, Other",sundry work
`)
}

func agent(t testing.TB, c *Catalog) Agent {
	t.Helper()
	ix, err := fts.Open(t.Context(), c.Documents(), c.Groups()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ix.Close() })
	return Agent{Catalog: c, Index: ix}.settled() // once, and not for each graph
}

// lying is an index that answers with these hits whatever it is asked.
func lying(hits ...index.Hit) *indextest.Script {
	return &indextest.Script{Answer: func(index.Query) (index.Result, error) { return index.Result{Hits: hits}, nil }}
}

func naughty(t *testing.T) []string {
	t.Helper()
	var list []string
	if err := json.NewDecoder(shared(t, "adversarial", "blns.json")).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list
}
