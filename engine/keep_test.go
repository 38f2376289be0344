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
	"pawl/pawltest"
	"pawl/store"
)

func TestRetainEndsWithASweep(t *testing.T) {
	brief := one(func(_ context.Context, w work) (work, error) { return w, nil }, pawl.Options{Retain: 10 * time.Minute})
	lasting := two(func(_ context.Context, w work) (work, error) { return w, nil },
		func(_ context.Context, w work) (work, error) { return w, nil }, pawl.Options{})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		a, b := r.ends(r.start("one", 1).ID, pawl.StatusSucceeded), r.ends(r.start("two", 1).ID, pawl.StatusSucceeded)
		time.Sleep(9 * time.Minute)
		r.get(a.ID)
		time.Sleep(5 * time.Minute)
		if run, err := r.rs.Get(r.ctx, a.ID); pawl.Coded(err) == nil || pawl.Coded(err).Code != pawl.CodeNotFound {
			t.Errorf("still there: %+v, %v", run, err)
		}
		r.get(b.ID)
	}, build(t, brief), build(t, lasting))
}

// laborious is a store that never comes to an end with what has expired.
type laborious struct{ store.Store }

func (l laborious) Expire(ctx context.Context, _ int) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// No run waits until what has expired is removed, nor does the end of a worker.
func TestNobodyWaitsForWhatHasExpired(t *testing.T) {
	g := one(func(_ context.Context, w work) (work, error) { return w, nil }, pawl.Options{})
	virtual(t, func(r *rig) {
		began := time.Now()
		e := r.engine(laborious{r.store}, engine.Config{})
		defer r.worker(e)()
		r.ends(r.start("one", 1).ID, pawl.StatusSucceeded)
		if err := e.WorkRun(r.ctx, r.start("one", 2).ID); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("it took %s", d)
		}
	}, build(t, g))
}

// TestEnqueueHonorsItsOptions and inherits what they leave open.
func TestEnqueueHonorsItsOptions(t *testing.T) {
	own := pawl.StartOptions{Sensitivity: "high", Correlation: "c-2", Traceparent: "00-22222222222222222222222222222222-2222222222222222-01"}
	from := pawl.StartOptions{Sensitivity: "low", Correlation: "c-1", Traceparent: "00-11111111111111111111111111111111-1111111111111111-01"}
	for name, c := range map[string]struct{ given, want pawl.StartOptions }{"its own": {own, own}, "inherited": {pawl.StartOptions{}, from}} {
		bg := sleeper(func(ctx context.Context, w work) (work, error) {
			i := pawl.Info(ctx)
			return w.line(i.Sensitivity).line(i.Correlation), nil
		})
		g := one(func(ctx context.Context, w work) (work, error) {
			return w, second(pawl.Enqueue(ctx, "b", bg, 1, c.given))
		}, pawl.Options{})
		virtual(t, func(r *rig) {
			defer r.worker(r.engine(r.store, engine.Config{}))()
			r.ends(r.start("one", 1, from).ID, pawl.StatusSucceeded)
			time.Sleep(time.Minute)
			rs, err := r.rs.List(r.ctx, pawl.RunFilter{Workflow: "sleeper"}, "", 0)
			if err != nil || len(rs) != 1 {
				t.Fatal(rs, err)
			}
			if w := output(t, r.ends(rs[0].ID, pawl.StatusSucceeded)); w.Log[0] != c.want.Sensitivity || w.Log[1] != c.want.Correlation {
				t.Errorf("%s: %v", name, w.Log)
			}
			at, err := r.store.Get(r.ctx, store.Scope{All: true}, rs[0].ID)
			var head engine.Head
			if err := errors.Join(err, json.Unmarshal(at.Head, &head)); err != nil || head.Traceparent != c.want.Traceparent {
				t.Errorf("%s: traceparent %q, %v", name, head.Traceparent, err)
			}
		}, build(t, g), build(t, bg))
	}
}

// TestACancelOutdoesACrashLoop: the letter lies there when the run is claimed for the last time.
func TestACancelOutdoesACrashLoop(t *testing.T) {
	g := one(func(ctx context.Context, w work) (work, error) { return w, second(do(ctx, "kills", &tally{})) }, pawl.Options{})
	g.Closing(func(_ work, e pawl.Ending) []pawl.Event { return []pawl.Event{{Type: "closed", Data: e.Terminal}} })
	c := pawltest.ErrCrash
	r := pawltest.Run(t, g, 1, pawltest.Script{Cancel: 45 * time.Second, Fail: map[string][]error{"kills": {c, c, c, c, c, c, c, c, c}}})
	ended(t, r, pawl.StatusCancelled, pawl.TerminalCancelled)
	if got := r.Emitted("closed"); len(got) != 1 || len(r.Writes) != pawl.MaxClaims+1 {
		t.Errorf("closed %v, workers %v", got, r.Writes)
	}
}

