package pawl

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"pawl/internal/codec"
	"pawl/internal/host"
	"pawl/internal/schema"
)

// Question is what a person is asked. Choices are offered, not enforced; Data is shown beside them (what is to be decided
// on); For is how long the question stays open, 0: for ever.
type Question struct {
	Text    string
	Choices []string
	Data    any
	For     time.Duration
}

// Ask puts a question to a person. The run parks, holding no goroutine and no lease, until the first valid answer; it is
// checked against the JSON Schema of A. ErrDeadline means that nobody answered in time. Outside a run and in Execute it
// is an *AskError.
func Ask[A any](ctx context.Context, key string, q Question) (a A, err error) {
	h := host.From(ctx)
	if h == nil {
		return a, &AskError{Question: q}
	}
	if err := keyed(key); err != nil {
		return a, err
	}
	r := host.Ask{Key: key, Text: q.Text, Choices: q.Choices, For: q.For}
	if q.Data != nil {
		if r.Data, err = codec.Encode(q.Data); err != nil {
			return a, Permanent(&Error{Code: CodeInvalid, Text: fmt.Sprintf("question %q: Data: %v", key, err)})
		}
	}
	if r.Schema, err = schema.Of(reflect.TypeFor[A]()); err != nil {
		return a, Permanent(fmt.Errorf("question %q: JSON Schema of the answer: %w", key, err))
	}
	b, err := h.Ask(ctx, r)
	if err != nil {
		return a, err
	}
	return a, codec.Decode(b, &a)
}

// Sleep returns after d. The run parks meanwhile. In Execute nothing waits.
func Sleep(ctx context.Context, key string, d time.Duration) error {
	h := host.From(ctx)
	if h == nil {
		return ErrNotRunning
	}
	if err := keyed(key); err != nil {
		return err
	}
	return h.Sleep(ctx, key, d, time.Time{})
}

// Until returns at t, by the store's clock.
func Until(ctx context.Context, key string, t time.Time) error {
	h := host.From(ctx)
	if h == nil {
		return ErrNotRunning
	}
	if err := keyed(key); err != nil {
		return err
	}
	return h.Sleep(ctx, key, 0, t)
}
