package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"pawl/store"
	"pawl/store/internal/rules"
)

// tx is the writer's transaction, and what the writer remembers from one to the next so that it need not read again what it
// has just written. The memory is bounded, and forgotten when another process has written or something was taken back.
type tx struct {
	w       *writer
	now     int64
	changed []string // runs to tell the watchers of
	dirty   bool     // the operation has written
	args    []any    // room for those of a statement
	tails   []byte   // room for a run's tails

	runs    map[string]*run
	kinds   map[string]int64
	workers map[string]presence
	damaged map[int64]bool // runs that could not be read: no claim looks at them again
}

// used keeps the room of arguments for the next statement, but not what they were.
func (t *tx) used(args []any) {
	clear(args)
	t.args = args
}

// remembered is how many runs the writer keeps in mind.
const remembered = 4096

// run is what the writer has to know of a run before it may write to it.
type run struct {
	rules.Lease
	n, kind               int64
	id, tenant, root, key string
	workflow, version     string
	priority              int
	shown                 shown
	tails                 tails
	grown                 bool // tails are not written yet
}

// shown is what lists of runs show of a run's progress.
type shown struct{ status, node, outcome string }

func (t *tx) begin(now int64) {
	t.now, t.changed = now, t.changed[:0]
	if len(t.runs) > remembered {
		clear(t.runs)
	}
}

func (t *tx) forget() {
	t.runs, t.kinds, t.workers = map[string]*run{}, map[string]int64{}, map[string]presence{}
}

// errMixed is a refusal after a write that no savepoint can take back: the group is undone, and each operation repeated alone.
var errMixed = errors.New("refused in the middle")

// carryOut runs an operation inside the group. A refusal is the operation's own; any other error is the whole group's.
func (t *tx) carryOut(o *op) error {
	told := len(t.changed)
	t.dirty = false
	if o.guard {
		if err := t.w.exec("SAVEPOINT op"); err != nil {
			return err
		}
	}
	o.err = o.run(t)
	switch {
	case o.err == nil:
	case !errors.Is(o.err, store.ErrNotFound) && !errors.Is(o.err, store.ErrExists) && !errors.Is(o.err, store.ErrStale):
		return o.err
	case t.dirty:
		if !o.guard {
			return errMixed
		}
		t.changed = t.changed[:told]
		t.forget()
		if err := t.w.exec("ROLLBACK TO op"); err != nil {
			return err
		}
	}
	if o.guard {
		return t.w.exec("RELEASE op")
	}
	return nil
}

