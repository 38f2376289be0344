package pawl

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"pawl/internal/host"
)

// The meters that every run has. Others are named by the graph.
const (
	MeterUSD     = "usd"     // micro-dollars
	MeterRuntime = "runtime" // milliseconds in which a worker holds the run or it waits for a machine
)

// Budget is units by meter. A meter that is not named is not capped.
type Budget map[string]int64

// USD is money in micro-dollars.
type USD int64

// Dollars turns dollars into USD, rounded to the nearest micro-dollar.
func Dollars(d float64) USD {
	if d < 0 {
		return USD(d*1e6 - .5)
	}
	return USD(d*1e6 + .5)
}

// String writes dollars with at least two places.
func (u USD) String() string { return "$" + u.Decimal() }

// Decimal writes the amount without a sign for the currency: 0.0125, 5.00.
func (u USD) Decimal() string {
	s := strconv.FormatFloat(float64(u)/1e6, 'f', 6, 64)
	for len(s) > 0 && s[len(s)-1] == '0' && s[len(s)-3] != '.' {
		s = s[:len(s)-1]
	}
	return s
}

// Options of a graph. Budget, Cost and Runtime are ceilings: StartOptions.Budget and Cap lower them for a run, nothing
// raises them.
type Options struct {
	Version string // required; a change of the graph needs a new one
	Budget  Budget
	Cost    USD           // ceiling of MeterUSD; 0: none
	Runtime time.Duration // ceiling of MeterRuntime; 0: none. Waiting for a person does not count
	Grace   time.Duration // more time for the nodes that an error edge reaches out of a spent Runtime
	Retry   Retry         // default of every node
	Timeout time.Duration // default of every node, for one try; 0: none
	Retain  time.Duration // how long an ended run is kept; 0: for ever
	// Positional names the input fields, by their JSON names, that plain text on a command line fills.
	Positional []string
}

// Retry is how a failed try is repeated: up to Max times, after First, First·Factor, First·Factor² and so on, with
// jitter. Factor 0 means 2. Max -1 means not at all, also where the graph has a default.
type Retry struct {
	Max    int
	First  time.Duration
	Factor float64
}

// NodeOptions of one node. Costs are charged by the engine before every visit: the one kind of budget by which Build can
// see that a cycle ends.
type NodeOptions struct {
	Retry   Retry
	Timeout time.Duration
	Costs   Budget
}

// End says more about a terminal: its outcome (the terminal's name if empty), and for a Fail its error.
type End[S any] struct {
	Outcome string
	Error   func(S) error
}

// Ending is what Finish and Closing may know of the run beside its state.
type Ending struct {
	Run, Terminal, Outcome string
	Attempt                int
	Cost                   USD
	Duration               time.Duration
	Path                   func() []string // node names in the order of their visits
	Err                    *Error          // of FAILED, CANCELLED and a Fail terminal
}

// Event is something a run makes visible. Data must survive JSON.
type Event struct {
	Type string
	Data any
}

// Migration carries a waiting run over from an older version of its graph: the node where it stands, and its state.
// Edge counters go by the names of node and edge.
type Migration struct {
	Node  string
	State json.RawMessage
}

type node[S any] struct {
	name    string
	kind    host.Kind
	run     func(context.Context, S) (S, error)
	opt     NodeOptions
	end     End[S]
	edges   []*edge[S] // When and OnAnswer, in order
	other   *edge[S]
	onError []*edge[S]
	key     func(S) string
	child   child
	home    any // the graph that made it
	index   int // by Build
	tries   int // further tries, with the graph's default, by Build
}

type edge[S any] struct {
	name   string
	kind   host.EdgeKind
	to     *node[S]
	when   func(S) bool
	claim  func(S, error) (S, bool)
	max    int
	turn   bool
	number int // among all edges, by Build
}

// outcome of a terminal.
func (n *node[S]) outcome() string {
	if n.end.Outcome != "" {
		return n.end.Outcome
	}
	return n.name
}

