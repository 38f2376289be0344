package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"pawl"
	"pawl/internal/codec"
	"pawl/internal/machine"
	"pawl/store"
)

// Replay is what a replay of a run has found.
type Replay struct {
	Run        string      `json:"run"`
	Workflow   string      `json:"workflow"`
	Version    string      `json:"version"`
	Steps      int64       `json:"steps"`      // rows of the step log that were compared, from the first
	Of         int64       `json:"of"`         // rows that there are
	Executions int         `json:"executions"` // of nodes, one for each try
	Calls      int         `json:"calls"`      // calls, questions, timers and children that the journal answered
	Events     int         `json:"events"`     // emitted ones that were compared
	Stopped    string      `json:"stopped,omitempty"`
	Notes      []string    `json:"notes,omitempty"` // what could not be compared
	Diverged   *Divergence `json:"diverged,omitempty"`
}

// Divergence is the first place where a replay is not what was recorded.
type Divergence struct {
	Kind     string          `json:"kind"`
	Step     int64           `json:"step"` // row of the step log that is not met; of the visit under way the one that would follow
	Node     string          `json:"node,omitempty"`
	Visit    int64           `json:"visit,omitempty"`
	Try      int             `json:"try,omitempty"`
	Key      string          `json:"key,omitempty"`  // of the call, question, timer or child, or type of the event
	Path     string          `json:"path,omitempty"` // in the state, the request, the event or the output
	Recorded json.RawMessage `json:"recorded,omitempty"`
	Replayed json.RawMessage `json:"replayed,omitempty"`
	Text     string          `json:"text"`
}

// The kinds of Divergence.
const (
	DivergedStart   = "start"   // the start function makes another state of the input
	DivergedCall    = "call"    // a call that the journal does not have
	DivergedUnmade  = "unmade"  // a call of the journal that was not made
	DivergedRequest = "request" // the same call for another request, a question in other words, a child with another input
	DivergedEvent   = "event"   // another event was emitted, or one less
	DivergedNote    = "note"    // other rows of the graph's own beside the step
	DivergedError   = "error"   // the node failed where it had not, or with another error, or not at all
	DivergedNext    = "next"    // another edge or another end
	DivergedState   = "state"   // the step left another state
	DivergedWait    = "wait"    // the visit under way waits for something else
	DivergedOutput  = "output"  // the end has another output or other closing events
)

// Replay executes the nodes of a run again, from its first step on, and compares what they do with what was recorded. Every
// call is answered by the journal, so nothing is asked or done outside; it ends at the first divergence. The run is only read.
// A node that does something outside of pawl.Do does it again.
func (e *Engine) Replay(ctx context.Context, c pawl.Caller, run string) (Replay, error) {
	out, err := e.replay(ctx, (&runs{e: e, c: c}).scope(), run)
	return out, coded("replay", run, err)
}

func (e *Engine) replay(ctx context.Context, s store.Scope, id string) (Replay, error) {
	run, err := e.store.Get(ctx, s, id)
	if err != nil {
		return Replay{}, err
	}
	rec, head, err := parts(run)
	if err != nil {
		return Replay{}, err
	}
	out := Replay{Run: run.ID, Workflow: run.Workflow, Version: run.Version, Of: rec.Steps}
	p, err := e.exactly(run.Workflow, run.Version)
	if err != nil {
		return out, err
	}
	if rec.Fingerprint != p.Shape.Fingerprint {
		return out, conflict("the graph of %s changed without a new version (fingerprint %s, the run has %s): it cannot be replayed",
			run.Kind(), p.Shape.Fingerprint, rec.Fingerprint)
	}
	r := &replaying{e: e, ctx: ctx, scope: s, run: run, last: rec, head: head, rec: new(machine.Record), out: &out}
	return out, r.all()
}

// exactly is the program of one version.
func (e *Engine) exactly(workflow, version string) (*program, error) {
	p := e.byKind[store.Kind(workflow, version)]
	if p == nil || p.Shape.Version != version {
		return nil, conflict("version %s of %s is not registered here: replay the run with a program that has it", version, workflow)
	}
	return p, nil
}

// replaying is a replay under way: the run as the decisions of the machine make it again, step by step.
type replaying struct {
	e     *Engine
	ctx   context.Context
	scope store.Scope
	run   store.Run
	last  *machine.Record // as it is stored
	head  Head
	p     *program
	out   *Replay

	rec  *machine.Record // as it is replayed
	raw  []byte          // the state
	path []string        // nodes of this attempt

	emits     map[int64]map[string]*emission // recorded ones, by visit and number
	questions map[string]question            // by visit and key
	seen      int64                          // journal entries of the visit that earlier tries have met

	mu      sync.Mutex
	meters  map[string]*store.Counter // of this attempt, as far as the journal tells
	counted map[string]bool           // journal entries and children in them
}

