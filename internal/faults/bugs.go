package faults

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
	"pawl/store"
)

// Plant is a bug that is put into a trial: under the processes, in the real store that all of them share, over a process, between
// its engine and the store that dies, or between node code and the engine.
type Plant struct {
	Under, Over func(store.Store) store.Store
	Around      func(host.Host) host.Host
}

// Bug is a planted bug: what a careless change could do to an engine or a store.
type Bug struct {
	Name  string
	Layer string // that must catch it
	Plant Plant
}

// The layers that catch bugs.
const (
	LayerSimulation = "simulation"
	LayerMatrix     = "crash matrix"
	LayerPower      = "power cut"
	LayerLinear     = "linearisability"
)

// Bugs are all that the suite must catch. That the database is opened with synchronous=NORMAL is planted in the line to it.
func Bugs() []Bug {
	over := func(p planted) Plant {
		return Plant{Over: func(s store.Store) store.Store { own := p; own.Store = s; return &own }}
	}
	under := func(p planted) Plant {
		return Plant{Under: func(s store.Store) store.Store { own := p; own.Store = s; return &own }}
	}
	return []Bug{
		{"synchronous=NORMAL", LayerPower, Plant{}},
		{"fencing check dropped", LayerSimulation, under(planted{apply: unfenced, append: unfencedBatch})},
		{"the engine's events written outside the commit", LayerMatrix, over(planted{apply: eventsApart})},
		{"an emitted event without fencing", LayerSimulation, under(planted{append: emittedFreely})},
		{"acknowledgement before commit", LayerPower, under(planted{apply: early})},
		{"result and state in two transactions", LayerMatrix, over(planted{apply: twoParts})},
		{"lease without expiry compare", LayerSimulation, over(planted{hold: 200 * time.Millisecond})},
		{"answer without compare-and-set", LayerLinear, under(planted{apply: lastAnswerWins})},
		{"event cursor off by one", LayerSimulation, under(planted{cursor: -1})},
		{"retry timer dropped", LayerSimulation, over(planted{apply: noRetries})},
		{"unsorted Each merge", LayerSimulation, Plant{Around: func(h host.Host) host.Host { return &unsorted{h} }}},
		{"child spawned twice", LayerSimulation, over(planted{apply: twins})},
		{"retry acknowledged and not made", LayerLinear, under(planted{apply: noSecondAttempts})},
		{"cancel keeps children", LayerSimulation, over(planted{apply: deafBelow})},
		{"cancel ignored", LayerSimulation, over(planted{apply: deaf})},
	}
}

// planted is a store with a bug.
type planted struct {
	store.Store
	apply  func(ctx context.Context, s store.Store, cs []store.Change) error
	append func(ctx context.Context, s store.Store, l store.Lease, b store.Batch) (store.Receipt, error)
	hold   time.Duration // of leases, whatever is asked
	cursor int64         // is added to where events are read from
}

func (p *planted) Apply(ctx context.Context, cs ...store.Change) error {
	if p.apply == nil {
		return p.Store.Apply(ctx, cs...)
	}
	return p.apply(ctx, p.Store, slices.Clone(cs))
}

func (p *planted) Append(ctx context.Context, l store.Lease, b store.Batch) (store.Receipt, error) {
	if p.append == nil {
		return p.Store.Append(ctx, l, b)
	}
	return p.append(ctx, p.Store, l, b)
}

func (p *planted) Claim(ctx context.Context, c store.Claim) ([]store.Run, time.Duration, error) {
	if p.hold > 0 {
		c.Hold = p.hold
	}
	return p.Store.Claim(ctx, c)
}

func (p *planted) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) ([]store.Held, error) {
	if p.hold > 0 {
		hold = p.hold
	}
	return p.Store.Renew(ctx, worker, ls, hold)
}

func (p *planted) Read(ctx context.Context, s store.Scope, run string, q store.Query) ([]store.Row, error) {
	if q.Stream == store.Event && q.After > 0 {
		q.After += p.cursor
	}
	return p.Store.Read(ctx, s, run, q)
}

// epochOf is the epoch that a run has, whoever asks.
func epochOf(ctx context.Context, s store.Store, run string, otherwise int64) int64 {
	if r, err := s.Get(ctx, everything, run); err == nil && r.Epoch > 0 {
		return r.Epoch
	}
	return otherwise
}

func unfenced(ctx context.Context, s store.Store, cs []store.Change) error {
	for i, c := range cs {
		if c.Epoch > 0 && !c.Takeover {
			cs[i].Epoch = epochOf(ctx, s, c.Run, c.Epoch)
		}
	}
	return s.Apply(ctx, cs...)
}

func unfencedBatch(ctx context.Context, s store.Store, l store.Lease, b store.Batch) (store.Receipt, error) {
	l.Epoch = epochOf(ctx, s, l.Run, l.Epoch)
	return s.Append(ctx, l, b)
}