// Node is a handle. It carries S, so that a node of another state type does not compile.
type Node[S any] struct{ n *node[S] }

// child is a graph that another one runs.
type child interface {
	Build() (*Workflow, error)
	inside(parents []child) (*Workflow, error)
}

// Graph is a state machine over one state S, from an input I to an output O. It is written once, by one goroutine;
// after Build it may be used by any number of them.
type Graph[I, S, O any] struct {
	name    string
	opt     Options
	nodes   []*node[S]
	start   *node[S]
	begin   func(I) (S, error)
	finish  func(S, Ending) (O, error)
	closing func(S, Ending) []Event
	moves   map[string]func(Migration) (Migration, error)
	faults  []string // of writing it

	mu    sync.Mutex
	built *Workflow
	edges int
}

// New starts a graph.
func New[I, S, O any](name string, o Options) *Graph[I, S, O] {
	return &Graph[I, S, O]{name: name, opt: o, moves: map[string]func(Migration) (Migration, error){}}
}

func (g *Graph[I, S, O]) add(n *node[S]) Node[S] {
	n.home = g
	g.nodes = append(g.nodes, n)
	return Node[S]{n}
}

// Node adds a node that runs a function of the state. It returns the next state; the one it was given is read-only.
func (g *Graph[I, S, O]) Node(name string, run func(context.Context, S) (S, error), o ...NodeOptions) Node[S] {
	if run == nil {
		g.fault("node %q: no function", name)
	}
	return g.add(&node[S]{name: name, run: run, opt: first(o)})
}

// Succeed adds a terminal of a run that succeeded. Several may share a name if their outcomes differ.
func (g *Graph[I, S, O]) Succeed(name string, e ...End[S]) Node[S] {
	return g.add(&node[S]{name: name, kind: host.Succeed, end: first(e)})
}

// Fail adds a terminal of a run that failed.
func (g *Graph[I, S, O]) Fail(name string, e ...End[S]) Node[S] {
	return g.add(&node[S]{name: name, kind: host.Fail, end: first(e)})
}

// Start says where a run begins and how its first state is made. An error refuses the start: no run exists.
func (g *Graph[I, S, O]) Start(n Node[S], begin func(I) (S, error)) {
	if g.start != nil {
		g.fault("Start is said twice")
	}
	if g.owns(n, "Start") {
		g.start = n.n
	}
	g.begin = begin
}

// Key binds the run's idempotency key in the commit of n, from the state that n left. If another run owns the key, this
// one ends merged into it. An empty key binds nothing.
func (g *Graph[I, S, O]) Key(n Node[S], key func(S) string) {
	if !g.owns(n, "Key") {
		return
	}
	if n.n.key != nil {
		g.fault("node %q: Key is said twice", n.n.name)
	}
	if key == nil {
		g.fault("node %q: Key has no function", n.n.name)
	}
	n.n.key = key
}

// Finish makes the output at every named terminal.
func (g *Graph[I, S, O]) Finish(f func(S, Ending) (O, error)) {
	if g.finish != nil {
		g.fault("Finish is said twice")
	}
	g.finish = f
}

// Closing gives the last events of a run for every end, FAILED and CANCELLED included; they are part of the final commit. A
// run that is merged into another one has none: whoever watches it sees those of the other.
func (g *Graph[I, S, O]) Closing(f func(S, Ending) []Event) {
	if g.closing != nil {
		g.fault("Closing is said twice")
	}
	g.closing = f
}

// Migrate says how a run that waits in version from goes on in this one.
func (g *Graph[I, S, O]) Migrate(from string, f func(Migration) (Migration, error)) {
	if _, ok := g.moves[from]; ok || from == g.opt.Version || f == nil {
		g.fault("Migrate from version %q: said twice, the graph's own version, or without a function", from)
		return
	}
	g.moves[from] = f
}

func first[T any](o []T) (t T) {
	if len(o) > 0 {
		t = o[0]
	}
	return t
}
