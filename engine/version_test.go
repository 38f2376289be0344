package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
)

// poll is a graph that counts, asks at the named node, and adds the answer times k.
func poll(version, node string, k int) *graph {
	g := blank("asking", pawl.Options{Version: version, Budget: pawl.Budget{"llm": 5}})
	count := g.Node("count", func(_ context.Context, w work) (work, error) { w.N += 10; return w, nil })
	ask := g.Node(node, func(ctx context.Context, w work) (work, error) {
		n, err := pawl.Ask[int](ctx, "n", pawl.Question{Text: "How many?"})
		w.N += k * n
		return w.line(version), err
	})
	g.Start(count, begin)
	g.From(count).Otherwise(ask)
	g.From(ask).Otherwise(g.Succeed("END"))
	return g
}

// waiting starts a run of an engine with these workflows and works it to its question.
func (r *rig) waiting(ws ...*pawl.Workflow) (run pawl.Run, question string) {
	r.Helper()
	e := r.engine(r.store, engine.Config{}, ws...)
	s, err := e.As(pawl.Caller{User: "ann"}).Start(r.ctx, "asking", json.RawMessage("1"), pawl.StartOptions{})
	if err != nil {
		r.Fatal(err)
	}
	if err := e.WorkRun(r.ctx, s.Run.ID); err != nil {
		r.Fatal(err)
	}
	qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{Run: s.Run.ID}, "", 0)
	if err != nil || len(qs) != 1 {
		r.Fatal(qs, err)
	}
	return r.get(s.Run.ID), qs[0].ID
}

// answered answers with 3 and lets an engine with these workflows work for a while.
func (r *rig) answered(run pawl.Run, question string, ws ...*pawl.Workflow) pawl.Run {
	r.Helper()
	if err := r.rs.Answer(r.ctx, run.ID, question, json.RawMessage("3")); err != nil {
		r.Fatal(err)
	}
	return r.later(run, ws...)
}

func (r *rig) later(run pawl.Run, ws ...*pawl.Workflow) pawl.Run {
	r.Helper()
	stop := r.worker(r.engine(r.store, engine.Config{}, ws...))
	time.Sleep(3 * time.Minute)
	stop()
	return r.get(run.ID)
}

func (r *rig) held(run pawl.Run, reasons ...string) {
	r.Helper()
	if run.Status != pawl.StatusWaiting {
		r.Fatalf("the run is %s at %s (error %v), want it held", run.Status, run.Node, run.Err)
	}
	for _, w := range run.Waits {
		if w.Kind == pawl.WaitsForVersion {
			for _, reason := range reasons {
				if !strings.Contains(w.Reason, reason) {
					r.Errorf("the reason does not name %q: %s", reason, w.Reason)
				}
			}
			return
		}
	}
	r.Fatalf("the run is not held: waits %+v", run.Waits)
}

