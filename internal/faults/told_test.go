package faults

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pawl/store"
)

var update = flag.Bool("update", false, "write testdata/told.txt anew")

// TestToldAlike: the same story on every store gives the same trace: a run with a node of every kind, and its children, with all
// that they leave.
func TestToldAlike(t *testing.T) {
	const file = "testdata/told.txt"
	if *update {
		if err := os.WriteFile(file, []byte(story(t, backends()[0])), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(text), "\n")
	onEach(t, func(t *testing.T, b backend) {
		got := strings.Split(story(t, b), "\n")
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("line %d goes otherwise (go test -update writes it anew):\n%s\nwant\n%s", i+1, got[i], want[i])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d lines, want %d", len(got), len(want))
		}
	})
}

// story plays it on a store.
func story(t *testing.T, b backend) (text string) {
	t.Helper()
	bubble(t, func() {
		s, _, err := b.open(t)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		tr := &Trial{Store: s, Seen: NewWitness(), Workers: Calm{}, Client: Calm{}}
		tr.World = NewWorld(tr.Seen)
		tr.After = func(tr *Trial) (err error) { text, err = tr.tell(); return err }
		if tr.Flows, err = mainPlan().Workflows(tr.World); err == nil {
			err = tr.Play()
		}
		if err != nil || len(tr.Seen.Broken()) > 0 {
			t.Error(err, tr.Seen.Broken())
		}
	})
	return text
}

// chance is what differs from play to play: ids, and times, which a retry's delay is drawn for.
var chance = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|"(due|ms|after_?[mM]s)":("[^"]*"|\d+)`)

// tell tells all runs.
func (t *Trial) tell() (string, error) {
	l, err := leftOf(t)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, r := range l.runs {
		part, err := l.tell(r)
		if err != nil {
			return "", err
		}
		parts = append(parts, chance.ReplaceAllString(part, "*"))
	}
	slices.Sort(parts) // their ids are in another order in each play
	return strings.Join(parts, "\n"), nil
}

// tell tells one run: its end, each step with the calls of its visit, and its events.
func (l *left) tell(r store.Run) (string, error) {
	b := &strings.Builder{}
	fmt.Fprintln(b, l.endOf(r, &Result{}))
	steps, err := l.rs.Steps(l.ctx, r.ID, 0, 1000)
	if err != nil {
		return "", err
	}
	for _, s := range steps {
		fmt.Fprintf(b, "\tstep %d %s: %s -%s-> %s, visit %d, try %d, %s %s\n", s.Seq, s.Name, s.StateBefore, s.Edge, s.StateAfter, s.Visit, s.Try, s.Payload, s.Hash)
		if s.Edge == "" {
			continue
		}
		made, err := l.rs.Calls(l.ctx, r.ID, s.Seq)
		if err != nil {
			return "", err
		}
		var calls []string
		for _, m := range made {
			calls = append(calls, fmt.Sprintf("\t\t%s %q: %s %s %v\n", m.Kind, m.Key, m.For, m.Result, m.Err))
		}
		slices.Sort(calls) // children end in any order
		fmt.Fprint(b, strings.Join(calls, ""))
	}
	for e, err := range l.rs.Events(l.ctx, r.ID, 0) {
		if err != nil {
			return "", err
		}
		fmt.Fprintf(b, "\tevent %d %s %s\n", e.Seq, e.Type, e.Data)
	}
	return b.String(), nil
}
