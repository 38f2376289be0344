package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pawl"
	"pawl/internal/machine"
	"pawl/store"
)

// load reads what earlier executions of this visit have recorded.
func (v *visit) load() error {
	v.mu.Lock()
	loaded := v.loaded
	v.mu.Unlock()
	if loaded {
		return nil
	}
	return v.reload()
}

// reload reads them again: others may have written meanwhile. What is there is replaced and never changed in place, so that
// who counts in it sees one moment.
func (v *visit) reload() error {
	j, told, err := v.h.journal(v.base, v.rec)
	if err != nil {
		return v.breaks(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.loaded, v.journal, v.told = true, j, told
	for _, en := range j {
		v.h.saw(en.seq, 0)
	}
	return nil
}

// journal reads the entries of a visit, the last one of each key, and counts the ends of children by family.
func (h *hand) journal(ctx context.Context, rec *machine.Record) (j map[string]*entry, told map[string]int, err error) {
	var rows []store.Row
	err = h.patiently(ctx, func() (err error) {
		rows, err = h.e.store.Read(ctx, everything, h.run.ID, store.Query{Stream: store.Call, After: rec.Calls})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	j, told = map[string]*entry{}, map[string]int{}
	for _, row := range rows {
		en := new(entry)
		if err := unmarshal(row, en); err != nil {
			return nil, nil, fmt.Errorf("journal entry %d: %w", row.Seq, err)
		}
		if en.Visit != rec.Visit {
			continue
		}
		en.seq = row.Seq
		j[en.Key] = en
		if en.Kind == kindChild {
			told[en.Family]++
		}
	}
	return j, told, nil
}

// record appends rows and charges under the lease. A refused charge is a *pawl.BudgetError.
func (v *visit) record(rows []store.Row, charges []store.Charge) ([]int64, error) {
	if len(rows)+len(charges) == 0 {
		return nil, nil
	}
	got, err := v.append(store.Batch{Rows: rows, Charges: charges})
	if err != nil {
		return nil, err
	}
	if r := got.Refused; r != nil {
		return nil, &pawl.BudgetError{Meter: r.Meter, Used: r.Used, Cap: r.Cap}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, row := range rows {
		switch row.Stream {
		case store.Call:
			v.h.saw(got.Seqs[i], 0)
		case store.Event:
			v.h.saw(0, got.Seqs[i])
		}
	}
	for _, c := range charges {
		if c.Meter == pawl.MeterUSD && c.Run == v.h.run.ID {
			v.cost.Add(c.N)
		}
	}
	return got.Seqs, nil
}

// append records a batch, with the hand's context: what has happened is recorded even where the call's own context has
// ended. After the end of the execution nothing is: the next one may be under way, and would be told something else.
func (v *visit) append(b store.Batch) (got store.Receipt, err error) {
	v.mu.Lock()
	if v.over {
		v.mu.Unlock()
		return got, pawl.ErrClosed
	}
	v.under++
	v.mu.Unlock()
	defer v.leave()
	err = v.h.patiently(v.base, func() (err error) {
		got, err = v.h.e.store.Append(v.base, v.h.lease, b)
		return err
	})
	if err != nil {
		return got, v.breaks(err)
	}
	return got, nil
}

// result is what an entry recorded, wherever it is kept.
func (v *visit) result(en *entry) (b []byte, err error) {
	err = v.h.patiently(v.base, func() (err error) { b, err = v.h.e.result(v.base, en); return err })
	if err != nil {
		return nil, v.breaks(err)
	}
	return b, nil
}

// finished says that nothing is recorded from now on, and waits for what is being recorded at this moment.
func (v *visit) finished() {
	v.mu.Lock()
	v.over = true
	v.mu.Unlock()
	v.settle()
}

// patiently repeats what the store could not do, for as long as a run in hand waits for it. It is only for what has
// certainly not been done: an unknown outcome is not repeated.
func (h *hand) patiently(ctx context.Context, do func() error) error {
	began := time.Now()
	return h.repeat(ctx, do, func() bool { return h.interrupted() == nil && time.Since(began) <= h.e.c.Outage })
}

// surely repeats a read without which a run in hand cannot go on at all, for as long as the worker holds it: that the store
// cannot be read must not count as a crash of the node.
func (h *hand) surely(ctx context.Context, read func() error) error {
	began := time.Now()
	return h.repeat(ctx, read, func() bool {
		cause := h.interrupted()
		return (cause == nil || errors.Is(cause, pawl.ErrCancelled)) && (!h.w.draining() || time.Since(began) <= h.e.c.Outage)
	})
}

func (h *hand) repeat(ctx context.Context, do func() error, while func() bool) error {
	for {
		err := do()
		if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil || !while() {
			return err
		}
		h.e.c.Trace.fault("record", err)
		wait(ctx, 200*time.Millisecond, nil)
	}
}

func callRow(en entry) store.Row { return store.Row{Stream: store.Call, Data: encode(en)} }

// orphaned notes the recorded calls that this execution, though it came to its end, did not make any more.
func (v *visit) orphaned() {
	v.mu.Lock()
	var keys []string
	for k, en := range v.journal {
		if !v.keys[k] && (en.Kind == kindCall || en.Kind == kindAnswer) {
			keys = append(keys, k)
		}
	}
	v.mu.Unlock()
	if len(keys) > 0 {
		slices.Sort(keys)
		v.note("orphans", encode(map[string]any{"keys": keys}))
	}
}
