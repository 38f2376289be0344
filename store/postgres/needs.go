package postgres

import (
	"errors"

	"pawl/store"
	"pawl/store/internal/rules"
)

// needs are what has to be locked and read before an operation can be decided.
type needs struct {
	runs      []string // all that it touches, new ones too
	counted   []string // runs whose counters
	blobRuns  []string // blobs that may be there already: run and key, side by side
	blobKeys  []string
	questions []string
	tenants   []string // keys that may be owned: of new runs
	workflows []string
	keys      []string
	bindRuns  []string // and of runs that are there
	bindKeys  []string
	ids       []string // of runs to be made
	bytes     int
}

func (n *needs) add(o *needs) {
	n.runs = append(n.runs, o.runs...)
	n.counted = append(n.counted, o.counted...)
	n.blobRuns = append(n.blobRuns, o.blobRuns...)
	n.blobKeys = append(n.blobKeys, o.blobKeys...)
	n.questions = append(n.questions, o.questions...)
	n.tenants = append(n.tenants, o.tenants...)
	n.workflows = append(n.workflows, o.workflows...)
	n.keys = append(n.keys, o.keys...)
	n.bindRuns = append(n.bindRuns, o.bindRuns...)
	n.bindKeys = append(n.bindKeys, o.bindKeys...)
	n.ids = append(n.ids, o.ids...)
}

// rows notes the rows that go to a run. One of a stream that there is not is refused before anything is read.
func (n *needs) rows(run string, rows []store.Row) (blobs bool, err error) {
	for i := range rows {
		r := &rows[i]
		if _, err := rules.Place(r); err != nil {
			return blobs, err
		}
		if r.Stream == store.Blob {
			blobs = true
			n.blobRuns, n.blobKeys = append(n.blobRuns, run), append(n.blobKeys, r.Key)
		}
		n.bytes += len(r.Data)
	}
	return blobs, nil
}

func (n *needs) create(r *store.NewRun) error {
	n.runs, n.ids = append(n.runs, r.ID), append(n.ids, r.ID)
	if r.Past != nil {
		for i := range r.Past.Questions {
			n.questions = append(n.questions, r.Past.Questions[i].ID)
			n.bytes += len(r.Past.Questions[i].Row)
		}
	}
	n.bytes += len(r.Head) + len(r.Row)
	if r.Key != "" {
		n.tenants, n.workflows, n.keys = append(n.tenants, r.Tenant), append(n.workflows, r.Workflow), append(n.keys, r.Key)
	}
	_, err := n.rows(r.ID, r.Add)
	return err
}

// change tells too whether the change is plain: nothing but what a holder of a run writes to it step by step.
func (n *needs) change(c *store.Change) (plain bool, err error) {
	n.runs = append(n.runs, c.Run)
	n.bytes += len(c.Row)
	blobs, err := n.rows(c.Run, c.Add)
	if err != nil {
		return false, err
	}
	plain = c.Epoch > 0 && !c.Takeover && !c.End && !c.Release && c.Version == "" && c.Key == "" && c.Counters == nil && !blobs &&
		len(c.Create)+len(c.Ask)+len(c.Answer)+len(c.Drop)+len(c.Letters) == 0
	var errs []error
	for i := range c.Create {
		errs = append(errs, n.create(&c.Create[i]))
	}
	for i := range c.Letters {
		l := &c.Letters[i]
		n.runs = append(n.runs, l.Run)
		_, err := n.rows(l.Run, l.Add)
		errs = append(errs, err)
	}
	if c.Key != "" {
		n.bindRuns, n.bindKeys = append(n.bindRuns, c.Run), append(n.bindKeys, c.Key)
	}
	for _, a := range c.Ask {
		n.questions = append(n.questions, a.ID)
		n.bytes += len(a.Row)
	}
	for _, a := range c.Answer {
		n.questions = append(n.questions, a.ID)
		n.bytes += len(a.Row)
	}
	n.questions = append(n.questions, c.Drop...)
	return plain, errors.Join(errs...)
}

// batch is the same for a batch under a lease. One without rows is not plain: it writes nothing by which the database would notice
// that what is remembered is old.
func (n *needs) batch(l store.Lease, b *store.Batch) (plain bool, err error) {
	n.runs = append(n.runs, l.Run)
	blobs, err := n.rows(l.Run, b.Rows)
	if len(b.Caps) > 0 {
		n.counted = append(n.counted, l.Run)
	}
	for _, c := range b.Charges {
		n.runs, n.counted = append(n.runs, c.Run), append(n.counted, c.Run)
	}
	return !blobs && len(b.Rows) > 0 && len(b.Caps)+len(b.Charges) == 0, err
}
