package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"pawl"
)

// stateful is a graph over any state.
func stateful[S any]() *pawl.Graph[int, S, int] {
	g := pawl.New[int, S, int]("g", pawl.Options{Version: "1"})
	n := g.Node("work", func(_ context.Context, s S) (S, error) { return s, nil })
	g.Start(n, func(int) (s S, err error) { return s, nil })
	g.From(n).Otherwise(g.Succeed("DONE"))
	g.Finish(func(S, pawl.Ending) (int, error) { return 0, nil })
	return g
}

type (
	base    struct{ ID int }
	tree    struct{ Leaves []tree }
	halfway struct{ N int }
)

func (halfway) MarshalText() ([]byte, error) { return []byte("x"), nil }

func TestBuildRefusesStatesThatDoNotSurvive(t *testing.T) {
	type inner struct{ Do func() }
	refused(t, stateful[struct{ F func() }](), `graph "g"`, "state type", ".F", "a func")
	refused(t, stateful[struct{ C chan int }](), ".C", "a chan")
	refused(t, stateful[struct{ A any }](), ".A", "an interface")
	refused(t, stateful[struct{ E error }](), ".E", "an interface")
	refused(t, stateful[struct{ n int }](), ".n", "unexported")
	refused(t, stateful[struct {
		N int `json:"-"`
	}](), ".N", "is not stored")
	refused(t, stateful[struct{ Z complex128 }](), ".Z", "complex128")
	refused(t, stateful[struct{ M map[float64]int }](), ".M", "map key of type float64")
	refused(t, stateful[struct{ In []map[string]*inner }](), ".In[].Do", "a func")
	refused(t, stateful[struct {
		base
		ID string
	}](), ".ID", `the name "ID" too`)
	refused(t, stateful[struct {
		A int `json:"x"`
		B int `json:"X"`
	}](), ".B", "only by case")
	refused(t, stateful[struct{ H halfway }](), ".H", "written by its own text and read by its fields")
	refused(t, stateful[struct{ B big.Int }](), ".B", "need a pointer")
	refused(t, stateful[struct {
		time.Time
		N int
	}](), ".Time", "would lose the other fields")
	refused(t, stateful[func()](), "state type func()")
}

func TestBuildTakesStatesThatSurvive(t *testing.T) {
	mustBuild(t, stateful[struct{}]())
	mustBuild(t, stateful[string]())
	mustBuild(t, stateful[tree]())
	mustBuild(t, stateful[struct {
		base
		At    time.Time
		For   time.Duration
		Raw   json.RawMessage
		Maybe *json.RawMessage
		Bytes []byte
		ByNum map[int]string
		Big   *big.Int
		Inner struct{ A, B *string }
		Tree  tree
		Two   [2]float32
	}]())
}

func TestSchemaDescribesWhatIsWritten(t *testing.T) {
	type in struct {
		At    time.Time        `json:"at"`
		Raw   json.RawMessage  `json:"raw"`
		Maybe *json.RawMessage `json:"maybe"`
		Bytes []byte           `json:"bytes"`
		ByNum map[int]string   `json:"byNum"`
		Big   *big.Int         `json:"big"`
		Tree  *tree            `json:"tree"`
	}
	raw := mustBuild(t, stateful[in]()).State()
	// "type" is one word or several, so each property is looked at by itself.
	var loose struct{ Properties map[string]map[string]any }
	if err := json.Unmarshal(raw, &loose); err != nil {
		t.Fatal(err)
	}
	anything := "[null boolean number string array object]"
	for name, want := range map[string]string{
		"at": "string", "raw": anything, "maybe": anything, "bytes": "[null string]", "byNum": "object", "big": anything, "tree": "[null object]",
	} {
		if got := fmt.Sprint(loose.Properties[name]["type"]); got != want {
			t.Errorf("%s: type %s, want %s", name, got, want)
		}
	}
}