func TestStartAndForkAreAudited(t *testing.T) {
	g := one(func(_ context.Context, w work) (work, error) { return w, nil }, pawl.Options{})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.ends(r.start("one", 1).ID, pawl.StatusSucceeded)
		fork, err := r.rs.Fork(r.ctx, run.ID, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		for id, did := range map[string]string{run.ID: "start", fork.ID: "fork"} {
			rows, err := r.store.Read(r.ctx, store.Scope{All: true}, id, store.Query{Stream: store.Audit})
			if err != nil || len(rows) != 1 || !strings.Contains(string(rows[0].Data), `"`+did+`"`) || !strings.Contains(string(rows[0].Data), `"ann"`) {
				t.Errorf("%s: audit %+v, %v", did, rows, err)
			}
		}
	}, build(t, g))
}

// TestAForkBehindANoteBeginsAtTheNextNode and not at the one that left the note.
func TestAForkBehindANoteBeginsAtTheNextNode(t *testing.T) {
	made := &tally{}
	g := two(func(ctx context.Context, w work) (work, error) {
		made.add("first")
		w.N *= 2
		return w, pawl.Note(ctx, "policy_applied", 1)
	}, func(ctx context.Context, w work) (work, error) { return w, pawl.Sleep(ctx, "s", time.Minute) }, pawl.Options{})
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.becomes(r.start("two", 1).ID, pawl.StatusWaiting)
		ss, err := r.rs.Steps(r.ctx, run.ID, 0, 0)
		if err != nil || len(ss) == 0 {
			t.Fatal(ss, err)
		}
		seq := map[string]int64{}
		for _, s := range ss {
			seq[s.Name] = s.Seq
		}
		for _, step := range []int64{0, seq["first"], seq["policy_applied"]} {
			fork, err := r.rs.Fork(r.ctx, run.ID, step, nil)
			if err != nil || fork.Node != "second" {
				t.Errorf("the fork of step %d begins at %s, %v", step, fork.Node, err)
				continue
			}
			if w := output(t, r.ends(fork.ID, pawl.StatusSucceeded)); w.N != 2 {
				t.Errorf("the fork of step %d made %+v", step, w)
			}
		}
		if r.ends(run.ID, pawl.StatusSucceeded); made.of("first") != 1 {
			t.Errorf("the first node ran %d times", made.of("first"))
		}
	}, build(t, g))
}

// spoiled is a state that can be stored but, once it is, not be read.
type spoiled struct{ N int }

func (s spoiled) MarshalJSON() ([]byte, error) { return json.Marshal(s.N) }

func (s *spoiled) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &s.N); err != nil {
		return err
	}
	if s.N == 13 {
		return errors.New("13 cannot be read")
	}
	return nil
}

func sour() *pawl.Graph[int, spoiled, int] {
	g := pawl.New[int, spoiled, int]("asking", pawl.Options{Version: "1"})
	a := g.Node("a", func(context.Context, spoiled) (spoiled, error) { return spoiled{13}, nil })
	b := g.Node("b", func(ctx context.Context, s spoiled) (spoiled, error) {
		_, err := pawl.Ask[int](ctx, "n", pawl.Question{})
		return s, err
	})
	g.Start(a, func(n int) (spoiled, error) { return spoiled{n}, nil })
	g.From(a).Otherwise(b)
	g.From(b).Otherwise(g.Succeed("END"))
	g.Finish(func(s spoiled, _ pawl.Ending) (int, error) { return s.N, nil })
	return g
}

