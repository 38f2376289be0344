package pawl

import (
	"context"
	"fmt"
	"time"

	"pawl/internal/codec"
	"pawl/internal/host"
)

// Emit makes an event visible at once, and lasting. It is numbered in its visit: a re-run that emits the same adds
// nothing; other data is added and noted as diverged. Outside a run it does nothing.
func Emit(ctx context.Context, typ string, data any) error { return emit(ctx, typ, data, true) }

// Delta is an event for live watchers only, such as a piece of a token stream.
func Delta(ctx context.Context, typ string, data any) error { return emit(ctx, typ, data, false) }

func emit(ctx context.Context, typ string, data any, lasting bool) error {
	h := host.From(ctx)
	if h == nil {
		return nil
	}
	if err := named("event type", typ); err != nil {
		return err
	}
	b, err := codec.Encode(data)
	if err != nil {
		return Permanent(&Error{Code: CodeInvalid, Text: fmt.Sprintf("event %q: %v", typ, err)})
	}
	return h.Emit(ctx, typ, b, lasting)
}

// named refuses names that could not be stored as they are.
func named(what, name string) error {
	if why := badName(name); why != "" {
		return Permanent(&Error{Code: CodeInvalid, Text: fmt.Sprintf("%s %q %s", what, name, why)})
	}
	return nil
}

// Note adds a row to the step log, such as policy_applied, with the commit of this try.
func Note(ctx context.Context, step string, payload any) error {
	h := host.From(ctx)
	if h == nil {
		return nil
	}
	if err := named("note", step); err != nil {
		return err
	}
	b, err := codec.Encode(payload)
	if err != nil {
		return Permanent(&Error{Code: CodeInvalid, Text: fmt.Sprintf("note %q: %v", step, err)})
	}
	return h.Note(ctx, step, b)
}

// Annotate adds attributes, as alternating keys and values, to the call that ctx belongs to: model, tokens, cost.
func Annotate(ctx context.Context, attrs ...any) {
	if h := host.From(ctx); h != nil {
		h.Annotate(ctx, attrs...)
	}
}

// Now is the store's clock, for measuring and showing, never for deciding. Outside a run and in Execute it is zero.
func Now(ctx context.Context) time.Time {
	if h := host.From(ctx); h != nil {
		return h.Now(ctx)
	}
	return time.Time{}
}

// IdempotencyKey is the key of the call that ctx belongs to, the same for every physical try. Empty outside a call.
func IdempotencyKey(ctx context.Context) string {
	if h := host.From(ctx); h != nil {
		return h.IdempotencyKey(ctx)
	}
	return ""
}

// RunInfo says where node code runs. Attempt counts the run's starts, Visit its visits to nodes, Try the tries of this
// visit; all begin at 1.
type RunInfo struct {
	Run, Node, Tenant, User, Sensitivity, Correlation string
	Attempt, Visit, Try                               int
	Labels                                            map[string]string
	left                                              func(edge string) (int, bool)
}

// Left says how often an edge of this node may still be taken: below zero without a bound, 0 when it is spent or the
// node has no such edge.
func (i RunInfo) Left(edge string) int {
	if i.left == nil {
		return 0
	}
	n, _ := i.left(edge)
	return n
}

// Info says where node code runs; it is empty outside a run.
func Info(ctx context.Context) RunInfo {
	h := host.From(ctx)
	if h == nil {
		return RunInfo{}
	}
	i := h.Info(ctx)
	return RunInfo{Run: i.Run, Node: i.Node, Tenant: i.Tenant, User: i.User, Sensitivity: i.Sensitivity, Correlation: i.Correlation,
		Attempt: i.Attempt, Visit: i.Visit, Try: i.Try, Labels: i.Labels, left: h.Left}
}
