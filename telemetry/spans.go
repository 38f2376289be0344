package telemetry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"pawl"
	"pawl/engine"
)

// trace makes the spans of one run. Their ids follow from the run and the number of what they tell, which is written once.
type trace struct {
	o      *outbox
	run    engine.Report
	id     []byte
	above  []byte // the span under which the run's own stands; nil: none
	common attrs
}

// trace is nil where nothing is to be told: whoever started the run does not record it, or it is a copy of another store's.
func (o *outbox) trace(_ context.Context, r engine.Report) *trace {
	tr := &trace{o: o, run: r, id: traceID(r.Root)}
	if from, ok := parseParent(r.Traceparent); ok {
		if !from.sampled {
			return nil
		}
		tr.id, tr.above = from.trace, from.span
	}
	if r.Imported != "" {
		return nil
	}
	if r.Parent != "" {
		tr.above = spanID(r.ID, "child")
	}
	tr.common.add("pawl.run.id", r.ID)
	tr.common.add("pawl.workflow", r.Workflow)
	tr.common.add("langfuse.trace.name", r.Workflow)
	tr.common.add("user.id", r.User)
	tr.common.add("pawl.tenant", r.Tenant)
	tr.common.add("session.id", r.Correlation)
	tr.common.add("gen_ai.conversation.id", r.Correlation)
	return tr
}

// step is the spans of one step: its own, those of the calls that were recorded for it, and the run's where its attempt ended.
func (tr *trace) step(ctx context.Context, s engine.Reported) []*tracepb.Span {
	end, took := s.OccurredAt, time.Duration(s.DurationMS)*time.Millisecond
	node := cmp.Or(s.StateBefore, s.Name)
	sp := tr.span(spanID(tr.run.ID, "step", s.Seq), tr.attempt(s.Attempt), node, end.Add(-took), end)
	if s.Name != node {
		sp.Name += " " + s.Name
	}
	a := slices.Clone(tr.common)
	a.add("langfuse.observation.type", "span")
	a.add("pawl.node", node)
	a.add("pawl.step", s.Seq)
	a.add("pawl.step.name", s.Name)
	a.add("pawl.step.to", s.StateAfter)
	a.add("pawl.edge", s.Edge)
	a.add("pawl.version", s.Version)
	a.add("pawl.attempt", s.Attempt)
	a.add("pawl.visit", s.Visit)
	a.add("pawl.try", s.Try)
	a.add("pawl.worker", s.Worker)
	if usd, ok := number(s.CostUSD.String()); ok {
		a.add("pawl.cost_usd", usd)
	}
	for _, n := range s.Notes {
		if n.Name == "annotated" {
			a.annotated(n.Payload)
			continue
		}
		e := &tracepb.Span_Event{TimeUnixNano: uint64(end.UnixNano()), Name: clean(n.Name)}
		(*attrs)(&e.Attributes).add("pawl.edge", n.Edge)
		if tr.o.t.c.Content {
			(*attrs)(&e.Attributes).add("pawl.payload", string(n.Payload))
		}
		sp.Events = append(sp.Events, e)
	}
	if tr.o.t.c.Content {
		a.add("langfuse.observation.input", tr.state(ctx, s.Seq-1))
		a.add("langfuse.observation.output", tr.state(ctx, s.Latest))
	}
	if s.After != nil {
		why := "resumed"
		if s.After.Err != nil {
			why = "retried"
		}
		sp.Links = append(sp.Links, link(tr.id, spanID(tr.run.ID, "step", s.After.Seq), why))
	}
	sp.Attributes = a
	fail(sp, s.Err)
	out := []*tracepb.Span{sp}
	for _, c := range s.Calls {
		out = append(out, tr.call(s, sp, c))
	}
	if s.Ends {
		out = append(out, tr.whole(ctx, s))
	}
	return out
}

