package llm

import (
	"context"
	"errors"
	"strings"
	"time"

	"pawl"
)

// Chain asks the first model, and the next one where an attempt failed for a cause that passes: a rate limit, a time-out, an
// outage. A refusal, a spent quota or a request that nobody can answer is the chain's end: another model is no way around them.
// It has the name of the first.
func Chain(first Model, others ...Model) Model {
	if len(others) == 0 {
		return first
	}
	return chain{models: append([]Model{first}, others...)}
}

type chain struct {
	models []Model
	each   time.Duration // that a model has; 0: what its context has
}

// timed is a model whose every model has a time of its own, so that one that says nothing leaves the next one its own, and the time
// that all of them have.
func timed(m Model, each time.Duration) (Model, time.Duration) {
	c, ok := m.(chain)
	if !ok {
		return m, each
	}
	c.each = each
	return c, each * time.Duration(len(c.models))
}

func (c chain) Ref() Ref { return c.models[0].Ref() }

func (c chain) Generate(ctx context.Context, r Request) (Response, error) {
	return c.try(ctx, r, func(m Model, r Request) (Response, error) { return m.Generate(ctx, r) })
}

func (c chain) Stream(ctx context.Context, r Request, tell func(Delta)) (Response, error) {
	told := false
	return c.try(ctx, r, func(m Model, r Request) (Response, error) {
		if told {
			tell(Delta{Void: true})
		}
		return m.Stream(ctx, r, func(d Delta) {
			told = true
			tell(d)
		})
	})
}

func (c chain) try(ctx context.Context, r Request, ask func(Model, Request) (Response, error)) (Response, error) {
	if r.Within == 0 {
		r.Within = c.each
	}
	var failed []error
	for _, m := range c.models {
		resp, err := ask(m, r)
		if err == nil {
			err = sound(m.Ref(), r, &resp)
		}
		switch {
		case err == nil && len(failed) > 0:
			pawl.Annotate(ctx, "fallback", m.Ref().String(), "fallback_from", texts(failed))
			return resp, nil
		case err == nil || foreign(err) || ctx.Err() != nil:
			return resp, err
		}
		failed = append(failed, err)
		if !passing(Code(err)) {
			break
		}
	}
	if len(failed) == 1 {
		return Response{}, failed[0]
	}
	return Response{}, all(failed)
}

// foreign says whether an error is not a model's: a spent budget, a run that ends.
func foreign(err error) bool {
	var b *pawl.BudgetError
	return errors.As(err, &b) || Code(err) == ""
}

// all is the failure of every model that was asked. The first of them failed for a cause that passes, so the chain may be tried
// again, after the shortest time that one of them wants.
func all(failed []error) error {
	after, said := time.Duration(0), false
	for _, err := range failed {
		if d, ok := pawl.Retryable(err); ok && d > 0 && (!said || d < after) {
			after, said = d, true
		}
	}
	err := error(&pawl.Error{Code: Code(failed[0]), Op: "generate", Text: texts(failed)})
	if said {
		return pawl.RetryAfter(err, after)
	}
	return err
}

func texts(errs []error) string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return strings.Join(out, "; then ")
}
