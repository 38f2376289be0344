package machine_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pawl"
	"pawl/internal/machine"
)

const docFile = "../../docs/state-machine.md"

// TestDoc: docs/state-machine.md says what machine.Rules says.
func TestDoc(t *testing.T) {
	got := doc(t)
	if *update {
		if err := os.WriteFile(docFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is stale (go test ./internal/machine -update writes it anew):\n%s", docFile, differs(string(want), got))
	}
}

func doc(t *testing.T) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line(`# The life of a run

<!-- Written by go test ./internal/machine -update from machine.Rules. Do not edit. -->

A run is one execution of a graph. At any time it has a **status** and stands at a **node**. Something happens to it: a
visit to a node ends, a try fails, a person cancels. The table below says what each happening makes of the status.
**It is complete: what is not listed is refused**, and nothing is written.

Each happening is one transaction. State, step log, events, bounds, timers, questions and children move together or not at
all. [The stories](../internal/machine/testdata) tell each theme as a script and its trace; they are tests.

## What can happen

| happening | from | to | what it means |
|---|---|---|---|`)
	for _, r := range machine.Rules {
		line("| `%s` | %s | %s | %s |", r.What, from(r), r.To, r.Text)
	}
	line(`
A claim is not in the table: a worker that takes a run into its hands changes no status. A run that a live worker holds is
shown as running whatever its record says, and one in status running that nobody holds is shown as **interrupted**: the
next worker goes on with it.

Letters are not in the table either. Whoever does not hold a run (a person who answers or cancels, a child that has ended)
leaves a letter; the holder reads it and decides. Of several cancels the first counts, and after it only the end is
legal. A run cannot end before its holder has read every letter.

## The statuses`)
	line("\n```mermaid\nstateDiagram-v2")
	mermaid(line)
	line("```\n\nAs text:\n")
	for _, s := range statuses() {
		to := []string{}
		for _, next := range statuses() {
			if by := between(s, next); by != "" {
				to = append(to, fmt.Sprintf("%s (%s)", next, by))
			}
		}
		if len(to) == 0 {
			to = []string{"nothing else"}
		}
		line("- **%s** becomes %s.", s, strings.Join(to, ", "))
	}
	line("\n## Caps\n\nEvery run has these, whatever its graph says.\n\n| cap | value | past it |\n|---|---|---|")
	line("| visits of one attempt | %d | the run fails with `%s` |", pawl.MaxSteps, pawl.CodeStepCap)
	line("| executions of a visit that end in a crash | %d | the run fails with `%s` |", pawl.MaxClaims, pawl.CodeCrashLoop)
	line("| calls of one visit | %d | the call fails with `%s` |", pawl.MaxCalls, pawl.CodeExhausted)
	line("| items of an Each | %d | the node fails with `%s` |", pawl.MaxItems, pawl.CodeExhausted)
	line("| children of children | %d deep | the call fails with `%s` |", pawl.MaxDepth, pawl.CodeExhausted)
	line("| background runs of background runs | %d generations | the call fails with `%s` |", pawl.MaxGenerations, pawl.CodeExhausted)
	line("| a wait that the worker sits out | %s | the run is parked |", machine.Patience)
	line("\n## The engine's own events\n\nThey are written in the transaction of what they tell. The last event of an attempt is `%s`, or `%s`, and then the events of the other run follow.\n", machine.EventEnded, machine.EventMerged)
	for _, e := range events(t) {
		line("- `%s`: %s", e, eventTexts[e])
	}
	return b.String()
}

// eventTexts say what each event tells; a new event without a text fails the test.
var eventTexts = map[string]string{
	machine.EventStarted:   "the run exists, with its first state.",
	machine.EventStep:      "a visit ended and an edge was taken.",
	machine.EventRetry:     "a try failed; when the next one comes.",
	machine.EventWaiting:   "the run is parked; what it waits for that it did not wait for before.",
	machine.EventHeld:      "no worker here can go on with the run's version, and why.",
	machine.EventMigrated:  "the run goes on in another version of its graph.",
	machine.EventStopped:   "its worker stopped; the next one goes on.",
	machine.EventEnded:     "the run has ended: status, terminal, outcome, error.",
	machine.EventMerged:    "another run owns the key, and this one ends in it.",
	machine.EventRestarted: "the next attempt of the run begins.",
	machine.EventAnswered:  "a person's answer was accepted. It comes with the answer, not with a happening of the table.",
	machine.EventCancel:    "somebody asked for the run to end. It comes with the letter.",
}

// events are the Event constants of move.go, in their order.
func events(t *testing.T) (names []string) {
	f, err := parser.ParseFile(token.NewFileSet(), "move.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "Event") {
			return true
		}
		name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil || eventTexts[name] == "" {
			t.Errorf("event %s has no text", v.Names[0].Name)
		}
		names = append(names, name)
		return true
	})
	return names
}

func from(r machine.Rule) string {
	if len(r.From) == 0 {
		return "(no run yet)"
	}
	var names []string
	for _, s := range r.From {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// statuses are those that Rules speaks of, in its order.
func statuses() (all []pawl.Status) {
	for _, r := range machine.Rules {
		for _, s := range append(slices.Clone(r.From), r.To) {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// between are the happenings that make one status of another.
func between(from, to pawl.Status) string {
	var by []string
	for _, r := range machine.Rules {
		if r.To == to && (slices.Contains(r.From, from) || from == "" && r.From == nil) {
			by = append(by, string(r.What))
		}
	}
	return strings.Join(by, ", ")
}

// mermaid draws the statuses. The live ones stand in a box: what ends them ends each of them, and is drawn once.
func mermaid(line func(string, ...any)) {
	var live []pawl.Status
	for _, r := range machine.Rules {
		if len(r.From) > len(live) {
			live = r.From
		}
	}
	line("  state live {")
	for _, f := range live {
		for _, to := range live {
			if by := between(f, to); by != "" {
				line("    %s --> %s: %s", f, to, by)
			}
		}
	}
	line("  }")
	line("  [*] --> queued: %s", between("", pawl.StatusQueued))
	for _, s := range statuses() {
		if slices.Contains(live, s) {
			continue
		}
		line("  live --> %s: %s", s, between(live[0], s))
		if by := between(s, pawl.StatusQueued); by != "" {
			line("  %s --> queued: %s", s, by)
		} else {
			line("  %s --> [*]", s)
		}
	}
}
