package pawl

import (
	"encoding/json"
	"fmt"

	"pawl/internal/host"
)

// The terminals that every graph has beside its own.
const (
	TerminalFailed    = "FAILED"
	TerminalCancelled = "CANCELLED"
)

// Workflow is a built graph without its type parameters: what engines, servers and drawings use.
type Workflow struct {
	p        *host.Program
	children []*Workflow
}

// Name of the graph.
func (w *Workflow) Name() string { return w.p.Shape.Name }

// Version of the graph.
func (w *Workflow) Version() string { return w.p.Shape.Version }

// ID is name@version.
func (w *Workflow) ID() string { return w.p.Shape.Name + "@" + w.p.Shape.Version }

// Fingerprint changes with names, kinds and order of nodes and edges, with children and with the shape of the state; not
// with bounds, caps and times.
func (w *Workflow) Fingerprint() string { return w.p.Shape.Fingerprint }

// Children are the workflows that this one runs as nodes.
func (w *Workflow) Children() []*Workflow { return w.children }

// Input is the JSON Schema of the input.
func (w *Workflow) Input() json.RawMessage { return w.p.Input }

// Output is the JSON Schema of the output.
func (w *Workflow) Output() json.RawMessage { return w.p.Output }

// State is the JSON Schema of the state.
func (w *Workflow) State() json.RawMessage { return w.p.State }

// Positional names the input fields that plain text fills.
func (w *Workflow) Positional() []string { return w.p.Shape.Positional }

// Program is for those who drive runs: engines and drawings.
func (w *Workflow) Program() *host.Program { return w.p }

// Move answers nil if the graph has an edge from one node to the other, ErrTransition if not. Both are names; a run that
// has ended has no moves. FAILED and CANCELLED can be reached from every node that is no terminal.
func (w *Workflow) Move(from, to string) error {
	refused := fmt.Errorf("%w: %s → %s", ErrTransition, from, to)
	f := w.p.Shape.Index(from, "")
	if f < 0 || w.p.Shape.Nodes[f].Kind.Terminal() {
		return refused
	}
	if to == TerminalFailed || to == TerminalCancelled {
		return nil
	}
	n := w.p.Shape.Nodes[f]
	for _, es := range [][]host.Edge{n.Edges, n.Errors} {
		for _, e := range es {
			if w.p.Shape.Nodes[e.To].Name == to {
				return nil
			}
		}
	}
	return refused
}
