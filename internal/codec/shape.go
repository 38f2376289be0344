package codec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Shape writes down how a type looks in JSON: two types with one shape read each other's data. The order of fields does
// not matter, and neither do the names of types that have no JSON of their own. The type must survive.
func Shape(t reflect.Type) string {
	var b strings.Builder
	shape(&b, t, nil)
	return b.String()
}

func shape(b *strings.Builder, t reflect.Type, within []reflect.Type) {
	if t.Kind() == reflect.Pointer {
		b.WriteByte('*')
		shape(b, t.Elem(), within)
		return
	}
	if out, _, _ := codecs(t); out != byKind {
		b.WriteString(t.String())
		return
	}
	if i := slices.Index(within, t); i >= 0 {
		fmt.Fprintf(b, "^%d", len(within)-i)
		return
	}
	if t.Name() != "" {
		within = append(within[:len(within):len(within)], t)
	}
	switch t.Kind() {
	case reflect.Slice:
		b.WriteString("[]")
		shape(b, t.Elem(), within)
	case reflect.Array:
		fmt.Fprintf(b, "[%d]", t.Len())
		shape(b, t.Elem(), within)
	case reflect.Map:
		b.WriteString("map[")
		shape(b, t.Key(), within)
		b.WriteByte(']')
		shape(b, t.Elem(), within)
	case reflect.Struct:
		all := fields(t)
		slices.SortFunc(all, func(x, y field) int { return strings.Compare(x.name, y.name) })
		b.WriteByte('{')
		for _, f := range all {
			fmt.Fprintf(b, "%q:", f.name)
			if f.quoted {
				b.WriteByte('\'')
			}
			shape(b, f.Type, within)
			b.WriteByte(';')
		}
		b.WriteByte('}')
	default:
		b.WriteString(t.Kind().String())
	}
}

func hasOwn(t reflect.Type) bool {
	out, _, _ := codecs(t)
	return out != byKind
}

// Form is what a type looks like in JSON where its kind does not tell.
type Form uint8

// The forms.
const (
	Any    Form = iota // JSON of its own, whatever it is
	Text               // a string of its own
	Base64             // bytes
	Object             // a struct that contains itself, or a map whose keys are not of a string type
)

// Forms finds, in a type that survives, every type of a form that its kind does not tell.
func Forms(t reflect.Type) map[reflect.Type]Form {
	found := map[reflect.Type]Form{}
	forms(t, map[reflect.Type]bool{}, found)
	return found
}

func forms(t reflect.Type, open map[reflect.Type]bool, found map[reflect.Type]Form) {
	if _, ok := found[t]; ok {
		return
	}
	if t.Kind() == reflect.Pointer {
		forms(t.Elem(), open, found)
		return
	}
	out, _, _ := codecs(t)
	switch {
	case out == byText || t == reflect.TypeFor[time.Time]():
		found[t] = Text
		return
	case out == byJSON:
		found[t] = Any
		return
	case open[t] && t.Kind() == reflect.Struct:
		found[t] = Object
		return
	case open[t]:
		found[t] = Any
		return
	}
	open[t] = true
	defer delete(open, t)
	switch t.Kind() {
	case reflect.Slice:
		if e := t.Elem(); e.Kind() == reflect.Uint8 && !hasOwn(e) {
			found[t] = Base64
			return
		}
		forms(t.Elem(), open, found)
	case reflect.Array:
		forms(t.Elem(), open, found)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			found[t] = Object
			return
		}
		forms(t.Elem(), open, found)
	case reflect.Struct:
		for _, f := range fields(t) {
			forms(f.Type, open, found)
		}
	}
}
