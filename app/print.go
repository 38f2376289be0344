package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// output is standard output: data. It remembers its first fault.
type output struct {
	w        *bufio.Writer
	err      error
	terminal bool
}

func newOutput(w io.Writer) *output {
	_, ok := screen(w)
	return &output{w: bufio.NewWriter(w), terminal: ok}
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	o.keep(err)
	return n, err
}

func (o *output) keep(err error) {
	if o.err == nil {
		o.err = err
	}
}

func (o *output) flush() error {
	o.keep(o.w.Flush())
	return o.err
}

// line writes a line of text in which nothing steers a terminal.
func (o *output) line(format string, a ...any) {
	fmt.Fprintln(o, plain(fmt.Sprintf(format, a...)))
}

// record writes one line of JSON, at once.
func (o *output) record(v any) {
	fmt.Fprintln(o, string(compact(v)))
	o.keep(o.w.Flush())
}

// document writes indented JSON.
func (o *output) document(v any) {
	var b bytes.Buffer
	if err := json.Indent(&b, compact(v), "", "  "); err != nil {
		o.keep(err)
		return
	}
	b.WriteByte('\n')
	_, _ = o.Write(b.Bytes())
}

// compact encodes a value so that no terminal is steered by it: JSON leaves some control characters as they are.
func compact(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		b.Reset()
		fmt.Fprintf(&b, `{"type":"error","text":%q}`, err.Error())
	}
	raw := bytes.TrimSpace(b.Bytes())
	if !bytes.ContainsFunc(raw, steers) {
		return raw
	}
	var safe bytes.Buffer
	for _, r := range string(raw) {
		if steers(r) {
			fmt.Fprintf(&safe, `\u%04x`, r)
		} else {
			safe.WriteRune(r)
		}
	}
	return safe.Bytes()
}

// steers says whether a character moves a terminal's cursor or the direction of its writing.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// plain makes a text fit for a terminal: lines and tabs stay, every other control character shows as a box.
func plain(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if !strings.ContainsFunc(s, steers) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\u2028', r == '\u2029':
			return '\n'
		case steers(r):
			return '\uFFFD'
		}
		return r
	}, s)
}

// oneLine is plain on one line of at most so many columns, every run of spaces one space.
func oneLine(s string, columns int) string {
	return clip(strings.Join(strings.Fields(plain(s)), " "), columns)
}

// clip cuts a line to so many columns.
func clip(s string, columns int) string {
	used := 0
	for i, r := range s {
		w := cells(r)
		if used+w > columns-1 && cellsOf(s[i:]) > columns-used {
			return s[:i] + "…"
		}
		used += w
	}
	return s
}

// cells is how many columns a character takes on a terminal.
func cells(r rune) int {
	switch k := width.LookupRune(r).Kind(); {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case k == width.EastAsianWide || k == width.EastAsianFullwidth:
		return 2
	}
	return 1
}

func cellsOf(s string) (n int) {
	for _, r := range s {
		n += cells(r)
	}
	return n
}

// screen asks whether somebody looks at it or types into it, and how wide it is.
func screen(w any) (columns int, ok bool) {
	switch w := w.(type) {
	case Screen:
		return w.Size()
	case *os.File:
		fd := int(w.Fd())
		if !term.IsTerminal(fd) {
			return 0, false
		}
		if columns, _, err := term.GetSize(fd); err == nil && columns > 0 {
			return columns, true
		}
		return 80, true
	}
	return 0, false
}

// voice is standard error: talk. On a terminal its last line is a status that is drawn again and again.
type voice struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	live     bool // the terminal can redraw a line
	color    bool
	shown    string
	writing  bool                 // a text that comes piece by piece stands on the last line
	said     map[string]time.Time // faults that were told
	over     bool                 // none is told any more
}

func newVoice(w io.Writer, env func(string) string) *voice {
	_, ok := screen(w)
	v := &voice{w: w, terminal: ok, said: map[string]time.Time{}}
	v.live = ok && env("TERM") != "dumb" && (runtime.GOOS != "windows" || env("WT_SESSION") != "" || env("TERM") != "")
	v.color = v.live && env("NO_COLOR") == ""
	return v
}

// line says something.
func (v *voice) line(format string, a ...any) {
	v.raw(plain(fmt.Sprintf(format, a...)))
}

// raw says a line that may hold our own colors.
func (v *voice) raw(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.put(text)
}

func (v *voice) put(text string) {
	v.endText()
	status := v.shown
	v.draw("")
	fmt.Fprintln(v.w, text)
	v.draw(status)
}

// piece writes the next piece of a text, on a terminal. The status rests until something else is said.
func (v *voice) piece(text string) {
	if !v.live {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.draw("")
	v.writing = true
	fmt.Fprint(v.w, v.paint(dim, plain(text)))
}

// endText ends the line on which a text stands.
func (v *voice) endText() {
	if v.writing {
		v.writing = false
		fmt.Fprintln(v.w)
	}
}

// status shows a line that the next one replaces; empty: none.
func (v *voice) status(text string) {
	if !v.live {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.writing {
		return
	}
	columns, _ := screen(v.w)
	v.draw(clip(text, max(columns-1, 10)))
}

func (v *voice) draw(text string) {
	if text == v.shown {
		return
	}
	if v.shown != "" {
		fmt.Fprint(v.w, "\r\x1b[K")
	}
	v.shown = text
	if text != "" {
		fmt.Fprint(v.w, v.paint(dim, text))
	}
}

// prompt writes what an answer is typed behind.
func (v *voice) prompt(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.endText()
	v.draw("")
	fmt.Fprint(v.w, text)
}

// A trouble that stays is told again after a while. So many different ones are remembered.
const (
	faultAgain = time.Minute
	faultsKept = 1000
)

// fault tells a trouble that the engine goes on in spite of.
func (v *voice) fault(op string, err error) {
	text := oneLine(fmt.Sprintf("trouble (%s): %v", op, err), 300)
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if last, known := v.said[text]; v.over || known && now.Sub(last) < faultAgain {
		return
	}
	if len(v.said) >= faultsKept {
		clear(v.said)
	}
	v.said[text] = now
	v.put(text)
}

// hush lets no fault be told any more: what was thrown away at the second interrupt may still be under way.
func (v *voice) hush() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
}

// The colors that are used.
const (
	dim   = "2"
	bold  = "1"
	green = "32"
	red   = "31"
)

func (v *voice) paint(color, text string) string {
	if !v.color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// quoted is a word as a POSIX shell takes it.
func quoted(w string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+…", r)
	}
	if w != "" && !strings.ContainsFunc(w, func(r rune) bool { return !safe(r) }) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
