package draw

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pawl/internal/host"
)

var update = flag.Bool("update", false, "write the golden files anew")

func samples() map[string]host.Shape {
	return map[string]host.Shape{
		"nco": nco(), "reply": reply(), "brain": brain(), "visualdegrees": visual(),
		"retrieveorgenerate": generate(), "qualifier": qualify(), "hostile": hostile(),
	}
}

// TestGolden compares every drawing of every sample with its golden file; the diff is the review.
func TestGolden(t *testing.T) {
	for name, s := range samples() {
		data, err := JSON(s)
		if err != nil {
			t.Fatal(err)
		}
		for ext, got := range map[string]string{"mmd": Mermaid(s), "dot": Dot(s), "svg": SVG(s), "json": string(data) + "\n"} {
			t.Run(name+"."+ext, func(t *testing.T) {
				file := filepath.Join("testdata", name+"."+ext)
				if *update {
					if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if got != string(want) {
					t.Errorf("%s is drawn otherwise now (go test -update writes it anew):\n%s", file, got)
				}
			})
		}
	}
}

// TestSameBytes: maps inside a shape must not show in the drawing.
func TestSameBytes(t *testing.T) {
	draw := func() string { return Mermaid(visual()) + Dot(visual()) + SVG(visual()) }
	first := draw()
	for range 20 {
		if draw() != first {
			t.Fatal("the same shape gave other bytes")
		}
	}
}

func TestLabels(t *testing.T) {
	tests := []struct {
		edge host.Edge
		only bool
		want string
	}{
		{host.Edge{Name: "improved search", Max: 1, PerTurn: true}, false, "improved search ≤1/turn"},
		{host.Edge{Name: "try again", Max: 4}, false, "try again ≤4"},
		{host.Edge{Name: "clarified", Kind: host.OnAnswer, Max: 3}, false, "answer: clarified ≤3"},
		{host.Edge{Name: "out of budget", Kind: host.OnError}, true, "error: out of budget"},
		{host.Edge{Name: "otherwise", Kind: host.Otherwise}, true, ""},
		{host.Edge{Name: "otherwise", Kind: host.Otherwise}, false, "otherwise"},
		{host.Edge{Name: "two\nlines\x07"}, false, "two lines\ufffd"},
	}
	for _, test := range tests {
		if got := label(test.edge, test.only); got != test.want {
			t.Errorf("label(%+v) = %q, want %q", test.edge, got, test.want)
		}
	}
	for amt, want := range map[string]string{
		amount("usd", 5_000_000): "usd $5", amount("usd", 20_000): "usd $0.02",
		amount("runtime", 600_000): "runtime 10m", amount("llm", 12): "llm 12",
	} {
		if amt != want {
			t.Errorf("amount is %q, want %q", amt, want)
		}
	}
}

// parseXML reads a whole document and hands every element to see.
func parseXML(t *testing.T, text string, see func(xml.StartElement)) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, text)
		}
		if e, ok := token.(xml.StartElement); ok {
			see(e)
		}
	}
}

// TestHostileSVG: names cannot become elements, attributes or references.
func TestHostileSVG(t *testing.T) {
	may := map[string]bool{"svg": true, "title": true, "g": true, "path": true, "rect": true, "circle": true, "text": true}
	parseXML(t, SVG(hostile()), func(e xml.StartElement) {
		if !may[e.Name.Local] {
			t.Errorf("element <%s> in the drawing", e.Name.Local)
		}
		for _, a := range e.Attr {
			if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" || a.Name.Local == "style" || a.Name.Local == "id" {
				t.Errorf("attribute %s=%q in the drawing", a.Name.Local, a.Value)
			}
		}
	})
}

// TestHostileMermaid: whatever stands in quotes is letters and character codes, so that no name ends its quotes, makes
// a link or is read as HTML or Markdown.
func TestHostileMermaid(t *testing.T) {
	for line := range strings.Lines(Mermaid(hostile())) {
		part := strings.Split(line, `"`)
		if len(part)%2 == 0 {
			t.Errorf("odd number of quotes: %s", line)
		}
		for i := 1; i < len(part); i += 2 {
			if text := strings.ReplaceAll(part[i], "<br/>", ""); strings.ContainsAny(text, "<>&`*[]{}|\\") {
				t.Errorf("unescaped text %q in %s", text, line)
			}
		}
	}
	if out := Mermaid(hostile()); !utf8.ValidString(out) || strings.ContainsAny(out, "\u202e\x00") {
		t.Error("control characters in the drawing")
	}
}

