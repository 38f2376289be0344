package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/uuid"

	"pawl"
	"pawl/internal/delta"
	"pawl/internal/machine"
	"pawl/internal/parcel"
	"pawl/store"
)

// Copied says of a run that it is a copy of one that was made in another store, and whose that was.
type Copied struct {
	Tenant string `json:"tenant,omitempty"`
	User   string `json:"user,omitempty"`
	Key    string `json:"key,omitempty"`
	At     string `json:"at"` // of the import
	By     string `json:"by,omitempty"`
}

// Imported answers an Import: the run that was exported, and how many runs came with it.
type Imported struct {
	Run  pawl.Run `json:"run"`
	Runs int      `json:"runs"` // it and its descendants
}

// Import reads a file that Export has written. Its runs keep their ids, belong to the caller, and are copies: no worker takes
// them, they can be read, replayed and forked. A file is taken whole or not at all; one of its ids that this store has already is
// a conflict. Who imports must see all runs: a file brings ids along, and those of children and keyed background runs follow from
// others.
func (e *Engine) Import(ctx context.Context, c pawl.Caller, r io.Reader) (Imported, error) {
	out, err := e.importAll(ctx, c, r)
	return out, coded("import", out.Run.ID, err)
}

func (e *Engine) importAll(ctx context.Context, c pawl.Caller, r io.Reader) (out Imported, err error) {
	if !slices.Contains(c.Scopes, pawl.ScopeAll) {
		return out, &pawl.Error{Code: pawl.CodeForbidden, Text: "only who sees all runs of the store may import some"}
	}
	h, all, err := parcel.Read(r)
	if err != nil {
		return out, unpacked(err)
	}
	made, err := copies(ctx, h.Root, all, c, e.now(ctx).Format("2006-01-02T15:04:05Z07:00"))
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	if err != nil {
		return out, invalid("the file is damaged: %v", err)
	}
	if err := e.store.Create(ctx, made...); err != nil {
		var taken *store.Taken
		if errors.As(err, &taken) {
			return out, conflict("run %s is in this store already: nothing was imported", taken.Owner)
		}
		return out, err
	}
	out.Runs = len(made)
	out.Run, err = e.get(ctx, everything, h.Root)
	return out, err
}

// copies makes new runs of those of a file, all of which have to be right.
func copies(ctx context.Context, root string, all []parcel.Run, c pawl.Caller, at string) (out []store.NewRun, err error) {
	ids := map[string]bool{}
	for _, r := range all {
		if id, err := uuid.Parse(r.ID); err != nil || id.String() != r.ID || ids[r.ID] {
			return nil, fmt.Errorf("%q is no id of a run, or stands twice", r.ID)
		}
		ids[r.ID] = true
	}
	if all[0].ID != root {
		return nil, fmt.Errorf("the first run is %s and not %s", all[0].ID, root)
	}
	parents, asked := map[string]string{}, map[string]bool{}
	for _, r := range all[1:] {
		if !ids[r.Parent] {
			return nil, fmt.Errorf("run %s: its parent %q is not in the file", r.ID, r.Parent)
		}
		parents[r.ID] = r.Parent
	}
	for i := range all {
		above, err := lineage(parents, all[i].ID, root)
		if err != nil {
			return nil, err
		}
		n, err := copied(ctx, &all[i], above, asked, Copied{At: at, By: c.User})
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", all[i].ID, err)
		}
		n.Tenant, n.User, n.Root = c.Tenant, c.User, root
		out = append(out, n)
	}
	return out, nil
}

// lineage is the runs of a file above one, the parent first: all of them end at the root.
func lineage(parents map[string]string, id, root string) (above []string, err error) {
	for up := id; up != root; {
		if up = parents[up]; len(above) == pawl.MaxDepth {
			return nil, fmt.Errorf("run %s: its parents do not lead to run %s", id, root)
		}
		above = append(above, up)
	}
	return above, nil
}

// copied makes a new run of one of a file, below those above it. What names say twice is taken from the record.
func copied(ctx context.Context, r *parcel.Run, above []string, asked map[string]bool, as Copied) (n store.NewRun, err error) {
	rec, head, err := parts(r.Run)
	if err != nil {
		return n, err
	}
	if err := (&inspection{run: r, rec: rec, head: head}).all(ctx); err != nil {
		return n, err
	}
	for i, q := range r.Questions {
		if id, err := uuid.Parse(q.ID); err != nil || id.String() != q.ID || asked[q.ID] {
			return n, fmt.Errorf("%q is no id of a question, or stands twice", q.ID)
		}
		asked[q.ID] = true
		r.Questions[i].Closed = true // nobody can answer it any more
	}
	as.Tenant, as.User, as.Key = r.Tenant, r.User, r.Key
	head.Copy, head.Ancestors = &as, above
	rows := append(r.Rows, store.Row{Stream: store.Audit, Data: encode(audit{By: as.By, Did: "import", What: as})})
	n = store.NewRun{
		ID: r.ID, Workflow: r.Workflow, Version: r.Version, Status: string(rec.Status), Node: rec.Node, Priority: r.Priority,
		Head: encode(head), Row: r.Row, Caps: r.Counters, Add: rows,
		Past: &store.Past{Outcome: outcomeOf(rec), Created: r.Created, Updated: r.Updated, Questions: r.Questions},
	}
	if len(above) > 0 {
		n.Parent = above[0]
	}
	return n, nil
}

