package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// schema is as much of a JSON Schema as plain text needs: what a value may be, and which fields there are. Whether a
// value is right is for the engine to say.
type schema struct {
	Types      kinds              `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	About      string             `json:"description"`
}

// kinds are the types of a schema, written as one name or as several.
type kinds []string

// UnmarshalJSON reads both forms.
func (k *kinds) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*k = kinds{one}
		return nil
	}
	var many []string
	err := json.Unmarshal(data, &many)
	*k = many
	return err
}

// UnmarshalJSON reads a schema, true and false among them.
func (s *schema) UnmarshalJSON(data []byte) error {
	type bare schema
	if string(data) == "true" || string(data) == "false" {
		return nil
	}
	return json.Unmarshal(data, (*bare)(s))
}

func parseSchema(raw json.RawMessage) (*schema, error) {
	s := &schema{}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("a schema that cannot be read: %w", err)
	}
	return s, nil
}

// kind is the one type that a value can be beside null; empty: several, or any.
func (s *schema) kind() string {
	if s == nil {
		return ""
	}
	rest := slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" })
	if len(rest) != 1 {
		return ""
	}
	return rest[0]
}

func (s *schema) nullable() bool { return s != nil && slices.Contains(s.Types, "null") }

// fields are the names of an object's fields, in order.
func (s *schema) fields() []string { return slices.Sorted(maps.Keys(s.Properties)) }

// wants says what a value has to be, in plain words.
func (s *schema) wants() string {
	switch s.kind() {
	case "string":
		return "text"
	case "integer":
		return "a whole number"
	case "number":
		return "a number"
	case "boolean":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "a JSON object"
	}
	return "a value"
}

// value makes JSON of a text by the type that is wanted.
func (s *schema) value(text string) (json.RawMessage, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("not valid UTF-8")
	}
	trimmed := strings.TrimSpace(text)
	kind := s.kind()
	if kind == "string" {
		return compactText(text), nil
	}
	if s.nullable() && trimmed == "null" {
		return json.RawMessage("null"), nil
	}
	raw, isJSON := json.RawMessage(trimmed), json.Valid([]byte(trimmed))
	is := func(first string) bool { return isJSON && strings.ContainsRune(first, rune(trimmed[0])) }
	switch {
	case kind == "" && isJSON, kind == "object" && is("{"), kind == "array" && is("["):
		return raw, nil
	case kind == "":
		return compactText(text), nil
	case kind == "integer" && is("-0123456789") && !strings.ContainsAny(trimmed, ".eE"), kind == "number" && is("-0123456789"):
		return raw, nil
	case kind == "boolean":
		switch strings.ToLower(trimmed) {
		case "true", "yes", "y":
			return json.RawMessage("true"), nil
		case "false", "no", "n":
			return json.RawMessage("false"), nil
		}
	case kind == "array":
		item, err := s.Items.value(text)
		if err != nil {
			return nil, err
		}
		return json.RawMessage("[" + string(item) + "]"), nil
	}
	return nil, fmt.Errorf("want %s, not %s", s.wants(), shortened(text))
}

// shortened is a text as a message shows it.
func shortened(text string) string { return fmt.Sprintf("%q", oneLine(text, 60)) }

// compactText is a text as JSON. It is valid UTF-8: then nothing of it is lost.
func compactText(text string) json.RawMessage { return compact(text) }

// answer makes JSON of an answer in plain text: the value itself, or the only field that an object has to have.
func (s *schema) answer(text string) (json.RawMessage, error) {
	if s.kind() != "object" {
		return s.value(text)
	}
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) && s.wrapped() == "" {
		return json.RawMessage(trimmed), nil
	}
	name := s.wrapped()
	if name == "" {
		return nil, fmt.Errorf("this answer has several fields (%s): give it as JSON", strings.Join(s.fields(), ", "))
	}
	v, err := s.Properties[name].value(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return compact(map[string]json.RawMessage{name: v}), nil
}

// wrapped is the field that plain text fills: the only one that is required, or the only one that there is.
func (s *schema) wrapped() string {
	switch {
	case len(s.Required) == 1 && s.Properties[s.Required[0]] != nil:
		return s.Required[0]
	case len(s.Required) == 0 && len(s.Properties) == 1:
		return s.fields()[0]
	}
	return ""
}
