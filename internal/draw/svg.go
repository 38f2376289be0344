package draw

import (
	"fmt"
	"slices"
	"strings"

	"pawl/internal/host"
)

// SVG draws a shape as one self-contained SVG element: no script, no style sheet, no reference to anything outside and
// no id, so that it can stand in a page more than once. Lines and text take the color of their surroundings.
func SVG(s host.Shape) string {
	l := newLayout(s)
	p := &pen{layout: l, shape: s, at: l.ports()}
	title, ceilings := heading(s)
	w := max(l.w, footWidth, textWidth([]string{title}, nameSize+1)+2*margin, textWidth([]string{ceilings}, smallSize)+2*margin)
	if w > l.w {
		l.shift((w - l.w) / 2)
		p.at = l.ports()
	}
	p.put(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" role="img" `+
		`font-family="system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" fill="none" stroke-width="1.3">`,
		num(w), num(l.h+footRoom))
	p.put(`<title>%s</title>`, xmlText(title))
	p.text(title, margin, 24, nameSize+1, `font-weight="600"`)
	if ceilings != "" {
		p.text(ceilings, margin, 40, smallSize, `opacity="0.7"`)
	}
	p.start()
	for i, r := range l.routes {
		p.route(i, r)
	}
	for _, b := range l.boxes {
		if b.node >= 0 {
			p.node(b, s.Nodes[b.node])
		} else if len(b.lines) > 0 {
			p.lines(b.lines, b.x, b.y, labelSize, labelLine, `text-anchor="middle"`)
		}
	}
	p.foot(l.h + 14)
	p.put(`</svg>`)
	return p.String()
}

const (
	footWidth = 452.0
	footRoom  = 64.0
	radius    = 7.0
)

// pen writes one drawing.
type pen struct {
	strings.Builder
	*layout
	shape host.Shape
	at    map[port]float64
}

