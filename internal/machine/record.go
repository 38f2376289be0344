package machine

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"pawl"
	"pawl/internal/codec"
)

// Record is the moving part of a run: everything that decides what happens next and is not the state itself. A decision makes
// a new one and leaves the one that it is given as it is.
type Record struct {
	Status      pawl.Status `json:"s"`
	Node        string      `json:"n"`            // where the run stands; of an ended run the terminal
	Fingerprint string      `json:"g"`            // of the graph
	Attempt     int         `json:"a"`            // starts of the run, from 1
	Steps       int64       `json:"t"`            // rows of the step log
	Visit       int64       `json:"v"`            // number of the visit that is under way, from 1 and never reset
	First       int64       `json:"fv"`           // first visit of this attempt
	Try         int         `json:"y"`            // of the visit, from 1
	Moves       int64       `json:"mv,omitempty"` // decisions: with the epoch it tells any two records of a run apart
	Epoch       int64       `json:"o,omitempty"`  // when this record was written: claims above it did not end in a commit

	Taken Counts `json:"e,omitempty"` // bounded edges by node and edge, in this attempt
	Turn  Counts `json:"u,omitempty"` // since the last answer

	Inbox  int64 `json:"i,omitempty"`  // letters that were read
	Calls  int64 `json:"c,omitempty"`  // journal entries before this visit
	Events int64 `json:"ev,omitempty"` // events before this visit

	Waits    []Wait   `json:"w,omitempty"`
	Families []Family `json:"k,omitempty"` // children of this visit
	Cancel   *Cancel  `json:"x,omitempty"`
	Waiters  []Waiter `json:"l,omitempty"` // who is told of the end

	Full   int64  `json:"f,omitempty"`  // step that holds the last full copy of the state
	Last   int64  `json:"sl,omitempty"` // step that holds the last change of it
	Size   int32  `json:"z,omitempty"`  // bytes of the state
	Deltas int32  `json:"d,omitempty"`  // bytes of changes since the full copy
	Hash   string `json:"h,omitempty"`  // of the state

	Began   time.Time `json:"b,omitzero"` // this attempt
	Ended   time.Time `json:"q,omitzero"`
	Mark    time.Time `json:"m,omitzero"`   // runtime is counted up to here
	Runtime int64     `json:"r,omitempty"`  // milliseconds
	Person  int64     `json:"pe,omitempty"` // milliseconds of this attempt in which it waited for people, in children too
	Asked   time.Time `json:"as,omitzero"`  // it has waited for nobody before that
	Credit  int64     `json:"cr,omitempty"` // milliseconds since Mark in which a child waited for people
	Before  int64     `json:"bc,omitempty"` // micro-dollars of earlier attempts
	Idle    bool      `json:"j,omitempty"`  // waits for a person, or for a version, since Mark
	Grace   bool      `json:"p,omitempty"`  // Runtime was spent and an error edge taken

	Output  json.RawMessage `json:"out,omitempty"`
	Large   string          `json:"lg,omitempty"` // key of the blob that holds the output instead
	Outcome string          `json:"oc,omitempty"`
	Merged  string          `json:"mi,omitempty"`
	Err     *pawl.Error     `json:"er,omitempty"`
}

// Wait is one thing that a visit waits for. Due zero: only a letter ends it.
type Wait struct {
	Kind     string    `json:"k"`
	Key      string    `json:"n,omitempty"`
	Question string    `json:"q,omitempty"`
	Due      time.Time `json:"d,omitzero"`
	Reason   string    `json:"r,omitempty"`
}

// Family is the children of one call: numbers 0 to Started-1 exist, Done of them have ended, as far as letters were read.
type Family struct {
	Key      string `json:"k"`
	Numbered bool   `json:"m,omitempty"`
	N        int    `json:"n"`
	Started  int    `json:"s"`
	Done     int    `json:"d"` // below zero: to be counted again
	Failed   bool   `json:"f,omitempty"`
	Heard    int    `json:"h,omitempty"` // letters about their ends that were read
	Early    int    `json:"y,omitempty"` // ends counted from the journal before their letters were read
}

// Cancel is who cancelled a run, and why.
type Cancel struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Waiter is a visit of another run that waits for this one under a key of its journal.
type Waiter struct {
	Run    string `json:"r"`
	Visit  int64  `json:"v"`
	Try    int    `json:"t,omitempty"` // that the child's attempt belongs to: its failure does not count in a later one
	Key    string `json:"k"`
	Family string `json:"f"`
}

// Letter is what others tell the holder of a run. One of its fields is set.
type Letter struct {
	Cancel *Cancel `json:"cancel,omitempty"`
	Answer string  `json:"answer,omitempty"` // the question that was answered; its answer is in the journal
	Child  *Child  `json:"child,omitempty"`  // a child that ended; its result is in the journal
	Waiter *Waiter `json:"waiter,omitempty"`
	Wake   string  `json:"wake,omitempty"` // look again, for this reason
}

// Child says that a child of a family has ended.
type Child struct {
	Family string    `json:"f"`
	Visit  int64     `json:"v"`
	Failed bool      `json:"x,omitempty"`
	Person int64     `json:"p,omitempty"` // milliseconds in which the child waited for people
	Asked  time.Time `json:"a,omitzero"`  // it has waited for nobody before that
}

// Encode turns a record into the bytes of a run's row.
func (r *Record) Encode() ([]byte, error) {
	return new(Pen).Append(make([]byte, 0, 512+len(r.Output)), r)
}

