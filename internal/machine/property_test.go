package machine_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
)

// graph draws a graph of up to eight nodes. Unbounded cycles are fine here: the step cap ends them.
func graph(t *rapid.T) *host.Shape {
	g := &host.Shape{Name: "g", Version: "1", Fingerprint: "f"}
	work := rapid.IntRange(1, 6).Draw(t, "nodes")
	to := rapid.Custom(func(t *rapid.T) int { // mostly back to where bounds are counted, seldom to a terminal
		if rapid.IntRange(0, 9).Draw(t, "end") == 0 {
			return work + rapid.IntRange(0, 1).Draw(t, "terminal")
		}
		return rapid.IntRange(0, work-1).Draw(t, "node")
	})
	for i := range work {
		n := host.Node{Name: fmt.Sprintf("n/%d", i), Retry: host.Retry{Max: rapid.IntRange(0, 2).Draw(t, "tries")}}
		edge := func(kind host.EdgeKind, bound bool) host.Edge {
			e := host.Edge{Name: fmt.Sprintf("e/%d", len(n.Edges)+10*len(n.Errors)), Kind: kind, To: to.Draw(t, "to")}
			if bound {
				e.Max, e.PerTurn = rapid.IntRange(0, 3).Draw(t, "max"), rapid.Bool().Draw(t, "turn")
			}
			return e
		}
		for range rapid.IntRange(0, 3).Draw(t, "edges") {
			n.Edges = append(n.Edges, edge(rapid.SampledFrom([]host.EdgeKind{host.When, host.OnAnswer}).Draw(t, "kind"), true))
		}
		n.Edges = append(n.Edges, edge(host.Otherwise, false))
		for range rapid.IntRange(0, 2).Draw(t, "errors") {
			n.Errors = append(n.Errors, edge(host.OnError, true))
		}
		g.Nodes = append(g.Nodes, n)
	}
	g.Nodes = append(g.Nodes, host.Node{Name: "OK", Outcome: "OK", Kind: host.Succeed}, host.Node{Name: "BAD", Outcome: "BAD", Kind: host.Fail})
	return g
}

// life is a run to which random things happen.
type life struct {
	m     machine.Machine
	rec   *machine.Record
	now   time.Time
	epoch int64
	pen   machine.Pen
}

// TestLife lets any things happen to runs of any graphs. Whatever is decided: no bound is passed, the log grows, runtime
// does not shrink, an ended run is only restarted, what goes in is not changed, and what comes out can be stored.
func TestLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{m: machine.Machine{Shape: graph(t)}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		mv, err := l.m.Start(l.now)
		if err != nil {
			t.Fatal(err)
		}
		l.rec = mv.Next
		for range rapid.IntRange(1, 150).Draw(t, "happenings") {
			if rapid.IntRange(0, 3).Draw(t, "letter") == 0 {
				l.letter(t)
			}
			l.happen(t)
		}
	})
}

// happen decides once, by chance, and checks the decision.
func (l *life) happen(t *rapid.T) {
	l.now = l.now.Add(time.Duration(rapid.IntRange(-1_000_000, 5_000_000).Draw(t, "µs")) * time.Microsecond)
	l.epoch += int64(rapid.IntRange(0, 2).Draw(t, "claims"))
	tick := machine.Tick{
		Now: l.now, Epoch: l.epoch, Answered: rapid.IntRange(0, 4).Draw(t, "answered") == 0,
		Took: time.Duration(rapid.IntRange(0, 3_000_000).Draw(t, "took")) * time.Microsecond,
	}
	before, kept := l.rec, l.copied(t, l.rec)
	mv, err := l.decide(t, tick)
	if !reflect.DeepEqual(before, kept) {
		t.Fatalf("the decision %v changed the record that it was given:\n%+v\n%+v", mv.What, kept, before)
	}
	if err != nil {
		if !errors.Is(err, pawl.ErrTransition) {
			t.Fatalf("refused with %v", err)
		}
		return
	}
	l.legal(t, before, mv)
	l.bounds(t, before, mv, tick)
	if next := l.copied(t, mv.Next); !reflect.DeepEqual(next, mv.Next) {
		t.Fatalf("stored and read again it is another record:\n%+v\n%+v", mv.Next, next)
	}
	l.rec = mv.Next
}

