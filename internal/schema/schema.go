// Package schema is JSON Schema: the one of a Go type, and whether a value fits one.
//
// It may never change a value, nor know whose it is: what does not fit is named, and what becomes of it is the caller's.
//
// Start reading at Of, then Compile and Schema.Faults.
package schema

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
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
// json.Number.
func (s *Schema) Faults(value any) ([]Fault, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.s.Validate(value)
	bad, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return nil, err
	}
	faults := leaves(bad, nil)
	slices.SortFunc(faults, func(a, b Fault) int { return cmp.Or(slices.Compare(a.At, b.At), strings.Compare(a.Text, b.Text)) })
	return faults, nil
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
		f := Fault{At: slices.Clone(e.InstanceLocation), Text: e.ErrorKind.LocalizedString(message.NewPrinter(language.English))}
		if len(f.At) > 0 {
			f.Text = "." + strings.Join(f.At, ".") + ": " + f.Text
		}
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