func (p *pen) put(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// text writes one line of text whose baseline is y.
func (p *pen) text(s string, x, y, size float64, more string) {
	p.put(`<text x="%s" y="%s" font-size="%s" fill="currentColor" %s>%s</text>`, num(x), num(y), num(size), more, xmlText(s))
}

// lines writes several lines of text around the height y.
func (p *pen) lines(lines []string, x, y, size, pitch float64, more string) {
	y += size*0.36 - float64(float64(len(lines)-1)*pitch/2)
	for i, line := range lines {
		p.text(line, x, y+float64(float64(i)*pitch), size, more)
	}
}

// start is a dot above the first node.
func (p *pen) start() {
	if p.shape.Start < 0 || p.shape.Start >= len(p.boxes) {
		return
	}
	b := p.boxes[p.shape.Start]
	x, y, high := b.x-b.w/2+12, b.y-b.h/2, 0.0
	for _, r := range p.routes {
		if r.back && r.to == p.shape.Start {
			high = max(high, r.entry)
			if !r.right {
				x = b.x + b.w/2 - 12
			}
		}
	}
	p.put(`<circle cx="%s" cy="%s" r="4.5" fill="currentColor"/>`, num(x), num(y-20-high))
	p.put(`<path d="M%s %sV%s" stroke="currentColor"/>`, num(x), num(y-18-high), num(y-6))
	p.head(x, y, "currentColor")
}

// head is the point of an arrow that comes down to (x, y).
func (p *pen) head(x, y float64, color string) {
	p.put(`<path d="M%s %sl-3.5 -7h7z" fill="%s"/>`, num(x), num(y), color)
}

// look is the color and the dashes of a style; the color shows on light and on dark ground.
func (s style) look() (color, more string) {
	switch s {
	case loop:
		return "#3b82c4", ` stroke-dasharray="7 4"`
	case onError:
		return "#d9603b", ` stroke-dasharray="1.5 3.5" stroke-linecap="round"`
	}
	return "currentColor", ""
}

func (p *pen) route(i int, r route) {
	color, more := r.style.look()
	from, to := p.boxes[r.from], p.boxes[r.to]
	x0, x1 := p.at[port{i, true}], p.at[port{i, false}]
	y0, y1 := from.y+from.h/2, to.y-to.h/2
	var d strings.Builder
	fmt.Fprintf(&d, "M%s %s", num(x0), num(y0))
	if r.back {
		p.around(&d, r, x0, x1, y1-6)
	} else {
		p.along(&d, r, x0, x1, y1-6)
	}
	p.put(`<path d="%s" stroke="%s"%s><title>%s</title></path>`, d.String(), color, more, xmlText(p.says(r)))
	p.head(x1, y1, color)
	if r.back && len(r.lines) > 0 {
		x, y := p.labelAt(r)
		anchor := "start"
		if !r.right {
			anchor = "end"
		}
		p.lines(r.lines, x, y, labelSize, labelLine, `text-anchor="`+anchor+`"`)
	}
}

// says is a route in words, for readers who do not see it.
func (p *pen) says(r route) string {
	text := clean(p.shape.Nodes[r.from].Name) + " → " + clean(p.shape.Nodes[r.to].Name)
	if len(r.lines) > 0 {
		text += ": " + strings.Join(r.lines, " ")
	}
	return text
}

// along draws a forward route through its boxes: straight on a rank, curved between two, broken by its label.
func (p *pen) along(d *strings.Builder, r route, x, x1, end float64) {
	y := p.bottom[p.boxes[r.from].rank]
	fmt.Fprintf(d, "V%s", num(y))
	curve := func(nx, ny float64) {
		mid := (y + ny) / 2
		fmt.Fprintf(d, "C%s %s %s %s %s %s", num(x), num(mid), num(nx), num(mid), num(nx), num(ny))
		x = nx
	}
	for _, b := range r.chain[1 : len(r.chain)-1] {
		via := p.boxes[b]
		curve(via.x, p.top[via.rank])
		y = p.bottom[via.rank]
		if len(via.lines) > 0 {
			fmt.Fprintf(d, "V%sM%s %sV%s", num(via.y-via.h/2), num(x), num(via.y+via.h/2), num(y))
		} else if via.h == 0 {
			fmt.Fprintf(d, "V%s", num(y))
		}
	}
	rank := p.boxes[r.to].rank
	curve(x1, p.top[rank]-6)
	fmt.Fprintf(d, "V%s", num(end))
}

// around draws a route that goes back: down, out to its lane, up, in again and down to its target.
func (p *pen) around(d *strings.Builder, r route, x0, x1, end float64) {
	out, in := p.bottom[p.boxes[r.from].rank]+r.exit, p.top[p.boxes[r.to].rank]-r.entry
	s := radius // to the right
	if !r.right {
		s = -radius
	}
	fmt.Fprintf(d, "V%sq0 %s %s %s", num(out-radius), num(radius), num(s), num(radius))
	fmt.Fprintf(d, "H%sq%s 0 %s %s", num(r.lane-s), num(s), num(s), num(-radius))
	fmt.Fprintf(d, "V%sq0 %s %s %s", num(in+radius), num(-radius), num(-s), num(-radius))
	fmt.Fprintf(d, "H%sq%s 0 %s %s", num(x1+s), num(-s), num(-s), num(radius))
	fmt.Fprintf(d, "V%s", num(max(end, in+radius)))
}

func (p *pen) node(b box, n host.Node) {
	x, y, corner, color := b.x-b.w/2, b.y-b.h/2, 6.0, "currentColor"
	switch n.Kind {
	case host.Succeed:
		corner, color = b.h/2, "#2f9e63"
	case host.Fail:
		corner, color = b.h/2, "#d9603b"
	case host.Each:
		p.put(`<path d="M%s %sH%sq6 0 6 6V%s" stroke="currentColor" opacity="0.5"/>`, num(x+8), num(y-4), num(x+b.w-2), num(y+b.h-8))
	}
	p.rect(x, y, b.w, b.h, corner, fmt.Sprintf(`stroke="%s" fill="%[1]s" fill-opacity="0.07"`, color))
	if n.Kind == host.Sub {
		p.rect(x+3, y+3, b.w-6, b.h-6, 4, `stroke="currentColor" opacity="0.45"`)
	}
	names, small := wrap(mark(n), nameWidth, 4), details(n)
	base := y + 7 + nameLine*0.76
	for _, line := range names {
		p.text(line, b.x, base, nameSize, `text-anchor="middle"`)
		base += nameLine
	}
	base -= (nameLine - smallLine) * 0.76
	for _, line := range small {
		p.text(line, b.x, base, smallSize, `text-anchor="middle" opacity="0.7"`)
		base += smallLine
	}
}

func (p *pen) rect(x, y, w, h, corner float64, more string) {
	p.put(`<rect x="%s" y="%s" width="%s" height="%s" rx="%s" %s/>`, num(x), num(y), num(w), num(h), num(corner), more)
}

// foot explains the lines and shows the two built-in ends.
func (p *pen) foot(y float64) {
	p.put(`<g opacity="0.75">`)
	p.put(`<path d="M%s %sH%s" stroke="currentColor" opacity="0.4"/>`, num(margin), num(y-2), num(footWidth-margin))
	x := margin
	for _, s := range []style{forward, loop, onError} {
		if !slices.ContainsFunc(p.routes, func(r route) bool { return r.style == s }) {
			continue
		}
		color, more := s.look()
		p.put(`<path d="M%s %sh26" stroke="%s"%s/>`, num(x), num(y+14), color, more)
		word := [...]string{"tried in order", "goes back", "after an error"}[s]
		p.text(word, x+32, y+18, smallSize, "")
		x += 32 + textWidth([]string{word}, smallSize) + 18
	}
	p.text("Any node may also end in "+failed+" ("+unclaimed+") or "+cancelled+".", margin, y+36, smallSize, "")
	p.put(`</g>`)
}

// num writes a length with at most one decimal.
func num(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") }

// xmlText escapes a text for XML.
func xmlText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;").Replace(s)
}
