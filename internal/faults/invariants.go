package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/internal/delta"
	"pawl/internal/machine"
	"pawl/store"
)

// left is what a trial has left, read once for all invariants.
type left struct {
	t    *Trial
	ctx  context.Context
	rs   pawl.Runs
	runs []store.Run
	recs map[string]*machine.Record
	rows map[string]map[store.Stream][]store.Row
	want *Result // of the same trial without faults; nil: another end is right too
}

// invariant is one of the promises, checked on what a trial has left.
type invariant struct {
	name  string
	check func(*left) []string
}

// invariants are those of the design, in its order. I6 and I7 are also watched while a trial goes on, I10 only then: it is
// Witness's.
var invariants = []invariant{
	{"I1 no acknowledged command is lost", (*left).commandsKept},
	{"I2 no step result is recorded twice", (*left).resultsOnce},
	{"I3 the step sequence has no hole and is the fold of the states", (*left).stepsWhole},
	{"I4 the end is that of a run without faults", (*left).endSame},
	{"I5 each effect reaches its receiver, and once where it knows the keys", (*left).effectsMade},
	{"I6 no run is stuck", (*left).nothingStuck},
	{"I7 a question is answered at most once", (*left).answersOnce},
	{"I8 event ids increase by one over reconnects", (*left).eventsWhole},
	{"I9 cancel is final", (*left).cancelFinal},
	{"I10 a stale worker's writes are refused", (*left).fenced},
	{"I11 nothing leaks", (*left).nothingHeld},
	{"I13 stored states verify against their hash", (*left).statesVerify},
	{"I14 budgets are never exceeded", (*left).budgetsKept},
}

// Check looks at what a trial has left. want is the end of the same trial without faults; nil leaves I4 out, and the exact
// effects of I5. I12 is checked by Forked, as it needs a fork.
func Check(t *Trial, want *Result) (broken []string) {
	l, err := leftOf(t)
	if err != nil {
		return append(t.Seen.Broken(), "what is left cannot be read: "+err.Error())
	}
	return l.all(want)
}

// all checks all invariants.
func (l *left) all(want *Result) (broken []string) {
	l.want = want
	for _, i := range invariants {
		for _, text := range i.check(l) {
			broken = append(broken, i.name+": "+text)
		}
	}
	return broken
}