// state is the state after a row, where it can be had.
func (tr *trace) state(ctx context.Context, row int64) string {
	if row < 1 {
		return ""
	}
	raw, err := tr.o.engine.As(pawl.Caller{Scopes: []string{pawl.ScopeAll}}).State(ctx, tr.run.ID, row)
	if err != nil {
		return ""
	}
	return string(raw)
}

// call is the span of one entry of the journal, which is one try of a call.
func (tr *trace) call(s engine.Reported, step *tracepb.Span, c engine.Journaled) *tracepb.Span {
	id := spanID(tr.run.ID, "call", c.Seq)
	if c.Child != "" && c.Try == 1 {
		id = spanID(c.Child, "child") // known to the child too, which stands under it
	}
	sp := tr.span(id, step.SpanId, c.Key, c.At.Add(-time.Duration(c.Took)*time.Millisecond), c.At)
	if c.Kind != "call" {
		sp.Name = c.Kind + " " + sp.Name
	}
	a := slices.Clone(tr.common)
	a.add("pawl.node", cmp.Or(s.StateBefore, s.Name))
	a.add("pawl.step", s.Seq)
	a.add("pawl.call.key", c.Key)
	a.add("pawl.call.kind", c.Kind)
	a.add("pawl.call", c.Seq)
	a.add("pawl.visit", c.Visit)
	a.add("pawl.try", c.Try)
	a.add("pawl.child", c.Child)
	if c.Physical > 0 {
		a.add("langfuse.observation.metadata.attempts", c.Physical)
	}
	a.named(c.Attrs, sp)
	if tr.o.t.c.Content {
		a.add("langfuse.observation.input", string(c.For))
		a.add("langfuse.observation.output", string(c.Result))
	}
	sp.Attributes = a
	if c.Physical > 1 {
		for _, before := range slices.Backward(s.Calls) {
			if before.Key == c.Key && before.Seq < c.Seq {
				sp.Links = append(sp.Links, link(tr.id, spanID(tr.run.ID, "call", before.Seq), "retried"))
				break
			}
		}
	}
	fail(sp, c.Err)
	return sp
}

// whole is the span of an attempt of the run, told when it has ended.
func (tr *trace) whole(ctx context.Context, last engine.Reported) *tracepb.Span {
	r := tr.run
	latest := r.Attempt == last.Attempt // else another attempt has begun meanwhile, and what the row said of this one is gone
	began := r.Began
	if !latest {
		began = tr.began(ctx, last)
	}
	sp := tr.span(tr.attempt(last.Attempt), tr.above, "invoke_workflow "+r.Workflow, began, last.OccurredAt)
	a := slices.Clone(tr.common)
	a.add("gen_ai.operation.name", "invoke_workflow")
	a.add("langfuse.observation.type", "agent")
	a.add("langfuse.version", last.Version)
	a.add("pawl.version", last.Version)
	a.add("pawl.attempt", last.Attempt)
	a.add("pawl.terminal", last.StateAfter)
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		a.add("langfuse.trace.metadata."+name, r.Labels[name])
	}
	failed := last.Err
	if latest {
		failed = r.Err
		a.add("pawl.status", string(r.Status))
		a.add("pawl.outcome", r.Outcome)
		a.add("pawl.merged_into", r.MergedInto)
		for _, m := range r.Meters {
			a.add("pawl.meter."+m.Name, m.Used)
		}
		if tr.o.t.c.Content {
			a.add("langfuse.observation.input", string(r.Input))
			a.add("langfuse.observation.output", string(r.Output))
		}
	}
	sp.Attributes = a
	if last.Attempt > 1 {
		sp.Links = append(sp.Links, link(tr.id, tr.attempt(last.Attempt-1), "restarted"))
	}
	if r.ForkOf != "" {
		sp.Links = append(sp.Links, link(tr.of(ctx, r.ForkOf), spanID(r.ForkOf, "step", r.ForkStep), "forked"))
	}
	if r.Origin != "" {
		sp.Links = append(sp.Links, link(tr.of(ctx, r.Origin), spanID(r.Origin, "run", 1), "enqueued"))
	}
	fail(sp, failed)
	return sp
}

