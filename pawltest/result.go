package pawltest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"pawl"
)

// Result is a run that has ended, whatever its end, and what it left.
type Result[O any] struct {
	Output    O // of a named terminal; zero for FAILED and CANCELLED
	Run       pawl.Run
	State     json.RawMessage // the last one
	Steps     []pawl.Step
	Events    []pawl.Logged
	Calls     []pawl.Made // of all visits
	Questions []pawl.Open // of its children too
	Children  []pawl.Run  // all below it
	Took      time.Duration
	Writes    []int // durable writes of each worker; more than one worker means that the others were dropped
}

// Path is the nodes in the order in which they were left, and the terminal at the end. FAILED and CANCELLED stand for the
// built-in ones.
func (r *Result[O]) Path() []string {
	var out []string
	for _, s := range r.Steps {
		if s.Edge == "" || s.Name != s.StateBefore || s.Attempt != r.Run.Attempt {
			continue
		}
		out = append(out, s.Name)
	}
	return append(out, r.Run.Terminal)
}

// Emitted is the data of the graph's own events of a type, in order.
func (r *Result[O]) Emitted(typ string) (data []string) {
	for _, e := range r.Events {
		if e.Type == typ {
			data = append(data, string(e.Data))
		}
	}
	return data
}

// Meter is what the run has used of a meter.
func (r *Result[O]) Meter(name string) int64 {
	for _, m := range r.Run.Meters {
		if m.Name == name {
			return m.Used
		}
	}
	return 0
}

// read collects what a run left.
func (r *Result[O]) read(ctx context.Context, rs pawl.Runs, id string) (err error) {
	if r.Run, err = rs.Get(ctx, id); err != nil {
		return err
	}
	if len(r.Run.Output) > 0 {
		if err := json.Unmarshal(r.Run.Output, &r.Output); err != nil {
			return fmt.Errorf("the output: %w", err)
		}
	}
	if r.State, err = rs.State(ctx, id, 0); err != nil {
		return err
	}
	if r.Steps, err = rs.Steps(ctx, id, 0, 0); err != nil {
		return err
	}
	for e, err := range rs.Events(ctx, id, 0) {
		if err != nil {
			return err
		}
		r.Events = append(r.Events, e)
	}
	known := map[int64]bool{}
	for _, s := range r.Steps {
		made, err := rs.Calls(ctx, id, s.Seq)
		if err != nil {
			return err
		}
		for _, m := range made {
			if !known[m.Seq] {
				known[m.Seq] = true
				r.Calls = append(r.Calls, m)
			}
		}
	}
	slices.SortFunc(r.Calls, func(a, b pawl.Made) int { return int(a.Seq - b.Seq) })
	if r.Questions, err = rs.Questions(ctx, pawl.QuestionFilter{Run: id, Closed: true}, "", 1000); err != nil {
		return err
	}
	for after := ""; ; {
		page, err := rs.List(ctx, pawl.RunFilter{Root: r.Run.Root}, after, 1000)
		if err != nil {
			return err
		}
		for _, c := range page {
			if c.ID != id {
				r.Children = append(r.Children, c)
			}
		}
		if len(page) < 1000 {
			return nil
		}
		after = page[len(page)-1].ID
	}
}

// end is what two plays of one script must agree on, in words. Ids of runs are made up anew for each, so they are taken
// out, and so are the fields of the output that vary.
func (r *Result[O]) end(varies []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "status %s, terminal %s, outcome %s\n", r.Run.Status, r.Run.Terminal, r.Run.Outcome)
	if r.Run.Err != nil {
		fmt.Fprintf(&b, "error %s\n", r.Run.Err.Code)
	}
	fmt.Fprintf(&b, "output %s\nstate %s\npath %s\n", without(r.Run.Output, varies), without(r.State, varies), strings.Join(r.Path(), " "))
	var events []string
	for _, e := range r.Events {
		if !strings.HasPrefix(e.Type, "pawl.") {
			events = append(events, e.Type+" "+string(without(e.Data, varies)))
		}
	}
	slices.Sort(events) // calls under way at once emit in any order
	fmt.Fprintf(&b, "events %s\nchildren %d\n", strings.Join(events, "\n       "), len(r.Children))
	out := strings.ReplaceAll(b.String(), r.Run.ID, "RUN")
	for _, c := range r.Children {
		out = strings.ReplaceAll(out, c.ID, "CHILD")
	}
	return out
}

// without is JSON without the fields of these names.
func without(raw json.RawMessage, names []string) json.RawMessage {
	if len(names) == 0 || len(raw) == 0 {
		return raw
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return raw
	}
	strip(v, names)
	out, _ := json.Marshal(v) // it was JSON
	return out
}

func strip(v any, names []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if slices.Contains(names, name) {
				delete(v, name)
			}
			strip(inner, names)
		}
	case []any:
		for _, inner := range v {
			strip(inner, names)
		}
	}
}
