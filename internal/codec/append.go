package codec

import (
	"encoding/json"
	"strconv"
	"time"
)

// AppendString appends s as a JSON string.
func AppendString(b []byte, s string) []byte {
	if verbatim(s) < len(s) {
		q, err := json.Marshal(s)
		if err != nil {
			panic(err) // no string can fail
		}
		return append(b, q...)
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// Flat builds a flat JSON object by hand, for the few records that every commit writes. Fields that are zero are left
// out, as omitempty does.
type Flat struct {
	b  []byte
	at int // where the object begins
}

// NewFlat begins an object in a buffer of about that capacity.
func NewFlat(capacity int) *Flat { return FlatOn(make([]byte, 0, capacity)) }

// FlatOn begins an object behind what b holds, in its room where there is enough.
func FlatOn(b []byte) *Flat { return &Flat{b, len(b)} }

// key begins a field. The comma before the first one becomes the object's brace.
func (o *Flat) key(name string) {
	o.b = append(o.b, ',', '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

// String adds a text field.
func (o *Flat) String(name, v string) {
	if v != "" {
		o.key(name)
		o.b = AppendString(o.b, v)
	}
}

// Int adds a number.
func (o *Flat) Int(name string, v int64) {
	if v != 0 {
		o.key(name)
		o.b = strconv.AppendInt(o.b, v, 10)
	}
}

// Flag adds true.
func (o *Flat) Flag(name string, v bool) {
	if v {
		o.key(name)
		o.b = append(o.b, "true"...)
	}
}

// Time adds an instant, as RFC 3339 with nanoseconds.
func (o *Flat) Time(name string, t time.Time) {
	if !t.IsZero() {
		o.key(name)
		o.b = append(o.b, '"')
		o.b = t.AppendFormat(o.b, time.RFC3339Nano)
		o.b = append(o.b, '"')
	}
}

// Raw adds a value that is JSON already.
func (o *Flat) Raw(name string, v []byte) {
	if len(v) > 0 {
		o.key(name)
		o.b = append(o.b, v...)
	}
}

// Put adds a value that f appends.
func (o *Flat) Put(name string, f func([]byte) []byte) {
	o.key(name)
	o.b = f(o.b)
}

// Value adds any other value.
func (o *Flat) Value(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	o.Raw(name, b)
	return nil
}

// Fields are the fields so far, for Add to another object.
func (o *Flat) Fields() []byte { return o.b[o.at:] }

// Add adds the fields of another object.
func (o *Flat) Add(fields []byte) { o.b = append(o.b, fields...) }

// Bytes ends the object: it, and what was there before.
func (o *Flat) Bytes() []byte {
	if len(o.b) == o.at {
		return append(o.b, "{}"...)
	}
	o.b[o.at] = '{'
	return append(o.b, '}')
}
