package app

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxBulkRow is how long a row of a file may be, in bytes: what is longer is a quote that nobody closed.
const maxBulkRow = 4 << 20

// rowReader reads the rows of a CSV file one by one and keeps their bytes as they are, so that a row can be written again
// unchanged. It takes what encoding/csv takes, and refuses what that refuses.
type rowReader struct {
	r      *bufio.Reader
	most   int   // bytes of a row
	offset int64 // bytes that were read
	line   int   // lines that were read

	// The row under way.
	raw   []byte
	text  []byte // of its fields, without quotes
	ends  []int  // of each field in text
	state rowState
}

type rowState int

const (
	fieldBegins rowState = iota
	inPlain
	inQuotes
	afterQuote // a quote in a quoted field: its end, or half of a quote
)

// csvRow is one row. It is only good until the next one is read.
type csvRow struct {
	line   int    // of the file, from 1, where it begins
	raw    []byte // without the end of the line
	fields []string
	whole  bool // the end of its line is there
}

// blank says whether a row is an empty line: one empty field, or nothing.
func (r csvRow) blank() bool { return len(r.raw) == 0 }

// rowFault is what is wrong with a row.
type rowFault struct {
	line int
	text string
}

func (f *rowFault) Error() string { return fmt.Sprintf("line %d: %s", f.line, f.text) }

func newRowReader(r io.Reader, most int) *rowReader {
	return &rowReader{r: bufio.NewReaderSize(r, 64<<10), most: most}
}

// bom skips a byte order mark and says whether there is one.
func (r *rowReader) bom() bool {
	if b, _ := r.r.Peek(3); !bytes.Equal(b, []byte("\xEF\xBB\xBF")) {
		return false
	}
	n, _ := r.r.Discard(3)
	r.offset += int64(n)
	return true
}

// next gives the next row, io.EOF behind the last one, or a *rowFault, behind which it goes on with the next line.
func (r *rowReader) next() (csvRow, error) {
	r.raw, r.text, r.ends, r.state = r.raw[:0], r.text[:0], r.ends[:0], fieldBegins
	row := csvRow{line: r.line + 1}
	for {
		from := len(r.raw)
		err := r.physical()
		if err != nil && !errors.Is(err, io.EOF) {
			return row, err
		}
		if len(r.raw) == from { // nothing is left
			if r.state == inQuotes {
				return row, &rowFault{row.line, "a quoted field begins here and does not end"}
			}
			return row, io.EOF
		}
		r.line++
		row.whole = r.raw[len(r.raw)-1] == '\n'
		if why := r.parse(r.raw[from:]); why != "" {
			return row, &rowFault{r.line, why}
		}
		if r.state != inQuotes {
			break
		}
	}
	r.ends = append(r.ends, len(r.text))
	row.raw = withoutLineEnd(r.raw)
	all, from := string(r.text), 0
	row.fields = make([]string, len(r.ends))
	for i, end := range r.ends {
		row.fields[i], from = all[from:end], end
	}
	return row, nil
}

// physical adds one more line to the row, with its end.
func (r *rowReader) physical() error {
	for {
		part, err := r.r.ReadSlice('\n')
		r.offset += int64(len(part))
		if len(r.raw)+len(part) > r.most {
			return invalid("line %d: a row of more than %d MB: is there a quote that does not end?", r.line+1, r.most>>20)
		}
		r.raw = append(r.raw, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

func withoutLineEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

// parse takes the fields from one line, or from the rest of one in which a quoted field ends.
func (r *rowReader) parse(line []byte) (why string) {
	body := withoutLineEnd(line)
	for _, b := range body {
		switch r.state {
		case fieldBegins, inPlain:
			switch {
			case b == ',':
				r.ends, r.state = append(r.ends, len(r.text)), fieldBegins
			case b == '"' && r.state == fieldBegins:
				r.state = inQuotes
			case b == '"':
				return "a quote inside a field that does not begin with one"
			default:
				r.text, r.state = append(r.text, b), inPlain
			}
		case inQuotes:
			if b == '"' {
				r.state = afterQuote
			} else {
				r.text = append(r.text, b)
			}
		case afterQuote:
			switch b {
			case '"':
				r.text, r.state = append(r.text, b), inQuotes
			case ',':
				r.ends, r.state = append(r.ends, len(r.text)), fieldBegins
			default:
				return "text behind the closing quote of a field"
			}
		}
	}
	if r.state == inQuotes {
		r.text = append(r.text, line[len(body):]...)
	}
	return ""
}

// appendField adds a field to a row, in quotes where it needs them.
func appendField(row []byte, field string) []byte {
	if field == "" || field[0] != ' ' && !bytes.ContainsAny([]byte(field), "\",\r\n") {
		return append(row, field...)
	}
	row = append(row, '"')
	for i := range len(field) {
		if field[i] == '"' {
			row = append(row, '"')
		}
		row = append(row, field[i])
	}
	return append(row, '"')
}
