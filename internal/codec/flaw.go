package codec

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"
)

// flaw finds the first value that JSON cannot carry unchanged, and says where and why. It runs only after a fault was seen.
func flaw(v any) error {
	switch at, why := flawOf(reflect.ValueOf(v), "", 0); {
	case why == "":
		return nil
	case at == "":
		return fmt.Errorf("the value: %s", why)
	default:
		return fmt.Errorf("field %s: %s", at, why)
	}
}

func flawOf(v reflect.Value, at string, depth int) (string, string) {
	if depth > maxDepth {
		return at, fmt.Sprintf("more than %d levels", maxDepth)
	}
	if !v.IsValid() {
		return "", ""
	}
	if own, why := flawOfOwn(v); own {
		return at, why
	}
	switch v.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return at, "a " + v.Kind().String() + " cannot be stored"
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return at, fmt.Sprintf("%v is not a finite number", f)
		}
	case reflect.String:
		if s := v.String(); !utf8.ValidString(s) {
			return at, "the text is not UTF-8"
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
			if it.Key().Kind() == reflect.String { // as it is written, not as it prints itself
				k = it.Key().String()
			}
			if !utf8.ValidString(k) {
				return at, fmt.Sprintf("the key %q is not UTF-8", k)
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

// flawOfOwn looks at a value that is written by a method of its own: its text counts, and not what it is made of. JSON of its own
// is looked at when it is written.
func flawOfOwn(v reflect.Value) (own bool, why string) {
	out, _, ptr := codecs(v.Type())
	if out == byKind || !v.CanInterface() || v.Kind() == reflect.Pointer && v.IsNil() || ptr && !v.CanAddr() {
		return false, ""
	}
	if ptr {
		v = v.Addr()
	}
	if t, ok := v.Interface().(encoding.TextMarshaler); ok && out == byText {
		if b, err := t.MarshalText(); err == nil && !utf8.Valid(b) {
			return true, "the text is not UTF-8"
		}
	}
	return true, ""
}

func flawOfStruct(v reflect.Value, at string, depth int) (string, string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		name, embedded := f.Name, f.Anonymous
		if f.Tag.Get("json") == "-" {
			continue
		}
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" {
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
