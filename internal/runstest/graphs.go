package runstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pawl"
)

// hook is how a case looks into nodes, and holds them up.
type hook struct {
	mu     sync.Mutex
	causes []error
	inside chan string   // a node that blocks says so
	gate   chan struct{} // and goes on when this is closed
}

func newHook() *hook { return &hook{inside: make(chan string, 100), gate: make(chan struct{})} }

func (h *hook) ended(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.causes = append(h.causes, cause)
}

func (h *hook) seen() []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]error(nil), h.causes...)
}

// block stays in a node until the gate opens or its context ends.
func (h *hook) block(ctx context.Context) error {
	h.inside <- pawl.Info(ctx).Run
	select {
	case <-h.gate:
		return nil
	case <-ctx.Done():
		h.ended(context.Cause(ctx))
		return ctx.Err()
	}
}

// Order is the input of both workflows. Do says what the run is to do.
type order struct {
	Text  string   `json:"text"`
	Do    string   `json:"do,omitempty"`
	N     int      `json:"n,omitempty"`
	Names []string `json:"names,omitempty"`
}

// reply is what a person says.
type reply struct {
	Yes  bool   `json:"yes"`
	Note string `json:"note,omitempty"`
}

// paper is the state of both workflows.
type paper struct {
	Order order    `json:"order"`
	Reply reply    `json:"reply"`
	Lines []string `json:"lines"`
}

type output struct {
	Text  string   `json:"text"`
	Lines []string `json:"lines"`
	Yes   bool     `json:"yes"`
}

func workflows(t *testing.T, h *hook) []*pawl.Workflow {
	inner := graph(h, "inner", nil)
	out := make([]*pawl.Workflow, 0, 2)
	for _, g := range []*pawl.Graph[order, paper, output]{graph(h, "desk", inner), inner} {
		w, err := g.Build()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, w)
	}
	return out
}

// graph sorts an order to the node that does what it says. inner, if given, is what it runs as a child or in the
// background.
func graph(h *hook, name string, inner *pawl.Graph[order, paper, output]) *pawl.Graph[order, paper, output] {
	g := pawl.New[order, paper, output](name, pawl.Options{Version: "1", Budget: pawl.Budget{"llm": 5}, Positional: []string{"text"}})
	sort := g.Node("sort", func(_ context.Context, p paper) (paper, error) { return p.line("sorted"), nil })
	done, refused := g.Succeed("DONE", pawl.End[paper]{Outcome: "fine"}), g.Fail("REFUSED", pawl.End[paper]{
		Error: func(p paper) error { return &pawl.Error{Code: "refused", Text: "a person refused " + p.Order.Text} },
	})
	g.Start(sort, func(o order) (paper, error) {
		if o.Text == "" {
			return paper{}, errors.New("text is empty: there is nothing to do")
		}
		return paper{Order: o}, nil
	})
	nodes := map[string]pawl.Node[paper]{
		"ask":      g.Node("ask", ask),
		"deadline": g.Node("deadline", deadline),
		"two":      g.Node("two", two),
		"block":    g.Node("block", func(ctx context.Context, p paper) (paper, error) { return p.line("unblocked"), h.block(ctx) }),
		"fail":     g.Node("fail", fail),
		"write":    g.Node("write", write),
	}
	names := []string{"ask", "deadline", "two", "block", "fail", "write"}
	if inner != nil {
		nodes["child"] = pawl.Sub(g, "child", inner, child, func(p paper, o output) (paper, error) { return p.line("child: " + o.Text), nil })
		nodes["spawn"] = g.Node("spawn", func(ctx context.Context, p paper) (paper, error) {
			id, err := pawl.Enqueue(ctx, "later", inner, order{Text: "in the background", Do: "block"})
			if err != nil {
				return p, err
			}
			return p.line(id), nil
		})
		names = append(names, "child", "spawn")
	}
	e := g.From(sort)
	for _, n := range names {
		e.When(n, func(p paper) bool { return p.Order.Do == n || n == "fail" && p.Order.Do == "flaky" }, nodes[n])
	}
	e.Otherwise(done)
	for _, n := range names {
		if n == "spawn" {
			g.From(nodes[n]).Otherwise(nodes["ask"]) // it goes on waiting
			continue
		}
		g.From(nodes[n]).When("refused", func(p paper) bool { return p.Reply.Note == "refuse" }, refused).Otherwise(done)
	}
	g.Finish(func(p paper, e pawl.Ending) (output, error) {
		return output{Text: p.Order.Text, Lines: p.Lines, Yes: p.Reply.Yes}, nil
	})
	g.Closing(func(_ paper, e pawl.Ending) []pawl.Event { return []pawl.Event{{Type: "closed", Data: e.Terminal}} })
	return g
}

func (p paper) line(s string) paper {
	p.Lines = append(append([]string(nil), p.Lines...), s)
	return p
}

func ask(ctx context.Context, p paper) (paper, error) {
	r, err := pawl.Ask[reply](ctx, "content", pawl.Question{Text: "Is " + p.Order.Text + " good?", Choices: []string{"yes", "no"}, Data: p.Order})
	p.Reply = r
	return p, err
}

func deadline(ctx context.Context, p paper) (paper, error) {
	r, err := pawl.Ask[reply](ctx, "soon", pawl.Question{Text: "Quick!", For: 30 * time.Millisecond})
	if errors.Is(err, pawl.ErrDeadline) {
		return p.line("nobody answered"), nil
	}
	p.Reply = r
	return p, err
}

// two asks two questions at once.
func two(ctx context.Context, p paper) (paper, error) {
	var wg sync.WaitGroup
	var errs [2]error
	var rs [2]reply
	for i := range rs {
		wg.Go(func() {
			rs[i], errs[i] = pawl.Ask[reply](ctx, fmt.Sprintf("q%d", i), pawl.Question{Text: "Yes or no?"})
		})
	}
	wg.Wait()
	p.Reply = reply{Yes: rs[0].Yes && rs[1].Yes}
	return p, errors.Join(errs[:]...)
}

// fail fails: always, or in the first attempt.
func fail(ctx context.Context, p paper) (paper, error) {
	if a := pawl.Info(ctx).Attempt; p.Order.Do == "fail" || a == 1 {
		return p, &pawl.Error{Code: "broken", Text: fmt.Sprintf("attempt %d is broken", a)}
	}
	return p.line("mended"), nil
}

// write makes N recorded calls, each of which says so.
func write(ctx context.Context, p paper) (paper, error) {
	for i := range max(p.Order.N, 1) {
		s, err := pawl.Do(ctx, fmt.Sprintf("line %d", i), func(ctx context.Context) (string, error) {
			pawl.Annotate(ctx, "model", "pen")
			return fmt.Sprintf("%s %d", p.Order.Text, i), nil
		}, pawl.CallOptions{For: i, Charge: pawl.Budget{"llm": 1}})
		if err != nil {
			return p, err
		}
		p = p.line(s)
		if err := pawl.Emit(ctx, "line", s); err != nil {
			return p, err
		}
	}
	return p, pawl.Note(ctx, "policy_applied", map[string]int{"n": p.Order.N})
}

// child is the input of the child: what Names say it is to do.
func child(p paper) (order, error) {
	o := order{Text: "inner " + p.Order.Text}
	if len(p.Order.Names) > 0 {
		o.Do = p.Order.Names[0]
	}
	return o, nil
}
