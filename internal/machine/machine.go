package machine

import (
	"fmt"
	"time"

	"pawl"
	"pawl/internal/host"
)

// Machine decides for the runs of one graph.
type Machine struct{ Shape *host.Shape }

// Tick is what the driver knows at every decision: the time, its epoch, and what a visit left.
type Tick struct {
	Now    time.Time
	Epoch  int64
	Took   time.Duration
	Calls  int64   // number of the last journal entry
	Events int64   // number of the last event
	Notes  []Entry // to be added to the step log
	// Answered: this visit accepted a person's answer.
	Answered bool
}

// Choice is an edge that may be tried.
type Choice struct {
	Edge  int
	Kind  host.EdgeKind
	Spent bool // only to be noted if its condition holds
}

// Start makes the record of a new run.
func (m Machine) Start(now time.Time) (Move, error) {
	return m.begin(Starts, m.Shape.Nodes[m.Shape.Start].Name, now)
}

// Fork makes the record of a run that begins at a node with a given state.
func (m Machine) Fork(node string, now time.Time) (Move, error) {
	i := m.Shape.Index(node, "")
	if i < 0 || m.Shape.Nodes[i].Kind.Terminal() {
		return Move{}, fmt.Errorf("%w: a run cannot go on from %q", pawl.ErrTransition, node)
	}
	return m.begin(Continues, node, now)
}

func (m Machine) begin(what Happening, node string, now time.Time) (Move, error) {
	r := &Record{Node: node, Fingerprint: m.Shape.Fingerprint, Attempt: 1, Steps: 1, Visit: 1, First: 1, Try: 1, Began: now, Mark: now}
	if err := r.to(what); err != nil {
		return Move{}, err
	}
	return Move{
		What: what, Next: r, State: true,
		Log:    []Entry{{Name: string(what), After: node}},
		Events: []Event{{EventStarted, m.begun(r)}},
	}, nil
}

func (m Machine) begun(r *Record) Begun {
	return Begun{Workflow: m.Shape.Name, Version: m.Shape.Version, Attempt: r.Attempt, Node: r.Node}
}

// Node is the node where a run stands.
func (m Machine) Node(r *Record) (*host.Node, int, error) {
	i := m.Shape.Index(r.Node, "")
	if i < 0 || m.Shape.Nodes[i].Kind.Terminal() {
		return nil, 0, fmt.Errorf("%w: the run stands at %q", pawl.ErrTransition, r.Node)
	}
	return &m.Shape.Nodes[i], i, nil
}

// Open appends the edges of the run's node to room, in the order in which they are to be tried. The driver takes the first
// unspent one that holds, and evaluates none after it.
func (m Machine) Open(room []Choice, r *Record, answered bool) ([]Choice, error) {
	n, _, err := m.Node(r)
	if err != nil {
		return nil, err
	}
	return choices(room, r, n, n.Edges, answered), nil
}

// Errors gives the error edges of the run's node, in order.
func (m Machine) Errors(r *Record, answered bool) ([]Choice, error) {
	n, _, err := m.Node(r)
	if err != nil {
		return nil, err
	}
	return choices(nil, r, n, n.Errors, answered), nil
}

func choices(room []Choice, r *Record, n *host.Node, es []host.Edge, answered bool) []Choice {
	for i := range es {
		e := &es[i]
		if e.Kind == host.OnAnswer && !answered {
			continue
		}
		room = append(room, Choice{Edge: i, Kind: e.Kind, Spent: left(r, n, e, answered) == 0})
	}
	return room
}

// left is how often an edge may still be taken, -1 without a bound.
func left(r *Record, n *host.Node, e *host.Edge, answered bool) int {
	switch {
	case e.Max == 0:
		return -1
	case e.PerTurn && answered:
		return e.Max
	case e.PerTurn:
		return max(e.Max-r.Turn.Of(n.Name, e.Name), 0)
	}
	return max(e.Max-r.Taken.Of(n.Name, e.Name), 0)
}

// Left says how often the edge with that name of the run's node may still be taken; below zero without a bound.
func (m Machine) Left(r *Record, edge string, answered bool) (int, bool) {
	n, _, err := m.Node(r)
	if err != nil {
		return 0, false
	}
	for _, es := range [][]host.Edge{n.Edges, n.Errors} {
		for i := range es {
			if e := &es[i]; e.Name == edge {
				return left(r, n, e, answered), true
			}
		}
	}
	return 0, false
}

// Advance takes an edge after a visit that ended well. spent are the edges that would have held but for their bound.
// failure is the error of the Fail terminal that the edge leads to, if it does.
func (m Machine) Advance(r *Record, t Tick, edge int, spent []int, failure *pawl.Error) (Move, error) {
	n, _, err := m.Node(r)
	if err != nil {
		return Move{}, err
	}
	if edge < 0 || edge >= len(n.Edges) {
		return Move{}, fmt.Errorf("%w: node %q has no edge %d", pawl.ErrTransition, n.Name, edge)
	}
	skipped, err := skip(r, t, n, n.Edges[:edge], spent)
	if err != nil {
		return Move{}, err
	}
	return m.take(r, t, n, &n.Edges[edge], skipped, nil, failure)
}

