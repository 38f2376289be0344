package draw

import (
	"fmt"
	"strings"
	"unicode"

	"pawl/internal/host"
)

// Mermaid draws a shape as a Mermaid flowchart. Loops are dashed, error edges are dotted.
func Mermaid(s host.Shape) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	title, ceilings := heading(s)
	line("flowchart TD")
	line("  accTitle: %s", mermaidText(title))
	if ceilings != "" {
		line("  accDescr: %s", mermaidText(ceilings))
	}
	line("  start((\" \")) --> n%d", s.Start)
	for i, n := range s.Nodes {
		text := mermaidText(clean(n.Name))
		for _, d := range details(n) {
			text += "<br/>" + mermaidText(d)
		}
		line("  n%d%s", i, fmt.Sprintf(mermaidBox(n.Kind), text))
	}
	var loops, errs []string
	for i, a := range arrows(s) {
		number := fmt.Sprint(i + 1) // the start's arrow is number 0
		open, end := " -->", ""
		switch a.style {
		case loop:
			loops = append(loops, number)
		case onError:
			errs = append(errs, number)
			open = " -.->"
		}
		if a.label != "" {
			end = fmt.Sprintf("|\"%s\"|", mermaidText(a.label))
		}
		line("  n%d%s%s n%d", a.from, open, end, a.to)
	}
	line("  any[/\"any node\"/] -.->|\"%s\"| failed([\"%s\"])", unclaimed, failed)
	line("  any -.->|\"%s\"| cancelled([\"%s\"])", cancel, cancelled)
	line("  classDef quiet opacity:0.6,stroke-dasharray:2 3")
	line("  class any,failed,cancelled quiet")
	if len(loops) > 0 {
		line("  linkStyle %s stroke-dasharray:7 4", strings.Join(loops, ","))
	}
	if len(errs) > 0 {
		line("  linkStyle %s stroke:#c2410c", strings.Join(errs, ","))
	}
	return b.String()
}

// mermaidBox is the form of a node.
func mermaidBox(k host.Kind) string {
	switch k {
	case host.Sub:
		return `[["%s"]]`
	case host.Each:
		return `[["⟳ %s"]]`
	case host.Succeed:
		return `(["✓ %s"])`
	case host.Fail:
		return `(["✗ %s"])`
	}
	return `["%s"]`
}

// mermaidText writes everything that could mean something to Mermaid, Markdown or HTML as a character code. A dot after
// leading digits and a leading dash would begin a list.
func mermaidText(s string) string {
	var b strings.Builder
	leading := true
	for i, r := range s {
		plain := unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || strings.ContainsRune(" @/,:≤$()'?!…✓✗⟳", r) ||
			r > unicode.MaxLatin1 || i > 0 && (r == '-' || r == '+') || !leading && (r == '.' || r == '_')
		if plain {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "#%d;", r)
		}
		leading = leading && unicode.IsDigit(r)
	}
	return b.String()
}
