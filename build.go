package pawl

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"pawl/internal/codec"
	"pawl/internal/host"
	"pawl/internal/schema"
)

// Build checks the graph and makes it a Workflow. It reports all faults at once, each naming node and edge. A graph that
// was built is not built again; any number of goroutines may build it.
func (g *Graph[I, S, O]) Build() (*Workflow, error) { return g.inside(nil) }

// inside builds a graph as part of those that contain it. No lock is held meanwhile: two graphs that contain each other
// may be built from two goroutines.
func (g *Graph[I, S, O]) inside(parents []child) (*Workflow, error) {
	if slices.Contains(parents, child(g)) {
		return nil, fmt.Errorf("graph %q: it contains itself", g.name)
	}
	g.mu.Lock()
	built := g.built
	g.mu.Unlock()
	if built != nil {
		return built, nil
	}
	c := &check[I, S, O]{g: g}
	for _, f := range g.faults {
		c.add("%s", f)
	}
	c.options()
	c.names()
	c.edges()
	c.types()
	children := c.children(slices.Concat(parents, []child{g}))
	c.reach()
	for _, path := range cycles(g.nodes, g.bounded) {
		c.add("cycle without a bound: %s; bound one of its edges (AtMost, AtMostPerTurn), let a person break it (OnAnswer), or give one of its nodes Costs on a capped meter", path)
	}
	if err := errors.Join(c.faults...); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.built == nil {
		g.built = g.compile(children, c.docs)
	}
	return g.built, nil
}

type check[I, S, O any] struct {
	g      *Graph[I, S, O]
	docs   schemas
	faults []error
}

func (c *check[I, S, O]) add(format string, a ...any) {
	c.faults = append(c.faults, fmt.Errorf("graph %q: "+format, append([]any{c.g.name}, a...)...))
}

func (c *check[I, S, O]) options() {
	g := c.g
	if why := badName(g.name); why != "" || strings.Contains(g.name, "@") {
		c.add("the name must be short printable text without @")
	}
	if why := badName(g.opt.Version); why != "" {
		c.add("Options.Version %s: running work is tied to it", why)
	}
	for _, m := range slices.Sorted(maps.Keys(g.opt.Budget)) {
		if n := g.opt.Budget[m]; badName(m) != "" || n < 0 {
			c.add("Options.Budget: meter %q with %d", m, n)
		} else if m == MeterUSD || m == MeterRuntime {
			c.add("Options.Budget: %s is set by Options.Cost and Options.Runtime", m)
		}
	}
	if g.opt.Cost < 0 || g.opt.Runtime < 0 || g.opt.Grace < 0 || g.opt.Retain < 0 || g.opt.Timeout < 0 {
		c.add("Options: a negative cost or duration")
	}
	c.retry("Options", g.opt.Retry)
	if g.start == nil || g.begin == nil {
		c.add("no Start, or one without a function")
	} else if g.start.kind.Terminal() {
		c.add("Start is the terminal %q", g.start.name)
	}
	if g.finish == nil {
		c.add("no Finish")
	}
}

func (c *check[I, S, O]) retry(where string, r Retry) {
	if r.Max < -1 || r.First < 0 || r.Factor < 0 || r.Factor > 0 && r.Factor < 1 {
		c.add("%s: Retry{Max: %d, First: %s, Factor: %g}: Max is at least -1, First not negative, Factor at least 1", where, r.Max, r.First, r.Factor)
	}
}

func (c *check[I, S, O]) names() {
	seen := map[string]*node[S]{}
	outcomes := map[[2]string]bool{}
	keyed := ""
	for _, n := range c.g.nodes {
		if why := badName(n.name); why != "" {
			c.add("node %q: the name %s", n.name, why)
		}
		if builtIn := n.name == TerminalFailed || n.name == TerminalCancelled; builtIn && (n.kind != host.Fail || n.name == TerminalCancelled) {
			c.add("node %q: the name is that of a built-in terminal", n.name)
		}
		end := [2]string{n.name, n.outcome()}
		switch o := seen[n.name]; {
		case o == nil:
			seen[n.name] = n
		case !n.kind.Terminal() || o.kind != n.kind:
			c.add("node %q: two nodes have this name", n.name)
		case outcomes[end]:
			c.add("terminal %q: two have this name and the same outcome %q", n.name, n.outcome())
		}
		outcomes[end] = true
		if why := badName(n.outcome()); why != "" && n.kind.Terminal() {
			c.add("terminal %q: the outcome %s", n.name, why)
		}
		if n.kind.Terminal() && n.key != nil {
			c.add("terminal %q: Key on a terminal", n.name)
		}
		if n.key != nil && keyed != "" {
			c.add("node %q: Key is bound at node %q already", n.name, keyed)
		}
		if n.key != nil {
			keyed = n.name
		}
		c.retry(fmt.Sprintf("node %q", n.name), n.opt.Retry)
		if n.opt.Timeout < 0 {
			c.add("node %q: a negative timeout", n.name)
		}
		for _, m := range slices.Sorted(maps.Keys(n.opt.Costs)) {
			if n.opt.Costs[m] < 1 {
				c.add("node %q: Costs: %d of %q", n.name, n.opt.Costs[m], m)
			}
		}
	}
}

