package faults

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"pawl/store"
)

// oracle is the contract of stores once more, written for nothing but to be looked through: maps, and a copy of them all before
// each call that may be refused. It knows no time but what is over, what is now and what is far away.
type oracle struct {
	runs map[string]*seenRun
	asks map[string]*seenAsk
	tick int // how many calls there were: what was due first is due longest
}

// when is a time: none, over, due since a call, or far away.
type when struct {
	set, far bool
	tick     int
}

// far is a time that does not come while a test runs; over is one that has passed before the next call.
const (
	far  = time.Hour
	over = time.Nanosecond
)

func (o *oracle) after(d time.Duration) when { return when{set: true, far: d >= far, tick: o.tick} }

// seenRun is what the oracle knows of a run.
type seenRun struct {
	new          store.NewRun
	status, node string
	outcome      string
	version, key string
	row          string
	ended, live  bool // live: held, and not over
	owned        bool // claimed, and not given back
	epoch, inbox int64
	worker       string
	due, expires when
	streams      map[store.Stream][]store.Row
	counters     map[string]store.Counter
}

// seenAsk is what it knows of a question.
type seenAsk struct {
	run, row string
	closed   bool
	due      when
}

func newOracle() *oracle { return &oracle{runs: map[string]*seenRun{}, asks: map[string]*seenAsk{}} }

// copy is a copy that shares nothing that a call changes.
func (o *oracle) copy() *oracle {
	c := newOracle()
	c.tick = o.tick
	for id, r := range o.runs {
		n := *r
		n.streams = map[store.Stream][]store.Row{}
		for s, rows := range r.streams {
			n.streams[s] = slices.Clone(rows)
		}
		n.counters = maps.Clone(r.counters)
		c.runs[id] = &n
	}
	for id, q := range o.asks {
		n := *q
		c.asks[id] = &n
	}
	return c
}

// try makes a call on a copy, which takes the oracle's place unless the call is refused.
func (o *oracle) try(do func(*oracle) error) error {
	o.tick++
	c := o.copy()
	err := do(c)
	if err == nil {
		*o = *c
	}
	return err
}

func (o *oracle) owner(tenant, workflow, key string) string {
	for id, r := range o.runs {
		if key != "" && r.key == key && r.new.Tenant == tenant && r.new.Workflow == workflow {
			return id
		}
	}
	return ""
}

func (o *oracle) create(n store.NewRun) error {
	if o.runs[n.ID] != nil {
		return &store.Taken{Owner: n.ID}
	}
	if owner := o.owner(n.Tenant, n.Workflow, n.Key); owner != "" {
		return &store.Taken{Owner: owner}
	}
	r := &seenRun{new: n, status: n.Status, node: n.Node, version: n.Version, key: n.Key, row: string(n.Row),
		streams: map[store.Stream][]store.Row{}, counters: map[string]store.Counter{}}
	if n.After >= 0 {
		r.due = o.after(n.After)
	}
	for _, c := range n.Caps {
		r.counters[c.Meter] = c
	}
	for _, row := range n.Add {
		r.add(row)
	}
	o.runs[n.ID] = r
	return nil
}

// add appends a row and gives its number.
func (r *seenRun) add(row store.Row) int64 {
	if row.Stream == store.Blob {
		for i, b := range r.streams[store.Blob] {
			if b.Key == row.Key {
				return int64(i + 1)
			}
		}
	}
	told := row.Told
	row.Told = false
	r.streams[row.Stream] = append(r.streams[row.Stream], row)
	if told {
		r.streams[store.Event] = append(r.streams[store.Event], row)
	}
	if row.Stream == store.Inbox {
		r.inbox++
	}
	return int64(len(r.streams[row.Stream]))
}

// wake makes a run due at once, unless it has been due for longer.
func (o *oracle) wake(r *seenRun) {
	if !r.ended && (!r.due.set || r.due.far) {
		r.due = o.after(0)
	}
}

// ready are the runs that may be claimed, the first one first; those with the same place stand together.
func (o *oracle) ready(kinds []string) (ids []string) {
	for id, r := range o.runs {
		if !r.ended && r.due.set && !r.due.far && !r.live && slices.Contains(kinds, store.Kind(r.new.Workflow, r.version)) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return o.place(a, b) })
	return ids
}

func (o *oracle) place(a, b string) int {
	x, y := o.runs[a], o.runs[b]
	return cmp.Or(cmp.Compare(y.new.Priority, x.new.Priority), cmp.Compare(x.due.tick, y.due.tick))
}

func (r *seenRun) owns(epoch int64) bool { return r != nil && !r.ended && r.owned && r.epoch == epoch }

