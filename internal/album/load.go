package album

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"pawl/internal/text"
)

// The limits of a file.
const (
	maxFile   = 64 << 20 // bytes
	maxLines  = 500_000
	maxFaults = 20 // that are listed; all are counted
)

// The limits of a photograph.
const (
	maxID     = 100 // bytes
	maxName   = 90  // characters of a name: two of them and a word are searched at once, and no search takes more than 200
	maxText   = 500 // characters of a title, a place, a collection
	maxLink   = 2000
	maxPeople = 200
	firstYear = 1826 // of the oldest photograph that is left
	lastYear  = 2100
)

// Fault is one thing wrong with a file.
type Fault struct {
	Line, Column int // from 1; columns are bytes
	Text         string
}

// LoadError is a file that was refused.
type LoadError struct {
	Name   string
	Faults []Fault // the first of them, by line
	Total  int
}

func (e *LoadError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "album %s is refused: %d faults", e.Name, e.Total)
	if e.Total == 1 {
		b.Reset()
		fmt.Fprintf(&b, "album %s is refused", e.Name)
	}
	for _, f := range e.Faults {
		fmt.Fprintf(&b, "\n  line %d, column %d: %s", f.Line, f.Column, f.Text)
	}
	if more := e.Total - len(e.Faults); more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// Load reads an album: CSV with a header, or JSON lines, which its first character tells. Both have the same fields, of which id and
// people are needed; a list has | between its members, or is an array. Where recognized_people stands, even empty, a recognizer has
// looked, and recognition_confidence has a number for each of its faces; a photograph without it is documented. The names of fields
// that other files have (photo_id, true_people, film_id) and British spellings are taken too.
//
// Every fault is found, and a file with one is refused whole.
func Load(name string, r io.Reader) (*Album, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("album %s: %w", name, err)
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("album %s: larger than the limit of %d MB", name, maxFile>>20)
	}
	if bytes.HasPrefix(raw, []byte{0xFF, 0xFE}) || bytes.HasPrefix(raw, []byte{0xFE, 0xFF}) {
		return nil, fmt.Errorf("album %s: UTF-16; save it as UTF-8", name)
	}
	if lines := bytes.Count(raw, []byte("\n")); lines > maxLines {
		return nil, fmt.Errorf("album %s: %d lines, more than the limit of %d", name, lines, maxLines)
	}
	raw = bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF"))
	l := loader{album: &Album{name: name, places: map[string]int{}}, faults: &LoadError{Name: name}, lines: map[string]int{}}
	switch first := bytes.TrimSpace(raw); {
	case len(first) == 0:
		return nil, fmt.Errorf("album %s: empty file", name)
	case first[0] == '[':
		return nil, fmt.Errorf("album %s: one JSON array; want one object a line", name)
	case first[0] == '{':
		readJSON(raw, l.add, l.fault)
	default:
		readCSV(raw, l.add, l.fault)
	}
	switch {
	case l.faults.Total > 0:
		return nil, l.faults
	case len(l.album.photos) == 0:
		return nil, fmt.Errorf("album %s: no photographs below the header", name)
	}
	return l.album, nil
}

type loader struct {
	album  *Album
	faults *LoadError
	lines  map[string]int // by id, to name both lines of a duplicate
}

func (l *loader) fault(f Fault) {
	l.faults.Total++
	if len(l.faults.Faults) < maxFaults {
		l.faults.Faults = append(l.faults.Faults, f)
	}
}

// add adds the photograph of a row, or finds its first fault.
func (l *loader) add(r row) {
	e := reader{row: r}
	p := e.photo()
	if before, twice := l.lines[p.ID]; twice {
		e.wrong("id", "%s: already on line %d", p.ID, before)
	}
	if e.fault != nil {
		l.fault(*e.fault)
		return
	}
	l.lines[p.ID] = r.line
	l.album.places[p.ID] = len(l.album.photos)
	l.album.photos = append(l.album.photos, p)
}

// reader makes a photograph of a row and keeps the first fault.
type reader struct {
	row
	fault *Fault
}

func (r *reader) wrong(f field, format string, args ...any) {
	if r.fault == nil {
		r.fault = &Fault{r.line, max(r.cells[f].column, 1), string(f) + ": " + fmt.Sprintf(format, args...)}
	}
}