func (c *check[I, S, O]) edges() {
	for _, n := range c.g.nodes {
		if n.kind.Terminal() {
			if len(n.out()) > 0 {
				c.add("terminal %q has edges", n.name)
			}
			continue
		}
		if n.other == nil {
			c.add("node %q: no final Otherwise", n.name)
		}
		seen := map[string]bool{}
		for _, e := range n.out() {
			if why := badName(e.name); why != "" {
				c.add("node %q: the edge name %q %s", n.name, e.name, why)
			}
			if seen[e.name] {
				c.add("node %q: two edges have the name %q", n.name, e.name)
			}
			seen[e.name] = true
			switch {
			case e.to == nil:
				c.add("node %q: edge %q leads to an empty node handle", n.name, e.name)
			case e.to.home != any(c.g):
				c.add("node %q: edge %q leads to node %q of another graph", n.name, e.name, e.to.name)
			}
		}
	}
}

func (c *check[I, S, O]) types() {
	for _, t := range []struct {
		what string
		t    reflect.Type
		doc  *[]byte
	}{
		{"state", reflect.TypeFor[S](), &c.docs.state},
		{"input", reflect.TypeFor[I](), &c.docs.input},
		{"output", reflect.TypeFor[O](), &c.docs.output},
	} {
		faults := codec.Survives(t.t)
		for _, f := range faults {
			c.add("%s type %s", t.what, f)
		}
		if len(faults) > 0 {
			continue
		}
		var err error
		if *t.doc, err = schema.Of(t.t); err != nil {
			c.add("%s type %s: JSON Schema: %v", t.what, t.t, err)
		}
	}
	fields := map[string]bool{}
	if t := reflect.TypeFor[I](); t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name == "" {
				name = t.Field(i).Name
			}
			fields[name] = true
		}
	}
	for _, p := range c.g.opt.Positional {
		if !fields[p] {
			c.add("Options.Positional: the input has no field %q", p)
		}
	}
}

// children builds the graphs that this one runs, in the order of their nodes. In one tree a name@version is one graph.
func (c *check[I, S, O]) children(parents []child) (all []*Workflow) {
	seen := map[string]string{c.g.name + "@" + c.g.opt.Version: "this graph itself"}
	var differs func(*Workflow) string
	differs = func(w *Workflow) string {
		if o, ok := seen[w.ID()]; ok && o != w.Fingerprint() {
			return w.ID()
		}
		seen[w.ID()] = w.Fingerprint()
		for _, below := range w.children {
			if id := differs(below); id != "" {
				return id
			}
		}
		return ""
	}
	for _, n := range c.g.nodes {
		if n.kind != host.Sub && n.kind != host.Each {
			continue
		}
		if reflect.ValueOf(n.child).IsNil() {
			c.add("node %q: no child graph", n.name)
			continue
		}
		w, err := n.child.inside(parents)
		if err != nil {
			c.faults = append(c.faults, fmt.Errorf("graph %q: node %q: %w", c.g.name, n.name, err))
			continue
		}
		if id := differs(w); id != "" {
			c.add("node %q: two different graphs are called %s", n.name, id)
		}
		all = append(all, w)
	}
	return all
}

// reach finds nodes that nothing leads to, and nodes from which no terminal can be reached.
func (c *check[I, S, O]) reach() {
	seen := map[*node[S]]bool{}
	var walk func(*node[S])
	walk = func(n *node[S]) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		for _, e := range n.out() {
			walk(e.to)
		}
	}
	walk(c.g.start)
	ends := map[*node[S]]bool{}
	for changed := true; changed; {
		changed = false
		for _, n := range c.g.nodes {
			leads := func(e *edge[S]) bool { return ends[e.to] }
			if !ends[n] && (n.kind.Terminal() || slices.ContainsFunc(n.out(), leads)) {
				ends[n], changed = true, true
			}
		}
	}
	for _, n := range c.g.nodes {
		if c.g.start != nil && !seen[n] {
			c.add("node %q: unreachable", n.name)
		}
		if !ends[n] {
			c.add("node %q: no terminal can be reached", n.name)
		}
	}
}

// badName says why a name cannot be one, empty if it can.
func badName(s string) string {
	switch {
	case s == "":
		return "is empty"
	case len(s) > 100:
		return "is longer than 100 bytes"
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.TrimSpace(s) != s:
		return "begins or ends with a space"
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "has characters that cannot be printed"
	}
	return ""
}