func TestBuildRefusesChildren(t *testing.T) {
	into := func(s box) (int, error) { return s.N, nil }
	back := func(s, _ box) (box, error) { return s, nil }

	t.Run("itself", func(t *testing.T) {
		g := blank("g", pawl.Options{})
		n := pawl.Sub(g, "again", g, into, back)
		g.Start(n, start)
		g.From(n).Otherwise(g.Succeed("DONE"))
		refused(t, g, `graph "g"`, `node "again"`, "contains itself")
	})
	t.Run("itself through another", func(t *testing.T) {
		a, b := mutual()
		refused(t, a, `graph "a"`, `node "sub"`, `graph "b"`, `graph "a": it contains itself`)
		refused(t, b, `graph "b"`, `graph "b": it contains itself`)
	})
	t.Run("a faulty child", func(t *testing.T) {
		child, _, _ := short("child", pawl.Options{})
		g := blank("g", pawl.Options{})
		n := pawl.Sub(g, "sub", child, into, back)
		g.Start(n, start)
		g.From(n).Otherwise(g.Succeed("DONE"))
		refused(t, g, `graph "g"`, `node "sub"`, `graph "child"`, `node "work": no final Otherwise`)
	})
	t.Run("no child, no functions", func(t *testing.T) {
		g := blank("g", pawl.Options{})
		n := pawl.Sub[int, box, box, int, box, box](g, "sub", nil, nil, nil)
		m := pawl.Each(g, "each", (*graph)(nil), pawl.Fan[box, int, box]{Limit: -1})
		g.Start(n, start)
		g.From(n).Otherwise(m)
		g.From(m).Otherwise(g.Succeed("DONE"))
		refused(t, g, `node "sub": Sub needs both functions`, `node "sub": no child graph`, `node "each": Each needs`, `node "each": no child graph`)
	})
	t.Run("two of one name", func(t *testing.T) {
		one, work, done := short("child", pawl.Options{})
		one.From(work).Otherwise(done)
		two := line(3)
		two2 := blank("child", pawl.Options{})
		n := two2.Node("other", keep)
		two2.Start(n, start)
		two2.From(n).Otherwise(two2.Succeed("DONE"))
		g := blank("g", pawl.Options{})
		a, b := pawl.Sub(g, "a", one, into, back), pawl.Sub(g, "b", two2, into, back)
		c := pawl.Sub(g, "c", two, into, func(s box, _ int) (box, error) { return s, nil })
		g.Start(a, start)
		g.From(a).Otherwise(b)
		g.From(b).Otherwise(c)
		g.From(c).Otherwise(g.Succeed("DONE"))
		refused(t, g, `graph "g"`, `node "b"`, "two different graphs are called child@1")
	})
	t.Run("one with its parent's name", func(t *testing.T) {
		child, work, done := short("g", pawl.Options{})
		child.From(work).Otherwise(done)
		g := blank("g", pawl.Options{})
		n := pawl.Sub(g, "sub", child, into, back)
		g.Start(n, start)
		g.From(n).Otherwise(g.Succeed("DONE"))
		refused(t, g, `node "sub"`, "two different graphs are called g@1")
	})
}

// mutual is two graphs that contain each other.
func mutual() (a, b *graph) {
	a, b = blank("a", pawl.Options{}), blank("b", pawl.Options{})
	for g, child := range map[*graph]*graph{a: b, b: a} {
		n := pawl.Sub(g, "sub", child, func(s box) (int, error) { return s.N, nil }, func(s, _ box) (box, error) { return s, nil })
		g.Start(n, start)
		g.From(n).Otherwise(g.Succeed("DONE"))
	}
	return a, b
}

func TestBuildIsTheSameForAll(t *testing.T) {
	g := line(50)
	a, b := mutual()
	var wg sync.WaitGroup
	got := make([]*pawl.Workflow, 16)
	for i := range got {
		wg.Go(func() {
			w, err := g.Build()
			if err != nil {
				t.Error(err)
			}
			got[i] = w
			// Graphs that contain each other, built from both ends at once, are refused and not waited for.
			if _, err := []*graph{a, b}[i%2].Build(); err == nil {
				t.Error("built a graph that contains itself")
			}
		})
	}
	wg.Wait()
	for _, w := range got {
		if w != got[0] {
			t.Fatal("two Workflows of one graph")
		}
	}
}

// TestBuildAgainAfterMending: a fault is not remembered beyond its cause.
func TestBuildAgainAfterMending(t *testing.T) {
	g, work, done := short("g", pawl.Options{})
	refused(t, g, "no final Otherwise")
	g.From(work).Otherwise(done)
	mustBuild(t, g)
}