func (r *reader) photo() Photo {
	p := Photo{
		ID: r.id(), Title: r.text("title", maxText), Year: r.number("year", firstYear, lastYear), Place: r.text("place", maxText),
		People: r.people("people"), Collection: r.text("collection", maxText), Link: r.link(), Outcome: r.outcome(),
		Unknown: r.number("unrecognized_faces", 0, 10_000),
	}
	if len(p.People) == 0 {
		r.wrong("people", "nobody is in it")
	}
	seen := map[string]bool{}
	for _, name := range p.People {
		if k := text.Key(name); seen[k] {
			r.wrong("people", "%s stands twice", name)
		} else {
			seen[k] = true
		}
	}
	_, looked := r.cells["recognized_people"]
	p.Documented = !looked
	if p.Faces = r.faces(); p.Documented {
		for _, name := range p.People {
			p.Faces = append(p.Faces, Face{name, Certain})
		}
	}
	return p
}

// id is kept to what an address can hold as it is.
func (r *reader) id() string {
	id := r.text("id", maxID)
	if id == "" {
		r.wrong("id", "it is empty")
	}
	if strings.ContainsFunc(id, func(c rune) bool {
		return c >= utf8.RuneSelf || !text.InWord(c) && !strings.ContainsRune("-._~", c)
	}) {
		r.wrong("id", "%q: want letters, digits and - . _ ~ only", id)
	}
	return id
}

// faces are whom a recognizer has seen. One person can be there twice, where it took another for him.
func (r *reader) faces() []Face {
	names, confidences := r.people("recognized_people"), r.list("recognition_confidence")
	if len(names) != len(confidences) {
		r.wrong("recognition_confidence", "%d for %d recognized people", len(confidences), len(names))
		return nil
	}
	var faces []Face
	for i, name := range names {
		c, err := strconv.ParseFloat(confidences[i], 64)
		if err != nil || math.IsNaN(c) || c < 0 || c > Certain {
			shown, _ := text.Clip(confidences[i], 40)
			r.wrong("recognition_confidence", "%q is no number from 0 to 100", shown)
		}
		faces = append(faces, Face{name, c})
	}
	return faces
}

func (r *reader) people(f field) []string {
	names := r.list(f)
	if len(names) > maxPeople {
		r.wrong(f, "%d of them, more than the limit of %d", len(names), maxPeople)
	}
	for i, name := range names {
		switch {
		case text.Key(name) == "":
			r.wrong(f, "number %d is empty", i+1)
		case utf8.RuneCountInString(name) > maxName:
			r.wrong(f, "number %d is longer than %d characters", i+1, maxName)
		}
	}
	return names
}

func (r *reader) outcome() Outcome {
	o := Outcome(r.text("fetch_outcome", maxText))
	if o == "" {
		return OK
	}
	if !slices.Contains(outcomes, o) {
		r.wrong("fetch_outcome", "%q is none of %s", string(o), joined(outcomes))
	}
	return o
}

func joined(outcomes []Outcome) string {
	s := make([]string, len(outcomes))
	for i, o := range outcomes {
		s[i] = string(o)
	}
	return strings.Join(s, ", ")
}

func (r *reader) link() string {
	link := r.text("link", maxLink)
	if link == "" {
		return ""
	}
	if u, err := url.Parse(link); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		r.wrong("link", "want an address that begins with https:// or http://, without a name or a password")
	}
	return link
}

func (r *reader) number(f field, least, most int) int {
	s := r.text(f, maxText)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		shown, _ := text.Clip(s, 40)
		r.wrong(f, "%q is no number from %d to %d", shown, least, most)
	}
	return n
}

// text is a single value of at most so many characters.
func (r *reader) text(f field, most int) string {
	c := r.cells[f]
	if c.array != nil {
		r.wrong(f, "want one value, not a list")
	}
	s, more := text.Clip(strings.TrimSpace(c.text), most)
	if more {
		r.wrong(f, "longer than %d characters", most)
	}
	r.clean(f, s)
	return s
}

// list is the members of a list, which | divides where it is text.
func (r *reader) list(f field) []string {
	c := r.cells[f]
	list := slices.Clone(c.array)
	if c.array == nil && strings.TrimSpace(c.text) != "" {
		list = strings.Split(c.text, "|")
	}
	for i, s := range list {
		list[i] = strings.TrimSpace(s)
		r.clean(f, s)
	}
	return list
}

// clean refuses what was never written by anybody: a replacement character stands where a character was lost.
func (r *reader) clean(f field, s string) {
	switch {
	case !utf8.ValidString(s):
		r.wrong(f, "not UTF-8")
	case strings.ContainsFunc(s, func(c rune) bool { return c == utf8.RuneError || unicode.IsControl(c) }):
		r.wrong(f, "a control character or a lost one (U+FFFD)")
	}
}