// Claim takes an error edge, after a try that was the last.
func (m Machine) Claim(r *Record, t Tick, edge int, spent []int, cause, failure *pawl.Error) (Move, error) {
	n, _, err := m.Node(r)
	if err != nil {
		return Move{}, err
	}
	if edge < 0 || edge >= len(n.Errors) {
		return Move{}, fmt.Errorf("%w: node %q has no error edge %d", pawl.ErrTransition, n.Name, edge)
	}
	if cause == nil {
		return Move{}, fmt.Errorf("%w: error edge %q of node %q without an error", pawl.ErrTransition, n.Errors[edge].Name, n.Name)
	}
	skipped, err := skip(r, t, n, n.Errors[:edge], spent)
	if err != nil {
		return Move{}, err
	}
	return m.take(r, t, n, &n.Errors[edge], skipped, cause, failure)
}

// skip notes the edges before the taken one that would have held but for their bound.
func skip(r *Record, t Tick, n *host.Node, before []host.Edge, which []int) (out []Entry, err error) {
	for _, i := range which {
		if i < 0 || i >= len(before) || left(r, n, &before[i], t.Answered) != 0 {
			return nil, fmt.Errorf("%w: edge %d of node %q was not skipped as spent", pawl.ErrTransition, i, n.Name)
		}
		e := before[i]
		out = append(out, Entry{Name: "edge_spent", Before: n.Name, After: n.Name, Edge: e.Name, Payload: raw(map[string]int{"bound": e.Max})})
	}
	return out, nil
}

func (m Machine) take(r *Record, t Tick, n *host.Node, e *host.Edge, spent []Entry, cause, failure *pawl.Error) (Move, error) {
	if e.Kind == host.OnAnswer && !t.Answered || left(r, n, e, t.Answered) == 0 {
		return Move{}, fmt.Errorf("%w: edge %q of node %q is not open", pawl.ErrTransition, e.Name, n.Name)
	}
	if err := goes(r, Advances); err != nil {
		return Move{}, err
	}
	to := &m.Shape.Nodes[e.To]
	next := m.settle(r, t)
	if t.Answered { // a turn begins with the edge by which the answer leaves the node: that one counts in it
		next.Turn = nil
	}
	if e.Max > 0 {
		next.count(n, e)
	}
	if cause != nil && spentRuntime(cause) {
		next.Grace = true
	}
	next.Node, next.Visit, next.Try = to.Name, next.Visit+1, 1
	next.Waits, next.Families, next.Calls, next.Events = nil, nil, t.Calls, t.Events
	mv := Move{State: true, Log: make([]Entry, 1, 1+len(spent)+len(t.Notes))}
	mv.Log[0] = Entry{Name: n.Name, Before: n.Name, After: to.Name, Edge: e.Name, Told: true}
	if cause != nil {
		mv.Log[0].Payload = raw(map[string]*pawl.Error{"error": cause})
	}
	mv.Log = append(append(mv.Log, spent...), t.Notes...)
	switch to.Kind {
	case host.Succeed:
		mv.Named = true
		next.Outcome = to.Outcome
		return m.end(mv, next, Succeeds, t)
	case host.Fail:
		mv.Named = true
		next.Outcome, next.Err = to.Outcome, failure
		return m.end(mv, next, Fails, t)
	}
	if next.Visit-next.First >= pawl.MaxSteps {
		return Fail(r, t, &pawl.Error{Code: pawl.CodeStepCap, Node: n.Name, Text: fmt.Sprintf("the run took %d steps", pawl.MaxSteps)})
	}
	return m.commit(mv, next, Advances)
}

func (r *Record) count(n *host.Node, e *host.Edge) {
	if e.PerTurn {
		r.Turn = r.Turn.Plus(n.Name, e.Name)
	} else {
		r.Taken = r.Taken.Plus(n.Name, e.Name)
	}
}

// goes refuses to go on with a run whose holder has read that it is to end: the first cancel wins over all that follows.
func goes(r *Record, what Happening) error {
	if r.Cancel != nil {
		return fmt.Errorf("%w: %s of a run that was cancelled", pawl.ErrTransition, what)
	}
	return nil
}

// settle is the beginning of every decision of the holder. Whoever decides has the run's version.
func (m Machine) settle(r *Record, t Tick) *Record {
	next := r.clone()
	next.account(t.Now, t.Took)
	next.Idle, next.Epoch, next.Outcome = false, t.Epoch, ""
	next.Waits = only(next.Waits, func(w Wait) bool { return w.Kind != pawl.WaitsForVersion })
	return next
}

func (m Machine) commit(mv Move, next *Record, what Happening) (Move, error) {
	if err := next.to(what); err != nil {
		return Move{}, err
	}
	next.Moves++
	next.Steps += int64(len(mv.Log))
	mv.What, mv.Next = what, next
	return mv, nil
}

// end makes the final commit.
func (m Machine) end(mv Move, next *Record, what Happening, t Tick) (Move, error) {
	next.Ended, next.Waits, next.Families = t.Now, nil, nil
	mv, err := m.commit(mv, next, what)
	if err != nil {
		return Move{}, err
	}
	mv.End, mv.Release = true, true
	if what == Merges { // it came to no terminal: its watchers see the owner's
		mv.Events = append(mv.Events, Event{EventMerged, Merged{Into: mv.Next.Merged}})
		return mv, nil
	}
	mv.Events = append(mv.Events, Event{EventEnded, Ended{
		Status: mv.Next.Status, Terminal: mv.Next.Node, Outcome: mv.Next.Outcome, Err: mv.Next.Err,
	}})
	return mv, nil
}
