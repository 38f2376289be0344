package schema

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestFaultsNameThePlaceAndWhatIsWanted(t *testing.T) {
	s, err := Compile([]byte(`{"type":"object","required":["a"],"additionalProperties":false,"properties":{
		"a":{"type":["number","null"]},"b":{"type":"array","items":{"enum":["X","Y"]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		json string
		want Fault // Text: a part of it
	}{
		{`{"a":1}`, Fault{}},
		{`{}`, Fault{Text: "missing property 'a'"}},
		{`{"a":1,"c":2}`, Fault{Text: "'c' not allowed"}},
		{`{"a":"1"}`, Fault{At: []string{"a"}, Text: ".a: got string", Types: []string{"null", "number"}}},
		{`{"a":1,"b":["X","Z"]}`, Fault{At: []string{"b", "1"}, Text: ".b.1: value must be one of 'X', 'Y'", Enum: []any{"X", "Y"}}},
	} {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(c.json)))
		if err != nil {
			t.Fatal(err)
		}
		faults, err := s.Faults(doc)
		if c.want.Text == "" {
			if len(faults) > 0 || err != nil || s.Check([]byte(c.json)) != nil {
				t.Errorf("%s: %v %v", c.json, faults, err)
			}
			continue
		}
		if err != nil || len(faults) != 1 {
			t.Fatalf("%s: %v %v", c.json, faults, err)
		}
		f := faults[0]
		slices.Sort(f.Types)
		if !slices.Equal(f.At, c.want.At) || !strings.Contains(f.Text, c.want.Text) || !slices.Equal(f.Types, c.want.Types) || !reflect.DeepEqual(f.Enum, c.want.Enum) {
			t.Errorf("%s: %+v, want %+v", c.json, f, c.want)
		}
		if err := s.Check([]byte(c.json)); err == nil || err.Error() != f.Text {
			t.Errorf("%s: Check says %v", c.json, err)
		}
	}
}

func TestCheckRefusesWhatTwoReadersTakeDifferently(t *testing.T) {
	s, err := Compile([]byte(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`{"a":1,"a":2}`, `{"a":1,"A":2}`, `{} {}`, `{"a":`, "{\"\xff\":1}"} {
		if s.Check([]byte(bad)) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestFaultsHaveOneOrder: a text made of them is the same each time, so that a run that is replayed asks the same again.
func TestFaultsHaveOneOrder(t *testing.T) {
	s, err := Compile([]byte(`{"properties":{"a":{"type":"number"},"b":{"type":"number"},"c":{"type":"number"},"d":{"type":"number"}},"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = "additional properties 'u', 'v', 'w', 'x', 'y', 'z' not allowed; .a: got string, want number; .b: got string, want number; " +
		".c: got string, want number; .d: got string, want number"
	for range 50 {
		if got := s.Check([]byte(`{"d":"","c":"","b":"","a":"","z":1,"y":1,"x":1,"w":1,"v":1,"u":1}`)); got == nil || got.Error() != want {
			t.Fatalf("%v", got)
		}
	}
}

// TestASchemaReadsNoFile: a schema that a stranger sends does not make this program read what it names.
func TestASchemaReadsNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"file://" + filepath.ToSlash(file), "http://127.0.0.1:1/s.json", "s.json"} {
		if _, err := Compile([]byte(`{"$ref":"` + ref + `"}`)); err == nil {
			t.Errorf("%s is read", ref)
		}
	}
	s, err := Compile([]byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{"n":{"type":"number"}},"$ref":"#/$defs/n"}`))
	if err != nil || s.Check([]byte(`1`)) != nil || s.Check([]byte(`"1"`)) == nil {
		t.Error("a schema that refers to itself", err)
	}
}

func TestOfDescribesAType(t *testing.T) {
	type item struct {
		Code  string  `json:"code"`
		Score float64 `json:"score,omitempty"`
	}
	b, err := Of(reflect.TypeFor[item]())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Compile(b)
	if err != nil {
		t.Fatal(err)
	}
	for json, fits := range map[string]bool{`{"code":"x"}`: true, `{"code":"x","score":1.5}`: true, `{"score":1}`: false, `{"code":1}`: false} {
		if err := s.Check([]byte(json)); (err == nil) != fits {
			t.Errorf("%s: %v", json, err)
		}
	}
	if _, err := Of(reflect.TypeFor[chan int]()); err == nil {
		t.Error("a channel has a schema")
	}
}
