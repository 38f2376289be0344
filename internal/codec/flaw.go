package codec

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"
)

// flaw finds the first value that JSON cannot carry unchanged, and says why. It runs only after a fault was seen.
func flaw(v any) (at, why string) {
	return flawOf(reflect.ValueOf(v), "", 0)
}

func flawOf(v reflect.Value, at string, depth int) (string, string) {
	if depth > maxDepth {
		return at, fmt.Sprintf("more than %d levels", maxDepth)
	}
	if !v.IsValid() {
		return "", ""
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return where(at), fmt.Sprintf("%v is not a finite number", f)
		}
	case reflect.String:
		if s := v.String(); !utf8.ValidString(s) {
			return where(at), "the text is not UTF-8"
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return flawOf(v.Elem(), at, depth+1)
		}
	case reflect.Struct:
		return flawOfStruct(v, at, depth)
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			k := fmt.Sprint(it.Key())
			if !utf8.ValidString(k) {
				return where(at), fmt.Sprintf("the key %q is not UTF-8", k)
			}
			if a, w := flawOf(it.Value(), at+"."+k, depth+1); w != "" {
				return a, w
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return "", ""
		}
		for i := range v.Len() {
			if a, w := flawOf(v.Index(i), fmt.Sprintf("%s[%d]", at, i), depth+1); w != "" {
				return a, w
			}
		}
	}
	return "", ""
}

func flawOfStruct(v reflect.Value, at string, depth int) (string, string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		name, embedded := f.Name, f.Anonymous
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == "-" {
			continue
		} else if tag != "" {
			name, embedded = tag, false
		}
		to := at + "." + name
		if embedded {
			to = at
		}
		if a, w := flawOf(v.Field(i), to, depth+1); w != "" {
			return a, w
		}
	}
	return "", ""
}

var (
	jsonOut = reflect.TypeFor[json.Marshaler]()
	jsonIn  = reflect.TypeFor[json.Unmarshaler]()
	textOut = reflect.TypeFor[encoding.TextMarshaler]()
	textIn  = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// Survives reports, for a type, every field that would not come back from JSON as it went in: functions, channels,
// interfaces, unexported and skipped fields, complex numbers, maps whose keys are no text or number.
func Survives(t reflect.Type) []string {
	var faults []string
	survives(t, t.String(), map[reflect.Type]bool{}, func(at, why string) { faults = append(faults, at+": "+why) })
	return faults
}

func survives(t reflect.Type, at string, seen map[reflect.Type]bool, fault func(at, why string)) {
	if seen[t] || ownCodec(t) {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		fault(at, "a "+t.Kind().String()+" does not survive being stored")
		delete(seen, t) // named again wherever it stands
	case reflect.Interface:
		fault(at, "an interface does not say which type to restore")
		delete(seen, t)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		survives(t.Elem(), at, seen, fault)
	case reflect.Map:
		if !keyable(t.Key()) {
			fault(at, "a map key of type "+t.Key().String()+" does not survive being stored")
		}
		survives(t.Elem(), at+"[]", seen, fault)
	case reflect.Struct:
		names := map[string]string{}
		for i := range t.NumField() {
			field(t.Field(i), at, names, seen, fault)
		}
	}
}

func field(f reflect.StructField, at string, names map[string]string, seen map[reflect.Type]bool, fault func(at, why string)) {
	tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	at += "." + f.Name
	switch {
	case !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct):
		fault(at, "an unexported field is not stored")
		return
	case f.Tag.Get("json") == "-":
		fault(at, `a field with the tag json:"-" is not stored`)
		return
	}
	name := tag
	if name == "" {
		name = f.Name
	}
	if !f.Anonymous || tag != "" {
		if other, ok := names[fold(name)]; ok {
			fault(at, fmt.Sprintf("its name %q differs from %s only by case", name, other))
		}
		names[fold(name)] = f.Name
	}
	survives(f.Type, at, seen, fault)
}

func ownCodec(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return (t.Implements(jsonOut) || p.Implements(jsonOut)) && p.Implements(jsonIn) ||
		(t.Implements(textOut) || p.Implements(textOut)) && p.Implements(textIn)
}

func keyable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	}
	return reflect.PointerTo(t).Implements(textIn) && t.Implements(textOut)
}

// fold makes keys equal that encoding/json takes for one field.
func fold(s string) string { return strings.ToLower(strings.ToUpper(s)) }

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