// all replays every step, and the visit under way.
func (r *replaying) all() error {
	if err := r.prepare(); err != nil {
		return err
	}
	rows := &stepReader{r: r}
	for {
		g, err := rows.next()
		if err != nil {
			return err
		}
		if g == nil {
			break
		}
		if err := r.group(g); err != nil || r.over() {
			return err
		}
		r.out.Steps = g.last()
	}
	if r.last.Status.Ended() {
		return nil
	}
	return r.underWay()
}

// over reports whether there is nothing more to compare.
func (r *replaying) over() bool { return r.out.Diverged != nil || r.out.Stopped != "" }

func (r *replaying) diverge(d Divergence) {
	if r.out.Diverged == nil {
		d.Recorded, d.Replayed = shown(d.Recorded), shown(d.Replayed)
		r.out.Diverged = &d
	}
}

// at is a divergence at the try under way.
func (r *replaying) at(kind string, step int64, format string, a ...any) Divergence {
	return Divergence{Kind: kind, Step: step, Node: r.rec.Node, Visit: r.rec.Visit, Try: r.rec.Try, Text: fmt.Sprintf(format, a...)}
}

func (r *replaying) note(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.out.Notes, text) {
		r.out.Notes = append(r.out.Notes, text)
	}
}

// shown cuts a value that nobody would read to its end.
func shown(v json.RawMessage) json.RawMessage {
	const most = 4 << 10
	if len(v) > 0 && !json.Valid(v) {
		v = encode(strings.ToValidUTF8(string(v), "\uFFFD"))
	}
	if len(v) <= most {
		return v
	}
	return encode(strings.ToValidUTF8(string(v[:most]), "") + fmt.Sprintf("… (%d bytes)", len(v)))
}

// owner is whose run it is; of a copy, whose it was.
func (r *replaying) owner() (tenant, user string) {
	if c := r.head.Copy; c != nil {
		return c.Tenant, c.User
	}
	return r.run.Tenant, r.run.User
}

// group replays one commit: a row of the step log and those behind it.
func (r *replaying) group(g *stepGroup) error {
	if g.Version != "" && (r.p == nil || g.Version != r.p.Shape.Version) && g.kind != stepMigrates {
		p, err := r.e.exactly(r.run.Workflow, g.Version)
		if err != nil {
			return fmt.Errorf("step %d: %w", g.seq, err)
		}
		r.p = p
	}
	switch g.kind {
	case stepBegins:
		return r.begins(g)
	case stepRestarts:
		return r.restarts(g)
	case stepMigrates:
		r.out.Stopped = fmt.Sprintf("step %d carried the run from version %s to %s: replay ends here", g.seq, r.p.Shape.Version, g.Version)
		return nil
	case stepWaits:
		return nil
	}
	return r.tries(g)
}

// begins replays the first step: the state that the start function makes of the input. That of a fork was given.
func (r *replaying) begins(g *stepGroup) (err error) {
	if g.Name == string(machine.Continues) {
		var mv machine.Move
		if mv, err = r.p.m.Fork(g.After, g.at); err == nil {
			err = r.begun(g, mv, g.state)
		}
		return err
	}
	return r.starts(g, func() (machine.Move, error) { return r.p.m.Start(g.at) })
}

func (r *replaying) restarts(g *stepGroup) error {
	r.path, r.meters = nil, nil
	if r.head.ForkOf != "" {
		mv, err := r.p.m.Restart(r.rec, g.After, g.at, 0, 0, nil)
		if err == nil {
			err = r.begun(g, mv, g.state)
		}
		return err
	}
	return r.starts(g, func() (machine.Move, error) {
		return r.p.m.Restart(r.rec, "", g.at, 0, 0, nil)
	})
}

func (r *replaying) starts(g *stepGroup, decide func() (machine.Move, error)) error {
	input, err := r.e.input(r.ctx, r.run.ID, r.head)
	if err != nil {
		return err
	}
	raw, err := r.p.first(input)
	if err != nil {
		d := r.at(DivergedStart, g.seq, "the start function refuses the input: %v", err)
		d.Recorded = g.state
		r.diverge(d)
		return nil
	}
	mv, err := decide()
	if err != nil {
		return err
	}
	return r.begun(g, mv, raw)
}

func (r *replaying) begun(g *stepGroup, mv machine.Move, raw []byte) error {
	r.rec = mv.Next
	if mv.Next.Node != g.After {
		d := r.at(DivergedNext, g.seq, "the run begins at %q, recorded: %q", mv.Next.Node, g.After)
		d.Recorded, d.Replayed = encode(g.After), encode(mv.Next.Node)
		r.diverge(d)
		return nil
	}
	if path, was, is, differ := codec.Differ(g.state, raw); differ {
		d := r.at(DivergedStart, g.seq, "the start function makes another state: %s", place(path))
		d.Path, d.Recorded, d.Replayed = path, was, is
		r.diverge(d)
		return nil
	}
	r.raw, r.seen = g.state, 0
	return nil
}

// place names a path in a message.
func place(path string) string {
	if path == "" {
		return "the whole value"
	}
	return "at " + path
}