// exec writes, and answers how many rows.
func (t *tx) exec(text string, args ...any) (int64, error) {
	t.dirty = true
	r, err := t.w.write(text, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// row reads one row and tells whether there is one.
func (t *tx) row(text string, args []any, dest ...any) (bool, error) {
	st, err := t.w.stmt(text)
	if err != nil {
		return false, err
	}
	switch err := st.QueryRow(args...).Scan(dest...); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	default:
		return err == nil, err
	}
}

// each reads rows. They are read to the end before anything is done with them, since a statement must not be used twice at once.
func each[T any](t *tx, text string, args []any, scan func(scan func(...any) error) (T, error)) ([]T, error) {
	st, err := t.w.stmt(text)
	if err != nil {
		return nil, err
	}
	rows, err := st.Query(args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scan)
}

func collect[T any](rows *sql.Rows, scan func(scan func(...any) error) (T, error)) ([]T, error) {
	defer func() { _ = rows.Close() }()
	out := []T{}
	for rows.Next() {
		v, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

const loadRun = `
SELECT r.n, r.tenant, r.root, r.key, r.workflow, r.version, r.priority,
	l.kind, l.ended, l.epoch, l.inbox, l.worker, l.until, l.due, l.expires, l.tails, p.tails, p.status, p.node, p.outcome
FROM run r JOIN lease l ON l.n = r.n JOIN progress p ON p.n = r.n WHERE r.id = ?`

// load brings a run to mind; nil: there is none.
func (t *tx) load(id string) (*run, error) {
	if r := t.runs[id]; r != nil {
		return r, nil
	}
	r := &run{id: id}
	var a, b []byte
	found, err := t.row(loadRun, []any{id}, &r.n, &r.tenant, &r.root, &r.key, &r.workflow, &r.version, &r.priority,
		&r.kind, &r.Ended, &r.Epoch, &r.Inbox, &r.Worker, &r.Until, &r.Due, &r.Expires, &a, &b,
		&r.shown.status, &r.shown.node, &r.shown.outcome)
	if err != nil || !found {
		return nil, err
	}
	r.tails.grow(a)
	r.tails.grow(b)
	t.runs[id] = r
	return r, nil
}

// ready is what the index of claimable runs has for a run; nil: nothing, since somebody holds it or nothing wakes it.
func (r *run) ready(now int64) any {
	if r.Ended || r.Due == 0 || r.Held(now) {
		return nil
	}
	return r.Due
}

const (
	saveLease = `
UPDATE lease SET kind = ?, ended = ?, epoch = ?, inbox = ?, worker = ?, until = ?, due = ?, expires = ?, tails = ?, ready = ? WHERE n = ?`
	saveTails = `UPDATE lease SET inbox = ?, tails = ? WHERE n = ?` // touches no index
)

// save writes the lease if it is not what it was, and the tails if nobody has yet.
func (t *tx) save(r *run, was rules.Lease) (err error) {
	switch {
	case r.Lease != was:
		_, err = t.exec(saveLease, r.kind, r.Ended, r.Epoch, r.Inbox, r.Worker, r.Until, r.Due, r.Expires, r.tails.bytes(), r.ready(t.now), r.n)
	case r.grown:
		_, err = t.exec(saveTails, r.Inbox, r.tails.bytes(), r.n)
	}
	r.grown = false
	return err
}

// kind is the number of a kind, given to it when its first run comes.
func (t *tx) kind(name string, add bool) (int64, error) {
	if n := t.kinds[name]; n != 0 {
		return n, nil
	}
	var n int64
	found, err := t.row("SELECT n FROM kind WHERE name = ?", []any{name}, &n)
	if err != nil || !found && !add {
		return 0, err
	}
	if !found {
		t.dirty = true
		r, err := t.w.write("INSERT INTO kind (name) VALUES (?)", name)
		if err != nil {
			return 0, err
		}
		if n, err = r.LastInsertId(); err != nil {
			return 0, err
		}
	}
	t.kinds[name] = n
	return n, nil
}

// Rows of the log: each value that is bound costs about as much as a column that is written, and most rows have no key and are
// not told.
const (
	insertLog   = `INSERT INTO log (prev, run, stream, seq, at, data, key) VALUES (?, ?, ?, ?, ?, ?, '')`
	insertTold  = `INSERT INTO log (prev, run, stream, seq, at, data, told, key) VALUES (?, ?, ?, ?, ?, ?, ?, '')`
	insertKeyed = `INSERT INTO log (prev, run, stream, seq, at, data, told, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
)

// insert puts a row behind the end of its stream, and answers its id.
func (t *tx) insert(r *run, stream int, row *store.Row, at int64) (int64, error) {
	t.dirty = true
	end, text := r.tails[stream], insertLog
	args := append(t.args[:0], end.id, r.n, stream, end.seq+1, at, row.Data)
	if row.Told || row.Key != "" {
		var told any
		if row.Told {
			told = r.tails[rules.Event].id
		}
		text, args = insertTold, append(args, told)
	}
	if row.Key != "" {
		text, args = insertKeyed, append(args, row.Key)
	}
	res, err := t.w.write(text, args...)
	t.used(args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// append adds a row to a stream and answers its number. The caller saves the tails, and the lease that counts letters.
func (t *tx) append(r *run, row *store.Row) (int64, error) { return t.appendAt(r, row, t.now) }

func (t *tx) appendAt(r *run, row *store.Row, at int64) (int64, error) {
	stream, err := rules.Place(row)
	if err != nil {
		return 0, err
	}
	if stream == rules.Blob {
		var seq int64
		if found, err := t.row("SELECT seq FROM blob WHERE run = ? AND key = ?", []any{r.n, row.Key}, &seq); found || err != nil {
			return seq, err
		}
	}
	id, err := t.insert(r, stream, row, at)
	if err != nil {
		return 0, err
	}
	if row.Told {
		if err := t.extend(r, rules.Event, id); err != nil {
			return 0, err
		}
	}
	if err := t.extend(r, stream, id); err != nil {
		return 0, err
	}
	seq := r.tails[stream].seq
	if stream == rules.Inbox {
		r.Inbox = seq
	}
	if stream == rules.Blob {
		_, err = t.exec("INSERT INTO blob (run, key, seq, id) VALUES (?, ?, ?, ?)", r.n, row.Key, seq, id)
	}
	return seq, err
}

// extend makes a row of the log the end of a stream.
func (t *tx) extend(r *run, stream int, id int64) (err error) {
	end := &r.tails[stream]
	if id <= end.id {
		return fmt.Errorf("log row %d comes after %d", id, end.id) // a chain must not turn on itself
	}
	end.seq, end.id, r.grown = end.seq+1, id, true
	if end.seq%stride == 0 {
		_, err = t.exec("INSERT INTO mark (run, stream, seq, id) VALUES (?, ?, ?, ?)", r.n, stream, end.seq, id)
	}
	return err
}
