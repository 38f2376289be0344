package codec_test

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"pawl/internal/codec"
)

// written are types with something of each way in which encoding/json writes fields.
type written struct {
	Text   string
	Named  Text `json:"t-1_x,omitempty"`
	B      bool
	I      int8 `json:",omitempty"`
	I64    int64
	U      uint64 `json:"u,omitzero"`
	F      float64
	F32    float32 `json:"f,omitempty"`
	List   []inner
	Ptr    *inner     `json:"p,omitempty"`
	Ptrs   []**string `json:"ps,omitzero"`
	Bytes  []byte
	Array  [2]uint8
	By     map[string]inner `json:"by,omitempty"`
	Odd    map[netip.Addr]*int
	At     time.Time
	Zero   time.Time `json:"z,omitzero"`
	Until  *time.Time
	Raw    json.RawMessage
	Number json.Number
	Any    any
	Addr   netip.Addr
	Big    *big.Int
	Lossy  lossy
	Tree   tree
	Hard   hard
	Empty  struct{}   `json:",omitempty"`
	Nested [][]string `json:"-,omitempty"` //lint:ignore SA5008 the odd tag is what is tested
}

type inner struct {
	A string `json:"a"`
	B []int  `json:"b,omitempty"`
	C *bool  `json:",omitempty"`
}

type tree struct {
	Name string
	Sub  []tree
}

// hard has what only encoding/json does.
type hard struct {
	Base
	Quoted int `json:",string"`
}

// ownZero has what says itself when it is zero, by a pointer too.
type ownZero struct {
	A string
	B *time.Time `json:",omitzero"`
}

type ownZeros struct {
	A string
	B time.Time `json:",omitzero"`
	C *even     `json:",omitzero"`
	D even      `json:",omitzero"`
}

type even struct{ N uint8 }

func (e *even) IsZero() bool { return e.N%2 == 0 }

// addressee has JSON of its own only where it has an address.
type addressee struct{ N int }

func (a *addressee) MarshalJSON() ([]byte, error) { return []byte(`"by a pointer"`), nil }

type (
	hidden struct {
		A string
		B string `json:"-"`
		_ string
	}
	strange struct {
		A string `json:"a<b"`
		B string `json:"日"`
	}
)

// value fills v with what is likely to be written wrongly.
func value(r *rand.Rand, v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case time.Time:
		if r.IntN(4) == 0 {
			return
		}
		if r.IntN(4) == 0 {
			return
		}
		at := r.Int64N(1 << 37)
		if r.IntN(200) == 0 { // a year of five digits
			at <<= 2
		}
		v.Set(reflect.ValueOf(time.Unix(at, r.Int64N(1e9)*r.Int64N(2)).In(time.FixedZone("", r.IntN(86_000)))))
		return
	case json.RawMessage:
		v.SetBytes([]byte([]string{"null", ` { "a" : "<\ufffd" } `, "1", "[", "\"\xff\""}[draw(r, 5)]))
		return
	case json.Number:
		v.SetString([]string{"", "1e5", "-0", "x"}[draw(r, 4)])
		return
	case netip.Addr:
		v.Set(reflect.ValueOf(netip.AddrFrom4([4]byte{127, 0, 0, byte(r.IntN(256))})))
		return
	case *big.Int:
		v.Set(reflect.ValueOf(big.NewInt(r.Int64())))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text(r))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int8, reflect.Int, reflect.Int64:
		v.SetInt(r.Int64() >> r.IntN(64))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(r.Uint64() >> r.IntN(64))
	case reflect.Float32, reflect.Float64:
		f := number(r)
		if v.Kind() == reflect.Float32 && math.Abs(f) > math.MaxFloat32 {
			f = 1
		}
		v.SetFloat(f)
	case reflect.Interface:
		v.Set(reflect.ValueOf([]any{[]any{text(r), r.Float64(), nil}, addressee{1}, &addressee{2}}[r.IntN(3)]))
	case reflect.Pointer:
		if r.IntN(2) == 0 && depth < 4 {
			v.Set(reflect.New(v.Type().Elem()))
			value(r, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if n := r.IntN(4) - 1; n >= 0 && depth < 4 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			value(r, v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			value(r, k, depth+1)
			value(r, e, depth+1)
			v.SetMapIndex(k, e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				value(r, v.Field(i), depth+1)
			}
		}
	}
}

// draw is below n, and seldom one of the last two, which are faults.
func draw(r *rand.Rand, n int) int {
	if r.IntN(100) > 0 {
		return r.IntN(n - 2)
	}
	return r.IntN(n)
}

