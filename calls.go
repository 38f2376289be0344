package pawl

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"pawl/internal/codec"
	"pawl/internal/host"
)

// CallOptions of one outside call.
type CallOptions struct {
	For     any           // the request: recorded, and compared when the key is met again
	Retry   Retry         // tries of this call; with Max above 0 the node's retries are not spent on it as well
	Timeout time.Duration // of one try
	Charge  Budget        // for every physical try, before it
	Limit   string        // name of a limit that all workers share, set in the engine's configuration
}

// Do makes an outside call and records its end: after a crash the result is read, not made again. The key is used once
// in an execution; a loop puts the item into it. What must be tried again together stands in one fn.
//
// Results and errors come back in their recorded form on the first execution too: values through JSON, errors as coded
// *Error (a *BudgetError or *RunError inside stays). Outside a run Do just calls.
func Do[T any](ctx context.Context, key string, fn func(context.Context) (T, error), o ...CallOptions) (t T, err error) {
	h := host.From(ctx)
	if h == nil {
		return fn(ctx)
	}
	c, err := call(key, first(o))
	if err != nil {
		return t, err
	}
	return do(ctx, h, c, fn)
}

func do[T any](ctx context.Context, h host.Host, c host.Call, fn func(context.Context) (T, error)) (t T, err error) {
	b, err := h.Call(ctx, c, func(ctx context.Context) ([]byte, error) {
		v, err := safely(ctx, c.Key, fn)
		if err != nil {
			return nil, err
		}
		out, err := codec.Encode(&v)
		if err != nil {
			return nil, Permanent(&Error{Code: CodeInvalid, Text: fmt.Sprintf("call %q: result: %v", c.Key, err)})
		}
		return out, nil
	})
	if err != nil {
		return t, err
	}
	if err := codec.Decode(b, &t); err != nil {
		return t, Permanent(fmt.Errorf("call %q: recorded result: %w", c.Key, err))
	}
	return t, nil
}

// safely makes a panic of a call's function that call's error: Map runs it in goroutines of its own, where a panic would
// end the process.
func safely[T any](ctx context.Context, key string, fn func(context.Context) (T, error)) (t T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked(fmt.Sprintf("call %q", key), r)
		}
	}()
	return fn(ctx)
}

// keyed refuses an empty key.
func keyed(key string) error {
	if key == "" {
		return Permanent(&Error{Code: CodeInvalid, Text: "a call needs a key"})
	}
	if !utf8.ValidString(key) {
		return Permanent(&Error{Code: CodeInvalid, Text: fmt.Sprintf("the key %q is not UTF-8", key)})
	}
	return nil
}

func call(key string, o CallOptions) (host.Call, error) {
	c := host.Call{Key: key, Retry: retry(o.Retry, Retry{}), Timeout: o.Timeout, Charge: o.Charge, Limit: o.Limit}
	if err := keyed(key); err != nil {
		return c, err
	}
	for m, n := range o.Charge {
		if n < 0 {
			return c, Permanent(&Error{Code: CodeInvalid, Text: fmt.Sprintf("call %q: a charge of %d %s: it is not negative", key, n, m)})
		}
	}
	if o.For != nil {
		b, err := codec.Encode(o.For)
		if err != nil {
			return c, Permanent(&Error{Code: CodeInvalid, Text: fmt.Sprintf("call %q: For: %v", key, err)})
		}
		c.For = b
	}
	return c, nil
}

// Map is Do for every item, at most limit at a time (0: 8); results are in item order. Charges are made in item order.
// After a failure no further item starts; those under way run to their end, and the first error in item order is
// returned beside the results that there are. A crash keeps the finished items.
func Map[T, R any](ctx context.Context, key string, items []T, limit int, fn func(context.Context, T) (R, error), o ...CallOptions) ([]R, error) {
	if err := keyed(key); err != nil && host.From(ctx) != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = 8
	}
	out, errs := make([]R, len(items)), make([]error, len(items))
	var (
		wg     sync.WaitGroup
		places = make(chan struct{}, limit)
		failed = make(chan struct{})
		once   sync.Once
	)
	for i, item := range items {
		select {
		case <-failed:
		case places <- struct{}{}:
		}
		select {
		case <-failed:
		default:
			admitted := make(chan struct{})
			wg.Go(func() {
				defer func() { <-places }()
				var open sync.Once
				admit := func() { open.Do(func() { close(admitted) }) }
				defer admit()
				out[i], errs[i] = one(ctx, key, i, item, fn, first(o), admit)
				if errs[i] != nil {
					once.Do(func() { close(failed) })
				}
			})
			<-admitted
			continue
		}
		break
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return out, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return out, nil
}

func one[T, R any](ctx context.Context, key string, i int, item T, fn func(context.Context, T) (R, error), o CallOptions, admit func()) (r R, err error) {
	h, k := host.From(ctx), key+"["+strconv.Itoa(i)+"]"
	each := func(ctx context.Context) (R, error) { return fn(ctx, item) }
	if h == nil {
		admit()
		return safely(ctx, k, each)
	}
	if o.For == nil {
		o.For = item
	}
	c, err := call(k, o)
	if err != nil {
		return r, err
	}
	c.Admitted = admit
	return do(ctx, h, c, each)
}
