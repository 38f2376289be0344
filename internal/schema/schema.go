// Package schema is JSON Schema: the one of a Go type, and whether a value fits one.
//
// It may never change a value, nor know whose it is: what does not fit is named, and what becomes of it is the caller's.
//
// Start reading at Of, then Compile and Schema.Faults.
package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"pawl/internal/codec"
)

// Schema checks JSON. It is safe for concurrent use.
type Schema struct {
	mu sync.Mutex // the compiled schema is safe for concurrent use, its lazily built parts are not documented to be
	s  *jsonschema.Schema
}

// Compile reads a schema. It may refer to itself and to nothing else: schemas come from outside too, and this program reads no file
// for them.
func Compile(schema []byte) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	if faults := beyond(doc, nil, nil); len(faults) > 0 {
		return nil, errors.New(Text(faults))
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource("mem:///schema.json", doc); err != nil {
		return nil, err
	}
	s, err := c.Compile("mem:///schema.json")
	if err != nil {
		return nil, err
	}
	return &Schema{s: s}, nil
}

// Fault is one way in which a value does not fit.
type Fault struct {
	At    []string // names and indexes on the way to the value
	Text  string   // with the way
	Types []string // the types that are wanted there, if another one stands there
	Enum  []any    // the values that are allowed there, if another one stands there
}

// Faults are all ways in which a value does not fit, in a fixed order, none if it does. The value is of the types of encoding/json, with numbers as
// json.Number. A number that is none as a float64 fits nowhere: what reads it next would take infinity, or zero.
func (s *Schema) Faults(value any) ([]Fault, error) {
	if faults := beyond(value, nil, nil); len(faults) > 0 { // the validator panics at some of them
		return ordered(faults), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.s.Validate(value)
	bad, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return nil, err
	}
	return ordered(leaves(bad, nil)), nil
}

func ordered(faults []Fault) []Fault {
	slices.SortFunc(faults, func(a, b Fault) int { return cmp.Or(slices.Compare(a.At, b.At), strings.Compare(a.Text, b.Text)) })
	return faults
}

// beyond adds a fault for each number that no float64 holds.
func beyond(value any, at []string, out []Fault) []Fault {
	switch v := value.(type) {
	case json.Number:
		mantissa, _, _ := strings.Cut(strings.ToLower(v.String()), "e")
		if f, err := v.Float64(); err != nil || f == 0 && strings.ContainsAny(mantissa, "123456789") {
			out = append(out, fault(at, "the number "+shortened(v.String())+" is out of range"))
		}
	case []any:
		for i, e := range v {
			out = beyond(e, append(at, strconv.Itoa(i)), out)
		}
	case map[string]any:
		for k, e := range v {
			out = beyond(e, append(at, k), out)
		}
	}
	return out
}

// fault is one at a place, which its text names.
func fault(at []string, text string) Fault {
	if len(at) > 0 {
		text = "." + strings.Join(at, ".") + ": " + text
	}
	return Fault{At: slices.Clone(at), Text: text}
}

// shortened is a number that may be of any length.
func shortened(n string) string {
	if len(n) > 40 {
		return n[:40] + "…"
	}
	return n
}

// Check says every way in which JSON does not fit, naming the fields.
func (s *Schema) Check(data []byte) error {
	if err := codec.Check(data); err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	faults, err := s.Faults(doc)
	if err != nil || len(faults) == 0 {
		return err
	}
	return errors.New(Text(faults))
}

// Text is all faults in a line.
func Text(faults []Fault) string {
	var texts []string
	for _, f := range faults {
		texts = append(texts, f.Text)
	}
	return strings.Join(texts, "; ")
}

func leaves(e *jsonschema.ValidationError, out []Fault) []Fault {
	if len(e.Causes) == 0 {
		if k, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
			slices.Sort(k.Properties)
		}
		f := fault(e.InstanceLocation, e.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
		switch k := e.ErrorKind.(type) {
		case *kind.Type:
			f.Types = k.Want
		case *kind.Enum:
			f.Enum = k.Want
		}
		return append(out, f)
	}
	for _, c := range e.Causes {
		out = leaves(c, out)
	}
	return out
}