// TestDotReads has Graphviz read every drawing.
func TestDotReads(t *testing.T) {
	dot, err := exec.LookPath("dot")
	if err != nil {
		t.Skip("not installed: dot")
	}
	for name, s := range samples() {
		cmd := exec.Command(dot, "-Tsvg")
		cmd.Stdin = strings.NewReader(Dot(s))
		var says bytes.Buffer
		cmd.Stderr = &says
		out, err := cmd.Output()
		if err != nil || strings.Contains(says.String(), "syntax") {
			t.Errorf("%s: %v %s", name, err, says.String())
			continue
		}
		if want, got := len(s.Nodes)+4, bytes.Count(out, []byte(`class="node"`)); got != want {
			t.Errorf("%s: dot read %d nodes, want %d", name, got, want)
		}
		parseXML(t, string(out), func(e xml.StartElement) {
			if e.Name.Local == "script" || e.Name.Local == "image" {
				t.Errorf("%s: element <%s> in the drawing", name, e.Name.Local)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	data, err := JSON(reply())
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		Nodes   []struct{ Name, Kind string }
		Edges   []struct{ Kind, Label string }
		BuiltIn []struct{ Name string }
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Nodes) != 5 || len(g.Edges) != 8 || len(g.BuiltIn) != 2 {
		t.Errorf("%d nodes, %d edges, %d built-in ends", len(g.Nodes), len(g.Edges), len(g.BuiltIn))
	}
	empty, err := JSON(host.Shape{})
	if err != nil || bytes.Contains(empty, []byte("null")) {
		t.Errorf("an empty shape: %v %s", err, empty)
	}
}

// TestEdgesOutside: a drawing shows a broken shape as far as it goes and does not panic.
func TestEdgesOutside(t *testing.T) {
	for _, s := range []host.Shape{
		{}, {Start: 7}, {Start: -1, Nodes: []host.Node{{Name: "a", Edges: []host.Edge{{To: 5}, {To: -1}, {To: 0}}}}},
	} {
		_, _ = Mermaid(s), Dot(s)
		parseXML(t, SVG(s), func(xml.StartElement) {})
	}
}

// TestLayout: whatever the graph, boxes and labels lie beside each other and inside the picture, and every forward
// route goes down.
func TestLayout(t *testing.T) {
	shapes := samples()
	for seed := range uint64(25) {
		shapes[fmt.Sprint("random", seed)] = random(30, seed)
	}
	for name, s := range shapes {
		parseXML(t, SVG(s), func(xml.StartElement) {})
		l := newLayout(s)
		for k, rank := range l.ranks {
			if k > 0 && l.top[k] < l.bottom[k-1] {
				t.Errorf("%s: rank %d lies in rank %d", name, k, k-1)
			}
			for i, b := range rank[1:] {
				a, z := l.boxes[rank[i]], l.boxes[b]
				if a.x+a.w/2 > z.x-z.w/2 {
					t.Errorf("%s: boxes %d and %d of rank %d overlap", name, i, i+1, k)
				}
			}
		}
		for _, b := range l.boxes {
			if b.x-b.w/2 < 0 || b.x+b.w/2 > l.w || b.y-b.h/2 < 0 || b.y+b.h/2 > l.h {
				t.Errorf("%s: a box lies outside the picture: %+v", name, b)
			}
		}
		for _, r := range l.routes {
			for i := 1; i < len(r.chain); i++ {
				if l.boxes[r.chain[i]].rank != l.boxes[r.chain[i-1]].rank+1 {
					t.Errorf("%s: route %d→%d jumps", name, r.from, r.to)
				}
			}
			if r.back {
				laneIsFree(t, name, l, r)
			}
		}
	}
}

// laneIsFree: the lane of a route that goes back, and its label, touch no box and no other label beside it.
func laneIsFree(t *testing.T, name string, l *layout, r route) {
	t.Helper()
	lo, hi := r.lane, r.lane+textWidth(r.lines, labelSize)+6
	if !r.right {
		lo, hi = r.lane-(hi-lo), r.lane
	}
	if lo < 0 || hi > l.w {
		t.Errorf("%s: the lane %d→%d lies outside the picture", name, r.from, r.to)
	}
	to, from := l.boxes[r.to].rank, l.boxes[r.from].rank
	for _, b := range l.boxes {
		if b.rank >= to && b.rank <= from && math.Abs(b.x-(lo+hi)/2) < (b.w+hi-lo)/2 {
			t.Errorf("%s: the lane %d→%d crosses a box", name, r.from, r.to)
		}
	}
}
