package codec_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl/internal/codec"
)

type item struct {
	Name  string  `json:"name"`
	Score float64 `json:"score"`
	Next  []item  `json:"next,omitempty"`
}

func TestCheck(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for in, want := range map[string]string{
		// what is taken
		`{"a":[1,2,{"b":null}],"c":"x"}`:    "",
		` [] `:                              "",
		`"what's the \u0000 weather"`:       "",
		`"\\ud800 is text, \\\\ud800 too"`:  "",
		`"\ud83d\ude00 and \uD83D\uDE00"`:   "",
		`{"a":{"x":1},"b":{"x":1}}`:         "", // twice, but not in one object
		`[{"x":1},{"x":2}]`:                 "",
		nest(200):                           "",
		"\"\u2028\u007f\ufffd\ufeff\"":      "",
		`{"":1," ":2}`:                      "",
		`123456789012345678901234567890e99`: "",

		// half of a pair, by the byte of its escape (case 21)
		`"\ud800"`:                            `byte 1: \ud800 is half a surrogate pair`,
		`"ab\uDFFFcd"`:                        `byte 3: \uDFFF is half`,
		`"\ud800\ud800"`:                      `byte 1: \ud800 is half`,
		`"\ud83d\ude00\ude00"`:                `byte 13: \ude00 is half`,
		`"\ud83dx\ude00"`:                     `byte 1: \ud83d is half`,
		`"\ud83d\\ude00"`:                     `byte 1: \ud83d is half`,
		`"\\\ud800"`:                          `byte 3: \ud800 is half`,
		`{"ok":1,"\ud800":2}`:                 `byte 9: \ud800 is half`,
		`{"\ud800":1,"\ud801":2}`:             `byte 2: \ud800 is half`, // not: a key twice
		"\"a\xff\"":                           "byte 2 is not UTF-8",
		"\"\xed\xa0\x80\"":                    "byte 1 is not UTF-8", // a surrogate in UTF-8
		"\"\xc0\x80\"":                        "byte 1 is not UTF-8", // an overlong NUL
		"\xff\xfe[\x00]\x00":                  "byte 0 is not UTF-8",
		`{"approved":false,"approved":true}`:  `the object: key "approved" stands twice`, // case 6
		`{"confidence":0.2,"Confidence":0.9}`: `keys "confidence" and "Confidence" differ only by case`,
		`{"a":[0,{"k":1,"k":1}]}`:             `.a[1]: key "k" stands twice`,
		`{"a":1,"\u0061":2}`:                  `key "a" stands twice`,
		"{\"\u212a\":1,\"k\":2}":              "differ only by case", // the sign of Kelvin
		"{\"\u017f\":1,\"S\":2}":              "differ only by case", // a long s
		nest(201):                             "more than 200 levels",
		strings.Repeat(`{"a":`, 201):          "more than 200 levels",
		strings.Repeat("[", 1<<20):            "more than 200 levels",
		``:                                    "ends too early",
		`  `:                                  "ends too early",
		`{"a":`:                               "ends too early",
		`{"a":1}}`:                            "behind the JSON value",
		`1 2`:                                 "behind the JSON value",
		`[1,]`:                                "invalid character",
		`{"a":1,}`:                            "invalid character",
		`{'a':1}`:                             "invalid character",
		`[NaN]`:                               "invalid character",
		`{"a":1}` + "\x00":                    "behind the JSON value",
		"\ufeff{}":                            "invalid character",
	} {
		if err := codec.Check([]byte(in)); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60q: %v, want %q", in, err, want)
		}
	}
	if err := codec.Check([]byte("{\"\u0130\":1,\"i\":2}")); err != nil {
		t.Errorf("a dotted I is not an i to encoding/json: %v", err)
	}
}

