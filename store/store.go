// Package store is the contract of whatever remembers runs: bytes and names, and who may write them.
//
// It never knows a graph, a state or a clock of its own. The machine decides, the engine encodes, and a store applies a
// Change in one transaction or not at all.
//
// Two rules carry everything. A run's row belongs to whoever holds its lease, fenced by the epoch. Everybody else may
// only leave a Letter, close a question, or, where nobody holds the run, take the epoch over.
//
// Start reading at Store, then Change; store/storetest is the law that every store passes.
package store

import (
	"context"
	"errors"
	"iter"
	"time"
)

// The five sentinels. Every error of a store is one of them (errors.Is), wrapped with the operation.
var (
	ErrNotFound    = errors.New("store: not found")
	ErrExists      = errors.New("store: the key or the id is taken") // *Taken names the owner
	ErrStale       = errors.New("store: the run has moved on or the lease is lost")
	ErrUnavailable = errors.New("store: unavailable, nothing was written")
	ErrUnknown     = errors.New("store: unavailable, the outcome is unknown") // repeating is safe
)

// Taken is the ErrExists of an idempotency key or a run id.
type Taken struct{ Owner string }

func (t *Taken) Error() string { return "store: taken by run " + t.Owner }

// Is makes a *Taken an ErrExists.
func (t *Taken) Is(target error) bool { return target == ErrExists }

// Scope is what a caller may see: everything, the runs of one tenant, or those of one user in it (who may be called ""). It
// is part of every read.
type Scope struct {
	All          bool
	AllUsers     bool // of the tenant
	Tenant, User string
}

// Stream names one of a run's append-only sequences. Rows of a stream are numbered from 1 without a gap, by the store.
type Stream string

// The streams of a run.
const (
	Step  Stream = "step"  // the step log, each row with its change of the state
	Event Stream = "event" // what watchers see
	Call  Stream = "call"  // the journal of calls
	Inbox Stream = "inbox" // letters from others to whoever holds the run
	Blob  Stream = "blob"  // large values by content hash: a key that the run already has is not written again
	Audit Stream = "audit" // who did what to the run
)

// Row is one entry of a stream. Seq and At are given by the store when the row is written.
type Row struct {
	Stream Stream
	Seq    int64
	Key    string
	Data   []byte
	At     time.Time // UTC, the store's clock

	// Told, of a row in Step that is written: watchers are told of the step by this very row. It stands in Event too, under
	// the next number there, and is written once. It is not set on a row that is read.
	Told bool
}

// Counter is what a run has used of a meter, and its cap; a Cap below zero means none.
type Counter struct {
	Meter     string
	Used, Cap int64
}

// Run is a run as it is stored. Head is written once at the start, Row by every Change of the holder.
type Run struct {
	ID, Tenant, User       string
	Workflow, Version, Key string
	Parent, Root           string // Root is the run itself where it has no parent
	Status, Node, Outcome  string // names by which runs are listed; a store gives them no meaning
	Priority               int
	Ended                  bool
	Epoch                  int64 // raised by each claim and each takeover
	Inbox                  int64 // number of the last letter
	Worker                 string
	Until                  time.Time // end of the lease; zero: not held
	Due                    time.Time // when it may be claimed next, unless it is held; zero: only after a letter
	Created, Updated       time.Time
	Expires                time.Time // zero: never
	Head, Row              []byte
	Counters               []Counter // sorted by meter
}

// Kind is what workers claim by: workflow and version.
func (r Run) Kind() string { return Kind(r.Workflow, r.Version) }

// Kind joins a workflow's name and version.
func Kind(workflow, version string) string { return workflow + "@" + version }

// NewRun is a run to be created. It is due After that long; below zero: only after a letter.
type NewRun struct {
	ID, Tenant, User       string
	Workflow, Version, Key string
	Parent, Root           string
	Status, Node           string
	Priority               int
	Head, Row              []byte
	Caps                   []Counter // the counters with their caps; Used is usually 0
	Add                    []Row
	After                  time.Duration
	Past                   *Past // not nil: a copy of a run that was made elsewhere
}

// Past makes a new run a copy of one that was made elsewhere. It is created ended and is never due (After does not count), with
// the outcome, the times (zero: now) and the questions that it had; the rows of its Add keep their At. A question whose id
// exists is *Taken by the run of that one.
type Past struct {
	Outcome          string
	Created, Updated time.Time
	Questions        []Question // ID, Closed, Asked, Due and Row; all else is the run's
}

// Letter tells whoever holds a run (or will) something: it appends its rows (usually one to Inbox) and makes the run due
// at once. Only rows in Inbox are numbered, and so noticed by a holder who was busy (Change.Seen). A run that has ended, or
// is gone, is left alone; with Live the whole Change is then refused with ErrStale.
type Letter struct {
	Run  string
	Add  []Row
	Live bool
}

