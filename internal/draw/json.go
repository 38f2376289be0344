package draw

import (
	"encoding/json"

	"pawl/internal/host"
)

type jsonGraph struct {
	Name        string           `json:"name"`
	Version     string           `json:"version"`
	Fingerprint string           `json:"fingerprint,omitempty"`
	Start       int              `json:"start"`
	Budget      map[string]int64 `json:"budget,omitempty"`
	GraceMs     int64            `json:"graceMs,omitempty"`
	RetainMs    int64            `json:"retainMs,omitempty"`
	Nodes       []jsonNode       `json:"nodes"`
	Edges       []jsonEdge       `json:"edges"`
	BuiltIn     []jsonEnd        `json:"builtIn"`
}

type jsonNode struct {
	Index     int              `json:"index"`
	Name      string           `json:"name"`
	Kind      string           `json:"kind"`
	Outcome   string           `json:"outcome,omitempty"`
	Child     string           `json:"child,omitempty"`
	Retry     *jsonRetry       `json:"retry,omitempty"`
	TimeoutMs int64            `json:"timeoutMs,omitempty"`
	Costs     map[string]int64 `json:"costs,omitempty"`
	Keyed     bool             `json:"keyed,omitempty"`
	Terminal  bool             `json:"terminal"`
}

type jsonRetry struct {
	Max     int     `json:"max"`
	FirstMs int64   `json:"firstMs"`
	Factor  float64 `json:"factor"`
}

type jsonEdge struct {
	From    int    `json:"from"`
	To      int    `json:"to"`
	Name    string `json:"name"`
	Label   string `json:"label"`
	Kind    string `json:"kind"`
	Max     int    `json:"max,omitempty"`
	PerTurn bool   `json:"perTurn,omitempty"`
	Back    bool   `json:"back,omitempty"`
}

type jsonEnd struct {
	Name string `json:"name"`
	When string `json:"when"`
}

// JSON writes a shape as data for pages that draw it themselves. Nodes are named by their index because terminals may
// share a name; edges stand in the order in which they are tried; back says that an edge closes a cycle.
func JSON(s host.Shape) ([]byte, error) {
	g := jsonGraph{
		Name: s.Name, Version: s.Version, Fingerprint: s.Fingerprint, Start: s.Start, Budget: s.Budget,
		GraceMs: s.Grace.Milliseconds(), RetainMs: s.Retain.Milliseconds(),
		Nodes: []jsonNode{}, Edges: []jsonEdge{},
		BuiltIn: []jsonEnd{{failed, unclaimed}, {cancelled, cancel}},
	}
	for i, n := range s.Nodes {
		node := jsonNode{
			Index: i, Name: n.Name, Kind: n.Kind.String(), Outcome: n.Outcome, Child: n.Child,
			TimeoutMs: n.Timeout.Milliseconds(), Costs: n.Costs, Keyed: n.Keyed, Terminal: n.Kind.Terminal(),
		}
		if n.Retry.Max > 0 {
			node.Retry = &jsonRetry{Max: n.Retry.Max, FirstMs: n.Retry.First.Milliseconds(), Factor: n.Retry.Factor}
		}
		g.Nodes = append(g.Nodes, node)
	}
	for _, a := range arrows(s) {
		g.Edges = append(g.Edges, jsonEdge{
			From: a.from, To: a.to, Name: a.edge.Name, Label: a.label, Kind: a.edge.Kind.String(),
			Max: a.edge.Max, PerTurn: a.edge.PerTurn, Back: a.back,
		})
	}
	return json.MarshalIndent(g, "", "  ")
}
