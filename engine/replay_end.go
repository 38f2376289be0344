package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pawl"
	"pawl/internal/codec"
	"pawl/internal/host"
	"pawl/internal/machine"
	"pawl/store"
)

// emission is an event of a visit as it was recorded; a re-run that emitted another one left both.
type emission struct {
	versions []event
	met      bool
}

// prepare reads what is looked up later.
func (r *replaying) prepare() error {
	r.emits, r.questions = map[int64]map[string]*emission{}, map[string]question{}
	if err := r.recordedEvents(); err != nil {
		return err
	}
	page := store.Page{Limit: 500}
	for {
		qs, err := r.e.store.Questions(r.ctx, r.scope, store.Filter{Run: r.run.ID}, page)
		if err != nil {
			return err
		}
		for _, q := range qs {
			var row question
			if q.Run != r.run.ID {
				continue
			}
			if err := unmarshal(store.Row{Data: q.Row}, &row); err != nil {
				return err
			}
			r.questions[fmt.Sprint(row.Visit, "/", row.Key)] = row
		}
		if len(qs) < page.Limit {
			return nil
		}
		page.After = qs[len(qs)-1].ID
	}
}

// recordedEvents reads those that nodes have emitted outside of calls: a replay makes no calls.
func (r *replaying) recordedEvents() error {
	const page = 500
	for after := int64(0); ; {
		rows, err := r.e.store.Read(r.ctx, r.scope, r.run.ID, store.Query{Stream: store.Event, After: after, Limit: page})
		if err != nil {
			return err
		}
		for _, row := range rows {
			visit, number, ok := numbered(row.Key)
			if !ok {
				continue
			}
			ev, err := eventOf(row)
			if err != nil {
				return err
			}
			if r.emits[visit] == nil {
				r.emits[visit] = map[string]*emission{}
			}
			em := r.emits[visit][number]
			if em == nil {
				em = new(emission)
				r.emits[visit][number] = em
			}
			em.versions = append(em.versions, ev)
		}
		if len(rows) < page {
			return nil
		}
		after = rows[len(rows)-1].Seq
	}
}

// numbered takes the key of an event apart: visit/number/call. ok is false for one of a call, or of the engine.
func numbered(key string) (visit int64, number string, ok bool) {
	rest, ok := strings.CutSuffix(key, "/")
	v, number, cut := strings.Cut(rest, "/")
	if !ok || !cut || strings.ContainsAny(number, "/.") {
		return 0, "", false
	}
	_, err := fmt.Sscan(v, &visit)
	return visit, number, err == nil
}

// emit compares an event with the recorded one of its number.
func (r *replaying) emit(x *echo, number string, ev event) *Divergence {
	em := r.emits[x.rec.Visit][number]
	if em == nil {
		if x.open { // it may have been about to
			return nil
		}
		d := r.at(DivergedEvent, x.step, "the event %q is emitted, recorded: it is not", ev.Type)
		d.Key, d.Replayed = ev.Type, ev.Data
		return &d
	}
	if !em.met {
		r.out.Events++
	}
	em.met = true
	if slices.ContainsFunc(em.versions, func(was event) bool { return sameEvent(was, ev) }) {
		return nil
	}
	was := em.versions[len(em.versions)-1]
	d := r.at(DivergedEvent, x.step, "the event %q is emitted, recorded: %q", ev.Type, was.Type)
	d.Key, d.Recorded, d.Replayed = ev.Type, was.Data, ev.Data
	if was.Type == ev.Type {
		d.Path, d.Recorded, d.Replayed, _ = codec.Differ(was.Data, ev.Data)
		d.Text = fmt.Sprintf("the event %q has other data: %s", ev.Type, place(d.Path))
	}
	return &d
}

// emitted looks at the end of a visit for recorded events that were not emitted.
func (r *replaying) emitted(x *echo, g *stepGroup) {
	if x.open || r.ofClock(g) {
		return
	}
	for n := 1; ; n++ {
		em := r.emits[x.rec.Visit][fmt.Sprint(n)]
		if em == nil {
			return
		}
		if !em.met {
			was := em.versions[len(em.versions)-1]
			d := r.at(DivergedEvent, g.seq, "the recorded event %q is not emitted", was.Type)
			d.Key, d.Recorded = was.Type, was.Data
			r.diverge(d)
			return
		}
	}
}

