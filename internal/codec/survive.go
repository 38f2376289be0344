package codec

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// how a type becomes JSON.
type how uint8

const (
	byKind how = iota
	byJSON     // MarshalJSON, UnmarshalJSON
	byText     // MarshalText, UnmarshalText
)

func (h how) String() string { return [...]string{"its fields", "its own JSON", "its own text"}[h] }

// codecs says how encoding/json writes and reads a type. A method with a pointer receiver writes only what has an
// address; ptr tells that there is one.
func codecs(t reflect.Type) (out, in how, ptr bool) {
	p := reflect.PointerTo(t)
	switch jsonOut, textOut := reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](); {
	case t.Implements(jsonOut):
		out = byJSON
	case p.Implements(jsonOut):
		out, ptr = byJSON, true
	case t.Implements(textOut):
		out = byText
	case p.Implements(textOut):
		out, ptr = byText, true
	}
	switch jsonIn, textIn := reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](); {
	case t.Implements(jsonIn) || p.Implements(jsonIn):
		in = byJSON
	case t.Implements(textIn) || p.Implements(textIn):
		in = byText
	}
	return out, in, ptr
}

// field is a field of a struct, or of one embedded in it, as encoding/json sees it.
type field struct {
	reflect.StructField        // Index is the path from the outermost struct
	name                string // in JSON
	path                string // in Go, from the outermost struct
	quoted              bool   // the option "string"
}

// fields lists what a struct holds, with the fields of embedded structs in place of these. Names may stand twice, and
// some may not be stored at all: Survives tells.
func fields(t reflect.Type) []field { return fieldsOf(t, nil, "", nil) }

func fieldsOf(t reflect.Type, index []int, path string, within []reflect.Type) (all []field) {
	within = append(within[:len(within):len(within)], t)
	for i := range t.NumField() {
		f := t.Field(i)
		f.Index = append(index[:len(index):len(index)], i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := path + "." + f.Name
		if f.Anonymous && tag == "" {
			e := f.Type
			if e.Kind() == reflect.Pointer && f.IsExported() {
				e = e.Elem()
			}
			if e.Kind() == reflect.Struct {
				if !contains(within, e) { // encoding/json does not follow a type into itself either
					all = append(all, fieldsOf(e, f.Index, at, within)...)
				}
				continue
			}
		}
		if tag == "" {
			tag = f.Name
		}
		all = append(all, field{StructField: f, name: tag, path: at, quoted: strings.Contains(","+options+",", ",string,")})
	}
	return all
}

func contains(ts []reflect.Type, t reflect.Type) bool {
	for _, o := range ts {
		if o == t {
			return true
		}
	}
	return false
}

// Survives reports, for a type, every field that would not come back from JSON as it went in: functions, channels,
// interfaces, unexported, skipped and shadowed fields, complex numbers, maps whose keys are no text or number, and types
// whose own methods write but do not read.
func Survives(t reflect.Type) []string {
	s := survey{seen: map[reflect.Type]bool{}}
	s.of(t, t.String())
	return s.faults
}

type survey struct {
	seen   map[reflect.Type]bool
	faults []string
}

func (s *survey) fault(at, format string, a ...any) {
	s.faults = append(s.faults, at+": "+fmt.Sprintf(format, a...))
}

func (s *survey) of(t reflect.Type, at string) {
	if s.seen[t] {
		return
	}
	s.seen[t] = true
	switch out, in, ptr := codecs(t); {
	case out != in:
		s.fault(at, "%s is written by %s and read by %s", t, out, in)
		return
	case out != byKind && ptr:
		s.fault(at, "%s is written by methods of *%s, which need a pointer: make it one", t, t)
		return
	case out != byKind:
		s.borrowed(t, at)
		return
	}
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		s.fault(at, "a %s does not survive being stored", t.Kind())
		delete(s.seen, t) // named again wherever it stands
	case reflect.Interface:
		s.fault(at, "an interface does not say which type to restore")
		delete(s.seen, t)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		s.of(t.Elem(), at)
	case reflect.Map:
		if !keyable(t.Key()) {
			s.fault(at, "a map key of type %s does not survive being stored", t.Key())
		}
		s.of(t.Elem(), at+"[]")
	case reflect.Struct:
		s.fields(t, at)
	}
}

func (s *survey) fields(t reflect.Type, at string) {
	names := map[string]field{}
	for _, f := range fields(t) {
		to := at + f.path
		if !f.IsExported() {
			s.fault(to, "an unexported field is not stored")
			continue
		}
		if f.Tag.Get("json") == "-" {
			s.fault(to, `a field with the tag json:"-" is not stored`)
			continue
		}
		if o, ok := names[Fold(f.name)]; ok && o.name == f.name {
			s.fault(to, "%s has the name %q too: only one of them is stored, or none", at+o.path, f.name)
		} else if ok {
			s.fault(to, "its name %q differs from that of %s only by case", f.name, at+o.path)
		}
		names[Fold(f.name)] = f
		s.of(f.Type, to)
	}
}

// borrowed finds a struct whose own JSON may be that of an embedded type, which does not know the other fields.
func (s *survey) borrowed(t reflect.Type, at string) {
	if t.Kind() != reflect.Struct || t.NumField() < 2 {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if out, _, _ := codecs(f.Type); f.Anonymous && out != byKind {
			s.fault(at+"."+f.Name, "the embedded %s lends %s its JSON, which would lose the other fields: give the field a name", f.Type, t)
		}
	}
}

func keyable(t reflect.Type) bool {
	textOut, textIn := reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()
	out, in := t.Implements(textOut), t.Implements(textIn) || reflect.PointerTo(t).Implements(textIn)
	switch t.Kind() {
	case reflect.String:
		return !in || out
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return out == in
	}
	return out && in
}
