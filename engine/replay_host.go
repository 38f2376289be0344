package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"pawl"
	"pawl/internal/codec"
	"pawl/internal/host"
	"pawl/internal/machine"
	"pawl/store"
)

// echo is the host of a replayed try: it answers every call from the journal, and nothing leaves it.
type echo struct {
	r       *replaying
	n       *host.Node
	rec     *machine.Record
	step    int64
	now     time.Time
	upto    int64
	cause   *pawl.Error       // that the try ended with, as it was recorded
	open    bool              // the try came to no end of its own: what is not recorded ends it
	journal map[string]*entry // the last one of each key
	window  []*entry          // those that this try may have made
	cancel  context.CancelCauseFunc

	mu       sync.Mutex
	over     bool
	keys     map[string]bool
	made     int
	emits    int
	notes    []machine.Entry
	answered bool
	missing  []missed
	found    *Divergence
	fault    error
}

// missed is a call that the journal does not have.
type missed struct{ Kind, Key string }

var (
	_           host.Host = (*echo)(nil)
	errDiverged           = errors.New("engine: the replay has diverged")
)

// echo makes the host of a try whose journal is above from up to upto; below zero: to its end.
func (r *replaying) echo(n *host.Node, step int64, at time.Time, from, upto int64) (*echo, error) {
	x := &echo{r: r, n: n, rec: r.rec, step: step, now: at, upto: upto, journal: map[string]*entry{}, keys: map[string]bool{}}
	q := store.Query{Stream: store.Call, After: from}
	if upto >= 0 {
		if q.Limit = int(upto - from); q.Limit <= 0 {
			return x, nil
		}
	}
	rows, err := r.e.store.Read(r.ctx, r.scope, r.run.ID, q)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		en := &entry{seq: row.Seq}
		if err := unmarshal(row, en); err != nil {
			return nil, fmt.Errorf("journal entry %d: %w", row.Seq, err)
		}
		if en.Visit != r.rec.Visit {
			continue
		}
		x.journal[en.Key] = en
		if row.Seq > r.seen {
			x.window = append(x.window, en)
		}
	}
	return x, nil
}

// uncharged reports whether the node was not begun because its Costs were over a cap.
func (x *echo) uncharged(cause *pawl.Error) bool {
	if len(x.n.Costs) == 0 || cause == nil {
		return false
	}
	var b *pawl.BudgetError
	for _, en := range x.journal {
		if en.Kind == kindCosts {
			return false
		}
	}
	return errors.As(cause.Err, &b)
}

// close ends the try: what the node has left behind is told so.
func (x *echo) close() (found *Divergence, fault error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	return x.found, x.fault
}

// diverges notes the first divergence, and ends the node.
func (x *echo) diverges(d Divergence) error {
	if x.found == nil {
		x.found = &d
	}
	x.cancel(errDiverged)
	return pawl.Permanent(errDiverged)
}

// begin takes a key, and finds what the journal has under it.
func (x *echo) begin(ctx context.Context, key string, kinds ...string) (*entry, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refusal(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), pawl.ErrParked) {
		return nil, context.Cause(ctx)
	}
	if x.keys[key] {
		return nil, fmt.Errorf("%w: %q", pawl.ErrKeyUsed, key)
	}
	if x.made++; x.made > pawl.MaxCalls {
		return nil, exhausted("node %q: more than %d calls in one visit", x.n.Name, pawl.MaxCalls)
	}
	x.keys[key] = true
	en := x.journal[key]
	if en != nil && len(kinds) > 0 && !slices.Contains(kinds, en.Kind) {
		d := x.r.at(DivergedCall, x.step, "%q is a %s, recorded: a %s", key, kinds[0], en.Kind)
		d.Key = key
		return nil, x.diverges(d)
	}
	return en, nil
}

func (x *echo) refusal() error {
	switch {
	case x.found != nil:
		return pawl.Permanent(errDiverged)
	case x.over:
		return pawl.ErrClosed
	}
	return nil
}

// missed is the end of a call that the journal does not have: of a try that came to no end its last one, else a divergence.
func (x *echo) missed(kind, key string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	excused := x.excused(kind, key)
	x.missing = append(x.missing, missed{kind, key})
	switch {
	case x.open:
		x.cancel(pawl.ErrParked)
		return pawl.ErrParked
	case excused:
		return pawl.ErrClosed
	}
	d := x.r.at(DivergedCall, x.step, "the %s %q is not in the journal", kind, key)
	d.Key = key
	return x.diverges(d)
}

// excused reports whether an item of a Map need not be in the journal, or not be made: another one failed, or is missing, and
// those that are not under way then are not begun.
func (x *echo) excused(kind, key string) bool {
	base, ok := item(key)
	if !ok || kind != kindCall {
		return false
	}
	for k, en := range x.journal {
		if b, ok := item(k); ok && b == base && en.Kind == kindCall && en.Err != nil && en.Again == nil {
			return true
		}
	}
	return slices.ContainsFunc(x.missing, func(m missed) bool { b, ok := item(m.Key); return ok && b == base })
}

// item is the key of the Map that a key may be an item of.
func item(key string) (of string, ok bool) {
	if !strings.HasSuffix(key, "]") {
		return "", false
	}
	i := strings.LastIndexByte(key, '[')
	return key[:max(i, 0)], i > 0
}

// result is what an entry recorded, wherever it is kept.
func (x *echo) result(en *entry) ([]byte, error) {
	b, err := x.r.e.result(x.r.ctx, en)
	if err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.fault = fmt.Errorf("journal entry %d: %w", en.seq, err)
		return nil, pawl.Permanent(err)
	}
	return b, nil
}

