package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// Strict is how a provider wants the schemas to which it holds its models: nothing open in them, and only words that it knows.
// The order of keys stays, since models write in that order.
type Strict struct {
	Drop      []string // words that are left out: whoever reads the response checks them
	Refuse    []string // words with which a schema cannot be written so
	Required  bool     // every key is required; one that was not may be null
	Recursive bool     // a schema may refer to itself
}

// Write gives a schema in the strict form, and false where there is none: an object with any key, a value of any type.
func (s Strict) Write(schema json.RawMessage) (json.RawMessage, bool) {
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	v, err := ordered(d)
	root, ok := v.(object)
	if err != nil || !ok || root.text("type") != "object" || !s.Recursive && root.circular() {
		return nil, false
	}
	out, ok := s.write(root)
	if !ok {
		return nil, false
	}
	raw, err := json.Marshal(out)
	return raw, err == nil
}

func (s Strict) write(v any) (any, bool) {
	o, ok := v.(object)
	if !ok || slices.ContainsFunc(s.Refuse, o.has) {
		return nil, false
	}
	o = o.without(s.Drop...)
	for i, f := range o {
		switch f.name {
		case "properties", "$defs", "definitions":
			f.value, ok = s.each(f.value)
		case "items":
			f.value, ok = s.write(f.value)
		case "anyOf":
			f.value, ok = s.all(f.value)
		}
		if !ok {
			return nil, false
		}
		o[i] = f
	}
	switch {
	case o.is("object"):
		return s.closed(o)
	case o.has("type") || o.has("$ref") || o.has("anyOf") || o.has("enum") || o.has("const"):
		return o, true
	}
	return nil, false
}

// closed is an object that has the keys that are named, and no other.
func (s Strict) closed(o object) (any, bool) {
	properties, ok := o.get("properties").(object)
	open, said := o.get("additionalProperties").(bool)
	if o.has("additionalProperties") && !said || open || !ok {
		return nil, false
	}
	o = o.with("additionalProperties", false)
	if !s.Required {
		return o, true
	}
	was, _ := o.get("required").([]any)
	var names []any
	for i, p := range properties {
		names = append(names, p.name)
		if !slices.Contains(was, any(p.name)) {
			properties[i].value = nullable(p.value.(object))
		}
	}
	if names == nil {
		names = []any{}
	}
	return o.with("properties", properties).with("required", names), true
}

func (s Strict) each(v any) (any, bool) {
	o, ok := v.(object)
	if !ok {
		return nil, false
	}
	for i := range o {
		if o[i].value, ok = s.write(o[i].value); !ok {
			return nil, false
		}
	}
	return o, true
}

func (s Strict) all(v any) (any, bool) {
	list, ok := v.([]any)
	for i := range list {
		if list[i], ok = s.write(list[i]); !ok {
			return nil, false
		}
	}
	return list, ok
}

// nullable is a schema that takes null too.
func nullable(o object) object {
	null := object{{"type", "null"}}
	switch t := o.get("type").(type) {
	case string:
		if t == "null" {
			return o
		}
		o = o.with("type", []any{t, "null"})
	case []any:
		if !slices.Contains(t, any("null")) {
			o = o.with("type", append(slices.Clone(t), "null"))
		}
	default:
		if list, ok := o.get("anyOf").([]any); ok && len(o) == 1 {
			return object{{"anyOf", append(slices.Clone(list), null)}}
		}
		return object{{"anyOf", []any{o, null}}}
	}
	if o.has("const") {
		return object{{"anyOf", []any{o, null}}}
	}
	if values, ok := o.get("enum").([]any); ok && !slices.Contains(values, nil) {
		o = o.with("enum", append(slices.Clone(values), nil))
	}
	return o
}

// object is a JSON object whose keys keep their order.
type object []field

type field struct {
	name  string
	value any
}

func (o object) get(name string) any {
	for _, f := range o {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

func (o object) has(name string) bool {
	return slices.ContainsFunc(o, func(f field) bool { return f.name == name })
}

func (o object) text(name string) string { s, _ := o.get(name).(string); return s }

// is says whether a schema takes values of a type.
func (o object) is(kind string) bool {
	types, _ := o.get("type").([]any)
	return o.text("type") == kind || slices.Contains(types, any(kind))
}

func (o object) with(name string, value any) object {
	out := slices.Clone(o)
	for i := range out {
		if out[i].name == name {
			out[i].value = value
			return out
		}
	}
	return append(out, field{name, value})
}

func (o object) without(names ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(f field) bool { return slices.Contains(names, f.name) })
}

// circular says whether a definition refers to itself, also by way of others, or to anything but a definition.
func (o object) circular() bool {
	var under []string
	var walk func(v any) bool
	walk = func(v any) bool {
		switch v := v.(type) {
		case []any:
			return slices.ContainsFunc(v, walk)
		case object:
			for _, f := range v {
				ref, isRef := f.value.(string)
				switch {
				case f.name == "$defs" || f.name == "definitions":
					continue // walked from where they are referred to
				case f.name != "$ref" || !isRef:
					if walk(f.value) {
						return true
					}
					continue
				}
				home, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/"), "/")
				defs, _ := o.get(home).(object)
				if slices.Contains(under, ref) || !defs.has(name) {
					return true
				}
				under = append(under, ref)
				if walk(defs.get(name)) {
					return true
				}
				under = under[:len(under)-1]
			}
		}
		return false
	}
	return walk(o)
}

// MarshalJSON writes the keys in their order.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, f := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

// ordered reads one value.
func ordered(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		o := object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := ordered(d)
			if err != nil {
				return nil, err
			}
			o = append(o, field{name.(string), value})
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := ordered(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('}'), json.Delim(']'):
		return nil, errors.New("llm: not JSON")
	}
	return t, nil
}