// Question is an open question to a person. Its Row is bytes to the store; Tenant, User, Workflow and Root are the run's.
type Question struct {
	ID, Run      string
	Tenant, User string
	Workflow     string
	Root         string
	Closed       bool
	Asked        time.Time
	Due          time.Time // zero: no deadline
	Row          []byte
}

// Ask opens a question in a Change; it is due After that long, 0: no deadline. An id that exists is left as it is.
type Ask struct {
	ID    string
	Row   []byte
	After time.Duration
}

// Answer closes a question in a Change and replaces its Row. It is refused with ErrStale if the question is not open, or
// its time has passed by the store's clock.
type Answer struct {
	ID  string
	Row []byte
}

// Change is all that one commit does to one run, and the letters, children and restarts that move with it.
//
// Epoch says who writes. Above zero: the holder's; ErrStale if the run's epoch is another, or the run has ended, was released
// or is gone; a lease that has run out counts until somebody else claims the run. Zero: not the holder; Row must then be nil
// (else ErrStale) and only Add, Answer, Letters and Create are used; an Inbox row in Add makes the run due as a letter does.
// With Takeover the writer is not the holder either but the run must not be held by a live lease and must have this Epoch
// (compare and set): the epoch is raised and the row written. To who is not the holder, a run that is gone is ErrNotFound.
type Change struct {
	Run      string
	Epoch    int64
	Takeover bool

	Status, Node, Outcome string // with Row
	Version               string // with Row: the run moved to another version of its graph; empty: unchanged
	Row                   []byte
	Add                   []Row
	Counters              []Counter // not nil: replaces all counters (a new attempt)
	Create                []NewRun  // children and background runs; an id or a Key that is taken is left as it is
	Ask                   []Ask
	Answer                []Answer
	Drop                  []string // open questions that nobody can answer any more: closed as they are
	Letters               []Letter
	Key                   string // not empty: the run owns this idempotency key from now on; *Taken if another run does

	// Seen is the number of the last letter that the writer has read. If the run has more, End is refused with ErrStale,
	// and Release or Takeover makes the run due at once whatever After says.
	Seen    int64
	End     bool          // the run has ended: it is never due again, except by a Takeover without End
	Release bool          // give the lease back; the run is due After (below zero: only after a letter)
	After   time.Duration // with Release, or with Takeover
	Keep    time.Duration // with End: expires after that long; 0: never
}

// Lease is the right to write a run's row.
type Lease struct {
	Run   string
	Epoch int64
}

// Held answers a renewal.
type Held struct {
	Run   string
	Lost  bool  // the epoch is another, or the run is gone, has ended or was released
	Inbox int64 // number of the last letter
}

// Charge adds N (which may be negative: giving back, never refused) to a counter of a run: the holder's own or an ancestor's.
// A meter that is new begins without a cap; a run that is gone is ErrNotFound.
type Charge struct {
	Run, Meter string
	N          int64
}

// Batch is what the holder records while a node runs: rows, charges and lowered caps, all of it or nothing. The caps are
// lowered first: they hold for the batch's own charges.
type Batch struct {
	Rows    []Row
	Charges []Charge
	Caps    []Counter // of the holder's run: the cap becomes the smaller of the two; Used is ignored
}

// Receipt answers a Batch. If Refused is not nil, a charge would have passed that counter's cap: nothing was written.
type Receipt struct {
	Seqs    []int64 // of the rows, in order; for a blob that was there already its number
	Refused *Refusal
}

// Refusal names the counter that would have passed its cap.
type Refusal struct {
	Run string
	Counter
}

// Claim asks for runs that are due and not held. Kinds nil means every kind; Run and Root narrow it to one run or to the
// runs under one root. Higher priorities come first, then what has been due longest.
type Claim struct {
	Worker    string
	Kinds     []string
	Serves    []string // the kinds that the worker is announced with; nil: Kinds
	Run, Root string
	Max       int
	Hold      time.Duration
}

// Announced are the kinds that the worker says it serves.
func (c Claim) Announced() []string {
	if c.Serves != nil {
		return c.Serves
	}
	return c.Kinds
}

// Slot asks for one use of a shared limit: at most Burst at once and one every Every afterwards (0: no rate), and at most
// Max holders together (0: any number). A holder is forgotten after Hold; taking again under one name renews it
// and uses no rate.
type Slot struct {
	Limit, Holder string
	Every         time.Duration
	Burst, Max    int
	Hold          time.Duration
}

