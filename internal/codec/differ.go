package codec

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Differ finds the first place where two JSON values are not equal: its path (empty: the whole value) and what stands there on
// each side, nil where nothing does. The order of keys and white space are no difference. Fields come in the order of their
// names.
func Differ(a, b []byte) (path string, was, is json.RawMessage, differ bool) {
	if bytes.Equal(a, b) {
		return "", nil, nil, false
	}
	x, errx := tree(a)
	y, erry := tree(b)
	if errx != nil || erry != nil {
		return "", a, b, true
	}
	return differOf(x, y, "")
}

func tree(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func differOf(a, b any, path string) (string, json.RawMessage, json.RawMessage, bool) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return differOfFields(x, y, path)
		}
	case []any:
		if y, ok := b.([]any); ok {
			return differOfItems(x, y, path)
		}
	default:
		if a == b {
			return "", nil, nil, false
		}
	}
	return path, text(a), text(b), true
}

func differOfFields(a, b map[string]any, path string) (string, json.RawMessage, json.RawMessage, bool) {
	names := slices.Collect(maps.Keys(a))
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		x, ina := a[name]
		y, inb := b[name]
		at := path + "." + name
		switch {
		case !ina:
			return at, nil, text(y), true
		case !inb:
			return at, text(x), nil, true
		}
		if where, was, is, differ := differOf(x, y, at); differ {
			return where, was, is, true
		}
	}
	return "", nil, nil, false
}

func differOfItems(a, b []any, path string) (string, json.RawMessage, json.RawMessage, bool) {
	for i := range max(len(a), len(b)) {
		at := path + "[" + strconv.Itoa(i) + "]"
		switch {
		case i >= len(a):
			return at, nil, text(b[i]), true
		case i >= len(b):
			return at, text(a[i]), nil, true
		}
		if where, was, is, differ := differOf(a[i], b[i], at); differ {
			return where, was, is, true
		}
	}
	return "", nil, nil, false
}

// text is a value of a tree as JSON.
func text(v any) json.RawMessage {
	b, err := Encode(v)
	if err != nil {
		return nil
	}
	return b
}
