package codec_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pawl/internal/codec"
)

type (
	base  struct{ ID int }
	Base  struct{ Name string }
	Text  string
	deep  struct{ *Deep }
	Deep  struct{ N int }
	Selfy struct {
		*Selfy
		N int
	}
	reads  struct{ N int }
	writes struct{ N int }
	lossy  struct {
		Kept, Lost int
	}
)

func (*reads) UnmarshalJSON([]byte) error    { return nil }
func (writes) MarshalJSON() ([]byte, error)  { return []byte("1"), nil }
func (l lossy) MarshalJSON() ([]byte, error) { return json.Marshal(l.Kept) }
func (l *lossy) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &l.Kept)
}

func TestSurvives(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string // "" if it survives
	}{
		{struct {
			base
			Base
			Text
			At    time.Time
			Addr  netip.Addr
			Big   *big.Int
			Raw   json.RawMessage
			Keys  map[netip.Addr]map[int8]*[3][]byte
			Named struct{ A, B int } `json:"x,omitempty"`
			Dash  int                `json:"-,"` //lint:ignore SA5008 the odd tag is what is tested
		}{}, ""},
		{deep{}, ""},
		{Selfy{}, ""}, // like encoding/json, which does not follow a type into itself
		{struct{ C chan int }{}, ".C: a chan"},
		{struct{ M map[bool]int }{}, ".M: a map key of type bool"},
		{struct{ M map[string]func() }{}, ".M[]: a func"},
		{struct {
			a int
		}{}, ".a: an unexported field"},
		{struct {
			A int `json:"-"`
		}{}, ".A: a field with the tag"},
		{struct {
			base
			Other int `json:"ID"`
		}{}, `.Other: struct`},
		{struct {
			Base
			NAME string
		}{}, "only by case"},
		{struct{ R reads }{}, ".R: codec_test.reads is written by its fields and read by its own JSON"},
		{struct{ W writes }{}, ".W: codec_test.writes is written by its own JSON and read by its fields"},
		{struct{ B big.Int }{}, ".B: big.Int is written by methods of *big.Int"},
		{struct {
			time.Time
			N int
		}{}, ".Time: the embedded time.Time"},
		{struct{ *base }{}, ".base: an unexported field"},
		{struct{ error }{}, ".error: an unexported field"},
	} {
		got := strings.Join(codec.Survives(reflect.TypeOf(c.v)), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%T: %q, want %q", c.v, got, c.want)
		}
	}
	both := codec.Survives(reflect.TypeFor[struct {
		A, B func()
		C    []any
	}]())
	if len(both) != 3 {
		t.Errorf("not every field is named: %q", both)
	}
}

func TestShape(t *testing.T) {
	type tree struct {
		Name string `json:"name"`
		Next []tree `json:"next"`
		base
		At *time.Time
		M  map[string][2]int8
		Q  int `json:",string"`
	}
	want := `{"At":*time.Time;"ID":int;"M":map[string][2]int8;"Q":'int;"name":string;"next":[]^1;}`
	if got := codec.Shape(reflect.TypeFor[tree]()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestSame(t *testing.T) {
	now := time.Now()
	one, two := 1, 2
	type in struct {
		At  time.Time
		P   *int
		S   []string
		M   map[string]int
		L   lossy
		Raw json.RawMessage
		base
	}
	full := in{At: now, P: &one, S: []string{"a"}, M: map[string]int{"k": 1}, L: lossy{1, 2}, Raw: json.RawMessage(`{"a": 1}`), base: base{1}}
	for want, change := range map[string]func(*in){
		"":               func(v *in) { v.At = v.At.Round(0).UTC(); v.Raw = json.RawMessage(`{"a":1}`) },
		"field .At":      func(v *in) { v.At = v.At.Add(1) },
		"field .P":       func(v *in) { v.P = &two },
		"field .P ":      func(v *in) { v.P = nil },
		"field .S":       func(v *in) { v.S = nil },
		"field .S[0]":    func(v *in) { v.S = []string{"b"} },
		"field .M[k]":    func(v *in) { v.M = map[string]int{"k": 2} },
		"field .M[k] ":   func(v *in) { v.M = map[string]int{"l": 1} },
		"field .L.Lost":  func(v *in) { v.L.Lost = 0 },
		"field .L":       func(v *in) { v.L.Kept = 0 },
		"field .Raw":     func(v *in) { v.Raw = nil },
		"field .base.ID": func(v *in) { v.ID = 2 },
	} {
		v := full
		change(&v)
		at, same := codec.Same(full, v)
		if same != (want == "") || !same && at != strings.TrimSpace(want) {
			t.Errorf("%q: %v %q", want, same, at)
		}
	}
	if at, same := codec.Same(in{S: []string{}, M: map[string]int{}}, in{}); !same {
		t.Errorf("empty is not nil: %s", at)
	}
	if at, same := codec.Same(big.NewInt(1), big.NewInt(2)); same {
		t.Error("two numbers", at)
	}
	if _, same := codec.Same(1, "1"); same {
		t.Error("two types")
	}
}

func TestForms(t *testing.T) {
	type tree struct{ Next []tree }
	forms := codec.Forms(reflect.TypeFor[struct {
		At   *time.Time
		Addr netip.Addr
		Raw  []json.RawMessage
		B    []byte
		T    tree
		M    map[int]string
		S    map[string]int
	}]())
	got := map[string]codec.Form{}
	for k, v := range forms {
		got[k.String()] = v
	}
	want := map[string]codec.Form{"time.Time": codec.Text, "netip.Addr": codec.Text, "json.RawMessage": codec.Any, "[]uint8": codec.Base64,
		"codec_test.tree": codec.Object, "map[int]string": codec.Object}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nwant %s", fmt.Sprint(got), fmt.Sprint(want))
	}
}
