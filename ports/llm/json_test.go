package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pawl/internal/codec"
)

// sharedLines are the rows of a file of the shared test data, which is not ours and so not in the project.
func sharedLines(t *testing.T, name string) [][]byte {
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	data, err := os.ReadFile(filepath.Join(dir, "adversarial", name))
	if err != nil {
		t.Skip("shared data not found: ", err)
	}
	return bytes.Split(bytes.TrimSpace(data), []byte("\n"))
}

// TestStrictStageOnTheParsersSuite: all that is JSON is read, nothing that is not, before any repair. What is read can be kept, or
// the reading says why it is not to be trusted.
func TestStrictStageOnTheParsersSuite(t *testing.T) {
	rows := sharedLines(t, "json_test_suite.jsonl")
	for _, line := range rows {
		var row struct{ Name, Expect string }
		var bytes struct {
			Base64 string `json:"bytes_base64"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(line, &bytes); err != nil {
			t.Fatal(err)
		}
		in, err := base64.StdEncoding.DecodeString(bytes.Base64)
		if err != nil {
			t.Fatal(row.Name, err)
		}
		r, err := strict(string(in))
		switch {
		case row.Expect == "accept" && err != nil:
			t.Errorf("%s: refused: %v", row.Name, err)
		case row.Expect == "reject" && err == nil:
			t.Errorf("%s: accepted: %.80q", row.Name, in)
		case row.Expect == "accept" && r.doubt != "" && !strings.Contains(r.doubt, "stands twice"):
			t.Errorf("%s: in doubt: %s", row.Name, r.doubt)
		case err == nil && r.doubt == "":
			if _, err := codec.Encode(r.value); err != nil {
				t.Errorf("%s: accepted and cannot be written again: %v", row.Name, err)
			}
		}
		_, _ = scan(string(in)) // and no panic on the second way
	}
	if len(rows) < 300 {
		t.Errorf("%d rows only", len(rows))
	}
}

func TestStrict(t *testing.T) {
	for _, c := range []struct {
		text, want, change, doubt string // want: the value as JSON; empty: no JSON
	}{
		{"\ufeff{\"a\":1}", `{"a":1}`, "", ""},
		{`{"id":12345678901234567890.10}`, `{"id":12345678901234567890.10}`, "", ""},
		{`{"a":"x\u0000\\u0000\\\u0000"}`, `{"a":"x` + "\ufffd" + `\\u0000\\` + "\ufffd" + `"}`, "NUL replaced", ""},
		{`{"a\u0000":1}`, `{"a` + "\ufffd" + `":1}`, "NUL replaced", ""},
		{`["\ud83d…","\ud83d\ude00","\ude00\ud83d","\uD800\uD800\n"]`, "[\"\ufffd…\",\"😀\",\"\ufffd\ufffd\",\"\ufffd\ufffd\\n\"]", "half a surrogate pair replaced", ""},
		{"[\"\xff\"]", "[\"\ufffd\"]", "bytes that are not UTF-8 replaced", ""},
		{`{"a":1,"a":2}`, `{"a":2}`, "", `key "a" stands twice`},
		{`{"b":{"a":1,"A":2}}`, `{"b":{"A":2,"a":1}}`, "", `.b: keys "a" and "A" differ only by case`},
		{`{"\u0061":1,"a":2}`, `{"a":2}`, "", "stands twice"},
		{`{"x\u0000":1,"x\ud800":2}`, "{\"x\ufffd\":2}", "", "stands twice"},
		{strings.Repeat("[", 201) + strings.Repeat("]", 201), strings.Repeat("[", 201) + strings.Repeat("]", 201), "", "more than 200 levels"},
		{`{"a":NaN}`, "", "", ""}, {`{"a":Infinity}`, "", "", ""}, {`{"a":01}`, "", "", ""}, {`{"a":1}{}`, "", "", ""},
		{`{"a":1,}`, "", "", ""}, {`{'a':1}`, "", "", ""}, {"", "", "", ""}, {" \n", "", "", ""}, {"{\"a\":\"\n\"}", "", "", ""},
		{strings.Repeat("[", 100_000), "", "", ""},
	} {
		r, err := strict(c.text)
		if c.want == "" {
			if err == nil {
				t.Errorf("%.60q is read as %v", c.text, r.value)
			}
			continue
		}
		got, _ := codec.Encode(r.value)
		if err != nil || string(got) != c.want || !strings.Contains(r.doubt, c.doubt) || (c.doubt == "") != (r.doubt == "") {
			t.Errorf("%.60q: %s in doubt %q, %v", c.text, got, r.doubt, err)
		}
		if c.change != "" && !slices.Contains(r.changes, c.change) {
			t.Errorf("%.60q: changes %v", c.text, r.changes)
		}
	}
}

func TestScan(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string // the values; nil: the text is not used
	}{
		{`Result: {"a": 1}. Note [1].`, []string{`{"a":1}`, `[1]`}},
		{"```json\n{\"a\": \"```\"}\n```\nSee [docs].", []string{"{\"a\":\"```\"}"}},
		{"```bash\nls {x,y} && echo ${HOME}\n```\n```json\n{\"a\": 1}\n```", []string{`{"a":1}`}},
		{`<think>maybe {"a": 0}? or { "a</think>{"a": 1}`, []string{`{"a":1}`}},
		{`maybe {"a": 0}? no.</Thinking>{"a": 1}`, []string{`{"a":1}`}},
		{`a < b, <b>{"a": "<think>"}</b>`, []string{`{"a":"<think>"}`}},
		{`<think>for ever {"a": 1}`, nil},
		{`{"a":[1,2,{"b":2,},],},`, []string{`{"a":[1,2,{"b":2}]}`}},
		{`{"a": 1 // one, {"b"` + "\n" + `, /* two */ "b": "// no /* comment */, ]" }`, []string{`{"a":1,"b":"// no /* comment */, ]"}`}},
		{`{,} [1,,] [,1] {"a":,}`, []string{}},
		{`{"a":1 "b":2} {'a': {"b": 1}} {a: {"b": 1}}`, []string{}},
		{`{"a":{"b":1}`, nil}, // what is inside of what is cut is not the answer
		{`{"a":[{"b":1},{"b":`, nil},
		{`{"a":1]} {"b":2}`, nil},
		{`{"a":"x} {"b":2}`, nil},
		{`{"a":1 /* {"b":2}`, nil},
		{`Use { to open and } to close: {"a":1}`, []string{`{"a":1}`}},
		{`{"say":"a "quoted" word","b":{"c":1}}`, []string{}},
		{"", []string{}},
	} {
		found, err := scan(c.text)
		if c.want == nil {
			if err == nil {
				t.Errorf("%q is used: %v", c.text, found)
			}
			continue
		}
		var got []string
		for _, r := range found {
			b, _ := codec.Encode(r.value)
			got = append(got, string(b))
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v", c.text, got, err)
		}
	}
}

// TestLongScanIsLinear: what costs a reader that looks again from each bracket minutes is read at once.
func TestLongScanIsLinear(t *testing.T) {
	begin := time.Now()
	for _, part := range []string{"[", `{"a":`, "[/*", `["`, `{"a":1,}`, "<think>", "<think></think>", "[1,]", "{", `[[],`, "</think>", `{a:`} {
		_, _ = scan(strings.Repeat(part, 100_000))
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestDecimal(t *testing.T) {
	for text, want := range map[string]string{
		"0.85": "0.85", "85%": "0.85", "8.50%": "0.085", "100%": "1", "0%": "0", "1000%": "10", "-5%": "-0.05", "12345678901234567890": "12345678901234567890",
		"1e2": "1e2", "0,85": "", "high": "", "": "", "%": "", "०.८५": "", "+5": "", " 5": "", "5 %": "", "1e2%": "", "0x10": "", "NaN": "", "Infinity": "",
		"true": "", "null": "", `"5"`: "", "[5]": "", ".5": "", "05": "", "5%%": "", "1_000": "", strings.Repeat("9", 50): "",
	} {
		got, ok := decimal(text)
		if string(got) != want || ok != (want != "") {
			t.Errorf("%q: %q %v", text, got, ok)
		}
	}
}

// FuzzReading: whatever a model writes, it is read without a panic, and what is found can be kept and is found again in what was kept.
func FuzzReading(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\ud83d\ude00"]}`, `"\ud800"`, `{"a":1,"A":2}`, "```json\n{\"a\":1,}\n```", `<think>{</think>[1]//`, `{"a":1/**/}`,
		`{a:{"b":`, "\"\xff\\u0000\"", `[{"a":1},]`, `-0`, "\ufeff{}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		whole, err := strict(text)
		if err == nil && !json.Valid(bytes.TrimPrefix([]byte(text), []byte("\ufeff"))) {
			t.Fatalf("read, and no JSON: %q", text)
		}
		found, _ := scan(text)
		if err == nil {
			found = append(found, whole)
		}
		for _, r := range found {
			if r.doubt != "" {
				continue
			}
			kept, err := codec.Encode(r.value)
			if err != nil {
				t.Fatalf("%q: cannot be kept: %v", text, err)
			}
			again, err := strict(string(kept))
			if err != nil || again.doubt != "" || len(again.changes) > 0 || !equal(again.value, r.value) {
				t.Fatalf("%q: %s is read as %+v, %v", text, kept, again, err)
			}
			if strings.Contains(fmt.Sprint(r.value), "\x00") {
				t.Fatalf("%q: NUL in %q", text, r.value)
			}
		}
	})
}
