package pawl_test

import (
	"testing"

	"pawl"
)

// The wirings of five agents, as tests of the language: what real graphs need can be said and is accepted. Their nodes do
// nothing; the agents themselves are under workflows/.

func TestWirings(t *testing.T) {
	reuse := reuseAgent{solve: reuseSolve(), video: reuseVideo(), reindex: reuseReindex()}
	for _, w := range []struct {
		g interface {
			Build() (*pawl.Workflow, error)
		}
		nodes, children int
	}{
		{visualGraph(visualAgent{}), 8, 0},
		{reuseGraph(reuse), 9, 1},
		{reuse.video, 12, 0},
		{reuse.reindex, 2, 0},
		{brainGraph(brainAgent{}), 9, 0},
		{ncoGraph(ncoAgent{Turns: 5}), 6, 0},
		{qualifierGraph(qualifierAgent{chunk: qualifierChunk()}), 17, 1},
	} {
		b := mustBuild(t, w.g)
		if n := len(b.Program().Shape.Nodes); n != w.nodes || len(b.Children()) != w.children {
			t.Errorf("%s: %d nodes and %d children, want %d and %d", b.ID(), n, len(b.Children()), w.nodes, w.children)
		}
	}
}

// TestWiringsRun takes the way that each graph has when its nodes change nothing.
func TestWiringsRun(t *testing.T) {
	ctx := t.Context()
	if _, err := pawl.Execute(ctx, visualGraph(visualAgent{}), visualInput{PersonA: "a", PersonB: "a"}, pawl.Strict); pawl.Coded(err).Code != pawl.CodeInvalid {
		t.Errorf("the same name twice: %v", err)
	}
	// Nothing is ever found: S2 ⇄ S3 ⇄ S4 go on until the expansions are spent, and the error edge says so.
	out, err := pawl.Execute(ctx, visualGraph(visualAgent{}), visualInput{PersonA: "a", PersonB: "b"}, pawl.Strict)
	if out.Reason != "budget:expansion" || pawl.Coded(err).Code != "budget:expansion" || pawl.Coded(err).Node != "S7" {
		t.Errorf("visual: %+v, %v", out, err)
	}
	reuse := reuseAgent{solve: reuseSolve(), video: reuseVideo(), reindex: reuseReindex()}
	if out, err := pawl.Execute(ctx, reuseGraph(reuse), reuseInput{Text: "2+2"}, pawl.Strict); err != nil || !out.VideoPending || out.CostUSD != pawl.Dollars(0.011) || out.AttemptNo != 1 {
		t.Errorf("reuse: %+v, %v", out, err)
	}
	if out, err := pawl.Execute(ctx, brainGraph(brainAgent{}), brainPlan{MaxValidationRuns: 9}, pawl.Strict); err != nil || out.Status != "completed_with_errors" {
		t.Errorf("brain: %+v, %v", out, err)
	} else if n := len(out.Steps); n != 17 { // five rounds of three, then initialize and finalize
		t.Errorf("brain: %d steps %v", n, out.Steps)
	}
	if _, err := pawl.Execute(ctx, ncoGraph(ncoAgent{Turns: 2}), ncoInput{Text: "teacher"}, pawl.Strict); pawl.Coded(err).Code != pawl.CodeWaiting {
		t.Errorf("nco: %v", err)
	}
	if out, err := pawl.Execute(ctx, qualifierGraph(qualifierAgent{chunk: qualifierChunk()}), qualifierInput{}, pawl.Strict); err != nil || out.Routing != "" {
		t.Errorf("qualifier: %+v, %v", out, err)
	}
}
