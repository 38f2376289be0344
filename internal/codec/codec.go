// Package codec is how values become bytes and come back: JSON that loses nothing, or an error that says where.
//
// It may never repair: text that is not UTF-8, a number that is not finite, a key that stands twice are refused, naming
// the field, because whatever is changed silently is found out after the crash. No I/O and no knowledge of runs.
//
// Start reading at Encode and Strict.
package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Encode turns v into JSON without HTML escapes. Non-finite numbers and text that is not UTF-8 are errors with the
// path of the field, such as ".items[3].score".
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		if at, why := flaw(v); why != "" {
			return nil, fmt.Errorf("field %s: %s", at, why)
		}
		return nil, err
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	// encoding/json writes this escape for bytes that are not UTF-8, and only then or for a literal backslash.
	if bytes.Contains(out, []byte(`\ufffd`)) {
		if at, why := flaw(v); why != "" {
			return nil, fmt.Errorf("field %s: %s", at, why)
		}
	}
	return out, nil
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
// object or differs from another only by case, more than 200 levels, text that is not UTF-8.
func Check(data []byte) error {
	if at, ok := notUTF8(data); ok {
		return fmt.Errorf("byte %d is not UTF-8", at)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := value(d, "", 0); err != nil {
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

func value(d *json.Decoder, at string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: more than %d levels", at, maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('{'):
		return object(d, at, depth)
	case json.Delim('['):
		for i := 0; d.More(); i++ {
			if err := value(d, fmt.Sprintf("%s[%d]", at, i), depth+1); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	}
	return nil
}

func object(d *json.Decoder, at string, depth int) error {
	seen := map[string]string{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		k, _ := t.(string)
		f := fold(k)
		if old, ok := seen[f]; ok {
			if old == k {
				return fmt.Errorf("%s: key %q stands twice", where(at), k)
			}
			return fmt.Errorf("%s: keys %q and %q differ only by case", where(at), old, k)
		}
		seen[f] = k
		if err := value(d, at+"."+k, depth+1); err != nil {
			return err
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