// Pen writes the records of a run one after the other, with every commit one, so by hand: Decode is the standard one, and a
// test holds both together. It keeps what it wrote of the fields that steps leave as they are.
type Pen struct {
	steady steady
	text   []byte // of the steady fields
}

// steady are the fields that steps leave as they are.
type steady struct {
	status      pawl.Status
	fingerprint string
	attempt     int
	first       int64
	began       time.Time
}

func (p *Pen) fields(r *Record) []byte {
	now := steady{r.Status, r.Fingerprint, r.Attempt, r.First, r.Began}
	if p.text != nil && now == p.steady {
		return p.text
	}
	o := codec.FlatOn(p.text[:0])
	o.String("s", string(r.Status))
	o.String("g", r.Fingerprint)
	o.Int("a", int64(r.Attempt))
	o.Int("fv", r.First)
	o.Time("b", r.Began)
	p.steady, p.text = now, o.Fields()
	return p.text
}

// Append is Encode behind what b holds.
func (p *Pen) Append(b []byte, r *Record) ([]byte, error) {
	o := codec.FlatOn(b)
	o.Add(p.fields(r))
	o.String("n", r.Node)
	o.Int("t", r.Steps)
	o.Int("v", r.Visit)
	o.Int("y", int64(r.Try))
	o.Int("mv", r.Moves)
	o.Int("o", r.Epoch)
	o.Int("i", r.Inbox)
	o.Int("c", r.Calls)
	o.Int("ev", r.Events)
	o.Int("f", r.Full)
	o.Int("sl", r.Last)
	o.Int("z", int64(r.Size))
	o.Int("d", int64(r.Deltas))
	o.String("h", r.Hash)
	o.Time("q", r.Ended)
	o.Time("m", r.Mark)
	o.Int("r", r.Runtime)
	o.Int("pe", r.Person)
	o.Time("as", r.Asked)
	o.Int("cr", r.Credit)
	o.Flag("j", r.Idle)
	o.Flag("p", r.Grace)
	o.Int("bc", r.Before)
	o.String("oc", r.Outcome)
	o.String("mi", r.Merged)
	o.String("lg", r.Large)
	o.Raw("out", r.Output)
	r.Taken.put(o, "e")
	r.Turn.put(o, "u")
	err := errors.Join(
		some(o, "w", r.Waits, len(r.Waits)),
		some(o, "k", r.Families, len(r.Families)), some(o, "l", r.Waiters, len(r.Waiters)),
	)
	if r.Cancel != nil {
		err = errors.Join(err, o.Value("x", r.Cancel))
	}
	if r.Err != nil {
		err = errors.Join(err, o.Value("er", r.Err))
	}
	return o.Bytes(), err
}

func some(o *codec.Flat, name string, v any, n int) error {
	if n == 0 {
		return nil
	}
	return o.Value(name, v)
}

// Decode reads a run's row.
func Decode(row []byte) (*Record, error) {
	r := new(Record)
	err := json.Unmarshal(row, r)
	return r, err
}

// clone copies what a decision changes in place.
func (r *Record) clone() *Record {
	c := *r
	c.Waits, c.Families, c.Waiters = slices.Clone(r.Waits), slices.Clone(r.Families), slices.Clone(r.Waiters)
	return &c
}

// Wait returns the wait for a key.
func (r *Record) Wait(kind, key string) (Wait, bool) {
	for _, w := range r.Waits {
		if w.Kind == kind && w.Key == key {
			return w, true
		}
	}
	return Wait{}, false
}

// Family returns the children of a key.
func (r *Record) Family(key string) (Family, bool) {
	for _, f := range r.Families {
		if f.Key == key {
			return f, true
		}
	}
	return Family{}, false
}

// RetryIn is how long the next try has still to wait: a letter may have woken the run before its time.
func (r *Record) RetryIn(now time.Time) time.Duration {
	w, ok := r.Wait(pawl.WaitsForRetry, "")
	if !ok {
		return 0
	}
	return max(w.Due.Sub(now), 0)
}

// Used is the runtime used up to now.
func (r *Record) Used(now time.Time) time.Duration {
	d := time.Duration(r.Runtime) * time.Millisecond
	if !r.Idle && !r.Mark.IsZero() && r.Ended.IsZero() {
		d += max(now.Sub(r.Mark)-time.Duration(r.Credit)*time.Millisecond, 0)
	}
	return d
}

// account counts the runtime up to now. took is what an execution took that began while the record said Idle: whoever
// answered is no longer waited for. What is less than a millisecond stays to be counted, or short visits would be free.
func (r *Record) account(now time.Time, took time.Duration) {
	used, passed := r.Used(now), max(now.Sub(r.Mark), 0)
	person := min(r.Credit, passed.Milliseconds())
	if r.Idle {
		took = min(max(took, 0), passed)
		used += took
		person = (passed - took).Milliseconds()
	}
	if person > 0 && r.Person == 0 {
		r.Asked = r.Mark
	}
	r.Person, r.Credit = r.Person+person, 0
	r.Runtime = used.Milliseconds()
	r.Mark = now.Add(-(used % time.Millisecond))
}

// credit takes off the runtime since Mark what a child waited for people: that part of its waiting which must lie after Mark,
// even if it was all done as early as could be. Runtime up to Mark was counted, and what another child waited before was taken
// off then; what two of them waited since counts once.
func (r *Record) credit(c Child) {
	r.Credit = max(r.Credit, c.Person-max(r.Mark.Sub(c.Asked), 0).Milliseconds())
}
