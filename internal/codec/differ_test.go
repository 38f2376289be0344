package codec

import "testing"

func TestDifferNamesTheFirstPlace(t *testing.T) {
	for _, c := range []struct{ a, b, path, was, is string }{
		{`{"a":1}`, `{ "a": 1 }`, "same", "", ""},
		{`{"a":1,"b":[1,{"c":"x"}]}`, `{"b":[1,{"c":"y"}],"a":1}`, ".b[1].c", `"x"`, `"y"`},
		{`{"a":1}`, `{}`, ".a", `1`, ``},
		{`{}`, `{"a":null}`, ".a", ``, `null`},
		{`[1]`, `[1,2]`, "[1]", ``, `2`},
		{`[1,2]`, `[1]`, "[1]", `2`, ``},
		{`1`, `"1"`, "", `1`, `"1"`},
		{`{"n":12345678901234567890}`, `{"n":12345678901234567891}`, ".n", `12345678901234567890`, `12345678901234567891`},
		{`{"a":[]}`, `{"a":{}}`, ".a", `[]`, `{}`},
		{`{"a":`, `{"a":1}`, "", `{"a":`, `{"a":1}`},
	} {
		path, was, is, differ := Differ([]byte(c.a), []byte(c.b))
		if want := c.path != "same"; differ != want {
			t.Errorf("%s against %s: differ %v", c.a, c.b, differ)
			continue
		}
		if differ && (path != c.path || string(was) != c.was || string(is) != c.is) {
			t.Errorf("%s against %s: %q, %s, %s", c.a, c.b, path, was, is)
		}
	}
}
