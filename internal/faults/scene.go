package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// Scene is a trial in which every operation is made at least once: a run with every kind of node, one that is cancelled
// and tried again, one that expires, one that waits in a version that is gone, and a fork.
type Scene struct {
	Store store.Store
	Cut   func(on bool)
	Plan  Plan // of the client and of all workers together
	Want  *SceneResult
	Plant Plant
}

// SceneResult is what two plays of the scene must agree on.
type SceneResult struct {
	Result
	Fork  string            // the end of the fork
	Made  map[Operation]int // how often each operation was made
	Trial *Trial
}

// Passes counts the operations of a calm play.
type Passes struct {
	mu   sync.Mutex
	made map[Operation]int
}

// Write counts and passes.
func (p *Passes) Write(kinds []Operation) Act {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made == nil {
		p.made = map[Operation]int{}
	}
	for _, k := range kinds {
		p.made[k]++
	}
	return Pass
}

// Read passes.
func (p *Passes) Read() Act { return Pass }

// Hit cannot be.
func (p *Passes) Hit(Point) {}

// mainPlan has a node of every kind that matters, in a fixed order.
func mainPlan() *GraphPlan {
	g := &GraphPlan{name: "main", fuel: 100}
	small := func(name string) *GraphPlan {
		return &GraphPlan{name: name, fuel: 10, nodes: []nodePlan{{kind: kindCalls, n: 1, back: -1, takes: 300 * time.Millisecond}, {kind: kindEmit, n: 1, back: -1}}}
	}
	for i, n := range []nodePlan{
		{kind: kindPlain, takes: 12 * time.Second}, {kind: kindCalls, n: 2, takes: time.Second}, {kind: kindEmit, n: 2}, {kind: kindAsk, n: 1},
		{kind: kindSleep, takes: 3 * time.Second}, {kind: kindFlaky, n: 1, takes: 4 * time.Second}, {kind: kindStubborn, n: 1, takes: 8 * time.Second},
		{kind: kindSub}, {kind: kindEach, n: 2, limit: 2}, {kind: kindLater}, {kind: kindPlain, takes: time.Second},
	} {
		n.back = -1
		if n.kind == kindSub || n.kind == kindEach || n.kind == kindLater {
			n.child = small(fmt.Sprint("main-", i))
		}
		g.nodes = append(g.nodes, n)
	}
	return g
}

// flows are the graphs of a scene; version is that of the one whose runs are carried over.
func flows(w *World, version string) ([]*pawl.Workflow, error) {
	out, err := mainPlan().Workflows(w)
	if err != nil {
		return nil, err
	}
	one := func(name, version string, o pawl.Options, n nodePlan) *graph {
		o.Version = version
		g := pawl.New[Job, State, Done](name, o)
		run := n.body(w)
		if name == "beside" { // the input says how long
			run = func(ctx context.Context, s State) (State, error) {
				return s, wait(ctx, time.Duration(s.Sum)*time.Millisecond)
			}
		}
		a := g.Node("node", run)
		g.Start(a, func(j Job) (State, error) { return State{Path: j.Path, Sum: j.Sum}, nil })
		g.From(a).Otherwise(g.Succeed("DONE"))
		g.Finish(func(s State, _ pawl.Ending) (Done, error) { return Done{s.Sum, s.Log}, nil })
		return g
	}
	old := one("old", version, pawl.Options{}, nodePlan{kind: kindAsk, n: 1})
	if version == "2" {
		old.Migrate("1", func(m pawl.Migration) (pawl.Migration, error) { return m, nil })
	}
	for _, g := range []*graph{
		one("brief", "1", pawl.Options{Retain: 20 * time.Second}, nodePlan{kind: kindPlain}),
		one("beside", "1", pawl.Options{}, nodePlan{}),
		one("doomed", "1", pawl.Options{}, nodePlan{kind: kindSleep, takes: time.Hour}),
		old,
	} {
		wf, err := g.Build()
		if err != nil {
			return nil, err
		}
		out = append(out, wf)
	}
	return out, nil
}

