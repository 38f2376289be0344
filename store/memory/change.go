package memory

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"pawl/store"
	"pawl/store/internal/rules"
)

// tx is one transaction: before something changes its old value is noted, and put back if a later part is refused.
type tx struct {
	s       *Store
	now     int64
	old     []run // the first is the run as it was before; ptrs says whose
	ptrs    []*run
	created []*run
	keys    []keyWas
	quests  []questWas
	told    []string
}

type keyWas struct {
	key key
	r   *run
}

type questWas struct {
	id string
	q  *store.Question
}

func (s *Store) begin() *tx {
	t := &s.tx
	t.now = s.now()
	t.old, t.ptrs, t.created, t.keys, t.quests, t.told = t.old[:0], t.ptrs[:0], t.created[:0], t.keys[:0], t.quests[:0], t.told[:0]
	return t
}

// touch notes a run before its first change.
func (t *tx) touch(r *run) {
	if !slices.Contains(t.ptrs, r) {
		t.old, t.ptrs = append(t.old, *r), append(t.ptrs, r)
		t.told = append(t.told, r.id)
	}
}

func (t *tx) commit() {
	for i, r := range t.ptrs {
		if o := &t.old[i]; o.Lease != r.Lease || o.version != r.version {
			t.s.place(r, t.now)
		}
	}
	for _, r := range t.created {
		t.s.order.add(r)
		t.s.place(r, t.now)
		t.told = append(t.told, r.id)
	}
	for _, w := range t.quests {
		if w.q == nil {
			t.s.asked.add(w.id)
		}
	}
	clear(t.old) // what was replaced shall not be kept alive
	clear(t.ptrs)
	t.s.hub.Tell(t.told...)
}

func (t *tx) rollback() {
	for i, r := range t.ptrs {
		for key, seq := range r.blobs {
			if seq > int64(len(t.old[i].logs[rules.Blob])) {
				delete(r.blobs, key)
			}
		}
		*r = t.old[i]
	}
	for _, r := range t.created {
		delete(t.s.runs, r.id)
	}
	for _, w := range slices.Backward(t.keys) {
		if w.r == nil {
			delete(t.s.keys, w.key)
		} else {
			t.s.keys[w.key] = w.r
		}
	}
	for _, w := range slices.Backward(t.quests) {
		if w.q == nil {
			delete(t.s.questions, w.id)
		} else {
			t.s.questions[w.id] = w.q
		}
	}
}