// ended compares what the end of a run left: its output and its closing events. Those of earlier attempts are gone.
func (r *replaying) ended(g *stepGroup, mv machine.Move, end host.Ending, state any) error {
	if mv.What == machine.Merges || mv.Next.Attempt != r.last.Attempt || !r.last.Status.Ended() {
		return nil
	}
	if mv.Next.Outcome != r.last.Outcome || mv.Next.Status != r.last.Status {
		d := r.at(DivergedNext, g.seq, "the run is %s (%s), recorded: %s (%s)", mv.Next.Status, mv.Next.Outcome, r.last.Status, r.last.Outcome)
		d.Recorded, d.Replayed = encode(r.last.Outcome), encode(mv.Next.Outcome)
		r.diverge(d)
		return nil
	}
	if was, is := r.last.Err, mv.Next.Err; mv.What == machine.Fails && was != nil && is != nil {
		if d := r.otherError(g, was, is); d != nil {
			r.diverge(*d)
			return nil
		}
	}
	if state == nil {
		var err error
		if state, err = r.p.decode(r.raw); err != nil {
			return err
		}
	}
	if mv.Named {
		if out, err := r.finish(state, end); err == nil { // its error was met before
			was, err := r.e.output(r.ctx, r.run.ID, r.last)
			if err != nil {
				return err
			}
			if path, old, now, differ := codec.Differ(was, out); differ && len(was)+len(out) > 0 {
				d := r.at(DivergedOutput, g.seq, "the run puts out something else: %s", place(path))
				d.Path, d.Recorded, d.Replayed = path, old, now
				r.diverge(d)
				return nil
			}
		}
	}
	return r.closing(g, state, end)
}

// ending is what the last functions are told.
func (r *replaying) ending(mv machine.Move) host.Ending {
	end := host.Ending{
		Run: r.run.ID, Terminal: mv.Next.Node, Outcome: mv.Next.Outcome, Attempt: mv.Next.Attempt,
		Cost: r.last.Before + used(r.run, pawl.MeterUSD), Duration: r.last.Ended.Sub(r.last.Began),
	}
	path := append(slices.Clone(r.path), r.rec.Node)
	end.Path = func() []string { return path }
	if mv.Next.Err != nil {
		end.Err = mv.Next.Err
	}
	return end
}

func (r *replaying) finish(state any, end host.Ending) (out []byte, err error) {
	err = r.aside(r.ctx, "Finish", errors.New("the graph's own code has ended its goroutine"), func() error {
		return guard("Finish", func() (err error) { out, err = r.p.Finish(state, end); return err })
	})
	return out, err
}

// finishes is a decision to end at a named terminal, or to fail where the last functions fail.
func (r *replaying) finishes(t machine.Tick, mv machine.Move, state any) (machine.Move, error) {
	end := r.ending(mv)
	out, err := r.finish(state, end)
	if err == nil && len(out) > MaxState {
		err = exhausted("the output has %d bytes, at most %d are allowed", len(out), MaxState)
	}
	if err == nil {
		_, err = r.closes(state, end)
	}
	if err == nil {
		return mv, nil
	}
	return machine.Fail(r.rec, t, r.hand().at(err))
}

func (r *replaying) closes(state any, end host.Ending) (es []host.Event, err error) {
	err = r.aside(r.ctx, "Closing", errors.New("the graph's own code has ended its goroutine"), func() error {
		return guard("Closing", func() (err error) { es, err = r.p.Closing(state, end); return err })
	})
	for _, v := range es {
		if err == nil && len(v.Data) > MaxEvent {
			err = exhausted("closing event %q has %d bytes, at most %d are allowed", v.Type, len(v.Data), MaxEvent)
		}
	}
	return es, err
}

// closing compares the last events of the run: they stand before the one that says that it has ended.
func (r *replaying) closing(g *stepGroup, state any, end host.Ending) error {
	es, err := r.closes(state, end)
	if err != nil {
		return nil
	}
	was, err := r.lastEvents(len(es))
	if err != nil {
		return err
	}
	for i, v := range es {
		if i < len(was) && was[i].Type == v.Type && bytes.Equal(was[i].Data, v.Data) {
			continue
		}
		d := r.at(DivergedOutput, g.seq, "the closing event %q is another one", v.Type)
		d.Key, d.Replayed = v.Type, v.Data
		if i < len(was) {
			d.Recorded = was[i].Data
			d.Path, _, _, _ = codec.Differ(was[i].Data, v.Data)
		}
		r.diverge(d)
		return nil
	}
	return nil
}

// lastEvents are so many events before the last one.
func (r *replaying) lastEvents(n int) (out []event, err error) {
	if n == 0 {
		return nil, nil
	}
	var tail []store.Row
	for after := int64(0); ; {
		rows, err := r.e.store.Read(r.ctx, r.scope, r.run.ID, store.Query{Stream: store.Event, After: after, Limit: 500})
		if err != nil {
			return nil, err
		}
		tail = append(tail, rows...)
		tail = tail[max(len(tail)-n-1, 0):]
		if len(rows) < 500 {
			break
		}
		after = rows[len(rows)-1].Seq
	}
	for _, row := range tail[:max(len(tail)-1, 0)] {
		ev, err := eventOf(row)
		if err != nil {
			return nil, err
		}
		out = append(out, ev)
	}
	return out, nil
}
