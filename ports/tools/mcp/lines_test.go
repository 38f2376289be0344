package mcp

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// reading is what comes of a program's output with lines of at most so many bytes: ids of answers, methods of the rest, and "large".
func reading(out string, most int) (got []string, noise int) {
	l := newLines(strings.NewReader(out), func(string) { noise++ })
	l.most = most
	for {
		m, err := l.next()
		if err != nil {
			return got, noise
		}
		switch m := m.(type) {
		case *jsonrpc.Request:
			got = append(got, m.Method)
		case *jsonrpc.Response:
			id, _ := json.Marshal(m.ID.Raw())
			text := string(id)
			if errors.Is(m.Error, errTooLarge) {
				text += " large"
			}
			got = append(got, text)
		}
	}
}

func TestLines(t *testing.T) {
	x := strings.Repeat("x", 200)
	for _, c := range []struct {
		name, out, want string
		noise           int
	}{
		{"messages", `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n\r\n" + `{"jsonrpc":"2.0","method":"m"}` + "\r\n", "1|m", 0},
		{"without a last line end", `{"jsonrpc":"2.0","id":"a","result":{}}`, `"a"`, 0},
		{"noise", "hello\n[]\n{}\n7\n" + `{"jsonrpc":"2.0","id":1,"result":{}` + "\n" + `{"jsonrpc":"2.0","id":1,"result":{}}`, "1", 5},
		{"several in an array", `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]`, "1|2", 0},
		{"large, id first", `{"jsonrpc":"2.0","id":7,"result":{"text":"` + x + `"}}` + "\n" + `{"jsonrpc":"2.0","id":8,"result":{}}`, "7 large|8", 0},
		{"large, id last", `{"result":{"id":1,"text":"` + x + `"},"jsonrpc":"2.0","id":7}` + "\n", "7 large", 0},
		{"large, id as text", `{"id":"a b","result":"` + x + `"}` + "\n", `"a b" large`, 0},
		{"large, ids inside", `{"result":[{"id":1},"\",\"id\":2,{",{"a":{"id":3}},"` + x + `"],"id" : 4 }` + "\n", "4 large", 0},
		{"large, no id", `{"method":"` + x + `"}` + "\n", "", 1},
		{"large noise", x + x + "\n" + `{"jsonrpc":"2.0","id":1,"result":{}}`, "1", 1},
	} {
		got, noise := reading(c.out, 100)
		if strings.Join(got, "|") != c.want || noise != c.noise {
			t.Errorf("%s: %q and %d lines of noise, want %q and %d", c.name, got, noise, c.want, c.noise)
		}
	}
}

// FuzzLines: no output of a program stops the reading before its end, and a message behind it is read.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	f.Add([]byte("[[[[\n{\"id\":\"\\\"\n\x00"))
	f.Add([]byte(`{"id":` + strings.Repeat("1", 200) + "\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		r := io.MultiReader(strings.NewReader(string(out)), strings.NewReader("\n"+`{"jsonrpc":"2.0","id":"last","result":{}}`))
		l := newLines(r, func(string) {})
		l.most = 64
		last := ""
		for {
			m, err := l.next()
			if err != nil {
				break
			}
			if r, ok := m.(*jsonrpc.Response); ok {
				last, _ = r.ID.Raw().(string)
			}
		}
		if last != "last" {
			t.Errorf("after %q the next message is lost", out)
		}
	})
}