// Create makes new runs.
func (s *Store) Create(ctx context.Context, rs ...store.NewRun) error {
	if err := s.enter(ctx, "create"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	t := s.begin()
	for i := range rs {
		if err := t.create(&rs[i]); err != nil {
			t.rollback()
			return wrap("create", err)
		}
	}
	t.commit()
	return nil
}

// Apply makes changes.
func (s *Store) Apply(ctx context.Context, cs ...store.Change) error {
	if err := s.enter(ctx, "apply"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	t := s.begin()
	for i := range cs {
		if err := t.change(&cs[i]); err != nil {
			t.rollback()
			return wrap("apply", err)
		}
	}
	t.commit()
	return nil
}

func (t *tx) create(n *store.NewRun) error {
	if t.s.taken(n.ID) {
		return &store.Taken{Owner: n.ID}
	}
	r := &run{
		id: n.ID, tenant: n.Tenant, user: n.User, workflow: n.Workflow, version: n.Version,
		parent: n.Parent, root: n.Root, status: n.Status, node: n.Node, priority: n.Priority,
		kind: store.Kind(n.Workflow, n.Version), created: t.now, updated: t.now, head: bytes.Clone(n.Head), row: bytes.Clone(n.Row),
		counters: sortedCounters(n.Caps), Lease: rules.Lease{Due: rules.Due(t.now, n.After)},
	}
	if r.root == "" {
		r.root = r.id
	}
	if err := t.bind(r, n.Key); err != nil {
		return err
	}
	t.s.runs[r.id] = r
	t.created = append(t.created, r)
	if n.Past != nil {
		return t.past(r, n)
	}
	_, err := t.add(r, n.Add)
	return err
}

// taken tells whether an id belongs to a run, or belonged to one that was deleted.
func (s *Store) taken(id string) bool {
	_, dead := s.graves[id]
	return dead || s.runs[id] != nil
}

// past makes a new run a copy of one that has been.
func (t *tx) past(r *run, n *store.NewRun) error {
	r.Lease = rules.Lease{Ended: true}
	r.outcome, r.created, r.updated = n.Past.Outcome, rules.Stamp(n.Past.Created, t.now), rules.Stamp(n.Past.Updated, t.now)
	for i := range n.Add {
		stream, err := rules.Place(&n.Add[i])
		if err != nil {
			return err
		}
		r.append(stream, &n.Add[i], rules.Stamp(n.Add[i].At, t.now))
	}
	for _, q := range n.Past.Questions {
		if old := t.s.questions[q.ID]; old != nil {
			return &store.Taken{Owner: old.Run}
		}
		t.quests = append(t.quests, questWas{q.ID, nil})
		t.s.questions[q.ID] = &store.Question{
			ID: q.ID, Run: r.id, Tenant: r.tenant, User: r.user, Workflow: r.workflow, Root: r.root, Closed: q.Closed,
			Asked: rules.Time(rules.Stamp(q.Asked, t.now)), Due: rules.Time(rules.Stamp(q.Due, 0)), Row: bytes.Clone(q.Row),
		}
	}
	return nil
}

// bind gives the run an idempotency key in the place of the one that it has.
func (t *tx) bind(r *run, name string) error {
	k := key{r.tenant, r.workflow, name}
	if name == "" || t.s.keys[k] == r {
		return nil
	}
	if o := t.s.keys[k]; o != nil {
		return &store.Taken{Owner: o.id}
	}
	if r.key != "" {
		was := key{r.tenant, r.workflow, r.key}
		t.keys = append(t.keys, keyWas{was, r})
		delete(t.s.keys, was)
	}
	t.keys = append(t.keys, keyWas{k, nil})
	t.s.keys[k], r.key = r, name
	return nil
}

func (t *tx) change(c *store.Change) error {
	r := t.s.runs[c.Run]
	if r == nil {
		if c.Epoch > 0 && !c.Takeover {
			return store.ErrStale
		}
		return store.ErrNotFound
	}
	if err := r.Admit(c, t.now); err != nil {
		return err
	}
	t.touch(r)
	owner := c.Takeover || c.Epoch != 0
	if owner {
		if err := t.bind(r, c.Key); err != nil {
			return err
		}
		t.write(r, c)
	}
	letters, err := t.add(r, c.Add)
	if err != nil {
		return err
	}
	if letters && (c.Takeover || !owner) {
		r.Letter(t.now)
	}
	return t.rest(r, c, owner)
}

// write replaces what only a holder or a takeover may.
func (t *tx) write(r *run, c *store.Change) {
	if c.Row != nil {
		r.status, r.node, r.outcome, r.row, r.updated = c.Status, c.Node, c.Outcome, bytes.Clone(c.Row), t.now
		if c.Version != "" {
			r.version, r.kind = c.Version, store.Kind(r.workflow, c.Version)
		}
	}
	if c.Counters != nil {
		r.counters = sortedCounters(c.Counters)
	}
	r.Settle(c, t.now)
}

// rest does what a change does outside its run.
func (t *tx) rest(r *run, c *store.Change, owner bool) error {
	for i := range c.Create {
		n := &c.Create[i]
		if t.s.taken(n.ID) || n.Key != "" && t.s.keys[key{n.Tenant, n.Workflow, n.Key}] != nil {
			continue
		}
		if err := t.create(n); err != nil {
			return err
		}
	}
	if owner {
		for _, a := range c.Ask {
			t.ask(r, a)
		}
		for _, id := range c.Drop {
			if q := t.s.questions[id]; q != nil && !q.Closed {
				t.close(q, q.Row)
			}
		}
	}
	for _, a := range c.Answer {
		q := t.s.questions[a.ID]
		if q == nil || q.Closed || !q.Due.IsZero() && rules.Time(t.now).Compare(q.Due) >= 0 {
			return store.ErrStale
		}
		t.close(q, bytes.Clone(a.Row))
	}
	for _, l := range c.Letters {
		if err := t.letter(l); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) ask(r *run, a store.Ask) {
	if t.s.questions[a.ID] != nil {
		return
	}
	q := &store.Question{
		ID: a.ID, Run: r.id, Tenant: r.tenant, User: r.user, Workflow: r.workflow, Root: r.root,
		Asked: rules.Time(t.now), Row: bytes.Clone(a.Row),
	}
	if a.After != 0 {
		q.Due = rules.Time(rules.After(t.now, a.After))
	}
	t.quests = append(t.quests, questWas{a.ID, nil})
	t.s.questions[a.ID] = q
}

// close puts a closed copy in the question's place: the old one may have to come back.
func (t *tx) close(q *store.Question, row []byte) {
	if !slices.ContainsFunc(t.quests, func(w questWas) bool { return w.id == q.ID && w.q == nil }) {
		t.quests = append(t.quests, questWas{q.ID, q})
	}
	closed := *q
	closed.Closed, closed.Row = true, row
	t.s.questions[q.ID] = &closed
	t.told = append(t.told, q.Run)
}

func (t *tx) letter(l store.Letter) error {
	r := t.s.runs[l.Run]
	if r == nil || r.Ended {
		if l.Live {
			return store.ErrStale
		}
		return nil
	}
	t.touch(r)
	if _, err := t.add(r, l.Add); err != nil {
		return err
	}
	r.Letter(t.now)
	return nil
}

// add appends rows and tells whether letters were among them.
func (t *tx) add(r *run, rows []store.Row) (letters bool, err error) {
	for i := range rows {
		n, err := rules.Place(&rows[i])
		if err != nil {
			return false, err
		}
		r.append(n, &rows[i], t.now)
		letters = letters || n == rules.Inbox
	}
	return letters, nil
}

// append adds a row to a stream and answers its number.
func (r *run) append(stream int, row *store.Row, now int64) int64 {
	if stream == rules.Blob {
		if seq, ok := r.blobs[row.Key]; ok {
			return seq
		}
	}
	e := entry{row.Key, bytes.Clone(row.Data), now}
	r.logs[stream] = longer(r.logs[stream], e)
	if row.Told {
		r.logs[rules.Event] = longer(r.logs[rules.Event], e)
	}
	seq := int64(len(r.logs[stream]))
	switch stream {
	case rules.Inbox:
		r.Inbox = seq
	case rules.Blob:
		if r.blobs == nil {
			r.blobs = map[string]int64{}
		}
		r.blobs[row.Key] = seq
	}
	return seq
}

// longer appends an entry. A log has room for twice as many when it is full: long ones are copied less often than by append.
func longer(log []entry, e entry) []entry {
	if n := len(log); n == cap(log) {
		log = slices.Grow(log, max(n, 4))
	}
	return append(log, e)
}

func sortedCounters(cs []store.Counter) []store.Counter {
	cs = slices.Clone(cs)
	slices.SortFunc(cs, func(a, b store.Counter) int { return strings.Compare(a.Meter, b.Meter) })
	return cs
}
