package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"pawl"
	"pawl/internal/machine"
	"pawl/ports/llm"
)

// progress shows a run that is under way: JSON lines for programs; for people a line for each step, and on a terminal a
// status below them that is drawn anew.
type progress struct {
	tell  func(typ string, data json.RawMessage) string // what an event says to people; nil: its data
	c     *call
	id    string
	began time.Time
	node  string
	since time.Time // when it came to the node
	held  string    // another worker has it
	ms    []pawl.Meter
	turn  int
	last  string // type of the last event
	wrote bool   // pieces of a text were shown that are not void
}

func newProgress(c *call, id string) *progress {
	return &progress{c: c, id: id, began: time.Now(), since: time.Now()}
}

// note learns from an event without showing it.
func (p *progress) note(l pawl.Logged) {
	p.last = l.Type
	switch l.Type {
	case machine.EventStarted, machine.EventRestarted, machine.EventMigrated:
		p.at(field[machine.Begun](l).Node)
	case machine.EventStep:
		p.at(field[machine.Stepped](l).To)
	case machine.EventWaiting:
		if slices.ContainsFunc(field[machine.Parked](l).Waits, func(w pawl.Waiting) bool { return w.Kind == pawl.WaitsForAnswer }) {
			p.node = "" // nothing to show the time of
		}
	case machine.EventHeld, machine.EventStopped, machine.EventEnded, machine.EventMerged:
		p.node = ""
	}
}

func (p *progress) at(node string) { p.node, p.since = node, time.Now() }

// field decodes an event's data; what cannot be read shows as empty.
func field[T any](l pawl.Logged) (v T) {
	_ = json.Unmarshal(l.Data, &v)
	return v
}

// event shows one event.
func (p *progress) event(l pawl.Logged) {
	p.note(l)
	if p.c.json {
		p.c.out.record(l)
		return
	}
	if l.Seq == 0 {
		p.delta(l)
		return
	}
	text := p.text(l)
	p.c.say.status("") // it spoke of the node before
	if text != "" {
		p.c.say.raw(text)
	}
	p.tick()
}

// delta shows the text that a model writes. What is void is told so: on a terminal nothing that was written can be taken back.
func (p *progress) delta(l pawl.Logged) {
	d := field[llm.Delta](l)
	if d.Text != "" {
		p.wrote = true
		p.c.say.piece(d.Text)
	}
	if d.Void && p.wrote && p.c.say.live {
		p.wrote = false
		p.c.say.raw(p.c.say.paint(dim, "  "+p.mark(false)+"that is void; it is written anew"))
	}
}

// text is an event for people; empty: nothing to say.
func (p *progress) text(l pawl.Logged) string {
	v := p.c.say
	say := func(format string, a ...any) string { return "  " + oneLine(fmt.Sprintf(format, a...), p.columns()-2) }
	switch l.Type {
	case machine.EventStep:
		s := field[machine.Stepped](l)
		edge := ""
		if s.Edge != "" && s.Edge != "otherwise" {
			edge = " (" + s.Edge + ")"
		}
		return v.paint(green, p.mark(true)) + clip(plain(fmt.Sprintf("%s %s %s%s  %s", s.Node, p.arrow(), s.To, edge, took(time.Duration(s.MS)*time.Millisecond))), p.columns()-2)
	case machine.EventRetry:
		r := field[machine.Retried](l)
		return say("%s: try %d in %s: %s", r.Node, r.Try, took(time.Duration(r.AfterMS)*time.Millisecond), reason(r.Err))
	case machine.EventWaiting:
		return say("%s waits for %s", field[machine.Parked](l).Node, waitsFor(field[machine.Parked](l).Waits))
	case machine.EventHeld:
		return say("%s: parked", field[machine.Parked](l).Node)
	case machine.EventStopped:
		return say("%s: interrupted", field[machine.Parked](l).Node)
	case machine.EventRestarted:
		return say("attempt %d begins at %s", field[machine.Begun](l).Attempt, field[machine.Begun](l).Node)
	case machine.EventMigrated:
		return say("goes on with version %s at %s", field[machine.Begun](l).Version, field[machine.Begun](l).Node)
	case machine.EventAnswered:
		return say("answered")
	case machine.EventCancel:
		return say("asked to end")
	case machine.EventMerged:
		return say("is the same work as run %s", field[machine.Merged](l).Into)
	case machine.EventStarted, machine.EventEnded:
		return ""
	}
	if p.tell != nil {
		if text := p.tell(l.Type, l.Data); text != "" {
			return v.paint(dim, say("%s", text))
		}
	}
	return v.paint(dim, say("%s %s", l.Type, l.Data))
}

// reason is a recorded error in short.
func reason(e *pawl.Error) string {
	if e == nil {
		return ""
	}
	return e.Code + ": " + explain(e.Error())
}

func waitsFor(ws []pawl.Waiting) string {
	var parts []string
	for _, w := range ws {
		switch w.Kind {
		case pawl.WaitsForAnswer:
			parts = append(parts, "an answer")
		case pawl.WaitsForTime:
			parts = append(parts, "its time")
		case pawl.WaitsForRetry:
			parts = append(parts, "its next try")
		case pawl.WaitsForChild:
			parts = append(parts, "children of "+w.Key)
		case pawl.WaitsForVersion:
			parts = append(parts, "a version")
		}
	}
	return strings.Join(parts, ", ")
}

func (p *progress) columns() int {
	if n, ok := screen(p.c.say.w); ok && n > 20 {
		return n
	}
	return 200
}

func (p *progress) arrow() string {
	if p.c.say.live {
		return "→"
	}
	return "->"
}

// mark stands before a line, on a terminal that can show it.
func (p *progress) mark(good bool) string {
	switch {
	case !p.c.say.live:
		return ""
	case good:
		return "✓ "
	}
	return "✗ "
}

// look takes in what the run says of itself.
func (p *progress) look(run pawl.Run) {
	p.ms, p.held = run.Meters, ""
	if p.node == "" && !run.Status.Ended() && run.Status != pawl.StatusWaiting {
		p.at(run.Node)
	}
	if run.Status == pawl.StatusInterrupted {
		p.held = "taking over"
	}
}

// tick draws the status.
func (p *progress) tick() {
	if !p.c.say.live || p.node == "" || p.c.json {
		return
	}
	p.turn++
	parts := []string{string([]rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")[p.turn%10]) + " " + p.node, took(time.Since(p.since).Truncate(100 * time.Millisecond))}
	if p.held != "" {
		parts = append(parts, p.held)
	}
	if m := counters(p.ms); m != "" {
		parts = append(parts, m)
	}
	p.c.say.status(oneLine(parts[0], 60) + "  " + plain(strings.Join(parts[1:], "  ")))
}

// sum is how long the command took and what the run has used.
func (p *progress) sum(run pawl.Run) string {
	text := "  " + took(time.Since(p.began))
	if m := counters(run.Meters); m != "" {
		text += "  " + m
	}
	return plain(text)
}