func leftOf(t *Trial) (*left, error) {
	l := &left{t: t, ctx: context.WithoutCancel(t.ctx), recs: map[string]*machine.Record{}, rows: map[string]map[store.Stream][]store.Row{}}
	e, err := engine.New(t.Store, t.Flows, engine.Config{})
	if err != nil {
		return nil, err
	}
	l.rs = e.As(all)
	if _, l.runs, err = t.live(); err != nil {
		return nil, err
	}
	for _, r := range l.runs {
		if l.recs[r.ID], err = machine.Decode(r.Row); err != nil {
			return nil, err
		}
		l.rows[r.ID] = map[store.Stream][]store.Row{}
		for _, s := range []store.Stream{store.Step, store.Event, store.Call, store.Inbox, store.Audit} {
			if l.rows[r.ID][s], err = t.Store.Read(l.ctx, everything, r.ID, store.Query{Stream: s}); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

func (l *left) commandsKept() (broken []string) {
	for _, o := range l.t.Orders {
		if !slices.ContainsFunc(l.runs, func(r store.Run) bool { return r.ID == o.Run }) {
			broken = append(broken, fmt.Sprintf("the run %s that was started as %q is gone", o.Run, o.Job.Path))
		} else if rec := l.recs[o.Run]; !o.cancelled.IsZero() && rec.Status != pawl.StatusCancelled {
			broken = append(broken, fmt.Sprintf("the run %q was cancelled, and is %s", o.Job.Path, rec.Status))
		}
	}
	for _, id := range l.t.acks.forks {
		if _, there := l.recs[id]; !there {
			broken = append(broken, fmt.Sprintf("the fork %s is gone", id))
		}
	}
	for id, want := range l.t.acks.retries {
		if rec, there := l.recs[id]; !there {
			broken = append(broken, fmt.Sprintf("the run %s that was tried again is gone", id))
		} else if rec.Attempt < want {
			broken = append(broken, fmt.Sprintf("the run %s was tried again, and is at attempt %d", id, rec.Attempt))
		}
	}
	for id, want := range l.t.acks.answers {
		qs, err := l.t.Store.Questions(l.ctx, everything, store.Filter{Question: id}, store.Page{})
		var row struct{ Answer json.RawMessage }
		if err == nil && len(qs) == 1 {
			err = json.Unmarshal(qs[0].Row, &row)
		}
		if err != nil || len(qs) != 1 || string(row.Answer) != want {
			broken = append(broken, fmt.Sprintf("question %s was answered with %s, and has %s (%v)", id, want, row.Answer, err))
		}
	}
	return broken
}

func (l *left) resultsOnce() (broken []string) {
	for _, r := range l.runs {
		visits := map[string]int{}
		for _, row := range l.rows[r.ID][store.Step] {
			if s, err := stepOf(row); err == nil && s.moves() {
				visits[fmt.Sprintf("visit %d of attempt %d", s.Visit, s.Attempt)]++
			}
		}
		ends := map[string]int{}
		for _, row := range l.rows[r.ID][store.Call] {
			en := entryOf(row)
			if en.Again == nil && en.Err == nil {
				ends[fmt.Sprintf("%s %q of visit %d", en.Kind, en.Key, en.Visit)]++
			}
		}
		for _, counts := range []map[string]int{visits, ends} {
			for what, n := range counts {
				if n > 1 {
					broken = append(broken, fmt.Sprintf("run %s has %d results of %s", r.Workflow, n, what))
				}
			}
		}
	}
	return broken
}

func (l *left) stepsWhole() (broken []string) {
	for _, r := range l.runs {
		rows, at := l.rows[r.ID][store.Step], ""
		for i, row := range rows {
			s, err := stepOf(row)
			switch {
			case err != nil:
				broken = append(broken, fmt.Sprintf("run %s: %v", r.Workflow, err))
			case row.Seq != int64(i+1):
				broken = append(broken, fmt.Sprintf("run %s: step %d stands at place %d", r.Workflow, row.Seq, i+1))
			case s.moves() && at != "" && s.Before != at:
				broken = append(broken, fmt.Sprintf("run %s: step %d begins at %q, the one before it led to %q", r.Workflow, row.Seq, s.Before, at))
			case s.Last > row.Seq:
				broken = append(broken, fmt.Sprintf("run %s: step %d goes by the state of step %d", r.Workflow, row.Seq, s.Last))
			}
			if s.moves() || s.Before == "" || s.Name == string(machine.Restarts) || s.Name == string(machine.Moves) {
				at = s.After
			}
		}
		rec := l.recs[r.ID]
		if rec.Steps != int64(len(rows)) {
			broken = append(broken, fmt.Sprintf("run %s has %d steps and its row counts %d", r.Workflow, len(rows), rec.Steps))
		}
		if rec.Merged == "" && at != rec.Node {
			broken = append(broken, fmt.Sprintf("run %s stands at %q, its last step led to %q", r.Workflow, rec.Node, at))
		}
	}
	return broken
}

func (l *left) nothingStuck() (broken []string) {
	for _, r := range l.runs {
		if !r.Ended {
			broken = append(broken, fmt.Sprintf("run %s of %s has not ended: %s at %q", r.ID, r.Workflow, r.Status, r.Node))
		}
	}
	return broken
}

func (l *left) answersOnce() (broken []string) {
	for _, r := range l.runs {
		n := map[string]int{}
		for _, row := range l.rows[r.ID][store.Call] {
			if en := entryOf(row); en.Kind == "answer" || en.Kind == "deadline" {
				n[fmt.Sprintf("%q in visit %d", en.Key, en.Visit)]++
			}
		}
		for q, n := range n {
			if n > 1 {
				broken = append(broken, fmt.Sprintf("run %s: question %s has %d answers", r.Workflow, q, n))
			}
		}
	}
	return broken
}

func (l *left) cancelFinal() (broken []string) {
	grace := 2*l.t.Lease + l.t.Lease/2 + l.t.Slack // a worker that stood still for two leases sees it when it goes on
	cancelled, until, parents := map[string]time.Time{}, map[string]time.Time{}, map[string]string{}
	for _, o := range l.t.Orders {
		if !o.cancelled.IsZero() {
			cancelled[o.Run], until[o.Run] = o.cancelled, o.cancelled.Add(grace)
		}
	}
	for _, r := range l.runs {
		parents[r.ID] = r.Parent
	}
	calm := l.t.Seen.calmFrom(l.t.Lease)
	for id := range parents { // a child hears of it from its parent, which somebody has to have in hand
		late := l.t.Slack
		for up := parents[id]; up != ""; up = parents[up] {
			late += l.t.Lease
			if at, was := cancelled[up]; was {
				until[id] = slices.MaxFunc([]time.Time{at, calm}, time.Time.Compare).Add(late)
			}
		}
	}
	for _, b := range l.t.World.begun() {
		if end, was := until[b.run]; was && b.at.After(end) {
			broken = append(broken, fmt.Sprintf("node %s began %s after the last moment that the cancel of its run leaves it", b.node, b.at.Sub(end).Round(time.Millisecond)))
		}
	}
	return broken
}

func (l *left) fenced() []string { return l.t.Seen.Broken() }

func (l *left) nothingHeld() (broken []string) {
	for _, r := range l.runs {
		if r.Ended && (r.Worker != "" || !r.Until.IsZero() || !r.Due.IsZero()) {
			broken = append(broken, fmt.Sprintf("run %s has ended and is held by %q until %s, due %s", r.Workflow, r.Worker, r.Until, r.Due))
		}
		qs, err := l.t.Store.Questions(l.ctx, everything, store.Filter{Run: r.ID, Open: true}, store.Page{})
		if err != nil || r.Ended && len(qs) > 0 {
			broken = append(broken, fmt.Sprintf("run %s has ended with %d open questions (%v)", r.Workflow, len(qs), err))
		}
	}
	return broken
}

// statesVerify folds the states itself, in another way than the engine does: from one to the next.
func (l *left) statesVerify() (broken []string) {
	for _, r := range l.runs {
		var state []byte
		for _, row := range l.rows[r.ID][store.Step] {
			s, err := stepOf(row)
			if err != nil || s.Last != row.Seq {
				continue // it goes by the state of an earlier one
			}
			if s.Full == row.Seq {
				state, err = delta.Fold(s.record)
			} else {
				state, err = delta.Fold(delta.Full(state), s.record)
			}
			if got := fmt.Sprintf("%08x", crc32.Checksum(state, crc32.MakeTable(crc32.Castagnoli))); err != nil || got != s.Hash {
				broken = append(broken, fmt.Sprintf("run %s: the state of step %d has the hash %s, recorded is %s (%v)", r.Workflow, row.Seq, got, s.Hash, err))
			}
		}
	}
	return broken
}

func (l *left) budgetsKept() (broken []string) {
	for _, r := range l.runs {
		for _, c := range r.Counters {
			if c.Cap >= 0 && c.Used > c.Cap || c.Used < 0 {
				broken = append(broken, fmt.Sprintf("run %s has used %d of %s, at most %d", r.Workflow, c.Used, c.Meter, c.Cap))
			}
		}
	}
	return broken
}

func (l *left) eventsWhole() (broken []string) {
	for _, r := range l.runs {
		if !r.Ended {
			continue // its events go on
		}
		var next int64 = 1
		for hole := false; !hole && next <= int64(len(l.rows[r.ID][store.Event])); { // a reader that breaks off after each few
			took := int64(0)
			for e, err := range l.rs.Events(l.ctx, r.ID, next-1) {
				if hole = err != nil || e.Seq != next || e.Run != r.ID; hole {
					broken = append(broken, fmt.Sprintf("run %s: event %d came in place of %d (%v)", r.Workflow, e.Seq, next, err))
					break
				}
				next++
				if took++; took > 2+next%5 {
					break
				}
			}
			if took == 0 && !hole {
				hole = true
				broken = append(broken, fmt.Sprintf("run %s: event %d does not come", r.Workflow, next))
			}
		}
		if got, followed := l.t.seen[r.ID]; followed && l.recs[r.ID].Attempt == 1 && got != int64(len(l.rows[r.ID][store.Event])) {
			broken = append(broken, fmt.Sprintf("run %s: who has followed it was given %d events of %d", r.Workflow, got, len(l.rows[r.ID][store.Event])))
		}
		last := 0
		for _, row := range l.rows[r.ID][store.Event] {
			if strings.Contains(string(row.Data), `"`+machine.EventEnded+`"`) {
				last++
			}
		}
		if rec := l.recs[r.ID]; r.Ended && rec.Merged == "" && last != rec.Attempt {
			broken = append(broken, fmt.Sprintf("run %s has ended %d times in %d attempts by its events", r.Workflow, last, rec.Attempt))
		}
	}
	return broken
}