// Play plays the scene. Without Want it is the play that gives it.
func (s *Scene) Play() (*SceneResult, []string, error) {
	t := &Trial{Store: s.Store, Cut: s.Cut, Seen: NewWitness(), Workers: s.Plan, Client: s.Plan, Staff: 2, Told: true, Plant: s.Plant}
	t.World = NewWorld(t.Seen)
	var err error
	if t.Flows, err = flows(t.World, "2"); err != nil {
		return nil, nil, err
	}
	out := &SceneResult{Trial: t}
	var broken []string
	t.Before, t.During = s.before, s.during
	t.After = func(t *Trial) error {
		if err := s.expired(t); err != nil {
			return err
		}
		l, err := leftOf(t)
		if err != nil {
			return err
		}
		out.Result = *l.result(t.loose)
		var want *Result
		if s.Want != nil {
			want = &s.Want.Result
		}
		if broken = l.all(want); len(broken) > 0 {
			return nil
		}
		if err := s.beside(t, "second", 20*time.Second); err != nil {
			return err
		}
		if err := s.retried(t, l); err != nil {
			return err
		}
		if err := Forked(t, func(int) int { return 4 }); err != nil {
			return err
		}
		if l, err = leftOf(t); err != nil {
			return err
		}
		if out.Fork, err = l.forks(); err != nil {
			return err
		}
		if broken = l.all(nil); s.Want != nil && out.Fork != s.Want.Fork {
			broken = append(broken, "I4: the end of the fork is "+out.Fork+"\n\twant "+s.Want.Fork)
		}
		return nil
	}
	if err := t.Play(); err != nil {
		return nil, nil, err
	}
	if p, ok := s.Plan.(*Passes); ok {
		out.Made = p.made
	}
	return out, append(broken, t.Seen.Broken()...), nil
}

// before brings the run of the old version to its question.
func (s *Scene) before(t *Trial) error {
	ws, err := flows(t.World, "1")
	if err != nil {
		return err
	}
	e, err := engine.New(t.Store, ws, t.config())
	if err != nil {
		return err
	}
	st, err := e.As(all).Start(t.ctx, "old", json.RawMessage(`{"path":"old","sum":3}`), pawl.StartOptions{})
	if err == nil {
		err = e.WorkRun(t.ctx, st.Run.ID)
	}
	return err
}

// beside starts a run that a worker has in hand for so long: at each death somebody's step is under way. Nothing breaks here.
func (s *Scene) beside(t *Trial, key string, takes time.Duration) error {
	e, err := engine.New(t.Store, t.Flows, t.config())
	if err != nil {
		return err
	}
	in := json.RawMessage(fmt.Sprintf(`{"path":%q,"sum":%d}`, key, takes.Milliseconds()))
	if _, err := e.As(all).Start(t.ctx, "beside", in, pawl.StartOptions{}); err != nil {
		return err
	}
	return wait(t.ctx, t.Lease)
}

// during starts the runs that expire and are cancelled.
func (s *Scene) during(t *Trial) error {
	if err := s.beside(t, "first", 100*time.Second); err != nil {
		return err
	}
	in := func(path string) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"path":%q,"sum":3}`, path)) }
	for _, name := range []string{"brief", "doomed"} {
		err := t.Command(func(ctx context.Context, rs pawl.Runs) error {
			st, err := rs.Start(ctx, name, in(name), pawl.StartOptions{Key: name})
			if err != nil || name != "doomed" {
				return err
			}
			err = rs.Cancel(ctx, st.Run.ID, "it is doomed")
			if code := pawl.Coded(err); code != nil && code.Code == pawl.CodeConflict { // by an earlier one
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// retried has the run that was cancelled tried again, and cancels it once more.
func (s *Scene) retried(t *Trial, l *left) error {
	i := slices.IndexFunc(l.runs, func(r store.Run) bool { return r.Workflow == "doomed" })
	id := l.runs[i].ID
	t.acks.retries[id] = 2
	for _, give := range []func(context.Context, pawl.Runs) error{
		func(ctx context.Context, rs pawl.Runs) error { _, err := rs.Retry(ctx, id); return err },
		func(ctx context.Context, rs pawl.Runs) error { return rs.Cancel(ctx, id, "it is doomed again") },
	} {
		err := t.Command(give)
		if code := pawl.Coded(err); code != nil && code.Code != pawl.CodeConflict { // of an earlier one
			return fmt.Errorf("doomed: %w", err)
		}
	}
	return nil
}

// expired waits until the run that is not kept is gone.
func (s *Scene) expired(t *Trial) error {
	for range 100 {
		_, all, err := t.live()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(r store.Run) bool { return r.Workflow == "brief" }) {
			return nil
		}
		if err := wait(t.ctx, 5*time.Second); err != nil {
			return err
		}
	}
	t.Seen.violation("a run that has expired is not removed")
	return nil
}

// forks is how the forks ended: all alike, however often the client had to ask.
func (l *left) forks() (string, error) {
	var ends []string
	for _, r := range l.runs {
		var head engine.Head
		if err := json.Unmarshal(r.Head, &head); err != nil {
			return "", err
		}
		if head.ForkOf != "" {
			ends = append(ends, l.endOf(r, &Result{}))
		}
	}
	slices.Sort(ends)
	return fmt.Sprint(slices.Compact(ends)), nil
}
