package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
)

func number(n int) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return n, nil }
}

func TestKeysAreUsedOnce(t *testing.T) {
	child := one(pawl.Options{}, keep)
	tries := 0
	g := one(pawl.Options{Retry: pawl.Retry{Max: 1}}, func(ctx context.Context, s box) (box, error) {
		tries++
		for name, use := range map[string]func(key string) error{
			"Do": func(k string) error { _, err := pawl.Do(ctx, k, number(1)); return err },
			"Map": func(k string) error {
				_, err := pawl.Map(ctx, k, []int{1}, 1, func(context.Context, int) (int, error) { return 0, nil })
				return err
			},
			"Sleep":   func(k string) error { return pawl.Sleep(ctx, k, time.Hour) },
			"Until":   func(k string) error { return pawl.Until(ctx, k, time.Time{}) },
			"Call":    func(k string) error { _, err := pawl.Call(ctx, k, child, 1); return err },
			"Enqueue": func(k string) error { _, err := pawl.Enqueue(ctx, k, child, 1); return err },
		} {
			if err := use(name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := use(name); !errors.Is(err, pawl.ErrKeyUsed) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: the second time: %v", name, err)
			}
			if err := use(""); codeOf(err) != pawl.CodeInvalid {
				t.Errorf("%s: without a key: %v", name, err)
			}
		}
		if tries == 1 {
			return s, errOut // the keys are free again in the next try
		}
		_, err := pawl.Do(ctx, "Do", number(1))
		return s, err
	})
	if _, err := pawl.Execute(t.Context(), g, 0); !errors.Is(err, pawl.ErrKeyUsed) || tries != 2 {
		t.Error(tries, err)
	}
}

func TestNestedCallsAreRefused(t *testing.T) {
	child := one(pawl.Options{}, keep)
	inside(t, pawl.Options{}, func(ctx context.Context) {
		if _, err := pawl.Do(ctx, "outer", func(ctx context.Context) (int, error) {
			_, do := pawl.Do(ctx, "a", number(1))
			_, all := pawl.Map(ctx, "b", []int{1}, 1, func(context.Context, int) (int, error) { return 0, nil })
			_, ask := pawl.Ask[string](ctx, "c", pawl.Question{})
			_, call := pawl.Call(ctx, "d", child, 1)
			_, later := pawl.Enqueue(ctx, "e", child, 1)
			for i, err := range []error{do, all, ask, call, later, pawl.Sleep(ctx, "f", 1), pawl.Until(ctx, "g", time.Time{})} {
				if !errors.Is(err, pawl.ErrNested) {
					t.Errorf("%d: %v", i, err)
				}
			}
			// Another graph, executed in place, is no call of this run and has calls of its own.
			_, err := pawl.Execute(ctx, one(pawl.Options{}, func(ctx context.Context, s box) (box, error) {
				if err := pawl.Charge(ctx, "x", 1); !errors.Is(err, pawl.ErrNotInCall) {
					t.Error(err)
				}
				_, err := pawl.Do(ctx, "outer", number(1))
				return s, err
			}), 1)
			return 0, err
		}); err != nil {
			t.Error(err)
		}
	})
}

// TestCallsAfterTheNode: a goroutine that outlives its node can do nothing for it any more.
func TestCallsAfterTheNode(t *testing.T) {
	over, looked := make(chan struct{}), make(chan struct{})
	child := one(pawl.Options{}, keep)
	g := blank("g", capped("llm", 9))
	a := g.Node("a", func(ctx context.Context, s box) (box, error) {
		go func() {
			defer close(looked)
			<-over
			_, do := pawl.Do(ctx, "a", number(1))
			_, later := pawl.Enqueue(ctx, "b", child, 1)
			for i, err := range []error{do, later, pawl.Sleep(ctx, "c", 1), pawl.Emit(ctx, "d", 1), pawl.Note(ctx, "e", 1), pawl.Cap(ctx, "llm", 0)} {
				if !errors.Is(err, pawl.ErrClosed) {
					t.Errorf("%d: %v", i, err)
				}
			}
			if pawl.Info(ctx).Left("otherwise") != 0 {
				t.Error("edges of a node that has ended")
			}
		}()
		return s, nil
	})
	b := g.Node("b", func(ctx context.Context, s box) (box, error) {
		close(over)
		<-looked
		if remaining(t, ctx, "llm") != 9 {
			t.Error("the cap was lowered")
		}
		return s, charged(ctx, "a", "llm", 1)
	})
	g.Start(a, start)
	g.From(a).Otherwise(b)
	g.From(b).Otherwise(g.Succeed("DONE"))
	if _, err := pawl.Execute(t.Context(), g, 0); err != nil {
		t.Error(err)
	}
}