func (l *life) decide(t *rapid.T, tick machine.Tick) (machine.Move, error) {
	cause := &pawl.Error{Code: "c", Text: "x"}
	if rapid.Bool().Draw(t, "runtime") {
		cause.Err = &pawl.BudgetError{Meter: pawl.MeterRuntime}
	}
	index := func() int { return rapid.IntRange(-1, 4).Draw(t, "edge") } // also one that is not there, or not open
	what := rapid.IntRange(0, 24).Draw(t, "what")
	if l.rec.Status.Ended() && what%2 == 0 {
		what = 24
	}
	var spent []int
	if rapid.IntRange(0, 5).Draw(t, "skips") == 0 {
		spent = []int{index()}
	}
	switch what {
	default:
		return l.m.Advance(l.rec, tick, index(), spent, cause)
	case 15, 16, 17:
		return l.m.Claim(l.rec, tick, index(), spent, cause, cause)
	case 18:
		return l.m.Retry(l.rec, tick, cause, time.Duration(rapid.IntRange(0, 3000).Draw(t, "after"))*time.Millisecond)
	case 19:
		return l.m.Park(l.rec, tick, l.waits(t), nil, []machine.Family{{Key: "k", N: 5, Started: rapid.IntRange(0, 5).Draw(t, "started")}})
	case 20:
		return machine.Stop(l.rec, tick, 0)
	case 21:
		return machine.Hold(l.rec, tick, rapid.SampledFrom([]string{"gone", "changed"}).Draw(t, "why"))
	case 22:
		return l.m.Migrate(l.rec, tick, rapid.SampledFrom([]string{l.rec.Node, "n/0", "OK", "none"}).Draw(t, "node"))
	case 23:
		return rapid.SampledFrom([]func() (machine.Move, error){
			func() (machine.Move, error) { return machine.Fail(l.rec, tick, cause) },
			func() (machine.Move, error) { return machine.Cancelled(l.rec, tick) },
			func() (machine.Move, error) { return machine.Merge(l.rec, tick, "owner") },
		}).Draw(t, "end")()
	case 24:
		return l.m.Restart(l.rec, "", l.now, l.epoch+1, 7, nil)
	}
}

func (l *life) waits(t *rapid.T) (out []machine.Wait) {
	for i := range rapid.IntRange(0, 3).Draw(t, "waits") {
		w := machine.Wait{Kind: rapid.SampledFrom([]string{pawl.WaitsForAnswer, pawl.WaitsForTime, pawl.WaitsForChild}).Draw(t, "kind"), Key: fmt.Sprint(i)}
		if w.Kind == pawl.WaitsForAnswer {
			w.Question = fmt.Sprint("q", i)
		}
		if rapid.Bool().Draw(t, "due") {
			w.Due = l.now.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "s")) * time.Second)
		}
		out = append(out, w)
	}
	return out
}

// letter gives the run a letter; that changes no more than what the letter is about.
func (l *life) letter(t *rapid.T) {
	letter := rapid.SampledFrom([]machine.Letter{
		{Answer: "q0"}, {Answer: "q1"}, {Wake: "x"}, {Waiter: &machine.Waiter{Run: "r"}},
		{Child: &machine.Child{Family: "k", Visit: l.rec.Visit}}, {Child: &machine.Child{Family: "k", Visit: l.rec.Visit - 1, Failed: true}},
		{Child: &machine.Child{Family: "k", Visit: l.rec.Visit, Person: 1500, Asked: l.now.Add(-2 * time.Second)}},
		{Cancel: &machine.Cancel{By: "a"}}, {Cancel: &machine.Cancel{By: "b"}},
	}).Draw(t, "letter")
	if l.rec.Status.Ended() || letter.Cancel != nil && rapid.IntRange(0, 3).Draw(t, "cancels") > 0 {
		return
	}
	before, kept := l.rec, l.copied(t, l.rec)
	next := machine.Receive(l.rec, []machine.Letter{letter}, l.rec.Inbox+1)
	if !reflect.DeepEqual(before, kept) {
		t.Fatalf("a letter changed the record that it was folded into:\n%+v\n%+v", kept, before)
	}
	if before.Cancel != nil && next.Cancel != before.Cancel {
		t.Fatal("a later cancel replaced the first")
	}
	l.rec = next
}

