package app

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"pawl/internal/text"
)

// bulkColumns are what is added to every row.
var bulkColumns = []string{
	"nco_row", "nco_status", "nco_codes", "nco_titles", "nco_confidence", "nco_question", "nco_choices", "nco_assumptions", "nco_reason",
}

// bulkFallback is added too where a model codes: why the built-in rules did it in its place, empty where they did not.
const bulkFallback = "nco_fallback"

const maxBulkFaults = 20 // faults of a file that are listed; all are counted

// bulkFile is what a look through the whole input has found.
type bulkFile struct {
	hash   string // SHA-256 of its bytes, in hex
	bom    bool
	head   []byte // the header as it stands there
	header []string
	column int // the one that is coded
	rows   int
	model  bool // codes
}

// added are the columns that are added to every row.
func (f *bulkFile) added() []string {
	if f.model {
		return append(slices.Clip(bulkColumns), bulkFallback)
	}
	return bulkColumns
}

// byModel makes it one that a model codes.
func (f *bulkFile) byModel(name string) error {
	f.model = true
	if slices.ContainsFunc(f.header, func(h string) bool { return text.Key(h) == bulkFallback }) {
		return invalid("%s: it has a column %s already: rename or remove it, a column of that name is added", name, bulkFallback)
	}
	return nil
}

// surveyBulk looks through the whole input before anything is done: it must be CSV, and the column must be one that can
// hold descriptions of work, if not any will do. Errors name the file and the lines or columns.
func surveyBulk(ctx context.Context, name string, in io.Reader, column string, anyColumn bool) (*bulkFile, error) {
	hash := sha256.New()
	tee := bufio.NewReaderSize(io.TeeReader(in, hash), 64<<10)
	if b, _ := tee.Peek(2); bytes.Equal(b, []byte{0xFF, 0xFE}) || bytes.Equal(b, []byte{0xFE, 0xFF}) {
		return nil, invalid("%s: UTF-16; save it as CSV in UTF-8", name)
	}
	r := newRowReader(tee, maxBulkRow)
	f := &bulkFile{bom: r.bom()}
	if err := f.readHeader(name, r, column); err != nil {
		return nil, err
	}
	looks := make([]columnLook, len(f.header))
	var faults []string
	total := 0
	for {
		row, err := r.next()
		bad, broken := errors.AsType[*rowFault](err)
		switch {
		case errors.Is(err, io.EOF):
			if total > 0 {
				return nil, brokenFile(name, faults, total)
			}
			f.hash = hex.EncodeToString(hash.Sum(nil))
			if anyColumn {
				return f, nil
			}
			return f, refuseColumn(name, f, looks)
		case err != nil && !broken:
			return nil, fmt.Errorf("%s: %w", name, err)
		case err == nil && f.skips(row):
			continue
		case err == nil && len(row.fields) != len(f.header):
			bad = &rowFault{row.line, fmt.Sprintf("%d fields, the header has %d", len(row.fields), len(f.header))}
		}
		if bad != nil {
			if total++; len(faults) < maxBulkFaults {
				faults = append(faults, bad.Error())
			}
			continue
		}
		f.rows++
		for i, cell := range row.fields {
			looks[i].add(cell)
		}
		if f.rows%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// skips says whether a row is an empty line. In a file of one column that is an empty cell; elsewhere it is nothing.
func (f *bulkFile) skips(r csvRow) bool { return r.blank() && len(f.header) > 1 }

func brokenFile(name string, faults []string, total int) error {
	if more := total - len(faults); more > 0 {
		faults = append(faults, fmt.Sprintf("and %d more", more))
	}
	rows := "1 bad row"
	if total > 1 {
		rows = fmt.Sprintf("%d bad rows", total)
	}
	return invalid("%s is refused, %s: nothing was done\n  %s", name, rows, strings.Join(faults, "\n  "))
}

// readHeader reads the names of the columns, checks them and finds the one that is to be coded.
func (f *bulkFile) readHeader(name string, r *rowReader, column string) error {
	row, err := r.next()
	for err == nil && row.blank() {
		row, err = r.next()
	}
	switch {
	case errors.Is(err, io.EOF):
		return invalid("%s: empty file: want CSV with a header", name)
	case err != nil:
		return invalid("%s: header: %v", name, err)
	}
	f.head, f.header = slices.Clone(row.raw), row.fields
	for i, h := range f.header {
		key := text.Key(h)
		switch {
		case !utf8.ValidString(h):
			return invalid("%s: header: column %d is not valid UTF-8; save it as CSV in UTF-8", name, i+1)
		case strings.ContainsRune(h, 0):
			return invalid("%s: header: column %d holds a NUL character; if it is UTF-16, save it as CSV in UTF-8", name, i+1)
		case strings.ContainsRune(h, '\r') && !row.whole:
			return invalid("%s: its lines end with CR alone; save it with the line ends of today", name)
		case slices.Contains(bulkColumns, key):
			return invalid("%s: it has a column %s already: rename or remove it, a column of that name is added", name, shortened(h))
		}
	}
	return f.find(name, column)
}

// find finds the column that is to be coded; the error names those that there are. Others may have one name.
func (f *bulkFile) find(name, column string) error {
	named := func(h string) bool { return text.Key(h) == text.Key(column) }
	f.column = slices.IndexFunc(f.header, named)
	if f.column >= 0 && text.Key(column) != "" {
		if again := f.column + 1 + slices.IndexFunc(f.header[f.column+1:], named); again > f.column {
			return invalid("%s: two columns are named %s", name, shortened(f.header[again]))
		}
		return nil
	}
	there := namesOf(f.header)
	if len(f.header) == 1 && strings.ContainsAny(f.header[0], ";\t|") {
		there += "; is another character than the comma between its columns? Save it with commas"
	}
	if column == "" {
		return invalid("--column is missing: which one holds the descriptions of work? %s has: %s", name, there)
	}
	return invalid("--column: %s has no column %s (there are: %s)", name, shortened(column), there)
}

// namesOf lists columns for a message.
func namesOf(columns []string) string {
	const most = 50
	var names []string
	for i, c := range columns {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(columns)-most))
			break
		}
		names = append(names, shortened(c))
	}
	return strings.Join(names, ", ")
}