// TestResultsAreInTheirRecordedForm on the first execution too: what a crash would change is changed at once.
func TestResultsAreInTheirRecordedForm(t *testing.T) {
	type result struct {
		Kept    string
		dropped string
		When    time.Time
	}
	inside(t, pawl.Options{}, func(ctx context.Context) {
		now := time.Now() // with a monotonic clock
		r, err := pawl.Do(ctx, "a", func(context.Context) (result, error) { return result{"k", "d", now}, nil })
		if err != nil || r.Kept != "k" || r.dropped != "" || r.When == now || !r.When.Equal(now) {
			t.Errorf("%+v, %v", r, err)
		}
		text, err := pawl.Do(ctx, "nul", func(context.Context) (string, error) { return "a\x00b", nil })
		if err != nil || text != "a\x00b" {
			t.Errorf("%q, %v", text, err)
		}
		tries := 0
		if _, err := pawl.Do(ctx, "b", func(context.Context) (any, error) { tries++; return map[string]any{"f": func() {}}, nil },
			pawl.CallOptions{Retry: pawl.Retry{Max: 3}}); codeOf(err) != pawl.CodeInvalid || !strings.Contains(err.Error(), `call "b": result: field .f: a func`) || tries != 1 {
			t.Error(tries, err)
		}
		_, err = pawl.Do(ctx, "c", func(context.Context) (int, error) {
			return 0, fmt.Errorf("page 3: %w", pawl.RetryAfter(&pawl.Error{Code: "own", Node: "n", Err: errOut}, 1500*time.Millisecond))
		})
		var e *pawl.Error
		if !errors.As(err, &e) || e.Code != "own" || e.Text != "page 3: out of paper" || errors.Is(err, errOut) {
			t.Errorf("%#v", err)
		}
		if after, again := pawl.Retryable(err); !again || after != 1500*time.Millisecond {
			t.Error("its Retry-After is lost", after, again)
		}
		_, err = pawl.Do(ctx, "d", func(context.Context) (int, error) { return 0, &pawl.BudgetError{Meter: "m", Used: 1, Cap: 2} })
		var b *pawl.BudgetError
		if !errors.As(err, &b) || *b != (pawl.BudgetError{Meter: "m", Used: 1, Cap: 2}) {
			t.Errorf("%#v", err)
		}
	})
}

// TestRetriesHaveOneOwner: a call with retries of its own is not tried again by its node.
func TestRetriesHaveOneOwner(t *testing.T) {
	for _, c := range []struct{ call, want int }{{2, 3}, {0, 4}} {
		made, keys := 0, map[string]bool{}
		g := one(pawl.Options{Retry: pawl.Retry{Max: 3}}, func(ctx context.Context, s box) (box, error) {
			_, err := pawl.Do(ctx, "a", func(ctx context.Context) (int, error) {
				made++
				keys[pawl.IdempotencyKey(ctx)] = true
				return 0, errOut
			}, pawl.CallOptions{Retry: pawl.Retry{Max: c.call, First: time.Hour}})
			return s, err
		})
		if _, err := pawl.Execute(t.Context(), g, 0); err == nil || made != c.want {
			t.Errorf("a call with %d retries was made %d times, want %d", c.call, made, c.want)
		}
		if len(keys) != 1 || keys[""] {
			t.Errorf("idempotency keys %v: one call has one", keys)
		}
	}
	if k := pawl.IdempotencyKey(t.Context()); k != "" {
		t.Errorf("outside a call: %q", k)
	}
}

func TestCallCap(t *testing.T) {
	g := one(pawl.Options{Retry: pawl.Retry{Max: 3}}, func(ctx context.Context, s box) (box, error) {
		for i := range pawl.MaxCalls {
			if err := pawl.Sleep(ctx, fmt.Sprint(i), 1); err != nil {
				return s, err
			}
		}
		_, err := pawl.Do(ctx, "one more", number(1))
		if s.N = 1; codeOf(err) != pawl.CodeExhausted {
			t.Error(err)
		}
		return s, err
	})
	if _, err := pawl.Execute(t.Context(), g, 0); codeOf(err) != pawl.CodeExhausted {
		t.Error(err)
	}
}

func TestMap(t *testing.T) {
	inside(t, capped("llm", 100), func(ctx context.Context) {
		items := make([]int, 60)
		for i := range items {
			items[i] = i
		}
		var now, most atomic.Int32
		out, err := pawl.Map(ctx, "order", items, 7, func(_ context.Context, i int) (int, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			return i * i, nil
		}, pawl.CallOptions{Charge: pawl.Budget{"llm": 1}})
		if err != nil || len(out) != 60 || out[7] != 49 || out[59] != 59*59 || most.Load() > 7 {
			t.Error(out, err, most.Load())
		}
		// 40 units are left for 60 items: they are charged in the order of the items.
		var made sync.Map
		out, err = pawl.Map(ctx, "charges", items, 5, func(_ context.Context, i int) (int, error) { made.Store(i, true); return 1, nil },
			pawl.CallOptions{Charge: pawl.Budget{"llm": 1}})
		if _, money := pawl.IsBudget(0, err); !money || !strings.HasPrefix(err.Error(), "item 40: ") {
			t.Error(err)
		}
		for i := range items {
			if _, ok := made.Load(i); ok != (i < 40) || (out[i] == 1) != (i < 40) {
				t.Errorf("item %d: made %v, result %d", i, ok, out[i])
			}
		}
		if out, err := pawl.Map(ctx, "none", nil, 0, func(context.Context, int) (int, error) { return 0, nil }); err != nil || len(out) != 0 {
			t.Error(out, err)
		}
	})
}