func TestAChangedGraphWithoutANewVersionParks(t *testing.T) {
	virtual(t, func(r *rig) {
		old, changed := build(t, poll("1", "ask", 1)), build(t, poll("1", "renamed", 1))
		run, q := r.waiting(old)
		before, err := r.rs.State(r.ctx, run.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		run = r.answered(run, q, changed)
		r.held(run, "asking@1", "changed without a new version")
		if after, err := r.rs.State(r.ctx, run.ID, 0); err != nil || string(after) != string(before) {
			t.Errorf("the state has changed: %s, %s, %v", before, after, err)
		}
		steps := run.Steps
		if run = r.later(run, changed); run.Steps != steps {
			t.Errorf("it is held again and again: %d steps, then %d", steps, run.Steps)
		}
		if run = r.later(run, old); run.Status != pawl.StatusSucceeded || output(t, run).N != 14 {
			t.Errorf("with its own graph: %+v", run)
		}
	}, build(t, poll("1", "ask", 1)))
}

func TestBoundsAndCapsNeedNoNewVersion(t *testing.T) {
	virtual(t, func(r *rig) {
		run, q := r.waiting()
		if run = r.answered(run, q, build(t, poll("1", "ask", 2))); run.Status != pawl.StatusSucceeded || output(t, run).N != 17 {
			t.Errorf("run %+v", run)
		}
	}, build(t, poll("1", "ask", 1)))
}

func TestAGoneVersionParksAndResumesWhenItIsRegistered(t *testing.T) {
	virtual(t, func(r *rig) {
		one, two := build(t, poll("1", "ask", 1)), build(t, poll("2", "renamed", 100))
		run, q := r.waiting(one)
		run = r.answered(run, q, two)
		r.held(run, "version 1")
		if run = r.later(run, one, two); run.Status != pawl.StatusSucceeded || output(t, run).N != 14 || run.Version != "1" {
			t.Errorf("with both: %+v", run)
		}
		s, err := r.engine(r.store, engine.Config{}, one, two).As(pawl.Caller{}).Start(r.ctx, "asking", json.RawMessage("1"), pawl.StartOptions{})
		if err != nil || s.Run.Version != "2" {
			t.Errorf("a new run gets version %s, %v", s.Run.Version, err)
		}
	}, build(t, poll("1", "ask", 1)))
}

func TestAHeldRunCanBeCancelled(t *testing.T) {
	for name, other := range map[string]*graph{"changed": poll("1", "renamed", 1), "gone": poll("2", "ask", 1)} {
		virtual(t, func(r *rig) {
			run, q := r.waiting()
			w := build(t, other)
			r.held(r.answered(run, q, w))
			if err := r.rs.Cancel(r.ctx, run.ID, "give up"); err != nil {
				t.Fatal(err)
			}
			if run = r.later(run, w); run.Status != pawl.StatusCancelled {
				t.Errorf("%s: the run is %s, waits %+v", name, run.Status, run.Waits)
			}
		}, build(t, poll("1", "ask", 1)))
	}
}

func migrating(f func(pawl.Migration) (pawl.Migration, error)) *graph {
	g := poll("2", "renamed", 100)
	g.Migrate("1", f)
	return g
}

func TestMigrate(t *testing.T) {
	virtual(t, func(r *rig) {
		run, q := r.waiting()
		w := build(t, migrating(func(m pawl.Migration) (pawl.Migration, error) {
			if m.Node != "ask" || stateOf(t, m.State).N != 11 {
				t.Errorf("migration %+v", m)
			}
			return pawl.Migration{Node: "renamed", State: []byte(`{"N":1000,"Text":"moved","Log":null}`)}, nil
		}))
		run = r.answered(run, q, w)
		if run.Version != "2" || run.Node != "renamed" || run.Status != pawl.StatusWaiting {
			t.Fatalf("run %+v", run)
		}
		qs, err := r.rs.Questions(r.ctx, pawl.QuestionFilter{Run: run.ID}, "", 0)
		if err != nil || len(qs) != 1 || qs[0].ID == q {
			t.Fatalf("the new node asks by itself: %+v, %v", qs, err)
		}
		run = r.answered(run, qs[0].ID, w)
		if run.Status != pawl.StatusSucceeded || output(t, run).N != 1300 || r.events(run.ID)["pawl.migrated"] != 1 {
			t.Errorf("run %+v", run)
		}
	}, build(t, poll("1", "ask", 1)))
}

// TestAMigrationThatFailsHolds: never a failed run, never another graph in silence.
func TestAMigrationThatFailsHolds(t *testing.T) {
	for name, f := range map[string]func(pawl.Migration) (pawl.Migration, error){
		"error":   func(m pawl.Migration) (pawl.Migration, error) { return m, errors.New("cannot be carried over") },
		"panic":   func(pawl.Migration) (pawl.Migration, error) { panic("boom") },
		"no node": func(m pawl.Migration) (pawl.Migration, error) { m.Node = "nowhere"; return m, nil },
		"end":     func(m pawl.Migration) (pawl.Migration, error) { m.Node = "END"; return m, nil },
		"state": func(m pawl.Migration) (pawl.Migration, error) {
			return pawl.Migration{Node: "renamed", State: []byte(`{"N":"x"}`)}, nil
		},
	} {
		virtual(t, func(r *rig) {
			run, q := r.waiting()
			run = r.answered(run, q, build(t, migrating(f)))
			r.held(run, "migration from version 1")
			if run.Version != "1" || run.Node != "ask" {
				t.Errorf("%s: run %+v", name, run)
			}
			if run = r.later(run, build(t, poll("1", "ask", 1))); run.Status != pawl.StatusSucceeded || output(t, run).N != 14 {
				t.Errorf("%s: with its own version: %+v", name, run)
			}
		}, build(t, poll("1", "ask", 1)))
	}
}

// TestAForkStaysWithinItsVersion: a state of before a migration is none of the graph that the run has by now. The migrated one is.
func TestAForkStaysWithinItsVersion(t *testing.T) {
	virtual(t, func(r *rig) {
		run, q := r.waiting()
		w := build(t, migrating(func(m pawl.Migration) (pawl.Migration, error) {
			return pawl.Migration{Node: "renamed", State: []byte(`{"N":1000,"Text":"moved","Log":null}`)}, nil
		}))
		run = r.answered(run, q, w)
		rs := r.engine(r.store, engine.Config{}, w).As(pawl.Caller{User: "ann"})
		ss, err := rs.Steps(r.ctx, run.ID, 0, 0)
		if err != nil || run.Version != "2" {
			t.Fatalf("version %s, %v", run.Version, err)
		}
		forks := 0
		for _, s := range ss {
			f, err := rs.Fork(r.ctx, run.ID, s.Seq, nil)
			switch {
			case s.Version == "1":
				named(t, pawl.Coded(err), pawl.CodeConflict, "version 1", "version 2")
			case err != nil || f.Version != "2" || f.Node != "renamed":
				t.Errorf("step %d: fork %+v, %v", s.Seq, f, err)
			default:
				forks++
			}
			if s.Name == "migrate" && s.Version != "2" {
				t.Errorf("the state of the migration is told as one of version %s", s.Version)
			}
		}
		if forks == 0 {
			t.Errorf("steps %+v", ss)
		}
	}, build(t, poll("1", "ask", 1)))
}

// TestARunWhoseVersionALiveWorkerHasIsNotHeld by one that does not have it: its turn comes.
func TestARunWhoseVersionALiveWorkerHasIsNotHeld(t *testing.T) {
	slow := func(version string) *graph {
		g := blank("roll", pawl.Options{Version: version})
		a := g.Node("node", func(_ context.Context, w work) (work, error) { time.Sleep(5 * time.Minute); return w, nil })
		g.Start(a, begin)
		g.From(a).Otherwise(g.Succeed("END"))
		return g
	}
	virtual(t, func(r *rig) {
		old, latest := build(t, slow("1")), build(t, slow("2"))
		b := r.engine(r.store, engine.Config{Slots: 1}, old, latest)
		stop := r.worker(b)
		var ids []string
		for range 4 {
			s, err := b.As(pawl.Caller{User: "ann"}).Start(r.ctx, "roll", json.RawMessage("1"), pawl.StartOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, s.Run.ID)
		}
		time.Sleep(time.Second)
		defer r.worker(r.engine(r.store, engine.Config{}, old))()
		for _, id := range ids[:3] {
			r.untilEnd(id, time.Hour)
			if n := r.events(id)["pawl.held"]; n > 0 {
				t.Errorf("run %s was held %d times", id, n)
			}
		}
		stop() // drains behind the last one, or before it
		time.Sleep(3 * time.Minute)
		if run := r.get(ids[3]); run.Status != pawl.StatusSucceeded {
			r.held(run, "version 2")
		}
	}, build(t, slow("1")))
}
