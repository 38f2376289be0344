package codec

import (
	"encoding/json"
	"math"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Writer writes the values of one type byte for byte as Append does, and long texts several times as fast: a state is written
// with every step. Maps, embedded structs, types that contain themselves and all that have JSON of their own go to encoding/json;
// what is plain around them is written here.
type Writer struct {
	t   reflect.Type
	put put // nil where encoding/json writes all of it
}

// put appends a value. It is false where encoding/json has to say what is wrong.
type put func([]byte, reflect.Value) ([]byte, bool)

// WriterOf makes the writer of a type.
func WriterOf(t reflect.Type) Writer { return Writer{t, puts{}.of(t)} }

// Append is codec.Append for a pointer to v, a value of the type.
func (w Writer) Append(b []byte, v any) ([]byte, error) {
	if v == nil { // an interface that holds nothing
		return Append(b, nil)
	}
	r := reflect.ValueOf(v)
	if w.put != nil {
		if out, ok := w.put(b, r); ok {
			return out, nil
		}
	}
	p := reflect.New(w.t)
	p.Elem().Set(r)
	return Append(b, p.Interface())
}

// puts are how the types seen so far are written. One is looked at once: types that hold each other in many ways would take
// forever else. A type within itself is not written here.
type puts map[reflect.Type]put

// of is how a type is written here, nil if it is not.
func (ps puts) of(t reflect.Type) put {
	p, known := ps[t]
	if !known {
		ps[t] = nil
		p = ps.plain(t)
		ps[t] = p
	}
	return p
}

func (ps puts) plain(t reflect.Type) put {
	if t == reflect.TypeFor[time.Time]() {
		return putTime
	}
	if hasOwn(t) || t == reflect.TypeFor[json.Number]() {
		return nil
	}
	switch t.Kind() {
	case reflect.String:
		return func(b []byte, v reflect.Value) ([]byte, bool) { return appendText(b, v.String()) }
	case reflect.Bool:
		return func(b []byte, v reflect.Value) ([]byte, bool) { return strconv.AppendBool(b, v.Bool()), true }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(b []byte, v reflect.Value) ([]byte, bool) { return strconv.AppendInt(b, v.Int(), 10), true }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return func(b []byte, v reflect.Value) ([]byte, bool) { return strconv.AppendUint(b, v.Uint(), 10), true }
	case reflect.Float32, reflect.Float64:
		size := t.Bits()
		return func(b []byte, v reflect.Value) ([]byte, bool) { return appendFloat(b, v.Float(), size) }
	case reflect.Pointer:
		return pointer(ps.of(t.Elem()))
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		return list(ps.of(t.Elem()))
	case reflect.Struct:
		return ps.fieldwise(t)
	}
	return nil
}

func putTime(b []byte, v reflect.Value) ([]byte, bool) {
	t, _ := v.Interface().(time.Time)
	out, err := t.AppendText(append(b, '"'))
	return append(out, '"'), err == nil
}

func pointer(elem put) put {
	if elem == nil {
		return nil
	}
	return func(b []byte, v reflect.Value) ([]byte, bool) {
		if v.IsNil() {
			return append(b, "null"...), true
		}
		return elem(b, v.Elem())
	}
}

func list(elem put) put {
	if elem == nil {
		return nil
	}
	return func(b []byte, v reflect.Value) (_ []byte, ok bool) {
		if v.IsNil() {
			return append(b, "null"...), true
		}
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, ok = elem(b, v.Index(i)); !ok {
				return nil, false
			}
		}
		return append(b, ']'), true
	}
}

// member is a field of a struct that is written field by field.
type member struct {
	index int
	key   string // with quotes and colon
	omit  func(reflect.Value) bool
	put   put
}

// fieldwise writes a struct whose fields are its own, under plain names.
func (ps puts) fieldwise(t reflect.Type) put {
	var ms []member
	known, gain := map[string]bool{}, false
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		omit, ok := omits(f.Type, options)
		if f.Anonymous || !f.IsExported() || f.Tag.Get("json") == "-" || !ok || known[name] || strings.Trim(name, plainName) != "" {
			return nil
		}
		m := member{i, `"` + name + `":`, omit, ps.of(f.Type)}
		known[name], gain = true, gain || m.put != nil
		if m.put == nil {
			m.put = other
		}
		ms = append(ms, m)
	}
	if !gain {
		return nil
	}
	return func(b []byte, v reflect.Value) (_ []byte, ok bool) {
		b = append(b, '{')
		first := len(b)
		for i := range ms {
			m := &ms[i]
			f := v.Field(m.index)
			if m.omit != nil && m.omit(f) {
				continue
			}
			if len(b) > first {
				b = append(b, ',')
			}
			if b, ok = m.put(append(b, m.key...), f); !ok {
				return nil, false
			}
		}
		return append(b, '}'), true
	}
}

