package host

import (
	"context"
	"encoding/json"
	"time"
)

// Kind says what a node is.
type Kind uint8

// The kinds of nodes.
const (
	Work Kind = iota
	Sub
	Each
	Succeed
	Fail
)

// Terminal reports whether a node of this kind ends the run.
func (k Kind) Terminal() bool { return k == Succeed || k == Fail }

func (k Kind) String() string {
	return [...]string{"work", "sub", "each", "succeed", "fail"}[k]
}

// EdgeKind says when an edge may be taken.
type EdgeKind uint8

// The kinds of edges.
const (
	When EdgeKind = iota
	OnAnswer
	Otherwise
	OnError
)

func (k EdgeKind) String() string {
	return [...]string{"when", "on_answer", "otherwise", "on_error"}[k]
}

// Person reports whether only a person's answer opens an edge of this kind.
func (k EdgeKind) Person() bool { return k == OnAnswer }

// Retry is how a call or a node is tried again: Max further tries, after First, First*Factor, First*Factor² …
type Retry struct {
	Max    int
	First  time.Duration
	Factor float64
}

// Shape is a graph as data: what the machine checks moves against and drawings are made of.
type Shape struct {
	Name, Version, Fingerprint string
	Nodes                      []Node
	Start                      int
	Budget                     map[string]int64 // ceilings by meter, with "usd" in micro-dollars and "runtime" in milliseconds
	Grace                      time.Duration
	Retain                     time.Duration
	Children                   []string // name@version, in the order of their nodes
	Positional                 []string // input fields that plain text fills
}

// Node is a node of a Shape. Edges are in the order in which they are tried and end with Otherwise; Errors are apart.
type Node struct {
	Name, Outcome, Child string
	Kind                 Kind
	Retry                Retry
	Timeout              time.Duration
	Costs                map[string]int64
	Edges, Errors        []Edge
	Keyed                bool
}

// Edge is an edge of a Shape. Max 0: no bound.
type Edge struct {
	Name    string
	Kind    EdgeKind
	To      int
	Max     int
	PerTurn bool
}

// Index returns the number of the node with that name, -1 if there is none. Terminals may share a name: outcome tells.
func (s *Shape) Index(name, outcome string) int {
	for i := range s.Nodes {
		if s.Nodes[i].Name == name && (outcome == "" || s.Nodes[i].Outcome == outcome) {
			return i
		}
	}
	return -1
}

// Ending is what a run's last functions may know beside its state.
type Ending struct {
	Run, Terminal, Outcome string
	Attempt                int
	Cost                   int64
	Duration               time.Duration
	Path                   func() []string
	Err                    error
}

// Event is a type with its encoded data.
type Event struct {
	Type string
	Data []byte
}

// Moved is what a migration may change of a run.
type Moved struct {
	Node  string
	State json.RawMessage
}

// Program is a built graph without its type parameters. States are handed around as values that only the program
// knows; every function is pure but Run and Exec.
type Program struct {
	Shape      Shape
	Begin      func(input []byte) (any, error)
	Encode     func(room []byte, state any) ([]byte, error) // in the room where there is enough
	Decode     func(data []byte) (any, error)
	Run        func(ctx context.Context, node int, state any) (any, error)
	Holds      func(node, edge int, state any) bool                    // a When edge of Shape.Nodes[node].Edges
	Claims     func(node, edge int, state any, err error) (any, bool)  // an edge of Shape.Nodes[node].Errors
	Key        func(node int, state any) string                        // of a Keyed node
	Failure    func(node int, state any) error                         // of a Fail terminal; nil if it gives none
	Finish     func(state any, e Ending) ([]byte, error)               // named terminals only
	Closing    func(state any, e Ending) ([]Event, error)              // state nil: the run ended before it had one
	Migrations map[string]func(Moved) (Moved, error)                   // by the version they come from
	Exec       func(ctx context.Context, input []byte) ([]byte, error) // in place, nothing recorded
	Input      []byte                                                  // JSON Schema
	Output     []byte
	State      []byte
}