// Filter narrows a list; empty fields do not. Held: nil any, else whether a live lease holds the run.
type Filter struct {
	Workflow, Key, Parent, Root string
	Statuses                    []string
	Outcome                     string
	NotVersions                 []string // runs whose version is none of these
	Held                        *bool
	Since                       time.Time // updated then or later; zero: any
	Run, Question               string    // Questions only: of that run (children have it as their Root), or that question
	Open                        bool      // Questions only: not the closed ones
}

// Page is a keyset page, newest first: up to Limit entries (0: 100) that come after the entry with id After.
type Page struct {
	After string
	Limit int
}

// Query reads one stream of a run in order: rows after number After, up to Limit (0: all), only that Key unless empty.
type Query struct {
	Stream Stream
	After  int64
	Limit  int
	Key    string
}

// Worker is a process that has claimed or renewed within its hold.
type Worker struct {
	ID    string
	Kinds []string
	Until time.Time
	Runs  int // held now
}

// Finding is one line of Check: what was looked at, and the fault if there is one.
type Finding struct {
	Name  string // schema, integrity, free_disk, fsync, …
	Value string
	Fault string
}

// Store remembers runs. All methods may be called from several goroutines and, on a shared store, several processes.
// A method that returns nil has made its writes durable. Nothing that is handed in is kept or changed, nothing that is
// handed out is shared.
type Store interface {
	// Create makes new runs, all or none. *Taken if an id exists, or did before Delete, or if (tenant, workflow, key) is owned; an
	// empty key is never owned.
	Create(ctx context.Context, rs ...NewRun) error

	// Claim leases up to Max due runs, raising each one's epoch. next is how long until the next one may become due or its
	// lease runs out (below zero: none is in sight); it is meaningful when fewer than Max came back. A Claim with Max 0 only
	// announces the worker and looks.
	Claim(ctx context.Context, c Claim) (rs []Run, next time.Duration, err error)

	// Renew extends leases and the worker's presence.
	Renew(ctx context.Context, worker string, ls []Lease, hold time.Duration) ([]Held, error)

	// Apply makes the changes in one transaction, all or none.
	Apply(ctx context.Context, cs ...Change) error

	// Append records a batch under a lease: ErrStale if the epoch is another.
	Append(ctx context.Context, l Lease, b Batch) (Receipt, error)

	// Take uses a shared limit: wait is 0 when it was taken, else how long to wait before asking again.
	Take(ctx context.Context, s Slot) (wait time.Duration, err error)

	// Give returns a holder's place in a shared limit; the rate stays used.
	Give(ctx context.Context, limit, holder string) error

	// Expire removes up to max runs, of those that have expired and of their descendants, with everything they left, and says how
	// many; fewer than max: there is no more to remove now. A run stays until its descendants have ended. They go with it,
	// whenever they would expire themselves, and before it: a pass that is cut off leaves no orphan, and the next one goes on.
	Expire(ctx context.Context, max int) (int, error)

	// Delete erases a run that has ended, with all its descendants (by Parent) and everything they left: rows, blobs, questions,
	// keys, counters; all or nothing. ErrNotFound if there is no such run, or not any more; ErrStale if it or a descendant has not
	// ended. row stays behind as Seq 1 of the run's Audit, for whoever could see the run; every other read of it is ErrNotFound.
	// Its id stays taken for good; the keys, and the descendants' ids, are free.
	Delete(ctx context.Context, run string, row []byte) error

	// Get reads one run: ErrNotFound also when the scope does not see it.
	Get(ctx context.Context, s Scope, run string) (Run, error)

	// List pages through runs by id, newest first. Head and Row are included.
	List(ctx context.Context, s Scope, f Filter, p Page) ([]Run, error)

	// Read reads a stream of a run: ErrNotFound if there is no such run in the scope.
	Read(ctx context.Context, s Scope, run string, q Query) ([]Row, error)

	// Questions pages through questions by id, newest first.
	Questions(ctx context.Context, s Scope, f Filter, p Page) ([]Question, error)

	// Workers lists the live workers.
	Workers(ctx context.Context) ([]Worker, error)

	// Watch yields the ids of runs that changed, each at least once after its change, coalesced while the reader is busy; an
	// empty id means that any run may have. It counts from the call, not only from the loop, and ends with ctx. Changes of other
	// processes come within a quarter of a second. Claim and Renew change only who holds a run: nobody is told.
	Watch(ctx context.Context) iter.Seq2[string, error]

	// Now is the store's clock, in UTC: the one clock that leases, timers and stored times go by.
	Now(ctx context.Context) (time.Time, error)

	// Check examines schema, integrity, disk and latency for `pawl doctor`.
	Check(ctx context.Context) ([]Finding, error)

	// Close waits for writes under way and releases everything. Calls after it are ErrUnavailable.
	Close() error
}