// inspection is a look at all that a file says of a run: what is taken in must be readable ever after.
type inspection struct {
	run   *parcel.Run
	rec   *machine.Record
	head  Head
	steps int64
	state []byte
	sum   string          // of the state
	work  int             // bytes of all states that were made
	seen  map[string]bool // blobs
	named []string        // blobs, by what tells of them
}

// maxStates is how many bytes the states of a run may have together: small changes of a large state make much of a small file.
const maxStates = 64 << 30

func (v *inspection) all(ctx context.Context) error {
	v.seen = map[string]bool{}
	if !known(v.rec.Status) || v.rec.Node == "" || v.rec.Attempt < 1 || v.rec.Visit < 1 || v.rec.Steps < 1 {
		return fmt.Errorf("its record cannot be (status %q at %q)", v.rec.Status, v.rec.Node)
	}
	for m, n := range v.head.Budget {
		if n < 0 { // which would be none at all for a fork
			return fmt.Errorf("its budget %s is %d", m, n)
		}
	}
	if v.head.Generation < 0 {
		return fmt.Errorf("its generation is %d", v.head.Generation)
	}
	for i := range v.run.Rows {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := v.row(&v.run.Rows[i]); err != nil {
			return err
		}
	}
	if v.steps != v.rec.Steps || v.rec.Hash != v.sum {
		return fmt.Errorf("its %d steps are not those of its record", v.steps)
	}
	for _, key := range append(v.named, v.head.Large, v.rec.Large) {
		if key != "" && !v.seen[key] {
			return fmt.Errorf("the blob %s is missing", key)
		}
	}
	for i := range v.run.Questions {
		var q question
		if err := json.Unmarshal(v.run.Questions[i].Row, &q); err != nil {
			return fmt.Errorf("question %s: %w", v.run.Questions[i].ID, err)
		}
	}
	return nil
}

func known(s pawl.Status) bool {
	return slices.Contains([]pawl.Status{pawl.StatusQueued, pawl.StatusRunning, pawl.StatusWaiting}, s) || s.Ended()
}

func (v *inspection) row(row *store.Row) (err error) {
	switch row.Stream {
	case store.Step:
		return v.step(row)
	case store.Event:
		if framed(*row) {
			return fmt.Errorf("an event that is a step")
		}
		err = unmarshal(*row, new(event))
	case store.Call:
		var en entry
		if err = unmarshal(*row, &en); err == nil && en.Blob != "" {
			key, own := strings.CutPrefix(en.Blob, v.run.ID+"/")
			if !own {
				return fmt.Errorf("the journal tells of the blob %q of another run", en.Blob)
			}
			v.named = append(v.named, key)
		}
	case store.Inbox:
		err = unmarshal(*row, new(machine.Letter))
	case store.Audit:
		err = unmarshal(*row, new(audit))
	case store.Blob:
		if v.seen[row.Key] || hash(row.Data) != row.Key {
			return fmt.Errorf("the blob %q is not what its name says", row.Key)
		}
		v.seen[row.Key] = true
	}
	if err != nil {
		return fmt.Errorf("a row of %s: %w", row.Stream, err)
	}
	return nil
}

// step checks a row of the step log, and the state that it leaves.
func (v *inspection) step(row *store.Row) error {
	v.steps++
	row.Seq = v.steps
	h, record, err := unframe(*row)
	if err != nil {
		return err
	}
	if h.From < 0 || h.Upto != 0 && h.Upto < h.From {
		return fmt.Errorf("step %d: its journal ends before it begins", v.steps)
	}
	if key, large := blobOf(h.Payload, v.run.ID); large {
		v.named = append(v.named, key)
	}
	if len(record) > 0 {
		if v.state, err = delta.Apply(v.state, record); err != nil || len(v.state) > MaxState {
			return fmt.Errorf("step %d: its state cannot be read", v.steps)
		}
		if v.work += len(v.state); v.work > maxStates {
			return fmt.Errorf("step %d: its states have more than %d bytes together", v.steps, maxStates)
		}
		v.sum = checksum(v.state)
	}
	first := len(record) > 0 && delta.IsFull(record)
	if h.Last > v.steps || h.Full > h.Last || h.Full < 1 || len(record) > 0 && (h.Last != v.steps || first != (h.Full == v.steps)) || h.Hash != v.sum {
		return fmt.Errorf("step %d: its state does not verify", v.steps)
	}
	return nil
}