const plainName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// other writes what is not plain.
func other(b []byte, v reflect.Value) ([]byte, bool) {
	b, err := Append(b, addressed(v))
	return b, err == nil
}

// omits is when a field is left out, nil if never. It is false for options that are not known here.
func omits(t reflect.Type, options string) (func(reflect.Value) bool, bool) {
	switch {
	case options == "":
		return nil, true
	case options == "omitzero" && t == reflect.TypeFor[time.Time]():
		return func(v reflect.Value) bool { at, _ := v.Interface().(time.Time); return at.IsZero() }, true
	case options == "omitzero" && !hasIsZero(t):
		return reflect.Value.IsZero, true
	case options != "omitempty":
		return nil, false
	}
	switch t.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return func(v reflect.Value) bool { return v.Len() == 0 }, true
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Interface, reflect.Pointer:
		return reflect.Value.IsZero, true
	}
	return nil, true // never empty, such as a struct
}

// hasIsZero tells of a type that says itself when it is zero: also a pointer does, by the method of what it points to.
func hasIsZero(t reflect.Type) bool {
	if t.Kind() == reflect.Interface {
		return true
	}
	if t.Kind() != reflect.Pointer {
		t = reflect.PointerTo(t) // it has the methods of both
	}
	_, own := t.MethodByName("IsZero")
	return own
}

// appendFloat writes a number as encoding/json does, in the form of https://tc39.es/ecma262/#sec-numeric-types-number-tostring:
// strconv gives an exponent two digits at least, and only a negative one can begin with a zero here.
func appendFloat(b []byte, f float64, size int) ([]byte, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, false
	}
	small, large := 1e-6, 1e21
	if size == 32 {
		small, large = float64(float32(1e-6)), float64(float32(1e21))
	}
	if abs := math.Abs(f); abs == 0 || abs >= small && abs < large {
		return strconv.AppendFloat(b, f, 'f', -1, size), true
	}
	b = strconv.AppendFloat(b, f, 'e', -1, size)
	if n := len(b); b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' {
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b, true
}

// appendText writes text with the escapes of encoding/json, those for HTML left out. It is false for what is not UTF-8.
func appendText(b []byte, s string) ([]byte, bool) {
	b = append(b, '"')
	for {
		n := verbatim(s)
		b = append(b, s[:n]...)
		if s = s[n:]; s == "" {
			return append(b, '"'), true
		}
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			return nil, false
		case r == '\u2028' || r == '\u2029': // a line's end in JavaScript
			b = append(b, `\u202`...)
			b = append(b, hex[r&0xf])
		case r >= utf8.RuneSelf:
			b = append(b, s[:size]...)
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		default:
			if i := strings.IndexRune("\b\f\n\r\t", r); i >= 0 {
				b = append(b, '\\', "bfnrt"[i])
			} else {
				b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
			}
		}
		s = s[size:]
	}
}

const hex = "0123456789abcdef"

// verbatim is how many bytes at the beginning of s are ASCII that needs no escape. It looks at eight at a time: the highest
// bit of a byte of odd is set where that byte of w is a control character, a quote, a backslash or no ASCII, and else only
// behind such a byte.
func verbatim(s string) (n int) {
	const all = 0x0101010101010101
	for ; len(s)-n >= 8; n += 8 {
		p := s[n : n+8]
		w := uint64(p[0]) | uint64(p[1])<<8 | uint64(p[2])<<16 | uint64(p[3])<<24 |
			uint64(p[4])<<32 | uint64(p[5])<<40 | uint64(p[6])<<48 | uint64(p[7])<<56
		odd := w | (w - all*' ') | ((w ^ all*'"') - all) | ((w ^ all*'\\') - all)
		if odd &= all << 7; odd != 0 {
			return n + bits.TrailingZeros64(odd)/8
		}
	}
	for n < len(s) && s[n] >= ' ' && s[n] < utf8.RuneSelf && s[n] != '"' && s[n] != '\\' {
		n++
	}
	return n
}