func eventsApart(ctx context.Context, s store.Store, cs []store.Change) error {
	var later []store.Change
	for i, c := range cs {
		if c.Epoch == 0 || c.Takeover {
			continue
		}
		apart := store.Change{Run: c.Run}
		cs[i].Add = nil
		for _, r := range c.Add {
			if r.Told || r.Stream == store.Event {
				apart.Add = append(apart.Add, store.Row{Stream: store.Event, Key: r.Key, Data: r.Data})
			}
			if r.Told = false; r.Stream != store.Event {
				cs[i].Add = append(cs[i].Add, r)
			}
		}
		if len(apart.Add) > 0 {
			later = append(later, apart)
		}
	}
	err := s.Apply(ctx, cs...)
	if err != nil || len(later) == 0 {
		return err
	}
	return s.Apply(ctx, later...)
}

func emittedFreely(ctx context.Context, s store.Store, l store.Lease, b store.Batch) (store.Receipt, error) {
	if len(b.Rows) == 0 || slices.ContainsFunc(b.Rows, func(r store.Row) bool { return r.Stream != store.Event }) {
		return s.Append(ctx, l, b)
	}
	if err := s.Apply(ctx, store.Change{Run: l.Run, Add: b.Rows}); err != nil {
		return store.Receipt{}, err
	}
	rows, err := s.Read(ctx, everything, l.Run, store.Query{Stream: store.Event})
	return store.Receipt{Seqs: []int64{int64(len(rows))}}, err
}

func early(ctx context.Context, s store.Store, cs []store.Change) error {
	go func() { _ = s.Apply(context.WithoutCancel(ctx), cs...) }()
	return nil
}

func twoParts(ctx context.Context, s store.Store, cs []store.Change) error {
	if c := cs[0]; c.Epoch > 0 && !c.Takeover && c.Row != nil {
		first := store.Change{Run: c.Run, Epoch: c.Epoch, Add: c.Add}
		if err := s.Apply(ctx, first); err != nil {
			return err
		}
		cs[0].Add = nil
	}
	return s.Apply(ctx, cs...)
}

func lastAnswerWins(ctx context.Context, s store.Store, cs []store.Change) error {
	err := s.Apply(ctx, cs...)
	if errors.Is(err, store.ErrStale) && len(cs[0].Answer) > 0 {
		cs[0].Answer = nil
		return s.Apply(ctx, cs...)
	}
	return err
}

func noRetries(ctx context.Context, s store.Store, cs []store.Change) error {
	for i, c := range cs {
		rec, err := machine.Decode(c.Row)
		if err == nil && c.Release && slices.ContainsFunc(rec.Waits, func(w machine.Wait) bool { return w.Kind == pawl.WaitsForRetry }) {
			cs[i].After = -1
		}
	}
	return s.Apply(ctx, cs...)
}

func twins(ctx context.Context, s store.Store, cs []store.Change) error {
	for i, c := range cs {
		for _, n := range c.Create {
			if n.Parent != "" {
				n.ID += "-again"
				cs[i].Create = append(cs[i].Create[:len(cs[i].Create):len(cs[i].Create)], n)
			}
		}
	}
	return s.Apply(ctx, cs...)
}

func deaf(ctx context.Context, s store.Store, cs []store.Change) error {
	for i := range cs {
		cs[i].Letters = uncancelled(cs[i].Letters)
	}
	return s.Apply(ctx, cs...)
}

// deafBelow loses the letters by which a run that ends cancels its children.
func deafBelow(ctx context.Context, s store.Store, cs []store.Change) error {
	for i, c := range cs {
		if c.End {
			cs[i].Letters = uncancelled(c.Letters)
		}
	}
	return s.Apply(ctx, cs...)
}

func uncancelled(ls []store.Letter) []store.Letter {
	return slices.DeleteFunc(slices.Clone(ls), func(l store.Letter) bool {
		return slices.ContainsFunc(l.Add, func(r store.Row) bool {
			var m machine.Letter
			return r.Stream == store.Inbox && json.Unmarshal(r.Data, &m) == nil && m.Cancel != nil
		})
	})
}

func noSecondAttempts(ctx context.Context, s store.Store, cs []store.Change) error {
	if len(cs) == 1 && cs[0].Takeover {
		return nil
	}
	return s.Apply(ctx, cs...)
}

// unsorted gives the ends of children in another order than that of the items.
type unsorted struct{ host.Host }

func (u *unsorted) Children(ctx context.Context, f host.Family) ([]host.Child, error) {
	cs, err := u.Host.Children(ctx, f)
	if f.Numbered {
		slices.SortFunc(cs, func(a, b host.Child) int { return len(a.Output) - len(b.Output) })
		slices.Reverse(cs)
	}
	return cs, err
}
