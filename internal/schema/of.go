package schema

import (
	"encoding/json"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"pawl/internal/codec"
)

// Of describes a type as encoding/json writes it.
func Of(t reflect.Type) ([]byte, error) {
	known := map[reflect.Type]*jsonschema.Schema{}
	for of, form := range codec.Forms(t) {
		known[of] = formSchema(form)
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// formSchema describes what the schema package cannot see from a type alone.
func formSchema(f codec.Form) *jsonschema.Schema {
	switch f {
	case codec.Text:
		return &jsonschema.Schema{Type: "string"}
	case codec.Base64:
		return &jsonschema.Schema{Types: []string{"null", "string"}, ContentEncoding: "base64"}
	case codec.Object:
		return &jsonschema.Schema{Type: "object"}
	}
	return &jsonschema.Schema{Types: []string{"null", "boolean", "number", "string", "array", "object"}}
}
