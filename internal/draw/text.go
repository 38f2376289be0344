package draw

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"pawl/internal/host"
)

const (
	nameSize   = 13.0
	nameLine   = 17.0
	smallSize  = 10.5
	smallLine  = 14.0
	labelSize  = 11.0
	labelLine  = 14.0
	nameWidth  = 24 // letters on a line
	labelWidth = 24
	headRoom   = 62.0
)

// nodeSize is the room that a node's name and details need.
func nodeSize(n host.Node) (w, h float64) {
	names, small := wrap(mark(n), nameWidth, 4), details(n)
	w = max(textWidth(names, nameSize), textWidth(small, smallSize)) + 26
	h = float64(nameLine*float64(len(names))) + float64(smallLine*float64(len(small))) + 14
	return max(w, 64), h
}

// mark is a node's name; the sign of its kind is part of it, so that color is never the only difference.
func mark(n host.Node) string {
	switch n.Kind {
	case host.Succeed:
		return "✓ " + clean(n.Name)
	case host.Fail:
		return "✗ " + clean(n.Name)
	}
	return clean(n.Name)
}

// wrap breaks a text into at most most lines of about width letters: at spaces, or after signs that join words, or
// where the width ends. What does not fit ends with an ellipsis.
func wrap(s string, width, most int) []string {
	var lines []string
	line := ""
	for _, word := range pieces(s, width) {
		if line != "" && utf8.RuneCountInString(line+strings.TrimRight(word, " ")) > width {
			lines = append(lines, strings.TrimSpace(line))
			line = ""
		}
		line += word
	}
	if lines = append(lines, strings.TrimSpace(line)); len(lines) > most {
		lines = lines[:most]
		lines[most-1] += "…"
	}
	return lines
}

// pieces cuts a text where a line may end; no piece is longer than width.
func pieces(s string, width int) []string {
	var out []string
	piece, n := "", 0
	before := ' '
	for _, r := range s {
		word := before == ' ' && r != ' ' && r != '≤' // a bound stays with its name
		joined := n > 7 && (strings.ContainsRune("_-./@", before) || unicode.IsUpper(r) && unicode.IsLower(before))
		if n == width || n > 0 && (word || joined) {
			out = append(out, piece)
			piece, n = "", 0
		}
		piece += string(r)
		n++
		before = r
	}
	return append(out, piece)
}

// textWidth estimates the widest line in a common sans-serif font, a little on the wide side.
func textWidth(lines []string, size float64) float64 {
	most := 0.0
	for _, line := range lines {
		w := 0.0
		for _, r := range line {
			w += runeWidth(r)
		}
		most = max(most, w)
	}
	return float64(most * size)
}

func runeWidth(r rune) float64 {
	switch {
	case strings.ContainsRune("ijl.,:;'|!ftrI()[]/ ", r):
		return 0.38
	case strings.ContainsRune("mwMW@%…—", r):
		return 0.98
	case unicode.Is(unicode.Mn, r):
		return 0
	case r >= 0x1100 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r > 0xffff):
		return 1.05
	case unicode.IsUpper(r):
		return 0.74
	}
	return 0.63
}
