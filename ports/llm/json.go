package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"pawl/internal/codec"
)

// reading is a JSON value as a model wrote it.
type reading struct {
	value   any      // of the types of encoding/json, with numbers as json.Number
	changes []string // what had to be changed so that it could be read and kept
	doubt   string   // why it is not taken although it is JSON: two readers could take it differently
}

// strict reads a text that is JSON and nothing else. What no store keeps is replaced by U+FFFD: NUL, half a surrogate pair and
// bytes that are not UTF-8.
func strict(text string) (reading, error) {
	data := bytes.TrimPrefix([]byte(text), []byte("\ufeff"))
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		return reading{}, err
	}
	var r reading
	data = r.keepable(data)
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&r.value); err != nil {
		return reading{}, err
	}
	if err := codec.Check(data); err != nil {
		r.doubt = err.Error()
	}
	return r, nil
}

// keepable replaces what could not be kept. A backslash behind a backslash begins no escape.
func (r *reading) keepable(data []byte) []byte {
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\ufffd"))
		r.changes = append(r.changes, "bytes that are not UTF-8 replaced")
	}
	if !bytes.Contains(data, []byte(`\u`)) {
		return data
	}
	out := slices.Clone(data)
	nul, half := 0, 0
	for i := 0; i < len(out); i++ {
		if out[i] != '\\' {
			continue
		}
		switch u := escaped(out[i:]); {
		case u == 0:
			nul++
			copy(out[i:], `\ufffd`)
		case utf16.IsSurrogate(u) && utf16.DecodeRune(u, escaped(out[i+6:])) != utf8.RuneError:
			i += 11
		case utf16.IsSurrogate(u):
			half++
			copy(out[i:], `\ufffd`)
		default:
			i++
		}
	}
	if nul > 0 {
		r.changes = append(r.changes, "NUL replaced")
	}
	if half > 0 {
		r.changes = append(r.changes, "half a surrogate pair replaced")
	}
	return out
}

// escaped is the code unit of a \uXXXX at the start of b, -1 if there is none.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// maxFound is how many values a text may have that one is looked for in.
const maxFound = 1000

var (
	// opening is what JSON begins with, also where it is not written well; a bracket of prose or of a program is not.
	opening = regexp.MustCompile(`^(\{\s*(["'}]|/[/*]|[\pL_$][\pL\pN_$]*\s*:)|\[\s*(["'{\[\]\-0-9]|/[/*]|true|false|null))`)
	thought = regexp.MustCompile(`(?i)^</?(think|thinking|thought|reasoning)>`)
	decided = regexp.MustCompile(`(?i)</(think|thinking|thought|reasoning)>`)

	errCut = errors.New("it ends inside of the JSON")
)

// scan reads the objects and arrays that stand in a text, those within others left out, and nothing of what the model thought
// before. A text that ends inside of one, or in which brackets do not match, is not used at all: what is left of it may be
// the wrong part.
func scan(text string) (found []reading, err error) {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '<':
			tag := thought.FindString(text[i:])
			switch {
			case tag == "":
				i++
			case tag[1] == '/': // the opening one was in the prompt
				found, i = nil, i+len(tag)
			default:
				end := decided.FindStringIndex(text[i:])
				if end == nil {
					return nil, errors.New("it ends inside of what was thought")
				}
				i += end[0]
			}
		case (c == '{' || c == '[') && opening.MatchString(text[i:]):
			data, changes, end, err := balanced(text[i:])
			if err != nil {
				return nil, err
			}
			if r, err := strict(data); err == nil {
				if len(found) == maxFound {
					return nil, fmt.Errorf("it has more than %d JSON values", maxFound)
				}
				r.changes = append(changes, r.changes...)
				found = append(found, r)
			}
			i += end
		default:
			i++
		}
	}
	return found, nil
}

// balanced cuts the value that text begins with, up to the bracket that closes it, without comments and without commas between the
// last element and its bracket: both say nothing. What stands in a string is not touched.
func balanced(text string) (data string, changes []string, end int, err error) {
	var (
		out             []byte
		open            []byte
		last            byte // what was written last, but for space
		comma           int  // where, if it is a comma behind an element
		commas, remarks bool
	)
	for i := 0; i < len(text); {
		c, n := text[i], 1
		switch {
		case c == '"':
			if n = quoted(text[i:]); n < 0 {
				return "", nil, 0, errCut
			}
		case strings.HasPrefix(text[i:], "//"), strings.HasPrefix(text[i:], "/*"):
			stop := map[bool]string{true: "\n", false: "*/"}[text[i+1] == '/']
			at := strings.Index(text[i+2:], stop)
			if at < 0 {
				return "", nil, 0, errCut
			}
			remarks = true
			out = append(out, ' ')
			i += 2 + at + len(stop)
			continue
		case c == '{', c == '[':
			open = append(open, c+2) // the closing ones stand two behind
		case c == '}', c == ']':
			if open[len(open)-1] != c {
				return "", nil, 0, fmt.Errorf("a %q closes another bracket", c)
			}
			open = open[:len(open)-1]
			if last == ',' && comma > 0 {
				commas = true
				out[comma] = ' '
			}
		case c == ',':
			comma = len(out)
			if strings.IndexByte("[{,", last) >= 0 { // behind nothing: no slip, something is missing
				comma = 0
			}
		}
		if !strings.ContainsRune(" \t\r\n", rune(c)) {
			last = c
		}
		out = append(out, text[i:i+n]...)
		i += n
		if len(open) == 0 {
			if commas {
				changes = append(changes, "trailing comma left out")
			}
			if remarks {
				changes = append(changes, "comment left out")
			}
			return string(out), changes, i, nil
		}
	}
	return "", nil, 0, errCut
}

// quoted is the length of the string that text begins with, below zero if it does not end.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// decimal is the number in a text that is nothing but a number, or one in percent.
func decimal(text string) (json.Number, bool) {
	n, percent := strings.CutSuffix(text, "%")
	if len(n) > 40 || !json.Valid([]byte(n)) || !strings.ContainsAny(n[:1], "-0123456789") || strings.TrimSpace(n) != n {
		return "", false
	}
	if !percent {
		return json.Number(n), true
	}
	r, ok := new(big.Rat).SetString(n)
	if !ok || strings.ContainsAny(n, "eE") {
		return "", false
	}
	_, fraction, _ := strings.Cut(n, ".")
	out := r.Quo(r, big.NewRat(100, 1)).FloatString(len(fraction) + 2)
	return json.Number(strings.TrimSuffix(strings.TrimRight(out, "0"), ".")), true
}

// clip shortens what is shown.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
