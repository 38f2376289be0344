package codec

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
)

// Same compares a value with what came back from JSON, and names the first field that changed. A nil slice or map is the
// same as an empty one, and a type that can compare itself (Equal) does.
func Same(a, b any) (at string, same bool) {
	at, same = sameOf(reflect.ValueOf(a), reflect.ValueOf(b), "")
	if at == "" {
		return "the value", same
	}
	return "field " + at, same
}

func sameOf(a, b reflect.Value, at string) (string, bool) {
	if !a.IsValid() || !b.IsValid() || a.Type() != b.Type() {
		return at, !a.IsValid() && !b.IsValid()
	}
	if out, _, _ := codecs(a.Type()); out != byKind && a.Kind() != reflect.Pointer && a.CanInterface() {
		return sameByMethods(a, b, at)
	}
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return at, a.IsNil() == b.IsNil()
		}
		return sameOf(a.Elem(), b.Elem(), at)
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return at, false
		}
		for i := range a.Len() {
			if to, ok := sameOf(a.Index(i), b.Index(i), at+"["+strconv.Itoa(i)+"]"); !ok {
				return to, false
			}
		}
		return at, true
	case reflect.Map:
		if a.Len() != b.Len() {
			return at, false
		}
		for it := a.MapRange(); it.Next(); {
			other := b.MapIndex(it.Key())
			if to, ok := sameOf(it.Value(), other, fmt.Sprintf("%s[%v]", at, it.Key())); !ok {
				return to, false
			}
		}
		return at, true
	case reflect.Struct:
		return sameFields(a, b, at)
	case reflect.Func, reflect.Chan, reflect.Interface:
		return at, false // they do not survive at all
	}
	return at, a.Equal(b)
}

func sameFields(a, b reflect.Value, at string) (string, bool) {
	for i := range a.NumField() {
		f := a.Type().Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		if to, ok := sameOf(a.Field(i), b.Field(i), at+"."+f.Name); !ok {
			return to, false
		}
	}
	return at, true
}

// sameByMethods compares types with JSON of their own: by their Equal, else by what they write and the fields they show.
func sameByMethods(a, b reflect.Value, at string) (string, bool) {
	if m := a.MethodByName("Equal"); m.IsValid() {
		if t := m.Type(); t.NumIn() == 1 && t.In(0) == a.Type() && t.NumOut() == 1 && t.Out(0).Kind() == reflect.Bool {
			return at, m.Call([]reflect.Value{b})[0].Bool()
		}
	}
	x, err := Encode(addressed(a))
	if err != nil {
		return at, false
	}
	y, err := Encode(addressed(b))
	if err != nil || !bytes.Equal(x, y) {
		return at, false
	}
	switch a.Kind() {
	case reflect.Struct:
		return sameFields(a, b, at)
	case reflect.Slice, reflect.Map: // json.RawMessage may lose white space
		return at, true
	}
	return at, a.Equal(b)
}

func addressed(v reflect.Value) any {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p.Interface()
}
