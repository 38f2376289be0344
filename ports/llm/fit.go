package llm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pawl/internal/codec"
	"pawl/internal/schema"
)

// maxRounds bounds the rounds of changes: parts of a schema may want different things of one text.
const maxRounds = 3

// fit checks what was read against a schema. Three kinds of fault are mended, and recorded, because what was meant is not in doubt:
// where a number is wanted, a text that is one or one in percent; where a few words are allowed, one of them in another case; and
// null for a key that need not be there (see Format).
// In anything else what does not fit is returned, as is what makes the value doubtful.
func fit(s *schema.Schema, r reading) (reading, string, error) {
	r.changes = slices.Clone(r.changes)
	for round := 0; ; round++ {
		faults, err := s.Faults(r.value)
		if err != nil {
			return r, "", err
		}
		changed := false
		for _, f := range faults {
			if round == maxRounds {
				break
			}
			old, ok := at(&r.value, f.At, nil)
			if ok && old == nil && remove(&r.value, f.At) {
				changed = true
				r.changes = append(r.changes, place(f.At)+": null taken as not there")
				continue
			}
			text, isText := old.(string)
			if !ok || !isText {
				continue
			}
			if v, ok := meant(f, text); ok {
				at(&r.value, f.At, v)
				changed = true
				r.changes = append(r.changes, fmt.Sprintf("%s: %q taken as %v", place(f.At), clip(text, 60), v))
			}
		}
		switch {
		case changed:
		case len(faults) > 0:
			return r, told(faults), nil
		default:
			return r, r.doubt, nil
		}
	}
}

// told is what a model is told about faults. What is allowed is said in full, what it wrote itself only in part.
func told(faults []schema.Fault) string {
	faults = slices.Clone(faults[:min(len(faults), 8)])
	for i, f := range faults {
		if n := len(f.Text); f.Enum == nil && n > 250 {
			faults[i].Text = clip(f.Text, 200) + strings.ToValidUTF8(f.Text[n-40:], "")
		}
	}
	return schema.Text(faults)
}

// meant is what a text stands for that does not fit.
func meant(f schema.Fault, text string) (any, bool) {
	switch {
	case slices.Contains(f.Types, "number"), slices.Contains(f.Types, "integer"):
		return decimal(text)
	case f.Enum != nil:
		var same []any
		for _, v := range f.Enum {
			if word, ok := v.(string); ok && codec.Fold(word) == codec.Fold(text) {
				same = append(same, v)
			}
		}
		if len(same) == 1 {
			return same[0], same[0] != any(text)
		}
	}
	return nil, false
}

// at is the value at a place; where put is not nil, it is put there.
func at(v *any, way []string, put any) (old any, ok bool) {
	if len(way) == 0 {
		old = *v
		if put != nil {
			*v = put
		}
		return old, true
	}
	switch in := (*v).(type) {
	case map[string]any:
		inner, found := in[way[0]]
		if !found {
			return nil, false
		}
		old, ok = at(&inner, way[1:], put)
		in[way[0]] = inner
		return old, ok
	case []any:
		i, err := strconv.Atoi(way[0])
		if err != nil || i < 0 || i >= len(in) {
			return nil, false
		}
		return at(&in[i], way[1:], put)
	}
	return nil, false
}

// remove takes a key out of its object.
func remove(v *any, way []string) bool {
	last := len(way) - 1
	if last < 0 {
		return false
	}
	in, _ := at(v, way[:last], nil)
	fields, ok := in.(map[string]any)
	delete(fields, way[last])
	return ok
}

func place(way []string) string {
	out := "the value"
	for i, step := range way {
		if i == 0 {
			out = ""
		}
		out += "." + step
	}
	return out
}

// taken is the one value in a text that fits a schema, or why there is none: the whole text, or else the only object or array
// in it that fits. Two that fit and differ are none.
func taken(s *schema.Schema, text string) (r reading, problem string, err error) {
	if r, err := strict(text); err == nil {
		return fit(s, r)
	}
	found, err := scan(text)
	if err != nil {
		return r, "the answer is no whole JSON value: " + err.Error(), nil
	}
	var fits []reading
	for _, c := range found {
		c, why, err := fit(s, c)
		switch {
		case err != nil:
			return r, "", err
		case why == "" && !slices.ContainsFunc(fits, func(o reading) bool { return equal(o.value, c.value) }):
			fits = append(fits, c)
		case why != "" && why == c.doubt: // it would fit, if it were clear what it says
			return c, why, nil
		case why != "":
			problem = why
		}
	}
	switch {
	case len(fits) == 1:
		fits[0].changes = append(fits[0].changes, "text around the JSON left out")
		return fits[0], "", nil
	case len(fits) > 1:
		return r, fmt.Sprintf("the answer has %d different JSON values that would do, and it is not clear which one is meant", len(fits)), nil
	case problem == "":
		problem = "there is no JSON in the answer that can be read"
	}
	return r, problem, nil
}

func equal(a, b any) bool {
	x, errx := json.Marshal(a)
	y, erry := json.Marshal(b)
	return errx == nil && erry == nil && string(x) == string(y)
}
