package machine_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
)

var update = flag.Bool("update", false, "write stories and docs/state-machine.md anew")

// TestStories runs testdata/*.txt. Each tells one theme: a graph, what happens to a run of it, and below each happening,
// in lines that begin with a bar, what the machine makes of it. A changed line is a changed behavior: the diff is the
// review. What a script may say is in story_script_test.go.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s goes otherwise now (go test -update writes it anew):\n%s", file, differs(string(want), got))
			}
		})
	}
}

// differs shows the first lines in which two texts differ.
func differs(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			from := max(i-5, 0)
			return "line " + strings.Join(w[from:i], "\n") + "\nwant " + w[i] + "\ngot  " + g[i]
		}
	}
	return "one is longer than the other:\n" + got
}

// story is a run as a story goes.
type story struct {
	t      *testing.T
	graphs []*host.Shape
	m      machine.Machine
	rec    *machine.Record
	now    time.Time
	took   time.Duration
	epoch  int64
	answer bool
	notes  []machine.Entry
	out    []string // what is to be said below the line
}

func tell(t *testing.T, script string) string {
	s := &story{t: t, rec: &machine.Record{}, now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	var b strings.Builder
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "|") {
			continue
		}
		b.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s.out = nil
		s.do(strings.Fields(line))
		for _, o := range s.out {
			b.WriteString("| " + o + "\n")
		}
	}
	return b.String()
}

func (s *story) tick() machine.Tick {
	return machine.Tick{Now: s.now, Epoch: s.epoch, Took: s.took, Answered: s.answer, Notes: s.notes}
}

// made takes a move into the story, or says why it was refused.
func (s *story) made(mv machine.Move, err error) {
	if err != nil {
		s.say("refused: %s", strings.TrimPrefix(err.Error(), pawl.ErrTransition.Error()+": "))
		return
	}
	before := s.rec
	s.rec, s.took, s.notes = mv.Next, 0, nil
	if mv.Next.Visit != before.Visit {
		s.answer = false
	}
	s.record()
	s.trace(mv)
}

// choose does what the driver does: of the edges whose conditions hold, the first one that is not spent.
func choose(choices []machine.Choice, name func(int) string, always host.EdgeKind, holds []string) (edge int, spent []int) {
	for _, c := range choices {
		if c.Kind != always && c.Kind != host.OnAnswer && !slices.Contains(holds, name(c.Edge)) {
			continue
		}
		if !c.Spent {
			return c.Edge, spent
		}
		spent = append(spent, c.Edge)
	}
	return -1, spent
}

// visit ends well, with the conditions that hold.
func (s *story) visit(holds []string) (machine.Move, error) {
	n, _, err := s.m.Node(s.rec)
	if err != nil {
		return machine.Move{}, err
	}
	choices, err := s.m.Open(nil, s.rec, s.answer)
	if err != nil {
		return machine.Move{}, err
	}
	edge, spent := choose(choices, func(i int) string { return n.Edges[i].Name }, host.Otherwise, holds)
	return s.m.Advance(s.rec, s.tick(), edge, spent, s.failure(n.Edges, edge))
}

// fail ends the last try of a visit, with the error edges that claim the error.
func (s *story) fail(cause *pawl.Error, claims []string) (machine.Move, error) {
	n, _, err := s.m.Node(s.rec)
	if err != nil {
		return machine.Move{}, err
	}
	choices, err := s.m.Errors(s.rec, s.answer)
	if err != nil {
		return machine.Move{}, err
	}
	edge, spent := choose(choices, func(i int) string { return n.Errors[i].Name }, host.Otherwise, claims)
	if edge < 0 {
		return machine.Fail(s.rec, s.tick(), cause)
	}
	return s.m.Claim(s.rec, s.tick(), edge, spent, cause, s.failure(n.Errors, edge))
}

// failure is the error of the Fail terminal that an edge leads to.
func (s *story) failure(es []host.Edge, edge int) *pawl.Error {
	if edge < 0 {
		return nil
	}
	if to := s.m.Shape.Nodes[es[edge].To]; to.Kind == host.Fail {
		return &pawl.Error{Code: to.Name, Text: "the run ended in " + to.Name}
	}
	return nil
}
