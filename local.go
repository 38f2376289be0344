package pawl

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"pawl/internal/host"
)

// local is one run of Execute: it counts as an engine does, and records nothing.
type local struct {
	parent     *local
	mu         *sync.Mutex // of the outermost execution: a charge counts in every ancestor at once
	caps       map[string]int64
	used       map[string]int64
	owned      bool // caps is this run's own copy
	depth      int  // of children
	generation int  // of background runs
	info       host.Info
	calls      int // of the visit under way
	left       func(edge string) (int, bool)
}

// sitting is the host of one execution of a node. Goroutines that outlive it find it closed.
type sitting struct {
	*local
	node       string
	visit, try int
	closed     bool // this and what follows under mu
	keys       map[string]bool
	later      []func(context.Context)
}

var _ host.Host = (*sitting)(nil)

type inCall struct {
	in  *local
	key string
}
type inCallKey struct{}

// callOf is the call of this run that ctx belongs to. One of a run around it is none: Execute inside a call's function
// is a run of its own.
func (l *local) callOf(ctx context.Context) *inCall {
	if c, _ := ctx.Value(inCallKey{}).(*inCall); c != nil && c.in == l {
		return c
	}
	return nil
}

func localOf(ctx context.Context) *local {
	if s, ok := host.From(ctx).(*sitting); ok {
		return s.local
	}
	return nil
}

// newLocal is a run under parent, or the outermost one.
func newLocal(parent *local, caps map[string]int64) *local {
	if parent == nil {
		return &local{mu: new(sync.Mutex), caps: caps, info: host.Info{Attempt: 1}}
	}
	l := &local{
		parent: parent, mu: parent.mu, caps: caps, depth: parent.depth + 1, generation: parent.generation, info: parent.info,
	}
	l.info.Attempt = 1
	return l
}

// close ends the sitting and hands out what it has put off.
func (t *sitting) close() []func(context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.later
}

// count charges all or nothing, here and in every ancestor.
func (l *local) count(b Budget) error {
	if len(b) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var over *BudgetError
	for m, n := range b {
		for o := l; o != nil; o = o.parent {
			// The subtraction cannot overflow, an addition could. Of several spent meters the first by name is told.
			if limit, ok := o.caps[m]; ok && n > 0 && n > limit-o.used[m] && (over == nil || m < over.Meter) {
				over = &BudgetError{Meter: m, Used: o.used[m], Cap: limit}
			}
		}
	}
	if over != nil {
		return over
	}
	for m, n := range b {
		for o := l; o != nil; o = o.parent {
			if o.used == nil {
				o.used = map[string]int64{}
			}
			o.used[m] = min(o.used[m], math.MaxInt64-n) + n
		}
	}
	return nil
}

func (l *local) spent(meter string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used[meter]
}

// begin admits a call under a key of its own.
func (t *sitting) begin(ctx context.Context, key string) error {
	if t.callOf(ctx) != nil {
		return ErrNested
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return ErrClosed
	case t.keys[key]:
		return fmt.Errorf("%w: %q", ErrKeyUsed, key)
	}
	if t.calls++; t.calls > MaxCalls {
		return Permanent(&Error{Code: CodeExhausted, Text: fmt.Sprintf("more than %d calls in one visit", MaxCalls)})
	}
	if t.keys == nil {
		t.keys = map[string]bool{}
	}
	t.keys[key] = true
	return nil
}

func (t *sitting) Call(ctx context.Context, c host.Call, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	if c.Admitted != nil {
		defer c.Admitted()
	}
	if err := t.begin(ctx, c.Key); err != nil {
		return nil, err
	}
	inside := context.WithValue(ctx, inCallKey{}, &inCall{in: t.local, key: c.Key})
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil { // a run that is stopped makes no new calls
			return nil, err
		}
		if err := t.count(c.Charge); err != nil {
			return nil, recorded(err)
		}
		if c.Admitted != nil {
			c.Admitted()
		}
		b, err := fn(inside)
		if err == nil {
			return b, nil
		}
		if _, ok := Retryable(err); ok && try < c.Retry.Max && ctx.Err() == nil {
			continue
		}
		if c.Retry.Max > 0 {
			err = Tried(err)
		}
		return nil, recorded(err)
	}
}

// recorded is an error as it would come out of the journal.
func recorded(err error) error {
	b, merr := json.Marshal(Coded(err))
	if merr != nil {
		return err
	}
	e := new(Error)
	if json.Unmarshal(b, e) != nil {
		return err
	}
	return e
}

