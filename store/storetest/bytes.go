package storetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"pawl/store"
)

// odd are texts that stores have stumbled over (case 21).
var odd = []string{
	"", "\x00", "a\x00b", "what's the \x00 weather", `\u0000`, "\xff\xfe", "a\xc3", "\xed\xa0\x80", "ä\u0301\u200b\u202e", "'; DROP TABLE run; --", "%_*?[]", "1", "1.0", "0x1",
}

var bytesCases = []kase{
	// Bytes are bytes: rows, heads and data come back as they went in, whatever they look like.
	{name: "data", run: func(l *law) {
		for i, text := range odd {
			n := run(fmt.Sprint("r", i))
			n.Head, n.Row, n.Add = []byte(text), []byte(text), step(text)
			l.create(n)
			r := l.claim(n.ID)
			l.append(r, store.Batch{Rows: step(text)})
			q := fmt.Sprintf("q%02d", i)
			l.apply(store.Change{Run: n.ID, Epoch: r.Epoch, Row: []byte(text), Add: step(text), Ask: []store.Ask{{ID: q, Row: []byte(text)}}})
			g := l.get(n.ID)
			l.same("run", []string{string(g.Head), string(g.Row)}, []string{text, text})
			l.same("rows", texts(l.read(n.ID, store.Query{Stream: store.Step})), []string{text, text, text})
			l.same("question", string(l.questions(store.Filter{Question: q})[0].Row), text)
			l.apply(store.Change{Run: n.ID, Answer: []store.Answer{{ID: q, Row: []byte(text)}}})
			l.same("answer", string(l.questions(store.Filter{Question: q})[0].Row), text)
		}
	}},
	// Names too, or they are refused with an error: never cut, changed or mixed up.
	{name: "names", run: func(l *law) {
		made := 0
		for i, text := range odd {
			n := run(fmt.Sprint("id", text, i))
			n.Tenant, n.User, n.Workflow, n.Version, n.Key, n.Status, n.Node = text, text, text, text, text, text, text
			n.Add = []store.Row{{Stream: store.Call, Key: text, Data: []byte("x")}, {Stream: store.Call, Key: "other"}}
			if err := l.s.Create(l.ctx, n); err != nil {
				l.Logf("refused: %q: %v", text, err)
				l.gone(n.ID)
				continue
			}
			made++
			g, err := l.s.Get(l.ctx, store.Scope{Tenant: text, User: text}, n.ID)
			l.ok(err)
			l.same("names", []string{g.ID, g.Root, g.Tenant, g.User, g.Workflow, g.Version, g.Key, g.Status, g.Node},
				[]string{n.ID, n.ID, text, text, text, text, text, text, text})
			want := 1
			if text == "" {
				want = 2 // an empty key does not narrow
			}
			l.same("by key", len(l.read(n.ID, store.Query{Stream: store.Call, Key: text})), want)
			rs, err := l.s.List(l.ctx, store.Scope{Tenant: text, AllUsers: true}, store.Filter{Workflow: text, Key: text}, store.Page{})
			l.ok(err)
			l.same("list", ids(rs), []string{n.ID})
			l.same("claim", l.claims(store.Claim{Kinds: []string{store.Kind(text, text)}, Max: 9}), []string{n.ID})
		}
		l.same("most are stored", made > len(odd)/2, true)
	}},
	// Large values come back whole: 1 MB in each place.
	{name: "large", run: func(l *law) {
		big := make([]byte, 1<<20)
		for i := range big {
			big[i] = byte(i * i >> 8)
		}
		n := run("r")
		n.Head, n.Row = big, big
		l.create(n)
		r := l.claim("r")
		l.append(r, store.Batch{Rows: []store.Row{{Stream: store.Blob, Key: "big", Data: big}}})
		g := l.get("r")
		for _, b := range [][]byte{r.Head, r.Row, g.Head, g.Row, l.read("r", store.Query{Stream: store.Blob})[0].Data} {
			if sha256.Sum256(b) != sha256.Sum256(big) {
				l.Fatalf("%d bytes came back, not the same", len(b))
			}
		}
	}},
	// An empty row is written; only nil is not.
	{name: "empty row", run: func(l *law) {
		l.create(run("r"))
		l.apply(store.Change{Run: "r", Epoch: l.claim("r").Epoch, Status: "s", Row: []byte{}})
		l.same("run", []any{l.get("r").Status, len(l.get("r").Row)}, []any{"s", 0})
	}},
	// Nothing handed in is kept or changed, nothing handed out is shared: callers reuse their buffers.
	{name: "not shared", run: func(l *law) {
		buf := []byte("abc")
		n := run("r")
		n.Head, n.Row, n.Add = buf, buf, []store.Row{{Stream: store.Step, Data: buf}}
		n.Caps = []store.Counter{{Meter: "z", Cap: 1}, {Meter: "a", Cap: 1}}
		l.create(n)
		l.same("order handed in", n.Caps[0].Meter, "z")
		r := l.claim("r")
		l.apply(store.Change{Run: "r", Epoch: r.Epoch, Row: buf, Ask: []store.Ask{{ID: "q", Row: buf}}})
		copy(buf, "xyz")
		n.Caps[0].Cap = 99
		for range 2 {
			g, rows, qs := l.get("r"), l.read("r", store.Query{Stream: store.Step}), l.questions(store.Filter{})
			for _, b := range [][]byte{g.Head, g.Row, rows[0].Data, qs[0].Row} {
				if !bytes.Equal(b, []byte("abc")) {
					l.Fatalf("shared: %q", b)
				}
				copy(b, "xyz")
			}
			l.same("caps", g.Counters[1].Cap, int64(1))
			g.Counters[1].Cap = 99
		}
	}},
}
