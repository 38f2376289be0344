package album

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"pawl/internal/text"
)

// cell is what a row has under one name. A list comes as an array, or as text with | between.
type cell struct {
	column int // of the line, in bytes from 1
	text   string
	array  []string // nil: it is text
}

// row is one photograph as a file holds it.
type row struct {
	line  int
	cells map[field]cell
}

// field is what a cell can say.
type field string

// names are all that a field may be called, in the header of a CSV and as the key of an object.
var names = map[string]field{
	"id": "id", "photo_id": "id",
	"title": "title", "year": "year", "place": "place", "link": "link",
	"collection": "collection", "film_id": "collection",
	"people": "people", "true_people": "people",
	"fetch_outcome":     "fetch_outcome",
	"recognized_people": "recognized_people", "recognised_people": "recognized_people",
	"recognition_confidence": "recognition_confidence",
	"unrecognized_faces":     "unrecognized_faces", "unrecognised_faces": "unrecognized_faces",
}

const fieldList = "id, title, year, place, people, collection, link, fetch_outcome, recognized_people, recognition_confidence and unrecognized_faces"

// fieldOf is the field of a name, or what is wrong with it. A name that means nothing is refused: what stands under it would be lost.
func fieldOf(name string, seen func(field) bool) (field, string) {
	f, ok := names[text.Key(name)]
	shown, _ := text.Clip(name, 40)
	switch {
	case !ok:
		return "", fmt.Sprintf("%q is no field; the fields are %s", shown, fieldList)
	case seen(f):
		return "", fmt.Sprintf("%q: the field %s stands twice", shown, f)
	}
	return f, ""
}

// readCSV hands out the rows below a header. A row that cannot be read is a fault, and the next is tried.
func readCSV(raw []byte, take func(row), fault func(Fault)) {
	rows := csv.NewReader(bytes.NewReader(raw))
	rows.FieldsPerRecord = -1 // ragged rows are our finding, with their line
	var header []field
	for {
		cells, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if bad, ok := errors.AsType[*csv.ParseError](err); ok {
			fault(Fault{bad.StartLine, bad.Column, bad.Err.Error()})
			if header == nil {
				return
			}
			continue
		}
		line, column := rows.FieldPos(0)
		switch {
		case header == nil:
			if header = readHeader(rows, cells, fault); header == nil {
				return
			}
		case len(cells) != len(header):
			fault(Fault{line, column, fmt.Sprintf("%d fields, the header has %d", len(cells), len(header))})
		default:
			r := row{line: line, cells: make(map[field]cell, len(header))}
			for i, f := range header {
				_, at := rows.FieldPos(i)
				r.cells[f] = cell{column: at, text: cells[i]}
			}
			take(r)
		}
	}
}

// readHeader is the fields of the columns; nil: there is a fault.
func readHeader(rows *csv.Reader, cells []string, fault func(Fault)) []field {
	seen := map[field]bool{}
	var header []field
	for i, name := range cells {
		line, column := rows.FieldPos(i)
		f, wrong := fieldOf(name, func(f field) bool { return seen[f] })
		if wrong != "" {
			fault(Fault{line, column, wrong})
			continue
		}
		seen[f] = true
		header = append(header, f)
	}
	line, column := rows.FieldPos(0)
	for _, f := range []field{"id", "people"} {
		if !seen[f] {
			fault(Fault{line, column, fmt.Sprintf("no column %s", f)})
			header = nil
		}
	}
	if len(header) < len(cells) {
		return nil
	}
	return header
}

// readJSON hands out the rows of JSON lines.
func readJSON(raw []byte, take func(row), fault func(Fault)) {
	n := 0
	for line := range bytes.Lines(raw) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		cells, column, wrong := readObject(line)
		if wrong != "" {
			fault(Fault{n, column, wrong})
			continue
		}
		take(row{n, cells})
	}
}

// readObject reads token by token: only so is known where a field stands, and that none stands twice.
func readObject(line []byte) (cells map[field]cell, column int, wrong string) {
	if at := notUTF8(line); at >= 0 {
		return nil, at + 1, "not UTF-8"
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	cells = map[field]cell{}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, 1, "no JSON object"
	}
	for d.More() {
		column = next(line, d.InputOffset())
		t, err := d.Token()
		if err != nil {
			return nil, next(line, d.InputOffset()), jsonFault(err)
		}
		name, _ := t.(string) // a key is nothing else
		f, wrong := fieldOf(name, func(f field) bool { _, twice := cells[f]; return twice })
		if wrong != "" {
			return nil, column, wrong
		}
		c, err := readValue(d)
		if err != nil {
			return nil, next(line, d.InputOffset()), string(f) + ": " + jsonFault(err)
		}
		c.column = column
		cells[f] = c
	}
	if _, err := d.Token(); err != nil {
		return nil, next(line, d.InputOffset()), jsonFault(err)
	}
	if rest := line[d.InputOffset():]; len(bytes.TrimSpace(rest)) > 0 {
		return nil, next(line, d.InputOffset()), "text behind the object"
	}
	return cells, 0, ""
}

// readValue reads text, a number, or an array of them.
func readValue(d *json.Decoder) (cell, error) {
	t, err := d.Token()
	if err != nil {
		return cell{}, err
	}
	if t != json.Delim('[') {
		s, err := scalar(t)
		return cell{text: s}, err
	}
	c := cell{array: []string{}}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return cell{}, err
		}
		s, err := scalar(t)
		if err != nil {
			return cell{}, err
		}
		c.array = append(c.array, s)
	}
	_, err = d.Token()
	return c, err
}

func scalar(t json.Token) (string, error) {
	switch t := t.(type) {
	case string:
		return t, nil
	case json.Number:
		return t.String(), nil
	}
	return "", errors.New("want text, a number or a list of them")
}

func jsonFault(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the JSON ends too early"
	}
	return err.Error()
}

// next is the column of what follows at an offset.
func next(line []byte, offset int64) int {
	rest := line[min(int(offset), len(line)):]
	return len(line) - len(bytes.TrimLeft(rest, " \t,:")) + 1
}

// notUTF8 is where the first byte is that is none; -1: all are.
func notUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