// TestMapEndsAtTheFirstError: no further item starts, those under way end, and of several errors the first in item order
// is told, not the first in time.
func TestMapEndsAtTheFirstError(t *testing.T) {
	for _, in := range []context.Context{t.Context(), nil} {
		check := func(ctx context.Context) {
			second := make(chan struct{})
			out, err := pawl.Map(ctx, "m", []int{0, 1, 2}, 3, func(_ context.Context, i int) (int, error) {
				switch i {
				case 1:
					<-second
					return 0, errors.New("first")
				case 2:
					close(second)
					return 0, errors.New("second")
				}
				<-second
				return 10, nil
			})
			if err == nil || err.Error() != "item 1: first" || out[0] != 10 {
				t.Error(out, err)
			}
		}
		if in != nil {
			check(in) // outside a run
			continue
		}
		inside(t, pawl.Options{}, check)
	}
	inside(t, pawl.Options{}, func(ctx context.Context) {
		made := 0
		_, err := pawl.Map(ctx, "m", make([]int, 50), 1, func(context.Context, int) (int, error) { made++; return 0, errOut })
		if err == nil || made != 1 {
			t.Errorf("%d items after the first error, %v", made, err)
		}
	})
}

func TestCallsOutsideARun(t *testing.T) {
	ctx := t.Context()
	n, err := pawl.Do(ctx, "", func(context.Context) (func() int, error) { return func() int { return 7 }, nil })
	if err != nil || n() != 7 {
		t.Error("Do just calls", err)
	}
	if _, err := pawl.Do(ctx, "a", func(context.Context) (int, error) { return 0, errOut }); err != errOut { //nolint:errorlint // the very same
		t.Error(err)
	}
	out, err := pawl.Map(ctx, "", []int{1, 2}, 0, func(_ context.Context, i int) (int, error) { return -i, nil })
	if err != nil || !reflect.DeepEqual(out, []int{-1, -2}) {
		t.Error(out, err)
	}
	if err := errors.Join(pawl.Emit(ctx, "x", func() {}), pawl.Delta(ctx, "x", 1), pawl.Note(ctx, "x", 1)); err != nil {
		t.Error(err)
	}
	pawl.Annotate(ctx, "k", 1)
	if !pawl.Now(ctx).IsZero() {
		t.Error("a clock outside a run")
	}
	for _, err := range []error{pawl.Sleep(ctx, "a", 1), pawl.Until(ctx, "b", time.Time{})} {
		if !errors.Is(err, pawl.ErrNotRunning) {
			t.Error(err)
		}
	}
	if _, err := pawl.Enqueue(ctx, "a", line(1), 1); !errors.Is(err, pawl.ErrNotRunning) {
		t.Error(err)
	}
	if _, err := pawl.Ask[int](ctx, "a", pawl.Question{Text: "?"}); !errors.Is(err, pawl.ErrNotRunning) {
		t.Error(err)
	}
	if out, err := pawl.Call(ctx, "a", line(3), 4); err != nil || out != 7 {
		t.Error(out, err)
	}
}

func TestAskIsNotClaimed(t *testing.T) {
	type advice struct{ Text string }
	ask := func(ctx context.Context, s box) (box, error) {
		a, err := pawl.Ask[advice](ctx, "a", pawl.Question{Text: "How?", Data: map[string]int{"n": 1}, For: time.Hour})
		s.Text = a.Text
		return s, err
	}
	g := blank("g", pawl.Options{Retry: pawl.Retry{Max: 3}})
	n, done := g.Node("person", ask), g.Succeed("DONE")
	g.Start(n, start)
	g.From(n).OnError("any", pawl.IsAny, done).OnAnswer("again", n).Otherwise(done)
	parent := blank("parent", pawl.Options{})
	sub := pawl.Each(parent, "each", g, pawl.Fan[box, int, box]{
		Items: func(box) ([]int, error) { return []int{1, 2}, nil }, Collect: true,
		Join: func(s box, _ []pawl.Result[box]) (box, error) { return s, nil },
	})
	end := parent.Succeed("DONE")
	parent.Start(sub, start)
	parent.From(sub).OnError("any", pawl.IsAny, end).Otherwise(end)
	for _, g := range []*graph{g, parent} {
		_, err := pawl.Execute(t.Context(), g, 0)
		var q *pawl.AskError
		if !errors.As(err, &q) || q.Question.Text != "How?" || q.Question.For != time.Hour || codeOf(err) != pawl.CodeWaiting || pawl.Coded(err).Node != "person" {
			t.Errorf("%v", err)
		}
	}
}