func (o *oracle) apply(c store.Change) error {
	r := o.runs[c.Run]
	if r == nil {
		if c.Epoch > 0 && !c.Takeover {
			return store.ErrStale
		}
		return store.ErrNotFound
	}
	holder := c.Takeover || c.Epoch > 0
	switch {
	case c.Takeover && (r.live || r.epoch != c.Epoch),
		!c.Takeover && c.Epoch > 0 && !r.owns(c.Epoch),
		!holder && c.Row != nil,
		holder && c.End && r.inbox > c.Seen:
		return store.ErrStale
	}
	if holder {
		if owner := o.owner(r.new.Tenant, r.new.Workflow, c.Key); owner != "" && owner != c.Run {
			return &store.Taken{Owner: owner}
		}
		o.hold(r, c)
	}
	for _, row := range c.Add {
		r.add(row)
		if row.Stream == store.Inbox && (c.Takeover || !holder) {
			o.wake(r)
		}
	}
	return o.beside(r, c, holder)
}

// hold is what only a holder, or who takes a run over, may do to it.
func (o *oracle) hold(r *seenRun, c store.Change) {
	r.key = cmp.Or(c.Key, r.key)
	if c.Row != nil {
		r.status, r.node, r.outcome, r.row, r.version = c.Status, c.Node, c.Outcome, string(c.Row), cmp.Or(c.Version, r.version)
	}
	if c.Counters != nil {
		r.counters = map[string]store.Counter{}
		for _, n := range c.Counters {
			r.counters[n.Meter] = n
		}
	}
	if c.Takeover {
		r.epoch++
	}
	if !c.Takeover && !c.End && !c.Release {
		return
	}
	r.worker, r.owned, r.live, r.due, r.expires, r.ended = "", false, false, when{}, when{}, c.End
	switch {
	case c.End && c.Keep > 0:
		r.expires = o.after(c.Keep)
	case c.End:
	case r.inbox > c.Seen:
		r.due = o.after(0)
	case c.After >= 0:
		r.due = o.after(c.After)
	}
}

// beside is what a change does to questions and to other runs.
func (o *oracle) beside(r *seenRun, c store.Change, holder bool) error {
	for _, n := range c.Create {
		_ = o.create(n) // what is there is left as it is
	}
	if holder {
		for _, a := range c.Ask {
			if o.asks[a.ID] == nil {
				q := &seenAsk{run: r.new.ID, row: string(a.Row)}
				if a.After != 0 {
					q.due = o.after(a.After)
				}
				o.asks[a.ID] = q
			}
		}
		for _, id := range c.Drop {
			if q := o.asks[id]; q != nil {
				q.closed = true
			}
		}
	}
	for _, a := range c.Answer {
		q := o.asks[a.ID]
		if q == nil || q.closed || q.due.set && !q.due.far && q.due.tick < o.tick {
			return store.ErrStale
		}
		q.closed, q.row = true, string(a.Row)
	}
	for _, l := range c.Letters {
		to := o.runs[l.Run]
		if to == nil || to.ended {
			if l.Live {
				return store.ErrStale
			}
			continue
		}
		for _, row := range l.Add {
			to.add(row)
		}
		o.wake(to)
	}
	return nil
}

func (o *oracle) append(l store.Lease, b store.Batch) (rec store.Receipt, refused string, err error) {
	r := o.runs[l.Run]
	if !r.owns(l.Epoch) {
		return rec, "", store.ErrStale
	}
	for _, c := range b.Caps {
		n, known := r.counters[c.Meter]
		if !known {
			n = store.Counter{Meter: c.Meter, Cap: -1}
		}
		if c.Cap >= 0 && (n.Cap < 0 || c.Cap < n.Cap) {
			n.Cap = c.Cap
		}
		r.counters[c.Meter] = n
	}
	for _, c := range b.Charges {
		to := o.runs[c.Run]
		if to == nil {
			return rec, "", store.ErrNotFound
		}
		n, known := to.counters[c.Meter]
		if !known {
			n = store.Counter{Meter: c.Meter, Cap: -1}
		}
		if n.Used += c.N; c.N > 0 && n.Cap >= 0 && n.Used > n.Cap {
			return rec, c.Run + " " + c.Meter, errRefused
		}
		to.counters[c.Meter] = n
	}
	for _, row := range b.Rows {
		rec.Seqs = append(rec.Seqs, r.add(row))
	}
	return rec, "", nil
}

// expire removes what has expired.
func (o *oracle) expire() (n int) {
	for id, r := range o.runs {
		if !r.ended || !r.expires.set || r.expires.far {
			continue
		}
		n++
		delete(o.runs, id)
		maps.DeleteFunc(o.asks, func(_ string, q *seenAsk) bool { return q.run == id })
	}
	return n
}
