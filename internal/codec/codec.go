// Package codec is how values become bytes and come back: JSON that loses nothing, or an error that says where.
//
// It may never repair: text that is not UTF-8, half a surrogate pair, a number that is not finite, a key that stands twice
// are refused, naming the place, because whatever is changed silently is found out after the crash. No I/O and no
// knowledge of runs.
//
// Start reading at Encode and Strict; Survives, Shape and Forms say the same of types.
package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Encode turns v into JSON without HTML escapes. Non-finite numbers and text that is not UTF-8 are errors with the
// path of the field, such as ".items[3].score". Give it a pointer: encoding/json looks for methods with a pointer
// receiver only on what has an address.
func Encode(v any) ([]byte, error) { return Append(nil, v) }

// Append is Encode behind what b holds, in its room where there is enough.
func Append(b []byte, v any) ([]byte, error) {
	w := sink{out: b}
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		if told := flaw(v); told != nil {
			return nil, told
		}
		return nil, err
	}
	out := w.out[len(b):]
	// encoding/json writes this escape for bytes that are not UTF-8, and only then or for a literal backslash.
	if bytes.Contains(out, []byte(`\ufffd`)) {
		if told := flaw(v); told != nil {
			return nil, told
		}
	}
	if at, bad := notUTF8(out); bad { // what a type wrote by itself, such as json.RawMessage, is not looked at before
		return nil, fmt.Errorf("byte %d of the JSON is not UTF-8", at)
	}
	return w.out, nil
}

// sink takes the one piece that an encoder writes for a value, without the line break.
type sink struct{ out []byte }

func (s *sink) Write(p []byte) (int, error) {
	s.out = append(s.out, bytes.TrimSuffix(p, []byte("\n"))...)
	return len(p), nil
}

// Decode reads what Encode wrote into v, which must be a pointer.
func Decode(data []byte, v any) error { return json.Unmarshal(data, v) }

// Strict reads JSON that came from outside into v: one value and nothing behind it, no unknown field, no key that
// stands twice or differs from another only by case, no more than 200 levels.
func Strict(data []byte, v any) error {
	if err := Check(data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return clear(d.Decode(v))
}

// clear says the same without the words of encoding/json.
func clear(err error) error {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		at := t.Field
		if at == "" {
			at = "the value"
		}
		return fmt.Errorf("%s: %s where %s is wanted", at, t.Value, t.Type)
	}
	return err
}

const maxDepth = 200

// Check reports the first fault of JSON from outside: syntax, text behind the value, a key that stands twice in an
// object or differs from another only by case, more than 200 levels, text that is not UTF-8, half a surrogate pair.
func Check(data []byte) error {
	if at, bad := notUTF8(data); bad {
		return fmt.Errorf("byte %d is not UTF-8", at)
	}
	if at, bad := loneSurrogate(data); bad {
		return fmt.Errorf("byte %d: %s is half a surrogate pair, which is no character", at, data[at:at+6])
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := value(d, 0); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the JSON ends too early")
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("text behind the JSON value, at byte %d", d.InputOffset())
	}
	return nil
}

// twin is the fault of an object; its path grows on the way out, so that JSON without a fault pays nothing for it.
type twin struct{ at, why string }

func (t *twin) Error() string { return where(t.at) + ": " + t.why }

func inside(err error, step func() string) error {
	if t, ok := errors.AsType[*twin](err); ok {
		t.at = step() + t.at
	}
	return err
}

// value reads one value; depth is how many arrays and objects are open around it.
func value(d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := t.(json.Delim)
	if ok && depth == maxDepth {
		return fmt.Errorf("byte %d: more than %d levels", d.InputOffset(), maxDepth)
	}
	switch open {
	case '{':
		return object(d, depth)
	case '[':
		for i := 0; d.More(); i++ {
			if err := value(d, depth+1); err != nil {
				return inside(err, func() string { return "[" + strconv.Itoa(i) + "]" })
			}
		}
		_, err = d.Token()
		return err
	}
	return nil
}

func object(d *json.Decoder, depth int) error {
	seen := map[string]string{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		k, _ := t.(string)
		f := Fold(k)
		if old, ok := seen[f]; ok {
			if old == k {
				return &twin{why: fmt.Sprintf("key %q stands twice", k)}
			}
			return &twin{why: fmt.Sprintf("keys %q and %q differ only by case", old, k)}
		}
		seen[f] = k
		if err := value(d, depth+1); err != nil {
			return inside(err, func() string { return "." + k })
		}
	}
	_, err := d.Token()
	return err
}

func where(at string) string {
	if at == "" {
		return "the object"
	}
	return at
}

// loneSurrogate returns the offset of the first escape of half a surrogate pair: encoding/json would silently put U+FFFD
// in its place.
func loneSurrogate(b []byte) (int, bool) {
	if !bytes.Contains(b, []byte(`\u`)) {
		return 0, false
	}
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' { // a backslash outside a string is a fault of syntax, found later
			continue
		}
		r := escaped(b[i:])
		switch {
		case utf16.IsSurrogate(r) && utf16.DecodeRune(r, escaped(b[i+6:])) == utf8.RuneError:
			return i, true
		case utf16.IsSurrogate(r):
			i += 11
		default:
			i++ // also over the second of two backslashes
		}
	}
	return 0, false
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

// notUTF8 returns the offset of the first byte that is not UTF-8.
func notUTF8(b []byte) (int, bool) {
	if utf8.Valid(b) {
		return 0, false
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i, true
		}
		i += n
	}
	return 0, false
}

// Fold makes keys equal that encoding/json takes for one field: of the letters that differ only by case, the first.
func Fold(s string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, s)
}
