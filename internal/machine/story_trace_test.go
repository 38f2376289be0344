package machine_test

import (
	"fmt"
	"strings"
	"time"

	"pawl/internal/machine"
)

func (s *story) say(format string, a ...any) { s.out = append(s.out, fmt.Sprintf(format, a...)) }

// record says how a run stands. What is zero is not said.
func (s *story) record() {
	r := s.rec
	line := fmt.Sprintf("%s at %s: visit %d, try %d, attempt %d, %d steps", r.Status, r.Node, r.Visit, r.Try, r.Attempt, r.Steps)
	if r.Runtime > 0 {
		line += ", runtime " + (time.Duration(r.Runtime) * time.Millisecond).String()
	}
	if r.Idle {
		line += ", runtime stands still"
	}
	if r.Grace {
		line += ", grace"
	}
	s.say("%s", line)
	s.counts("of this attempt", r.Taken)
	s.counts("of this turn", r.Turn)
	for _, w := range r.Waits {
		s.say("waits for %s", wait(w))
	}
	for _, f := range r.Families {
		s.say("children %s: %s", f.Key, family(f))
	}
}

func (s *story) counts(of string, counts machine.Counts) {
	var parts []string
	for _, c := range counts {
		parts = append(parts, fmt.Sprintf("%s by %s %d", c.Node, c.Edge, c.N))
	}
	if len(parts) > 0 {
		s.say("taken %s: %s", of, strings.Join(parts, ", "))
	}
}

func wait(w machine.Wait) string {
	line := w.Kind
	if w.Key != "" {
		line += " " + w.Key
	}
	if w.Question != "" {
		line += " (question " + w.Question + ")"
	}
	if !w.Due.IsZero() {
		line += " until " + w.Due.Format("15:04:05.999")
	}
	if w.Reason != "" {
		line += ": " + w.Reason
	}
	return line
}

func family(f machine.Family) string {
	line := fmt.Sprintf("%d of %d started, %d ended", f.Started, f.N, f.Done)
	if f.Done < 0 {
		line = fmt.Sprintf("%d of %d started, to be counted again", f.Started, f.N)
	}
	if f.Failed {
		line += ", one failed"
	}
	return line
}

// trace says what a move writes and gives back.
func (s *story) trace(mv machine.Move) {
	for i, e := range mv.Log {
		line := "log " + e.Name + ": " + e.Before + " → " + e.After
		if e.Edge != "" {
			line += " by " + e.Edge
		}
		if len(e.Payload) > 0 {
			line += " " + string(e.Payload)
		}
		if mv.State && i == 0 {
			line += " with the state"
		}
		if e.Told {
			line += ", told"
		}
		s.say("%s", line)
	}
	for _, e := range mv.Events {
		s.say("event %s %s", e.Type, e.Encode())
	}
	switch {
	case mv.End:
		s.say("the run has ended")
	case mv.Release && mv.After < 0:
		s.say("gives the lease back, due only after a letter")
	case mv.Release && mv.After == 0:
		s.say("gives the lease back, due at once")
	case mv.Release:
		s.say("gives the lease back, due in %s", mv.After)
	case mv.After > 0:
		s.say("keeps the lease and waits %s", mv.After)
	}
}

// letters says what a letter changed in the record.
func (s *story) letters() {
	r := s.rec
	if r.Cancel != nil {
		s.say("cancelled by %s: %s", r.Cancel.By, r.Cancel.Reason)
	}
	for _, w := range r.Waits {
		s.say("waits for %s", wait(w))
	}
	for _, f := range r.Families {
		s.say("children %s: %s", f.Key, family(f))
	}
	for _, w := range r.Waiters {
		s.say("run %s is told of the end", w.Run)
	}
}

// open says which edges the driver is to try.
func (s *story) open() {
	choices, err := s.m.Open(nil, s.rec, s.answer)
	if err != nil {
		s.say("refused: %v", err)
		return
	}
	for _, c := range choices {
		line := s.node().Edges[c.Edge].Name + " (" + c.Kind.String() + ")"
		if c.Spent {
			line += ", spent: only to be noted"
		}
		s.say("%s", line)
	}
}
