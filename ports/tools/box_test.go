package tools_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pawl"
	"pawl/ports/llm"
	"pawl/ports/tools"
	"pawl/ports/tools/toolstest"
)

// tool takes {"n": integer} and nothing else.
func tool(name string, readOnly bool) tools.Tool {
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)
	return tools.Tool{Tool: llm.Tool{Name: name, Description: "the tool " + name, Schema: schema}, ReadOnly: readOnly}
}

func offering(id string, all ...tools.Tool) *toolstest.Script {
	return &toolstest.Script{ID: id, Offer: func() ([]tools.Tool, error) { return all, nil }}
}

func box(t *testing.T, servers ...tools.Server) *tools.Box {
	t.Helper()
	b, err := tools.New(servers...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func call(name, arguments string) llm.ToolCall {
	return llm.ToolCall{ID: "1", Name: name, Arguments: json.RawMessage(arguments)}
}

// TestNames: a model knows a tool by one name that every provider takes, and no server can offer another one's.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 200)
	a := offering("a", tool("read", true), tool("b_read", true), tool("read.file", true), tool("read/file", true), tool(long, true), tool(long+"y", true), tool("", true))
	b := offering("a-b", tool("read", true), tool("äöü", true))
	bx := box(t, a, b)
	offered, err := bx.Tools(t.Context())
	if err != nil || len(offered) != 9 {
		t.Fatalf("%d tools, %v", len(offered), err)
	}
	seen := map[string]bool{}
	for _, o := range offered {
		if seen[o.Name] || len(o.Name) > 64 || strings.Trim(o.Name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Errorf("the name %q", o.Name)
		}
		seen[o.Name] = true
		r, err := bx.Call(t.Context(), call(o.Name, `{"n":1}`))
		if err != nil || r.Failed || r.Name != o.Name {
			t.Errorf("%s: %+v, %v", o.Name, r, err)
		}
	}
	if !seen["a_read"] || !seen["a-b_read"] || !seen["a_b_read"] {
		t.Errorf("names %v", seen)
	}
	var got []string
	for _, c := range append(a.Calls(), b.Calls()...) {
		got = append(got, c.Name)
	}
	want := []string{"read", "b_read", "read.file", "read/file", long, long + "y", "", "read", "äöü"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("called %q, want %q", got, want)
	}
}

func TestServersOfABox(t *testing.T) {
	for _, names := range [][]string{{"a", "a"}, {""}, {"a_b"}, {"A"}, {strings.Repeat("a", 25)}} {
		var all []tools.Server
		for _, n := range names {
			all = append(all, offering(n))
		}
		if _, err := tools.New(all...); err == nil || pawl.Coded(err).Code != pawl.CodeInvalid {
			t.Errorf("%q: %v", names, err)
		}
	}
	bad := &toolstest.Script{ID: "bad", Offer: func() ([]tools.Tool, error) { return nil, errors.New("it is away") }}
	if _, err := box(t, offering("good", tool("read", true)), bad).Tools(t.Context()); err == nil {
		t.Error("a server that cannot be asked is passed over")
	}
}

// TestWhatNobodyCanCheckIsNotOffered: a schema that cannot be read, or that would have this program read a file; a second tool of a name.
func TestWhatNobodyCanCheckIsNotOffered(t *testing.T) {
	file, twin := tool("file", true), tool("read", false)
	file.Schema = json.RawMessage(`{"$ref":"file:///etc/hostname"}`)
	broken := tool("broken", true)
	broken.Schema = json.RawMessage(`{"type":1}`)
	offered, err := box(t, offering("a", tool("read", true), file, broken, twin)).Tools(t.Context())
	if err != nil || len(offered) != 1 || offered[0].Name != "a_read" {
		t.Errorf("%+v, %v", offered, err)
	}
}

// TestWhatTheModelGotWrong is a result that says so, and the server is not called.
func TestWhatTheModelGotWrong(t *testing.T) {
	s := offering("a", tool("read", true))
	bx := box(t, s)
	for _, c := range []struct{ name, arguments, says string }{
		{"read", `{"n":1}`, `no tool "read"`},
		{"b_read", `{"n":1}`, `no tool "b_read"`},
		{"a_", `{"n":1}`, `no tool`},
		{"", `{"n":1}`, `no tool`},
		{"a_read", `{}`, "missing property 'n'"},
		{"a_read", ``, "missing property 'n'"},
		{"a_read", `{"n":"1"}`, ".n"},
		{"a_read", `{"n":1,"m":2}`, "'m' not allowed"},
		{"a_read", `{"n":1,"n":2}`, "twice"},
		{"a_read", `{"n":1,"N":2}`, "case"},
		{"a_read", `{"n":1`, "too early"},
		{"a_read", `{"n":1} {}`, "behind"},
		{"a_read", `[1]`, "not a JSON object"},
		{"a_read", `null`, "not a JSON object"},
		{"a_read", `"{\"n\":1}"`, "not a JSON object"},
		{"a_read", `{"n":NaN}`, "invalid"},
		{"a_read", "{\"n\":1,\"\xff\":1}", "UTF-8"},
		{"a_read", `{"n":1` + strings.Repeat(" ", tools.MaxArguments) + `}`, "at most"},
	} {
		r, err := bx.Call(t.Context(), call(c.name, c.arguments))
		if err != nil || !r.Failed || !strings.Contains(r.Text, c.says) || r.ID != "1" || r.Name != c.name {
			t.Errorf("%s %.40s: %+v, %v, want %q", c.name, c.arguments, r, err, c.says)
		}
	}
	if n := len(s.Calls()); n > 0 {
		t.Errorf("the server was called %d times", n)
	}
	if r, err := bx.Call(t.Context(), call("a_read", " { \"n\" : 1.0 } ")); err != nil || r.Text != `{"n":1.0}` {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestOnly: what is not named is neither offered nor called, also where the server is asked directly.
func TestOnly(t *testing.T) {
	s := offering("a", tool("read", true), tool("other", true))
	narrow := tools.Only(s, "read", "absent")
	bx := box(t, narrow)
	if offered, err := bx.Tools(t.Context()); err != nil || len(offered) != 1 || offered[0].Name != "a_read" {
		t.Errorf("%+v, %v", offered, err)
	}
	if r, err := bx.Call(t.Context(), call("a_other", `{"n":1}`)); err != nil || !r.Failed {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := narrow.Call(t.Context(), call("other", `{"n":1}`)); pawl.Coded(err).Code != pawl.CodeForbidden {
		t.Errorf("error %v", err)
	}
	if n := len(s.Calls()); n > 0 {
		t.Errorf("the server was called %d times", n)
	}
}

// TestNobodyWasAsked: what is not marked as read-only is not called without a person, also outside a run, where there is none.
func TestNobodyWasAsked(t *testing.T) {
	s := offering("a", tool("write", false))
	bx := box(t, s)
	for name, use := range map[string]func() error{
		"box":   func() error { _, err := bx.Call(t.Context(), call("a_write", `{"n":1}`)); return err },
		"guard": func() error { _, err := bx.Guard().Call(t.Context(), call("a_write", `{"n":1}`)); return err },
	} {
		if err := use(); pawl.Coded(err).Code != pawl.CodeForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := bx.Use(t.Context(), "k", call("a_write", `{"n":1}`)); !errors.Is(err, pawl.ErrNotRunning) {
		t.Errorf("use: %v", err)
	}
	if n := len(s.Calls()); n > 0 {
		t.Errorf("the server was called %d times", n)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "abc\n[cut here: 3 of 4 bytes]"},
		{"aé", 2, "a\n[cut here: 1 of 3 bytes]"},
		{"a\xff", 10, "a\uFFFD"},
		{"", 0, ""},
	} {
		if got := tools.Cut(c.text, c.most); got != c.want {
			t.Errorf("%q to %d: %q", c.text, c.most, got)
		}
	}
}
