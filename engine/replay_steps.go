package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pawl"
	"pawl/internal/delta"
	"pawl/internal/machine"
	"pawl/store"
)

// What the first row of a commit says.
const (
	stepBegins = iota
	stepRestarts
	stepMigrates
	stepWaits   // a park or a hold: the visit was thrown away
	stepRetries // a try failed and another one followed
	stepTakes   // an edge was taken
	stepEnds    // failed, cancelled or merged: no edge, and the state stays
)

// stepGroup is one commit as the step log has it.
type stepGroup struct {
	stepHead
	kind  int
	seq   int64
	at    time.Time
	state []byte // that holds afterwards
	took  bool   // the row carries a state
	more  []stepRow
}

type stepRow struct {
	stepHead
	seq int64
}

// last is the number of the last row of the commit.
func (g *stepGroup) last() int64 { return g.seq + int64(len(g.more)) }

// stepReader reads the step log commit by commit, and makes the state of each.
type stepReader struct {
	r     *replaying
	page  []store.Row
	after int64
	state []byte
}

// peek is the next row, nil at the end. It does not go beyond the run's row: what a worker writes meanwhile is not looked at.
func (s *stepReader) peek() (*store.Row, error) {
	const page = 200
	if len(s.page) == 0 && s.after < s.r.last.Steps {
		rows, err := s.r.e.store.Read(s.r.ctx, s.r.scope, s.r.run.ID, store.Query{Stream: store.Step, After: s.after, Limit: page})
		if err != nil {
			return nil, err
		}
		s.page = rows
		if len(rows) == 0 {
			return nil, &pawl.Error{Code: pawl.CodeInternal, Text: fmt.Sprintf("step %d is missing", s.after+1)}
		}
	}
	if len(s.page) == 0 || s.page[0].Seq > s.r.last.Steps {
		return nil, nil
	}
	return &s.page[0], nil
}

func (s *stepReader) take() { s.after, s.page = s.page[0].Seq, s.page[1:] }

// next is the next commit, nil at the end.
func (s *stepReader) next() (*stepGroup, error) {
	row, err := s.peek()
	if err != nil || row == nil {
		return nil, err
	}
	head, record, err := unframe(*row)
	if err != nil {
		return nil, err
	}
	g := &stepGroup{stepHead: head, seq: row.Seq, at: row.At, took: len(record) > 0, kind: kindOf(head, len(record) > 0)}
	if g.took {
		if s.state, err = delta.Apply(s.state, record); err != nil {
			return nil, &pawl.Error{Code: pawl.CodeInternal, Text: fmt.Sprintf("the state of step %d: %v", row.Seq, err)}
		}
		if got := checksum(s.state); got != head.Hash {
			return nil, &pawl.Error{Code: pawl.CodeInternal, Text: fmt.Sprintf("the state of step %d does not verify: hash %s, recorded %s", row.Seq, got, head.Hash)}
		}
	}
	g.state = s.state
	s.take()
	return g, s.behind(g)
}

// behind reads the rows that go with the first one: spent edges and notes are of the same try.
func (s *stepReader) behind(g *stepGroup) error {
	if g.kind < stepRetries {
		return nil
	}
	for {
		row, err := s.peek()
		if err != nil || row == nil {
			return err
		}
		head, record, err := unframe(*row)
		if err != nil {
			return err
		}
		if !goesWith(g.stepHead, head, len(record) > 0) {
			return nil
		}
		g.more = append(g.more, stepRow{head, row.Seq})
		s.take()
	}
}

func kindOf(h stepHead, state bool) int {
	switch {
	case h.Edge != "" && state:
		return stepTakes
	case h.Edge != "":
		return stepEnds
	case h.Before == "":
		return stepBegins
	case state && h.Name == string(machine.Restarts) && h.Visit == 0:
		return stepRestarts
	case state:
		return stepMigrates
	case h.Name == "retry":
		return stepRetries
	}
	return stepWaits
}

// payload is what a row tells beside its names, wherever it is kept.
func (r *replaying) payload(h stepHead) (json.RawMessage, error) {
	if key, large := blobOf(h.Payload, r.run.ID); large {
		return r.e.blob(r.ctx, r.scope, r.run.ID, key)
	}
	return h.Payload, nil
}

// blobOf is the key of the blob of a run that holds a payload instead.
func blobOf(payload json.RawMessage, run string) (key string, large bool) {
	var at struct {
		Blob string `json:"blob"`
	}
	if len(payload) >= 200 || json.Unmarshal(payload, &at) != nil {
		return "", false
	}
	return strings.CutPrefix(at.Blob, run+"/")
}

// failure is the error that a row records, nil if it records none.
func (r *replaying) failure(h stepHead) (*pawl.Error, error) {
	raw, err := r.payload(h)
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	var p struct {
		Error *pawl.Error `json:"error"`
	}
	err = json.Unmarshal(raw, &p)
	return p.Error, err
}
