package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pawl"
	"pawl/engine"
	"pawl/internal/machine"
	"pawl/store"
)

// Result is what two plays of one trial must agree on, in words without ids.
type Result struct {
	Ends    []string       // of all runs
	Effects map[string]int // that the receiver has made that knows the keys
	Path    int            // steps of all runs
}

// ResultOf reads it.
func ResultOf(t *Trial) (*Result, error) {
	l, err := leftOf(t)
	if err != nil {
		return nil, err
	}
	return l.result(t.loose), nil
}

// result is that of all runs and effects but those whose paths are to be skipped.
func (l *left) result(skip func(path string) bool) *Result {
	r := &Result{Effects: map[string]int{}}
	for label, n := range l.t.World.Once.Done() {
		if !skip(label) {
			r.Effects[label] = n
		}
	}
	for _, run := range l.runs {
		if !skip(pathOf(run)) {
			r.Ends = append(r.Ends, l.endOf(run, r))
		}
	}
	slices.Sort(r.Ends)
	return r
}

// pathOf is the path that a run was started with.
func pathOf(r store.Run) string {
	var head engine.Head
	var job Job
	_ = errors.Join(json.Unmarshal(r.Head, &head), json.Unmarshal(head.Input, &job)) // what cannot be read is nobody's
	return job.Path
}

// wear notes the orders of which a visit was begun too often. Where workers are struck again and again, or a slow machine lets their
// leases run out, that is the end to which an engine must bring it.
func (l *left) wear() {
	for _, r := range l.runs {
		if rec := l.recs[r.ID]; rec.Err == nil || rec.Err.Code != pawl.CodeCrashLoop {
			continue
		}
		for _, o := range l.t.Orders {
			o.worn = o.worn || o.owns(pathOf(r))
		}
	}
}

// endOf is one run's end: its input stands for its id.
func (l *left) endOf(r store.Run, out *Result) string {
	rec := l.recs[r.ID]
	var head engine.Head
	_ = json.Unmarshal(r.Head, &head)
	var path, events []string
	for _, row := range l.rows[r.ID][store.Step] {
		if s, err := stepOf(row); err == nil && s.moves() && s.Attempt == rec.Attempt {
			path = append(path, s.Before+" -"+s.Edge+"->")
			out.Path++
		}
	}
	for _, row := range l.rows[r.ID][store.Event] {
		var e struct{ T, D json.RawMessage }
		if json.Unmarshal(row.Data, &e) == nil && !strings.HasPrefix(string(e.T), `"pawl.`) {
			events = append(events, string(e.T)+string(e.D))
		}
	}
	slices.Sort(events)
	code := ""
	if rec.Err != nil {
		code = rec.Err.Code
	}
	state, err := l.rs.State(l.ctx, r.ID, 0)
	return fmt.Sprintf("%s %s: %s at %s, outcome %s, error %q\n\toutput %s\n\tstate %s (%v)\n\tpath %s\n\tevents %s", r.Workflow, head.Input,
		rec.Status, rec.Node, rec.Outcome, code, rec.Output, state, err, strings.Join(path, " "), strings.Join(events, " "))
}

func (l *left) endSame() []string {
	if l.want == nil {
		return nil
	}
	lines := func(ends []string) []string { return strings.Split(strings.Join(ends, "\n"), "\n") }
	got, want := lines(l.result(l.t.loose).Ends), lines(l.want.Ends)
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return []string{fmt.Sprintf("%s\n\twant %s", g, w)}
		}
	}
	return nil
}

func (l *left) effectsMade() (broken []string) {
	once, many := l.t.World.Once.Done(), l.t.World.Many.Done()
	for label, n := range once {
		if many[label] < n {
			broken = append(broken, fmt.Sprintf("effect %s reached one receiver %d times and the other %d times", label, many[label], n))
		}
	}
	if l.want == nil {
		return broken
	}
	for _, label := range slices.Sorted(maps.Keys(l.want.Effects)) {
		if once[label] != l.want.Effects[label] {
			broken = append(broken, fmt.Sprintf("effect %s was made %d times, want %d", label, once[label], l.want.Effects[label]))
		}
	}
	for label := range once {
		if l.want.Effects[label] == 0 && !l.t.loose(label) {
			broken = append(broken, fmt.Sprintf("effect %s was made, which a run without faults does not make", label))
		}
	}
	return broken
}

// Forked forks the first run from one of its steps and sees to it that its source stays as it is: I12.
func Forked(t *Trial, pick func(n int) int) error {
	source := t.Orders[0].Run
	before, err := t.everything(source)
	if err != nil {
		return err
	}
	r, err := t.Store.Get(t.ctx, everything, source)
	if err != nil {
		return err
	}
	rec, err := machine.Decode(r.Row)
	if err != nil {
		return err
	}
	err = t.Command(func(ctx context.Context, rs pawl.Runs) error {
		f, err := rs.Fork(ctx, source, int64(1+pick(int(rec.Steps))), nil)
		if err == nil {
			t.acks.forks = append(t.acks.forks, f.ID)
		}
		if pawl.Coded(err) != nil && pawl.Coded(err).Code == pawl.CodeConflict {
			return nil // from a terminal there is no way on
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	if err := t.attend(); err != nil {
		return err
	}
	after, err := t.everything(source)
	if err == nil && before != after {
		t.Seen.violation("I12: the source of a fork was changed:\n%s\nbefore it:\n%s", after, before)
	}
	return err
}

// everything is all that is stored of a run, in words.
func (t *Trial) everything(run string) (string, error) {
	ctx := context.WithoutCancel(t.ctx)
	r, err := t.Store.Get(ctx, everything, run)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", r)
	for _, s := range []store.Stream{store.Step, store.Event, store.Call, store.Inbox, store.Audit, store.Blob} {
		rows, err := t.Store.Read(ctx, everything, run, store.Query{Stream: s})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s %+v\n", s, rows)
	}
	return b.String(), nil
}
