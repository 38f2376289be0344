package engine

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
	"pawl/store"
)

// Emit makes an event durable and visible at once. Events are numbered in their visit, and apart inside each call, so
// that a re-run knows what it has emitted before, in whatever order its calls run.
func (v *visit) Emit(ctx context.Context, typ string, data []byte, lasting bool) error {
	if len(data) > MaxEvent {
		return exhausted("node %q: event %q has %d bytes, at most %d are allowed", v.n.Name, typ, len(data), MaxEvent)
	}
	if err := v.emitting(ctx); err != nil {
		return err
	}
	if !lasting {
		v.h.e.hub.publish(pawl.Logged{Type: typ, Run: v.h.run.ID, At: v.h.e.now(ctx), Data: data})
		return nil
	}
	if err := v.loadEvents(); err != nil {
		return err
	}
	name, try := "", "" // each physical try of a call begins anew: a re-run need not make those that failed before
	if s := scopeOf(ctx); s != nil {
		if name = s.call.Key; s.try > 1 {
			try = fmt.Sprint(s.try, ".")
		}
	}
	ev := event{Type: typ, Data: data}
	v.mu.Lock()
	if v.emits == nil {
		v.emits = map[string]int{}
	}
	v.emits[try+"/"+name]++
	key := fmt.Sprintf("%d/%s%d/%s", v.rec.Visit, try, v.emits[try+"/"+name], name)
	old, known := v.emitted[key]
	if !known {
		if v.emitted == nil {
			v.emitted = map[string]event{}
		}
		v.emitted[key] = ev
	}
	v.mu.Unlock()
	if known && sameEvent(old, ev) {
		return nil
	}
	if known {
		v.note("diverged", encode(map[string]any{"event": typ, "number": key}))
	}
	_, err := v.record([]store.Row{{Stream: store.Event, Key: key, Data: ev.bytes()}}, nil)
	return err
}

// emitting refuses events of a visit that is over; inside a call they go on while the call does.
func (v *visit) emitting(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if scopeOf(ctx) != nil {
		return outward(v.killed)
	}
	return v.refusal()
}

func (v *visit) loadEvents() error {
	v.mu.Lock()
	loaded := v.eventsLoaded
	v.mu.Unlock()
	if loaded {
		return nil
	}
	var rows []store.Row
	err := v.h.patiently(v.base, func() (err error) {
		rows, err = v.h.e.store.Read(v.base, everything, v.h.run.ID, store.Query{Stream: store.Event, After: v.rec.Events})
		return err
	})
	if err != nil {
		return v.breaks(err)
	}
	known := map[string]event{}
	for _, row := range rows {
		if row.Key == "" {
			continue
		}
		ev, err := eventOf(row)
		if err != nil {
			return v.breaks(err)
		}
		known[row.Key] = ev // the last one: what diverged replaces what was there
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.eventsLoaded {
		v.eventsLoaded, v.emitted = true, known
	}
	return nil
}

// Note adds a row to the step log, with the commit of this try.
func (v *visit) Note(_ context.Context, step string, payload []byte) error {
	if len(payload) > MaxEvent {
		return exhausted("node %q: note %q has %d bytes, at most %d are allowed", v.n.Name, step, len(payload), MaxEvent)
	}
	if err := v.open(); err != nil {
		return err
	}
	v.note(step, payload)
	return nil
}

func (v *visit) note(step string, payload []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notes = append(v.notes, machine.Entry{Name: step, Before: v.rec.Node, After: v.rec.Node, Payload: payload})
}

// Annotate adds attributes to the call that ctx belongs to, or to the visit as a note.
func (v *visit) Annotate(ctx context.Context, attrs ...any) {
	set := map[string]any{}
	for i := 0; i+1 < len(attrs); i += 2 {
		set[fmt.Sprint(attrs[i])] = plain(attrs[i+1])
	}
	s := scopeOf(ctx)
	if s == nil {
		v.note("annotated", encode(set))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attrs == nil {
		s.attrs = map[string]any{}
	}
	maps.Copy(s.attrs, set)
}

// plain makes any value one that can be stored.
func plain(v any) any {
	switch v := v.(type) {
	case nil, bool, string, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return v
	case float64:
		if s := strconv.FormatFloat(v, 'g', -1, 64); s == "NaN" || s == "+Inf" || s == "-Inf" {
			return s
		}
		return v
	}
	return fmt.Sprint(v)
}

func (v *visit) Now(ctx context.Context) time.Time { return v.h.e.now(ctx) }

func (v *visit) Info(context.Context) host.Info {
	h := v.h
	return host.Info{
		Run: h.run.ID, Node: v.n.Name, Tenant: h.run.Tenant, User: h.run.User, Sensitivity: h.head.Sensitivity, Correlation: h.head.Correlation,
		Attempt: v.rec.Attempt, Visit: int(v.rec.Visit - v.rec.First + 1), Try: v.rec.Try, Labels: maps.Clone(h.head.Labels),
	}
}

func (v *visit) Left(edge string) (int, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.p.m.Left(v.rec, edge, v.answered)
}
