package app

import (
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// rowsOf reads all rows; a fault stands for its row.
func rowsOf(text string) (rows []csvRow, faults []string) {
	r := newRowReader(strings.NewReader(text), maxBulkRow)
	r.bom()
	for {
		row, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return rows, faults
		case err != nil:
			faults = append(faults, err.Error())
			if _, goesOn := errors.AsType[*rowFault](err); !goesOn {
				return rows, faults
			}
		default:
			row.raw = slices.Clone(row.raw)
			rows = append(rows, row)
		}
	}
}

// TestRowReader: rows come with their bytes as they are, and a bad one does not hide the next.
func TestRowReader(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text   string
		raw    []string
		fields []string // of all rows, one behind the other
		faults []string
	}{
		"plain":            {"a,b\nc,\n", []string{"a,b", "c,"}, []string{"a", "b", "c", ""}, nil},
		"no end":           {"a,b", []string{"a,b"}, []string{"a", "b"}, nil},
		"CRLF":             {"a,b\r\nc,d\r\n", []string{"a,b", "c,d"}, []string{"a", "b", "c", "d"}, nil},
		"BOM":              {"\xEF\xBB\xBFa\n", []string{"a"}, []string{"a"}, nil},
		"quotes":           {"\"a \"\"x\"\"\",\"b,\n\r\nc\"\n", []string{"\"a \"\"x\"\"\",\"b,\n\r\nc\""}, []string{"a \"x\"", "b,\n\r\nc"}, nil},
		"an empty line":    {"a\n\nb\n", []string{"a", "", "b"}, []string{"a", "", "b"}, nil},
		"bytes":            {"\xff,\x00\n", []string{"\xff,\x00"}, []string{"\xff", "\x00"}, nil},
		"bare quote":       {"a\"b\nc\n", []string{"c"}, []string{"c"}, []string{"line 1: a quote inside"}},
		"behind a quote":   {"x\n\"a\nb\"c\nd\n", []string{"x", "d"}, []string{"x", "d"}, []string{"line 3: text behind"}},
		"quote not closed": {"a\nb,\"c\n\nd", []string{"a"}, []string{"a"}, []string{"line 2: a quoted field begins here"}},
		"far too long":     {"a\n\"" + strings.Repeat("xxxxxxx\n", maxBulkRow/8+1), []string{"a"}, []string{"a"}, []string{"a row of more than 4 MB"}},
	} {
		t.Run(name, func(t *testing.T) {
			rows, faults := rowsOf(c.text)
			var raw, fields []string
			for _, r := range rows {
				raw, fields = append(raw, string(r.raw)), append(fields, r.fields...)
			}
			if !slices.Equal(raw, c.raw) || !slices.Equal(fields, c.fields) {
				t.Errorf("%q, %q", raw, fields)
			}
			if !slices.EqualFunc(faults, c.faults, strings.Contains) {
				t.Errorf("faults %q", faults)
			}
		})
	}
}

// FuzzRowReader: it reads what encoding/csv reads, and refuses what that refuses.
func FuzzRowReader(f *testing.F) {
	for _, s := range []string{"a,b\r\nc,d", "\"a\"\"\nb\",\n\n,", "a\"b\nc", "\"a\"b\n", "\"", "\r", "\"a\r\r\nb\"\r\n", "\n\"\"\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		std := csv.NewReader(strings.NewReader(text))
		std.FieldsPerRecord = -1
		want, refused := std.ReadAll()
		r := newRowReader(strings.NewReader(text), maxBulkRow)
		var got [][]string
		var err error
		end := int64(0)
		for err == nil {
			var row csvRow
			if row, err = r.next(); err != nil {
				break
			}
			if r.offset <= end || row.whole != (text[r.offset-1] == '\n') || !strings.HasPrefix(text[end:], string(row.raw)) {
				t.Fatalf("%q: row %q ends at %d", text, row.raw, r.offset)
			}
			if end = r.offset; row.blank() {
				continue
			}
			for i, field := range row.fields {
				row.fields[i] = strings.ReplaceAll(field, "\r\n", "\n") // encoding/csv loses them
			}
			got = append(got, row.fields)
		}
		if (refused == nil) != errors.Is(err, io.EOF) {
			t.Fatalf("%q: %v, encoding/csv says %v", text, err, refused)
		}
		if refused == nil && !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%q: %q, encoding/csv has %q", text, got, want)
		}
	})
}

// TestAppendField: what is written is read again.
func TestAppendField(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"", "a", "a,b", "\"", "a\nb", " a", "\r", "é;", "=1"} {
		got, err := csv.NewReader(strings.NewReader(string(appendField([]byte("x,"), field)) + "\n")).Read()
		if err != nil || len(got) != 2 || got[1] != field {
			t.Errorf("%q: %q %v", field, got, err)
		}
	}
}

// TestIDLike: job titles of any script are words; ids, numbers, dates and addresses are none.
func TestIDLike(t *testing.T) {
	t.Parallel()
	for _, ids := range []struct {
		want  bool
		cells []string
	}{
		{true, []string{
			"E010", "MH-12-AB-1234", "MH 12 AB 1234", "12", "12.5", "1,20,000", "Rs 12,000", "INR 12000", "EMP00123", "EMP-2021-0045", "A/12/b",
			"2020-01-12", "12/01/2020", "12-Jan-2020", "12 January 2020", "Jan 2020", "Mon, 3 Feb 2020 10:30", "+91 98765 43210", "98765-43210",
			"ravi.kumar@example.com", "https://example.com/jobs", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "2411.0100", "१२३४", "CA", "M",
		}},
		{false, []string{
			"Cook", "Peon", "Welder, Gas", "I repair shoes", "10th class teacher", "Grade 4 clerk", "CNC machine operator", "3D artist", "x-ray technician",
			"दर्जी", "नाई", "शिक्षक (Teacher)", "ஆசிரியர்", "தையல்", "ড্রাইভার", "వైద్యుడు", "ಚಾಲಕ", "കർഷകൻ", "医生", "의사", "врач", "درزی", "Teacher10",
		}},
	} {
		for _, cell := range ids.cells {
			words, letters, digits := lettersOf(cell)
			if got := idLike(cell, words, letters, digits); got != ids.want {
				t.Errorf("%q: %v (%q, %d letters, %d digits)", cell, got, words, letters, digits)
			}
		}
	}
}
