package machine_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
)

// TestFamily: the end of a child is a journal entry and a letter, written together and read apart. Whatever an execution
// counts from the journal and the record from letters, in whatever order, no child is counted twice, and when the last
// letter was read the count is whole. A limit of children at once and the cancel of those under way rest on it.
func TestFamily(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 6
		m := machine.Machine{Shape: two()}
		mv, err := m.Start(noon)
		if err != nil {
			t.Fatal(err)
		}
		rec, ended, heard := mv.Next, 0, 0
		park := func(f machine.Family) {
			if known, ok := rec.Family("k"); ok {
				f = f.Catch(known)
			}
			mv, err := m.Park(rec, machine.Tick{Now: noon}, []machine.Wait{{Kind: pawl.WaitsForChild, Key: "k"}}, nil, []machine.Family{f})
			if err != nil {
				t.Fatal(err)
			}
			rec = mv.Next
		}
		hear := func() {
			if heard < ended {
				heard++
				rec = machine.Receive(rec, []machine.Letter{{Child: &machine.Child{Family: "k", Visit: 1}}}, int64(heard))
			}
		}
		park(machine.Family{Key: "k", N: n, Started: n})
		for range rapid.IntRange(1, 30).Draw(t, "happenings") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				ended = min(ended+1, n)
			case 1:
				hear()
			default: // an execution reads the journal, letters may come meanwhile, and it parks
				known, _ := rec.Family("k")
				f := machine.Family{Key: "k", N: n, Started: n, Done: ended, Heard: known.Heard, Early: max(ended-known.Heard, 0)}
				for range rapid.IntRange(0, 2).Draw(t, "meanwhile") {
					ended = min(ended+1, n)
					hear()
				}
				park(f)
			}
			if f, _ := rec.Family("k"); f.Done > ended || f.Done < heard {
				t.Fatalf("%d counted of %d that ended, %d letters were read", f.Done, ended, heard)
			}
		}
		for heard < ended {
			hear()
		}
		if f, _ := rec.Family("k"); f.Done != ended {
			t.Fatalf("%d counted of %d that ended", f.Done, ended)
		}
	})
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// two is a graph of a node and its end.
func two() *host.Shape {
	return &host.Shape{Name: "two", Version: "1", Nodes: []host.Node{
		{Name: "work", Edges: []host.Edge{{Name: "otherwise", Kind: host.Otherwise, To: 1}}},
		{Name: "OK", Outcome: "OK", Kind: host.Succeed},
	}}
}