func TestStrict(t *testing.T) {
	for in, want := range map[string]string{
		`{"name":"a","score":1.5}`:    "",
		`{"name":"a","more":1}`:       `unknown field "more"`,
		`{"name":1}`:                  "name: number where string is wanted",
		`{"next":[{"score":"high"}]}`: "next.score: string where float64 is wanted",
		`[]`:                          "the value: array where",
		`{"score":1e999}`:             "score: number 1e999 where float64",
		`{"name":"a"} x`:              "behind",
		`{"name":"a","NAME":"b"}`:     "differ only by case",
		`{"name":"\udead"}`:           "surrogate",
		`{"name":"a\u0000b \\u0000"}`: "",
	} {
		var v item
		if err := codec.Strict([]byte(in), &v); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

// spoken is written as what it says.
type spoken struct{ Says, Keeps string }

func (s spoken) MarshalText() ([]byte, error) { return []byte(s.Says), nil }

func TestEncode(t *testing.T) {
	type odd struct {
		F func()
		M map[string]any
		R json.RawMessage
		B []byte
	}
	for name, c := range map[string]struct {
		v    any
		want string // JSON, or the error
	}{
		"plain":            {item{Name: "<a&b>\u2028", Score: 0.1}, `{"name":"<a&b>\u2028","score":0.1}`},
		"NUL":              {"a\x00b", `"a\u0000b"`},
		"U+FFFD itself":    {"�", `"�"`},
		"its escape":       {`\ufffd`, `"\\ufffd"`},
		"bytes":            {[]byte{0xff}, `"/w=="`},
		"nil":              {nil, `null`},
		"NaN":              {item{Next: []item{{}, {Score: math.NaN()}}}, "field .next[1].score: NaN is not a finite number"},
		"Inf in a pointer": {&item{Score: math.Inf(1)}, "field .score: +Inf"},
		"a bare NaN":       {math.NaN(), "the value: NaN"},
		"text":             {item{Name: "a\xffb"}, "field .name: the text is not UTF-8"},
		"text in a map":    {odd{M: map[string]any{"k": []string{"\xff"}}}.M, "field .k[0]: the text is not UTF-8"},
		"a key":            {map[string]int{"\xff": 1}, `the key "\xff" is not UTF-8`},
		"a function":       {odd{}, "field .F: a func cannot be stored"},
		"text of its own":  {struct{ T, H any }{`\ufffd`, spoken{"sound", "\xff"}}, `{"T":"\\ufffd","H":"sound"}`},
		"bad text":         {struct{ H spoken }{spoken{Says: "\xff"}}, "field .H: the text is not UTF-8"},
		"raw text":         {struct{ R json.RawMessage }{json.RawMessage("\"\xff\"")}, "byte 6 of the JSON is not UTF-8"},
		"raw not JSON":     {struct{ R json.RawMessage }{json.RawMessage("{")}, "unexpected end"},
	} {
		b, err := codec.Encode(c.v)
		got := string(b)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	var loop []any
	loop = append(loop, nil)
	loop[0] = loop
	if _, err := codec.Encode(loop); err == nil {
		t.Error("a value that contains itself was written")
	}
}

// TestSuite runs the parsers' test suite, which is not ours and so not in the project.
func TestSuite(t *testing.T) {
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	data, err := os.ReadFile(filepath.Join(dir, "adversarial", "json_test_suite.jsonl"))
	if err != nil {
		t.Skipf("skipped: the JSON test suite is not there (%v); PAWL_TESTDATA names the folder that has it", err)
	}
	rows := 0
	for line := range bytes.Lines(data) {
		var row struct{ Name, Expect, Bytes string }
		var raw map[string]string
		if err := json.Unmarshal(line, &raw); err != nil {
			t.Fatal(err)
		}
		row.Name, row.Expect = raw["name"], raw["expect"]
		in, err := base64.StdEncoding.DecodeString(raw["bytes_base64"])
		if err != nil {
			t.Fatal(row.Name, err)
		}
		rows++
		var v any
		err = codec.Strict(in, &v)
		// Stricter by our own rules, which the file's "accept" does not know: a key that stands twice.
		ours := err != nil && strings.Contains(err.Error(), "stands twice")
		switch {
		case row.Expect == "accept" && err != nil && !ours:
			t.Errorf("%s: refused: %v", row.Name, err)
		case row.Expect == "reject" && err == nil:
			t.Errorf("%s: accepted: %.80q", row.Name, in)
		case err == nil:
			if _, err := codec.Encode(v); err != nil {
				t.Errorf("%s: accepted and cannot be written again: %v", row.Name, err)
			}
		}
	}
	if rows < 300 {
		t.Errorf("%d rows only", rows)
	}
}

func FuzzStrict(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\ud83d\ude00"]}`, `"\ud800"`, `{"a":1,"A":2}`, `[[[]]]`, "\"\xff\"", `"\\ud800\u0000"`, ``, `-0`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var v any
		if codec.Strict(in, &v) != nil {
			return
		}
		if !json.Valid(in) {
			t.Fatalf("accepted, and no JSON: %q", in)
		}
		out, err := codec.Encode(v)
		if err != nil {
			t.Fatalf("%q cannot be written again: %v", in, err)
		}
		var w any
		if err := codec.Strict(out, &w); err != nil {
			t.Fatalf("%q was written as %q, which is refused: %v", in, out, err)
		}
		if a, b := fmt.Sprintf("%#v", v), fmt.Sprintf("%#v", w); a != b {
			t.Fatalf("%q changed: %s became %s", in, a, b)
		}
	})
}

func FuzzEncode(f *testing.F) {
	f.Add("a\x00b", "k", 0.1, []byte{0xff})
	f.Add("\xff", `\ufffd`, math.NaN(), []byte(nil))
	f.Add("�\u2028<>&", "\ud7ff", math.Inf(1), []byte{})
	f.Fuzz(func(t *testing.T, text, key string, n float64, raw []byte) {
		type value struct {
			Text string
			By   map[string]float64
			Raw  []byte
		}
		in := value{text, map[string]float64{key: n}, raw}
		b, err := codec.Encode(&in)
		bad := strings.ToValidUTF8(text+"|"+key, "") != text+"|"+key || math.IsNaN(n) || math.IsInf(n, 0)
		if bad != (err != nil) {
			t.Fatalf("%+v: %v", in, err)
		}
		if err != nil {
			return
		}
		if err := codec.Check(b); err != nil {
			t.Fatalf("%+v was written as %s: %v", in, b, err)
		}
		var out value
		if err := codec.Decode(b, &out); err != nil {
			t.Fatal(err)
		}
		if at, same := codec.Same(in, out); !same {
			t.Fatalf("%s changed: %+v became %+v", at, in, out)
		}
	})
}
