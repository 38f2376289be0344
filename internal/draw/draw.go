// Package draw turns the shape of a graph into a picture: Mermaid, Graphviz dot, SVG and JSON.
//
// A drawing shows what the machine will do: every edge with its bound, loops and error edges apart from the way
// forward, the two built-in ends. It never runs a graph, never reads a file or a clock, and never trusts a name: all
// text is escaped for the language that it is written in. The same shape always gives the same bytes.
//
// Start reading at the type arrow, then Mermaid; SVG stands in svg.go with its layout in layout.go.
package draw

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"pawl/internal/host"
)

// The built-in ends. Every node that does not end the run can come to them.
const (
	failed    = "FAILED"
	cancelled = "CANCELLED"
	unclaimed = "an error that no edge claims"
	cancel    = "a cancel"
)

// style tells the three kinds of arrows apart.
type style uint8

const (
	forward style = iota
	loop          // goes back to a node that the run may have come from
	onError       // taken when the node has failed
)

func (s style) String() string { return [...]string{"forward", "loop", "error"}[s] }

// arrow is one edge as it is drawn.
type arrow struct {
	from, to int
	style    style
	back     bool // against the direction of reading; an error edge may be so too
	label    string
	edge     host.Edge
}

// arrows lists the edges of a shape in the order of its nodes, each node's error edges last.
func arrows(s host.Shape) []arrow {
	var all []arrow
	for i, n := range s.Nodes {
		for _, e := range n.Edges {
			all = append(all, arrow{from: i, to: e.To, edge: e, label: label(e, len(n.Edges) == 1)})
		}
		for _, e := range n.Errors {
			all = append(all, arrow{from: i, to: e.To, edge: e, style: onError, label: label(e, false)})
		}
	}
	all = slices.DeleteFunc(all, func(a arrow) bool { return a.to < 0 || a.to >= len(s.Nodes) })
	markBack(all, len(s.Nodes), s.Start)
	for i := range all {
		if all[i].back && all[i].style == forward {
			all[i].style = loop
		}
	}
	return all
}

// markBack marks the arrows that close a cycle, found depth first from the start in the order of the edges.
func markBack(all []arrow, nodes, start int) {
	out := make([][]int, nodes)
	for i, a := range all {
		out[a.from] = append(out[a.from], i)
	}
	const open, done = 1, 2
	seen := make([]int, nodes)
	var visit func(n int)
	visit = func(n int) {
		seen[n] = open
		for _, i := range out[n] {
			switch to := all[i].to; seen[to] {
			case 0:
				visit(to)
			case open:
				all[i].back = true
			}
		}
		seen[n] = done
	}
	if start >= 0 && start < nodes {
		visit(start)
	}
	for n := range nodes {
		if seen[n] == 0 {
			visit(n)
		}
	}
}

// label is an edge's name with its bound, such as "improved search ≤1/turn". An only way on needs no label.
func label(e host.Edge, only bool) string {
	text := e.Name
	switch e.Kind {
	case host.Otherwise:
		if text = "otherwise"; only {
			text = ""
		}
	case host.OnAnswer:
		text = "answer: " + e.Name
	case host.OnError:
		text = "error: " + e.Name
	}
	if e.Max > 0 {
		text += fmt.Sprintf(" ≤%d", e.Max)
		if e.PerTurn {
			text += "/turn"
		}
	}
	return strings.TrimSpace(clean(text))
}

// details are the lines that stand under a node's name.
func details(n host.Node) []string {
	var lines []string
	switch n.Kind {
	case host.Sub:
		lines = append(lines, "graph "+n.Child)
	case host.Each:
		lines = append(lines, "each: graph "+n.Child)
	case host.Succeed, host.Fail:
		word := "succeeds"
		if n.Kind == host.Fail {
			word = "fails"
		}
		if n.Outcome != "" {
			word += ": " + n.Outcome
		}
		lines = append(lines, word)
	}
	for _, m := range slices.Sorted(maps.Keys(n.Costs)) {
		lines = append(lines, "costs "+amount(m, n.Costs[m]))
	}
	if n.Retry.Max > 0 {
		lines = append(lines, fmt.Sprintf("retries ≤%d", n.Retry.Max))
	}
	if n.Timeout > 0 {
		lines = append(lines, "timeout "+short(n.Timeout))
	}
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return lines
}

// heading is the name and version of the graph and its ceilings.
func heading(s host.Shape) (title, ceilings string) {
	title = s.Name
	if s.Version != "" {
		title += " " + s.Version
	}
	var parts []string
	for _, m := range slices.Sorted(maps.Keys(s.Budget)) {
		parts = append(parts, m+" ≤"+strings.TrimPrefix(amount(m, s.Budget[m]), m+" "))
	}
	return clean(title), clean(strings.Join(parts, ", "))
}

// amount writes a number of units of a meter; money and time have units of their own.
func amount(meter string, n int64) string {
	switch meter {
	case "usd":
		text := strings.TrimRight(fmt.Sprintf("%d.%06d", n/1_000_000, n%1_000_000), "0")
		return "usd $" + strings.TrimSuffix(text, ".")
	case "runtime":
		return "runtime " + short(time.Duration(n)*time.Millisecond)
	}
	return fmt.Sprintf("%s %d", meter, n)
}

// short is a duration without its empty parts: 10m, not 10m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// longest is how many runes of a text are drawn.
const longest = 120

// clean makes a text fit for any drawing: one line of valid UTF-8 without control characters and without marks that
// turn the direction of writing around.
func clean(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > longest {
			b.WriteRune('…')
			break
		}
		switch {
		case r == '\n', r == '\t', r == '\r', r == '\u2028', r == '\u2029':
			r = ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\ufffe', r == '\uffff':
			r = unicode.ReplacementChar
		}
		b.WriteRune(r)
	}
	return b.String()
}
