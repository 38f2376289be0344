package faults

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"sync"
	"time"

	"pawl"
)

// Receiver is where effects arrive: a shop, a mail server. One kind knows the idempotency keys that it has seen and does
// nothing twice, the other does whatever it is told.
type Receiver struct {
	knows bool

	mu   sync.Mutex
	seen map[string]string // label by key
	done map[string]int    // how often, by label
}

// receive takes an effect. A key always means the same thing.
func (r *Receiver) receive(key, label string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, again := r.seen[key]
	if key == "" || again && old != label {
		return fmt.Errorf("I5: key %q was used for %q and for %q", key, old, label)
	}
	r.seen[key] = label
	if !again || !r.knows {
		r.done[label]++
	}
	return nil
}

// Done is how often each effect was made.
func (r *Receiver) Done() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.done)
}

// began is the beginning of a node's body.
type began struct {
	run, node string
	at        time.Time
}

// World is what graphs of a trial act on.
type World struct {
	Once, Many *Receiver
	seen       *Witness
	ledger     io.Writer // where effects are noted that must outlive the process; nil: nowhere

	mu     sync.Mutex
	bodies []began
}

// NewWorld makes a world with two receivers.
func NewWorld(w *Witness) *World {
	r := func(knows bool) *Receiver {
		return &Receiver{knows: knows, seen: map[string]string{}, done: map[string]int{}}
	}
	return &World{Once: r(true), Many: r(false), seen: w}
}

// begin notes that a body begins.
func (w *World) begin(ctx context.Context) {
	i := pawl.Info(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bodies = append(w.bodies, began{i.Run, i.Node, time.Now()})
}

func (w *World) begun() []began {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]began(nil), w.bodies...)
}

// effect is something done in the world by a call, that takes a while.
func (w *World) effect(ctx context.Context, label string, takes time.Duration) (uint32, error) {
	if err := wait(ctx, takes); err != nil {
		return 0, err
	}
	key := pawl.IdempotencyKey(ctx)
	if w.ledger != nil {
		if _, err := fmt.Fprintf(w.ledger, "%s %s\n", key, label); err != nil {
			return 0, err
		}
		return sum(label), nil
	}
	for _, r := range []*Receiver{w.Many, w.Once} {
		if err := r.receive(key, label); err != nil {
			w.seen.violation("%v", err)
		}
	}
	return sum(label), nil
}

// wait lets time pass in the node's hands.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sum is a number made of words.
func sum(words ...any) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, words...)
	return h.Sum32()
}