func (t *sitting) Ask(ctx context.Context, a host.Ask) ([]byte, error) {
	if err := t.begin(ctx, a.Key); err != nil {
		return nil, err
	}
	q := Question{Text: a.Text, Choices: a.Choices, For: a.For}
	if a.Data != nil {
		q.Data = json.RawMessage(a.Data)
	}
	return nil, &AskError{Question: q}
}

func (t *sitting) Sleep(ctx context.Context, key string, _ time.Duration, _ time.Time) error {
	return t.begin(ctx, key)
}

func (t *sitting) Children(ctx context.Context, f host.Family) ([]host.Child, error) {
	if err := t.begin(ctx, f.Key); err != nil {
		return nil, err
	}
	if t.depth >= MaxDepth {
		return nil, Permanent(&Error{Code: CodeExhausted, Text: fmt.Sprintf("children more than %d deep", MaxDepth)})
	}
	out := make([]host.Child, f.N)
	for i := range out {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		in, err := f.Input(i)
		if err != nil {
			return nil, err
		}
		out[i].Output, err = f.Program.Exec(ctx, in)
		if asked(err) {
			return nil, err // the parent waits as well: its own end is not this child's failure
		}
		if out[i].Err = err; err != nil && !f.Collect {
			return nil, err
		}
	}
	return out, nil
}

func (t *sitting) Enqueue(ctx context.Context, e host.Enqueue) (string, error) {
	if err := t.begin(ctx, e.Key); err != nil {
		return "", err
	}
	if t.generation >= MaxGenerations {
		return "", Permanent(&Error{Code: CodeExhausted, Text: fmt.Sprintf("background runs more than %d deep", MaxGenerations)})
	}
	var o StartOptions
	if err := json.Unmarshal(e.Options, &o); err != nil {
		return "", Permanent(err)
	}
	// Not a child: its budgets are its own, and only these options lower them. Execute counts the depth up to 0 again.
	above := &local{mu: new(sync.Mutex), caps: map[string]int64{}, depth: -1, generation: t.generation + 1, info: t.info}
	for m, n := range o.Budget {
		above.caps[m] = max(n, 0)
	}
	above.info.Labels, above.info.Sensitivity, above.info.Correlation = o.Labels, o.Sensitivity, o.Correlation
	t.mu.Lock()
	defer t.mu.Unlock()
	t.later = append(t.later, func(ctx context.Context) {
		_, _ = e.Program.Exec(host.With(ctx, &sitting{local: above}), e.Input) // nobody waits for it: its end concerns nobody here
	})
	return fmt.Sprintf("background-%d-%s", t.visit, e.Key), nil
}

func (t *sitting) Emit(context.Context, string, []byte, bool) error { return t.open() }
func (t *sitting) Note(context.Context, string, []byte) error       { return t.open() }
func (t *sitting) Annotate(context.Context, ...any)                 {}
func (t *sitting) Now(context.Context) time.Time                    { return time.Time{} }

func (t *sitting) open() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	return nil
}

func (t *sitting) Info(context.Context) host.Info {
	i := t.info
	i.Node, i.Visit, i.Try = t.node, t.visit, t.try
	return i
}

func (t *sitting) Left(edge string) (int, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left == nil || t.closed {
		return 0, false
	}
	return t.left(edge)
}

func (t *sitting) Charge(ctx context.Context, meter string, n int64) error {
	if t.callOf(ctx) == nil {
		return ErrNotInCall
	}
	if err := t.open(); err != nil {
		return err
	}
	return t.count(Budget{meter: n})
}

func (t *sitting) Hold(ctx context.Context, meter string, n int64) (func(int64), error) {
	if err := t.Charge(ctx, meter, n); err != nil {
		return nil, err
	}
	var once sync.Once
	return func(spent int64) {
		once.Do(func() {
			spent = min(max(spent, 0), n)
			t.mu.Lock()
			defer t.mu.Unlock()
			for o := t.local; o != nil; o = o.parent {
				o.used[meter] -= n - spent
			}
		})
	}, nil
}

func (t *sitting) Cap(_ context.Context, meter string, n int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	if !t.owned {
		t.caps, t.owned = maps.Clone(t.caps), true
		if t.caps == nil {
			t.caps = map[string]int64{}
		}
	}
	if old, ok := t.caps[meter]; !ok || n < old {
		t.caps[meter] = n
	}
	return nil
}

func (t *sitting) Remaining(_ context.Context, meter string) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	least := int64(-1)
	for o := t.local; o != nil; o = o.parent {
		if limit, ok := o.caps[meter]; ok {
			if left := max(limit-o.used[meter], 0); least < 0 || left < least {
				least = left
			}
		}
	}
	return least, nil
}

func (t *sitting) IdempotencyKey(ctx context.Context) string {
	c := t.callOf(ctx)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s/%d/%s", t.node, t.visit, c.key)
}