// began is when an earlier attempt did.
func (tr *trace) began(ctx context.Context, last engine.Reported) time.Time {
	for after := int64(0); after < last.Seq; {
		r, err := tr.o.engine.Report(ctx, tr.run.ID, after, page)
		if err != nil || len(r.Steps) == 0 {
			break
		}
		for _, s := range r.Steps {
			if after = s.Latest; s.Begins && s.Attempt == last.Attempt {
				return s.OccurredAt
			}
		}
	}
	return last.OccurredAt
}

// of is the trace of another run, which may be gone.
func (tr *trace) of(ctx context.Context, run string) []byte {
	r, err := tr.o.engine.Report(ctx, run, 0, 1)
	if err != nil {
		return traceID(run)
	}
	if from, ok := parseParent(r.Traceparent); ok {
		return from.trace
	}
	return traceID(r.Root)
}

func (tr *trace) attempt(n int) []byte { return spanID(tr.run.ID, "run", n) }

func (tr *trace) span(id, above []byte, name string, from, to time.Time) *tracepb.Span {
	if from.After(to) {
		from = to
	}
	return &tracepb.Span{
		TraceId: tr.id, SpanId: id, ParentSpanId: above, Name: clean(name), Kind: tracepb.Span_SPAN_KIND_INTERNAL, Flags: 1,
		StartTimeUnixNano: uint64(from.UnixNano()), EndTimeUnixNano: uint64(to.UnixNano()),
	}
}

func link(trace, span []byte, why string) *tracepb.Span_Link {
	l := &tracepb.Span_Link{TraceId: trace, SpanId: span, Flags: 1}
	(*attrs)(&l.Attributes).add("pawl.link", why)
	return l
}

// fail makes a span one of an error, with the stack that a panic left in its text.
func fail(sp *tracepb.Span, e *pawl.Error) {
	if e == nil {
		return
	}
	message, stack, _ := strings.Cut(e.Error(), "\ngoroutine ")
	message = clean(strings.TrimSpace(message))
	sp.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: message}
	a := (*attrs)(&sp.Attributes)
	a.add("error.type", e.Code)
	a.add("langfuse.observation.level", "ERROR")
	a.add("langfuse.observation.status_message", message)
	event := &tracepb.Span_Event{TimeUnixNano: sp.EndTimeUnixNano, Name: "exception"}
	ea := (*attrs)(&event.Attributes)
	ea.add("exception.type", e.Code)
	ea.add("exception.message", message)
	if stack != "" {
		ea.add("exception.stacktrace", "goroutine "+stack)
	}
	sp.Events = append(sp.Events, event)
}

func traceID(root string) []byte { return digest(16, "trace", root) }

func spanID(run, what string, n ...any) []byte { return digest(8, run, what, fmt.Sprint(n...)) }

func digest(n int, parts ...string) []byte {
	sum := sha256.Sum256([]byte("pawl\x00" + strings.Join(parts, "\x00")))
	return sum[:n]
}

// parent is what a traceparent names.
type parent struct {
	trace, span []byte
	sampled     bool
}

// parseParent reads a traceparent of the W3C's form; of a later version than 00 what that one has.
func parseParent(text string) (p parent, ok bool) {
	parts := strings.Split(strings.TrimSpace(text), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 ||
		len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 || strings.ToLower(text) != text {
		return p, false
	}
	var flags []byte
	for _, f := range []struct {
		from string
		to   *[]byte
	}{{parts[1], &p.trace}, {parts[2], &p.span}, {parts[3], &flags}} {
		b, err := hex.DecodeString(f.from)
		if err != nil {
			return p, false
		}
		*f.to = b
	}
	p.sampled = flags[0]&1 == 1
	return p, slices.Max(p.trace) > 0 && slices.Max(p.span) > 0
}
