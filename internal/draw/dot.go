package draw

import (
	"fmt"
	"strings"

	"pawl/internal/host"
)

// Dot draws a shape in the language of Graphviz. Loops are dashed, error edges are dotted.
func Dot(s host.Shape) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	title, ceilings := heading(s)
	line("digraph %s {", dotText(clean(s.Name)))
	if ceilings != "" {
		title += "\n" + ceilings
	}
	line("  graph [label=%s, labelloc=t, labeljust=l, rankdir=TB, fontname=\"sans-serif\"];", dotText(title))
	line("  node [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=12];")
	line("  edge [fontname=\"sans-serif\", fontsize=10];")
	line("  start [shape=circle, style=filled, label=\"\", width=0.15];")
	for i, n := range s.Nodes {
		text := strings.Join(append([]string{clean(n.Name)}, details(n)...), "\n")
		line("  n%d [label=%s%s];", i, dotText(text), dotBox(n.Kind))
	}
	line("  start -> n%d;", s.Start)
	for _, a := range arrows(s) {
		line("  n%d -> n%d [label=%s%s];", a.from, a.to, dotText(a.label), dotStyle(a))
	}
	line("  node [color=gray50, fontcolor=gray50, style=\"rounded,dotted\"];")
	line("  edge [color=gray50, fontcolor=gray50, style=dotted];")
	line("  any [label=\"any node\", shape=plaintext];")
	line("  failed [label=%q]; cancelled [label=%q];", failed, cancelled)
	line("  any -> failed [label=%q]; any -> cancelled [label=%q];", unclaimed, cancel)
	line("}")
	return b.String()
}

func dotBox(k host.Kind) string {
	switch k {
	case host.Sub:
		return ", peripheries=2"
	case host.Each:
		return ", peripheries=3"
	case host.Succeed:
		return ", shape=ellipse"
	case host.Fail:
		return ", shape=ellipse, color=\"#c2410c\""
	}
	return ""
}

func dotStyle(a arrow) string {
	text := ""
	switch a.style {
	case loop:
		text = ", style=dashed"
	case onError:
		text = ", style=dotted, color=\"#c2410c\""
	}
	if a.back {
		text += ", constraint=false"
	}
	return text
}

// dotText quotes a text. Graphviz reads escapes and also character references in it.
func dotText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `&`, `&amp;`, "\n", `\n`).Replace(s) + `"`
}
