package postgres

import (
	"pawl/store"
	"pawl/store/internal/rules"
)

// group is what a commit is about: what was read, and what the operations in it make of that. Nothing is sent to the database
// before all have been decided, so that one that is refused leaves nothing behind.
type group struct {
	now    int64 // 0 where it is not known: then nothing may depend on it
	runs   map[string]*run
	graves map[string]bool // ids of runs that were deleted
	order  []*run          // the runs that are to be written

	counters  map[string]map[string]store.Counter // by run and meter
	spent     []pair                              // those that have changed
	blobs     map[pair]int64                      // by run and key
	questions map[string]*question
	owners    map[ownedKey]string
	free      []int64 // numbers for new runs
	log       []entry
	told      []string // runs to tell the watchers of
	undo      []func() // how to take back the operation under way
}

type pair struct{ run, key string }

type ownedKey struct{ tenant, workflow, key string }

// run is what a commit has to know of a run before it may write to it, and what it writes.
type run struct {
	rules.Lease
	n, rev                        int64
	id, tenant, workflow, version string
	key, root                     string
	priority                      int
	seqs                          [len(rules.Streams)]int64
	touched, moved, recounted     bool // its row is written; its lease too; all its counters are new
	bound                         bool // it got another key
	made                          *store.NewRun
	wrote                         *store.Change // whose names and row are written
}

// question is what a commit knows of a question, and what it makes of it.
type question struct {
	id, run, tenant string
	n               int64 // number of the run that asked
	closed          bool
	asked, due      int64
	made            *store.Ask
	answered        *store.Answer
	touched         bool
}

// entry is a row of the log.
type entry struct {
	n      int64
	stream int
	seq    int64
	told   *int64
	at     *int64 // nil: the time of the commit
	key    string
	data   []byte
}

// carryOut decides an operation. What was refused has left nothing in the group.
func (g *group) carryOut(o *op) {
	g.undo = g.undo[:0]
	entries, told := len(g.log), len(g.told)
	if o.err = o.run(g); o.err == nil {
		return
	}
	for i := len(g.undo) - 1; i >= 0; i-- {
		g.undo[i]()
	}
	g.log, g.told = g.log[:entries], g.told[:told]
}

// touch notes that a run is about to be written.
func (g *group) touch(r *run) {
	was, count := *r, len(g.order)
	if !r.touched {
		r.touched = true
		g.order = append(g.order, r)
	}
	g.undo = append(g.undo, func() { *r, g.order = was, g.order[:count] })
}

// append adds a row to a stream and answers its number. The run has been touched.
func (g *group) append(r *run, row *store.Row) (int64, error) {
	stream, err := rules.Place(row)
	if err != nil {
		return 0, err
	}
	if stream == rules.Blob {
		at := pair{r.id, row.Key}
		if seq, there := g.blobs[at]; there {
			return seq, nil
		}
		g.blobs[at] = r.seqs[stream] + 1
		g.undo = append(g.undo, func() { delete(g.blobs, at) })
	}
	r.seqs[stream]++
	e := entry{n: r.n, stream: stream, seq: r.seqs[stream], key: row.Key, data: row.Data}
	if row.Told {
		r.seqs[rules.Event]++
		told := r.seqs[rules.Event]
		e.told = &told
	}
	g.log = append(g.log, e)
	if stream == rules.Inbox {
		r.Inbox = e.seq
	}
	return e.seq, nil
}

// set changes a counter.
func (g *group) set(r *run, c store.Counter) {
	of := g.counters[r.id]
	was, had := of[c.Meter]
	count := len(g.spent)
	g.spent = append(g.spent, pair{r.id, c.Meter})
	if of == nil {
		of = map[string]store.Counter{}
		g.counters[r.id] = of
	}
	of[c.Meter] = c
	g.undo = append(g.undo, func() {
		g.spent = g.spent[:count]
		if delete(of, c.Meter); had {
			of[c.Meter] = was
		}
	})
}