// legal checks what holds for every move.
func (l *life) legal(t *rapid.T, before *machine.Record, mv machine.Move) {
	next := mv.Next
	rule := slices.IndexFunc(machine.Rules, func(r machine.Rule) bool { return r.What == mv.What })
	switch r := machine.Rules[rule]; {
	case !slices.Contains(r.From, before.Status) || r.To != next.Status:
		t.Fatalf("%s led from %s to %s", mv.What, before.Status, next.Status)
	case before.Status.Ended() && mv.What != machine.Restarts:
		t.Fatalf("%s of a run that is %s", mv.What, before.Status)
	case next.Steps != before.Steps+int64(len(mv.Log)):
		t.Fatalf("%d rows make %d steps of %d", len(mv.Log), next.Steps, before.Steps)
	case (mv.State || mv.End) && len(mv.Log) == 0:
		t.Fatal("a state or an end without a row in the log")
	case mv.End != next.Status.Ended() || mv.End != (next.Ended == l.now):
		t.Fatalf("end %v of a run that is %s", mv.End, next.Status)
	case mv.End && (!mv.Release || len(next.Waits)+len(next.Families) > 0):
		t.Fatal("an ended run waits")
	case next.Visit < before.Visit || next.Visit > before.Visit+1:
		t.Fatalf("visit %d after %d", next.Visit, before.Visit)
	case next.Attempt == before.Attempt && next.Runtime < before.Runtime:
		t.Fatalf("runtime %d after %d", next.Runtime, before.Runtime)
	case next.Attempt == before.Attempt == (mv.What == machine.Restarts):
		t.Fatalf("attempt %d after %d by %s", next.Attempt, before.Attempt, mv.What)
	case !next.Status.Ended() && l.m.Shape.Index(next.Node, "") < 0:
		t.Fatalf("a live run at %q", next.Node)
	case next.Status == pawl.StatusWaiting && len(next.Waits) == 0:
		t.Fatal("a run waits for nothing")
	case mv.Release && mv.After < 0 && slices.ContainsFunc(next.Waits, func(w machine.Wait) bool { return !w.Due.IsZero() }) && mv.What != machine.Holds:
		t.Fatal("a timer that wakes nobody")
	case before.Cancel != nil && slices.Contains([]machine.Happening{machine.Advances, machine.Tries, machine.Parks, machine.Succeeds}, mv.What):
		t.Fatalf("%s of a run that was cancelled", mv.What)
	}
}

// bounds checks the counters against the graph: none is above its bound, and only the edge that was taken counts.
func (l *life) bounds(t *rapid.T, before *machine.Record, mv machine.Move, tick machine.Tick) {
	next := mv.Next
	if next.Try > 1+l.tries(next.Node) && mv.What != machine.Moves {
		t.Fatalf("try %d of node %s", next.Try, next.Node)
	}
	most := map[string]int{}
	for _, n := range l.m.Shape.Nodes {
		for _, e := range slices.Concat(n.Edges, n.Errors) {
			most[n.Name+"\n"+e.Name] = e.Max
		}
	}
	for _, c := range slices.Concat(next.Taken, next.Turn) {
		if key := c.Node + "\n" + c.Edge; c.N > most[key] {
			t.Fatalf("edge %q was taken %d times, its bound is %d", key, c.N, most[key])
		}
	}
	if mv.What == machine.Restarts {
		if len(next.Taken)+len(next.Turn) > 0 || next.Cancel != nil {
			t.Fatal("a restart kept counters or the cancel")
		}
		return
	}
	if mv.Named || mv.What == machine.Advances {
		if taken := l.edge(mv.Log[0]); taken.Kind == host.OnAnswer && !tick.Answered {
			t.Fatalf("edge %q was taken and nobody had answered", taken.Name)
		}
	}
	turn := before.Turn
	if tick.Answered && mv.State && mv.What != machine.Moves {
		turn = nil
	}
	if grown := sum(next.Taken) + sum(next.Turn) - sum(before.Taken) - sum(turn); grown < 0 || grown > 1 || grown == 1 && !mv.State {
		t.Fatalf("%s counted %d", mv.What, grown)
	}
}

// edge is the one that a row of the log names.
func (l *life) edge(row machine.Entry) host.Edge {
	n := l.m.Shape.Nodes[l.m.Shape.Index(row.Name, "")]
	es := slices.Concat(n.Edges, n.Errors)
	return es[slices.IndexFunc(es, func(e host.Edge) bool { return e.Name == row.Edge })]
}

func (l *life) tries(node string) int {
	if i := l.m.Shape.Index(node, ""); i >= 0 {
		return l.m.Shape.Nodes[i].Retry.Max
	}
	return 1 << 30 // a built-in end keeps the number of the last try
}

func sum(counts machine.Counts) (n int) {
	for _, c := range counts {
		n += c.N
	}
	return n
}

// copied is what comes back of a record that was stored, by a pen that has written others of the run.
func (l *life) copied(t *rapid.T, r *machine.Record) *machine.Record {
	row, err := l.pen.Append([]byte("before"), r)
	if err != nil {
		t.Fatal(err)
	}
	row = row[len("before"):]
	if fresh, err := r.Encode(); err != nil || !bytes.Equal(row, fresh) {
		t.Fatalf("%v: a used pen wrote %s, a new one %s", err, row, fresh)
	}
	next, err := machine.Decode(row)
	if err != nil {
		t.Fatal(err)
	}
	return next
}
