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

// local is the host of Execute: it counts and refuses as an engine does, and records nothing.
type local struct {
	parent *local
	mu     *sync.Mutex // of the outermost execution: a charge counts in every ancestor at once
	caps   map[string]int64
	used   map[string]int64
	keys   map[string]bool
	calls  int
	info   host.Info
	left   func(string) (int, bool)
	later  []func()
	owned  bool // caps is this execution's own copy
	depth  int
}

var _ host.Host = (*local)(nil)

type inCall struct{ key string }
type inCallKey struct{}

func callOf(ctx context.Context) *inCall { c, _ := ctx.Value(inCallKey{}).(*inCall); return c }

func localOf(ctx context.Context) *local { l, _ := host.From(ctx).(*local); return l }

func (l *local) share() {
	if l.parent == nil {
		l.mu = new(sync.Mutex)
		return
	}
	l.mu, l.depth = l.parent.mu, l.parent.depth+1
}

func (l *local) visit(node string) {
	l.info.Node, l.info.Visit = node, l.info.Visit+1
	l.calls = 0
}

func (l *local) try(n int) {
	l.info.Try = n
	clear(l.keys)
	l.later = nil
}

// background executes, in place, what the node that just ended has enqueued.
func (l *local) background() {
	for _, f := range l.later {
		f()
	}
	l.later = nil
}

// count charges all or nothing, here and in every ancestor.
func (l *local) count(b Budget) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m, n := range b {
		for o := l; o != nil; o = o.parent {
			if limit, ok := o.caps[m]; ok && o.used[m]+n > limit {
				return &BudgetError{Meter: m, Used: o.used[m], Cap: limit}
			}
		}
	}
	for m, n := range b {
		for o := l; o != nil; o = o.parent {
			if o.used == nil {
				o.used = map[string]int64{}
			}
			o.used[m] += n
		}
	}
	return nil
}

func (l *local) use(key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys[key] {
		return fmt.Errorf("%w: %q", ErrKeyUsed, key)
	}
	if l.calls++; l.calls > MaxCalls {
		return Permanent(&Error{Code: CodeExhausted, Text: fmt.Sprintf("more than %d calls in one visit", MaxCalls)})
	}
	if l.keys == nil {
		l.keys = map[string]bool{}
	}
	l.keys[key] = true
	return nil
}

func (l *local) Call(ctx context.Context, c host.Call, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	if c.Admitted != nil {
		defer c.Admitted()
	}
	if callOf(ctx) != nil {
		return nil, ErrNested
	}
	if err := l.use(c.Key); err != nil {
		return nil, err
	}
	inside := context.WithValue(ctx, inCallKey{}, &inCall{key: c.Key})
	for try := 0; ; try++ {
		if err := l.count(c.Charge); err != nil {
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

func (l *local) Ask(_ context.Context, a host.Ask) ([]byte, error) {
	if err := l.use(a.Key); err != nil {
		return nil, err
	}
	q := Question{Text: a.Text, Choices: a.Choices, For: a.For}
	if a.Data != nil {
		q.Data = json.RawMessage(a.Data)
	}
	return nil, &AskError{Question: q}
}

func (l *local) Sleep(ctx context.Context, key string, _ time.Duration, _ time.Time) error {
	if callOf(ctx) != nil {
		return ErrNested
	}
	return l.use(key)
}

func (l *local) Children(ctx context.Context, f host.Family) ([]host.Child, error) {
	if callOf(ctx) != nil {
		return nil, ErrNested
	}
	if l.mu == nil { // outside any run
		l.mu = new(sync.Mutex)
	}
	if err := l.use(f.Key); err != nil {
		return nil, err
	}
	if l.depth >= MaxDepth {
		return nil, Permanent(&Error{Code: CodeExhausted, Text: fmt.Sprintf("children more than %d deep", MaxDepth)})
	}
	out := make([]host.Child, f.N)
	for i := range out {
		in, err := f.Input(i)
		if err != nil {
			return nil, Permanent(err)
		}
		b, err := f.Program.Exec(ctx, in)
		if err != nil {
			if asked := waiting(err); asked != nil {
				return nil, asked
			}
			out[i].Err = childError(f.Program.Shape.Name, err)
			if !f.Collect {
				return nil, out[i].Err
			}
		}
		out[i].Output = b
	}
	return out, nil
}

func (l *local) Enqueue(ctx context.Context, e host.Enqueue) (string, error) {
	if callOf(ctx) != nil {
		return "", ErrNested
	}
	if err := l.use(e.Key); err != nil {
		return "", err
	}
	if l.depth >= MaxGenerations {
		return "", Permanent(&Error{Code: CodeExhausted, Text: fmt.Sprintf("background runs more than %d deep", MaxGenerations)})
	}
	l.later = append(l.later, func() {
		// Its budgets are its own and nobody waits for it: an end without success concerns nobody here.
		_, _ = e.Program.Exec(host.With(ctx, &local{mu: new(sync.Mutex), depth: l.depth + 1}), e.Input)
	})
	return fmt.Sprintf("background-%d-%s", l.info.Visit, e.Key), nil
}

func (l *local) Emit(context.Context, string, []byte, bool) error { return nil }
func (l *local) Note(context.Context, string, []byte) error       { return nil }
func (l *local) Annotate(context.Context, ...any)                 {}
func (l *local) Now(context.Context) time.Time                    { return time.Time{} }
func (l *local) Info(context.Context) host.Info                   { return l.info }

func (l *local) Left(edge string) (int, bool) {
	if l.left == nil {
		return 0, false
	}
	return l.left(edge)
}

func (l *local) Charge(ctx context.Context, meter string, n int64) error {
	if callOf(ctx) == nil {
		return ErrNotInCall
	}
	return l.count(Budget{meter: n})
}

func (l *local) Hold(ctx context.Context, meter string, n int64) (func(int64), error) {
	if err := l.Charge(ctx, meter, n); err != nil {
		return nil, err
	}
	var once sync.Once
	return func(spent int64) {
		once.Do(func() {
			spent = min(max(spent, 0), n)
			l.mu.Lock()
			defer l.mu.Unlock()
			for o := l; o != nil; o = o.parent {
				o.used[meter] -= n - spent
			}
		})
	}, nil
}

func (l *local) Cap(_ context.Context, meter string, n int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.owned {
		l.caps, l.owned = maps.Clone(l.caps), true
		if l.caps == nil {
			l.caps = map[string]int64{}
		}
	}
	if old, ok := l.caps[meter]; !ok || n < old {
		l.caps[meter] = n
	}
	return nil
}

func (l *local) Remaining(_ context.Context, meter string) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	least := int64(math.MaxInt64)
	for o := l; o != nil; o = o.parent {
		if limit, ok := o.caps[meter]; ok {
			least = min(least, max(limit-o.used[meter], 0))
		}
	}
	if least == math.MaxInt64 {
		return -1, nil
	}
	return least, nil
}

func (l *local) IdempotencyKey(ctx context.Context) string {
	c := callOf(ctx)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s/%d/%s", l.info.Node, l.info.Visit, c.key)
}
