package schema

import (
	"strings"
	"testing"
)

// TestNumbersThatNoFloatHoldsAreFaults: they come from models, callers and servers of tools, and the checks of a range cannot reckon
// with them.
func TestNumbersThatNoFloatHoldsAreFaults(t *testing.T) {
	for _, schema := range []string{
		`{}`, `{"properties":{"n":{"type":"number","minimum":0}}}`, `{"properties":{"n":{"exclusiveMaximum":9}}}`, `{"properties":{"n":{"multipleOf":2}}}`,
		`{"properties":{"n":{"enum":[1,2]}}}`, `{"properties":{"n":{"type":"integer"}}}`,
	} {
		s, err := Compile([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []string{"1e999", "-1e999", "1e-999", "1e2000000", "-1e-2000000"} {
			if err := s.Check([]byte(`{"n":` + n + `}`)); err == nil || err.Error() != ".n: the number "+n+" is out of range" {
				t.Errorf("%s of %s: %v", n, schema, err)
			}
			if err := s.Check([]byte(`{"a":[1,{"b":` + n + `}]}`)); err == nil || !strings.Contains(err.Error(), ".a.1.b: the number "+n) {
				t.Errorf("%s inside of %s: %v", n, schema, err)
			}
		}
	}
	s, err := Compile([]byte(`{"items":{"minimum":0,"maximum":0}}`))
	if err != nil || s.Check([]byte(`[0e999,0.0e-2000000,-0]`)) != nil {
		t.Error("nothing times anything is zero", err)
	}
	for _, schema := range []string{`{"multipleOf":1e2000000}`, `{"minimum":-1e999}`, `{"enum":[1e2000000]}`} {
		if _, err := Compile([]byte(schema)); err == nil || !strings.Contains(err.Error(), "out of range") {
			t.Errorf("%s: %v", schema, err)
		}
	}
}