func text(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(20) * r.IntN(3) {
		switch r.IntN(12) {
		case 0:
			b.WriteByte(byte(r.IntN(128)))
		case 1:
			b.WriteString([]string{"\u2028", "\u2029", "\u2027", "�", `\ufffd`, "é", "世", "😀", "\x7f", "<&>", `"`, `\`}[r.IntN(12)])
		case 2:
			if r.IntN(1000) == 0 {
				b.WriteString([]string{"\xff", "\xe4\xb8", "\xed\xa0\x80", "\xc0\x80"}[r.IntN(4)])
			}
		default:
			b.WriteByte(byte(' ' + r.IntN(90)))
		}
	}
	return b.String()
}

func number(r *rand.Rand) float64 {
	if r.IntN(1000) == 0 {
		return math.Log(-1)
	}
	f := []float64{0, math.Copysign(0, -1), 1e-6, 1e-7, 9.999999e-7, 1e21, 9.99e20, 1e100, 1e-10, 1e-100, math.MaxFloat32, 0.1}[r.IntN(12)]
	if r.IntN(2) == 0 {
		f = math.Float64frombits(r.Uint64())
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 1
	}
	return f
}

// made is a struct with the tags, which go vet would not let stand in a source.
func made(tags ...reflect.StructTag) reflect.Type {
	var fs []reflect.StructField
	for i, tag := range tags {
		fs = append(fs, reflect.StructField{Name: string(rune('A' + i)), Type: reflect.TypeFor[string](), Tag: tag})
	}
	return reflect.StructOf(fs)
}

// TestWriter holds the writer to encoding/json, in what it writes and in what it says of what cannot be written.
func TestWriter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, typ := range []reflect.Type{
		reflect.TypeFor[written](), reflect.TypeFor[*written](), reflect.TypeFor[[]written](), reflect.TypeFor[inner](), reflect.TypeFor[tree](),
		made(`json:"x"`, `json:"x"`, ``), made(`json:"no name,at all"`, `json:",omitempty,omitzero"`),
		reflect.TypeFor[hard](), reflect.TypeFor[hidden](), reflect.TypeFor[strange](), reflect.TypeFor[string](),
		reflect.TypeFor[ownZero](), reflect.TypeFor[ownZeros](), reflect.TypeFor[*even](),
		reflect.TypeFor[[]float32](), reflect.TypeFor[[]float64](), reflect.TypeFor[map[string]inner](), reflect.TypeFor[json.Number](),
		reflect.TypeFor[time.Time](), reflect.TypeFor[any](), reflect.TypeFor[struct{}](), reflect.TypeFor[lossy](), reflect.TypeFor[[][]byte](),
	} {
		w := codec.WriterOf(typ)
		faults := 0
		for range 2000 {
			v := reflect.New(typ)
			value(r, v.Elem(), 0)
			if !sameAs(t, w, v) {
				faults++
			}
		}
		if faults > 1500 {
			t.Errorf("%s: of 2000 values %d could not be written", typ, faults)
		}
	}
}

// sameAs holds what is written of the value behind a pointer to encoding/json. It is false where that cannot be written.
func sameAs(t *testing.T, w codec.Writer, v reflect.Value) bool {
	t.Helper()
	want, refused := codec.Append([]byte("before"), v.Interface())
	got, err := w.Append([]byte("before"), v.Elem().Interface())
	if (err == nil) != (refused == nil) || err != nil && err.Error() != refused.Error() || string(got) != string(want) {
		t.Fatalf("%s: %s, %v\nencoding/json: %s, %v", v.Elem().Type(), got, err, want, refused)
	}
	return err == nil
}

// TestWriterKnows holds which types are written here: those of TestWriter would pass too if none were.
func TestWriterKnows(t *testing.T) {
	for typ, want := range map[reflect.Type]bool{
		reflect.TypeFor[written]():          true,
		reflect.TypeFor[[]*written]():       true,
		reflect.TypeFor[tree]():             true,
		reflect.TypeFor[ownZero]():          false,
		reflect.TypeFor[ownZeros]():         false,
		reflect.TypeFor[hard]():             false,
		reflect.TypeFor[hidden]():           false,
		reflect.TypeFor[strange]():          false,
		reflect.TypeFor[map[string]inner](): false,
		reflect.TypeFor[*addressee]():       false,
	} {
		if got := !reflect.ValueOf(codec.WriterOf(typ)).FieldByName("put").IsNil(); got != want {
			t.Errorf("%s is written here: %v", typ, got)
		}
	}
}

// TestWriterStrangers has fields that cannot be written at all: they are refused, and not left out for being empty.
func TestWriterStrangers(t *testing.T) {
	for _, v := range []any{
		&struct {
			A string
			F func() `json:",omitempty"`
		}{},
		&struct {
			A string
			C chan int `json:",omitempty"`
		}{},
		&struct {
			A string
			C complex128 `json:",omitempty"`
		}{},
	} {
		if r := reflect.ValueOf(v); sameAs(t, codec.WriterOf(r.Type().Elem()), r) {
			t.Errorf("%T was written", v)
		}
	}
}

type (
	ways[T any] struct{ A, B []T }
	four[T any] = ways[ways[ways[ways[T]]]]
)

// TestWriterOfManyWays is of a type in which text is reached in a hundred million ways.
func TestWriterOfManyWays(t *testing.T) {
	var v four[four[four[four[four[four[four[string]]]]]]]
	sameAs(t, codec.WriterOf(reflect.TypeOf(v)), reflect.ValueOf(&v))
}

// TestWriterPlainText puts every byte at every place of a word.
func TestWriterPlainText(t *testing.T) {
	w := codec.WriterOf(reflect.TypeFor[string]())
	for at := range 17 {
		for c := range 256 {
			s := strings.Repeat("a", at) + string([]byte{byte(c)}) + strings.Repeat("z", 17-at)
			want, refused := codec.Encode(&s)
			got, err := w.Append(nil, s)
			if (err == nil) != (refused == nil) || string(got) != string(want) {
				t.Errorf("%q: %s, %v; encoding/json: %s, %v", s, got, err, want, refused)
			}
		}
	}
	if err := quick.Check(func(s string) bool {
		want, _ := codec.Encode(&s)
		got, _ := w.Append(nil, s)
		return string(got) == string(want)
	}, nil); err != nil {
		t.Error(err)
	}
}

// BenchmarkWriter is a state of 1 KB.
func BenchmarkWriter(b *testing.B) {
	s := inner{A: strings.Repeat("x", 1000)}
	w := codec.WriterOf(reflect.TypeFor[inner]())
	room := make([]byte, 0, 2000)
	b.Run("here", func(b *testing.B) {
		for b.Loop() {
			_, _ = w.Append(room, s)
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		for b.Loop() {
			_, _ = codec.Append(room, &s)
		}
	})
}