// Call answers from the journal.
func (x *echo) Call(ctx context.Context, c host.Call, _ func(context.Context) ([]byte, error)) ([]byte, error) {
	if c.Admitted != nil {
		defer c.Admitted()
	}
	en, err := x.begin(ctx, c.Key, kindCall)
	if err != nil {
		return nil, err
	}
	if en != nil {
		want := ""
		if c.For != nil {
			want = hash(c.For)
		}
		if want != en.ForHash {
			return nil, x.otherRequest(c.Key, "the call %q is made for another request", en.For, c.For)
		}
		x.r.used(fmt.Sprint("call ", en.seq), c.Charge, int64(max(en.Physical, 1)))
	}
	if !en.lives(x.rec.Try) {
		if err := unlimited(c); x.cause != nil && x.cause.Error() == err.Error() { // refused before it was made
			return nil, err
		}
		return nil, x.missed(kindCall, c.Key)
	}
	if en.Err != nil {
		if c.Retry.Max > 0 {
			return nil, pawl.Tried(en.Err)
		}
		return nil, en.Err
	}
	return x.result(en)
}

func (x *echo) otherRequest(key, text string, was, is []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.r.at(DivergedRequest, x.step, text, key)
	d.Key, d.Recorded, d.Replayed = key, was, is
	if len(was) > 0 && len(is) > 0 {
		d.Path, d.Recorded, d.Replayed, _ = codec.Differ(was, is)
		d.Text += ": " + place(d.Path)
	}
	return x.diverges(d)
}

// Ask gives the recorded answer.
func (x *echo) Ask(ctx context.Context, a host.Ask) ([]byte, error) {
	en, err := x.begin(ctx, a.Key, kindAnswer, kindDeadline)
	if err != nil {
		return nil, err
	}
	if q, ok := x.r.questions[fmt.Sprint(x.rec.Visit, "/", a.Key)]; ok {
		was := encode(question{Text: q.Text, Choices: q.Choices, Data: q.Data})
		is := encode(question{Text: a.Text, Choices: a.Choices, Data: a.Data})
		if _, _, _, differ := codec.Differ(was, is); differ {
			return nil, x.otherRequest(a.Key, "the question %q is another one", was, is)
		}
	}
	switch {
	case en == nil:
		if _, err := asks(a, x.rec.Visit); err != nil {
			return nil, err
		}
		return nil, x.missed(kindAnswer, a.Key)
	case en.Kind == kindDeadline:
		return nil, fmt.Errorf("question %q: %w", en.Key, pawl.ErrDeadline)
	}
	x.mu.Lock()
	x.answered = true
	x.mu.Unlock()
	return x.result(en)
}

// Sleep has passed where the journal says so, and where there was nothing to wait for.
func (x *echo) Sleep(ctx context.Context, key string, d time.Duration, until time.Time) error {
	en, err := x.begin(ctx, key, kindTimer)
	if err != nil || en != nil {
		return err
	}
	if until.IsZero() && d <= 0 || !until.IsZero() && !until.After(x.now) {
		return nil
	}
	return x.missed(kindTimer, key)
}

// Emit compares what is emitted outside of calls with what was.
func (x *echo) Emit(_ context.Context, typ string, data []byte, lasting bool) error {
	if len(data) > MaxEvent {
		return exhausted("node %q: event %q has %d bytes, at most %d are allowed", x.n.Name, typ, len(data), MaxEvent)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refusal(); err != nil || !lasting {
		return err
	}
	x.emits++
	if d := x.r.emit(x, fmt.Sprint(x.emits), event{Type: typ, Data: data}); d != nil {
		return x.diverges(*d)
	}
	return nil
}

// Note keeps a row for the step log, to be compared.
func (x *echo) Note(_ context.Context, step string, payload []byte) error {
	if len(payload) > MaxEvent {
		return exhausted("node %q: note %q has %d bytes, at most %d are allowed", x.n.Name, step, len(payload), MaxEvent)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refusal(); err != nil {
		return err
	}
	x.notes = append(x.notes, machine.Entry{Name: step, Before: x.rec.Node, After: x.rec.Node, Payload: payload})
	return nil
}

// Charge and Hold count inside of calls only, and those are not made.
func (x *echo) Charge(context.Context, string, int64) error { return pawl.ErrNotInCall }

// Hold is as Charge.
func (x *echo) Hold(context.Context, string, int64) (func(int64), error) {
	return nil, pawl.ErrNotInCall
}

// Annotate adds nothing: what is measured is no part of a replay.
func (x *echo) Annotate(context.Context, ...any) {}

// Now is when the step was committed.
func (x *echo) Now(context.Context) time.Time { return x.now }

// Info says where the node ran.
func (x *echo) Info(context.Context) host.Info {
	r := x.r
	tenant, user := r.owner()
	return host.Info{
		Run: r.run.ID, Node: x.n.Name, Tenant: tenant, User: user, Sensitivity: r.head.Sensitivity,
		Correlation: r.head.Correlation, Attempt: x.rec.Attempt, Visit: int(x.rec.Visit - x.rec.First + 1), Try: x.rec.Try,
		Labels: maps.Clone(r.head.Labels),
	}
}

// Left says how often an edge may still be taken.
func (x *echo) Left(edge string) (int, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.r.p.m.Left(x.rec, edge, x.answered)
}

// IdempotencyKey is empty: there is no call whose function runs.
func (x *echo) IdempotencyKey(context.Context) string { return "" }
