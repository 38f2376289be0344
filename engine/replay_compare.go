package engine

import (
	"encoding/json"
	"fmt"
	"slices"

	"pawl"
	"pawl/internal/codec"
	"pawl/internal/machine"
)

// differs compares a decision with the recorded one: where the run went, the state that it took along, and its rows of the
// step log.
func (r *replaying) differs(g *stepGroup, mv machine.Move, raw []byte) *Divergence {
	e := mv.Log[0]
	recorded, _ := r.failure(g.stepHead)
	switch {
	case e.Edge == "failed" && g.Edge == "failed" && recorded != nil && mv.Next.Err != nil:
		if d := r.otherError(g, recorded, mv.Next.Err); d != nil {
			return d
		}
	case e.After != g.After || e.Edge != g.Edge || e.Name != g.Name:
		d := r.at(DivergedNext, g.seq, "the run takes %s, recorded: %s", way(e), way(g.Entry))
		if e.Edge == "failed" && mv.Next.Err != nil {
			d.Text = fmt.Sprintf("the run fails (%s), recorded: %s", firstLine(mv.Next.Err), way(g.Entry))
		}
		d.Recorded, d.Replayed = encode(way(g.Entry)), encode(way(e))
		return &d
	}
	if g.took {
		if path, was, is, differ := codec.Differ(g.state, raw); differ {
			d := r.at(DivergedState, g.seq, "the step leaves another state: %s", place(path))
			d.Path, d.Recorded, d.Replayed = path, was, is
			return &d
		}
	}
	return r.otherNotes(g, mv)
}

// way is where a step goes, in words.
func way(e machine.Entry) string {
	switch {
	case e.Edge != "":
		return fmt.Sprintf("edge %q to %q", e.Edge, e.After)
	case e.Name == "retry":
		return "the next try"
	}
	return e.Name
}

// otherNotes compares the rows beside a step, in any order: calls under way at once write theirs as they come.
func (r *replaying) otherNotes(g *stepGroup, mv machine.Move) *Divergence {
	if r.ofClock(g) {
		return nil
	}
	var was, is []string
	for _, e := range g.more {
		raw, err := r.payload(e.stepHead)
		if err != nil {
			raw = e.Payload
		}
		was = appendNote(was, e.Name, raw)
	}
	for _, e := range mv.Log[1:] {
		is = appendNote(is, e.Name, e.Payload)
	}
	slices.Sort(was)
	slices.Sort(is)
	if slices.Equal(was, is) {
		return nil
	}
	d := r.at(DivergedNote, g.seq, "the step writes other notes")
	for _, n := range was {
		if !slices.Contains(is, n) {
			d.Text, d.Recorded = "the step does not write the note "+n, encode(n)
			break
		}
	}
	for _, n := range is {
		if !slices.Contains(was, n) {
			d.Text, d.Replayed = "the step writes another note: "+n, encode(n)
			break
		}
	}
	return &d
}

// ofClock reports whether the try of a commit was ended from outside, so that it may have been cut off anywhere.
func (r *replaying) ofClock(g *stepGroup) bool {
	cause, _ := r.failure(g.stepHead)
	return g.kind == stepEnds && g.Edge == "cancelled" || stoppedByClock(cause) || cause != nil && cause.Code == pawl.CodeCrashLoop
}

// appendNote adds a note of the graph's own; what the engine notes of an execution, and measurements, are no part of a replay.
func appendNote(all []string, name string, payload []byte) []string {
	switch name {
	case "orphans", "diverged", "annotated":
		return all
	}
	if canon, err := canonical(payload); err == nil {
		payload = canon
	}
	return append(all, name+" "+string(payload))
}

// noted are the keys that a note of the engine names.
func (r *replaying) noted(g *stepGroup, name string) (keys []string) {
	for _, e := range g.more {
		var p struct {
			Keys []string `json:"keys"`
		}
		raw, err := r.payload(e.stepHead)
		if e.Name == name && err == nil && json.Unmarshal(raw, &p) == nil {
			keys = append(keys, p.Keys...)
		}
	}
	return keys
}
