package nco

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"pawl/internal/text"
)

const (
	maxCatalog = 64 << 20 // bytes of a file
	maxFaults  = 20       // faults of a file that are listed; all are counted
)

// Fault is one thing wrong with a row.
type Fault struct {
	Line int    // of the file, from 1
	Text string // what is wrong, in plain words
}

// LoadError is a file that was refused because of its rows.
type LoadError struct {
	Name   string
	Faults []Fault // the first of them, by line
	Total  int
}

func (e *LoadError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "catalogue %s is refused: %d bad rows", e.Name, e.Total)
	if e.Total == 1 {
		b.Reset()
		fmt.Fprintf(&b, "catalogue %s is refused: 1 bad row", e.Name)
	}
	for _, f := range e.Faults {
		fmt.Fprintf(&b, "\n  line %d: %s", f.Line, f.Text)
	}
	if more := e.Total - len(e.Faults); more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// Load reads a catalogue from CSV with a header. Columns are found by name: the code is `code` or `nco_code`; the title is
// the first of `title_repaired`, `title` and `label` that is not empty; `description` is optional; others are ignored.
//
// NNNN.NNNN and NNNN are entries, one to three digits headings. A code that was written as a decimal (2512.01) is padded
// on the right to four places. Every bad row is found, and a file with one is refused whole. Headings that the file does
// not give, such as family titles, come from the embedded catalogue.
func Load(name string, r io.Reader) (*Catalog, error) {
	c, err := parse(name, r)
	if err != nil {
		return nil, err
	}
	if err := c.settle(Embedded()); err != nil {
		return nil, err
	}
	return c, nil
}

// parse reads the rows; settle makes a catalogue of them.
func parse(name string, r io.Reader) (*Catalog, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxCatalog+1))
	if err != nil {
		return nil, fmt.Errorf("catalogue %s: %w", name, err)
	}
	if len(raw) > maxCatalog {
		return nil, fmt.Errorf("catalogue %s: larger than the limit of %d MB", name, maxCatalog>>20)
	}
	if bytes.HasPrefix(raw, []byte{0xFF, 0xFE}) || bytes.HasPrefix(raw, []byte{0xFE, 0xFF}) {
		return nil, fmt.Errorf("catalogue %s: UTF-16; save it as UTF-8", name)
	}
	rows := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF"))))
	rows.FieldsPerRecord = -1 // ragged rows are our finding, with their line
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("catalogue %s: empty file", name)
	}
	if err != nil {
		return nil, fmt.Errorf("catalogue %s: header: %w", name, err)
	}
	cols, err := columnsOf(header)
	if err != nil {
		return nil, fmt.Errorf("catalogue %s: %w", name, err)
	}
	l := loader{
		columns: cols,
		catalog: &Catalog{name: name, headings: map[string]string{}},
		faults:  &LoadError{Name: name},
		lines:   map[string]int{},
	}
	l.read(rows)
	if l.faults.Total > 0 {
		return nil, l.faults
	}
	return l.catalog, nil
}

// columns says where the header has what; -1 is nowhere.
type columns struct {
	width, code, description int
	titles                   []int // in the order in which they are tried
}

func columnsOf(header []string) (columns, error) {
	names := make([]string, len(header))
	for i, h := range header {
		names[i] = text.Key(h)
	}
	c := columns{width: len(names), code: slices.Index(names, "code"), description: slices.Index(names, "description")}
	if c.code < 0 {
		c.code = slices.Index(names, "nco_code")
	}
	for _, want := range []string{"title_repaired", "title", "label"} {
		if i := slices.Index(names, want); i >= 0 {
			c.titles = append(c.titles, i)
		}
	}
	var faults []error
	if c.code < 0 {
		faults = append(faults, errors.New("no column code or nco_code"))
	}
	if len(c.titles) == 0 {
		faults = append(faults, errors.New("no column title_repaired, title or label"))
	}
	for _, i := range append([]int{c.code, c.description}, c.titles...) {
		if i >= 0 && slices.Contains(names[i+1:], names[i]) {
			faults = append(faults, fmt.Errorf("two columns %s", names[i]))
		}
	}
	if err := errors.Join(faults...); err != nil {
		shown, _ := text.Clip(strings.Join(names, ", "), 200)
		return c, fmt.Errorf("%s (the header has: %s)", strings.ReplaceAll(err.Error(), "\n", "; "), shown)
	}
	return c, nil
}

// loader reads the rows of one file.
type loader struct {
	columns
	catalog *Catalog
	faults  *LoadError
	lines   map[string]int // code -> line, to name both lines of a duplicate
}

func (l *loader) read(rows *csv.Reader) {
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		l.catalog.report.Rows++
		if bad, ok := errors.AsType[*csv.ParseError](err); ok {
			l.fault(bad.StartLine, bad.Err.Error())
			continue
		}
		if err != nil { // a reader in memory has no other error; if it had, it would have it for ever
			l.fault(l.catalog.report.Rows+1, err.Error())
			return
		}
		line, _ := rows.FieldPos(0)
		if f := l.row(line, row); f != "" {
			l.fault(line, f)
		}
	}
}

func (l *loader) fault(line int, f string) {
	l.faults.Total++
	if len(l.faults.Faults) < maxFaults {
		l.faults.Faults = append(l.faults.Faults, Fault{line, f})
	}
}

// row adds one row to the catalogue, or says what is wrong with it.
func (l *loader) row(line int, row []string) (fault string) {
	if len(row) != l.width {
		return fmt.Sprintf("%d fields, the header has %d", len(row), l.width)
	}
	for i, field := range row {
		if !utf8.ValidString(field) {
			return fmt.Sprintf("field %d is not valid UTF-8", i+1)
		}
		if strings.ContainsRune(field, 0) {
			return fmt.Sprintf("field %d holds a NUL character", i+1)
		}
	}
	code, padded, ok := readCode(strings.TrimSpace(row[l.code]))
	if !ok {
		shown, _ := text.Clip(code, 40)
		return fmt.Sprintf("code %q: want NNNN.NNNN, NNNN or the one to three digits of a heading", shown)
	}
	title := l.title(row)
	if title == "" {
		return fmt.Sprintf("code %s: the title is empty", code)
	}
	if before, twice := l.lines[code]; twice {
		return fmt.Sprintf("code %s: already on line %d", code, before)
	}
	l.lines[code] = line
	if padded {
		l.catalog.report.Padded++
	}
	if len(code) < 4 {
		l.catalog.headings[code] = title
		return ""
	}
	e := Entry{Code: code, Title: title}
	if l.description >= 0 {
		e.Description = strings.TrimSpace(row[l.description])
	}
	l.catalog.entries = append(l.catalog.entries, e)
	return ""
}

// title is the first title that shows something, with its spaces put in order.
func (l *loader) title(row []string) string {
	for _, i := range l.titles {
		if text.Key(row[i]) != "" {
			return strings.Join(strings.Fields(row[i]), " ")
		}
	}
	return ""
}

// readCode checks the form of a code and pads a decimal on the right: a list that went through a spreadsheet has lost its zeros.
func readCode(s string) (code string, padded, ok bool) {
	whole, places, dotted := strings.Cut(s, ".")
	switch {
	case !digits(whole) || len(whole) > 4:
		return s, false, false
	case !dotted:
		return s, false, true
	case len(whole) != 4 || !digits(places) || len(places) > 4:
		return s, false, false
	}
	zeros := 4 - len(places)
	return s + strings.Repeat("0", zeros), zeros > 0, true
}

func digits(s string) bool {
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return s != ""
}
