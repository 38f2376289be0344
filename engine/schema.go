package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"pawl/internal/codec"
)

// validator checks JSON against a schema.
type validator struct {
	mu sync.Mutex // the compiled schema is safe for concurrent use, its lazily built parts are not documented to be
	s  *jsonschema.Schema
}

func newValidator(schema []byte) (*validator, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///schema.json", doc); err != nil {
		return nil, err
	}
	s, err := c.Compile("mem:///schema.json")
	if err != nil {
		return nil, err
	}
	return &validator{s: s}, nil
}

// check says every way in which data does not fit, naming the fields.
func (v *validator) check(data []byte) error {
	if err := codec.Check(data); err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	err = v.s.Validate(doc)
	if err == nil {
		return nil
	}
	bad, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return err
	}
	var faults []string
	leaves(bad, &faults)
	return fmt.Errorf("%s", strings.Join(faults, "; "))
}

func leaves(e *jsonschema.ValidationError, out *[]string) {
	if len(e.Causes) == 0 {
		at := "." + strings.Join(e.InstanceLocation, ".")
		text := e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
		if at == "." {
			*out = append(*out, text)
		} else {
			*out = append(*out, at+": "+text)
		}
	}
	for _, c := range e.Causes {
		leaves(c, out)
	}
}

// same reports whether two JSON values are equal, whatever the order of their keys.
func same(a, b []byte) bool {
	x, errx := canonical(a)
	y, erry := canonical(b)
	return errx == nil && erry == nil && bytes.Equal(x, y)
}

func canonical(data []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return codec.Encode(v)
}