// TestARunThatCannotBeReadCanBeCancelled, and nobody writes to it by the minute while it is held.
func TestARunThatCannotBeReadCanBeCancelled(t *testing.T) {
	no := build(t, migrating(func(m pawl.Migration) (pawl.Migration, error) { return m, errors.New("cannot be carried over") }))
	for name, c := range map[string]struct {
		first, then *pawl.Workflow
		reason      string
	}{
		"failed migration":   {build(t, poll("1", "ask", 1)), no, "migration from version 1"},
		"undecodable state":  {build(t, sour()), build(t, sour()), "13 cannot be read"},
		"changed, same name": {build(t, poll("1", "ask", 1)), build(t, poll("1", "renamed", 1)), "changed without"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				run, q := r.waiting(c.first)
				run = r.answered(run, q, c.then)
				r.held(run, c.reason)
				stop := r.worker(r.engine(r.store, engine.Config{}, c.then))
				defer stop()
				time.Sleep(time.Minute)
				before, steps := r.letters(run.ID), r.get(run.ID).Steps
				time.Sleep(4 * time.Hour)
				if n := r.letters(run.ID) - before; n > 3 {
					t.Errorf("%d letters to a held run in four hours, %d steps", n, r.get(run.ID).Steps-steps)
				}
				if err := r.rs.Cancel(r.ctx, run.ID, "give up"); err != nil {
					t.Fatal(err)
				}
				r.ends(run.ID, pawl.StatusCancelled)
				before = r.letters(run.ID)
				time.Sleep(4 * time.Hour)
				if n := r.letters(run.ID) - before; n > 0 {
					t.Errorf("%d letters to a run that was cancelled", n)
				}
			}, c.first)
		})
	}
}

// letters counts all that a run was ever told.
func (r *rig) letters(id string) int {
	r.Helper()
	rows, err := r.store.Read(r.ctx, store.Scope{All: true}, id, store.Query{Stream: store.Inbox})
	if err != nil {
		r.Fatal(err)
	}
	return len(rows)
}

// grenade is a state that goes off when 2 is stored, and when 3 is read.
type grenade struct{ N int }

func (g grenade) MarshalJSON() ([]byte, error) {
	if g.N == 2 {
		panic("boom")
	}
	return json.Marshal(g.N)
}

func (g *grenade) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &g.N); err != nil {
		return err
	}
	if g.N == 3 {
		panic("boom")
	}
	return nil
}

// TestAPanicInTheStatesJSONStaysInThatRun: one that cannot be stored fails, one that cannot be read is held, as another build
// may read it. Nothing else is touched.
func TestAPanicInTheStatesJSONStaysInThatRun(t *testing.T) {
	g := pawl.New[int, grenade, int]("grenade", pawl.Options{Version: "1", Retry: pawl.Retry{Max: 2}})
	a := g.Node("a", func(_ context.Context, s grenade) (grenade, error) { return grenade{s.N - 10}, nil })
	b := g.Node("b", func(ctx context.Context, s grenade) (grenade, error) { return s, pawl.Sleep(ctx, "s", time.Minute) })
	g.Start(a, func(n int) (grenade, error) { return grenade{n}, nil })
	g.From(a).Otherwise(b)
	g.From(b).Otherwise(g.Succeed("END"))
	g.Finish(func(s grenade, _ pawl.Ending) (int, error) { return s.N, nil })
	fine := one(func(ctx context.Context, w work) (work, error) { return w, pawl.Sleep(ctx, "s", time.Minute) }, pawl.Options{})
	for name, in := range map[string]int{"stored by a node": 12, "read after a sleep": 13, "read at first": 3} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				defer r.worker(r.engine(r.store, engine.Config{}))()
				other := r.start("one", 1)
				if run := r.start("grenade", in); in == 12 {
					named(t, r.ends(run.ID, pawl.StatusFailed).Err, pawl.CodeInternal, "panic", "boom")
				} else {
					held := func(x pawl.Run) bool { return len(x.Waits) > 0 && x.Waits[len(x.Waits)-1].Kind == pawl.WaitsForVersion }
					r.held(r.until(run.ID, "held", held), "boom")
				}
				if good := r.ends(r.start("grenade", 15).ID, pawl.StatusSucceeded); string(good.Output) != "5" {
					t.Errorf("output %s", good.Output)
				}
				r.ends(other.ID, pawl.StatusSucceeded)
			}, build(t, g), build(t, fine))
		})
	}
	t.Run("stored by Start", func(t *testing.T) { // an error of the caller: there is no run
		virtual(t, func(r *rig) {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("Start panics: %v", p)
				}
			}()
			_, err := r.rs.Start(r.ctx, "grenade", json.RawMessage("2"), pawl.StartOptions{})
			named(t, pawl.Coded(err), pawl.CodeInternal, "boom")
		}, build(t, g))
	})
}
